# SPDX-License-Identifier: BSD-3-Clause
"""The launcher's command line, and the devices and TAPs that it creates from it."""

import re
import subprocess
import time

import pytest
from rig.launcher import UNPRIVILEGED, Launcher
from rig.stack import OWN_NETWORK

pytestmark = pytest.mark.unsanitized  # programs that are not ours run under softhca


def test_help_tells_a_new_user_what_to_type(launcher: Launcher) -> None:
    result = launcher.run("--help")
    assert result.returncode == 0
    for word in (
        *("Usage: softhca [options] -- program", "Examples:", "softhca -- ibv_devinfo -v"),
        *("tap:NAME", "link:NAME", "pair:NAME", "socket:PATH", "pcap:IN[,OUT]", "gen", "sink"),
        *("netdev=", "mac=", "mtu=", "speed=", "pause=", "device=", "pci=", "carrier=",
          "fault="),
        *("--port", "--threads", "--cpus", "--config", "stat", "link", "fault", "Exit status"),
    ):
        assert word in result.stdout, word
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_help_of_the_subcommands(launcher: Launcher) -> None:
    assert "--json" in launcher.run("stat", "--help").stdout
    assert "up or down" in launcher.run("link", "--help").stdout
    assert "create_qp:EPERM" in launcher.run("fault", "--help").stdout


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "which program?"),
        (["ibv_devinfo"], "put -- in front"),
        (["stat", "mlx5_0"], "not expected: mlx5_0\n"),
        (["--prot", "wire=loop", "--", "true"], "--prot"),
        (["--port", "wire=tape:x", "--", "true"], "tape:x"),
        (["--port", "wire=tap:a/b", "--", "true"], "bad name"),
        (["--port", "mac=1", "--", "true"], "02:00:00:00:00:01"),
        (["--port", "wire=loop,mtu=20000", "--", "true"], "9978"),
        (["--port", "device=a", "--port", "device=a", "--", "true"], "device=a: used twice"),
        (["--port", "wire=tap:a", "--port", "wire=tap:a:plain", "--", "true"], "netdev=a: used twice"),
        (["--port", "wire=loop,mtu=9000,wire=sink", "--", "true"], "wire=: given twice"),
        (["--port", "wire=pair:a", "--port", "wire=pair:b", "--", "true"], "wire=pair:a: given to 1 port;"),
        (["--port", "wire=pair:a"] * 3 + ["--", "true"], "wire=pair:a: given to 3 ports;"),
        (["--threads", "none", "--", "true"], "--threads"),
        (["--cpus", "4095", "--", "true"], "--cpus 4095: softhca may not run there"),
        (["--cpus", "04095", "--", "true"], "--cpus 4095: softhca may not run there"),
        (["--threads", "065", "--", "true"], "65 not in range 1 to 64"),
        (["--config", "/nonexistent.json", "--", "true"], "/nonexistent.json"),
        (["--config", "/dev/null", "--", "true"], "/dev/null: not valid JSON"),
        (["--config", "/", "--", "true"], "Is a directory"),
        (["link", "mlx5_0", "maybe"], "maybe"),
        *((["trace", "--count", number], f"{number} not in range 1 to 1000000000000000000")
          for number in ("0", "-1", "18446744073709551617", "1.5")),
        *(([*command, "--pid", number], f"{number} not in range 1 to 4194304")
          for command in (["stat"], ["link", "mlx5_0", "up"], ["fault", "mlx5_0", "none"])
          for number in ("0", "-1", "4294967297", "x")),
        (["fault", "mlx5_0", "create_qp"], "create_qp:EPERM"),
        (["fault", "mlx5_0", "boom"], "boom"),
        (["--port", "fault=create_qp:1", "--", "true"], "not the name of an errno"),
        (["--port", "fault=device_fatal", "--", "true"], "softhca fault"),
    ],
)
def test_mistakes_are_explained(launcher: Launcher, arguments: list[str], said: str) -> None:
    result = launcher.run(*arguments)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.startswith("softhca: ")
    assert launcher.runtime_folders() == []


