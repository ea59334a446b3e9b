# SPDX-License-Identifier: BSD-3-Clause
"""`softhca dump`, `trace` and `capture` on a testpmd with rules, and on its packets."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Iterator

import pytest
from rig.launched import devices_of, program_under
from rig.packets import numbered, udp4
from rig.program import Program
from rig.stack import Build, PortSpec, Stack
from rig.wire import SocketWire, padded, to_bytes
from scapy.utils import RawPcapNgReader

from functional.conftest import OpenStack

DESCRIPTORS = 64
FLAGS, QUEUE = 2, 6  # options of a packet in a pcapng file
INBOUND, OUTBOUND = 1, 2


@pytest.fixture(scope="module")
def stack(open_stack: OpenStack) -> Iterator[Stack]:
    """A port that drops packets without descriptors, two queues, and a rule for UDP port 53."""
    arguments = ["--rxq=2", "--txq=2", f"--rxd={DESCRIPTORS}", "--rss-udp"]
    with open_stack([PortSpec()], testpmd_args=arguments) as stack:
        stack.testpmd.create_flow(
            0, "ingress pattern eth / ipv4 / udp dst is 53 / end actions queue index 1 / end")
        yield stack


class Looking:
    """A running `softhca trace` or `capture`."""

    def __init__(self, build: Build, env: dict[str, str], log: Path, *arguments: str) -> None:
        self.program = Program([str(build.softhca), *arguments], log, env, name="look")
        self.program.wait_for("(tracing|capturing) ")

    def end(self) -> str:
        """Ends it; returns its output."""
        assert self.program.wait() == 0, self.program.output
        return self.program.output


@contextmanager
def looking(stack: Stack, log: Path, *arguments: str) -> Iterator[Looking]:
    looking = Looking(stack.build, stack.env, log, *arguments)
    try:
        yield looking
    finally:
        looking.program.close()


def traced(stack: Stack, folder: Path, frame: bytes) -> str:
    """The output of `softhca trace` for this received frame."""
    with looking(stack, folder / "trace.log", "trace", "mlx5_0", "--count", "1") as trace:
        stack.wires[0].send(frame)
        return trace.end()


def rows(stack: Stack, kind: str) -> list[dict[str, Any]]:
    result = stack.run_tool("dump", "--json")
    assert result.returncode == 0, result.stderr
    (instance,) = json.loads(result.stdout)["instances"]
    (device,) = instance["devices"]
    return list(device[kind])


def rule_of_port_53(stack: Stack) -> dict[str, Any]:
    (rule,) = [rule for rule in rows(stack, "rules") if rule["match"].get("dst_port") == "53"]
    return rule


def queues_of(stack: Stack, rule: dict[str, Any]) -> list[int]:
    (tir,) = [tir for tir in rows(stack, "tirs") if tir["number"] in rule["to_tirs"]]
    tables = [table for table in rows(stack, "rqts") if table["number"] == tir["rqt"]]
    return tables[0]["rqs"] if tables else [tir["rq"]]


def test_dump_leads_from_a_rule_to_its_queue(stack: Stack) -> None:
    rule = rule_of_port_53(stack)
    (number,) = set(queues_of(stack, rule))
    (queue,) = [rq for rq in rows(stack, "rqs") if rq["number"] == number]
    assert queue["state"] == "ready"
    assert queue["cq"] in [cq["number"] for cq in rows(stack, "cqs")]
    posted = [wqe for wqe in rows(stack, "posted") if wqe["queue"] == number]
    assert posted and all(wqe["will_fail"] is None for wqe in posted)
    lkey = posted[0]["memory"][0].partition(":")[0]
    assert lkey in [key["lkey"] for key in rows(stack, "mkeys")]


def test_dump_for_people(stack: Stack) -> None:
    text = stack.run_tool("dump").stdout
    assert re.search(r"testpmd \(process \d+\)", text)
    assert re.search(rf"^ +{rule_of_port_53(stack)['number']} .*dst_port=53", text, re.MULTILINE)
    assert "posted" in text


def test_commands_for_one_program(stack: Stack) -> None:
    """`softhca stat`, `link` and `fault`; the rig asks devices itself."""
    process = f"--pid={program_under(stack.program)}"
    (device,) = devices_of(json.loads(stack.run_tool("stat", "--json", process).stdout)).values()
    assert device.keys() == stack.stat()["mlx5_0"].keys()
    for state, shown in ("down", "no"), ("up", "yes"):
        assert stack.run_tool("link", "mlx5_0", state, process).returncode == 0
        assert f"mlx5_0  link_up {shown}" in stack.run_tool("stat", process).stdout
    assert stack.run_tool("fault", "mlx5_0", "reg_mr:ENOMEM", process).returncode == 0
    assert stack.run_tool("fault", "mlx5_0", "none", process).stdout == "ended: reg_mr:ENOMEM\n"


def test_a_packet_that_matches(stack: Stack, tmp_path: Path) -> None:
    stack.testpmd.start("rxonly")
    told = traced(stack, tmp_path, to_bytes(udp4(dport=53)))
    stack.testpmd.stop()
    rule = rule_of_port_53(stack)
    (queue,) = set(queues_of(stack, rule))
    assert re.search(r"wire +\d+ bytes: .*ip_proto=17 .*dst_port=53", told)
    assert re.search(rf"rules +bypass, priority \d+: rule {rule['number']} matches: .*dst_port=53",
                     told)
    assert re.search(rf"TIR +{rule['to_tirs'][0]} .*: RQ {queue}\b", told)
    assert re.search(rf"RQ +{queue}: \d+ bytes into WQE \d+; CQE in CQ \d+", told)
    assert re.search(rf"verdict +delivered to RQ {queue}\b", told)


def test_a_packet_that_misses_by_one_bit(stack: Stack, tmp_path: Path) -> None:
    stack.testpmd.start("rxonly")
    told = traced(stack, tmp_path, to_bytes(udp4(dport=52)))
    stack.testpmd.stop()
    assert re.search(rf"rule {rule_of_port_53(stack)['number']}\b.*: dst_port is 52, not 53", told)
    assert re.search(r"TIR +\d+ hash of source IP, destination IP, .*: 0x[0-9a-f]+; entry \d+ of "
                     r"\d+ in RQT \d+: RQ \d+", told)
    assert "verdict   delivered to RQ" in told


def test_a_packet_for_which_there_is_no_descriptor(stack: Stack, tmp_path: Path) -> None:
    """testpmd does not poll: its posted descriptors are soon used up."""
    frame = to_bytes(udp4(dport=53))
    for _ in range(2 * DESCRIPTORS):
        stack.wires[0].send(frame)
    stack.wait_counter(0, "drop_out_of_buffer", 1)
    told = traced(stack, tmp_path, frame)
    (queue,) = set(queues_of(stack, rule_of_port_53(stack)))
    assert re.search(rf"RQ +{queue} has no WQE", told)
    assert re.search(r"verdict +drop_out_of_buffer", told)
    stack.testpmd.start("rxonly")  # empties the queue
    stack.testpmd.stop()


def test_a_packet_that_is_sent(stack: Stack, tmp_path: Path) -> None:
    frame = padded(udp4(dport=53))
    stack.testpmd.start("io")  # back to the port of arrival
    with looking(stack, tmp_path / "log", "trace", "--json", "--count", "2") as trace:
        stack.wires[0].send(frame)
        told = trace.end()
    stack.testpmd.stop()
    packets = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    came, sent = packets
    assert [came["direction"], sent["direction"]] == ["received", "sent"]
    assert came["frame"] == sent["frame"] == frame.hex()
    assert came["time"] <= sent["time"]
    ways = {step["where"]: step["text"] for step in sent["steps"]}
    assert re.fullmatch(rf"WQE \d+ of SQ {sent['queue']} asks for .*", ways["SQ"])
    assert ways["wire"] == "leaves" and "CQ" in ways
    assert sent["verdict"] == "sent"
    assert sent["queue"] in [sq["number"] for sq in rows(stack, "sqs")]


class Reader(RawPcapNgReader):  # type: ignore[misc]
    """Keeps the options of packets: Scapy 2.5 returns only comments."""

    options: dict[int, bytes] = {}

    def _read_options(self, options: bytes) -> Any:
        self.options = {}
        at = 0
        while at + 4 <= len(options):
            code, length = struct.unpack_from(self.endian + "HH", options, at)
            if code == 0:
                break
            self.options[code] = options[at + 4:at + 4 + length]
            at += 4 + (length + 3) // 4 * 4
        return super()._read_options(options)


def read_capture(file: Path) -> list[tuple[bytes, Any, dict[int, bytes]]]:
    """For each packet: its bytes, Scapy's metadata, its options."""
    reader = Reader(str(file))
    return [(data, metadata, dict(reader.options)) for data, metadata in reader]


