# SPDX-License-Identifier: BSD-3-Clause
"""The launcher's exit status, signals, and what it leaves behind."""

import errno
import json
import os
import pty
import signal
import stat as file_mode
import subprocess
from pathlib import Path

import pytest
from rig.launched import program_under
from rig.launcher import SIGNAL_COUNTER, Launcher
from rig.program import NO_THREADS, wait_for_end

pytestmark = pytest.mark.unsanitized  # programs that are not ours run under softhca


@pytest.mark.parametrize(
    "program, status",
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV),
        (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
        (["/etc/passwd"], 126),
        (["no-such-program"], 127),
    ],
)
def test_exit_status_is_the_programs(launcher: Launcher, program: list[str], status: int) -> None:
    result = launcher.run("--", *program)
    assert result.returncode == status, result.stderr
    if status in (126, 127):
        assert program[0] in result.stderr
    assert launcher.runtime_folders() == []


def test_program_gets_arguments_input_and_environment(launcher: Launcher) -> None:
    result = launcher.run(
        "--", "sh", "-c", 'cat; printf "[%s]" "$@"; echo "$SOFTHCA_CONFIG"', "sh", "a b", "--", "",
        stdin="typed\n",
    )
    assert result.stdout.startswith("typed\n[a b][--][]" + str(launcher.runtime))


def test_options_of_sanitizers_that_the_user_has_win(launcher: Launcher) -> None:
    launcher.env["ASAN_OPTIONS"] = "verify_asan_link_order=1"
    told = launcher.run("--", "sh", "-c", 'echo "$ASAN_OPTIONS"').stdout
    assert told == "verify_asan_link_order=0:verify_asan_link_order=1\n"  # the last one counts


def test_signals_reach_the_program(launcher: Launcher) -> None:
    program = launcher.start_counter()
    for count in (1, 2):
        program.signal(signal.SIGINT)
        program.signal(signal.SIGUSR1)
        program.wait_for(f"ints: {count}")
    program.signal(signal.SIGTERM)
    program.wait_for("terminated")
    assert program.wait() == 5
    assert launcher.runtime_folders() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals_that_end_the_program(launcher: Launcher, number: signal.Signals) -> None:
    program = launcher.start("--", "sh", "-c", "ulimit -c 0; echo ready; exec sleep 1000")
    program.wait_for("^ready")
    program.signal(number)
    assert program.wait() == 128 + number
    assert launcher.runtime_folders() == []


def test_ctrl_c_arrives_once(launcher: Launcher) -> None:
    """The terminal signals the program itself: the launcher must not do so again."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(launcher.softhca, [launcher.softhca, *SIGNAL_COUNTER], launcher.env)
    output = b""

    def wait_for(text: bytes) -> None:
        nonlocal output
        while text not in output:
            output += os.read(terminal, 4096)  # fails with EIO when the program ends

    try:
        wait_for(b"ready")
        os.write(terminal, b"\x03")
        wait_for(b"^C")  # the terminal signals first, then echoes
        # The launcher takes signals lowest number first: a second SIGINT would be counted by now.
        os.kill(pid, signal.SIGUSR1)
        wait_for(b"ints: 1\r\n")
        os.kill(pid, signal.SIGTERM)
        wait_for(b"terminated")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
        pid = 0
    finally:
        os.close(terminal)  # not earlier: it sends SIGHUP
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_killed_launcher_takes_the_program_along(launcher: Launcher) -> None:
    program = launcher.start_counter()
    child = os.pidfd_open(program_under(program))
    program.signal(signal.SIGKILL)
    assert program.wait() == -signal.SIGKILL
    wait_for_end([child])
    left_behind = launcher.runtime_folders()
    assert len(left_behind) == 1
    assert launcher.run("--", "true").returncode == 0
    assert launcher.runtime_folders() == [], "the next run removes what the killed one left"


# As in daemon(3) and most daemons, the started program ends at once. The daemon opens a device; it exits with
# status 9 on SIGTERM.
DAEMON = """
import os, signal, time
launcher = os.getppid()
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
signal.alarm(60)  # whatever becomes of the test
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
while os.getppid() != launcher: time.sleep(0.01)
from pyverbs.device import Context
with Context(name="mlx5_0"):
    print("daemon", os.getpid(), flush=True)
    print("got", signal.sigwait({signal.SIGINT}), flush=True)
    signal.sigwait({signal.SIGTERM})
