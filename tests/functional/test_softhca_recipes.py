# SPDX-License-Identifier: BSD-3-Clause
"""The recipes of softhca's manual work as written. (The one for sanitizers is in test_sanitizers.py.)"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Callable, Iterator

import pytest
from rig.guide import MANUAL, commands, manual_recipe, recipe
from rig.packets import numbered
from rig.program import Program
from rig.stack import DRIVER, ROOT, Build
from rig.testpmd import Testpmd
from scapy.utils import RawPcapReader, wrpcap

pytestmark = pytest.mark.unsanitized  # programs that are not ours run under softhca

# The project's own program, which sends to itself; with an argument it misbehaves.
MY_PROGRAM = Path(__file__).parent / "sanitized/traffic.cpp"
CI_JOB = "A CI job for your own program"
LIBVMA = os.environ.get("RAWQP_LIBVMA")  # no Debian release has it


class Workshop:
    """A working folder, on a machine where softhca and the driver are installed."""

    def __init__(self, build: Build, folder: Path) -> None:
        self.folder = folder
        tools = folder / "bin"
        tools.mkdir()
        (tools / "softhca").symlink_to(build.softhca)
        # An installed driver is loaded without being named.
        stock = shutil.which("dpdk-testpmd")
        (tools / "dpdk-testpmd").write_text(f'#!/bin/sh\nexec {stock} -d {DRIVER} "$@"\n')
        (tools / "dpdk-testpmd").chmod(0o755)
        runtime = folder / "run"
        runtime.mkdir(mode=0o700)
        self.env = {**build.env(folder / "sanitizer"), "XDG_RUNTIME_DIR": str(runtime),
                    "PATH": f"{tools}:{os.environ['PATH']}"}
        self.started: list[Program] = []

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-c", f"exec {line}"], cwd=self.folder, text=True, timeout=120,
                              env={**os.environ, **self.env}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    def start(self, line: str, folder: Path | None = None) -> Program:
        script = f"cd {folder or self.folder} && exec {line}"
        log = self.folder / f"{len(self.started)}.log"
        self.started.append(Program(["sh", "-c", script], log, self.env, name=line.split()[0]))
        return self.started[-1]


@pytest.fixture
def workshop(build: Build, new_folder: Callable[[], Path]) -> Iterator[Workshop]:
    one = Workshop(build, new_folder())
    yield one
    for program in one.started:
        program.close()


def test_ci_job(workshop: Workshop) -> None:
    """Each line of its script succeeds, and a line whose program fails does not."""
    (workshop.folder / "Makefile").write_text(
        f"my-program:\n\tg++ -std=c++20 {MY_PROGRAM} -o $@ -libverbs -pthread\n")
    (workshop.folder / "test_forwarding.py").write_text(manual_recipe(CI_JOB, "import"))
    script = re.findall(r"(?m)^ +- (.*)$", manual_recipe(CI_JOB))
    for line in script:
        done = workshop.run(line)
        assert done.returncode == 0, f"{line}: {done.stdout}"
    in_the_loop, forwarding = script[1:]
    shutil.copy(shutil.which("false") or "", workshop.folder / "my-program")
    assert workshop.run(in_the_loop).returncode == 1
    test = workshop.folder / "test_forwarding.py"
    test.write_text(test.read_text().replace("send(FRAME)", "send(FRAME[::-1])"))
    assert workshop.run(forwarding).returncode


def test_perftest(workshop: Workshop) -> None:
    cable = f"link:t{uuid.uuid4().hex[:12]}"  # the name must be unique on this machine
    ends = []
    for line in commands(manual_recipe("perftest between two processes")):
        ends.append(workshop.start(line.replace("link:x", cable)))
        ends[-1].wait_for("#bytes", timeout=60)
    for end in ends:
        assert end.wait(60) == 0, end.output
        assert re.search(r"(?m)^ *1024 +1000 +[\d.]+ ", end.output)


def test_net_mlx5(workshop: Workshop) -> None:
    program, *typed = commands(manual_recipe("net_mlx5, DPDK's own driver"))
    testpmd = Testpmd(workshop.start(program))
    assert testpmd.info(0)["Driver name"] == "mlx5_pci"
    for line in typed:
        said = testpmd.command(line.removeprefix("testpmd> "))
    deadline = time.monotonic() + 20
    while not all(map(int, re.findall(r"RX-packets: (\d+)", said))):  # repeats the last command, which shows them
        assert time.monotonic() < deadline, said
        said = testpmd.command(typed[-1].removeprefix("testpmd> "))
    assert testpmd.quit() == 0


def test_vdpa(workshop: Workshop) -> None:
    section = "vdpa_mlx5, DPDK's own vDPA driver"
    compile_line, example = commands(manual_recipe(section))
    assert workshop.run(compile_line).returncode == 0
    guest, *typed = commands(manual_recipe(section, "dpdk-testpmd"))
    workshop.start(example).wait_for("enter 'q' to quit", timeout=40)
    testpmd = Testpmd(workshop.start(guest))
    for line in typed:
        said = testpmd.command(line.removeprefix("testpmd> "))
    deadline = time.monotonic() + 20
    while not int(re.findall(r"RX-packets: (\d+)", said)[0]):
        assert time.monotonic() < deadline, said
        said = testpmd.command(typed[-1].removeprefix("testpmd> "))
    assert testpmd.quit() == 0


if LIBVMA:

    def test_libvma(workshop: Workshop) -> None:
        """The kernel's interface of the port sees the handshake at most; what follows goes past it."""
        section = "libvma: sockets past the kernel"
        workshop.env["LD_LIBRARY_PATH"] = str(Path(str(LIBVMA)).parent)
        # `ip netns` keeps its names in /run. A new namespace has an interface lo that is down.
        own = "mount -t tmpfs none /run\nmount -t sysfs none /sys\nip link set lo up\n"
        (workshop.folder / "server").write_text(own + "exec " + manual_recipe(section))
        (workshop.folder / "client").write_text(manual_recipe(section, "ip netns"))
        server = workshop.start("unshare --net --mount sh -e server")
        server.wait_for("Server listening", timeout=60)
        inside = f"nsenter --target={server.pid} --net --mount"
        client = workshop.run(f"{inside} sh -e {workshop.folder}/client")
        assert client.returncode == 0, client.stdout + server.output
        received = re.search(r"([\d.]+) ([MG])Bytes .* receiver", client.stdout)
        assert received, client.stdout
        interface, = json.loads(workshop.run(f"{inside} ip -json -statistics link show vma0").stdout)
        megabytes = float(received[1]) * (1024 if received[2] == "G" else 1)
        assert interface["stats64"]["rx"]["bytes"] < megabytes * 1e4, (interface, client.stdout)  # less than 1 %


