# SPDX-License-Identifier: BSD-3-Clause
"""net_rawqp and DPDK's own net_mlx5 report the same for the same frames, in every field of the mbuf; and the
driver's two ring formats report the same checksum verdicts."""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Sequence

import pytest
from rig import cpu
from rig.checksums import DOUBTFUL, verdicts
from rig.packets import BROADCAST, PEER_MAC
from rig.ports import lossless
from rig.stack import DRIVER, Build, device_name
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, GRE, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from functional.conftest import StartSoftHca

FRAMES = 600
SEED = 20261120
MARKED_PORT = 7777

CHECKSUM = 0x2 | 0x4 | 0x8  # RTE_ETH_RX_OFFLOAD_{IPV4,UDP,TCP}_CKSUM
VLAN_STRIP = 0x1
SCATTER = 0x2000
RSS_HASH = 0x80000

VERBS = "net_rawqp1"  # the driver's own portable rings

Mbuf = dict[str, Any]


def random_frame(random_: random.Random) -> bytes:
    """Any frame that a network may carry, valid or not."""
    frame: Packet = Ether(src=PEER_MAC, dst=random_.choice([BROADCAST, "02:00:00:00:00:77"]))
    for _ in range(random_.choice([0, 0, 0, 1])):
        frame /= Dot1Q(vlan=random_.randrange(4096), prio=random_.randrange(8))
    kind = random_.randrange(10)
    if kind == 0:
        frame /= ARP(pdst="10.0.0.9")
    elif kind == 1:
        frame.type = 0x88B5
        frame /= Raw(random_.randbytes(46))
    else:
        frame /= network(random_)
        if kind == 2:
            frame /= ICMP()
        else:
            frame /= transport(random_)
            if kind == 3:
                frame /= inner(random_)
    room = 1514 - len(frame)
    frame /= Raw(random_.randbytes(random_.randrange(random_.choice([64, room]))))
    return spoil(bytes(frame), random_)


def network(random_: random.Random) -> Packet:
    number = random_.randrange(1, 255)
    if random_.random() < 0.35:
        packet: Packet = IPv6(src=f"fd00::{number:x}", dst="fd00::2")
        return packet / IPv6ExtHdrFragment(id=5, m=1) if random_.random() < 0.1 else packet
    packet = IP(src=f"10.0.0.{number}", dst="10.0.1.2")
    if random_.random() < 0.1:
        packet.flags, packet.frag = "MF", random_.randrange(3)
    if random_.random() < 0.1:
        packet.options = [b"\x01\x01\x01\x01"]
    return packet


def transport(random_: random.Random) -> Packet:
    ports = {"sport": random_.randrange(1, 65535),
             "dport": random_.choice([MARKED_PORT, random_.randrange(1, 65535)])}
    if random_.random() < 0.5:
        return TCP(**ports, flags=random_.choice(["S", "A", "PA", "F"]))
    return UDP(**ports, **({"chksum": 0} if random_.random() < 0.2 else {}))


def inner(random_: random.Random) -> Packet:
    """The payload of a VXLAN packet; the outer UDP port may be that of VXLAN or another."""
    return VXLAN(vni=random_.randrange(1 << 24)) / Ether(dst=BROADCAST) / IP() / UDP()


def tunnelled_frame(random_: random.Random) -> bytes:
    """A frame in a tunnel that net_mlx5 parses if a rule tells it to."""
    payload = transport(random_) / Raw(random_.randbytes(random_.randrange(300)))
    if random_.random() < 0.2:
        payload = ICMP() / Raw(random_.randbytes(20))
    inside = network(random_) / payload
    frame: Packet = Ether(src=PEER_MAC, dst=BROADCAST) / random_.choice(
        [IP(src="10.1.0.1", dst="10.1.0.2"), IPv6(src="fd01::1", dst="fd01::2")]
    )
    kind = random_.randrange(3)
    if kind == 0:
        frame /= UDP(sport=random_.randrange(1, 65535), dport=4789) / VXLAN(vni=7)
        frame /= Ether(dst=BROADCAST) / inside
    elif kind == 1:
        frame /= GRE(proto=0x86DD if IPv6 in inside else 0x0800) / inside
    else:
        frame /= GRE(proto=0x6558, key_present=1, key=5) / Ether(dst=BROADCAST) / inside
    return spoil(bytes(frame), random_)


def spoil(frame: bytes, random_: random.Random) -> bytes:
    """Occasionally corrupts a byte after the addresses: checksums, lengths, types."""
    if random_.random() < 0.25:
        at = random_.randrange(12, len(frame))
        frame = frame[:at] + bytes([frame[at] ^ (1 << random_.randrange(8))]) + frame[at + 1:]
    return frame.ljust(60, b"\0")


