# SPDX-License-Identifier: BSD-3-Clause
"""When groups are served by software steering and when by commands, and that existing rules keep working and
counting when that changes."""

from typing import Iterator

import pytest
from rig.flow_rules import MARK, TAKE, engines_of, flow_stack, receive, taken
from rig.flow_templates import configure, create_table, destroy_table, pull
from rig.packets import tcp4, udp4, udp6
from rig.stack import Stack
from scapy.layers.vxlan import VXLAN

from functional.conftest import OpenStack, StartStack

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving"),
              # Daily, each format of steering entries with one engine.
              pytest.mark.daily(when=lambda params: (params["datapath"], params["stack"]) in {
                  ("mlx5", "0"), ("verbs", "1")})]

SOFTWARE, COMMANDS = "software steering", "mlx5"
TABLE = 3
# Only commands can express these.
COPIES = "group 2 ingress pattern eth / ipv6 / end actions sample ratio 1 index 0 / queue index 1 / end"


@pytest.fixture(scope="module", params=["0", "1"], ids=lambda number: f"format{number}")
def stack(datapath: str, open_stack: OpenStack, request: pytest.FixtureRequest) -> Iterator[Stack]:
    with flow_stack(open_stack, datapath, steering_format=request.param) as stack:
        configure(stack)
        stack.testpmd.silent("set sample_actions 0 queue index 2 / end")
        yield stack


@pytest.fixture(autouse=True)
def group(receiving: None, stack: Stack) -> int:
    """Receives all UDP over IPv4; packets that match none of its rules are not marked."""
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp / end actions jump group 1 / end")
    stack.testpmd.create_flow(0, "group 1 priority 9 ingress pattern eth / end actions queue index 0 / end")
    return 1


@pytest.fixture
def table(stack: Stack, group: int) -> Iterator[int]:
    create_table(stack, f"{TABLE} group {group} rules_number 8", "eth / ipv4 / udp dst mask 65535",
                 f"count / mark id {MARK} / queue index 2", f"count / mark id {MARK} / queue index 2")
    yield TABLE
    while pull(stack) > 0:
        pass
    stack.testpmd.flush_flows(0)
    destroy_table(stack, TABLE)


def add(stack: Stack, port: int) -> int:
    enqueued = stack.testpmd.expect(
        f"flow queue 0 create 0 template_table {TABLE} pattern_template 0 actions_template 0 postpone no pattern"
        f" eth / ipv4 / udp dst is {port} / end actions count / mark id {MARK} / queue index 2 / end",
        r"Flow rule #(\d+) creation enqueued")
    assert pull(stack) == 1
    return int(enqueued[1])


def test_the_first_table_and_the_last(stack: Stack, group: int) -> None:
    """An existing rule of the group is moved along with the jump to it, and moved back."""
    stack.testpmd.create_flow(
        0, f"group 1 ingress pattern eth / ipv4 / udp dst is 7 / end actions mark id {MARK} / queue index 2 / end")
    for number in (TABLE, TABLE + 1):
        assert set(engines_of(stack, 1)) == {COMMANDS if number == TABLE else SOFTWARE}
        create_table(stack, f"{number} group {number} rules_number 1", "eth / ipv4", "drop", "drop")
        assert set(engines_of(stack, 0)) | set(engines_of(stack, 1)) == {SOFTWARE}
        assert taken(stack, [udp4(dport=7), udp4(dport=8), tcp4(dport=7)]) == 1
    for number, engine in ((TABLE, SOFTWARE), (TABLE + 1, COMMANDS)):
        destroy_table(stack, number)
        assert set(engines_of(stack, 1)) == {engine}
        assert taken(stack, [udp4(dport=7), udp4(dport=8), tcp4(dport=7)]) == 1


@pytest.mark.usefixtures("table")
def test_fields_are_copied(stack: Stack) -> None:
    copy = "modify_field op set dst_type"
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / tcp / end actions jump group 1 / end")
    stack.testpmd.create_flow(0, f"group 1 ingress pattern eth / ipv4 / tcp / end actions {copy} tag dst_level 1"
                                 f" dst_offset 8 src_type tcp_port_dst width 16 / {copy} tcp_port_src src_type"
                                 " tcp_port_dst width 16 / jump group 2 / end")
    stack.testpmd.create_flow(
        0, f"group 2 ingress pattern tag data is {1234 << 8} index is 1 / eth / ipv4 / tcp src is 1234 / {TAKE}")
    assert engines_of(stack, group=1) == {SOFTWARE: 2}
    assert taken(stack, [tcp4(dport=1234)] * 2) == 2
    stack.testpmd.create_flow(0, "group 2 priority 1 ingress pattern eth / end actions queue index 0 / end")
    assert taken(stack, [tcp4(dport=1234 ^ 1 << bit) for bit in range(16)]) == 0



