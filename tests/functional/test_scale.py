# SPDX-License-Identifier: BSD-3-Clause
"""Many ports, queues and rules in one process, many concurrent processes, ports that are plugged and unplugged
under traffic."""

import json
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Callable, Sequence

import pytest
from rig.callgrind import counting, of_main_thread, skip_without_valgrind
from rig.launched import DRIVER, devices_of, launcher_env
from rig.left_behind import check_clean, left_behind
from rig.packets import numbered, udp4
from rig.ports import lossless
from rig.program import Program
from rig.reliability import TellFaults
from rig.stack import SoftHca, Stack
from rig.testpmd import Testpmd
from rig.wire import SocketWire

from functional.conftest import OpenStack, StartSoftHca, StartStack

PORTS, QUEUES = 16, 16
FIRST_DPORT = 1000
DPORT = slice(36, 38)  # of UDP over IPv4, in the frame


# -- ports, queues and rules -----------------------------------------------------------------------


def install_rules(stack: Stack, count: int, script: Path) -> None:
    """Installs `count` rules on each port, one per UDP port, alternating between its queues."""
    rules = "".join(f"flow create {port} ingress pattern eth / ipv4 / udp dst is {FIRST_DPORT + rule} / end "
                    f"actions queue index {rule % QUEUES} / end\n"
                    for port in range(PORTS) for rule in range(count))
    script.write_text(rules)
    position = stack.testpmd.mark_output()
    stack.program.send_line(f"load {script}")
    stack.testpmd.command("set verbose 0", timeout=600)  # testpmd also prints prompts after lines of a script
    created = re.findall(r"Flow rule #\d+ created", stack.program.output[position:])
    assert len(created) == PORTS * count, stack.program.output[position:][-2000:]


def frames_for(port: int, count: int) -> list[bytes]:
    """One frame for each rule of the port."""
    frame = bytearray(bytes(udp4(bytes([port]) * 30)))
    frames = []
    for rule in range(count):
        frame[DPORT] = (FIRST_DPORT + rule).to_bytes(2, "big")
        frames.append(bytes(frame))
    return frames


def forward(wires: Sequence[SocketWire], count: int) -> None:
    """Sends a frame for each rule into each port, and expects it from its neighbour."""
    for port, wire in enumerate(wires):
        wire.send_all(frames_for(port, count))
    for port in range(len(wires)):
        arrived = wires[port ^ 1].receive_count(count, timeout=60)
        assert sorted(arrived) == sorted(frames_for(port, count)), f"from port {port}"


def check_counts(stack: Stack, count: int) -> None:
    """Checks that each queue had its share in each direction, and nothing was dropped anywhere."""
    for port, device in enumerate(stack.stat().values()):
        for kind in ("rqs", "sqs"):
            packets = [queue["packets"] for queue in device[kind] if queue["state"] == "ready"]
            assert packets == [count // QUEUES] * QUEUES, f"port {port}, {kind}"
        counters = device["counters"]
        assert counters["wire_rx_packets"] == counters["delivered"] == counters["wire_tx_packets"] == count
        dropped = {name: value for name, value in counters.items() if name.startswith("drop_") and value}
        assert not dropped, f"port {port}"
        stats = stack.testpmd.stats(port)
        assert (stats.rx_packets, stats.tx_packets) == (count, count), f"port {port}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rules", [64, pytest.param(1024, marks=pytest.mark.thorough)])
