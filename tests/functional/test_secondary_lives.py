# SPDX-License-Identifier: BSD-3-Clause
"""Processes that share ports, when one of them changes the ports, hangs or dies."""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Callable, Iterator

import pytest
from rig.packets import marker, numbered, opaque
from rig.process_fixtures import StartProcesses
from rig.processes import Processes, TestpmdProcesses
from rig.screen import ProgramError, Screen
from rig.testpmd import Testpmd

BURST = 32
rounds = pytest.mark.parametrize("kills", [10, pytest.param(50, marks=pytest.mark.thorough)])
guest_if_thorough = pytest.mark.guest(when=lambda params: params["kills"] == 50)


def says(stats: int = 0, received: int | str = r"\d+", link: str = "up", clock: int | str = 0,
         stop: int = -1, removed: int = 0) -> str:
    """The answer of forward.c to SIGUSR1."""
    return (f"stats: {stats}, received: {received}, link: {link}, clock: {clock}, stop: {stop}, "
            f"removed: {removed}\n")


GONE = says(-5, 0, "down", -5, removed=1)


def run_forward(processes: Processes, forward: str) -> Screen:
    program = processes.run_secondary(forward)
    program.wait_for("forwarding", timeout=60)
    return program


def ask(program: Screen, answer: str, timeout: float) -> None:
    position = len(program.output)
    program.signal(signal.SIGUSR1)
    program.wait_for(answer, position, timeout)


@contextmanager
def traffic(processes: Processes) -> Iterator[None]:
    """Sends frames all the time; at the end none is in flight."""
    over = threading.Event()

    def send() -> None:
        while not over.is_set():
            for wire in processes.hca.wires:
                wire.send(opaque(100, seed=1), timeout=20)

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send)
        try:
            yield
        finally:
            over.set()
        sending.result()
    one, other = processes.hca.wires
    for source, sink in ((one, other), (other, one)):
        source.send(marker())
        sink.receive_until(marker())


def restart(testpmd: Testpmd, *between: str) -> None:
    testpmd.stop_port("all")
    testpmd.silent(*between)
    testpmd.start_port("all")


def set_queues_up(testpmd: Testpmd) -> None:
    """Sets up the secondary's queues while the ports run."""
    for port in range(2):
        for queue in "rxq", "txq":
            testpmd.silent(f"port {port} {queue} 1 stop",
                           f"port config {port} {queue} 1 ring_size 512",
                           f"port {port} {queue} 1 setup", f"port {port} {queue} 1 start")


CHANGES: dict[str, Callable[[Testpmd], None]] = {
    "restart": restart,
    "rings": lambda testpmd: restart(testpmd, "port config all rxd 1024", "port config all txd 1024"),
    "mtu": lambda testpmd: restart(testpmd, "port config mtu 0 2000", "port config mtu 1 2000"),
    "queues": set_queues_up,
}


@pytest.mark.parametrize("change", CHANGES)
def test_follows(start: StartProcesses, forward: str, change: str) -> None:
    """Bursts are empty while the primary works on a queue, and it does not wait for the application, which
    keeps polling. No later packet is lost."""
    processes = start()
    secondary = run_forward(processes, forward)
    processes.steer_to(1)
    for _ in range(3):
        with traffic(processes):
            CHANGES[change](processes.primary)
            processes.steer_to(1)  # testpmd flushes rules when it stops a port
        processes.transfer(300)
    ask(secondary, says(), 2)
    processes.primary.stop_port("all")
    assert processes.primary.mbufs_in_use() <= BURST
    assert "secondary process does not answer" not in processes.hca.program.output


def test_the_primary_closes_a_port(start: StartProcesses, forward: str) -> None:
    """The other port continues, even when the secondary then closes the same port, whose number ethdev has already
    released."""
    processes = start()
    secondary = run_forward(processes, forward)
    processes.steer_to(1)
    with traffic(processes):
        pass
    processes.primary.stop_port(1)
    processes.primary.expect("port close 1", "Done")
    secondary.wait_for("net_rawqp1: the primary process closes the port")
    secondary.signal(signal.SIGUSR2)
    secondary.wait_for("close: 0")
    wire = processes.hca.wires[0]
    wire.transfer(numbered(300), to=wire)
    ask(secondary, says(), 2)
    assert processes.primary.quit() == 0


