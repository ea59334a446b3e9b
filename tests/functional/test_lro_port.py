# SPDX-License-Identifier: BSD-3-Clause
"""LRO as an offload of a net_rawqp port: by whatever path packets reach their queue, and whatever happens to
the port meanwhile. Which packets are merged, and how, is tested in test_lro.py; secondary processes in
test_secondary.py."""

from collections import Counter
from itertools import chain
from typing import Iterator, Sequence

import pytest
from rig.packets import ether, ipv4, marker, udp4
from rig.ports import lossless
from rig.stack import Stack
from rig.tcp_segments import MSS, Segment, flow, joined, send_at_once
from rig.testpmd import ReceivedPacket
from rig.toeplitz import flow_hash
from rig.wire import SocketWire
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from functional.conftest import OpenStack, StartStack

pytestmark = pytest.mark.guest
not_in_guest = pytest.mark.guest(False)

QUEUES = 4
MTU, LONGEST = 9000, 8192
ARGUMENTS = ["--enable-lro", "--enable-scatter", "--enable-rx-cksum", f"--max-lro-pkt-size={LONGEST}",
             "--max-pkt-len=9018", "--rxd=512"]
OFFLOADS = 1 << 4 | 1 << 13 | 0xE | 1 << 19  # TCP_LRO, SCATTER, CHECKSUM, RSS_HASH
TIMEOUT = "lro_timeout_usec=1024"
LRO = "RTE_MBUF_F_RX_LRO"


@pytest.fixture(scope="module")
def stack(open_stack: OpenStack) -> Iterator[Stack]:
    arguments = [*ARGUMENTS, f"--rx-offloads={OFFLOADS:#x}", f"--rxq={QUEUES}", f"--txq={QUEUES}", "--total-num-mbufs=12288"]
    with open_stack(lossless(1, devargs=TIMEOUT, mtu=str(MTU)), testpmd_args=arguments,
                    memory_mb=512) as stack:
        stack.testpmd.silent("set verbose 1", "port config all rss all")
        stack.testpmd.start("rxonly")
        yield stack


def receive(stack: Stack, sessions: Sequence[Sequence[Segment]], count: int) -> list[ReceivedPacket]:
    """Sends these segments and returns the resulting `count` packets; a queue has one session at a time."""
    position = stack.testpmd.mark_output()
    send_at_once(stack, [segment.frame() for segment in chain(*sessions)])
    packets = stack.testpmd.received(position, count)
    assert len(packets) == count
    return packets


def check_joined(stack: Stack, session: Sequence[Segment], queue: int | None = None) -> ReceivedPacket:
    """Requires the segments to become one packet."""
    packet, = receive(stack, [session], 1)
    assert packet.length == len(joined(session).frame())
    assert LRO in packet.flags
    assert queue is None or packet.queue == queue
    return packet


def check_apart(stack: Stack, session: Sequence[Segment]) -> None:
    packets = receive(stack, [session], len(session))
    assert [packet.length for packet in packets] == [len(segment.frame()) for segment in session]
    assert not any(LRO in packet.flags for packet in packets)


def stream_of(wire: SocketWire, session: Sequence[Segment], timeout: float = 10) -> int:
    """Requires these segments to arrive in valid packets, whose number it returns."""
    expected = b"".join(segment.data for segment in session)
    data, count = b"", 0
    while len(data) < len(expected):
        frame = Ether(wire.receive(timeout=timeout))
        sums = frame[IP].chksum, frame[TCP].chksum
        del frame[IP].chksum, frame[TCP].chksum
        again = Ether(bytes(frame))
        assert sums == (again[IP].chksum, again[TCP].chksum)
        assert frame[IP].len == 40 + len(frame[Raw])
        assert frame[TCP].seq == (0xFFFFFF00 + len(data)) % 2**32
        data += bytes(frame[Raw])
        count += 1
    assert data == expected
    return count


def hash_of(stack: Stack, number: int) -> int:
    return flow_hash(stack.testpmd.rss_key(0), "10.0.0.1", "10.0.0.2", (1000 + number, 2000))


def reconfigure(stack: Stack, *commands: str) -> None:
    """Runs commands while the port is stopped."""
    stack.testpmd.stop()
    stack.testpmd.stop_port(0)
    stack.testpmd.silent(*commands)
    stack.testpmd.start_port(0)
    stack.testpmd.start("rxonly")