@pytest.fixture(scope="module")
def frames() -> list[bytes]:
    random_ = random.Random(SEED)
    certain = [random_frame(random_) for _ in range(FRAMES - len(DOUBTFUL))]
    return [*certain, *(frame.ljust(60, b"\0") for frame, _ in DOUBTFUL.values())]


@dataclass
class Dump:
    """The packets received by both drivers, and their burst functions."""

    ours: list[Mbuf]
    theirs: list[Mbuf]
    our_mode: str
    their_mode: str


Receive = Callable[..., Dump]


@pytest.fixture
def mlx5_port(pci_of: Callable[[int], str]) -> str:
    """The name of net_mlx5's port."""
    return pci_of(1)


@pytest.fixture
def receive(
    start_softhca: StartSoftHca, build: Build, frames: list[bytes], tmp_path: Path,
    mlx5_port: str,
) -> Receive:
    def run(
        offloads: int, *options: str, eal: Sequence[str] = (), sent: Sequence[bytes] = (),
        devargs: tuple[str, str] = ("", ""), peer: str = mlx5_port,
    ) -> Dump:
        sent = sent or frames
        names = ("net_rawqp0", peer)
        out = tmp_path / "mbufs"
        peer_options = {
            mlx5_port: ["-a", mlx5_port + devargs[1]],
            VERBS: ["--no-pci", "--vdev", f"{VERBS},device={device_name(1)},datapath=verbs"],
        }
        program = [
            str(build.folder / "tests/functional/differential/mbuf-dump"),
            *("-l", "0", "--no-huge", "-m", "256", "--no-shconf", "--no-telemetry"),
            *("-d", DRIVER, *peer_options[peer]),
            *("--vdev", f"{names[0]},device={device_name(0)},datapath=mlx5{devargs[0]}", *eal, "--"),
            *("--offloads", str(offloads), "--packets", str(len(sent)), "--out", str(out)),
            *(*options, *names),
        ]
        hca = start_softhca(lossless(len(names)), program)
        for name, wire in zip(names, hca.wires):
            hca.program.wait_for(f"ready {name}", timeout=30)
            wire.send_all(list(sent))
        assert hca.program.wait(60) == 0, hca.program.output
        lines = [json.loads(line) for line in hca.read_text(out).splitlines()]
        modes = {line["port"]: line["mode"] for line in lines if "mode" in line}
        ours, theirs = (
            [mbuf for mbuf in lines if mbuf["port"] == name and "mode" not in mbuf]
            for name in names
        )
        return Dump(ours, theirs, *(modes[name] for name in names))

    return run


FLAG = "RTE_MBUF_F_RX_"
CHECKSUM_FLAGS = {"IP": f"{FLAG}IP_CKSUM_", "L4": f"{FLAG}L4_CKSUM_"}


def split_flags(mbuf: Mbuf) -> Mbuf:
    """The mbuf with its flags split into checksum verdicts and all others."""
    flags = set(mbuf["flags"].split())
    parts: Mbuf = {}
    for layer, prefix in CHECKSUM_FLAGS.items():
        mine = {flag for flag in flags if flag.startswith(prefix)}
        parts[f"{layer} checksum"] = " ".join(sorted(flag.removeprefix(prefix) for flag in mine))
        flags -= mine
    flags.discard(f"{FLAG}RSS_HASH")  # implied by "hash"
    return {**mbuf, **parts, "flags": sorted(flags)}


def known(key: str, mine: Mbuf, their: Mbuf, checksum: bool, blocks: bool) -> bool:
    """Whether net_mlx5 is known to report less here, or more than it can know. Nothing else may differ."""
    if key.endswith("checksum"):
        if not checksum:  # its vector reader sets verdicts that were not requested
            return mine[key] == "UNKNOWN"
        if their[key] == "UNKNOWN":  # it reports only what the device vouches for
            return bool(mine[key] == verdicts(bytes.fromhex(mine["data"]))[key.split()[0]])
        # It reports a good checksum for IPv6 headers, which have none.
        no_checksum = "L3_IPV6" in mine["packet_type"]
        return key.startswith("IP") and no_checksum and (mine[key], their[key]) == ("UNKNOWN", "GOOD")
    # In the format that it uses for striding queues, compressed blocks contain no hashes.
    if key == "hash" and blocks and their[key] is None:
        return True
    # Its vector reader reports hash 0 for packets that the device has not hashed.
    return key == "hash" and mine[key] is None and their[key] == 0


