# SPDX-License-Identifier: BSD-3-Clause
"""Secondary processes: testpmd alongside a testpmd that owns the ports, each with its own queues.
Their life cycle is in test_secondary_lives.py."""

import re
import shlex
import signal
import time
from pathlib import Path
from typing import Callable

import pytest
from rig.guide import commands, recipe
from rig.launched import launcher_env
from rig.packets import numbered, opaque, udp4
from rig.ports import lossless
from rig.process_fixtures import SOURCES, StartProcesses
from rig.processes import PAGES, Processes, compiled
from rig.screen import Screen
from rig.stack import Build
from rig.tcp_segments import MSS, flow
from rig.testpmd import Testpmd
from scapy.utils import rdpcap

EXAMPLES = Path("/usr/share/dpdk/examples/multi_process")  # package dpdk-doc


def packets_of(testpmd: Testpmd, port: int) -> tuple[int, int]:
    stats = testpmd.stats(port)
    return stats.rx_packets, stats.tx_packets


@pytest.mark.guest
@pytest.mark.parametrize("devargs", ["", ",txq_doorbell=blueflame", ",cqe_comp=1", ",mprq_en=1"])
def test_sends_and_receives(start: StartProcesses, devargs: str) -> None:
    """All packets go through the secondary's queues; both processes count them, each polls its own."""
    processes = start(devargs)
    secondary = processes.secondary()
    processes.steer_to(1)
    secondary.start("io")
    processes.transfer()
    assert packets_of(processes.primary, 0) == packets_of(secondary, 0) == (200, 200)
    processes.steer_to(0)
    processes.primary.start("io")
    processes.transfer()
    assert packets_of(processes.primary, 1) == packets_of(secondary, 1) == (400, 400)
    processes.primary.stop()
    secondary.stop()
    assert secondary.quit() == 0
    assert processes.primary.quit() == 0


def test_recipe(beside: Processes) -> None:
    """As in the guide, but on any CPUs, and with files and hugepages of the test, which are fewer."""
    def here(line: str, first_lcore: int) -> list[str]:
        program, *words = shlex.split(line)
        lcores, prefix = words.index("-l"), words.index("--file-prefix")
        words[prefix:prefix + 2] = ["--huge-dir", str(beside.home.hugepages.folder)]
        words[lcores:lcores + 2] = beside.lcores(2, first_lcore)
        return [program, *words]

    reserve, _mount, primary_line, secondary_line = commands(recipe("Secondary processes"))
    assert int(reserve.split()[1]) >= PAGES
    program, *words = here(primary_line, 0)
    beside.hca = beside.start_softhca(lossless(2), [program, *beside.home.eal_of_primary, *words],
                                      prefix=beside.home.hugepages.prefix,
                                      env={"RUNTIME_DIRECTORY": str(beside.home.folder)})
    primary = Testpmd(beside.hca.program, startup_timeout=60)
    secondary = Testpmd(beside.run(here(secondary_line, 2)), startup_timeout=60)
    for testpmd in (primary, secondary):
        testpmd.start("io")
    expect_all(beside, spread(200))
    for testpmd in (secondary, primary):
        testpmd.stop()
        assert testpmd.quit() == 0


@pytest.mark.guest
def test_puts_segments_together(start: StartProcesses) -> None:
    """LRO: a secondary process also completes headers."""
    processes = start(",lro_timeout_usec=1024", options=[
        "--enable-lro", "--enable-scatter", "--rxd=256", "--max-lro-pkt-size=8192"])
    frames = [segment.frame() for segment in flow(5)]
    for testpmd, queue in ((processes.secondary(), 1), (processes.primary, 0)):
        processes.steer_to(queue)
        testpmd.silent("set verbose 1")
        testpmd.start("rxonly")
        position, bytes_, together = testpmd.mark_output(), 0, False
        while not together:  # depends on timing
            processes.hca.wires[0].send_all(frames)
            bytes_ += 5 * MSS
            testpmd.program.wait_until(lambda _text: sum(
                packet.length - 54 for packet in testpmd.received_so_far(position)) == bytes_, "all")
            together = any("RTE_MBUF_F_RX_LRO" in packet.flags
                           for packet in testpmd.received_so_far(position))
        testpmd.stop()


def test_tells_what_the_primary_tells(start: StartProcesses) -> None:
    processes = start()
    secondary = processes.secondary()
    for command in ("show port info 0", "show port xstats 0", "show rxq info 0 1",
                    "show txq info 0 1", "show port 0 rss-hash key"):
        primary, other = ([line for line in testpmd.command(command).splitlines() if "Devargs" not in line]
                          for testpmd in (processes.primary, secondary))
        # Counters of hardware and netdev, which come last, are available in the primary only.
        assert primary[:len(other)] == other
        assert len(primary) == len(other) or command == "show port xstats 0"


