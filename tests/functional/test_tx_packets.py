# SPDX-License-Identifier: BSD-3-Clause
"""Random packets with random Tx offloads (checksums, tags, segmentation, tunnels, several mbufs): the frames on
the wire are compared byte by byte with those that this file derives from Scapy's packet."""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from rig.process_fixtures import SOURCES
from rig.processes import Processes, compiled
from rig.wire import padded
from scapy.layers.inet import IP, TCP, UDP, IPOption_NOP, in4_chksum
from scapy.layers.inet6 import IPv6, in6_chksum
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw
from scapy.utils import checksum

COUNT = 300
MBUF_BYTES = 3900  # of the 4096 less headroom
SEGMENTS_MOST = 40

# RTE_MBUF_F_TX_…
QINQ, TSO, TCP_SUM, UDP_SUM = 1 << 49, 1 << 50, 1 << 52, 3 << 52
IP_SUM, IPV4, IPV6, TAG = 1 << 54, 1 << 55, 1 << 56, 1 << 57
OUTER_IP_SUM, OUTER_IPV4, OUTER_IPV6, VXLAN_TUNNEL = 1 << 58, 1 << 59, 1 << 60, 1 << 45


def size(header: Packet) -> int:
    alone = header.copy()
    alone.remove_payload()
    return len(bytes(alone))


def put(header: bytearray, at: int, value: int) -> None:
    header[at:at + 2] = (value & 0xffff).to_bytes(2, "big")


def add(header: bytearray, at: int, value: int) -> None:
    put(header, at, int.from_bytes(header[at:at + 2], "big") + value)


def sum_ipv4(header: bytearray, at: int, bytes_: int) -> None:
    put(header, at + 10, 0)
    put(header, at + 10, checksum(bytes(header[at:at + bytes_])))


@dataclass
class Case:
    line: str  # for packets.c
    frames: list[bytes]
    summary: str


def network(rng: random.Random) -> IP | IPv6:
    if rng.random() < .5:
        options = [IPOption_NOP()] * 4 * rng.choice([0, 0, 1, 3])
        return IP(src=f"10.{rng.randrange(256)}.0.1", dst="10.0.0.2", id=rng.randrange(65536),
                  ttl=rng.randrange(1, 256), tos=rng.randrange(256), chksum=rng.randrange(65536),
                  options=options)
    return IPv6(src=f"fd00::{rng.randrange(65536):x}", dst="fd00::2", tc=rng.randrange(256),
                fl=rng.randrange(2**20))


def transport(rng: random.Random, is_tcp: bool) -> TCP | UDP:
    port, sum_ = rng.randrange(65536), rng.randrange(65536)
    if not is_tcp:
        return UDP(sport=port, dport=rng.randrange(1, 4000), chksum=sum_)
    return TCP(sport=port, dport=rng.randrange(65536), seq=rng.randrange(2**32), chksum=sum_,
               flags=rng.choice(["A", "PA", "FPA", "SA"]),
               options=[("NOP", None)] * 4 * rng.choice([0, 1, 3, 10]))


