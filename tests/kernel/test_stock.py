# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's own net_mlx5 on the same device and kernel, to distinguish a fault of the device from ours."""

from typing import Iterator

import pytest
from rig import bifurcation
from rig.guest_stack import GuestStack
from rig.packets import marker, numbered, opaque, port_mac, tcp4, udp4, udp6
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Dot1Q

from kernel.conftest import DRIVERS, OpenStack, StartStack

QUEUES = 4


@pytest.fixture(scope="module")
def stack(open_stack: OpenStack) -> Iterator[GuestStack]:
    with open_stack(2, **DRIVERS["net_mlx5"], testpmd_args=[
            f"--rxq={QUEUES}", f"--txq={QUEUES}", "--rxd=256",
            "--rss-udp", "--enable-rx-cksum"]) as stack:
        stack.testpmd.silent("set verbose 1")
        yield stack


@pytest.fixture
def shown(stack: GuestStack) -> Iterator[GuestStack]:
    stack.testpmd.start("rxonly")
    yield stack
    stack.testpmd.stop()


def test_it_is_the_stock_driver(stack: GuestStack) -> None:
    assert stack.testpmd.info(0)["Driver name"] == "mlx5_pci"


def test_frames_pass_unchanged(stack: GuestStack) -> None:
    stack.testpmd.silent("set verbose 0")
    stack.testpmd.start("io", lossless=True)
    frames = [opaque(size, seed=size) for size in range(60, 1519, 37)]
    stack.wires[0].transfer(frames, to=stack.wires[1])
    stack.wires[1].transfer(numbered(2000), to=stack.wires[0])
    stack.testpmd.stop()
    stack.testpmd.silent("set verbose 1")


def test_rss_uses_all_queues(shown: GuestStack) -> None:
    packets = shown.show([udp4(sport=1000 + n) for n in range(24)])
    assert {packet.queue for packet in packets} == set(range(QUEUES))
    assert all("RTE_MBUF_F_RX_RSS_HASH" in packet.flags for packet in packets)


def test_checksums(shown: GuestStack) -> None:
    bad = udp4()
    bad[UDP].chksum = 0x1234
    wrong_header = udp4()
    wrong_header[IP].chksum = 0x1234
    good, also_good, bad_l4, bad_ip = shown.show([udp4(), tcp4(), bad, wrong_header])
    for packet in (good, also_good):
        assert {"RTE_MBUF_F_RX_L4_CKSUM_GOOD", "RTE_MBUF_F_RX_IP_CKSUM_GOOD"} <= set(packet.flags)
    assert "RTE_MBUF_F_RX_L4_CKSUM_GOOD" not in bad_l4.flags
    assert "RTE_MBUF_F_RX_IP_CKSUM_GOOD" not in bad_ip.flags


def test_flow_rules(shown: GuestStack) -> None:
    testpmd = shown.testpmd
    pattern = "ingress pattern eth / ipv4 / udp dst is {} / end actions {} / end"
    queue = testpmd.create_flow(0, pattern.format(3001, "queue index 2"))
    drop = testpmd.create_flow(0, pattern.format(3002, "drop"))
    mark = testpmd.create_flow(0, pattern.format(3003, "mark id 77 / queue index 1"))
    taken, marked = shown.show([udp4(dport=port) for port in (3001, 3002, 3003)])
    assert taken.queue == 2 and taken.mark is None
    assert marked.queue == 1 and marked.mark == 77
    for rule in (queue, drop, mark):
        testpmd.destroy_flow(0, rule)
    assert len(shown.show([udp4(dport=3002)])) == 1


def test_a_rule_misses_by_a_bit(shown: GuestStack) -> None:
    rule = "ingress pattern eth / ipv4 dst is 10.0.0.2 / end actions drop / end"
    number = shown.testpmd.create_flow(0, rule)
    packets = shown.show([udp4(destination_ip="10.0.0.2"), udp4(destination_ip="10.0.0.3"),
                          udp6()])
    assert len(packets) == 2
    shown.testpmd.destroy_flow(0, number)


def test_promiscuous_mode(shown: GuestStack) -> None:
    foreign = opaque(80, seed=1, destination="02:99:99:99:99:99")
    shown.testpmd.command("set promisc 0 off")
    assert shown.show([foreign]) == []
    shown.testpmd.command("set promisc 0 on")
    assert len(shown.show([foreign])) == 1


def test_another_address(shown: GuestStack) -> None:
    other = opaque(80, seed=1, destination="02:99:99:99:99:99")
    shown.testpmd.command("set promisc 0 off")
    shown.testpmd.silent("mac_addr add 0 02:99:99:99:99:99")
    assert len(shown.show([other])) == 1
    shown.testpmd.silent("mac_addr remove 0 02:99:99:99:99:99")
    assert shown.show([other]) == []
    shown.testpmd.command("set promisc 0 on")


def test_tagged_frames(shown: GuestStack) -> None:
    frame = udp4()
    frame.payload = Dot1Q(vlan=100) / frame.payload
    packet, = shown.show([frame])
    assert packet.ether_type == 0x8100 and packet.length == max(60, len(frame))


def test_link_events(stack: GuestStack) -> None:
    testpmd = stack.testpmd
    for up in (False, True):
        position = testpmd.mark_output()
        stack.set_link(0, up)
        testpmd.wait_for_link_event(0, position)
    testpmd.start("io", lossless=True)
    stack.wires[0].send(marker(3))
    stack.wires[1].receive_until(marker(3))
    testpmd.stop()


def test_beside_the_kernel(start_stack: StartStack) -> None:
    stack = bifurcation.set_up(start_stack(**bifurcation.ARGUMENTS, **DRIVERS["net_mlx5"],
                                           testpmd_args=["--flow-isolate-all"]))
    wire = stack.wires[0]
    assert bifurcation.answer(wire, bifurcation.arp_request())[ARP].hwsrc == port_mac(0)
    assert bifurcation.reaches_kernel(wire, bifurcation.TAKEN_PORT)
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp dst is"
                                 f" {bifurcation.TAKEN_PORT} / end actions queue index 0 / end")
    position = stack.testpmd.mark_output()
    assert not bifurcation.reaches_kernel(wire, bifurcation.TAKEN_PORT)
    assert len(stack.testpmd.received(position, 1)) == 1
    assert bifurcation.reaches_kernel(wire, bifurcation.FREE_PORT)