def test_capture_is_read_by_scapy(stack: Stack, tmp_path: Path) -> None:
    """Both directions, with queue and outcome; an interrupt leaves a complete file."""
    frame = padded(udp4(dport=53))
    (queue,) = set(queues_of(stack, rule_of_port_53(stack)))
    stack.testpmd.start("io")
    file = tmp_path / "packets.pcapng"
    with looking(stack, tmp_path / "log", "capture", "mlx5_0", str(file)) as capture:
        stack.wires[0].send(frame)
        deadline = time.monotonic() + 20
        while len(read_capture(file)) < 2:  # each packet is written immediately
            assert time.monotonic() < deadline, capture.program.output
            time.sleep(0.01)
        capture.program.signal(signal.SIGINT)
        assert "2 packets captured, 0 lost" in capture.end()
    stack.testpmd.stop()
    found = read_capture(file)
    (came, of_came, came_options), (sent, of_sent, sent_options) = found
    assert came == sent == frame
    assert of_came.linktype == 1 and of_came.tsresol == 10**9
    assert re.fullmatch(rf"delivered to RQ {queue} \(WQE \d+\)", of_came.comment.decode().strip())
    assert of_sent.comment.strip() == b"sent"
    assert struct.unpack("<I", came_options[FLAGS]) == (INBOUND,)
    assert struct.unpack("<I", sent_options[FLAGS]) == (OUTBOUND,)
    assert struct.unpack("<I", came_options[QUEUE]) == (queue,)
    (send_queue,) = struct.unpack("<I", sent_options[QUEUE])
    assert send_queue in [sq["number"] for sq in rows(stack, "sqs")]


