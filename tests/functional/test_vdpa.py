# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's own vDPA: vdpa_mlx5 in the example `vdpa`, both unchanged, makes the device serve the virtio queues of
another process, whose testpmd acts as a guest's driver (net_virtio_user). Packets pass between that process's
memory and the device's wire; the example sees none of them."""

import os
import re
from pathlib import Path
from typing import Callable, Iterator

import pytest
from rig.packets import opaque, tcp4, udp4
from rig.ports import lossless, pci_address
from rig.processes import compiled
from rig.program import Program
from rig.stack import SoftHca
from rig.testpmd import Testpmd
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from functional.conftest import StartSoftHca

SOURCE = Path("/usr/share/dpdk/examples/vdpa/main.c")  # package dpdk-doc
NO_HUGE = ["--no-huge", "--no-shconf", "--no-telemetry"]
PCI = pci_address(0)
DEPTH = 256  # of net_virtio_user's queues
SEGMENT = 400  # bytes of TCP payload
StartGuest = Callable[..., Testpmd]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled([SOURCE], tmp_path_factory.mktemp("examples") / "vdpa",
                    "-DALLOW_EXPERIMENTAL_API")


@pytest.fixture
def hca(start_softhca: StartSoftHca, example: str, tmp_path: Path) -> SoftHca:
    """The example with one vhost socket, which it listens on."""
    # It considers a ConnectX-6 capable of virtio queues, but not a ConnectX-5.
    hca = start_softhca(lossless(1, steering_format="1"), [
        example, *NO_HUGE, "-m", "128", "-a", f"{PCI},class=vdpa", "--log-level=pmd.vdpa.*:info",
        "--", "--iface", str(tmp_path / "vhost"), "--interactive"])
    hca.program.wait_for("vdpa> ", timeout=40)
    at = hca.program.send_line(f"create {tmp_path / 'vhost'} {PCI}")
    hca.program.wait_for("binding succeeded", at)
    return hca


@pytest.fixture
def start_guest(hca: SoftHca, tmp_path: Path) -> Iterator[StartGuest]:
    """start_guest(queues=1, …) starts testpmd on queues that the device serves."""
    guests: list[Program] = []

    def start(*arguments: str, queues: int = 1) -> Testpmd:
        number, at = len(guests), len(hca.program.output)
        cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        socket = f"net_virtio_user0,path={tmp_path / 'vhost'},queues={queues},queue_size={DEPTH}"
        guests.append(Program(
            ["dpdk-testpmd", f"--lcores=0@({cpus}),1@({cpus})", *NO_HUGE, "-m", "256", "--no-pci",
             f"--file-prefix=guest{number}", f"--vdev={socket}", "--", "-i",
             "--total-num-mbufs=4096", f"--rxq={queues}", f"--txq={queues}", *arguments],
            tmp_path / f"guest{number}.log", hca.env))
        testpmd = Testpmd(guests[-1])
        hca.program.wait_for(r"vDPA device \d+ was configured", at, timeout=20)
        return testpmd

    yield start
    for guest in guests:
        guest.close()


def counts_of(hca: SoftHca, queue: int) -> dict[str, int]:
    """VIRTIO_Q_COUNTERS of a queue, as the example shows them."""
    at = hca.program.send_line(f"stats {PCI} {queue}")
    shown = hca.program.wait_for(r"completion errors +\d+", at)
    lines = hca.program.output[at:shown.end()]
    return {name: int(value) for name, value in re.findall(r"\t\t(\w[\w ]*?) {2,}(\d+)", lines)}


def virtqs(hca: SoftHca, kind: str) -> list[dict[str, object]]:
    return [row for row in hca.dump()[kind] if "virtq_state" in row]


def checksum_of(packet: Packet, layer: type[Packet]) -> int:
    """The correct checksum."""
    copy = packet.copy()
    del copy[layer].chksum
    checksum: int = Ether(bytes(copy))[layer].chksum
    return checksum


def quit_both(hca: SoftHca, *guests: Testpmd) -> None:
    for guest in guests:
        assert guest.quit() == 0
    hca.program.wait_for("vDPA device .* was closed")
    hca.program.send_line("quit")
    assert hca.program.wait(30) == 0
    assert not hca.sanitizer_reports(), hca.sanitizer_reports()