def test_sixteen_ports(open_stack: OpenStack, datapath: str, rules: int, tmp_path: Path) -> None:
    """256 queues in each direction in one process, and rules that lead to each of them."""
    options = [f"--rxq={QUEUES}", f"--txq={QUEUES}", "--rxd=64", "--txd=64", "--total-num-mbufs=40960"]
    with open_stack(PORTS, datapath=datapath, testpmd_args=options, memory_mb=512) as stack:
        before = [device["objects"]["flows"] for device in stack.stat().values()]
        install_rules(stack, rules, tmp_path / "rules")
        with_rules = [device["objects"]["flows"] for device in stack.stat().values()]
        assert [more - less for more, less in zip(with_rules, before)] == [rules] * PORTS
        stack.testpmd.start("io", lossless=True)
        forward(stack.wires, rules)
        check_counts(stack, rules)
        stack.testpmd.stop()
        for port in range(PORTS):
            stack.testpmd.flush_flows(port)
        assert [device["objects"]["flows"] for device in stack.stat().values()] == before
        stack.testpmd.stop_port("all")
        assert stack.testpmd.mbufs_in_use() == 0


MANY = 1_000_000


def commands_of_start(start_stack: StartStack, datapath: str, ports: int) -> list[int]:
    """The number of commands to each device until all ports had started, counted by a fault that is never
    reached."""
    counting = lossless(ports, fault=f"any:EIO:1:{MANY}")
    stack = start_stack(counting, datapath=datapath, testpmd_args=["--rxq=2", "--txq=2", "--rxd=64"])
    left = [stack.inject(port, "none") for port in range(ports)]
    counts = [MANY - int(match[1]) for text in left if (match := re.search(r"any:EIO:1:(\d+)", text))]
    assert len(counts) == ports, left
    return counts


def test_start_is_linear(start_stack: StartStack, datapath: str) -> None:
    """Each of many ports issues as many commands to its device as a single port."""
    (alone,) = commands_of_start(start_stack, datapath, 1)
    assert alone > 30
    assert commands_of_start(start_stack, datapath, PORTS) == [alone] * PORTS


def instructions_of_start(start_softhca: StartSoftHca, folder: Path, datapath: str, ports: int) -> int:
    """Instructions of testpmd's main thread, from its start to its end."""
    vdevs = [word for port in range(ports)
             for word in ("--vdev", f"net_rawqp{port},device=mlx5_{port},datapath={datapath}")]
    out = folder / f"{ports}"
    command = [*counting(out), "dpdk-testpmd", "-l", "0,1", "--no-huge", "-m", "256", "--no-shconf", "--no-telemetry", "--no-pci",
               "-d", DRIVER, *vdevs, "--", "--no-mlockall", "--total-num-mbufs=8192", "--rxq=2", "--txq=2",
               "--rxd=64", "--no-flush-rx"]
    hca = start_softhca(lossless(ports), command)
    hca.program.send_line("")  # testpmd ends at Enter
    assert hca.program.wait(300) == 0, hca.program.output
    return of_main_thread(out)


@pytest.mark.thorough
@pytest.mark.unsanitized  # valgrind does not work with sanitizers
@pytest.mark.timeout(1200)
def test_start_takes_linear_time(start_softhca: StartSoftHca, new_folder: Callable[[], Path],
                                 datapath: str) -> None:
    """The next eight ports cost as much as the first eight, in instructions, as time depends on the machine's
    load."""
    skip_without_valgrind()
    folder = new_folder()
    one, some, many = (instructions_of_start(start_softhca, folder, datapath, ports) for ports in (1, 8, 16))
    first, later = (some - one) / 7, (many - some) / 8
    assert later <= 1.1 * first, f"{first:.0f} instructions for each of eight ports, {later:.0f} after that"


# -- processes -------------------------------------------------------------------------------------

PROCESSES = 8