def test_told(stack: Stack) -> None:
    info = stack.testpmd.command("show port info 0")
    assert "Maximum configurable size of LRO aggregated packet: 65280" in info
    assert stack.testpmd.rx_burst_mode(0) == "mlx5 scalar, scattered, offloads, LRO"


def test_flows_are_spread(stack: Stack) -> None:
    """Each queue has a session of its own."""
    table = stack.testpmd.reta(0, stack.testpmd.reta_size(0))
    sessions = [flow(2, flow=number) for number in range(24)]  # as many as the wire holds
    packets = receive(stack, sessions, len(sessions))
    assert all(LRO in packet.flags for packet in packets)
    assert {packet.length for packet in packets} == {len(joined(sessions[0]).frame())}
    hashes = Counter(hash_of(stack, number) for number in range(24))
    assert Counter(packet.rss_hash for packet in packets) == hashes
    assert all(packet.queue == table[(packet.rss_hash or 0) % len(table)] for packet in packets)
    assert {packet.queue for packet in packets} == set(range(QUEUES))


def test_a_table_update_keeps_it(stack: Stack) -> None:
    size = stack.testpmd.reta_size(0)
    before = stack.testpmd.reta(0, size)
    stack.testpmd.set_reta(0, [2] * size)
    for number in range(3):
        check_joined(stack, flow(3, flow=number), queue=2)
    stack.testpmd.set_reta(0, before)
    check_joined(stack, flow(3), queue=before[hash_of(stack, 0) % size])


def test_types_of_rss_keep_it(stack: Stack) -> None:
    for types in ("udp", "ip", "all"):
        stack.testpmd.silent(f"port config all rss {types}")
        check_joined(stack, flow(3))
        check_joined(stack, flow(3, version=6))


