# SPDX-License-Identifier: BSD-3-Clause
"""Actions that change while their rules exist: indirect rss and count shared by rules, and actions of one rule.
The effect of updates on the device's rules is tested in tests/unit/flow."""

from contextlib import contextmanager
from typing import Iterator

import pytest
from rig.flow_rules import receive
from rig.packets import opaque, tcp4, udp4, udp6
from rig.stack import Stack

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving")]


IN_GROUPS = pytest.mark.parametrize("group", [0, 1])


def enter(stack: Stack, group: int) -> None:
    """Directs all IPv4 packets to that group."""
    if group != 0:
        stack.testpmd.create_flow(
            0, f"ingress pattern eth / ipv4 / end actions jump group {group} / end")


@contextmanager
def shared(stack: Stack, action: str) -> Iterator[int]:
    """An indirect action; rules that use it are destroyed at the end."""
    testpmd = stack.testpmd
    answer = testpmd.expect(f"flow indirect_action 0 create ingress action {action} / end",
                            r"Indirect action #(\d+) created")
    number = int(answer[1])
    yield number
    testpmd.flush_flows(0)
    testpmd.expect(f"flow indirect_action 0 destroy action_id {number}", "destroyed")


@IN_GROUPS
def test_rules_share_an_rss_that_is_updated(stack: Stack, group: int) -> None:
    """Updates its queues and types; the rules keep their own marks."""
    frames = [frame for n in range(1, 40)
              for frame in (udp4(sport=n), tcp4(sport=n), udp6(sport=n))]

    def seen() -> dict[int | None, set[int]]:
        by_mark: dict[int | None, set[int]] = {}
        for packet in receive(stack, frames):
            by_mark.setdefault(packet.mark, set()).add(packet.queue)
        return by_mark

    with shared(stack, "rss types ipv4-udp ipv4-tcp end queues 0 1 end") as number:
        enter(stack, group)
        for mark, layer in ((1, "udp"), (2, "tcp")):
            stack.testpmd.create_flow(0, f"group {group} ingress pattern eth / ipv4 / {layer} / end actions"
                                         f" mark id {mark} / indirect {number} / end")
        stack.testpmd.create_flow(0, "ingress pattern eth / ipv6 / end actions queue index 1 / end")
        assert seen() == {1: {0, 1}, 2: {0, 1}, None: {1}}
        for update, queues in (("types ipv4-udp ipv4-tcp end queues 2 3 end", {2, 3}),
                               ("types ipv4-udp ipv4-tcp ipv6 end queues 3 0 2 end", {0, 2, 3})):
            stack.testpmd.expect(f"flow indirect_action 0 update {number} action rss {update} / end",
                                 "updated")
            assert seen() == {1: queues, 2: queues, None: {1}}
        stack.testpmd.expect(f"flow indirect_action 0 update {number} action rss types ipv6 end"
                             " queues 2 0 1 end / end", "updated")
        assert seen() == {1: {2}, 2: {2}, None: {1}}  # its types fit no packet: the first queue
        assert "rules or template tables use this indirect rss" in stack.testpmd.command(
            f"flow indirect_action 0 destroy action_id {number}")


@IN_GROUPS
def test_an_update_loses_and_doubles_nothing(stack: Stack, group: int) -> None:
    """Frames keep coming while the queues of a shared rss change."""
    testpmd = stack.testpmd
    with shared(stack, "rss types ipv4-udp end queues 0 1 end") as number:
        enter(stack, group)
        testpmd.create_flow(0, f"group {group} ingress pattern eth / ipv4 / udp / end actions mark id 1"
                               f" / indirect {number} / end")
        position, sent = testpmd.mark_output(), 0
        for queues in ("2 3", "1 0 2", "3", "0 1") * 3:
            at = stack.program.send_line(f"flow indirect_action 0 update {number}"
                                         f" action rss types ipv4-udp end queues {queues} end / end")
            for _ in range(8):
                sent += 1
                stack.wires[0].send(udp4(sport=sent))
            stack.program.wait_for("updated", at)
        stack.wires[0].send(opaque(60, 1))
        packets = testpmd.received(position, sent + 1)
        assert len(packets) == sent + 1
        assert sum(packet.mark == 1 for packet in packets) == sent


def test_rules_share_a_count(stack: Stack) -> None:
    with shared(stack, "count") as number:
        for layer in ("udp", "tcp"):
            stack.testpmd.create_flow(0, f"ingress pattern eth / ipv4 / {layer} / end actions"
                                         f" indirect {number} / queue index 1 / end")

        def counted() -> tuple[int, int]:
            answer = stack.testpmd.expect(
                f"flow indirect_action 0 query {number}",
                r"hits_set: 1\n *bytes_set: 1\n *hits: (\d+)\n *bytes: (\d+)")
            return int(answer[1]), int(answer[2])

        assert counted() == (0, 0)
        receive(stack, [bytes(udp4()).ljust(100), bytes(tcp4()).ljust(200), udp6()])
        assert counted() == (2, 300)
        receive(stack, [bytes(tcp4()).ljust(200)])
        assert counted() == (3, 500)
        # Without rules it keeps its values, and continues with the next rule.
        receive(stack, [bytes(udp4()).ljust(100)])
        stack.testpmd.flush_flows(0)
        assert counted() == (4, 600)
        stack.testpmd.create_flow(
            0, f"ingress pattern eth / ipv6 / end actions indirect {number} / queue index 1 / end")
        receive(stack, [bytes(udp6()).ljust(100), udp4()])
        assert counted() == (5, 700)


def test_what_is_refused(stack: Stack) -> None:
    create = "flow indirect_action 0 create ingress action {} / end"
    for action, why in (("rss queues 0 7 end", "no Rx queue 7"),
                        ("mark id 5", "action mark cannot be an indirect one")):
        assert why in stack.testpmd.command(create.format(action))


@IN_GROUPS
def test_a_rule_gets_other_actions(stack: Stack, group: int) -> None:
    testpmd = stack.testpmd
    enter(stack, group)
    rule = testpmd.create_flow(0, f"group {group} ingress pattern eth / ipv4 / udp / end actions mark id 1"
                                  " / queue index 1 / end")

    def update(actions: str) -> str:
        return testpmd.command(f"flow update 0 {rule} actions {actions} / end")

    def seen() -> tuple[int | None, int]:
        packet, = receive(stack, [udp4()])
        return packet.mark, packet.queue

    assert seen() == (1, 1)
    answer = update("mark id 2 / queue index 3")
    if "Bad arguments" in answer:
        pytest.skip("testpmd has the command flow update since 23.07")
    assert f"Flow rule #{rule} updated" in answer
    assert seen() == (2, 3)
    assert "no Rx queue 7" in update("mark id 3 / queue index 7")
    assert seen() == (2, 3)
    assert "updated" in update("drop")
    position = testpmd.mark_output()
    stack.wires[0].send_all([bytes(udp4()), bytes(udp6())])
    packet, = testpmd.received(position, 1)
    assert packet.mark is None
