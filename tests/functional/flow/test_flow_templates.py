# SPDX-License-Identifier: BSD-3-Clause
"""Templates, tables and queues of rte_flow operations. Refusals, and that rules take no memory, are tested in
tests/unit/flow/template_test.cpp."""

import re
from contextlib import contextmanager
from typing import Iterator

import pytest
from rig.flow_rules import MARK, QUEUES, flow_stack, receive
from rig.flow_templates import configure, create_table, destroy_table, pull
from rig.packets import tcp4, udp4, udp6
from rig.stack import Stack

from functional.conftest import OpenStack

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving"),
              # Daily, each format of steering entries with one engine.
              pytest.mark.daily(when=lambda params: (params["datapath"], params["stack"]) in {
                  ("mlx5", "0"), ("verbs", "1")})]

RULES = 64
PATTERN = "eth / ipv4 src mask 255.255.255.255 / udp dst mask 65535"


@pytest.fixture(scope="module", params=["0", "1"], ids=lambda number: f"format{number}")
def stack(datapath: str, open_stack: OpenStack, request: pytest.FixtureRequest) -> Iterator[Stack]:
    with flow_stack(open_stack, datapath, steering_format=request.param) as stack:
        yield stack


@pytest.fixture(params=[0, 1], ids=lambda number: f"group{number}")
def group(request: pytest.FixtureRequest) -> int:
    """The group of the tables. Group 1 is served by software steering, if the device supports it."""
    return int(request.param)


@pytest.fixture
def configured(stack: Stack, receiving: None, group: int) -> None:
    """Directs all UDP over IPv4 to group 1."""
    stack.testpmd.stop()
    configure(stack)
    stack.testpmd.start("rxonly")
    if group != 0:
        stack.testpmd.create_flow(
            0, f"ingress priority 4 pattern eth / ipv4 / udp / end actions jump group {group} / end")
        stack.testpmd.create_flow(
            0, f"group {group} priority 1 ingress pattern eth / end actions queue index 0 / end")


@contextmanager
def table_of(stack: Stack, group: int, actions: str, mask: str) -> Iterator[int]:
    """UDP over IPv4 by source address and destination port. Rules and templates are destroyed at the end."""
    create_table(stack, f"3 group {group} priority 0 rules_number {RULES}", PATTERN, actions, mask)
    yield 3
    while pull(stack) > 0:  # testpmd keeps an operation's data until then
        pass
    stack.testpmd.flush_flows(0)
    destroy_table(stack, 3)


@pytest.fixture
def table(stack: Stack, configured: None, group: int) -> Iterator[int]:
    """Queue and mark are each rule's own."""
    with table_of(stack, group, "mark id 1 / queue index 0", "mark / queue") as table:
        yield table


def enqueue_actions(stack: Stack, table: int, port: int, actions: str) -> str:
    return stack.testpmd.command(
        f"flow queue 0 create 0 template_table {table} pattern_template 0 actions_template 0"
        f" postpone no pattern eth / ipv4 src is 10.0.0.1 / udp dst is {port} / end"
        f" actions {actions} / end")


def enqueue(stack: Stack, table: int, port: int) -> str:
    return enqueue_actions(stack, table, port, f"mark id {port} / queue index {port % QUEUES}")


def rule_number(answer: str) -> int:
    enqueued = re.search(r"Flow rule #(\d+) creation enqueued", answer)
    assert enqueued, answer
    return int(enqueued[1])


def test_rules_of_a_table_take_their_packets(stack: Stack, table: int) -> None:
    ports = range(1, 21)
    rules = [rule_number(enqueue(stack, table, port)) for port in ports]
    assert pull(stack) == len(ports) and pull(stack) == 0
    frames = [udp4(dport=port) for port in ports]
    seen = {packet.mark: packet.queue for packet in receive(stack, frames)}
    assert seen == {port: port % QUEUES for port in ports}
    misses = [udp4(dport=21), udp4(dport=1, source_ip="10.0.0.3"), tcp4(dport=1)]
    assert {packet.mark for packet in receive(stack, misses)} == {None}
    for number in rules[::2]:
        assert "enqueued" in stack.testpmd.command(
            f"flow queue 0 destroy 0 postpone no rule {number}")
    assert pull(stack) == 10
    marks = {packet.mark for packet in receive(stack, frames)}
    assert marks == {None, *list(ports)[1::2]}


