# SPDX-License-Identifier: BSD-3-Clause
"""Rules of groups that pass packets on to the rules of lower priority, by commands and by software steering."""

from typing import Iterator

import pytest
from rig.flow_meters import Meters
from rig.flow_rules import arrived, engines_of, flow_stack, markers_for, receive
from rig.flow_templates import configure, create_table, destroy_table
from rig.packets import tcp4, udp4, udp6
from rig.stack import Stack

from functional.conftest import OpenStack

COMMANDS, SOFTWARE_0, SOFTWARE_1 = "commands", "software0", "software1"
pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving")]

PORT = 100
TO_PORT = f"ingress pattern eth / ipv4 / udp dst is {PORT} / end"
MISSES = [udp4(dport=PORT ^ 1 << bit) for bit in range(16)]
TABLE = 5


@pytest.fixture(scope="module", params=[COMMANDS, SOFTWARE_0, SOFTWARE_1])
def stack(datapath: str, open_stack: OpenStack, request: pytest.FixtureRequest) -> Iterator[Stack]:
    with flow_stack(open_stack, datapath, steering_format="1" if request.param == SOFTWARE_1 else "0") as stack:
        configure(stack)
        if request.param != COMMANDS:
            create_table(stack, "1 group 99 rules_number 1", "eth / ipv4", "drop", "drop")
        yield stack


@pytest.fixture(autouse=True)
def way(receiving: None, stack: Stack) -> int:
    return create(stack, "ingress pattern eth / end actions jump group 1 / end")


def create(stack: Stack, rule: str) -> int:
    return stack.testpmd.create_flow(0, rule)


def rest(stack: Stack, priority: int = 9) -> int:
    """For all other packets; without a mark, unless another rule has set one."""
    return create(stack, f"group 1 priority {priority} ingress pattern eth / end actions count / queue index 3 / end")


def seen(stack: Stack, *frames: object) -> list[tuple[int | None, int]]:
    """The mark and the queue of each frame, in order."""
    return [(packet.mark, packet.queue) for frame in frames for packet in receive(stack, [frame])]


def hits(stack: Stack, *rules: int) -> list[int]:
    return [stack.testpmd.query_count(0, rule)[0] for rule in rules]


def test_a_packet_gets_the_effects_of_both(stack: Stack) -> None:
    """One that misses the first rule by one bit gets those of the second alone."""
    passes = create(stack, f"group 1 priority 1 {TO_PORT} actions count / mark id 7 / passthru / end")
    other = rest(stack)
    assert seen(stack, udp4(dport=PORT)) == [(7, 3)]
    packets = receive(stack, MISSES)
    assert {(packet.mark, packet.queue) for packet in packets} == {(None, 3)}
    assert hits(stack, passes, other) == [1, 17]
    stack.testpmd.destroy_flow(0, passes)
    assert seen(stack, udp4(dport=PORT)) == [(None, 3)]
    assert hits(stack, other) == [18]


def test_by_what_it_is_done(open_stack: OpenStack, datapath: str) -> None:
    """Software steering counts and changes packets on the way; a mark beside this, as beside a jump, takes commands."""
    with flow_stack(open_stack, datapath, steering_format="0") as stack:
        configure(stack)
        create_table(stack, "1 group 99 rules_number 1", "eth / ipv4", "drop", "drop")
        create(stack, "ingress pattern eth / end actions jump group 1 / end")
        passes = create(stack, f"group 1 priority 1 {TO_PORT} actions count / set_ttl ttl_value 3 / passthru / end")
        other = rest(stack)
        stack.testpmd.start("rxonly")
        assert seen(stack, udp4(dport=PORT), *MISSES) == [(None, 3)] * 17
        assert hits(stack, passes, other) == [1, 17]
        assert {*engines_of(stack, group=1)} == {"software steering"}
        assert ": pass on to lower priorities, count" in stack.testpmd.command("flow dump 0 all")
        stack.testpmd.stop()
        stack.testpmd.flush_flows(0)


def test_a_chain(stack: Stack) -> None:
    """The mark is the last one that a rule sets, and rules that come later match what earlier ones have set."""
    create(stack, "group 1 priority 1 ingress pattern eth / ipv4 / end actions mark id 1 / passthru / end")
    create(stack, "group 1 priority 2 ingress pattern eth / ipv4 / udp / end"
                  " actions set_tag data 5 mask 0xffffffff index 0 / passthru / end")
    create(stack, f"group 1 priority 3 {TO_PORT} actions mark id 3 / passthru / end")
    create(stack, "group 1 priority 4 ingress pattern tag data is 5 index is 0 / mark id is 1 / end"
                  " actions queue index 1 / end")
    rest(stack)
    assert seen(stack, udp4(dport=PORT), udp4(dport=PORT + 1), tcp4(), udp6()) == [
        (3, 3), (1, 1), (1, 3), (None, 3)]


