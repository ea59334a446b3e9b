# SPDX-License-Identifier: BSD-3-Clause
"""Actions are for the packets of the pattern alone: those that differ from it in one bit are treated as without the
rule. Actions that change packets are in test_flow_edits.py."""

import time
from dataclasses import dataclass
from typing import Callable, Iterator, Sequence

import pytest
from rig.flow_meters import Meters
from rig.flow_rules import EVENT_OF_AGE, MARK, TAKE, aged, arrived, markers_for, receive
from rig.packets import udp4
from rig.stack import Stack
from rig.testpmd import ReceivedPacket
from scapy.packet import Packet

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving")]

TO_100 = "eth / ipv4 / udp dst is 100 / end"
HITS = [udp4(sport=sport, dport=100) for sport in range(1, 17)]
MISSES = [udp4(dport=100 ^ 1 << bit) for bit in range(16)]


@dataclass
class Effect:
    """Of actions on a packet, as testpmd shows it."""

    actions: str
    seen: Callable[[ReceivedPacket], bool] | None = None  # None: it does not arrive

    def count(self, packets: Sequence[ReceivedPacket], sent: int) -> int:
        return sent - len(packets) if self.seen is None else sum(map(self.seen, packets))


EFFECTS = {
    "flag": Effect("flag / queue index 2", lambda packet: "RTE_MBUF_F_RX_FDIR" in packet.flags),
    "jump": Effect("jump group 1", lambda packet: packet.mark == MARK),
    "rss": Effect("rss types ipv4-udp end queues 1 3 end", lambda packet: packet.queue in (1, 3)),
    "drop": Effect("drop"),
    "send_to_kernel": Effect("send_to_kernel"),
    "meter": Effect("meter mtr_id 1 / queue index 2"),
}


@pytest.fixture
def meter(stack: Stack) -> Iterator[None]:
    """Drops all packets, whatever their color."""
    meters = Meters(stack)
    meters.make(1, "srtcm_rfc2697 1000 1000 0 1", "g_actions drop / end y_actions drop / end r_actions drop / end")
    yield
    meters.clear()


def create(stack: Stack, rule: str) -> int:
    return stack.testpmd.create_flow(0, rule)


@pytest.mark.usefixtures("meter")
@pytest.mark.parametrize("action", EFFECTS)
def test_an_action_misses_by_one_bit(stack: Stack, action: str) -> None:
    effect = EFFECTS[action]

    def affected(frames: Sequence[Packet]) -> int:
        return effect.count(arrived(stack, frames, markers_for(len(frames))), len(frames))

    create(stack, "priority 1 ingress pattern eth / ipv4 / udp / end actions queue index 0 / end")
    create(stack, f"group 1 ingress pattern eth / {TAKE}")
    assert affected(HITS) == affected(MISSES) == 0
    create(stack, f"ingress pattern {TO_100} actions {effect.actions} / end")
    assert affected(MISSES) == 0
    assert affected(HITS) == len(HITS)


def test_a_counter_misses_by_one_bit(stack: Stack) -> None:
    rule = create(stack, f"ingress pattern {TO_100} actions count / queue index 2 / end")
    receive(stack, MISSES)
    assert stack.testpmd.query_count(0, rule)[0] == 0
    receive(stack, HITS)
    assert stack.testpmd.query_count(0, rule)[0] == len(HITS)


def test_an_age_misses_by_one_bit(stack: Stack) -> None:
    """Such packets keep no rule young, even if they come all the time. What hits does: see test_flow_age.py."""
    since = stack.testpmd.mark_output()
    rule = create(stack, f"ingress pattern {TO_100} actions age timeout 1 / queue index 2 / end")
    deadline = time.monotonic() + 30
    while EVENT_OF_AGE not in stack.testpmd.program.output[since:]:
        assert time.monotonic() < deadline
        receive(stack, MISSES)
    assert aged(stack) == [f"Flow {rule}"]