@pytest.mark.parametrize("devx", ["on", "off"])
def test_tells_what_was_missed(start: StartProcesses, devx: str) -> None:
    """The device counts it for each queue or, without DevX, for the whole RDMA port. The secondary, which runs without
    softhca, does not see the latter in sysfs. A reset by one process holds for all."""
    processes = start(options=["--rxd=64"], port_keys={"pause": "off", "devx": devx})
    secondary = processes.secondary()
    processes.steer_to(0)

    def missed(dropped: int) -> list[int]:
        """By the statistics of each process, when the device has dropped that many, as nobody receives."""
        processes.hca.wires[0].send_all(numbered(100))
        deadline = time.monotonic() + 20
        while processes.hca.counters(0)["drop_out_of_buffer"] < dropped:
            assert time.monotonic() < deadline
        return [testpmd.stats(0).rx_missed for testpmd in (processes.primary, secondary)]

    assert missed(100 - 64) == [36, 36]
    secondary.clear_stats()
    assert missed(36 + 100) == [100, 100]
    processes.primary.clear_stats()
    assert missed(136 + 100) == [100, 100]


def test_refuses_what_is_for_the_primary(start: StartProcesses) -> None:
    processes = start()
    secondary = processes.secondary()
    for command, name in (("set promisc 0 off", "rte_eth_promiscuous_disable"),
                          ("port config mtu 0 1400", "rte_eth_dev_set_mtu"),
                          ("mac_addr add 0 02:00:00:00:00:77", "rte_eth_dev_mac_addr_add")):
        assert f"{name} is for the primary process" in secondary.command(command)


def test_changes_nothing_of_what_it_is_refused(start: StartProcesses, tmp_path: Path) -> None:
    """Queues, addresses and configuration are in memory that ethdev changes in any process."""
    processes = start()
    testpmd = processes.primary
    address = "02:00:00:00:00:77"
    testpmd.silent(f"mac_addr add 0 {address}")
    testpmd.stop_port(0)
    secondary = processes.run_secondary(compiled([SOURCES / "meddles.c"], tmp_path / "meddles"))
    secondary.wait_for("over", timeout=60)
    testpmd.start_port(0)
    assert address in testpmd.command("show port 0 macs")
    processes.steer_to(0)
    testpmd.start("io")
    processes.transfer()
    assert "queues: -95 -95, address: -95, port: -95\n" in secondary.output


def test_without_rings_of_its_own(start: StartProcesses) -> None:
    """Verbs rings belong to verbs objects: a secondary logs this, and sees everything but packets."""
    processes = start(",datapath=verbs")
    secondary = processes.secondary()
    assert "cannot send or receive: the rings of datapath=verbs" in secondary.program.output
    processes.steer_to(0)
    processes.primary.start("io")
    secondary.start("io")
    processes.transfer()
    assert packets_of(secondary, 0) == (200, 200)


def test_what_a_secondary_asks(beside: Processes, tmp_path: Path) -> None:
    """Descriptor status, the clock, buffer split, a rule's counter, statistics and their reset, its own memory,
    refused calls, and a send queue that breaks: the packet is lost, and the next one passes."""
    program = compiled([SOURCES / "asks.c"], tmp_path / "asks")
    beside.start_primary(program, [], ["-m", "64"], devargs=",rx_timestamp=real")
    beside.hca.program.wait_for("the rule is there", timeout=60)
    before = time.time_ns()
    secondary = beside.run_secondary(program)
    secondary.wait_for("polling", timeout=60)
    found = re.search(r"empty: 0\nclock: 0, (\d+)\n", secondary.output)
    assert found and before < int(found[1]) < time.time_ns(), secondary.output
    assert "rte_eth_dev_rx_intr_enable is for the primary process" in secondary.output
    assert "interrupt: -1, -95\n" in secondary.output
    assert "queue 0: 0, 64 bytes at 0 of rx, 1600 bytes at 128 of rx\n" in secondary.output
    assert "refused: -1 -1 -1 -1 -1 -1 -1\n" in secondary.output
    for name in ("rte_flow_flush", "rte_flow_push", "rte_mtr_capabilities_get", "rte_eth_timesync_enable"):
        assert f"{name} is for the primary process" in secondary.output
    wire = beside.hca.wires[0]
    for frame in numbered(20):
        wire.send(frame)
    secondary.wait_for("sent: 20", timeout=20)
    assert re.search("waiting: 20\nquery: 0, hits: 20\nquery: 0, hits: 0\nquery: -[0-9]+, hits: 0\n"
                     "(.*\n)?map: 0, -1, Operation not supported\n"
                     "received: 20, after reset: 0\nsent: 20", secondary.output), secondary.output
    assert "memory is mapped and unmapped by the primary process" in secondary.output
    wire.receive_count(20, 20)
    queues = beside.hca.stat()["mlx5_0"]["sqs"]
    (number,) = [queue["number"] for queue in queues if queue["packets"] == 20]
    beside.hca.break_queue(0, f"error_cqe:{number}:local_protection")
    deadline = time.monotonic() + 20
    for _ in range(3):
        since = len(secondary.output)
        secondary.signal(signal.SIGUSR1)
        secondary.wait_for("one more: 1\n", since)
        while beside.hca.counters(0)["tx_error_wqes"] == 0:  # the packet fails before the next one is sent
            assert time.monotonic() < deadline
    assert "Tx queue 1: reset after an error completion" in secondary.output
    wire.receive_count(2, 20)