def test_a_full_table_and_the_same_match(stack: Stack, table: int, group: int) -> None:
    assert "enqueued" in enqueue(stack, table, 1)
    assert "with the same values already" in enqueue(stack, table, 1)
    assert "with the same values already" in stack.testpmd.command(
        f"flow create 0 group {group} ingress pattern eth / ipv4 src is 10.0.0.1 / udp dst is 1 / end"
        " actions drop / end")
    for port in range(2, RULES + 1):
        assert "enqueued" in enqueue(stack, table, port)
    assert "rte_flow_pull" in enqueue(stack, table, 1000)  # 64 results wait
    while pull(stack) > 0:
        pass
    assert "all rules of the table are in use" in enqueue(stack, table, 1000)


def marks_of(stack: Stack, ports: range) -> list[int | None]:
    packets = receive(stack, [udp4(dport=port) for port in ports])
    return sorted((packet.mark for packet in packets), key=str)


no_group = pytest.mark.parametrize("group", [0], indirect=True, ids=["group0"])


@pytest.mark.usefixtures("configured")
class TestActions:
    """Actions fixed by the template apply to each rule."""

    def test_drop(self, stack: Stack, group: int) -> None:
        with table_of(stack, group, "count / drop", "count / drop") as table:
            rules = [rule_number(enqueue_actions(stack, table, port, "count / drop"))
                     for port in (1, 2)]
            frames = [udp4(dport=port) for port in (1, 2, 2, 3)]
            position = stack.testpmd.mark_output()
            stack.wires[0].send_all(frames + [udp6()])
            assert {packet.ether_type for packet in stack.testpmd.received(position, 2)} == {
                0x0800, 0x86DD}
            assert [stack.testpmd.query_count(0, rule)[0] for rule in rules] == [1, 2]

    def test_flag(self, stack: Stack, group: int) -> None:
        with table_of(stack, group, "flag / queue index 0", "flag / queue index 0") as table:
            rule_number(enqueue_actions(stack, table, 1, "flag / queue index 1"))
            flagged = [packet.queue for packet in receive(stack, [udp4(dport=1), udp4(dport=2)])
                       if "RTE_MBUF_F_RX_FDIR" in packet.flags]
            assert flagged == [1]

    def test_rss(self, stack: Stack, group: int) -> None:
        rss = f"mark id {MARK} / rss types ipv4-udp end queues 1 3 end"
        with table_of(stack, group, rss, rss) as table:
            rule_number(enqueue_actions(stack, table, 1, rss))
            packets = receive(stack, [udp4(sport=port, dport=1) for port in range(1, 40)])
            assert {(packet.mark, packet.queue) for packet in packets} == {(MARK, 1), (MARK, 3)}

    def test_each_rule_spreads(self, stack: Stack, group: int) -> None:
        """Over its own queues and by its own types."""
        open_mask = "mark / rss types end queues end"
        with table_of(stack, group, f"mark id {MARK} / rss queues 0 end", open_mask) as table:
            for port, queues, types in ((1, "1 3", "ipv4-udp"), (2, "0 2", "ipv4-udp"), (3, "0 1 2 3", "ipv4")):
                rule_number(enqueue_actions(
                    stack, table, port, f"mark id {port} / rss types {types} end queues {queues} end"))
            spread: dict[int | None, set[int]] = {}
            for packet in receive(stack, [udp4(sport=sport, dport=port)
                                          for sport in range(1, 40) for port in (1, 2, 3)]):
                spread.setdefault(packet.mark, set()).add(packet.queue)
            assert spread[1] == {1, 3} and spread[2] == {0, 2}
            assert len(spread[3]) == 1  # one pair of addresses

    def test_each_rule_ages(self, stack: Stack, group: int) -> None:
        since = stack.testpmd.mark_output()
        with table_of(stack, group, "queue index 1 / age timeout 9", "queue / age timeout 0") as table:
            idle = rule_number(enqueue_actions(stack, table, 1, "queue index 1 / age timeout 1"))
            rule_number(enqueue_actions(stack, table, 2, "queue index 1 / age timeout 1000"))
            stack.testpmd.program.wait_for("flow aged event", since)
            answer = stack.testpmd.expect("flow aged 0", r"total aged flows: 1")
            assert re.search(rf"Flow\s+{idle}\b", answer.string)

    def test_each_rule_counts(self, stack: Stack, group: int) -> None:
        """Also in a slot that belonged to another rule before."""
        actions = "queue index 1 / count"
        with table_of(stack, group, actions, "queue / count") as table:
            for _ in range(2):
                rules = [rule_number(enqueue_actions(stack, table, port, actions)) for port in (1, 2)]
                receive(stack, [bytes(udp4(dport=port)).ljust(100) for port in (1, 2, 2, 3)])
                assert [stack.testpmd.query_count(0, rule) for rule in rules] == [(1, 100), (2, 200)]
                for rule in rules:
                    assert "enqueued" in stack.testpmd.command(
                        f"flow queue 0 destroy 0 postpone no rule {rule}")

    def test_an_indirect_count(self, stack: Stack, group: int) -> None:
        created = stack.testpmd.expect("flow indirect_action 0 create ingress action count / end",
                                       r"Indirect action #(\d+) created")
        count = f"indirect {created[1]}"
        with table_of(stack, group, f"queue index 1 / {count}", f"queue / {count}") as table:
            for port in (1, 2):
                rule_number(enqueue_actions(stack, table, port, f"queue index 1 / {count}"))
            receive(stack, [udp4(dport=port) for port in (1, 2, 2, 3)])
            stack.testpmd.expect(f"flow indirect_action 0 query {created[1]}", r"hits: 3\n")
        stack.testpmd.expect(f"flow indirect_action 0 destroy action_id {created[1]}", "destroyed")

    def test_each_rule_jumps_to_its_group(self, stack: Stack, group: int) -> None:
        for other in (3, 4):
            stack.testpmd.create_flow(
                0, f"group {other} ingress pattern eth / end actions mark id {other} / queue index 1"
                   " / end")
        with table_of(stack, group, "jump group 1", "jump group 0") as table:
            for port, other in ((1, 3), (2, 4), (3, 3)):
                rule_number(enqueue_actions(stack, table, port, f"jump group {other}"))
            assert marks_of(stack, range(1, 5)) == [3, 3, 4, None]
            assert f"from group {group} to 0" in enqueue_actions(stack, table, 5, "jump group 0")

    @no_group
    def test_edits_in_a_group(self, stack: Stack) -> None:
        """Later rules see a pushed tag."""
        stack.testpmd.create_flow(
            0, "ingress pattern eth / ipv4 / end actions jump group 1 / end")
        stack.testpmd.create_flow(
            0, "group 2 ingress pattern eth / vlan vid is 77 / ipv4 ttl is 9 / end actions"
               f" mark id {MARK} / queue index 2 / end")
        stack.testpmd.create_flow(
            0, "group 2 priority 1 ingress pattern eth / end actions queue index 0 / end")
        stack.testpmd.create_flow(
            0, "group 1 priority 1 ingress pattern eth / end actions queue index 0 / end")
        actions = ("set_ttl ttl_value 9 / of_push_vlan ethertype 0x8100"
                   " / of_set_vlan_vid vlan_vid 77 / jump group 2")
        with table_of(stack, 1, actions, actions) as table:
            rule_number(enqueue_actions(stack, table, 1, actions))
            assert marks_of(stack, range(1, 3)) == [MARK, None]

    @no_group
    def test_what_differs_from_rule_to_rule_is_refused(self, stack: Stack) -> None:
        refused = stack.testpmd.command(
            "flow actions_template 0 create ingress actions_template_id 2 template"
            " set_ttl ttl_value 9 / queue index 0 / end mask set_ttl / queue / end")
        assert "action set_ttl: only queue, rss, mark, jump and age, and what is indirect, differ" in refused