def test_capture_file(workshop: Workshop) -> None:
    """So many frames that the program finds its Rx queue full now and then, and must send all of that."""
    frames = list(numbered(30_000))
    wrpcap(str(workshop.folder / "in.pcap"), frames, linktype=1)
    line, = commands(manual_recipe("A capture file through a forwarding program"))
    program = workshop.start(line)
    forwarded = workshop.folder / "out.pcap"
    program.wait_for("Press enter", timeout=60)
    deadline = time.monotonic() + 60
    while not forwarded.exists() or forwarded.stat().st_size < (workshop.folder / "in.pcap").stat().st_size:
        assert time.monotonic() < deadline, program.output
        time.sleep(0.02)
    program.send_line("")
    assert program.wait(30) == 0
    assert [frame for frame, _ in RawPcapReader(str(forwarded))] == frames


def test_receive_rate(workshop: Workshop) -> None:
    line, = commands(manual_recipe("How fast does a program receive?"))
    program = workshop.start(line)
    program.wait_for(r"Rx-pps: +[1-9]\d", timeout=60)
    program.signal(signal.SIGINT)
    program.wait(30)


def test_the_guides_way_to_try_it(workshop: Workshop) -> None:
    """From the checkout, with nothing installed."""
    line, = commands(recipe("Trying it without a NIC"))
    testpmd = Testpmd(workshop.start(line, ROOT))
    assert testpmd.info(0)["Driver name"] == "net_rawqp"
    assert testpmd.quit() == 0


def test_no_recipe_is_left_out() -> None:
    below = MANUAL.read_text().partition("\n## Recipes\n")[2].partition("\n## ")[0]
    recipes = re.findall(r"(?m)^### (.*)$", below)
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert recipes and [title for title in recipes if f'"{title}"' not in tests] == []