def differences(dump: Dump, checksum: bool, blocks: bool) -> list[str]:
    """One line for each field that differs."""
    found = []
    for number, pair in enumerate(zip(dump.ours, dump.theirs)):
        mine, their = map(split_flags, pair)
        found += [
            f"frame {number}, {key}: ours {mine[key]!r}, net_mlx5 {their[key]!r}, "
            f"{mine['packet_type']} {mine['data'][:120]}"
            for key in mine
            if key != "port" and mine[key] != their[key]
            and not known(key, mine, their, checksum, blocks)
        ]
    return found


def check(dump: Dump, offloads: int, count: int = FRAMES, blocks: bool = False) -> None:
    assert (len(dump.ours), len(dump.theirs)) == (count, count)
    found = differences(dump, bool(offloads & CHECKSUM), blocks)
    if found:
        pytest.fail(f"{len(found)} differences, the first:\n" + "\n".join(found[:10]))


# With RSS, net_mlx5 enables the hash by itself.
FEW, ALL = RSS_HASH, RSS_HASH | CHECKSUM | VLAN_STRIP


# Completions are the same whichever front set up the queues: once in the guest is enough.
@pytest.mark.guest(when=lambda params: params["bits"] == 256 and params["offloads"] == ALL)
@pytest.mark.parametrize("bits", [64, 256, 512], ids=["scalar", "avx2", "avx512"])
@pytest.mark.parametrize("offloads", [FEW, ALL], ids=["few", "all"])
def test_every_field_is_the_same(receive: Receive, offloads: int, bits: int) -> None:
    cpu.need_vectors(bits)
    dump = receive(offloads, eal=[f"--force-max-simd-bitwidth={bits}"])
    assert dump.our_mode.startswith(cpu.READERS[bits])
    check(dump, offloads)


@pytest.mark.parametrize("kind", ["plain", "tunnels"])
def test_both_ring_formats_give_the_same_verdicts(receive: Receive, kind: str) -> None:
    random_ = random.Random(SEED + 2)
    sent = [tunnelled_frame(random_) for _ in range(FRAMES)] if kind == "tunnels" else []
    dump = receive(CHECKSUM, sent=sent, peer=VERBS)
    assert (len(dump.ours), len(dump.theirs)) == (FRAMES, FRAMES)
    differ = [f"{key}: mapped {mine[key]}, verbs {their[key]}: {mine['data'][:200]}"
              for mine, their in zip(map(split_flags, dump.ours), map(split_flags, dump.theirs))
              for key in ("IP checksum", "L4 checksum") if mine[key] != their[key]]
    assert not differ, "\n".join(differ[:10])
    told = {split_flags(mbuf)["L4 checksum"] for mbuf in dump.ours}
    assert told == ({"GOOD", "UNKNOWN"} if kind == "tunnels" else {"GOOD", "BAD", "UNKNOWN"})


def test_marks_are_the_same(receive: Receive) -> None:
    dump = receive(ALL, "--mark-udp", str(MARKED_PORT))
    assert any(mbuf["mark"] for mbuf in dump.ours)
    check(dump, ALL)


@pytest.mark.parametrize("bits", [64, 256, 512], ids=["scalar", "avx2", "avx512"])
def test_tunnels_are_the_same(receive: Receive, mlx5_port: str, bits: int) -> None:
    cpu.need_vectors(bits)
    random_ = random.Random(SEED + 1)
    frames = [tunnelled_frame(random_) for _ in range(FRAMES)]
    dump = receive(ALL, "--tunnel-rules", mlx5_port, sent=frames,
                   eal=[f"--force-max-simd-bitwidth={bits}"])
    assert dump.our_mode.startswith(cpu.READERS[bits])
    inner = [mbuf for mbuf in dump.ours if "INNER_L3" in mbuf["packet_type"]]
    assert len(inner) > FRAMES * 0.8
    check(dump, ALL)


def test_segments_are_the_same(receive: Receive) -> None:
    """Frames of up to 1514 bytes in receive buffers of 512."""
    dump = receive(ALL | SCATTER, "--segment", "512")
    assert any(mbuf["segments"] > 1 for mbuf in dump.ours)
    check(dump, ALL)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_striding_queues_are_the_same(receive: Receive, compressed: bool) -> None:
    theirs = f",mprq_en=1,rxqs_min_mprq=1,rxq_cqe_comp_en={int(compressed)}"
    dump = receive(ALL, devargs=(",mprq_en=1" + ("" if compressed else ",cqe_comp=0"), theirs))
    assert "striding" in dump.our_mode
    assert "MPRQ" in dump.their_mode
    check(dump, ALL, blocks=compressed)
