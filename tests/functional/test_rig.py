# SPDX-License-Identifier: BSD-3-Clause
"""The rig itself: it is found in its place, and nothing that it starts outlives it."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from rig.packets import numbered
from rig.program import wait_for_end
from rig.screen import Screen
from rig.stack import ROOT, Build
from rig.testpmd import Testpmd, parse_received
from rig.toeplitz import flow_hash


def collected(*options: str) -> list[str]:
    """The cases of one module that pytest would run."""
    listing = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *options,
         str(Path(__file__).with_name("test_segmentation.py"))],
        check=True, capture_output=True, text=True, timeout=60).stdout
    return [line for line in listing.splitlines() if "::" in line]


def test_once_leaves_the_first_case_of_each_test() -> None:
    all_cases, once = collected("--front=guest"), collected("--front=guest", "--once")
    names = [case.partition("[")[0] for case in all_cases]
    assert len(once) < len(all_cases)
    assert once == [all_cases[names.index(name)] for name in dict.fromkeys(names)]


def test_scripts_and_pytest_find_the_same_packages(pytestconfig: pytest.Config) -> None:
    printed = subprocess.run(["bash", "-c", f"source {ROOT}/scripts/lib.sh; echo $PYTHONPATH"],
                             check=True, capture_output=True, text=True).stdout
    folders = [folder.resolve() for folder in pytestconfig.getini("pythonpath")]
    assert printed.strip().split(":") == list(map(str, folders))


HOLDER = """
import json, sys
from pathlib import Path
from rig.stack import Build, PortSpec, Stack
stack = Stack(Build.from_environment(), Path(sys.argv[1]), [PortSpec()])
children = Path(f"/proc/{stack.program.pid}/task/{stack.program.pid}/children").read_text().split()
print(json.dumps([stack.program.pid, *map(int, children)]), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_survives_the_end_of_the_test_program(
    build: Build, tmp_path: Path, how: signal.Signals
) -> None:
    """Even if it is killed: softhca and testpmd end, and the run-time folder is removed."""
    folder = tmp_path / "s"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    pids = json.loads(holder.stdout.readline())
    assert len(pids) == 2  # softhca and testpmd
    pid_fds = [os.pidfd_open(pid) for pid in pids]
    holder.send_signal(how)
    holder.wait(10)
    wait_for_end(pid_fds)
    assert list((folder / "run").glob("softhca*")) == []


RUNNER = """
import run
run.run_bounded(["sh", "-c", "echo $$; exec sleep 1000"], {}, 1000)
"""


@pytest.mark.parametrize("how", [signal.SIGHUP, signal.SIGKILL])
def test_a_suite_ends_with_its_runner(how: signal.Signals) -> None:
    """Its programs then end with it."""
    runner = subprocess.Popen([sys.executable, "-c", RUNNER], stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    suite = os.pidfd_open(int(runner.stdout.readline()))
    runner.send_signal(how)
    runner.wait(10)
    wait_for_end([suite])


BORROWER = """
import sys
from pathlib import Path
from rig import hugepages
hugepages.NR_HUGEPAGES = Path(sys.argv[1])
with hugepages.lent(int(sys.argv[2])):
    print("lent", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("first_ends", ["in good order", "killed"])
def test_hugepages_are_lent_to_several_at_once(tmp_path: Path, first_ends: str) -> None:
    """Returning one's own does not affect those of others; the kernel's count is a plain file here."""
    count = tmp_path / "nr_hugepages"
    count.write_text("5\n")
    with ExitStack() as ends:
        borrowers = [ends.enter_context(subprocess.Popen(
            [sys.executable, "-c", BORROWER, count, str(pages)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)) for pages in (10, 100, 1000)]
        for borrower in borrowers:
            assert borrower.stdout and borrower.stdout.readline() == "lent\n"
        assert count.read_text() == "1115\n"
        first, *others = borrowers
        (lender,) = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
        lender_fd = os.pidfd_open(int(lender))
        if first_ends == "killed":
            first.kill()
        else:
            first.communicate("end\n")
        first.wait()
        wait_for_end([lender_fd])
        assert count.read_text() == "1105\n"
        for borrower in others:
            borrower.communicate("end\n")
        assert count.read_text() == "5\n"


def test_toeplitz_reference() -> None:
    """Microsoft's published verification suite for RSS."""
    key = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c"
                        "6a42b73bbeac01fa")
    assert flow_hash(key, "66.9.149.187", "161.142.100.80") == 0x323E8FC2
    assert flow_hash(key, "66.9.149.187", "161.142.100.80", (2794, 1766)) == 0x51CCC178
    assert flow_hash(key, "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1") == 0x2CC18CD5
    assert flow_hash(key, "3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1",
                     (2794, 1766)) == 0x40207D3D


def test_parsing_of_received_packets() -> None:
    text = """
port 0/queue 2: received 1 packets
  src=02:AA:00:00:00:01 - dst=02:00:00:00:00:01 - pool=mb_pool_0 - type=0x0800 - length=60 - \
nb_segs=1 - RSS hash=0x1f2e - RSS queue=0x2 - FDIR matched ID=0xabcd  - hw ptype: L2_ETHER \
L3_IPV4 L4_UDP  - sw ptype: L2_ETHER L3_IPV4 L4_UDP  - l2_len=14 - Receive queue=0x2
  ol_flags: RTE_MBUF_F_RX_RSS_HASH RTE_MBUF_F_RX_FDIR
"""
    packet, = parse_received(text)
    assert (packet.port, packet.queue, packet.length, packet.segments) == (0, 2, 60, 1)
    assert (packet.rss_hash, packet.mark, packet.vlan_tci) == (0x1F2E, 0xABCD, None)
    assert packet.hw_ptype == ["L2_ETHER", "L3_IPV4", "L4_UDP"]
    assert packet.flags == ["RTE_MBUF_F_RX_RSS_HASH", "RTE_MBUF_F_RX_FDIR"]


class Scripted(Screen):
    """Shows a given text when a line is typed."""

    def __init__(self, log: Path, *shown: str) -> None:
        super().__init__(["scripted"], log)
        self._shown = list(shown)
        self._type(b"")

    def _type(self, data: bytes) -> None:
        self._show(self._shown.pop(0).encode())


LOG_LINE = "net_rawqp: net_rawqp1: event of mlx5_1: local work queue catastrophic error\r\n"


@pytest.mark.parametrize("logged", [LOG_LINE, "\r\nPort 1: link state change event\r\n", LOG_LINE * 2])
def test_a_log_within_a_command_and_a_prompt(tmp_path: Path, logged: str) -> None:
    """As when other threads of testpmd write while it prints a character at a time."""
    echo, answer, prompt = "show port 1", "the answer: 1\r\n", "testpmd> "
    for at in range(len(echo) + 1):
        early = at % len(prompt)
        disturbed = prompt[:early] + logged + prompt[early:]
        screen = Scripted(tmp_path / "log",
                          "Interactive-mode selected\r\n" + disturbed,
                          echo[:at] + logged + echo[at:] + "\r\n" + answer + disturbed,
                          echo + "\r\n" + answer + prompt)
        testpmd = Testpmd(screen)
        assert testpmd.startup.startswith("Interactive-mode selected\n")
        for _ in range(2):
            assert testpmd.command(echo, timeout=1).startswith("the answer: 1\n")


def test_a_character_within_an_event(tmp_path: Path) -> None:
    """testpmd writes the end of line with which an event begins apart from the rest."""
    def disturbed(typed: str, at: int) -> str:
        return f"{typed[:at]}\r\n{typed[at]}Port 1: link state change event\r\n{typed[at + 1:]}"

    echo, answer, prompt = "show port 1", "the answer: 1\r\n", "testpmd> "
    for at in range(len(echo)):
        disturbed_prompt = disturbed(prompt, at % len(prompt))
        screen = Scripted(tmp_path / "log", "Interactive-mode selected\r\n" + prompt,
                          disturbed(echo, at) + "\r\n" + answer + disturbed_prompt,
                          echo + "\r\n" + answer + prompt)
        testpmd = Testpmd(screen)
        for _ in range(2):
            assert testpmd.command(echo, timeout=1).startswith("the answer: 1\n")


def test_numbered_frames_differ() -> None:
    frames = list(numbered(300))
    assert len(set(frames)) == 300 and {len(frame) for frame in frames} == {60}