def test_a_primary_that_is_busy(beside: Processes, tmp_path: Path) -> None:
    """A secondary's question about a rule waits until the primary is done with the port, but not for ever, and not
    on the thread for which the primary may be waiting."""
    program = compiled([SOURCES / "waits.c"], tmp_path / "waits")
    beside.start_primary(program, [], ["-m", "64"])
    primary = beside.hca.program
    primary.wait_for("the rule is there", timeout=60)
    secondary = beside.run_secondary(program)
    secondary.wait_for("ready", timeout=60)

    def answer(signal_number: int, during: Callable[[], None] = lambda: None) -> str:
        since = len(secondary.output)
        secondary.signal(signal_number)
        secondary.wait_for("asking", since)
        during()
        secondary.wait_for("answer: [^\n]*\n", since)
        return secondary.output[secondary.output.index("answer", since):]

    assert answer(signal.SIGUSR1).startswith("answer: 0, soon")
    beside.hca.signal_program(signal.SIGUSR1)
    primary.wait_for("busy")
    for number, when in (signal.SIGUSR1, "after more than a second"), (signal.SIGUSR2, "soon"):
        refused = answer(number)
        assert refused.startswith(f"answer: -11, {when}: the primary process is busy with the port"), refused
        assert "ask again" in refused
    assert answer(signal.SIGUSR1, lambda: beside.hca.signal_program(signal.SIGUSR2)).startswith("answer: 0, ")
    primary.wait_for("idle")
    beside.hca.signal_program(signal.SIGKILL)
    secondary.wait_for("net_rawqp0: the primary process is gone")  # the other port may hear of it earlier
    assert answer(signal.SIGUSR1).startswith("answer: -5, soon")


def test_a_receive_queue_that_breaks(start: StartProcesses) -> None:
    """The primary resets it at the secondary's request."""
    processes = start()
    secondary = processes.secondary()
    processes.steer_to(1)
    secondary.start("io")
    processes.transfer()
    (number,) = [queue["number"] for queue in processes.hca.stat()["mlx5_0"]["rqs"]
                 if queue["packets"] == 200]
    processes.hca.break_queue(0, f"error_cqe:{number}:local_protection")
    processes.hca.wires[0].send(opaque(100, seed=1))
    secondary.program.wait_for("Rx queue 1: reset after an error completion")
    processes.transfer()
    assert secondary.stats(0).rx_errors == processes.primary.stats(0).rx_errors == 1


def test_real_time_stamps(start: StartProcesses) -> None:
    processes = start(",rx_timestamp=real", options=["--enable-rx-timestamp"])
    secondary = processes.secondary()
    processes.steer_to(1)
    secondary.silent("set verbose 1")
    secondary.start("rxonly")
    for turn in range(2):
        position = secondary.mark_output()
        before = time.time_ns()
        processes.hca.wires[0].send_all(numbered(40))
        secondary.received(position, 40)
        stamps = [int(stamp) for stamp in
                  re.findall(r"timestamp (\d+)", secondary.program.output[position:])]
        slack = 10_000_000  # the two clocks drift apart a little
        assert before - slack < stamps[0] and stamps[-1] < time.time_ns() + slack
        assert stamps == sorted(stamps)


def test_below_the_same_launcher(start: StartProcesses) -> None:
    """A child of softhca's program, or a program started like one: it opens no device of its own."""
    processes = start()
    env = launcher_env(processes.hca.program)
    processes.preload([env.pop("LD_PRELOAD")])
    processes.home.env |= env
    secondary = processes.secondary()
    processes.steer_to(1)
    secondary.start("io")
    processes.transfer()
    assert packets_of(processes.primary, 0) == packets_of(secondary, 0) == (200, 200)