def test_a_better_rule_ends_it(stack: Stack) -> None:
    ends = create(stack, f"group 1 priority 0 {TO_PORT} actions count / queue index 2 / end")
    passes = create(stack, "group 1 priority 1 ingress pattern eth / end actions count / mark id 7 / passthru / end")
    other = rest(stack)
    assert seen(stack, udp4(dport=PORT), MISSES[0]) == [(None, 2), (7, 3)]
    assert hits(stack, ends, passes, other) == [1, 1, 1]


def test_what_matches_nothing_behind_is_lost(stack: Stack, way: int) -> None:
    create(stack, f"group 1 priority 1 {TO_PORT} actions mark id 7 / passthru / end")
    create(stack, "group 1 priority 2 ingress pattern eth / ipv6 / end actions queue index 1 / end")
    position = stack.testpmd.mark_output()
    stack.wires[0].send_all([udp4(dport=PORT), udp4(), udp6()])
    packet, = stack.testpmd.received(position, 1)
    assert (packet.mark, packet.queue) == (None, 1)
    stack.testpmd.destroy_flow(0, way)


def test_changed_packets_are_matched_as_they_are(stack: Stack) -> None:
    create(stack, f"group 1 priority 1 {TO_PORT} actions set_tp_dst port 200 / passthru / end")
    create(stack, "group 1 priority 2 ingress pattern eth / ipv4 / udp dst is 200 / end"
                  " actions mark id 2 / queue index 1 / end")
    rest(stack)
    assert seen(stack, udp4(dport=PORT), udp4(dport=200), MISSES[1]) == [(2, 1), (2, 1), (None, 3)]


def test_jumps_from_behind(stack: Stack) -> None:
    """To a group whose table is not behind those of this one."""
    create(stack, f"group 1 priority 1 {TO_PORT} actions mark id 1 / passthru / end")
    create(stack, "group 1 priority 2 ingress pattern eth / ipv4 / end actions passthru / end")
    create(stack, "group 1 priority 3 ingress pattern eth / end actions jump group 2 / end")
    create(stack, "group 2 ingress pattern eth / end actions queue index 2 / end")
    assert seen(stack, udp4(dport=PORT), udp6()) == [(1, 2), (None, 2)]


def test_in_any_order(stack: Stack) -> None:
    """Of deletion; and a rule of a priority at which one ends may pass on."""
    testpmd = stack.testpmd
    rules = {priority: create(
        stack, f"group 1 priority {priority} ingress pattern eth / ipv4 / end actions mark id {priority} / passthru / end")
        for priority in (1, 2, 3)}
    rest(stack)
    for gone, mark in ((2, 3), (3, 1), (1, None)):
        assert seen(stack, udp4()) == [(3 if 3 in rules else 1, 3)]
        testpmd.destroy_flow(0, rules.pop(gone))
        assert seen(stack, udp4()) == [(mark, 3)]
    create(stack, "group 1 priority 9 ingress pattern eth / ipv4 / end actions mark id 9 / passthru / end")
    create(stack, "group 1 priority 10 ingress pattern eth / end actions queue index 1 / end")
    assert seen(stack, udp4(), udp6()) == [(9, 1), (None, 3)]


def test_a_template_passes_on(stack: Stack, request: pytest.FixtureRequest) -> None:
    """The table it is for also decides what serves groups."""
    actions = "count / mark id 7 / passthru"
    create_table(stack, f"{TABLE} group 1 priority 1 rules_number 4", "eth / ipv4 / udp dst mask 65535", actions, actions)
    other = rest(stack)
    assert seen(stack, udp4(dport=PORT)) == [(None, 3)]
    stack.testpmd.expect(
        f"flow queue 0 create 0 template_table {TABLE} pattern_template 0 actions_template 0 postpone no pattern"
        f" eth / ipv4 / udp dst is {PORT} / end actions {actions} / end", r"Flow rule #(\d+) creation enqueued")
    stack.testpmd.expect("flow pull 0 queue 0", "Queue #0 pulled 1 operations")
    assert seen(stack, udp4(dport=PORT), *MISSES) == [(7, 3), *[(None, 3)] * 16]
    assert hits(stack, other) == [18]
    stack.testpmd.flush_flows(0)
    destroy_table(stack, TABLE)