def mbufs(rng: random.Random, total: int) -> list[int]:
    """Random numbers of bytes per mbuf."""
    cuts = sorted(rng.sample(range(1, total), rng.choice([0, 0, 1, 2, 7])))
    return [part for start, end in zip([0, *cuts], [*cuts, total])
            for part in [MBUF_BYTES] * ((end - start - 1) // MBUF_BYTES)
            + [(end - start - 1) % MBUF_BYTES + 1]]


def make(rng: random.Random, verbs: bool) -> Case:
    """Verbs have no offload of tunnels and tags, and couple IPv4's checksum with those of TCP and UDP."""
    tso = rng.random() < .4
    data = rng.randbytes(rng.choice([1, 2, 300, 1000, 2000, 5000, 9000, 20000]) if tso else
                         rng.choice([0, 1, 2, 17, 100, 400, 900, 1400, rng.randrange(1400)]))
    is_tcp = tso or rng.random() < .5
    ip, l4 = network(rng), transport(rng, is_tcp)
    is_ipv4 = isinstance(ip, IP)
    outer = network(rng) if not verbs and rng.random() < .35 else None
    packet: Packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    if rng.random() < .35:
        packet /= Dot1Q(vlan=rng.randrange(4096), prio=rng.randrange(8))
    at_outer = at_ip = l2 = len(packet)
    outer_l2 = outer_l3 = flags = 0
    if outer is not None:
        outer_l2, outer_l3 = l2, size(outer)
        packet = packet / outer / UDP(sport=rng.randrange(65536), dport=4789, chksum=0) \
            / VXLAN(vni=7, flags=8) / Ether(src="02:00:00:00:00:03", dst="02:00:00:00:00:04")
        at_ip = len(packet)
        l2 = at_ip - outer_l2 - outer_l3  # UDP, VXLAN and Ethernet
        flags |= VXLAN_TUNNEL | (OUTER_IPV4 if isinstance(outer, IP) else OUTER_IPV6)
        if isinstance(outer, IP) and rng.random() < .6:
            flags |= OUTER_IP_SUM
    packet = packet / ip / l4 / Raw(data)
    raw = bytes(packet)
    l3, l4_bytes = size(ip), size(l4)
    at_l4 = at_ip + l3

    with_sum = tso or rng.random() < .7
    if tso:
        flags |= TSO | (TCP_SUM if rng.random() < .7 else 0)
    elif with_sum:
        flags |= TCP_SUM if is_tcp else UDP_SUM
    if is_ipv4 and (tso or rng.random() < .6):
        flags |= IP_SUM
    if with_sum or flags & IP_SUM or rng.random() < .9:
        flags |= IPV4 if is_ipv4 else IPV6
    tag, outer_tag, tags = rng.randrange(65536), rng.randrange(65536), b""
    inserted = 0 if verbs else rng.choice([0, 0, 0, 0, 0, 0, 1, 2])
    if inserted:
        flags |= TAG
        tags = b"\x81\0" + tag.to_bytes(2, "big")
    if inserted == 2:
        flags |= QINQ
        tags = b"\x88\xa8" + outer_tag.to_bytes(2, "big") + tags
    mss = max(rng.choice([1, 7, 100, 400, 1000, 1448, 9000]), len(data) // SEGMENTS_MOST + 1) if tso else 0

    def frame(start: int) -> bytes:
        chunk = data[start:start + mss] if tso else data
        head = bytearray(raw[:at_l4 + l4_bytes])
        if tso:
            cut = len(data) - len(chunk)
            for at, header in [(at_ip, ip)] + ([(at_outer, outer)] if outer is not None else []):
                if isinstance(header, IP):
                    add(head, at + 2, -cut)
                    add(head, at + 4, start // mss)  # the identification
                else:
                    add(head, at + 4, -cut)
            if outer is not None:
                add(head, at_outer + outer_l3 + 4, -cut)
            sequence = int.from_bytes(head[at_l4 + 4:at_l4 + 8], "big") + start
            head[at_l4 + 4:at_l4 + 8] = (sequence % 2**32).to_bytes(4, "big")
            if start + mss < len(data):
                head[at_l4 + 13] &= ~0x09 & 0xff  # FIN and PSH
        if flags & IP_SUM or (verbs and is_ipv4 and with_sum):
            sum_ipv4(head, at_ip, l3)
        if flags & OUTER_IP_SUM:
            sum_ipv4(head, at_outer, outer_l3)
        if with_sum:
            at = at_l4 + (16 if is_tcp else 6)
            put(head, at, 0)
            of, protocol = (in4_chksum if is_ipv4 else in6_chksum), (6 if is_tcp else 17)
            put(head, at, of(protocol, ip, bytes(head[at_l4:]) + chunk) or (0 if is_tcp else 0xffff))
        return bytes(head[:12]) + tags + bytes(head[12:]) + chunk

    numbers = f"{l2} {l3} {l4_bytes} {outer_l2} {outer_l3} {mss} {tag} {outer_tag}"
    parts = ",".join(map(str, mbufs(rng, len(raw))))
    return Case(f"{flags:x} {numbers} {parts} {raw.hex()}",
                [frame(start) for start in range(0, len(data), mss)] if tso else [frame(0)],
                f"{packet.summary()}, {len(raw)} bytes, flags {flags:#x}, l2 l3 l4 outer_l2 outer_l3"
                f" tso_segsz tags {numbers}, mbufs {parts}")


@pytest.mark.daily(when=lambda params: (params["datapath"], params["seed"]) in {("mlx5", 1), ("verbs", 2)})
@pytest.mark.parametrize("seed", [1, 2])
def test_frames_are_what_scapy_makes_of_packets(beside: Processes, tmp_path: Path, datapath: str,
                                                seed: int) -> None:
    rng = random.Random(seed)
    cases = [make(rng, datapath == "verbs") for _ in range(COUNT)]
    (tmp_path / "packets").write_text("".join(case.line + "\n" for case in cases))
    program = compiled([SOURCES.parent / "tx/packets.c"], tmp_path / "send")
    beside.start_primary(program, [str(tmp_path / "packets")], ["-m", "128"],
                         devargs=f",datapath={datapath}")
    wire = beside.hca.wires[0]
    for number, case in enumerate(cases):
        for index, expected in enumerate(map(padded, case.frames)):
            received = wire.receive()
            if received == expected:
                continue
            differ = [at for at, (one, other) in enumerate(zip(received, expected)) if one != other]
            pytest.fail(f"packet {number} of seed {seed}, frame {index} of {len(case.frames)}: differs at"
                        f" {differ[:20]}, {len(received)} bytes instead of {len(expected)}\n{case.summary}\n"
                        f"received {received.hex()}\nexpected {expected.hex()}")
    beside.hca.program.wait_for(f"sent {COUNT}, mbufs kept 0")
    assert "refused" not in beside.hca.program.output
    assert wire.poll(0.1) is None
