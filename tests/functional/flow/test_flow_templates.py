# SPDX-License-Identifier: BSD-3-Clause
"""Templates, tables and queues of rte_flow operations. What is refused, and that no rule takes
memory, is in tests/unit/flow/template_test.cpp."""

from typing import Iterator

import pytest
from rig.flow_rules import QUEUES, receive
from rig.packets import tcp4, udp4
from rig.stack import Stack

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving")]

RULES = 64
PATTERN = "eth / ipv4 src mask 255.255.255.255 / udp dst mask 65535 / end"


@pytest.fixture
def table(stack: Stack, receiving: None) -> Iterator[int]:
    """UDP over IPv4 by source address and destination port; queue and mark are each rule's own."""
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.stop_port(0)
    testpmd.expect("flow configure 0 queues_number 2 queues_size 64", "number of queues 2 with 64")
    testpmd.start_port(0)
    testpmd.start("rxonly")
    for command in (
        f"pattern_template 0 create ingress pattern_template_id 1 relaxed no template {PATTERN}",
        "actions_template 0 create ingress actions_template_id 2 template mark id 1 / queue index 0"
        " / end mask mark / queue / end",
        f"template_table 0 create table_id 3 ingress rules_number {RULES} pattern_template 1"
        " actions_template 2"):
        testpmd.expect(f"flow {command}", "created")
    yield 3
    testpmd.flush_flows(0)
    for command in ("template_table 0 destroy table 3", "actions_template 0 destroy actions_template 2",
                    "pattern_template 0 destroy pattern_template 1"):
        testpmd.expect(f"flow {command}", "destroyed")


def enqueue(stack: Stack, table: int, port: int) -> str:
    return stack.testpmd.command(
        f"flow queue 0 create 0 template_table {table} pattern_template 0 actions_template 0"
        f" postpone no pattern eth / ipv4 src is 10.0.0.1 / udp dst is {port} / end"
        f" actions mark id {port} / queue index {port % QUEUES} / end")


def pull(stack: Stack) -> int:
    """How many operations have succeeded; none has failed."""
    stack.testpmd.expect("flow push 0 queue 0", "pushed")
    return int(stack.testpmd.expect("flow pull 0 queue 0",
                                    r"pulled \d+ operations \(0 failed, (\d+) succeeded\)")[1])


def test_rules_of_a_table_take_their_packets(stack: Stack, table: int) -> None:
    ports = range(1, 21)
    for port in ports:
        assert "enqueued" in enqueue(stack, table, port)
    assert pull(stack) == len(ports) and pull(stack) == 0
    frames = [udp4(dport=port) for port in ports]
    seen = {packet.mark: packet.queue for packet in receive(stack, frames)}
    assert seen == {port: port % QUEUES for port in ports}
    misses = [udp4(dport=21), udp4(dport=1, source_ip="10.0.0.3"), tcp4(dport=1)]
    assert {packet.mark for packet in receive(stack, misses)} == {None}
    for number in range(0, 20, 2):
        assert "enqueued" in stack.testpmd.command(
            f"flow queue 0 destroy 0 postpone no rule {number}")
    assert pull(stack) == 10
    marks = {packet.mark for packet in receive(stack, frames)}
    assert marks == {None, *list(ports)[1::2]}


def test_a_full_table_and_the_same_match(stack: Stack, table: int) -> None:
    assert "enqueued" in enqueue(stack, table, 1)
    assert "with the same values already" in enqueue(stack, table, 1)
    assert "with the same values already" in stack.testpmd.command(
        "flow create 0 ingress pattern eth / ipv4 src is 10.0.0.1 / udp dst is 1 / end actions drop"
        " / end")
    for port in range(2, RULES + 1):
        assert "enqueued" in enqueue(stack, table, port)
    assert "rte_flow_pull" in enqueue(stack, table, 1000)  # 64 results wait
    while pull(stack) > 0:
        pass
    assert "all rules of the table are in use" in enqueue(stack, table, 1000)