def test_a_port_is_plugged(start: StartProcesses, forward: str) -> None:
    """EAL makes the secondary detach and attach the same devices as its primary. No program may poll a port
    meanwhile."""
    processes = start()
    program = run_forward(processes, forward)
    for _ in range(3):
        processes.steer_to(1)
        processes.transfer(50)
        processes.primary.stop_port(1)
        since = len(program.output)
        program.signal(signal.SIGUSR2)
        program.wait_for("close: 0", since)
        processes.primary.expect("port detach 1", "Device is detached")
        ask(program, "ports: 1, " + says(), 2)
        processes.primary.expect("port attach net_rawqp1,device=mlx5_1", "Port 1 is attached")
        ask(program, "ports: 2, " + says(), 2)
        processes.primary.start_port(1)
        program.signal(signal.SIGUSR2)
        program.wait_for("both ports", since)
    assert processes.primary.quit() == 0


def test_a_port_is_plugged_after_a_hang(start: StartProcesses, forward: str) -> None:
    """Bursts send no request for a second after an unanswered one; attaching does."""
    processes = start()
    program = run_forward(processes, forward)
    processes.primary.stop_port(1)
    program.signal(signal.SIGUSR2)
    program.wait_for("close: 0")
    processes.primary.expect("port detach 1", "Device is detached")
    processes.hca.signal_program(signal.SIGSTOP)
    ask(program, "ports: 1, " + says(clock=-110), 2)
    processes.hca.signal_program(signal.SIGCONT)
    processes.primary.expect("port attach net_rawqp1,device=mlx5_1", "Port 1 is attached")
    ask(program, "ports: 2, " + says(), 2)


def test_a_closed_port_is_unplugged(start: StartProcesses, forward: str) -> None:
    """The primary has already erased its name, but the secondary's port is removed as well. Until then, every
    call reports that it is gone."""
    processes = start()
    program = run_forward(processes, forward)
    program.signal(signal.SIGWINCH)
    program.wait_for("port 0 alone")
    processes.primary.stop_port(1)
    processes.primary.expect("port close 1", "Done")
    ask(program, "ports: 2, " + says() + "port 1 is removed, clean-up: -5\n", 2)
    processes.primary.expect("device detach net_rawqp1", "is detached")
    ask(program, "ports: 1, " + says(), 2)
    processes.primary.expect("port attach net_rawqp1,device=mlx5_1", "Port 1 is attached")
    ask(program, "ports: 2, " + says(), 2)


def test_another_port_takes_the_place(start: StartProcesses, forward: str) -> None:
    """A secondary that still has the former port does not touch the state of the new one."""
    processes = start()
    program = run_forward(processes, forward)
    processes.primary.stop_port(0)
    processes.primary.expect("port reset 0", "Done")
    processes.primary.start_port(0)
    program.wait_for("net_rawqp0: the primary process closes the port")
    ask(program, says(-5, 0, "down", -5, stop=0, removed=1), 2)
    assert "Link status: up" in processes.primary.command("show port info 0")


def test_attaches_while_a_port_is_made_anew(start: StartProcesses, forward: str) -> None:
    """Repeatedly, so that sometimes there is no port."""
    processes = start()
    processes.primary.stop_port(1)
    for _ in range(8):
        program = processes.run_secondary(forward)
        while "forwarding" not in program.output:
            processes.primary.expect("port reset 1", "Done")
        ask(program, "ports: 2, " + says(), 2)
        kill(processes, program)


def test_a_port_is_closed_beside_a_call(start: StartProcesses, forward: str) -> None:
    """A secondary's call reads data that the primary is about to free: the primary waits for it."""
    processes = start()
    program = run_forward(processes, forward)
    processes.primary.stop_port(1)
    program.signal(signal.SIGALRM)
    program.wait_for("dumping")
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(processes.primary.expect, "port close 1", "Done")
        early = wait([closing], timeout=0.2)
        program.signal(signal.SIGALRM)
        assert not early.done
        closing.result()
    program.wait_for("dump: 0")
    assert "does not answer" not in processes.hca.program.output


