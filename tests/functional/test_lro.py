# SPDX-License-Identifier: BSD-3-Clause
"""LRO: consecutive TCP segments arrive as one packet, with the headers that Scapy gives it. They are received
by our driver, and by DPDK's own net_mlx5, whose headers are only as correct as the device's information."""

from dataclasses import dataclass, replace
from typing import Any, Iterator, Sequence

import pytest
from rig.packets import ether, ipv4, udp4
from rig.ports import lossless
from rig.stack import Stack
from rig.tcp_segments import Segment, flow, joined, send_at_once
from scapy.layers.inet import TCP
from scapy.packet import Raw

from functional.conftest import OpenStack

# Packets forwarded by testpmd must fit in a frame of the port.
MTU, LONGEST = 9000, 8192

TIMEOUT = "lro_timeout_usec=1024"
# A session also ends with its WQE: those of striding queues are longer than everything sent here.
STRIDING = "mprq_en=1,rxqs_min_mprq=1,mprq_log_stride_size=11,mprq_log_stride_num=7"


@dataclass(frozen=True)
class Driver:
    pmd: str
    devargs: str
    burst: str  # its burst mode

    @property
    def options(self) -> dict[str, Any]:
        ports = lossless(2, devargs=self.devargs if self.pmd == "rawqp" else "", mtu=str(MTU))
        return {"ports": ports, "pmd": self.pmd, "pmd_devargs": self.devargs}


DRIVERS = {"rawqp": Driver("rawqp", TIMEOUT, "LRO"),
           "cyclic": Driver("mlx5", f"{TIMEOUT},mprq_en=0", ""),
           "striding": Driver("mlx5", f"{TIMEOUT},{STRIDING}", "Multi-Packet")}


@pytest.fixture(scope="module", params=DRIVERS)
def stack(request: pytest.FixtureRequest, open_stack: OpenStack) -> Iterator[Stack]:
    """Port 1 sends the packets received on port 0."""
    arguments = ["--enable-lro", "--enable-scatter", "--enable-rx-cksum",
                 f"--max-lro-pkt-size={LONGEST}", "--max-pkt-len=9018", "--rxd=512",
                 "--tx-offloads=0x8000"]  # MULTI_SEGS
    driver = DRIVERS[request.param]
    with open_stack(**driver.options, testpmd_args=arguments, memory_mb=512) as stack:
        assert driver.burst in stack.testpmd.rx_burst_mode(0)
        assert ("Multi-Packet" in stack.testpmd.rx_burst_mode(0)) == (request.param == "striding")
        stack.testpmd.silent("set verbose 1")
        yield stack


@pytest.fixture
def forwarding(stack: Stack) -> Iterator[Stack]:
    stack.testpmd.start("io", lossless=True)
    yield stack
    stack.testpmd.stop()


def check(stack: Stack, sessions: Sequence[Sequence[Segment]]) -> None:
    """Requires each session to arrive as one packet."""
    position = stack.testpmd.mark_output()
    send_at_once(stack, [segment.frame() for session in sessions for segment in session])
    whole = [joined(session).frame() for session in sessions]
    stack.wires[1].expect(whole)
    packets = stack.testpmd.received(position, len(sessions))[: len(sessions)]
    for session, frame, packet in zip(sessions, whole, packets, strict=True):
        assert packet.length == len(frame)
        assert ("RTE_MBUF_F_RX_LRO" in packet.flags) == (len(session) > 1)
        assert "RTE_MBUF_F_RX_L4_CKSUM_GOOD" in packet.flags


def test_offered(stack: Stack) -> None:
    assert "TCP_LRO" in stack.testpmd.command("show port 0 rx_offload capabilities")
    assert "TCP_LRO" in stack.testpmd.command("show port 0 rx_offload configuration")


@pytest.mark.parametrize("fields", [{}, {"version": 6}, {"tags": (5,)}, {"tags": (5, 6), "version": 6},
                                    {"time_stamp": 99}], ids=str)
def test_segments_become_one(forwarding: Stack, fields: dict[str, object]) -> None:
    """Nothing follows: the session ends when its timeout expires."""
    check(forwarding, [flow(5, **fields)])


def test_push_ends_a_session(forwarding: Stack) -> None:
    segments = flow(4)
    segments[1] = replace(segments[1], flags="PA")
    check(forwarding, [segments[:2], segments[2:]])


def test_longest_packet(forwarding: Stack) -> None:
    """No packet exceeds the limit, and the next one continues where it ends."""
    segments = flow(20)
    check(forwarding, [segments[start : start + 5] for start in range(0, 20, 5)])


def test_interleaved_flows(forwarding: Stack) -> None:
    """A queue has one session, which ends with a packet of another flow."""
    one, other = flow(6), flow(4, flow=1)
    check(forwarding, [one[:2], other[:2], one[2:4], other[2:], one[4:]])


def test_what_ends_a_session(forwarding: Stack) -> None:
    """A segment that does not continue the flow arrives after it as a separate packet."""
    segments = flow(8)
    changes = [replace(segments[1], flags="FA"), replace(segments[2], number=100),
               replace(segments[3], flags="A", time_stamp=3)]
    check(forwarding, [segments[:1], changes[:1], segments[3:5], changes[1:2], segments[5:7],
                       changes[2:]])


def test_other_packets_as_they_are(forwarding: Stack) -> None:
    wire = forwarding.wires[0]
    bad = bytearray(bytes(Segment().frame()))
    bad[-1] ^= 1
    short = ether() / ipv4() / TCP(flags="A") / Raw(b"short")
    wire.transfer([udp4(), short, bytes(bad), Segment(flags="SA").frame()], to=forwarding.wires[1])
