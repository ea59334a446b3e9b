# SPDX-License-Identifier: BSD-3-Clause
"""A port with rte_flow rules under test: they mark the packets that they take, so that one batch of frames
shows hits and misses at once."""

import re
from collections import Counter
from contextlib import contextmanager
from typing import Callable, ContextManager, Iterator, Sequence

from scapy.packet import Packet

from .packets import MARKER_TYPE, marker_by_length
from .ports import lossless
from .stack import Stack
from .stack_base import StackBase
from .testpmd import ReceivedPacket

QUEUES = 4
MARK = 0x5A5A
TAKE = f"end actions mark id {MARK} / queue index 2 / end"
# How rules are passed to the device does not depend on the rings: each engine is tested with one kind.
# `auto` uses verbs for everything that verbs can express.
ENGINES = {"mlx5": "auto", "verbs": "mlx5"}

_RSS_HASH = 1 << 19  # RTE_ETH_RX_OFFLOAD_RSS_HASH
_BURST = 32  # packets that testpmd takes from a queue at once
_BATCH = 128  # frames at once: fewer than a queue has descriptors


def turn_marks_on(stack: StackBase) -> None:
    """Queues report marks from the first burst after the first rule that marks. An earlier burst may still be
    running when the first frame arrives, so this is called before anything is received."""
    stack.testpmd.create_flow(0, "ingress pattern eth type is 0 / end actions mark id 1 / queue index 0"
                                 " / end")
    stack.testpmd.flush_flows(0)


@contextmanager
def flow_stack(open_stack: Callable[..., ContextManager[Stack]], datapath: str,
               **options: str) -> Iterator[Stack]:
    """Promiscuous, as testpmd starts: frames that match no rule arrive without a mark."""
    arguments = [f"--rxq={QUEUES}", f"--txq={QUEUES}", "--rss-udp"]
    if datapath == "mlx5":  # verbs cannot report hashes
        arguments.append(f"--rx-offloads={_RSS_HASH:#x}")
    ports = lossless(1, devargs=f"flow_engine={ENGINES[datapath]}", devx="on", **options)
    with open_stack(ports, datapath=datapath, testpmd_args=arguments) as stack:
        stack.testpmd.silent("set verbose 1")
        turn_marks_on(stack)
        yield stack


def engines_of(stack: StackBase, group: int) -> Counter[str]:
    """The number of the device's rules in a group, by engine."""
    dump = stack.testpmd.command("flow dump 0 all")
    named = f"group {group} " if group else ""  # group 0 is not
    return Counter(re.findall(rf"ingress {named}priority .* \(by (.*)\)", dump))


@contextmanager
def receiving_rules(stack: Stack) -> Iterator[None]:
    """Receives, and flushes the rules at the end."""
    stack.testpmd.start("rxonly")
    yield
    stack.testpmd.stop()
    stack.testpmd.flush_flows(0)


def receive(stack: Stack, frames: Sequence[bytes | Packet]) -> list[ReceivedPacket]:
    """Requires all frames to arrive, in any order."""
    packets = []
    for start in range(0, len(frames), _BATCH):
        batch = frames[start : start + _BATCH]
        position = stack.testpmd.mark_output()
        stack.wires[0].send_all(batch)
        packets += stack.testpmd.received(position, len(batch))
    assert len(packets) == len(frames)
    return packets


def markers_for(packets: int) -> list[bytes]:
    """Enough markers to show that every queue was polled often enough for that many packets."""
    return [marker_by_length(number) for number in range(2 + packets // _BURST)]


def arrived(stack: StackBase, frames: Sequence[bytes | Packet],
            markers: Sequence[bytes]) -> list[ReceivedPacket]:
    """The frames that arrived, possibly fewer than sent. The first marker shows that all of them have reached
    their queues; the others, sent one by one, that every queue was polled often enough since."""
    wire, testpmd = stack.wires[0], stack.testpmd
    position = testpmd.mark_output()
    wire.send_all(frames)
    for frame in markers:
        wire.send(frame)
        # Waits for all of it: the rest of testpmd's output would be taken for the answer to the next command.
        testpmd.program.wait_for(rf"type=0x{MARKER_TYPE:04x} - length={len(frame)} .*\n"
                                 r".*ol_flags: .*\n", position)
    return [packet for packet in testpmd.received_so_far(position) if packet.ether_type != MARKER_TYPE]


def taken(stack: Stack, frames: Sequence[bytes | Packet]) -> int:
    """How many of the frames the rules under test take."""
    packets = receive(stack, frames)
    hits = [packet for packet in packets if packet.mark is not None]
    assert all((packet.mark, packet.queue) == (MARK, 2) for packet in hits)
    return len(hits)


EVENT_OF_AGE = "flow aged event"


def aged(stack: StackBase, destroy: str = "") -> list[str]:
    """The rules and indirect actions of port 0 that have aged."""
    answer = stack.testpmd.expect(f"flow aged 0 {destroy}", r"total aged flows: (\d+)")
    rows = re.findall(r"(Flow|Indirect action)\s+(\d+)", answer.string)
    assert len(rows) == int(answer[1])
    return [" ".join(row) for row in rows]
