# SPDX-License-Identifier: BSD-3-Clause
"""The guest itself: what runs in it, its results, and that it does no harm."""

import signal
import time
from pathlib import Path

import pytest
from rig.guest import Guest, GuestError
from rig.stack import Build


def test_the_kernel_is_the_distributions(guest: Guest) -> None:
    """The package's kernel with its modules, not this machine's."""
    kernel = guest.machine.kernel
    assert guest.run("uname -r").strip() == kernel.release
    assert kernel.root.is_relative_to(guest.build_folder)
    assert "vermagic" in guest.run("modinfo mlx5_core") and "Debian" in guest.run("uname -v")
    assert guest.run("cat /proc/sys/kernel/tainted").strip() == "0"


@pytest.mark.parametrize("status", [0, 1, 77, 255])
def test_exit_statuses_come_back(guest: Guest, status: int) -> None:
    assert guest.try_run(f"exit {status}").returncode == status


def test_signals_come_back(guest: Guest) -> None:
    assert guest.try_run("kill -SEGV $$").returncode == -signal.SIGSEGV


def test_output_and_errors_come_back_apart(guest: Guest) -> None:
    done = guest.try_run("seq 20000; echo wrong >&2")
    assert done.stdout == "".join(f"{n}\n" for n in range(1, 20001))
    assert done.stderr == "wrong\n"


def test_input_reaches_the_command(guest: Guest) -> None:
    data = b"".join(b"%d\n" % n for n in range(100_000))
    assert guest.run("wc -c", stdin=data).strip() == str(len(data))


def test_a_command_that_is_not_there(guest: Guest) -> None:
    with pytest.raises(FileNotFoundError):
        guest.try_run(["/no/such/program"])


def test_the_time_limit_ends_all_of_a_command(guest: Guest) -> None:
    begin = time.monotonic()
    with pytest.raises(GuestError, match="not finished"):
        guest.try_run("sleep 987 & sleep 988", timeout=1)
    assert time.monotonic() - begin < 20
    assert guest.try_run("pgrep -f 'sleep 98[78]$'").returncode == 1


def test_the_machines_files_are_there_and_safe(guest: Guest, build: Build, tmp_path: Path) -> None:
    """Everything can be read at its path; writes stay in the guest's memory."""
    kept = tmp_path / "kept"
    kept.write_text("as it was\n")
    assert guest.run(f"cat {kept} && echo changed > {kept} && cat {kept} && rm {kept}"
                     f" && touch {build.folder}/made-in-the-guest") == "as it was\nchanged\n"
    assert kept.read_text() == "as it was\n"
    assert not (build.folder / "made-in-the-guest").exists()


def test_many_commands_at_once(guest: Guest) -> None:
    outputs: list[list[bytes]] = [[] for _ in range(8)]
    running = [
        guest.channel.start(["sh", "-c", f"echo {n}; exit {n}"],
                            lambda _fd, data, to=outputs[n]: to.append(data), limit=30)
        for n in range(8)
    ]
    assert [command.wait(60) for command in running] == list(range(8))
    assert [b"".join(output) for output in outputs] == [b"%d\n" % n for n in range(8)]


def test_a_program_on_a_terminal(guest: Guest, work: Path) -> None:
    shell = guest.start(["sh", "-c", "tty -s <&1 && read word && echo got $word"], work / "tty.log")
    shell.send_line("hello")
    shell.wait_for("got hello")
    assert shell.wait() == 0
