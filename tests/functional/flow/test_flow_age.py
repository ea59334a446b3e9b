# SPDX-License-Identifier: BSD-3-Clause
"""Action age: rules that no packet hits are reported. Times are checked to the second in
tests/unit/flow/age_test.cpp; here they only need to expire."""

import pytest
from rig.flow_rules import EVENT_OF_AGE, aged, receive
from rig.packets import udp4
from rig.stack import Stack

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving")]


def create(stack: Stack, port: int, actions: str) -> int:
    return stack.testpmd.create_flow(
        0, f"ingress pattern eth / ipv4 / udp dst is {port} / end actions {actions} / queue index 1 / end")


def test_the_idle_rule_ages(stack: Stack) -> None:
    """Its timeout is the longer one, but packets keep the other one from ageing."""
    since = stack.testpmd.mark_output()
    idle, busy = (create(stack, port, f"age timeout {seconds}") for port, seconds in ((1, 5), (2, 3)))
    assert aged(stack) == []
    while EVENT_OF_AGE not in stack.testpmd.program.output[since:]:
        receive(stack, [udp4(dport=2)])
    assert aged(stack) == [f"Flow {idle}"]
    stack.testpmd.expect(f"flow query 0 {idle} age", r"aged: 1\n")
    stack.testpmd.expect(f"flow query 0 {busy} age", r"aged: 0\n(?s:.*)sec_since_last_hit: [0-2]\n")
    assert aged(stack, "destroy") == [f"Flow {idle}"]
    stack.testpmd.program.wait_for(EVENT_OF_AGE, stack.testpmd.mark_output())  # eventually the other one, too
    assert aged(stack) == [f"Flow {busy}"]


def test_an_indirect_age_is_touched(stack: Stack) -> None:
    testpmd = stack.testpmd
    since = testpmd.mark_output()
    number = int(testpmd.expect("flow indirect_action 0 create ingress action age timeout 1 / end",
                                r"Indirect action #(\d+) created")[1])
    counting, _ = (create(stack, port, f"{count}indirect {number}")
                   for port, count in ((1, "count / "), (2, "")))
    testpmd.program.wait_for(EVENT_OF_AGE, since)
    assert aged(stack) == [f"Indirect action {number}"]
    testpmd.expect(f"flow indirect_action 0 query {number}", r"aged: 1\n")
    testpmd.expect(f"flow indirect_action 0 update {number} action age_update timeout 1000 touch 1 / end",
                   "updated")
    assert aged(stack) == []
    receive(stack, [udp4(dport=1)])
    testpmd.expect(f"flow indirect_action 0 query {number}",
                   r"aged: 0\n(?s:.*)sec_since_last_hit: \d\n")
    assert testpmd.query_count(0, counting)[0] == 1
    testpmd.flush_flows(0)
    testpmd.expect(f"flow indirect_action 0 destroy action_id {number}", "destroyed")


def test_a_rule_counts_and_ages(stack: Stack) -> None:
    since = stack.testpmd.mark_output()
    rule = create(stack, 1, "count / age timeout 1")
    receive(stack, [bytes(udp4(dport=1)).ljust(100)] * 3)
    stack.testpmd.program.wait_for(EVENT_OF_AGE, since)
    assert aged(stack) == [f"Flow {rule}"]
    assert stack.testpmd.query_count(0, rule) == (3, 300)