def test_a_device_dies(beside: Processes, forward: str) -> None:
    """The device's port exists in the primary, which does not react."""
    beside.start_primary(forward, [], ["-m", "64"])
    beside.hca.program.wait_for("the ports are there", timeout=60)
    program = run_forward(beside, forward)
    ask(program, says(received=0), 2)
    beside.hca.inject(0, "device_fatal")
    beside.hca.program.wait_for("net_rawqp0: RDMA device mlx5_0 failed")
    ask(program, says(received=0, link="(up|down)", removed=1), 2)


@pytest.mark.guest
def test_the_primary_dies(start: StartProcesses, forward: str) -> None:
    """Bursts are empty, other calls return errors, and nothing waits. The kernel has taken back all objects of the
    primary."""
    processes = start()
    program = run_forward(processes, forward)
    processes.steer_to(1)
    processes.transfer(50)
    ask(program, says(received=50), 5)
    processes.transfer(50)  # even after the refused stop
    assert "rte_eth_dev_stop is for the primary process" in program.output
    processes.hca.signal_program(signal.SIGKILL)
    program.wait_for("net_rawqp0: the primary process is gone")
    program.wait_for("net_rawqp1: the primary process is gone")
    ask(program, GONE, 2)
    assert not processes.home.left_in_kernel()


def test_the_primary_hangs(start: StartProcesses, forward: str) -> None:
    """Requests time out without an answer, and the secondary continues when the primary is back."""
    processes = start()
    program = run_forward(processes, forward)
    processes.steer_to(1)
    processes.transfer(50)
    processes.hca.signal_program(signal.SIGSTOP)
    ask(program, says(received=50, clock=-110), 2)
    processes.hca.signal_program(signal.SIGCONT)
    processes.transfer(50)


def test_a_secondary_hangs(start: StartProcesses, forward: str) -> None:
    """The primary waits a second for all of its queues, logs this, and continues."""
    processes = start()
    program = run_forward(processes, forward)
    processes.steer_to(1)
    processes.transfer(50)
    program.signal(signal.SIGSTOP)
    os.waitid(os.P_PID, program.pid, os.WSTOPPED)
    before = time.monotonic()
    processes.primary.stop_port("all")
    assert time.monotonic() - before < 4  # two ports
    processes.hca.program.wait_for("net_rawqp0: a secondary process does not answer within 1000 ms")
    program.signal(signal.SIGCONT)
    processes.primary.start_port("all")
    processes.steer_to(1)
    processes.transfer(50)


def test_a_secondary_is_late(start: StartProcesses, forward: str) -> None:
    """It is still in a burst when its primary restarts the queues: they wait for it."""
    processes = start()
    program = run_forward(processes, forward)
    program.signal(signal.SIGHUP)
    program.wait_for("busy")
    processes.primary.stop_port("all")
    stopped = processes.objects()
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(processes.primary.start_port, "all")
        early = wait([starting], timeout=0.5)
        as_before = processes.objects() == stopped
        program.signal(signal.SIGHUP)
        assert not early.done and as_before
        starting.result()
    processes.steer_to(1)
    processes.transfer(50)
    processes.primary.stop_port("all")
    assert processes.primary.mbufs_in_use() == 0


def test_a_secondary_sleeps_through_new_rings(start: StartProcesses, forward: str) -> None:
    """It hangs, outside bursts, from before its queues are stopped until others have replaced them: it continues
    with these."""
    processes = start()
    program = run_forward(processes, forward)
    processes.steer_to(1)
    processes.transfer(50)
    program.signal(signal.SIGHUP)
    program.wait_for("busy")
    program.signal(signal.SIGALRM)
    program.wait_for("dumping")
    restart(processes.primary, "port config all rxd 1024", "port config all txd 1024")
    program.signal(signal.SIGHUP)
    processes.primary.silent("port 1 rxq 0 stop", "port 1 rxq 0 start")  # testpmd waits for its answer
    program.signal(signal.SIGALRM)
    program.wait_for("dump: 0")
    processes.steer_to(1)
    processes.transfer(50)


