# SPDX-License-Identifier: BSD-3-Clause
"""Large frames and packets of many segments."""

from typing import Iterator

import pytest
from rig.packets import marker, opaque, udp4
from rig.ports import lossless
from rig.stack import Stack
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from functional.conftest import OpenStack

# The kernel does not affect how mbufs are split: once is enough there.
pytestmark = pytest.mark.guest(when=lambda params: params["stack"] == "scattered")

MTU = 9000
LONGEST = MTU + 18
DESCRIPTORS = 256

# Bytes of a packet's first mbuf, which has headroom, and of each further one.
FIRST, NEXT = 2048, 2176
# The longest frames that take one mbuf, two, …
FULL = [min(FIRST + n * NEXT, LONGEST) for n in range(5)]

# Mbufs in the rings of both ports, Rx and Tx, and in a burst of the longest frames held by testpmd.
MBUFS = 4 * DESCRIPTORS + 32 * len(FULL)

# How frames of 9018 bytes fit: over several mbufs, or in one that is large enough.
ROOM = {
    "scattered": [f"--mbuf-size={NEXT}", "--enable-scatter", f"--total-num-mbufs={MBUFS}",
                  "--mbcache=0"],
    "big_mbufs": ["--mbuf-size=9728", "--total-num-mbufs=4096"],
}


@pytest.fixture(scope="module", params=ROOM)
def stack(request: pytest.FixtureRequest, datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    ports = lossless(2, mtu=str(MTU))
    arguments = [*ROOM[request.param], f"--max-pkt-len={LONGEST}", f"--rxd={DESCRIPTORS}",
                 f"--txd={DESCRIPTORS}", "--tx-offloads=0x8000"]  # MULTI_SEGS
    with open_stack(ports, datapath=datapath, testpmd_args=arguments) as stack:
        stack.testpmd.start("io", lossless=True)
        yield stack


def test_sizes_unchanged(stack: Stack) -> None:
    """Sizes around each boundary: those that fill a number of mbufs, and the longest frame."""
    borders = [60, 1514, *FULL]
    sizes = sorted({size for border in borders for size in range(border - 4, border + 5)
                    if 60 <= size <= LONGEST} | set(range(60, LONGEST, 97)))
    stack.wires[0].transfer([opaque(size, seed=size) for size in sizes], to=stack.wires[1])


def test_full_rings_of_large_frames(stack: Stack) -> None:
    frames = [opaque(LONGEST, seed=n) for n in range(64)] * 16
    stack.wires[0].transfer(frames, to=stack.wires[1])
    for port in range(2):
        assert stack.testpmd.stats(port).rx_nombuf == 0


def test_longer_than_the_mtu_is_dropped_and_counted(stack: Stack) -> None:
    before = stack.counters(0)["drop_oversize"]
    stack.wires[0].send(opaque(LONGEST + 1, seed=1))
    stack.wires[0].send(marker())
    assert stack.wires[1].receive_until(marker()) == []
    assert stack.counters(0)["drop_oversize"] == before + 1


def test_packets_split_into_many_segments(stack: Stack) -> None:
    """testpmd's csum engine splits each packet into pieces of these sizes before sending it."""
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.silent("set txpkts 64,33,1,128,500")
    testpmd.silent("set txsplit on")
    testpmd.start("csum")
    for size in (40, 300, 1400):
        frame = udp4(bytes(size))
        stack.wires[0].send(frame)
        got, want = Ether(stack.wires[1].receive()), Ether(bytes(frame))
        assert bytes(got[IP]).rstrip(b"\0") == bytes(want[IP]).rstrip(b"\0")
        assert len(got[UDP].payload) >= size
    testpmd.stop()
    testpmd.silent("set txsplit off")
    testpmd.start("io", lossless=True)


def test_scattered_packets_have_several_segments(stack: Stack) -> None:
    """They take only the mbufs that they fill, and a ring holds as many mbufs as it has descriptors."""
    testpmd = stack.testpmd
    big = "--mbuf-size=9728" in stack.program.command_line
    testpmd.stop()
    testpmd.silent("set verbose 1")
    testpmd.start("rxonly")
    for mbufs, size in enumerate(FULL, 1):
        position = testpmd.mark_output()
        stack.wires[0].send(opaque(size, seed=size))
        packet = testpmd.received(position, 1)[0]
        assert (packet.length, packet.segments) == (size, 1 if big else mbufs)
    testpmd.stop()
    testpmd.silent("set verbose 0")
    testpmd.stop_port("all")
    assert testpmd.mbufs_in_use() == 0
    testpmd.start_port("all")
    assert testpmd.mbufs_in_use() == 2 * DESCRIPTORS
    assert f"Number of RXDs: {DESCRIPTORS}" in testpmd.command("show rxq info 0 0")
    testpmd.start("io", lossless=True)


def test_mtu_change(stack: Stack) -> None:
    """Takes effect in device and driver; after changing back, everything passes."""
    testpmd = stack.testpmd
    testpmd.change_mtu(0, 2000)
    testpmd.start("io", lossless=True)
    assert testpmd.info(0)["MTU"] == "2000"
    before = stack.counters(0)["drop_oversize"]
    stack.wires[0].transfer([opaque(2018, seed=1)], to=stack.wires[1])
    stack.wires[0].send(opaque(2019, seed=2))
    stack.wires[0].send(marker(1))
    assert stack.wires[1].receive_until(marker(1)) == []
    assert stack.counters(0)["drop_oversize"] == before + 1

    testpmd.stop()
    testpmd.stop_port(0)
    testpmd.silent(f"port config mtu 0 {MTU}")
    testpmd.start_port(0)
    testpmd.start("io", lossless=True)
    stack.wires[0].transfer([opaque(LONGEST, seed=3)], to=stack.wires[1])
