# SPDX-License-Identifier: BSD-3-Clause
"""Truncated, oversized, damaged and random frames arrive at a forwarding port: valid ones pass unchanged, the
others are counted by name."""

import os
import threading
import time
from pathlib import Path
from typing import Callable

import pytest
from rig.odd_frames import LONGEST, Tally, as_capture, odd_frames
from rig.ports import PortSpec
from rig.reliability import TellFaults
from rig.stack import Stack
from rig.wire import describe_difference, padded
from scapy.utils import RawPcapReader

from functional.conftest import StartStack

DEVARGS = {"mlx5": "", "striding": "mprq_en=1", "verbs": ""}
FRAMES = 3_400_000  # for each kind of receive queue: ten million in total
LOSSLESS = {"pause": "on"}
# Checksums are checked; the burst function reports everything that it can.
TESTPMD = ["--no-flush-rx", "--enable-rx-cksum", "--total-num-mbufs=8192"]


@pytest.fixture(params=DEVARGS)
def start(request: pytest.FixtureRequest, start_stack: StartStack) -> Callable[..., Stack]:
    """start(incoming, outgoing, queues) starts a port whose cable plays a file, and one that it forwards to, for
    each kind of receive queue."""
    name: str = request.param

    def start_on(incoming: Path, outgoing: str, queues: int) -> Stack:
        ports = [PortSpec(f"pcap:{incoming}", LOSSLESS, DEVARGS[name]), PortSpec(outgoing, LOSSLESS, DEVARGS[name])]
        return start_stack(ports, datapath="verbs" if name == "verbs" else "mlx5",
                           testpmd_args=[*TESTPMD, f"--rxq={queues}", f"--txq={queues}"])

    return start_on


def check_counts(stack: Stack, tally: Tally, timeout: float) -> int:
    """Everything received was forwarded, or is in a counter. Returns how many valid frames were dropped: if the
    machine gives testpmd no CPU for a second, the wire, or testpmd, drops them."""
    stack.wait_counter(0, "wire_rx_packets", tally.total, timeout)
    deadline = time.monotonic() + timeout
    while True:
        forwarded = stack.testpmd.forward_stats()
        delivered, sent = stack.counters(0)["delivered"], stack.counters(1)["wire_tx_packets"]
        if sent + forwarded[1].tx_dropped == delivered:
            break
        assert time.monotonic() < deadline, f"{sent} of {delivered} left, {forwarded}"
    missed = stack.counters(0)["drop_out_of_buffer"]
    dropped = {name: value for name, value in stack.counters(0).items() if name.startswith("drop_") and value}
    wanted = {"drop_undersize": tally.undersize, "drop_oversize": tally.oversize}
    assert dropped == wanted | ({"drop_out_of_buffer": missed} if missed else {})
    assert stack.counters(0)["wire_rx_packets"] == tally.total and delivered + missed == tally.others
    one, other = stack.testpmd.stats(0), stack.testpmd.stats(1)
    assert (one.rx_packets, one.rx_missed, other.tx_packets) == (delivered, missed, sent)
    assert (one.rx_errors, one.rx_nombuf, other.tx_errors) == (0, 0, 0)
    stack.testpmd.check_mbufs()
    return tally.others - sent


def test_each_passes_as_it_is(start: Callable[..., Stack], tmp_path: Path, tell_faults: TellFaults) -> None:
    frames, tally = list(odd_frames(seed=1, count=20_000)), Tally()
    (tmp_path / "in").write_bytes(b"".join(as_capture(iter(frames), tally)))
    stack = start(tmp_path / "in", f"pcap:,{tmp_path}/out", queues=1)
    stack.testpmd.start("io", lossless=True)
    assert check_counts(stack, tally, timeout=30) == 0
    expected = [padded(frame) for frame in frames if 14 <= len(frame) <= LONGEST]
    arrived = [frame for frame, _ in RawPcapReader(f"{tmp_path}/out")]
    for number, (frame, wanted) in enumerate(zip(arrived, expected)):
        assert frame == wanted, describe_difference(number, frame, wanted)
    assert len(arrived) == len(expected)
    tell_faults("odd-frame", tally.total)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_millions(start: Callable[..., Stack], tmp_path: Path, tell_faults: TellFaults) -> None:
    """Through a pipe, as a file would fill the disk."""
    tally, pipe = Tally(), tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with open(pipe, "wb") as stream:
            stream.writelines(as_capture(odd_frames(seed=2, count=FRAMES), tally))

    writer = threading.Thread(target=write, daemon=True)  # in case nobody reads
    writer.start()
    stack = start(pipe, "sink", queues=2)
    stack.testpmd.start("io", lossless=True)
    writer.join()
    assert tally.total == FRAMES
    check_counts(stack, tally, timeout=60)
    tell_faults("odd-frame", tally.total)
