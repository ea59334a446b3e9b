# SPDX-License-Identifier: BSD-3-Clause
"""TCP segmentation and tag insertion: the device's output is compared byte by byte with frames built by Scapy."""

from typing import Callable, Iterator

import pytest
from rig.packets import PEER_MAC, ether, ipv4, ipv6, port_mac
from rig.stack import Stack
from rig.wire import padded
from scapy.layers.inet import TCP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest

MSS = 400


@pytest.fixture(scope="module")
def stack(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    """Port 1 segments packets received on port 0."""
    with open_stack(2, datapath=datapath) as stack:
        stack.testpmd.stop_port(1)
        for layer in ("ip", "udp", "tcp"):
            stack.testpmd.command(f"csum set {layer} hw 1")
        stack.testpmd.expect(f"tso set {MSS} 1", rf"segment size for non-tunneled .* {MSS}")
        if datapath == "mlx5":
            stack.testpmd.command("csum set outer-ip hw 1")
            stack.testpmd.command("csum parse-tunnel on 0")
            stack.testpmd.command("csum parse-tunnel on 1")
            stack.testpmd.expect(
                f"tunnel_tso set {MSS} 1", rf"segment size for tunneled .* {MSS}"
            )
        stack.testpmd.start_port(1)
        yield stack


@pytest.fixture
def forward(stack: Stack) -> Iterator[Callable[[Packet, int], list[Ether]]]:
    stack.testpmd.start("csum")

    def send(frame: Packet, segments: int) -> list[Ether]:
        stack.wires[0].send(frame)
        return [Ether(stack.wires[1].receive()) for _ in range(segments)]

    yield send
    stack.testpmd.stop()


Forward = Callable[[Packet, int], list[Ether]]


def payload(size: int) -> bytes:
    return bytes((7 * i + i // 256) % 256 for i in range(size))


def tcp(flags: str = "A") -> TCP:
    return TCP(sport=1000, dport=2000, seq=0xFFFFFF00, flags=flags)


def segments(headers: Callable[[int, TCP], Packet], data: bytes, flags: str) -> list[bytes]:
    """The expected frames for `data` with these headers."""
    frames = []
    for index, start in enumerate(range(0, len(data), MSS)):
        header = tcp(flags)
        header.seq = (header.seq + start) % 2**32
        if start + MSS < len(data):
            header.flags = str(header.flags).replace("P", "").replace("F", "")
        frames.append(bytes(headers(index, header) / Raw(data[start : start + MSS])))
    return frames


def check(got: list[Ether], want: list[bytes]) -> None:
    """Compares everything but the Ethernet addresses, which the csum engine rewrites."""
    assert [bytes(frame)[12:] for frame in got] == [padded(frame)[12:] for frame in want]


@pytest.mark.guest(when=lambda params: params["flags"] == "FPA")
@pytest.mark.parametrize("flags", ["A", "PA", "FPA"])
@pytest.mark.parametrize("size", [MSS + 1, 2 * MSS, 3 * MSS - 1, 1400])
def test_ipv4(forward: Forward, size: int, flags: str) -> None:
    def headers(index: int, header: TCP) -> Packet:
        return ether() / ipv4(id=(0xFFFE + index) % 65536) / header

    want = segments(headers, payload(size), flags)
    check(forward(headers(0, tcp(flags)) / Raw(payload(size)), len(want)), want)


@pytest.mark.parametrize("size", [MSS + 1, 3 * MSS])
def test_ipv6(forward: Forward, size: int) -> None:
    def headers(index: int, header: TCP) -> Packet:
        return ether() / ipv6() / header

    want = segments(headers, payload(size), "PA")
    check(forward(headers(0, tcp("PA")) / Raw(payload(size)), len(want)), want)


def test_behind_a_tag(forward: Forward) -> None:
    def headers(index: int, header: TCP) -> Packet:
        return ether() / Dot1Q(vlan=5) / ipv4(id=1 + index) / header

    want = segments(headers, payload(1000), "A")
    check(forward(headers(0, tcp()) / Raw(payload(1000)), len(want)), want)


def test_short_packets_pass_as_they_are(forward: Forward) -> None:
    frame = ether() / ipv4() / tcp() / Raw(payload(MSS))
    check(forward(frame, 1), [bytes(frame)])


@pytest.mark.parametrize("size", [2 * MSS + 100])
def test_in_a_vxlan_tunnel(forward: Forward, stack: Stack, size: int) -> None:
    if stack.datapath != "mlx5":
        capabilities = stack.testpmd.command("show port 1 tx_offload capabilities")
        assert "VXLAN_TNL_TSO" not in capabilities
        return

    def headers(index: int, header: TCP) -> Packet:
        inner = Ether(dst=PEER_MAC, src=port_mac(0)) / ipv4(id=50 + index) / header
        outer = ether() / ipv4(id=80 + index) / UDP(sport=5000, dport=4789, chksum=0)
        return outer / VXLAN(vni=42, flags=8) / inner

    want = segments(headers, payload(size), "PA")
    check(forward(headers(0, tcp("PA")) / Raw(payload(size)), len(want)), want)


def test_announced(stack: Stack) -> None:
    assert "TCP_TSO" in stack.testpmd.command("show port 1 tx_offload capabilities")


# -- tags ------------------------------------------------------------------------------------------


def test_tags_are_put_in(stack: Stack, datapath: str) -> None:
    """One tag by the device, two by the driver; not with datapath=verbs."""
    testpmd = stack.testpmd
    capabilities = testpmd.command("show port 1 tx_offload capabilities")
    if datapath != "mlx5":
        assert "VLAN_INSERT" not in capabilities and "QINQ_INSERT" not in capabilities
        return
    frame = bytes(ether() / ipv4() / UDP(sport=1, dport=2) / Raw(payload(100)))
    one, two = bytes.fromhex("8100 0123"), bytes.fromhex("88a8 0456 8100 0123")
    for command, tags in [("tx_vlan set 1 291", one), ("tx_vlan set 1 291 1110", two),
                          ("tx_vlan reset 1", b"")]:
        testpmd.stop_port(1)
        testpmd.silent("tx_vlan reset 1")
        testpmd.silent(command)
        testpmd.start_port(1)
        testpmd.start("mac")
        stack.wires[0].send(frame)
        got = stack.wires[1].receive()
        testpmd.stop()
        assert got[12:] == tags + frame[12:]