@pytest.mark.guest(False)  # devices fail by their health state there, see tests/kernel
@pytest.mark.unsanitized  # testpmd leaks its data about the rules of a removed port
def test_a_device_that_dies(start_stack: StartStack, datapath: str) -> None:
    """Nothing waits for completions that will never arrive."""
    stack = start_stack(1, datapath=datapath)
    configure(stack)
    create_table(stack, f"{TABLE} group 1 rules_number 8", "eth / ipv4 / udp dst mask 65535", "drop", "drop")
    for port in (1, 2):
        stack.testpmd.expect(
            f"flow queue 0 create 0 template_table {TABLE} pattern_template 0 actions_template 0 postpone no pattern"
            f" eth / ipv4 / udp dst is {port} / end actions drop / end", "enqueued")
    position = stack.testpmd.mark_output()
    stack.inject(0, "device_fatal")
    stack.program.wait_for("net_rawqp0: RDMA device mlx5_0 failed", position)
    stack.testpmd.wait_until_removed(0, position, forwarding=False)


@pytest.mark.usefixtures("table")
class TestWithATable:
    def test_what_software_steering_lacks(self, stack: Stack) -> None:
        """Rules of the table are re-created by commands, keep counting and can be destroyed."""
        rules = [add(stack, port) for port in (1, 2)]
        assert taken(stack, [udp4(dport=port) for port in (1, 2, 2, 3)]) == 3
        assert "validated" in stack.testpmd.command(f"flow validate 0 {COPIES}")
        assert set(engines_of(stack, 1)) == {SOFTWARE}  # nothing requires commands yet
        stack.testpmd.create_flow(0, COPIES)
        stack.testpmd.create_flow(0, "ingress pattern eth / ipv6 / end actions jump group 2 / end")
        assert set(engines_of(stack, 0)) | set(engines_of(stack, 1)) == {COMMANDS}
        rules.append(add(stack, 3))
        assert taken(stack, [udp4(dport=port) for port in (1, 2, 3, 4)]) == 3
        assert [stack.testpmd.query_count(0, rule)[0] for rule in rules] == [2, 3, 1]
        position = stack.testpmd.mark_output()
        stack.wires[0].send_all([udp6()])
        assert {packet.queue for packet in stack.testpmd.received(position, 2)} == {1, 2}
        for rule in rules[1:]:
            stack.testpmd.expect(f"flow queue 0 destroy 0 postpone no rule {rule}", "enqueued")
        assert taken(stack, [udp4(dport=port) for port in (1, 2, 3, 4)]) == 1

    def test_what_nobody_has_words_for(self, stack: Stack) -> None:
        """Refusals change nothing."""
        answer = stack.testpmd.refused_flow(
            0, "group 1 ingress pattern eth / ipv4 packet_id is 7 / end actions drop / end")
        assert "field packet_id cannot be matched" in answer
        add(stack, 1)
        assert set(engines_of(stack, 1)) == {SOFTWARE}

    def test_a_jump_that_comes_later(self, stack: Stack) -> None:
        """A jump with a mark, which rules of the group match, and a change of the packet."""
        stack.testpmd.create_flow(
            0, "ingress priority 0 pattern eth / ipv6 / end actions mark id 7 / set_ttl ttl_value 9"
               " / jump group 2 / end")
        stack.testpmd.create_flow(
            0, f"group 2 ingress pattern mark id is 7 / ipv6 hop is 9 / end actions mark id {MARK} / queue index 2"
               " / end")
        assert set(engines_of(stack, 0)) | set(engines_of(stack, 2)) == {SOFTWARE}
        assert taken(stack, [udp6()]) == 1

    def test_header_edits(self, stack: Stack) -> None:
        """Edits, and decapsulation of a tunnel."""
        stack.testpmd.create_flow(
            0, "group 1 ingress pattern eth / ipv4 / udp dst is 4789 / vxlan / eth / ipv4 / end actions"
               " vxlan_decap / set_ttl ttl_value 9 / jump group 2 / end")
        stack.testpmd.create_flow(
            0, f"group 2 ingress pattern eth / ipv4 ttl is 9 / tcp / end actions mark id {MARK} / queue index 1"
               " / end")
        assert set(engines_of(stack, 1)) | set(engines_of(stack, 2)) == {SOFTWARE}
        tunnel = udp4(dport=4789)
        del tunnel["UDP"].payload
        packet, = receive(stack, [tunnel / VXLAN(vni=5) / tcp4()])
        assert packet.mark == MARK and packet.length == len(tcp4())