os._exit(9)
"""
START_DAEMON = ("--", "/usr/bin/python3", "-c", DAEMON)


def test_daemons_keep_their_devices(launcher: Launcher) -> None:
    program = launcher.start(*START_DAEMON)
    daemon = int(program.wait_for(r"daemon (\d+)")[1])
    instances = json.loads(launcher.run("stat", "--json").stdout)["instances"]
    assert [instance["pid"] for instance in instances] == [daemon]
    assert program.running()
    program.signal(signal.SIGINT)
    program.wait_for(rf"got {int(signal.SIGINT)}")
    program.signal(signal.SIGTERM)
    assert program.wait() == 9, "the status of the last process"
    assert launcher.runtime_folders() == []


def test_failure_of_the_first_process_is_not_hidden_by_later_ones(launcher: Launcher) -> None:
    done = launcher.run("--", "sh", "-c", "(sleep 0.3; echo last) & exit 3")
    assert done.returncode == 3 and "last" in done.stdout


def test_killed_launcher_takes_daemons_along(launcher: Launcher) -> None:
    program = launcher.start(*START_DAEMON)
    daemon = os.pidfd_open(int(program.wait_for(r"daemon (\d+)")[1]))
    program.signal(signal.SIGKILL)
    wait_for_end([daemon])


def test_running_instances_keep_their_folders(launcher: Launcher) -> None:
    program = launcher.start_counter()
    before = launcher.runtime_folders()
    assert launcher.run("--", "true").returncode == 0
    assert launcher.runtime_folders() == before
    assert file_mode.S_IMODE(before[0].stat().st_mode) == 0o700
    program.signal(signal.SIGTERM)
    assert program.wait() == 5


def test_folders_of_the_dead_are_swept_those_of_the_newborn_kept(launcher: Launcher) -> None:
    dead, newborn = (launcher.runtime / f"softhca-{name}" for name in ("1-dead", "1-newborn"))
    dead.mkdir()
    newborn.mkdir()  # its launcher has not locked it yet
    os.utime(dead, (0, 0))
    assert launcher.run("--", "true").returncode == 0
    assert launcher.runtime_folders() == [newborn]


# As in a container started without --shm-size, but smaller.
LITTLE_SHARED_MEMORY = ["unshare", *(["--map-root-user"] if os.geteuid() else []), "--mount", "sh", "-c",
                        'mount -t tmpfs -o size=1m none /dev/shm; exec "$@"', "little-shared-memory"]


@pytest.mark.parametrize("prefix, place", [([], "/dev/shm"), (LITTLE_SHARED_MEMORY, "/tmp")],
                         ids=["in-memory", "where-there-is-room"])
def test_without_xdg_runtime_dir(launcher: Launcher, prefix: list[str], place: str) -> None:
    del launcher.env["XDG_RUNTIME_DIR"]
    watch = 'dirname "$SOFTHCA_CONFIG"; exec ibv_asyncwatch -d mlx5_0'
    program = launcher.start_command([*prefix, launcher.softhca, "--port", "device=mlx5_0,mtu=1234", "--",
                                      "stdbuf", "-oL", "sh", "-c", watch])
    program.wait_for("async event FD")
    folder = Path(program.wait_for(rf"^({place}/softhca-run-{os.geteuid()}-.*)$")[1])
    seen = json.loads(launcher.run("stat", "--json").stdout)["instances"]
    assert 1234 in [device["mtu"] for instance in seen for device in instance["devices"]]
    program.signal(signal.SIGTERM)
    program.wait()
    assert not folder.exists()


def mounted(mount: str) -> list[str]:
    """A prefix that carries out a mount command for the program alone."""
    return ["unshare", *(["--map-root-user"] if os.geteuid() else []), "--mount", "sh", "-c",
            f'{mount}; exec "$@"', "mounted"]


def test_without_proc(launcher: Launcher) -> None:
    """As in a chroot that nobody has mounted it in."""
    for arguments in ["--", "true"], ["vm", "--", "true"]:
        refused = launcher.run(*arguments, prefix=mounted("mount -t tmpfs none /proc"))
        assert refused.returncode == 125
        assert "is /proc mounted?" in refused.stderr


def test_without_room_for_the_device_files(launcher: Launcher) -> None:
    refused = launcher.run("--", "true", prefix=mounted(
        f"mount -t tmpfs -o size=4k none {launcher.runtime}"))
    assert refused.returncode == 125
    assert os.strerror(errno.ENOSPC) in refused.stderr


def test_device_is_refused_if_no_thread_can_serve_it(launcher: Launcher) -> None:
    opened = launcher.run("--port=wire=pair:a", "--port=wire=pair:a", "--threads=2", "--",
                          *NO_THREADS, "ibv_devinfo", "-d", "mlx5_0")
    assert opened.returncode == 1, opened.stderr
    assert "cannot start a device thread" in opened.stderr
    assert "ulimit -u" in opened.stderr


@pytest.mark.unsanitized  # sanitizers need more memory than that
def test_device_is_refused_if_there_is_no_memory_for_it(launcher: Launcher) -> None:
    """With ever less memory: first for a thread's stack, then for the device. In the end, the libraries do not fit."""
    said: list[str] = []
    for kibibytes in range(14_000, 6_000, -200):
        opened = launcher.run("--", "prlimit", f"--as={kibibytes * 1024}", "ibv_devinfo", "-d", "mlx5_0")
        assert opened.returncode > 0 and "terminate" not in opened.stderr, (kibibytes, opened.stderr)
        said.append(opened.stderr)
        if "error while loading" in opened.stderr or "couldn't load" in opened.stderr:
            break
    assert "cannot start a device thread" in said[0], said
    assert any("no memory left" in lines and "ulimit -v" in lines for lines in said), said


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user without other processes")
def test_device_works_without_a_control_thread(launcher: Launcher) -> None:
    somebody = ["setpriv", f"--reuid={10**9 + os.getpid()}", "--clear-groups"]
    if subprocess.run([*somebody, "test", "-x", launcher.softhca]).returncode != 0:
        pytest.skip("the build folder is for its owner only")
    del launcher.env["XDG_RUNTIME_DIR"]  # the owner's
    # The launcher, the program and its device thread.
    opened = launcher.run("--", "ibv_devinfo", prefix=["prlimit", "--nproc=3", *somebody])
    assert opened.returncode == 0, opened.stderr
    assert "hca_id" in opened.stdout
    assert "cannot start the control thread" in opened.stderr
