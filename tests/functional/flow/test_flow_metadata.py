# SPDX-License-Identifier: BSD-3-Clause
"""Metadata that rules of one group pass to those of the next, by set_tag, set_meta or a mark, and metadata that an
application sends with packets: the items that match it. Refusals are in tests/unit/flow/metadata_test.cpp."""

from typing import Sequence

import pytest
from rig.flow_rules import MARK, TAKE, receive, taken
from rig.packets import udp4
from rig.ports import lossless
from rig.stack import Stack

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest

VALUE = 0xA5C3_0FF1


def say(stack: Stack, dport: int, actions: str, group: int = 0) -> None:
    """Applies actions to packets for this UDP port, which then jump to the next group."""
    stack.testpmd.create_flow(
        0, f"group {group} ingress pattern eth / ipv4 / udp dst is {dport} / end"
           f" actions {actions} / jump group {group + 1} / end")


def take(stack: Stack, items: str, group: int = 1) -> int:
    """Takes packets that match the items; all others go to the queue of packets without a mark."""
    stack.testpmd.create_flow(
        0, f"group {group} priority 1 ingress pattern eth / end actions queue index 0 / end")
    return stack.testpmd.create_flow(0, f"group {group} ingress pattern {items} / {TAKE}")


SETTERS = {
    "set_tag data {value:#x} mask 0xffffffff index 0": "tag data is {value:#x} index is 0",
    "set_tag data {value:#x} mask 0xffffffff index 3": "tag data is {value:#x} index is 3",
    "set_meta data {value:#x} mask 0xffffffff": "meta data is {value:#x}",
    "modify_field op set dst_type tag dst_level 2 src_type value src_value {bytes} width 32":
        "tag data is {value:#x} index is 2",
    "modify_field op set dst_type meta src_type value src_value {bytes} width 32":
        "meta data is {value:#x}",
}