RULES = {
    "queue": ("", "mark id 77 / queue index 3"),
    "rss": ("", "rss types ipv4-tcp end queues 3 end"),
    "count": ("", "count / queue index 3"),
    "group": ("group 1", "mark id 77 / queue index 3"),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules_keep_it(stack: Stack, rule: str) -> None:
    group, actions = RULES[rule]
    testpmd = stack.testpmd
    if group:
        testpmd.create_flow(0, "ingress pattern eth / end actions jump group 1 / end")
    number = testpmd.create_flow(0, f"{group} ingress pattern eth / ipv4 / tcp src is 1001 / end "
                                    f"actions {actions} / end")
    packet = check_joined(stack, flow(4, flow=1), queue=3)
    assert packet.mark == (77 if "mark" in actions else None)
    if rule == "count":
        assert testpmd.query_count(0, number)[0] == 4  # segments
    testpmd.flush_flows(0)
    check_joined(stack, flow(4, flow=1))


def test_dropped_and_multicast(stack: Stack) -> None:
    testpmd = stack.testpmd
    testpmd.create_flow(0, "ingress pattern eth / ipv4 / tcp src is 1001 / end actions drop / end")
    check_joined(stack, [*flow(2, flow=1), *flow(3, flow=2)][2:])
    position = testpmd.mark_output()
    send_at_once(stack, [segment.frame() for segment in flow(2, flow=1)])
    stack.wires[0].send(marker())
    stack.wires[0].send(udp4(destination="01:00:5e:00:00:01"))
    assert [packet.destination.lower() for packet in testpmd.received(position, 2)] == [
        "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01"]
    testpmd.flush_flows(0)


def test_rules_for_multicast(stack: Stack) -> None:
    """They are verbs flows, which can express levels of multicast."""
    testpmd = stack.testpmd
    testpmd.create_flow(0, "ingress pattern eth / ipv4 dst is 224.0.0.5 / end actions queue index 3 / end")
    position = testpmd.mark_output()
    stack.wires[0].send(ether("01:00:5e:00:00:05") / ipv4(destination="224.0.0.5") / UDP(dport=9))
    assert [packet.queue for packet in testpmd.received(position, 1)] == [3]
    check_joined(stack, flow(3))
    testpmd.flush_flows(0)


def test_without_promiscuous_mode(stack: Stack) -> None:
    """Through rules for the port's addresses, one for each traffic class."""
    stack.testpmd.silent("set promisc 0 off")
    check_joined(stack, flow(4))
    check_joined(stack, flow(4, version=6))
    assert check_joined(stack, flow(4, tags=(5,))).length == 18 + 40 + 4 * MSS
    stack.testpmd.silent("set promisc 0 on")


def test_a_restart_keeps_it(stack: Stack) -> None:
    reconfigure(stack)
    check_joined(stack, flow(5))


def test_it_can_be_turned_off_and_on(stack: Stack) -> None:
    reconfigure(stack, "port config 0 rx_offload tcp_lro off")
    assert "LRO" not in stack.testpmd.rx_burst_mode(0)
    check_apart(stack, flow(3))
    reconfigure(stack, "port config 0 rx_offload tcp_lro on")
    check_joined(stack, flow(3))


def test_size_is_configured_anew(stack: Stack) -> None:
    reconfigure(stack, "port config all max-lro-pkt-size 4500")
    assert [packet.length for packet in receive(stack, [flow(6)], 2)] == [54 + 3 * MSS] * 2
    reconfigure(stack, f"port config all max-lro-pkt-size {LONGEST}")
    check_joined(stack, flow(5))


@not_in_guest  # the driver decides this, whatever it runs on
@pytest.mark.parametrize("offload", ["keep_crc", "timestamp", "buffer_split"])
def test_what_does_not_go_with_it(start_stack: StartStack, offload: str) -> None:
    testpmd = start_stack(1, testpmd_args=["--enable-lro"]).testpmd
    testpmd.stop_port(0)
    testpmd.silent(f"port config 0 rx_offload {offload} on")
    assert f"LRO does not go with RTE_ETH_RX_OFFLOAD_{offload.upper()}: " in testpmd.command(
        "port start 0")


@not_in_guest  # the driver decides this, whatever it runs on
@pytest.mark.parametrize("datapath, devargs", [("verbs", ""), ("mlx5", "mprq_en=1"),
                                               ("mlx5", "flow_engine=verbs")])
def test_not_offered(start_stack: StartStack, datapath: str, devargs: str) -> None:
    stack = start_stack(lossless(1, devargs=devargs), datapath=datapath)
    assert "TCP_LRO" not in stack.testpmd.command("show port 0 rx_offload capabilities")


def test_longest(start_stack: StartStack) -> None:
    """Over as many mbufs as needed; the requested compression of completions is not used."""
    arguments = [*(argument for argument in ARGUMENTS if "lro-pkt" not in argument),
                 "--max-lro-pkt-size=32768"]
    stack = start_stack(lossless(1, devargs=f"{TIMEOUT},cqe_comp=1", mtu=str(MTU)),
                        testpmd_args=arguments, memory_mb=512)
    stack.testpmd.silent("set verbose 1")
    stack.testpmd.start("rxonly")
    assert not any(cq["compresses"] for cq in stack.dump()["cqs"])
    most = (127 * 256 - 20) // MSS  # the device counts from the TCP header on, in 256 bytes
    packets = receive(stack, [flow(most + 2)], 2)
    assert [packet.length for packet in packets] == [54 + most * MSS, 54 + 2 * MSS]
    assert packets[0].segments == 1 + -(-(packets[0].length - 2048) // 2176)
    stack.testpmd.stop()
    stack.testpmd.stop_port(0)
    stack.testpmd.silent("port config all max-lro-pkt-size 65280")
    assert ("a frame of 65280 bytes needs 32 mbufs, and the device takes 16"
            in stack.testpmd.command("port start 0"))


def test_a_stream_is_whole(start_stack: StartStack) -> None:
    """However many packets it is merged into."""
    arguments = [*ARGUMENTS, "--tx-offloads=0x8000"]  # MULTI_SEGS
    stack = start_stack(lossless(2, devargs=TIMEOUT, mtu=str(MTU)), testpmd_args=arguments,
                        memory_mb=512)
    stack.testpmd.start("io", lossless=True)
    session = flow(60)
    for _ in range(20):
        stack.wires[0].send_all([segment.frame() for segment in session])
        if stream_of(stack.wires[1], session, 10 * stack.patience) < len(session):
            break
    else:
        raise AssertionError("nothing was ever put together")
