# SPDX-License-Identifier: BSD-3-Clause
"""Addresses, groups, VLANs and modes of a port in any order and combination, against a model."""

import random
from dataclasses import dataclass, field
from typing import Iterator

import pytest
from rig.packets import BROADCAST, PEER_MAC, port_mac
from rig.stack import Stack
from rig.testpmd import CommandRefused
from rig.wire import padded
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

OWN = port_mac(0)
MACS = [f"02:00:00:00:07:0{n}" for n in (1, 2, 4)]
GROUPS = ["01:00:5e:00:00:05", "33:33:00:00:00:05", "01:80:c2:00:00:0e"]
VLANS = [1, 100, 4095]
STRANGERS = ["02:00:00:00:07:03", "01:00:5e:00:00:07"]
TAGS = [None, *VLANS, 101]


@dataclass
class Model:
    """What a port accepts, in terms of the ethdev API."""

    promiscuous: bool = False
    all_multicast: bool = False
    vlan_filter: bool = False
    macs: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    vlans: set[int] = field(default_factory=set)

    def accepts(self, mac: str, tag: int | None) -> bool:
        if self.promiscuous:
            return True
        multicast = int(mac[:2], 16) & 1 != 0
        known = mac in (OWN, BROADCAST) or mac in self.macs or mac in self.groups
        if not known and not (multicast and self.all_multicast):
            return False
        return not self.vlan_filter or not self.vlans or tag in self.vlans

    def tag_that_passes(self) -> int | None:
        return min(self.vlans) if self.vlan_filter and self.vlans else None


def frame(mac: str, tag: int | None, number: int) -> bytes:
    vlan = Dot1Q(vlan=tag, type=0x88B5) if tag is not None else None
    head = Ether(dst=mac, src=PEER_MAC, type=0x8100 if vlan else 0x88B5)
    return padded(bytes((head / vlan if vlan else head) / Raw(number.to_bytes(2, "big") * 25)))


def check(stack: Stack, model: Model) -> None:
    probes = [(mac, tag) for mac in (OWN, BROADCAST, *MACS, *GROUPS, *STRANGERS) for tag in TAGS]
    sent = {frame(mac, tag, n): (mac, tag) for n, (mac, tag) in enumerate(probes)}
    last = frame(BROADCAST, model.tag_that_passes(), 0xFFFF)
    stack.wires[0].send_all([*sent, last])
    passed = [sent[each] for each in stack.wires[1].receive_until(last)]
    assert passed == [probe for probe in probes if model.accepts(*probe)], model


def toggle(members: set, member: object) -> str:
    """Adds or removes a member; returns the word for it."""
    if member in members:
        members.remove(member)
        return "remove"
    members.add(member)
    return "add"


def change(stack: Stack, model: Model, dice: random.Random) -> None:
    testpmd, on = stack.testpmd, {True: "on", False: "off"}
    kind = dice.choice(["promisc", "allmulti", "mac", "mac", "group", "group", "vlan", "vlan",
                        "filter", "restart"])
    if kind == "promisc":
        model.promiscuous = not model.promiscuous
        testpmd.silent(f"set promisc 0 {on[model.promiscuous]}")
    elif kind == "allmulti":
        model.all_multicast = not model.all_multicast
        testpmd.silent(f"set allmulti 0 {on[model.all_multicast]}")
    elif kind == "mac":
        mac = dice.choice(MACS)
        testpmd.silent(f"mac_addr {toggle(model.macs, mac)} 0 {mac}")
    elif kind == "group":
        group = dice.choice(GROUPS)
        testpmd.silent(f"mcast_addr {toggle(model.groups, group)} 0 {group}")
    elif kind == "vlan" and model.vlan_filter:
        vlan = dice.choice(VLANS)
        word = "rm" if toggle(model.vlans, vlan) == "remove" else "add"
        testpmd.silent(f"rx_vlan {word} {vlan} 0")
    elif kind == "filter":
        model.vlan_filter = not model.vlan_filter
        testpmd.silent(f"vlan set filter {on[model.vlan_filter]} 0")
    elif kind == "restart":
        testpmd.stop()
        testpmd.stop_port(0)
        testpmd.start_port(0)
        testpmd.start("io", lossless=True)


@pytest.fixture(autouse=True)
def selective(stack: Stack) -> Iterator[None]:
    testpmd = stack.testpmd
    testpmd.silent("set promisc 0 off", "set allmulti 0 off")
    testpmd.start("io", lossless=True)
    yield
    testpmd.stop()
    testpmd.silent("set promisc 0 on")


@pytest.mark.parametrize("seed, steps", [
    (1, 30), pytest.param(2, 100, marks=pytest.mark.thorough)])
def test_any_order_and_together(stack: Stack, seed: int, steps: int) -> None:
    dice, model = random.Random(seed), Model()
    check(stack, model)
    for _ in range(steps):
        change(stack, model, dice)
        check(stack, model)
    # Back to the initial state, for the following tests.
    if not model.vlan_filter:
        stack.testpmd.silent("vlan set filter on 0")
    stack.testpmd.silent(*(f"rx_vlan rm {vlan} 0" for vlan in model.vlans))
    stack.testpmd.silent("vlan set filter off 0", "set promisc 0 off", "set allmulti 0 off")
    stack.testpmd.silent(*(f"mac_addr remove 0 {mac}" for mac in model.macs))
    stack.testpmd.silent(*(f"mcast_addr remove 0 {group}" for group in model.groups))
    check(stack, Model())


def test_a_full_table_of_addresses(stack: Stack) -> None:
    """All of it is accepted, and one more is refused without affecting the rest."""
    testpmd = stack.testpmd
    most = int(testpmd.info(0)["Maximum number of MAC addresses"])
    macs = [f"02:00:00:01:{n // 256:02x}:{n % 256:02x}" for n in range(most - 1)]  # in addition to its own
    testpmd.silent(*(f"mac_addr add 0 {mac}" for mac in macs))
    with pytest.raises(CommandRefused):
        testpmd.silent("mac_addr add 0 02:00:00:02:00:00")
    frames = [frame(mac, None, n) for n, mac in enumerate([*macs, OWN])]
    last = frame(BROADCAST, None, 0xFFFF)
    stack.wires[0].send_all([*frames, frame("02:00:00:02:00:00", None, 7), last])
    assert stack.wires[1].receive_until(last) == frames
    testpmd.silent(*(f"mac_addr remove 0 {mac}" for mac in macs))
    check(stack, Model())