@pytest.mark.usefixtures("receiving")
class TestIngress:
    @pytest.mark.parametrize("actions", SETTERS)
    def test_every_bit_counts(self, stack: Stack, actions: str) -> None:
        def setter(value: int) -> str:
            return actions.format(value=value, bytes=value.to_bytes(4, "little").hex())

        say(stack, 100, setter(VALUE))
        for bit in range(32):
            say(stack, 200 + bit, setter(VALUE ^ 1 << bit))
        take(stack, f"{SETTERS[actions].format(value=VALUE)} / eth / ipv4 / udp")
        assert taken(stack, [udp4(dport=100)] * 3) == 3
        assert taken(stack, [udp4(dport=200 + bit) for bit in range(32)]) == 0

    def test_what_comes_with_the_packet(self, stack: Stack, datapath: str) -> None:
        """Set at once or bit by bit, by several groups; zero means none."""
        for dport, actions in ((100, f"set_meta data {VALUE:#x} mask 0xffffffff"),
                               (101, "set_meta data 0xffffffff mask 0x0f0f0f0f"),
                               (102, "set_tag data 5 mask 0xffffffff index 0"),
                               (103, "set_meta data 0 mask 0xffffffff")):
            say(stack, dport, actions)
        stack.testpmd.create_flow(
            0, "group 1 ingress pattern meta data is 0x0f0f0f0f / eth / end"
               " actions set_meta data 0x10 mask 0xf0 / queue index 1 / end")
        take(stack, "eth")
        packets = receive(stack, [udp4(dport=dport) for dport in (100, 101, 102, 103, 104)] * 3)
        seen = [packet.metadata for packet in packets]
        expected = [VALUE, 0x0F0F0F1F, None, None, None] if datapath == "mlx5" else [None] * 5
        assert sorted(seen, key=str) == sorted(expected * 3, key=str)

    def test_registers_do_not_touch_each_other(self, stack: Stack) -> None:
        every = " / ".join(f"set_tag data {index + 1} mask 0xffffffff index {index}"
                           for index in range(4))
        say(stack, 100, f"{every} / set_meta data 9 mask 0xffffffff")
        items = " / ".join(f"tag data is {index + 1} index is {index}" for index in range(4))
        take(stack, f"{items} / meta data is 9 / eth")
        assert taken(stack, [udp4(dport=100)]) == 1

    def test_what_a_packet_has_is_copied(self, stack: Stack) -> None:
        """Copies its port and a part of its address into a tag, and the tag into meta in the next group."""
        copy = "modify_field op set dst_type"
        stack.testpmd.create_flow(
            0, f"ingress pattern eth / ipv4 / udp / end actions {copy} tag dst_level 1 src_type udp_port_dst"
               f" width 16 / {copy} tag dst_level 1 dst_offset 16 src_type ipv4_dst width 8 / jump group 1 / end")
        stack.testpmd.create_flow(0, f"group 1 ingress pattern eth / end actions {copy} meta src_type tag"
                                     " src_level 1 width 32 / jump group 2 / end")
        take(stack, f"meta data is {2 << 16 | 1234} / eth", group=2)
        ports = (1234, *(1234 ^ 1 << bit for bit in range(16)))
        assert taken(stack, [udp4(dport=port) for port in ports]) == 1

    def test_parts_of_a_tag_come_from_several_groups(self, stack: Stack) -> None:
        say(stack, 100, "set_tag data 0x1200 mask 0xff00 index 1")
        say(stack, 100, "set_tag data 0x34 mask 0x00f4 index 1", group=1)
        take(stack, "tag data is 0x1234 index is 1 / eth", group=2)
        assert taken(stack, [udp4(dport=100)]) == 1
        stack.testpmd.flush_flows(0)
        say(stack, 100, "set_tag data 0xffff mask 0xffffffff index 1")
        say(stack, 100, "set_tag data 0 mask 0x0ff0 index 1", group=1)
        rule = take(stack, "tag data is 0xf00f index is 1 / eth", group=2)
        assert taken(stack, [udp4(dport=100)]) == 1
        stack.testpmd.destroy_flow(0, rule)
        stack.testpmd.create_flow(0, "group 2 ingress pattern tag data spec 0xffff data mask 0x0ff0"
                                     f" index is 1 / eth / {TAKE}")
        assert taken(stack, [udp4(dport=100)]) == 0

    def test_each_packet_begins_without(self, stack: Stack) -> None:
        say(stack, 100, "set_tag data 7 mask 0xffffffff index 0")
        stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp dst is 101 / end"
                                     " actions jump group 1 / end")
        take(stack, "tag data is 0 index is 0 / eth")
        assert taken(stack, [udp4(dport=port) for port in (100, 101, 100, 101)]) == 2


