# SPDX-License-Identifier: BSD-3-Clause
"""Receive features: readers, compression, queue start and stop, interrupts, time."""

import errno
import random
import re
import time
from functools import cache
from itertools import accumulate
from typing import Callable

import pytest
from rig import cpu, sleeper as sleeping
from rig.packets import marker, numbered, opaque, tcp4, udp4, udp6
from rig.ports import lossless
from rig.stack import DRIVER, Build, SoftHca, Stack
from scapy.packet import Packet

from functional.conftest import StartSoftHca, StartStack

MAKERS: list[Callable[[bytes], Packet]] = [udp4, udp6, tcp4]


@cache
def mixed_frames(count: int) -> list[bytes]:
    """Runs of uniform frames with others in between."""
    rng = random.Random(5)
    frames: list[bytes] = []
    while len(frames) < count:
        make = rng.choice(MAKERS)
        frames += [bytes(make(bytes(rng.randrange(1, 900)))) for _ in range(rng.randrange(1, 40))]
        frames.append(opaque(rng.randrange(60, 1500), seed=len(frames)))
    return frames


# -- readers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [0, 1])
@pytest.mark.parametrize("bits", [
    pytest.param(bits, marks=pytest.mark.guest(bits == 256)) for bits in cpu.READERS])
def test_every_reader_takes_every_frame(
    start_stack: StartStack, bits: int, compressed: int
) -> None:
    cpu.need_vectors(bits)
    stack = start_stack(lossless(2, f"cqe_comp={compressed}"), datapath="mlx5",
                        eal_args=[f"--force-max-simd-bitwidth={bits}"])
    assert stack.testpmd.rx_burst_mode(0).startswith(cpu.READERS[bits])
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(6000), to=stack.wires[1], timeout=30)
    stack.wires[1].transfer(mixed_frames(2000), to=stack.wires[0], timeout=30)


@pytest.mark.guest
@pytest.mark.parametrize("compressed", [0, 1])
def test_checksum_flags_and_hash(start_stack: StartStack, compressed: int) -> None:
    stack = start_stack(lossless(1, f"cqe_comp={compressed}"), datapath="mlx5",
                        testpmd_args=["--enable-rx-cksum"])
    stack.testpmd.silent("set verbose 1")
    stack.testpmd.start("rxonly")
    position = stack.testpmd.mark_output()
    good = [udp4(bytes(n)) for n in range(20)]
    for frame in good:
        stack.wires[0].send(frame)
    shown = stack.testpmd.received(position, len(good))
    assert [packet.length for packet in shown] == [max(42 + n, 60) for n in range(20)]
    for packet in shown:
        assert "RTE_MBUF_F_RX_L4_CKSUM_GOOD" in packet.flags
        assert "L4_UDP" in packet.hw_ptype


# -- queues ----------------------------------------------------------------------------------------


@pytest.mark.guest
def test_a_stopped_queue_receives_nothing(start_stack: StartStack, datapath: str) -> None:
    stack = start_stack(2, datapath=datapath)
    for round in range(1, 4):
        stack.testpmd.start("io", lossless=True)
        stack.wires[0].transfer(numbered(200), to=stack.wires[1])
        stack.testpmd.stop()
        stack.testpmd.silent("port 0 rxq 0 stop")
        stack.wires[0].send_all([opaque(100, seed=n) for n in range(30)])
        stack.wait_counter(0, "drop_queue_not_ready", 30 * round)
        stack.testpmd.silent("port 0 rxq 0 start")
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(500), to=stack.wires[1])


@pytest.mark.guest
def test_deferred_start(start_stack: StartStack, datapath: str) -> None:
    stack = start_stack(2, datapath=datapath)
    stack.testpmd.stop_port(0)
    stack.testpmd.silent("port 0 rxq 0 deferred_start on")
    stack.testpmd.start_port(0)
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].send(opaque(100, seed=1))
    stack.wait_counter(0, "drop_queue_not_ready", 1)
    stack.testpmd.stop()
    stack.testpmd.silent("port 0 rxq 0 start")
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(100), to=stack.wires[1])


# -- the packet's end and its time -----------------------------------------------------------------


@pytest.mark.guest
def test_the_checksum_kept_is_no_part_of_the_length(start_stack: StartStack, datapath: str) -> None:
    stack = start_stack(2, datapath=datapath, testpmd_args=["--disable-crc-strip"])
    offloads = stack.testpmd.command("show port 0 rx_offload configuration")
    assert "KEEP_CRC" in offloads
    stack.testpmd.start("io", lossless=True)

    def delivered() -> int:
        """Bytes of all queues: a kernel's interface has its own, which may have received packets before."""
        return sum(queue["bytes"] for queue in stack.stat()["mlx5_0"]["rqs"])

    before = delivered()
    frames = [opaque(size, seed=size) for size in range(60, 1519, 3)]
    stack.wires[0].transfer(frames, to=stack.wires[1])
    bytes_of_all = sum(len(frame) + 4 for frame in frames)
    assert delivered() - before == bytes_of_all, "the device delivered each FCS"