# How processes share softhca does not depend on their rings.
@pytest.mark.daily(when=lambda params: params["datapath"] == "mlx5")
def test_eight_processes(start_softhca: StartSoftHca, datapath: str, new_folder: Callable[[], Path]) -> None:
    """One device each under one softhca, all at once; one is killed, the others are not affected."""
    hca = start_softhca(lossless(PROCESSES), ["sh", "-c", "echo ready; exec sleep 600"])
    hca.program.wait_for("ready")
    env, folder = {**hca.env, **launcher_env(hca.program)}, new_folder()
    with ExitStack() as ends:
        programs = []
        for number in range(PROCESSES):
            vdev = f"net_rawqp0,device=mlx5_{number},datapath={datapath}"
            command = ["dpdk-testpmd", "--no-huge", "-m", "64", "--no-shconf", "--no-telemetry", "--no-pci",
                       "-d", DRIVER, "--vdev", vdev, "--", "-i", "--no-mlockall", "--total-num-mbufs=2048"]
            programs.append(Program(command, folder / f"testpmd{number}.log", env))
            ends.callback(programs[-1].close)
        testpmds = [Testpmd(program, startup_timeout=120) for program in programs]
        for testpmd in testpmds:
            testpmd.start("io", lossless=True)
        everyone = set(range(PROCESSES))
        transfer_at_once(hca.wires, everyone)
        programs[3].signal(signal.SIGKILL)
        programs[3].wait()
        transfer_at_once(hca.wires, everyone - {3})
        assert running_devices(hca) == [f"mlx5_{number}" for number in sorted(everyone - {3})]
        for number in everyone - {3}:
            assert testpmds[number].quit() == 0
        assert not hca.sanitizer_reports(), hca.sanitizer_reports()


def running_devices(hca: SoftHca) -> list[str]:
    """Devices of all programs under this softhca."""
    return sorted(devices_of(json.loads(hca.run_tool("stat", "--json").stdout)))


def transfer_at_once(wires: Sequence[SocketWire], ports: set[int]) -> None:
    """Requires each to get its own frames back."""
    for port in ports:
        wires[port].send_all(numbered(300, 60 + port))
    for port in ports:
        wires[port].expect(numbered(300, 60 + port), timeout=60)


# -- hot plug --------------------------------------------------------------------------------------


def plug_and_unplug(stack: Stack) -> None:
    """Unplugs with unread packets in the rings."""
    testpmd = stack.testpmd
    testpmd.expect(f"port attach {stack.vdev(1)}", "Port 1 is attached")
    testpmd.start_port(1)
    stack.wires[1].send_all(numbered(40))
    testpmd.stop()  # briefly: testpmd has put the new port on its list, and does not stop listed ports
    testpmd.expect("set portlist 0", "changed to number of configured ports 1")
    testpmd.expect("start", "packet forwarding")
    testpmd.stop_port(1)
    testpmd.expect("port detach 1", "Device is detached")


@pytest.mark.parametrize("times", [10, pytest.param(100, marks=pytest.mark.thorough)])
def test_hot_plug_under_traffic(start_stack: StartStack, datapath: str, times: int,
                                tell_faults: TellFaults) -> None:
    """The other port forwards all the time without loss; nothing of the plugged one is left."""
    stack = start_stack(2, datapath=datapath, attach=1, testpmd_args=["--rxq=2", "--txq=2", "--no-flush-rx"])
    testpmd, wire = stack.testpmd, stack.wires[0]
    testpmd.start("io", lossless=True)
    plug_and_unplug(stack)
    clean = [left_behind(stack, port) for port in range(2)]
    done = Event()

    def keep_busy() -> int:
        rounds = 0
        while not done.is_set():
            wire.transfer(numbered(200, 60 + rounds % 1400), to=wire)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(1) as beside:
        traffic = beside.submit(keep_busy)
        try:
            for _ in range(times):
                plug_and_unplug(stack)
                assert not traffic.done(), traffic.exception()
        finally:
            done.set()
        assert traffic.result() > times / 10
    for port in range(2):
        check_clean(left_behind(stack, port), clean[port], f"port {port} after hot plug")
    counters = stack.counters(0)
    assert counters["wire_rx_packets"] == counters["delivered"] == counters["wire_tx_packets"]
    testpmd.stop()
    testpmd.stop_port(0)
    assert testpmd.mbufs_in_use() == 0
    tell_faults("hot-plug", times)