@pytest.mark.usefixtures("receiving")
class TestMark:
    ID = 0xC30FF1

    def taken(self, stack: Stack, ports: Sequence[int]) -> list[int]:
        """The UDP ports whose packets the rule under test takes and marks."""
        packets = receive(stack, [udp4(bytes(100 + at), dport=port) for at, port in enumerate(ports)])
        shortest = min(packet.length for packet in packets)
        return sorted(ports[packet.length - shortest] for packet in packets if packet.mark == MARK)

    def test_every_bit_counts(self, stack: Stack) -> None:
        ports = {100: self.ID, **{200 + bit: self.ID ^ 1 << bit for bit in range(24)}}
        for port, mark in ports.items():
            say(stack, port, f"mark id {mark}")
        rule = take(stack, f"mark id is {self.ID} / eth / ipv4 / udp")
        assert self.taken(stack, [*ports]) == [100]
        stack.testpmd.destroy_flow(0, rule)
        stack.testpmd.create_flow(0, f"group 1 ingress pattern mark id spec {self.ID} id mask 0xff0 / eth"
                                     f" / {TAKE}")
        outside = [port for port, mark in ports.items() if not (mark ^ self.ID) & 0xFF0]
        assert self.taken(stack, [*ports]) == outside and len(outside) == 17

    def test_no_mark_is_not_mark_zero(self, stack: Stack) -> None:
        say(stack, 100, "mark id 0")
        say(stack, 101, "flag")
        say(stack, 102, "count")
        rule = take(stack, "mark id is 0 / eth")
        assert self.taken(stack, [100, 101, 102]) == [100]
        stack.testpmd.destroy_flow(0, rule)
        stack.testpmd.create_flow(0, f"group 1 ingress pattern mark / eth / {TAKE}")
        assert self.taken(stack, [100, 101, 102]) == [100]

    def test_the_last_one_counts(self, stack: Stack) -> None:
        """Also if it is set together with other changes, or replaced by a flag."""
        say(stack, 100, "mark id 5")
        say(stack, 101, "mark id 5")
        say(stack, 102, "mark id 5")
        say(stack, 100, "mark id 6 / set_tag data 9 mask 0xffffffff index 0", group=1)
        say(stack, 101, "flag", group=1)
        say(stack, 102, "set_tag data 9 mask 0xffffffff index 0", group=1)
        take(stack, "mark id is 6 / tag data is 9 index is 0 / eth", group=2)
        assert self.taken(stack, [100, 101, 102]) == [100]
        stack.testpmd.create_flow(0, f"group 2 ingress pattern mark id is 5 / eth / {TAKE}")
        assert self.taken(stack, [100, 101, 102]) == [100, 102]


def test_tags_of_what_is_sent(forwarders: Stack) -> None:
    create = forwarders.testpmd.create_flow
    for port, tag in ((100, 5), (101, 4)):
        create(1, f"egress pattern eth / ipv4 / udp dst is {port} / end"
                  f" actions set_tag data {tag} mask 0xffffffff index 3 / jump group 1 / end")
    create(1, "group 1 egress pattern tag data is 5 index is 3 / eth / ipv4 / end"
              " actions set_ttl ttl_value 9 / end")
    ttls = []
    for port in (100, 101):
        forwarders.wires[0].send(udp4(dport=port))
        ttls.append(forwarders.wires[1].receive()[22])
    assert ttls == [9, 64]


def test_metadata_of_what_is_sent(open_stack: OpenStack) -> None:
    """The metadata that testpmd's callback writes to each mbuf. The first value makes it register the field, and the
    port sends metadata from its next start on."""
    with open_stack(lossless(2, devx="on"), datapath="mlx5") as stack:
        testpmd = stack.testpmd

        def sent_ttl(metadata: int) -> int:
            testpmd.silent(f"port config 1 tx_metadata {metadata}")
            testpmd.start("io", lossless=True)
            stack.wires[0].send(udp4())
            frame = stack.wires[1].receive()
            testpmd.stop()
            return frame[22]

        testpmd.silent("port config 1 tx_metadata 1")
        testpmd.stop_port(1)
        testpmd.start_port(1)
        change = f"egress pattern meta data is {VALUE:#x} / eth / ipv4 / end actions set_ttl ttl_value 9 / end"
        for group in (0, 1):
            testpmd.create_flow(1, f"group {group} {change}")
            if group:
                testpmd.create_flow(1, "egress pattern eth / end actions jump group 1 / end")
            assert sent_ttl(VALUE) == 9
            assert [sent_ttl(VALUE ^ 1 << bit) for bit in (0, 15, 31)] == [64] * 3
            testpmd.flush_flows(1)
        testpmd.create_flow(1, "egress pattern eth / ipv4 / end"
                               " actions set_meta data 0x00ff mask 0x0fff / jump group 1 / end")
        testpmd.create_flow(1, "group 1 egress pattern meta data is 0x500000ff / eth / ipv4 / end"
                               " actions set_ttl ttl_value 9 / end")
        assert [sent_ttl(number) for number in (0x50000123, 0x50001123)] == [9, 64]