@pytest.mark.guest
def test_time_stamps_are_the_device_clock(start_stack: StartStack, datapath: str) -> None:
    """softhca's clock is CLOCK_MONOTONIC in nanoseconds."""
    stack = start_stack(1, datapath=datapath, testpmd_args=["--enable-rx-timestamp"])
    stack.testpmd.silent("set verbose 1")
    stack.testpmd.start("rxonly")
    stamps = []
    for n in range(5):
        position = stack.testpmd.mark_output()
        before = time.monotonic_ns()
        stack.wires[0].send(marker(n))
        stack.testpmd.received(position, 1)
        (stamp,) = re.findall(r"timestamp (\d+)", stack.testpmd.program.output[position:])
        assert before - 1_000_000 < int(stamp) < time.monotonic_ns()
        stamps.append(int(stamp))
    assert stamps == sorted(stamps)


def stamps_of(stack: Stack, count: int) -> list[int]:
    """The time stamps that rxonly shows for that many frames."""
    position = stack.testpmd.mark_output()
    stack.wires[0].send_all([marker(n) for n in range(count)])
    stack.testpmd.received(position, count)
    found = re.findall(r"timestamp (\d+)", stack.testpmd.program.output[position:])
    return [int(stamp) for stamp in found[:count]]


@pytest.mark.guest(when=lambda params: params["bits"] == 256)
# The reader of striding queues is the same for all widths.
@pytest.mark.daily(when=lambda params: not params["striding"] or params["bits"] == 256)
@pytest.mark.parametrize("bits", cpu.READERS)
@pytest.mark.parametrize("striding", [0, 1], ids=["cyclic", "striding"])
def test_time_stamps_are_real_time(start_stack: StartStack, bits: int, striding: int) -> None:
    cpu.need_vectors(bits)
    stack = start_stack(lossless(1, f"rx_timestamp=real,mprq_en={striding}"), datapath="mlx5",
                        eal_args=[f"--force-max-simd-bitwidth={bits}"],
                        testpmd_args=["--enable-rx-timestamp"])
    mode = stack.testpmd.rx_burst_mode(0)
    assert mode.startswith("mlx5 striding" if striding else cpu.READERS[bits])
    assert "real-time stamps" in mode
    check_real_time(stack)


@pytest.mark.guest
def test_verbs_completions_tell_real_time(start_stack: StartStack) -> None:
    stack = start_stack(lossless(1, "rx_timestamp=real"), datapath="verbs",
                        testpmd_args=["--enable-rx-timestamp"])
    check_real_time(stack)


def check_real_time(stack: Stack) -> None:
    stack.testpmd.silent("set verbose 1")
    stack.testpmd.start("rxonly")
    before = stack.real_time_ns()
    stamps = stamps_of(stack, 40)
    slack = 10_000_000  # the two clocks drift apart a little
    assert before - slack < stamps[0] and stamps[-1] < stack.real_time_ns() + slack
    assert stamps == sorted(stamps)


@pytest.mark.guest(when=lambda params: params["bits"] == 256)
@pytest.mark.parametrize("bits", cpu.READERS)
def test_vectors_keep_the_checksum(start_stack: StartStack, bits: int) -> None:
    cpu.need_vectors(bits)
    stack = start_stack(2, datapath="mlx5", testpmd_args=["--disable-crc-strip"],
                        eal_args=[f"--force-max-simd-bitwidth={bits}"])
    assert stack.testpmd.rx_burst_mode(0) == f"{cpu.READERS[bits]}, offloads, CRC"
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer([opaque(60 + n % 1400, seed=n) for n in range(2000)],
                            to=stack.wires[1], timeout=30)


# -- interrupts ------------------------------------------------------------------------------------


@pytest.fixture
def sleeper(build: Build, start_softhca: StartSoftHca, datapath: str) -> SoftHca:
    """A program that sleeps on the Rx interrupt and ends after 2000 packets."""
    device = ["--no-pci", "-d", DRIVER, "--vdev", f"net_rawqp0,device=mlx5_0,datapath={datapath}"]
    hca = start_softhca(lossless(1),
                        sleeping.command(build.folder, device, 2000))
    hca.program.wait_for("ready")
    return hca


@pytest.mark.guest
def test_no_wake_up_is_lost(sleeper: SoftHca) -> None:
    sleeping.wake(sleeper.wires[0], 2000)
    assert sleeper.program.wait(60) == 0, sleeper.program.output
    received, sleeps = sleeping.result(sleeper.program.output)
    assert received == 2000
    assert sleeps >= 1


