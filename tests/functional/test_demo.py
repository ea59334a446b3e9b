# SPDX-License-Identifier: BSD-3-Clause
"""scripts/demo: its verdict, and that it leaves nothing behind."""

import argparse
import json
import os
import signal
import subprocess
import uuid
from pathlib import Path

import pytest
from demo_lib import demo, namespaces
from rig.fixtures import FAILED_PREFIX, WORK_PREFIX
from rig.program import Program, wait_for_end
from rig.stack import OWN_NETWORK, Build

pytestmark = pytest.mark.unsanitized
DEMO = ["/usr/bin/python3", "-P", "-m", "demo_lib.demo"]
MARK = "RAWQP_DEMO_MARK"


@pytest.fixture(autouse=True)
def buffered_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers output as for a user's pipe or file, which the verdict must reach nevertheless."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


def demo_command(build: Build, *options: str) -> list[str]:
    """What scripts/demo runs after scripts/setup."""
    return [*DEMO, f"--build={build.folder}", *options]


@pytest.mark.parametrize("ring_format", ["mlx5", "verbs"])
def test_every_packet_is_accounted_for(build: Build, tmp_path: Path, ring_format: str) -> None:
    out = tmp_path / "out.json"
    result = subprocess.run(
        demo_command(build, "--seconds=4", f"--json={out}", f"--datapath={ring_format}"),
        capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "demo passed" in result.stdout.splitlines()[-1]
    verdict = json.loads(out.read_text())
    assert verdict["unaccounted"] == 0
    assert verdict["offered"] == verdict["delivered"] + sum(verdict["dropped"].values())
    assert verdict["offered"] > 10_000
    assert verdict["tcp_gbps"] > 0 and verdict["udp_pps"] > 0
    assert verdict["ping_received"] == verdict["ping_sent"]
    assert verdict["rx_burst_mode"].startswith(ring_format)


@pytest.mark.parametrize("option", ["--json", "--logs"])
def test_nothing_is_written_where_it_would_be_lost(build: Build, option: str) -> None:
    """/dev/shm is the demo's own while it runs."""
    result = subprocess.run(demo_command(build, option, "/dev/shm/rawqp-demo"),
                            capture_output=True, text=True, timeout=20)
    assert result.returncode == 2
    assert f"{option}: /dev/shm is the demo's own" in result.stderr


@pytest.mark.parametrize("path, complaint", [("missing/out", "No such file or directory"),
                                             (".", "Is a directory"), ("/proc/out", "No such file or directory")])
def test_a_verdict_that_cannot_be_written(build: Build, tmp_path: Path, path: str, complaint: str) -> None:
    """Is noticed before the run."""
    result = subprocess.run(demo_command(build, f"--json={tmp_path / path}"), capture_output=True, text=True,
                            timeout=20)
    assert result.returncode == 2
    assert f"--json: cannot write {tmp_path / path}: {complaint}" in result.stderr


def test_it_runs_without_what_only_tests_need(build: Build) -> None:
    """scripts/setup --for demo installs no Scapy."""
    hidden = "import runpy, sys; sys.modules['scapy'] = None;" \
        " runpy.run_module('demo_lib.demo', run_name='__main__', alter_sys=True)"
    result = subprocess.run(["/usr/bin/python3", "-P", "-c", hidden, "--help"],
                            capture_output=True, text=True, timeout=20)
    assert result.returncode == 0, result.stderr


def marked_processes(mark: str) -> list[int]:
    """Processes with the mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:  # gone, or not ours
            pass
    return found


def shared_memory() -> set[str]:
    """Everything except the folders of tests, as another worker may be creating its own."""
    return {name for name in os.listdir("/dev/shm")
            if not name.startswith((WORK_PREFIX, FAILED_PREFIX))}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(build: Build, tmp_path: Path, how: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    interfaces = set(os.listdir("/sys/class/net"))
    memory = shared_memory()
    demo = Program(demo_command(build, "--seconds=60"), tmp_path / "demo.log", {MARK: mark})
    try:
        demo.wait_for(r"(?s)TCP.*Gbit/s", timeout=40)
        pid_fds = [os.pidfd_open(pid) for pid in marked_processes(mark)]
        assert len(pid_fds) > 5  # demo, softhca, testpmd, iperf3 …
        demo.signal(how)
        assert demo.wait(20) not in (0, 1)
        wait_for_end(pid_fds)
    finally:
        demo.close()
    assert set(os.listdir("/sys/class/net")) == interfaces
    assert shared_memory() == memory
    assert marked_processes(mark) == []


@pytest.mark.parametrize("devices", [
    ["mlx5_0,peer=peer0", "mlx5_1,peer=peer1"],
    ["mlx5_0", "mlx5_1"],  # the demo finds the interfaces itself
])
def test_devices_of_the_user(build: Build, tmp_path: Path, devices: list[str]) -> None:
    """--device, with softhca's devices as "real" ones: the demo only sees RDMA devices and the
    interfaces that they are cabled to."""
    out = tmp_path / "out.json"
    # "plain", as the counters of real interfaces count packets.
    ports = ["--port=wire=tap:peer0:plain", "--port=wire=tap:peer1:plain", "--port=wire=tap:unused"]
    options = [*(f"--device={device}" for device in devices), "--seconds=2", f"--json={out}"]
    result = subprocess.run(
        [*OWN_NETWORK, str(build.softhca), *ports, "--", *demo_command(build, *options)],
        capture_output=True, text=True, timeout=60,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(out.read_text())["unaccounted"] == 0


@pytest.mark.parametrize("options, complaint", [
    (["--seconds=1"], "at least 2"),
    (["--udp-rate=0"], "--udp-rate: at least 1"),
    (["--device=mlx5_0,peer=x"], "twice"),
    (["--device=mlx5_0"], "twice"),
    (["--device=mlx5_0,port=1", "--device=mlx5_1"], "peer=INTERFACE"),
    (["--device=mlx5_0,peer=", "--device=mlx5_1"], "peer=INTERFACE"),
    (["--device=mlx5_0,peer=x", "--device=mlx5_1"], "both or to none"),
    (["--datapath=fast"], "invalid choice"),
])
def test_bad_options(build: Build, options: list[str], complaint: str) -> None:
    result = subprocess.run(demo_command(build, *options), capture_output=True, text=True,
                            timeout=20)
    assert result.returncode == 2
    assert complaint in result.stderr


def test_devices_without_a_cable(build: Build, tmp_path: Path) -> None:
    """Nothing is cabled to them: the demo explains what to do."""
    options = ["--device=mlx5_0", "--device=mlx5_1", "--seconds=2"]
    result = subprocess.run(
        [*OWN_NETWORK, str(build.softhca), "--port=wire=sink", "--port=wire=sink", "--",
         *demo_command(build, *options)], capture_output=True, text=True, timeout=60,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    assert result.returncode == 1
    assert "demo FAILED: cannot see which interfaces" in result.stdout
    assert "peer=INTERFACE" in result.stdout


def test_a_failure_is_a_failure(build: Build, tmp_path: Path) -> None:
    """Without a driver there is no traffic: a clear message and a non-zero status."""
    empty = tmp_path / "build"
    (empty / "app/softhca").mkdir(parents=True)
    (empty / "app/softhca/softhca").symlink_to("/bin/false")
    result = subprocess.run(
        [*DEMO, f"--build={empty}"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "demo FAILED" in result.stdout


def test_an_error_at_the_end_is_a_failure(build: Build, failing_end: dict[str, str]) -> None:
    """As when a driver crashes while it closes its ports, after the traffic."""
    result = subprocess.run(demo_command(build, "--seconds=2"), capture_output=True, text=True, timeout=60,
                            env={**os.environ, **failing_end})
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].startswith("demo FAILED: dpdk-testpmd ended with status 7")


@pytest.mark.parametrize("error, text", [
    (subprocess.TimeoutExpired(["ip", "link"], 30), "TimeoutExpired: Command '['ip', 'link']' timed out after 30 seconds"),
    (ValueError("no JSON"), "ValueError: no JSON"), (KeyError("end"), "KeyError: 'end'"),
    (RuntimeError("iperf3 has not finished"), "iperf3 has not finished")])
def test_any_error_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                error: Exception, text: str) -> None:
    def fails(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(namespaces, "PRIVATE_DIR", tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")  # the demo sets it
    monkeypatch.setattr(demo, "Demo", fails)
    assert demo.inside(argparse.Namespace(json=None, logs=None)) == 1
    assert capsys.readouterr().out == f"demo FAILED: {text}\n"