def test_several_at_once(start: StartProcesses) -> None:
    """Three processes, each with a third of the packets spread by RSS."""
    processes = start(processes=3)
    everybody = [processes.primary, processes.secondary(1), processes.secondary(2)]
    for testpmd in everybody:
        testpmd.start("io")
    expect_all(processes, spread(200))
    for port in range(2):
        counted = [int(count) for count in
                   re.findall(r"rx_q\d+_packets: (\d+)", processes.primary.command(
                       f"show port xstats {port}"))]
        assert len(counted) == 3 and sum(counted) == 200 and all(counted)
    for testpmd in reversed(everybody):
        testpmd.stop()
        assert testpmd.quit() == 0


def test_proc_info(start: StartProcesses) -> None:
    processes = start()
    processes.primary.start("io")
    processes.transfer()
    for option, expected in (("--stats", r"RX-packets:\s+200\b"),
                             ("--xstats", r"rx_q0_packets:\s+200\b"),
                             ("--show-port", r"net_rawqp0")):
        program = processes.run(["dpdk-proc-info", *processes.eal, "--", option])
        assert program.wait(60) == 0, program.output
        assert re.search(expected, program.output), program.output


@pytest.mark.parametrize("tool", ["dpdk-pdump", "dpdk-dumpcap"])
def test_captures(start: StartProcesses, build: Build, tool: str) -> None:
    """Packets that the primary receives and sends on port 0."""
    processes = start()
    processes.primary.start("io")
    file = processes.folder / "capture.pcap"
    if tool == "dpdk-pdump":
        program = processes.run([tool, *processes.eal, "--", "--pdump",
                                 f"port=0,queue=*,rx-dev={file},tx-dev={file}"])
    else:  # takes no EAL options; a preloaded driver need not be loaded
        processes.preload([str(build.driver)])
        program = processes.run([tool, "-i", "0", "-w", str(file)])
    program.wait_for("capture for|Capturing on", timeout=60)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:  # the tool does not report when it starts to capture
        processes.transfer(10)
        if file.exists() and file.stat().st_size > 40000:
            break
    program.signal(signal.SIGINT)
    program.wait(30)
    assert {len(packet) for packet in rdpcap(str(file))} == {60, 1400}, program.output


def spread(count: int) -> list[bytes]:
    """Frames that RSS spreads over all queues."""
    return [bytes(udp4(bytes(100), source_ip=f"10.0.{i // 200}.{i % 200 + 1}")) for i in range(count)]


def expect_all(processes: Processes, frames: list[bytes]) -> None:
    """Requires all frames in any order, as several processes forward them and set the addresses."""
    for source, sink in (processes.hca.wires, reversed(processes.hca.wires)):
        for frame in frames:
            source.send(frame)
        got = sink.receive_count(len(frames), 20)
        assert sorted(frame[14:] for frame in got) == sorted(frame[14:] for frame in frames)
        sink.drain()


def test_symmetric_mp(beside: Processes, tmp_path: Path) -> None:
    """Two equal processes, each with a queue of each port."""
    program = compiled([EXAMPLES / "symmetric_mp/main.c"], tmp_path / "symmetric_mp")
    options = ["-p", "3", "--num-procs=2", "--proc-id"]
    beside.start_primary(program, [*options, "0"])
    beside.hca.program.wait_for("lcore 0 using queue", timeout=60)
    secondary = beside.run_secondary(program, [*options, "1"])
    secondary.wait_for(r"lcore \d+ using queue", timeout=60)
    expect_all(beside, spread(200))


def test_client_server_mp(beside: Processes, tmp_path: Path) -> None:
    """A server receives packets and distributes them to two clients, which send them."""
    folder = EXAMPLES / "client_server_mp"
    shared = f"-I{folder}/shared"
    server = compiled([folder / "mp_server" / name for name in ("main.c", "init.c", "args.c")],
                      tmp_path / "mp_server", shared)
    client = compiled([folder / "mp_client/client.c"], tmp_path / "mp_client", shared)
    beside.start_primary(server, ["-p", "3", "-n", "2"], lcores=2)
    beside.hca.program.wait_for("PORT STATISTICS|Port statistics|CLIENTS", timeout=60)
    clients: list[Screen] = []
    for number in range(2):
        clients.append(beside.run_secondary(client, ["-n", str(number)]))
        clients[-1].wait_for("Client process .* handling packets", timeout=60)
    expect_all(beside, spread(100))