def test_a_lost_device_lets_nobody_fall_asleep(sleeper: SoftHca) -> None:
    sleeper.inject(0, "device_fatal")
    sleeper.program.wait_for(rf"removed, armed {-errno.EIO}\b")


@pytest.mark.guest
def test_a_refused_set_up_leaves_the_queue(sleeper: SoftHca) -> None:
    """With Rx interrupts, none on a running port: ethdev says so before it releases the queue, which still receives."""
    assert re.findall(r"set-up (-?\d+) start (-?\d+)", sleeper.program.output) == [(str(-errno.EBUSY), "0")]
    sleeping.wake(sleeper.wires[0], 2000)
    assert sleeper.program.wait(60) == 0, sleeper.program.output


@pytest.mark.guest
def test_the_device_clock_can_be_read(sleeper: SoftHca) -> None:
    """The same clock as that of the time stamps, at most a few poll iterations old."""
    result, clock = re.findall(r"clock (-?\d+) (\d+)", sleeper.program.output)[0]
    assert result == "0"
    assert 0 < time.monotonic_ns() - int(clock) < 10_000_000_000


# -- striding queues -------------------------------------------------------------------------------


@pytest.mark.guest
@pytest.mark.parametrize("devargs", [
    "mprq_en=1", "mprq_en=1,cqe_comp=0", "mprq_en=1,mprq_max_memcpy_len=0",
    "mprq_en=1,mprq_log_stride_num=9,mprq_log_stride_size=8",
])
def test_striding_queues_take_every_frame(start_stack: StartStack, devargs: str) -> None:
    stack = start_stack(lossless(2, devargs), datapath="mlx5")
    assert stack.testpmd.rx_burst_mode(0).startswith("mlx5 striding")
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(6000), to=stack.wires[1], timeout=30)
    stack.wires[1].transfer(mixed_frames(2000), to=stack.wires[0], timeout=30)
    device = stack.stat()["mlx5_0"]
    wqes = sum(queue["wqes"] for queue in device["rqs"])
    packets = sum(queue["packets"] for queue in device["rqs"])
    assert packets >= 6000
    assert wqes < packets / 4


@pytest.mark.guest(when=lambda params: "--enable-scatter" in params["room"])
@pytest.mark.parametrize("room", [["--mbuf-size=2176", "--enable-scatter"], ["--mbuf-size=9728"]],
                         ids=["scattered", "big_mbufs"])
def test_striding_queues_take_large_frames(start_stack: StartStack, room: list[str]) -> None:
    stack = start_stack(lossless(2, "mprq_en=1", mtu="9000"), datapath="mlx5", testpmd_args=[
        *room, "--max-pkt-len=9018", "--rxd=256", "--txd=256", "--tx-offloads=0x8000",
        "--total-num-mbufs=4096"])
    stack.testpmd.start("io", lossless=True)
    frames = [opaque(size, seed=size) for size in range(60, 9018, 61)]
    stack.wires[0].transfer(frames, to=stack.wires[1])


@pytest.mark.guest
def test_striding_queues_stop_and_start(start_stack: StartStack) -> None:
    stack = start_stack(lossless(2, "mprq_en=1"), datapath="mlx5")
    for _ in range(3):
        stack.testpmd.start("io", lossless=True)
        stack.wires[0].transfer(numbered(500, length=800), to=stack.wires[1])
        stack.testpmd.stop()
        stack.testpmd.silent("port 0 rxq 0 stop")
        stack.testpmd.silent("port 0 rxq 0 start")
        stack.testpmd.stop_port(0)
        stack.testpmd.start_port(0)


@pytest.mark.guest(False)  # refused by the driver, before it uses a device
def test_strides_that_cannot_be_are_refused(start_stack: StartStack) -> None:
    for devargs, why in (("mprq_en=1,mprq_log_stride_size=5", "the device takes 6 to 13"),
                         ("mprq_en=1,mprq_log_stride_num=3,mprq_log_stride_size=6",
                          "holds no frame of 1518 bytes")):
        stack = start_stack(lossless(1, devargs), datapath="mlx5")
        assert why in stack.testpmd.program.output


KEEP_CRC = "--rx-offloads=0x10000"


@pytest.mark.guest(False)  # refused by the driver, before it uses a device
@pytest.mark.parametrize("offloads, frame, fits", [
    ([], 2048, True), ([], 2049, False), ([KEEP_CRC], 2044, True), ([KEEP_CRC], 2045, False)])
def test_a_kept_checksum_takes_room_in_the_strides(
        start_stack: StartStack, offloads: list[str], frame: int, fits: bool) -> None:
    stack = start_stack(lossless(1, "mprq_en=1,mprq_log_stride_num=3,mprq_log_stride_size=8"),
                        datapath="mlx5", testpmd_args=[
                            *offloads, f"--max-pkt-len={frame}", "--mbuf-size=4096"])
    assert ("holds no frame of" in stack.testpmd.program.output) != fits