def test_config_file_and_options_that_win(launcher: Launcher) -> None:
    file = launcher.folder / "nic.json"
    file.write_text('{"ports": [{"device": "left", "mtu": 9000}, {"device": "right"}]}')
    from_file = launcher.run("-v", "--config", str(file), "--", "true")
    assert re.search(r"left .* mtu 9000\n.*right .* mtu 1500", from_file.stderr)
    won = launcher.run("-v", "--config", str(file), "--port", "device=other", "--", "true")
    assert "other" in won.stderr and "left" not in won.stderr
    file.write_text('{"ports": [{"devise": "left"}]}')
    broken = launcher.run("--config", str(file), "--", "true")
    assert broken.returncode == 2
    assert str(file) in broken.stderr and "devise" in broken.stderr


def test_devices_are_there_for_the_program(launcher: Launcher) -> None:
    result = launcher.run(
        "--port", "device=left", "--port", "device=right", "--", "ibv_devices", prefix=UNPRIVILEGED
    )
    assert result.returncode == 0, result.stderr
    assert re.findall(r"^\s+(\w+)\s+[0-9a-f]{16}$", result.stdout, re.MULTILINE) == ["left", "right"]


def test_files_are_where_softhca_was_started(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons go to / before they open their devices."""
    monkeypatch.chdir(launcher.folder)
    (launcher.folder / "else").mkdir()
    result = launcher.run(
        "--port", "wire=pcap:,out.pcap", "--port", "wire=socket:cable", "--",
        "sh", "-c", "cd else && ibv_devinfo && ls .. && ls -a")
    assert result.returncode == 0, result.stderr
    *_, cable, other, out, run, here, above = result.stdout.split()
    assert [cable, other, out, run, here, above] == ["cable", "else", "out.pcap", "run", ".", ".."]


START_UP_S = 0.05  # allowed increase of a program's start-up time


@pytest.mark.parametrize("program", ["true", "ibv_devinfo"])
def test_programs_start_soon(launcher: Launcher, program: str) -> None:
    """Other load slows programs down at times, so the fastest of several runs counts. The runtime folder is the
    default one."""
    del launcher.env["XDG_RUNTIME_DIR"]

    def quickest(*command: str) -> float:
        times = []
        for _ in range(8):
            start = time.monotonic()
            subprocess.run([*command, program], env=launcher.env, capture_output=True, timeout=60)
            times.append(time.monotonic() - start)
        return min(times)

    assert quickest(launcher.softhca, "--") - quickest() <= START_UP_S


def test_taps_live_as_long_as_the_program(launcher: Launcher) -> None:
    show = "ip -o link show cable0 2>&1; ip -o link show kn0 2>&1"
    inner = [
        *("sh", "-c", f'"$@"; echo after; {show}; true', "sh", launcher.softhca),
        *("--port", "wire=tap:cable0,netdev=tap:kn0,mac=02:00:00:00:00:42,mtu=4000"),
        *("--", "sh", "-c", show),
    ]
    result = subprocess.run(
        [*OWN_NETWORK, *inner], env=launcher.env, capture_output=True, text=True, timeout=60
    )
    during, after = result.stdout.split("after\n")
    assert re.search(r"cable0: <[^>]*\bUP\b.*mtu 4000", during), result
    assert re.search(r"kn0: <[^>]*\bUP\b.*mtu 4000.*02:00:00:00:00:42", during), result
    assert after.count("does not exist") == 2


def test_tap_without_permission(launcher: Launcher) -> None:
    result = launcher.run("--port", "wire=tap:cable0", "--", "true", prefix=UNPRIVILEGED)
    assert result.returncode == 125
    assert "cable0" in result.stderr and "CAP_NET_ADMIN" in result.stderr
    assert launcher.runtime_folders() == []


def test_tap_name_that_is_taken(launcher: Launcher) -> None:
    result = launcher.run("--port", "wire=tap:lo", "--", "true", prefix=OWN_NETWORK)
    assert result.returncode == 125
    assert "lo" in result.stderr and "is not a TAP" in result.stderr
