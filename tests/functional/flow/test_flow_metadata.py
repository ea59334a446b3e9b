# SPDX-License-Identifier: BSD-3-Clause
"""What rules of one group say of a packet to those of the next: set_tag, set_meta and the items that
ask for it. What is refused is in tests/unit/flow/metadata_test.cpp."""

import pytest
from rig.flow_rules import TAKE, receive, taken
from rig.packets import udp4
from rig.stack import Stack

pytestmark = pytest.mark.guest

VALUE = 0xA5C3_0FF1


def say(stack: Stack, dport: int, actions: str, group: int = 0) -> None:
    """Of packets to that UDP port, which go on to the next group."""
    stack.testpmd.create_flow(
        0, f"group {group} ingress pattern eth / ipv4 / udp dst is {dport} / end"
           f" actions {actions} / jump group {group + 1} / end")


def take(stack: Stack, items: str, group: int = 1) -> int:
    """What the items leave goes to the queue that testpmd's packets without a mark go to."""
    stack.testpmd.create_flow(
        0, f"group {group} priority 1 ingress pattern eth / end actions queue index 0 / end")
    return stack.testpmd.create_flow(0, f"group {group} ingress pattern {items} / {TAKE}")


SETTERS = {
    "set_tag data {value:#x} mask 0xffffffff index 0": "tag data is {value:#x} index is 0",
    "set_tag data {value:#x} mask 0xffffffff index 4": "tag data is {value:#x} index is 4",
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
        """Set at once or bit by bit, by several groups; zero is none."""
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
                           for index in range(5))
        say(stack, 100, f"{every} / set_meta data 9 mask 0xffffffff")
        items = " / ".join(f"tag data is {index + 1} index is {index}" for index in range(5))
        take(stack, f"{items} / meta data is 9 / eth")
        assert taken(stack, [udp4(dport=100)]) == 1

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
