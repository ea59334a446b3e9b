# SPDX-License-Identifier: BSD-3-Clause
"""Sharing with the kernel: packets that the driver does not steer to itself go to the Linux netdev.

The netdev is a real TAP in a network namespace of the test's own; in the guest it is the kernel's.
"""

import time
from typing import Iterator

import pytest
from rig.bifurcation import (
    FREE_PORT, NETDEV, TAKEN_PORT, answer, arp_request, datagram, echo_request,
    know_the_peer, reaches_kernel, shared_port,
)
from rig.packets import opaque, port_mac
from rig.stack import Stack
from scapy.layers.inet import ICMP
from scapy.layers.l2 import ARP

from functional.conftest import OpenStack


@pytest.fixture(scope="module")
def isolated(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    with shared_port(open_stack, "--flow-isolate-all", datapath=datapath) as stack:
        yield stack


@pytest.fixture
def normal(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    with shared_port(open_stack, datapath=datapath) as stack:
        yield stack


@pytest.fixture(autouse=True)
def no_rules_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "isolated" in request.fixturenames:
        request.getfixturevalue("isolated").testpmd.flush_flows(0)


@pytest.mark.guest
def test_the_kernel_answers_in_isolated_mode(isolated: Stack) -> None:
    reply = answer(isolated.wires[0], arp_request())
    assert (reply[ARP].op, reply[ARP].hwsrc) == (2, port_mac(0))
    for number in range(20):
        echo = answer(isolated.wires[0], echo_request(number))
        assert (echo[ICMP].type, echo[ICMP].seq) == (0, number)
        assert bytes(echo[ICMP].payload)[:200] == bytes(range(200))
    assert isolated.testpmd.stats(0).rx_packets == 0
    received, sent = isolated.kernel_packets(NETDEV)
    assert received >= 21 and sent >= 21


@pytest.mark.guest
def test_only_what_a_rule_takes_comes_to_us(isolated: Stack) -> None:
    wire, testpmd = isolated.wires[0], isolated.testpmd
    assert reaches_kernel(wire, TAKEN_PORT)
    rule = testpmd.create_flow(0, f"ingress pattern eth / ipv4 / udp dst is {TAKEN_PORT} / end"
                                  " actions queue index 1 / end")
    position = testpmd.mark_output()
    assert not reaches_kernel(wire, TAKEN_PORT)
    packet, = testpmd.received(position, 1)
    assert (packet.queue, packet.hw_ptype and packet.hw_ptype[-1]) == (1, "L4_UDP")
    assert reaches_kernel(wire, FREE_PORT)
    assert reaches_kernel(wire, TAKEN_PORT ^ 1)  # differs in one bit
    testpmd.destroy_flow(0, rule)
    assert reaches_kernel(wire, TAKEN_PORT)


@pytest.mark.guest
def test_promiscuous_mode_takes_nothing_in_isolated_mode(isolated: Stack) -> None:
    isolated.testpmd.command("set promisc 0 on")
    before = isolated.testpmd.stats(0).rx_packets
    assert answer(isolated.wires[0], echo_request(1))[ICMP].type == 0
    isolated.wires[0].send(opaque(80, seed=1))
    assert answer(isolated.wires[0], echo_request(2))[ICMP].type == 0
    assert isolated.testpmd.stats(0).rx_packets == before


@pytest.mark.guest
def test_the_link_goes_down_and_up_with_the_netdev(isolated: Stack) -> None:
    testpmd = isolated.testpmd
    for state in "down", "up":
        position = testpmd.mark_output()
        isolated.in_network("ip", "link", "set", NETDEV, state)
        testpmd.wait_for_link_event(0, position)
        assert testpmd.info(0)["Link status"] == state
    know_the_peer(isolated)
    assert answer(isolated.wires[0], echo_request(1))[ICMP].type == 0


@pytest.mark.guest
def test_the_netdev_shows_whether_there_is_a_carrier(isolated: Stack) -> None:
    def has_carrier() -> bool:
        return "LOWER_UP" in isolated.in_network("ip", "-o", "link", "show", NETDEV)

    assert has_carrier()
    for up in False, True:
        isolated.set_link(0, up)
        deadline = time.monotonic() + 20
        while has_carrier() != up:
            assert time.monotonic() < deadline


def test_normal_mode_takes_the_port(normal: Stack) -> None:
    """The port takes packets for its address, and the kernel sees none of them until the port stops."""
    testpmd, wire = normal.testpmd, normal.wires[0]
    position = testpmd.mark_output()
    wire.send(echo_request(1))
    packet, = testpmd.received(position, 1)
    assert packet.length == len(echo_request(1))
    testpmd.stop()
    testpmd.stop_port(0)
    assert answer(wire, echo_request(2))[ICMP].seq == 2
    testpmd.start_port(0)
    testpmd.start("rxonly")
    position = testpmd.mark_output()
    wire.send(datagram(FREE_PORT))
    assert testpmd.received(position, 1)[0].ether_type == 0x0800
    assert normal.kernel_packets(NETDEV)[0] == 1


def test_the_mtu_reaches_the_netdev(normal: Stack) -> None:
    normal.testpmd.change_mtu(0, 1400)
    assert " mtu 1400 " in normal.in_network("ip", "link", "show", NETDEV)
