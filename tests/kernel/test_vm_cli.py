# SPDX-License-Identifier: BSD-3-Clause
"""`softhca vm` as users run it: each test boots its own guest."""

import os
import pty
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable

import pytest
from rig.packets import marker
from rig.stack import Build
from rig.wire import SocketWire

BOOT_S = 400  # generous, as CI machines are busy


@pytest.fixture(autouse=True)
def _quiet_kernel() -> None:
    """These guests are not the shared one."""


def vm(build: Build, *arguments: str, stdin: bytes = b"",
       cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([build.softhca, "vm", *arguments], input=stdin, capture_output=True,
                          timeout=BOOT_S, cwd=cwd, check=False)


def test_help_needs_no_guest(build: Build) -> None:
    done = vm(build, "--help")
    assert done.returncode == 0
    for word in (b"--port", b"--timeout", b"--memory", b"Examples:", b"modprobe mlx5_ib"):
        assert word in done.stdout


@pytest.mark.parametrize("wrong", [["--timeout", "x"], ["--memory", "much"], ["--no-such"],
                                   ["--share", "/no/such/folder"], ["--cpus", "0"]])
def test_a_wrong_command_line(build: Build, wrong: list[str]) -> None:
    done = vm(build, *wrong, "--", "true")
    assert done.returncode == 2 and done.stdout == b"" and b"usage:" in done.stderr


def test_a_wrong_port_says_which(build: Build, new_folder: Callable[[], Path]) -> None:
    """Before a kernel is fetched."""
    done = vm(build, "--cache", str(new_folder()), "--port", "wire=nowhere", "--", "true")
    assert done.returncode == 125 and b"nowhere" in done.stderr and b"getting" not in done.stderr


@pytest.mark.parametrize("option", ["--log", "--cache"])
def test_a_folder_that_cannot_be(build: Build, option: str) -> None:
    done = vm(build, option, "/dev/null/x", "--", "true")
    assert done.returncode == 125
    assert done.stderr.splitlines()[-1] == (
        b"softhca vm: /dev/null/x: Not a directory; --log and --cache name folders that you may write to")


def test_a_folder_with_too_long_a_path(build: Build, tmp_path: Path) -> None:
    """Too long for its sockets, but not for a folder."""
    done = vm(build, "--log", str(tmp_path / ("x" * 100)), "--", "true")
    assert done.returncode == 125 and b"too long for the sockets there; --log" in done.stderr


def test_a_fault_cannot_be_and_what_can(build: Build) -> None:
    done = vm(build, "--port", "fault=reg_mr:ENOMEM:1", "--", "true")
    assert done.returncode == 125
    assert b"fault=reg_mr:ENOMEM:1" in done.stderr and b'"inject" on the control socket' in done.stderr


def test_a_pair_cannot_be_and_what_can(build: Build) -> None:
    done = vm(build, *["--port", "wire=pair:a"] * 2, "--", "true")
    assert done.returncode == 125 and b"pair:a" in done.stderr and b"link:a" in done.stderr


QEMU = """\
#!/bin/sh
echo "$@" >> {log}
[ "$2" != vfio-user-pci,help ] || {answer}
"""


@pytest.mark.parametrize("answer,transport", [
    ("echo '  socket=<SocketAddress>'", '{"driver": "vfio-user-pci"'),
    ("echo 'no such device' >&2", '{"driver": "x-pci-proxy-dev"')])
def test_the_transport_is_what_qemu_offers(build: Build, new_folder: Callable[[], Path],
                                           answer: str, transport: str) -> None:
    """Debian 12 has no QEMU with vfio-user-pci, so a fake one is used here."""
    folder = new_folder()
    qemu, log = folder / "qemu-system-x86_64", folder / "log"
    qemu.write_text(QEMU.format(log=log, answer=answer))
    qemu.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run([build.softhca, "vm", "--", "true"], capture_output=True, timeout=BOOT_S,
                          env={**os.environ, "PATH": path}, check=False)
    assert done.returncode == 125
    asked, started = log.read_text().splitlines()
    assert transport in started and ("-qtest" in started) == ("proxy" in transport)


SLOW_QEMU = """\
#!/bin/sh
[ "$2" = vfio-user-pci,help ] || exec sleep 1000
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_when_it_is_ended_while_booting(build: Build, new_folder: Callable[[], Path],
                                                        number: signal.Signals) -> None:
    folder, logs = new_folder(), new_folder()
    qemu = folder / "qemu-system-x86_64"
    qemu.write_text(SLOW_QEMU)
    qemu.chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(logs)}
    process = subprocess.Popen([build.softhca, "vm", "--", "true"], env=env)
    try:
        deadline = time.monotonic() + 60
        while not list(logs.glob("softhca-vm-*/qemu.log")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    finally:
        process.kill()
        process.wait()
    assert list(logs.iterdir()) == []


def test_a_command_with_all_that_belongs_to_it(build: Build, work: Path) -> None:
    """Folder, input, output, errors, exit status, a NIC, a writable folder; nothing is left behind."""
    share = work / "sha,re"
    share.mkdir()
    script = ("pwd; cat; echo wrong >&2; modprobe mlx5_ib && ibv_devinfo | grep -c hca_id;"
              f" id -u > {share}/out; exit 42")
    done = vm(build, "--share", str(share), "--port", "wire=loop", "--port", "wire=sink", "--",
              "sh", "-c", script, stdin=b"in\0put\n", cwd=work)
    assert done.stdout == f"{work}\n".encode() + b"in\0put\n2\n"
    assert (done.stderr, done.returncode) == (b"wrong\n", 42)
    assert (share / "out").read_text() == "0\n"


def test_a_command_that_is_not_there(build: Build) -> None:
    """With the usual cache, by its name in this folder."""
    done = vm(build, "--no-port", "--cache", "guest", "--", "/no/such/program", cwd=build.folder)
    assert done.returncode == 127 and b"/no/such/program" in done.stderr


def test_the_time_limit_and_the_logs(build: Build, work: Path) -> None:
    logs = work / "logs, all"
    done = vm(build, "--no-port", "--timeout", "15", "--log", str(logs), "--", "sleep", "1000")
    assert done.returncode == 124 and b"--timeout" in done.stderr
    assert "Linux version" not in done.stderr.decode()
    assert (logs / "console.log").stat().st_size > 0


class Terminal:
    """`softhca vm` on one of its own."""

    def __init__(self, build: Build, *arguments: str) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execv(build.softhca, [str(build.softhca), "vm", *arguments])
        self._shown = b""
        self._deadline = time.monotonic() + BOOT_S

    def __enter__(self) -> "Terminal":
        return self

    def read_until(self, text: bytes) -> None:
        while text not in self._shown:
            assert time.monotonic() < self._deadline, self._shown
            try:
                self._shown += os.read(self._terminal, 4096)
            except OSError:
                raise AssertionError(f"ended before {text!r}: {self._shown!r}") from None

    def write(self, text: bytes) -> None:
        os.write(self._terminal, text)

    def wait(self) -> int:
        with suppress(OSError):
            while os.read(self._terminal, 4096):
                pass
        pid, self._pid = self._pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def __exit__(self, *_: object) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._terminal)


def test_a_shell_on_the_console(build: Build) -> None:
    """Typed on a terminal, run as root by a shell with job control, left by `exit`."""
    with Terminal(build, "--no-port") as terminal:
        terminal.read_until(b"guest:")
        terminal.write(b"echo $((6*7))-$(id -un)-$(uname -n)\n")
        terminal.read_until(b"42-root-softhca-vm")
        terminal.write(b"exit 3\n")
        assert terminal.wait() == 3


def test_ctrl_c_is_not_for_qemu(build: Build, new_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the command's, which may handle it. QEMU would end."""
    folder = new_folder()
    qemu, ready, log = folder / "qemu-system-x86_64", folder / "ready", folder / "log"
    qemu.write_text(f"""#!/bin/sh
[ "$2" != vfio-user-pci,help ] || exit
trap 'echo interrupted >> {log}' INT
trap exit TERM
touch {ready}
while :; do sleep 0.1; done
""")
    qemu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    with Terminal(build, "--", "true") as terminal:
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        terminal.write(b"\x03")
        assert terminal.wait() == 128 + signal.SIGINT, "there is no command yet"
    assert not log.exists()


def descendants(pid: int) -> list[int]:
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text().split()]
    return children + [grandchild for child in children for grandchild in descendants(child)]


def test_nothing_outlives_a_killed_launcher(build: Build, new_folder: Callable[[], Path]) -> None:
    """kill -9 on `softhca vm` takes QEMU and the device along."""
    wire = SocketWire(new_folder() / "wire", patience=4)
    script = "modprobe mlx5_ib; ip link set eth0 up; echo ready; sleep 1000"
    command = [str(build.softhca), "vm", "--port", f"wire={wire.spec}", "--", "sh", "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE,  # its logs stay, where fixtures clean up
                               env={**os.environ, "TMPDIR": str(new_folder())})
    try:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        wire.send(marker())
        started = [Path(f"/proc/{pid}") for pid in descendants(process.pid)]
        names = {(path / "comm").read_text().strip() for path in started}
        assert {"timeout", "qemu-system-x86", "softhca-pci"} <= names
    finally:
        process.kill()
        process.wait()
        wire.close()
    deadline = time.monotonic() + 20
    while alive := [path for path in started if path.exists()]:
        assert time.monotonic() < deadline, [(path / "cmdline").read_text() for path in alive]
        time.sleep(0.1)  # there is no event for the end of other processes' children