def test_a_copy_on_the_way(stack: Stack) -> None:
    """By commands: groups are served by them for a while."""
    stack.testpmd.silent("set sample_actions 0 mark id 8 / queue index 2 / end")
    create(stack, f"group 1 priority 1 {TO_PORT} actions sample ratio 1 index 0 / passthru / end")
    rest(stack)
    packets = receive_two(stack, udp4(dport=PORT))
    assert packets == {(8, 2), (None, 3)}


def receive_two(stack: Stack, frame: object) -> set[tuple[int | None, int]]:
    position = stack.testpmd.mark_output()
    stack.wires[0].send_all([frame])
    return {(packet.mark, packet.queue) for packet in stack.testpmd.received(position, 2)}


def test_a_meter_on_the_way(stack: Stack) -> None:
    """What it lets pass meets the rules behind. Groups are served by commands for a while."""
    size, slack, count = 10, 8, 50
    meters = Meters(stack)
    meters.make(1, f"srtcm_rfc2697 1 {size} 0 1")  # practically, only what the bucket holds passes
    passes = create(stack, f"group 1 priority 1 {TO_PORT} actions meter mtr_id 1 / count / passthru / end")
    other = create(stack, f"group 1 priority 2 {TO_PORT} actions count / mark id 7 / queue index 2 / end")
    rest(stack)
    frames = [udp4(dport=PORT)] * count
    through = sum(packet.mark == 7 for packet in arrived(stack, frames, markers_for(count)))
    assert size <= through <= size + slack
    assert hits(stack, passes, other) == [through, through]
    meters.clear()


def test_rules_in_front_and_behind_share_a_count(stack: Stack) -> None:
    answer = stack.testpmd.expect("flow indirect_action 0 create ingress action count / end",
                                  r"Indirect action #(\d+) created")
    number = answer[1]
    create(stack, f"group 1 priority 1 {TO_PORT} actions indirect {number} / passthru / end")
    create(stack, f"group 1 priority 2 ingress pattern eth / ipv4 / end actions indirect {number} / queue index 1 / end")
    assert seen(stack, udp4(dport=PORT), *MISSES) == [(None, 1)] * 17
    stack.testpmd.expect(f"flow indirect_action 0 query {number}", r"hits: 18\n")
    stack.testpmd.flush_flows(0)
    stack.testpmd.expect(f"flow indirect_action 0 destroy action_id {number}", "destroyed")


def test_packets_that_are_sent(forwarders: Stack) -> None:
    testpmd, wires = forwarders.testpmd, forwarders.wires
    testpmd.create_flow(1, "egress pattern eth / end actions jump group 1 / end")
    testpmd.create_flow(1, "group 1 priority 1 egress pattern eth / ipv4 / end actions set_ttl ttl_value 9 / passthru / end")
    testpmd.create_flow(1, f"group 1 priority 2 egress pattern eth / ipv4 / udp dst is {PORT} / end actions drop / end")
    wires[0].send(udp4(dport=PORT))
    wires[0].send(udp4())
    frame = wires[1].receive()
    assert frame[22] == 9 and frame[36:38] == bytes(udp4())[36:38]  # TTL and port
    testpmd.flush_flows(1)


@pytest.mark.parametrize("rule, why", [
    ("ingress pattern eth / end actions passthru / end", "into a group of 1 … 22, and jump there"),
    ("group 23 ingress pattern eth / end actions passthru / end", "there is none behind group 22"),
    ("group 1 ingress pattern eth / end actions queue index 0 / passthru / end", "the rule has queue already"),
    ("group 1 priority 1 ingress pattern eth / end actions passthru / end",
     "1 rule is of lower priority there already"),
])
def test_refusals(stack: Stack, rule: str, why: str) -> None:
    rest(stack)
    assert why in stack.testpmd.refused_flow(0, rule)


def test_levels_run_out(stack: Stack) -> None:
    for priority in (1, 2):
        create(stack, f"group 20 priority {priority} ingress pattern eth / end actions passthru / end")
    rule = "group 20 priority 3 ingress pattern eth / end actions"
    assert "group 20 has 2 such levels" in stack.testpmd.refused_flow(0, f"{rule} passthru / end")
    create(stack, f"{rule} queue index 0 / end")