# No device is involved, so not in the guest.
def test_striding_queues_need_mapped_rings(start_stack: StartStack) -> None:
    stack = start_stack(lossless(1, "mprq_en=1"), datapath="verbs")
    assert "mprq_en=1: datapath=verbs has no striding receive queues" in stack.testpmd.program.output


# -- buffer split ----------------------------------------------------------------------------------

def split(lengths: str, offsets: str) -> list[str]:
    return [f"--rxpkts={lengths}", f"--rxoffs={offsets}", "--mbuf-size=512,1024",
            "--rx-offloads=0x100000", "--tx-offloads=0x8000"]  # BUFFER_SPLIT, MULTI_SEGS


@pytest.mark.guest
@pytest.mark.daily(when=lambda params: params["datapath"] == "mlx5" or params["offsets"] == "16,300")
@pytest.mark.parametrize(("lengths", "offsets", "fill"), [
    ("64,500", "16,0", [64, 500, 1024]),
    ("64,64", "0,0", [64, 64, 1024]),
    ("64,200", "16,300", [64, 200, 1024]),
], ids=["long", "short", "offset"])
def test_packets_are_split(start_stack: StartStack, datapath: str, lengths: str, offsets: str, fill: list[int]) -> None:
    """Mbufs beyond the given segments come from the pool of the last one and are filled whole."""
    stack = start_stack(2, datapath=datapath, testpmd_args=split(lengths, offsets))
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer([opaque(size, seed=size) for size in range(60, 1515)],
                            to=stack.wires[1], timeout=30)
    stack.testpmd.stop()
    stack.testpmd.silent("set verbose 1")
    stack.testpmd.start("rxonly")
    ends = list(accumulate(fill))
    for size in sorted({60, 1500, *ends, *(end + 1 for end in ends)}):
        if not 60 <= size <= 1514:
            continue
        segments = 1 + sum(size > end for end in ends)
        position = stack.testpmd.mark_output()
        stack.wires[0].send(opaque(size, seed=size))
        assert stack.testpmd.received(position, 1)[0].segments == segments


# No device is involved, so not in the guest.
def test_splits_need_cyclic_rings(start_stack: StartStack) -> None:
    """The offload is not offered there, so ethdev refuses it."""
    stack = start_stack(lossless(1, "mprq_en=1"), datapath="mlx5", testpmd_args=split("64,500", "16,0"))
    refusal = "doesn't match Rx offloads capabilities|does not support Rx offloads BUFFER_SPLIT"
    assert re.search(refusal, stack.testpmd.program.output)  # of DPDK 22.11; since 24.11


# -- set-up at run time ----------------------------------------------------------------------------


@pytest.mark.guest
def test_queues_are_set_up_while_the_port_runs(start_stack: StartStack, datapath: str) -> None:
    """Another ring size; the other queue and the rules of the application stay, with their counts."""
    stack = start_stack(2, datapath=datapath,
                        testpmd_args=["--rxq=2", "--txq=2", "--nb-cores=1"])
    testpmd = stack.testpmd
    to_one = testpmd.create_flow(
        0, "ingress pattern eth / ipv4 / udp dst is 77 / end actions count / queue index 1 / end")
    for descriptors in (128, 1024):
        testpmd.start("io", lossless=True)
        stack.wires[0].transfer(numbered(200), to=stack.wires[1])
        testpmd.stop()
        testpmd.silent("port 0 rxq 1 stop")
        testpmd.silent(f"port config 0 rxq 1 ring_size {descriptors}")
        testpmd.silent("port 0 rxq 1 setup")
        testpmd.silent("port 0 rxq 1 start")
        assert f"Number of RXDs: {descriptors}" in testpmd.command("show rxq info 0 1")
        testpmd.start("io", lossless=True)
        stack.wires[0].transfer([udp4(bytes(n), dport=77) for n in range(200)],
                                to=stack.wires[1])
        stack.wires[0].transfer(numbered(200), to=stack.wires[1])
        testpmd.stop()
    assert testpmd.query_count(0, to_one)[0] == 2 * 200
    testpmd.destroy_flow(0, to_one)
    stats = testpmd.stats(0)
    assert stats.rx_packets == 2 * 600


# ethdev refuses it without asking the driver, so not in the guest, and daily on one ring format.
@pytest.mark.daily(when=lambda params: params["datapath"] == "mlx5")
def test_no_running_queue_is_set_up(start_stack: StartStack, datapath: str) -> None:
    stack = start_stack(2, datapath=datapath)
    assert stack.testpmd.command("port 0 rxq 0 setup").strip(), "ethdev refuses"
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(200), to=stack.wires[1])