def test_a_capture_tells_of_what_it_lost(stack: Stack, tmp_path: Path) -> None:
    """It is stopped while more packets pass than can be queued for it."""
    packets = 5000
    file = tmp_path / "packets.pcapng"
    before = stack.counters(0)["wire_rx_packets"]
    with looking(stack, tmp_path / "log", "capture", "mlx5_0", str(file)) as capture:
        capture.program.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, capture.program.pid, os.WSTOPPED)
        stack.wires[0].send_all(list(numbered(packets)))
        stack.wait_counter(0, "wire_rx_packets", before + packets)
        for each in signal.SIGCONT, signal.SIGINT:
            capture.program.signal(each)
        said = re.search(r"(\d+) packets captured, (\d+) lost", capture.end())
    assert said is not None
    kept, lost = map(int, said.groups())
    assert lost > 0 and kept + lost == packets
    # The statistics at the end of the file, seen and dropped, each after the header of its option.
    assert struct.unpack("<Q4xQ", file.read_bytes()[-28:-8]) == (packets, lost)


def answer(listener: socket.socket, replies: Iterator[dict[str, Any]]) -> None:
    """Takes the control server's part in one connection: a reply to each request, until it ends."""
    connection, _ = listener.accept()
    with connection, connection.makefile() as requests:
        for _ in requests:
            connection.sendall(json.dumps(next(replies)).encode() + b"\n")


def test_an_interrupt_leaves_nothing_that_was_kept(build: Build, tmp_path: Path) -> None:
    """After an empty answer as much comes as a program keeps, then the interrupt, and more packets follow."""
    packet = {"direction": "received", "queue": 1, "frame": "00" * 60}
    kept, answered = 4096, 256
    path = tmp_path / "control"
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as started:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(20)
        command = [str(build.softhca), "capture", "mlx5_0", str(tmp_path / "file"), f"--socket={path}"]
        capture = started.enter_context(
            closing(Program(command, tmp_path / "log", build.env(tmp_path / "sanitizer"), name="capture")))

        def replies() -> Iterator[dict[str, Any]]:
            yield {"ok": True}
            capture.signal(signal.SIGINT)
            yield {"packets": []}
            yield from [{"packets": [packet] * answered}] * (2 * kept // answered)

        answer(listener, iter([{"devices": [{"device": "mlx5_0"}]}]))
        answer(listener, replies())
        assert capture.wait() == 0
    assert f"{kept} packets captured, 0 lost" in capture.output


def test_what_cannot_be_looked_at(stack: Stack, tmp_path: Path) -> None:
    unknown = stack.run_tool("trace", "mlx5_9", "--count", "1")
    assert unknown.returncode == 1 and "no running program has a device mlx5_9" in unknown.stderr
    nowhere = stack.run_tool("capture", "mlx5_0", str(tmp_path / "no/such"))
    assert nowhere.returncode == 1 and "No such file" in nowhere.stderr
    missing = stack.run_tool("dump", "--socket", str(tmp_path / "none"))
    assert missing.returncode == 1 and "cannot connect" in missing.stderr


def test_the_end_of_the_program_ends_the_looking(open_stack: OpenStack, tmp_path: Path) -> None:
    with open_stack(1) as stack:
        trace = Looking(stack.build, stack.env, tmp_path / "log", "trace")
    said = trace.end()
    assert "0 packets traced" in said and re.search(r"process \d+: ended$", said, re.MULTILINE), said


def test_a_device_that_waits_for_its_guest(build: Build, tmp_path: Path) -> None:
    """The process of a guest's NIC has the same control socket, at a given path."""
    control = tmp_path / "nic0.control"
    wire = SocketWire(tmp_path / "wire")
    command = [str(build.folder / "app/softhca/pci/softhca-pci"), f"--port=wire={wire.spec}",
               f"--control={control}", f"--vfio-user={tmp_path / 'nic.sock'}"]
    env = build.env(tmp_path / "sanitizer")
    with ExitStack() as started:
        started.callback(wire.close)
        device = Program(command, tmp_path / "device.log", env, name="softhca-pci")
        started.callback(device.close)
        wire.connected()
        deadline = time.monotonic() + 20
        while not control.exists():
            assert device.running() and time.monotonic() < deadline, device.output
            time.sleep(0.01)
        trace = Looking(build, env, tmp_path / "log", "trace", "--count=1", f"--socket={control}")
        started.callback(trace.program.close)
        wire.send(to_bytes(udp4()))
        assert re.search(r"verdict +drop_no_match", trace.end())
        dump = subprocess.run([str(build.softhca), "dump", "--json", f"--socket={control}"],
                              env={**os.environ, **env}, check=True, capture_output=True, text=True)
        assert json.loads(dump.stdout)["instances"][0]["program"] == "softhca-pci"
