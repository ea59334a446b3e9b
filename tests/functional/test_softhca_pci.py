# SPDX-License-Identifier: BSD-3-Clause
"""softhca-pci's command line, and the socket files that it makes."""

import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Sequence

import pytest
from rig.program import NO_THREADS, Program
from rig.stack import Build


def pci_program(build: Build) -> str:
    return str(build.folder / "app/softhca/pci/softhca-pci")


def run(
    build: Build, folder: Path, *arguments: str, prefix: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*prefix, pci_program(build), *arguments], env=build.env(folder / "sanitizer"),
                          capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize("option, taken", [("vfio-user", "nic"), ("vfio-user", "nic.new"), ("control", "nic")])
@pytest.mark.parametrize("link", [False, True], ids=["file", "link"])
def test_only_a_socket_is_replaced(build: Build, tmp_path: Path, option: str, taken: str, link: bool) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    at = tmp_path / taken
    at.symlink_to(precious) if link else precious.rename(at)
    arguments = [f"--{option}={tmp_path / 'nic'}", f"--vfio-user={tmp_path / 'other'}"]
    refused = run(build, tmp_path, *arguments[:1 if option == "vfio-user" else 2])
    assert refused.returncode == 1
    assert refused.stderr == (f"softhca-pci: {at}: cannot make a socket there (File exists): nothing but a socket may "
                              "be at the path; use another path, or remove what is there\n")
    assert at.read_text() == "precious" and at.is_symlink() == link


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_its_sockets_do_not_outlive_it(build: Build, tmp_path: Path, number: signal.Signals) -> None:
    """Those of an earlier process, which was killed, are replaced."""
    control, nic = tmp_path / "control", tmp_path / "nic"
    for path in control, nic:
        with socket.socket(socket.AF_UNIX) as earlier:
            earlier.bind(str(path))
    olds = [path.with_suffix(".old") for path in (control, nic)]
    for path, old in zip((control, nic), olds):
        old.hardlink_to(path)
    device = Program([pci_program(build), f"--control={control}", f"--vfio-user={nic}"], tmp_path / "device.log",
                     build.env(tmp_path / "sanitizer"), name="softhca-pci")
    with closing(device):
        deadline = time.monotonic() + 20
        while not all(path.is_socket() and not path.samefile(old) for path, old in zip((control, nic), olds)):
            assert device.running() and time.monotonic() < deadline, device.output
            time.sleep(0.01)
        device.signal(number)
        assert device.wait() == -number
    assert not control.exists() and not nic.exists()


@pytest.mark.parametrize("arguments, said", [
    (["--fd=1"], "--fd requires --qtest"),
    (["--port=wire=loop", "--port=wire=loop", "--vfio-user=nic"], "--port"),
    (["--bogus"], "--bogus"),
    ([], "say how QEMU connects"),
])
def test_a_wrong_command_line(build: Build, tmp_path: Path, arguments: list[str], said: str) -> None:
    refused = run(build, tmp_path, *arguments)
    assert refused.returncode == 2
    assert refused.stderr.startswith("softhca-pci: ") and said in refused.stderr
    assert refused.stderr.count("\n") == 1 and not refused.stdout


@pytest.mark.unsanitized  # sanitizers read the limit as well
def test_no_thread_can_serve_the_device(build: Build, tmp_path: Path) -> None:
    refused = run(build, tmp_path, "--port=wire=loop", f"--vfio-user={tmp_path / 'nic'}", prefix=NO_THREADS)
    assert refused.returncode == 1
    assert refused.stderr.startswith("softhca-pci: cannot start a device thread") and "ulimit -u" in refused.stderr
    assert not (tmp_path / "nic").exists()