def test_packets_pass_as_they_are(hca: SoftHca, start_guest: StartGuest) -> None:
    """Packets of every length, many times around the rings; testpmd returns them."""
    guest = start_guest()
    guest.start("io")
    wire = hca.wires[0]
    frames = [opaque(60 + number % 1455, seed=number) for number in range(6 * DEPTH)]
    for start in range(0, len(frames), DEPTH // 2):
        some = frames[start:start + DEPTH // 2]
        wire.send_all(some)
        wire.expect(some)
    guest.stop()
    stats = guest.stats(0)
    assert stats.rx_packets == stats.tx_packets == len(frames)
    counters = hca.counters()
    assert counters["delivered"] == counters["wire_tx_packets"] == len(frames)
    for queue in range(2):
        counts = counts_of(hca, queue)
        assert counts["completed_descriptors"] >= len(frames)
        assert counts["received_descriptors"] == counts["completed_descriptors"]
        assert not counts["bad descriptor errors"] and not counts["completion errors"]
    assert [row["virtq_state"] for row in virtqs(hca, "rqs") + virtqs(hca, "sqs")] == ["ready"] * 2
    quit_both(hca, guest)


def test_packets_spread_over_queues(hca: SoftHca, start_guest: StartGuest) -> None:
    """The driver creates a table of the receiving queues, and rules that hash UDP over it."""
    guest = start_guest(queues=2)
    guest.start("io")
    frames = [bytes(udp4(sport=port)) for port in range(1000, 1064)]
    hca.wires[0].send_all(frames)
    came = [hca.wires[0].receive() for _ in frames]
    assert sorted(came) == sorted(frame.ljust(60, b"\0") for frame in frames)
    guest.stop()
    packets = [row["packets"] for row in hca.stat()["mlx5_0"]["rqs"] if "virtq_state" in row]
    assert len(packets) == 2 and all(packets) and sum(packets) == len(frames)
    quit_both(hca, guest)


def test_checksums_and_segments_are_the_devices(hca: SoftHca, start_guest: StartGuest) -> None:
    guest = start_guest()
    guest.stop_port(0)
    guest.command("csum set udp hw 0")
    guest.command("csum set tcp hw 0")
    guest.command(f"tso set {SEGMENT} 0")
    guest.start_port(0)
    guest.start("csum")
    wire = hca.wires[0]
    wire.send(udp4(opaque(100, seed=1)))
    back = Ether(wire.receive())
    assert back[UDP].chksum == checksum_of(back, UDP)

    payload = opaque(3 * SEGMENT, seed=2)
    wire.send(tcp4(payload))
    segments = [Ether(wire.receive()) for _ in range(3)]
    assert b"".join(bytes(segment[TCP].payload) for segment in segments) == payload
    assert [segment[TCP].seq - segments[0][TCP].seq for segment in segments] == [0, SEGMENT, 2 * SEGMENT]
    for segment in segments:
        assert segment[TCP].chksum == checksum_of(segment, TCP)
        assert segment[IP].chksum == checksum_of(segment, IP)
    assert [segment[TCP].flags.P for segment in segments] == [False, False, True]
    guest.stop()
    quit_both(hca, guest)


def test_a_guest_comes_again(hca: SoftHca, start_guest: StartGuest) -> None:
    """The next guest has other queues, in other memory."""
    for number in range(3):
        guest = start_guest()
        guest.start("io")
        frame = opaque(200, seed=number)
        hca.wires[0].send(frame)
        hca.wires[0].expect([frame])
        at = len(hca.program.output)
        guest.stop()
        assert guest.quit() == 0
        hca.program.wait_for("vDPA device .* was closed", at)
        assert not virtqs(hca, "rqs") and not virtqs(hca, "sqs")
    hca.program.send_line("quit")
    assert hca.program.wait(30) == 0


def test_the_driver_hears_of_an_error(hca: SoftHca, start_guest: StartGuest) -> None:
    """vdpa_mlx5 recreates a queue that breaks when it is notified (OBJECT_CHANGE)."""
    guest = start_guest()
    guest.start("io")
    broken = virtqs(hca, "sqs")[0]["number"]
    hca.inject(0, f"fatal:{broken}")
    hca.program.wait_for("Recover virtq 1: 1")
    frame = opaque(200, seed=1)
    hca.wires[0].send(frame)
    hca.wires[0].expect([frame])
    assert virtqs(hca, "sqs")[0]["number"] != broken
    guest.stop()
    quit_both(hca, guest)