@pytest.mark.guest(when=lambda params: params["kills"] == 50 or params["devargs"] == "")
@rounds
@pytest.mark.parametrize("devargs", ["", ",mprq_en=1"])
def test_secondaries_are_killed(start: StartProcesses, forward: str, kills: int, devargs: str,
                                record_testsuite_property: Callable[[str, object], None]) -> None:
    """At random moments, with packets in flight. A killed process loses the packets that its own code holds, at
    most one burst; the rings lose nothing, and the devices have as many objects as before. Losses and locks
    of DPDK's rings and caches are not tested here."""
    processes = start(devargs, options=["--mbcache=0"], eal=["--mbuf-pool-ops-name=lf_stack"])
    primary = processes.primary
    processes.steer_to(1)
    objects = processes.objects()
    moments = random.Random(11)
    lost = [0]
    for number in range(kills):
        program = run_forward(processes, forward)
        for frame in numbered(20):
            processes.hca.wires[0].send(frame)
        time.sleep(moments.uniform(0, 0.01))
        kill(processes, program)
        if number % 5 == 4:  # the rings are empty when ports are stopped
            primary.stop_port("all")
            lost.append(primary.mbufs_in_use())
            primary.start_port("all")
            processes.steer_to(1)
    assert processes.objects() == objects
    expect_primary_forwards(processes)
    primary.stop_port("all")
    record_testsuite_property("mbufs lost after each fifth kill", lost)
    assert all(now - before <= 5 * BURST for before, now in zip(lost, lost[1:])), lost
    assert primary.mbufs_in_use() == lost[-1]
    assert primary.quit() == 0


def kill(processes: Processes, program: Screen) -> None:
    program.signal(signal.SIGKILL)
    program.wait()
    processes.others.remove(program)
    program.close()


def expect_primary_forwards(processes: TestpmdProcesses) -> None:
    processes.steer_to(0)
    processes.primary.start("io")
    processes.hca.wires[0].send(marker())
    processes.hca.wires[1].receive_until(marker())  # packets forwarded by the killed ones
    processes.transfer(50)
    processes.primary.stop()


@guest_if_thorough
@rounds
def test_secondaries_are_killed_as_they_attach(start: StartProcesses, forward: str,
                                               kills: int) -> None:
    """The primary continues. It must not exit: EAL's cleanup would wait forever for a lock held by a process that
    was killed during EAL's initialization."""
    processes = start()
    objects = processes.objects()
    moments = random.Random(3)
    for _ in range(kills):
        program = processes.run_secondary(forward)
        time.sleep(moments.uniform(0.01, 0.2) * processes.home.patience)
        kill(processes, program)
    assert processes.objects() == objects
    expect_primary_forwards(processes)


def expect_an_end(program: Screen) -> None:
    """The primary is gone: the program has exited, or still responds and notices it eventually."""
    try:
        program.wait_for("forwarding", timeout=30)
    except ProgramError:
        assert program.wait() > 0, program.output
        return
    deadline = time.monotonic() + 10
    while "stats: -" not in program.output:
        assert time.monotonic() < deadline, program.output
        ask(program, "stats: .*\n", 3)


@guest_if_thorough
@pytest.mark.timeout(900)
@rounds
def test_primaries_are_killed(beside: Processes, forward: str, kills: int) -> None:
    """At random moments, some while a secondary attaches: it reports that the primary is gone, or fails to start,
    and otherwise ends only on request. The next primary starts afresh."""
    moments = random.Random(7)
    for number in range(kills):
        beside.start_primary(forward, [], ["-m", "64"])
        beside.hca.program.wait_for("the ports are there", timeout=60)
        program = beside.run_secondary(forward)
        attaches = number % 5 == 4
        if not attaches:
            program.wait_for("forwarding", timeout=60)
        for frame in numbered(20):
            beside.hca.wires[0].send(frame)
        time.sleep(moments.uniform(0.05, 0.2) * beside.home.patience if attaches
                   else moments.uniform(0, 0.01))
        beside.hca.signal_program(signal.SIGKILL)
        if not attaches:
            for port in range(2):
                program.wait_for(f"net_rawqp{port}: the primary process is gone")
            ask(program, GONE, 2)
            kill(beside, program)
        else:
            expect_an_end(program)
            beside.others.remove(program)
            program.close()
        beside.hca.close()
