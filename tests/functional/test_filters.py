# SPDX-License-Identifier: BSD-3-Clause
"""Which frames a port accepts: MAC addresses, multicast, promiscuous mode."""

from typing import Iterator

import pytest
from rig.packets import BROADCAST, marker, opaque, port_mac
from rig.stack import Stack
from rig.wire import padded

pytestmark = pytest.mark.guest

OWN = port_mac(0)
OTHER = "02:00:00:00:00:77"
ANOTHER = "02:00:00:00:00:78"
GROUP = "01:00:5e:00:00:05"
GROUP6 = "33:33:00:00:00:05"
OTHER_GROUP = "01:00:5e:00:00:06"


@pytest.fixture(autouse=True)
def selective(stack: Stack) -> Iterator[None]:
    """Port 0 in normal mode: frames for its address, and broadcast. Port 1 only sends."""
    testpmd = stack.testpmd
    testpmd.silent("set promisc 0 off")
    testpmd.silent("set allmulti 0 off")
    testpmd.start("io", lossless=True)
    yield
    testpmd.stop()


def passes(stack: Stack, *destinations: str) -> list[str]:
    """Sends one frame to each address; returns those that were received. Broadcast always is."""
    frames = {padded(opaque(80, seed=n, destination=mac)): mac
              for n, mac in enumerate(destinations)}
    stack.wires[0].send_all([*frames, marker()])
    return [frames[frame] for frame in stack.wires[1].receive_until(marker())]


def one_bit_off(mac: str) -> list[str]:
    """The 48 addresses that differ from `mac` in a single bit."""
    value = int(mac.replace(":", ""), 16)
    return [(value ^ 1 << bit).to_bytes(6, "big").hex(":") for bit in range(48)]


def test_only_own_address_and_broadcast(stack: Stack) -> None:
    assert passes(stack, OWN, OTHER, BROADCAST, GROUP, GROUP6) == [OWN, BROADCAST]


def test_every_bit_of_the_address_counts(stack: Stack) -> None:
    assert passes(stack, OWN, *one_bit_off(OWN), OWN) == [OWN, OWN]


def test_what_is_not_accepted_is_counted(stack: Stack) -> None:
    before = stack.counters(0)
    assert passes(stack, *[OTHER] * 5) == []
    after = stack.counters(0)
    assert after["drop_no_match"] - before["drop_no_match"] == 5
    assert after["delivered"] - before["delivered"] == 1  # the marker


def test_promiscuous(stack: Stack) -> None:
    everything = [OWN, OTHER, BROADCAST, GROUP, GROUP6, *one_bit_off(OWN)]
    stack.testpmd.silent("set promisc 0 on")
    assert stack.testpmd.info(0)["Promiscuous mode"] == "enabled"
    assert passes(stack, *everything) == everything
    stack.testpmd.silent("set promisc 0 off")
    assert stack.testpmd.info(0)["Promiscuous mode"] == "disabled"
    assert passes(stack, *everything) == [OWN, BROADCAST]


def test_all_multicast(stack: Stack) -> None:
    stack.testpmd.silent("set allmulti 0 on")
    assert passes(stack, OWN, OTHER, GROUP, GROUP6, OTHER_GROUP) == [
        OWN, GROUP, GROUP6, OTHER_GROUP]
    stack.testpmd.silent("set allmulti 0 off")
    assert passes(stack, GROUP, GROUP6) == []


def test_multicast_groups(stack: Stack) -> None:
    stack.testpmd.silent(f"mcast_addr add 0 {GROUP}")
    stack.testpmd.silent(f"mcast_addr add 0 {GROUP6}")
    assert passes(stack, GROUP, OTHER_GROUP, GROUP6, OTHER) == [GROUP, GROUP6]
    stack.testpmd.silent(f"mcast_addr remove 0 {GROUP}")
    assert passes(stack, GROUP, OTHER_GROUP, GROUP6) == [GROUP6]
    stack.testpmd.silent(f"mcast_addr remove 0 {GROUP6}")
    assert passes(stack, GROUP, GROUP6) == []


def test_more_addresses(stack: Stack) -> None:
    stack.testpmd.silent(f"mac_addr add 0 {OTHER}")
    assert passes(stack, OWN, OTHER, ANOTHER) == [OWN, OTHER]
    stack.testpmd.silent(f"mac_addr add 0 {ANOTHER}")
    assert passes(stack, OWN, OTHER, ANOTHER) == [OWN, OTHER, ANOTHER]
    stack.testpmd.silent(f"mac_addr remove 0 {OTHER}")
    assert passes(stack, OWN, OTHER, ANOTHER) == [OWN, ANOTHER]
    stack.testpmd.silent(f"mac_addr remove 0 {ANOTHER}")
    assert passes(stack, OWN, OTHER, ANOTHER) == [OWN]


def test_set_the_address(stack: Stack) -> None:
    stack.testpmd.silent(f"mac_addr set 0 {OTHER}")
    assert stack.testpmd.info(0)["MAC address"].lower() == OTHER
    assert passes(stack, OWN, OTHER) == [OTHER]
    stack.testpmd.silent(f"mac_addr set 0 {OWN}")
    assert passes(stack, OWN, OTHER) == [OWN]


def test_filters_survive_stop_and_start(stack: Stack) -> None:
    testpmd = stack.testpmd
    testpmd.silent(f"mac_addr add 0 {OTHER}")
    testpmd.silent(f"mcast_addr add 0 {GROUP}")
    testpmd.stop()
    testpmd.stop_port(0)
    testpmd.start_port(0)
    testpmd.start("io", lossless=True)
    assert passes(stack, OWN, OTHER, ANOTHER, GROUP, OTHER_GROUP) == [OWN, OTHER, GROUP]
    testpmd.silent(f"mac_addr remove 0 {OTHER}")
    testpmd.silent(f"mcast_addr remove 0 {GROUP}")


def test_traffic_is_not_interrupted_by_changes(stack: Stack) -> None:
    """Frames for our address keep passing while other filters are added and removed."""
    sent = 0
    for number in range(10):
        mac = f"02:00:00:00:01:{number:02x}"
        for command in (f"mac_addr add 0 {mac}", "set promisc 0 on", "set allmulti 0 on",
                        "set promisc 0 off", "set allmulti 0 off", f"mac_addr remove 0 {mac}"):
            position = stack.program.send_line(command)
            for _ in range(20):
                stack.wires[0].send(opaque(80, seed=sent, destination=OWN))
                sent += 1
            stack.program.wait_for("testpmd> ", position)
    stack.wires[0].send(marker(1))
    assert len(stack.wires[1].receive_until(marker(1))) == sent
