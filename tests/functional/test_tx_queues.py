# SPDX-License-Identifier: BSD-3-Clause
"""Tx queues at run time: stop and start, rate limit, inlining and one packet per WQE."""

import time

import pytest
from rig.packets import marker, numbered, opaque
from rig.ports import lossless

from functional.conftest import StartStack


@pytest.mark.guest
def test_stop_and_start(start_stack: StartStack, datapath: str) -> None:
    stack = start_stack(2, datapath=datapath)
    for _ in range(3):
        stack.testpmd.start("io", lossless=True)
        stack.wires[0].transfer(numbered(200), to=stack.wires[1])
        stack.testpmd.stop()
        stack.testpmd.silent("port 1 txq 0 stop")
        stack.testpmd.silent("port 1 txq 0 start")
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(200), to=stack.wires[1])
    stats = stack.testpmd.stats(1)
    assert (stats.tx_packets, stats.tx_errors) == (800, 0)


@pytest.mark.guest
def test_rate_limit(start_stack: StartStack, datapath: str) -> None:
    """100 frames of 1250 bytes are a megabit: at 4 Mbit/s a quarter of a second."""
    stack = start_stack(2, datapath=datapath)
    stack.testpmd.silent("set port 1 queue 0 rate 4")
    stack.testpmd.start("io", lossless=True)
    begin = time.monotonic()
    stack.wires[0].transfer([opaque(1250, seed=n) for n in range(100)], to=stack.wires[1])
    assert time.monotonic() - begin >= 0.24
    stack.testpmd.silent("set port 1 queue 0 rate 0")
    stack.wires[0].send(marker(1))
    assert stack.wires[1].receive_until(marker(1)) == []


# In the guest only the main differences of WQEs: one or many packets, and where the bytes are.
VARIANTS_IN_GUEST = {"txq_mpw=0", "txq_inline=200", "txq_inline_min=tcp,txq_doorbell=blueflame"}


@pytest.mark.guest(when=lambda params: params["devargs"] in VARIANTS_IN_GUEST)
@pytest.mark.parametrize("devargs, mode", [
    ("txq_mpw=0", "mlx5 scalar"),
    ("txq_inline=200", "mlx5 scalar, multi-packet"),
    # As with 200, of which there is another one.
    pytest.param("txq_mpw=0,txq_inline=64", "mlx5 scalar", marks=pytest.mark.thorough),
    ("txq_doorbell=blueflame", "mlx5"),
    ("txq_inline_min=l2", "mlx5 scalar"),
    ("txq_inline_min=ip", "mlx5 scalar"),
    ("txq_inline_min=tcp,txq_doorbell=blueflame", "mlx5 scalar"),
    ("txq_mpw=0,txq_inline=200,txq_doorbell=blueflame", "mlx5 scalar"),
])
def test_variants(start_stack: StartStack, devargs: str, mode: str) -> None:
    stack = start_stack(lossless(2, devargs), datapath="mlx5")
    assert stack.testpmd.tx_burst_mode(1).startswith(mode)
    assert ("inline" in stack.testpmd.tx_burst_mode(1)) == ("inline" in devargs)
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer((opaque(60 + n % 400, seed=n) for n in range(3000)),
                            to=stack.wires[1], timeout=60)


@pytest.mark.guest
@pytest.mark.parametrize("devargs", ["", "txq_inline=200"], ids=["plain", "inline"])
def test_verbs_work_requests(start_stack: StartStack, devargs: str) -> None:
    """libmlx5 offers ibv_wr_*, so it is used."""
    stack = start_stack(lossless(2, devargs), datapath="verbs")
    mode = stack.testpmd.tx_burst_mode(1)
    assert mode.startswith("verbs, work requests")
    assert ("inline" in mode) == ("inline" in devargs)
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer((opaque(60 + n % 400, seed=n) for n in range(3000)),
                            to=stack.wires[1], timeout=60)


@pytest.mark.guest
def test_what_a_stop_leaves_is_counted(start_stack: StartStack, datapath: str) -> None:
    """The wire accepts nothing while the port stops."""
    stack = start_stack(2, datapath=datapath)
    stack.testpmd.silent("set port 1 queue 0 rate 1")
    stack.testpmd.start("io")
    frames = [opaque(1500, seed=n) for n in range(200)]
    for frame in frames:
        stack.wires[0].send(frame)
    deadline = time.monotonic() + 10
    while stack.testpmd.stats(1).tx_packets < len(frames):  # until all are in the Tx ring
        assert time.monotonic() < deadline
    stack.testpmd.stop()
    stack.testpmd.stop_port(1)
    stats, xstats = stack.testpmd.stats(1), stack.testpmd.xstats(1)
    sent = stack.counters(1)["wire_tx_packets"]
    assert 0 < sent < len(frames)
    assert xstats["tx_unsent_packets"] > 0
    assert stats.tx_errors == xstats["tx_unsent_packets"]
    # The device may have sent packets whose completion was still to come.
    assert stats.tx_packets + stats.tx_errors == len(frames)
    assert stats.tx_packets <= sent
