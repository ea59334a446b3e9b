# SPDX-License-Identifier: BSD-3-Clause
"""The launcher: command line, exit status, signals, what it leaves behind, stat and link."""

import json
import os
import pty
import re
import resource
import select
import signal
import socket
import stat as file_mode
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Callable, Iterator, Sequence

import pytest
from rig.program import Program
from rig.stack import OWN_NETWORK, Build

pytestmark = pytest.mark.unsanitized  # programs that are not ours run under it

# Prints its number of SIGINTs when SIGUSR1 comes; ends with status 5 on SIGTERM. Python, as a trap
# of a shell can come too late for the read() that it should interrupt.
COUNT_SIGNALS = """
import signal, sys
awaited = {signal.SIGINT, signal.SIGUSR1, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
print("ready", flush=True)
ints = 0
while (number := signal.sigwait(awaited)) != signal.SIGTERM:
    ints += number == signal.SIGINT
    if number == signal.SIGUSR1:
        print("ints:", ints, flush=True)
print("terminated", flush=True)
sys.exit(5)
"""
SIGNAL_COUNTER = ("--", sys.executable, "-c", COUNT_SIGNALS)

# As root: without any capability. The checkout and the folders stay readable.
UNPRIVILEGED = (
    ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
)


class Launcher:
    """softhca with a runtime folder of its own."""

    def __init__(self, build: Build, folder: Path) -> None:
        self.softhca = str(build.softhca)
        self.folder = folder
        self.runtime = folder / "run"
        self.runtime.mkdir(mode=0o700)
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(self.runtime)}
        self._started = ExitStack()

    def run(
        self, *arguments: str, prefix: Sequence[str] = (), stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*prefix, self.softhca, *arguments],
            env=self.env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def start(self, *arguments: str) -> Program:
        return self.start_command([self.softhca, *arguments])

    def start_command(self, command: Sequence[str]) -> Program:
        log = self.folder / f"{len(list(self.folder.iterdir()))}.log"
        program = Program(command, log, self.env, name="softhca")
        self._started.callback(program.close)
        return program

    def start_counter(self) -> Program:
        program = self.start(*SIGNAL_COUNTER)
        program.wait_for("^ready")
        return program

    def start_watch(self, *options: str) -> Program:
        """A program that holds device mlx5_0 open and prints its events."""
        watch = self.start(*options, "--", "ibv_asyncwatch", "-d", "mlx5_0")
        watch.wait_for("async event FD")
        return watch

    def runtime_folders(self) -> list[Path]:
        return sorted(self.runtime.iterdir())

    def close(self) -> None:
        self._started.close()


@pytest.fixture
def launcher(build: Build, new_folder: Callable[[], Path]) -> Iterator[Launcher]:
    one = Launcher(build, new_folder())
    yield one
    one.close()


# -- command line ---------------------------------------------------------------------------------


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
        (["--prot", "wire=loop", "--", "true"], "--prot"),
        (["--port", "wire=tape:x", "--", "true"], "tape:x"),
        (["--port", "wire=tap:a/b", "--", "true"], "bad name"),
        (["--port", "mac=1", "--", "true"], "02:00:00:00:00:01"),
        (["--port", "wire=loop,mtu=20000", "--", "true"], "9978"),
        (["--port", "device=a", "--port", "device=a", "--", "true"], "device=a: used twice"),
        (["--threads", "none", "--", "true"], "--threads"),
        (["--config", "/nonexistent.json", "--", "true"], "/nonexistent.json"),
        (["link", "mlx5_0", "maybe"], "maybe"),
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


# -- exit status and signals ----------------------------------------------------------------------


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
        wait_for(b"^C")  # the terminal signals first, and echoes then
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
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    assert len(children) == 1
    child = os.pidfd_open(int(children[0]))
    program.signal(signal.SIGKILL)
    assert program.wait() == -signal.SIGKILL
    with open(child) as ended:  # readable at its end
        assert select.select([ended], [], [], 20)[0]
    left_behind = launcher.runtime_folders()
    assert len(left_behind) == 1
    assert launcher.run("--", "true").returncode == 0
    assert launcher.runtime_folders() == [], "the next run removes what the killed one left"


# As daemon(3) and most daemons do it: the program that was started ends at once. The daemon opens a
# device; it ends with status 9 on SIGTERM.
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
    with open(daemon) as ended:  # readable at its end
        assert select.select([ended], [], [], 20)[0]


def test_running_instances_keep_their_folders(launcher: Launcher) -> None:
    program = launcher.start_counter()
    before = launcher.runtime_folders()
    assert launcher.run("--", "true").returncode == 0
    assert launcher.runtime_folders() == before
    assert file_mode.S_IMODE(before[0].stat().st_mode) == 0o700
    program.signal(signal.SIGTERM)
    assert program.wait() == 5


def test_without_xdg_runtime_dir(launcher: Launcher) -> None:
    del launcher.env["XDG_RUNTIME_DIR"]
    result = launcher.run("--", "sh", "-c", 'dirname "$SOFTHCA_CONFIG"')
    assert result.stdout.startswith(f"/tmp/softhca-{os.geteuid()}-")
    assert not Path(result.stdout.strip()).exists()


# -- TAPs -----------------------------------------------------------------------------------------


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
    assert "lo" in result.stderr and "is no TAP" in result.stderr


# -- stat and link --------------------------------------------------------------------------------


def test_stat_with_nothing_running(launcher: Launcher) -> None:
    result = launcher.run("stat")
    assert result.returncode == 1
    assert "no running program" in result.stderr
    result = launcher.run("stat", "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout) == {"instances": []}


def test_stat_of_running_programs(launcher: Launcher) -> None:
    launcher.start_watch("--port", "wire=pair:a,mtu=2000", "--port", "wire=pair:a")
    launcher.start_watch()
    text = launcher.run("stat").stdout
    assert text.count("ibv_asyncwatch (process ") == 2
    assert "mlx5_1  link_up yes" in text
    instances = json.loads(launcher.run("stat", "--json").stdout)["instances"]
    assert sorted(len(instance["devices"]) for instance in instances) == [1, 2]
    two = max(instances, key=lambda instance: len(instance["devices"]))
    assert two["program"] == "ibv_asyncwatch"
    assert two["devices"][0]["mtu"] == 2000
    assert two["devices"][0]["counters"]["wire_rx_packets"] == 0
    one = json.loads(launcher.run("stat", "--json", "--pid", str(two["pid"])).stdout)
    assert [instance["pid"] for instance in one["instances"]] == [two["pid"]]
    assert launcher.run("stat", "--pid", "1").returncode == 1


def test_stat_counts_what_passes(launcher: Launcher) -> None:
    """A generator feeds the kernel netdev: every frame is counted on both ways."""
    options = ["--port", "wire=gen:count=500,size=1000,netdev=tap:kn0"]
    inner = [launcher.softhca, *options, "--", "ibv_asyncwatch", "-d", "mlx5_0"]
    watch = launcher.start_command([*OWN_NETWORK, *inner])
    watch.wait_for("async event FD")
    deadline = time.monotonic() + 20
    while True:
        stat = json.loads(launcher.run("stat", "--json").stdout)
        counters = stat["instances"][0]["devices"][0]["counters"]
        if counters["wire_rx_packets"] == 500:
            break
        assert time.monotonic() < deadline, counters
    assert counters["wire_rx_bytes"] == 500_000
    assert counters["kernel_rx_packets"] == 500
    assert counters["delivered"] == 0
    assert re.search(r"kernel_rx_packets +500$", launcher.run("stat").stdout, re.MULTILINE)


# Opens mlx5_0 and gives its netdev another address.
CHANGE_MAC = """
import ctypes, fcntl, os, signal, socket, struct
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
assert verbs.ibv_open_device(ctypes.c_void_p(verbs.ibv_get_device_list(None)[0]))
(netdev,) = os.listdir("/sys/class/infiniband/mlx5_0/device/net")
SIOCSIFHWADDR, ETHER = 0x8924, 1
address = bytes.fromhex("02aabbccddee")
request = struct.pack("16sH14s", netdev.encode(), ETHER, address)
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFHWADDR, request)
print("changed", flush=True)
signal.pause()
"""


def test_stat_shows_the_address_that_the_netdev_has(launcher: Launcher) -> None:
    launcher.start("--", sys.executable, "-c", CHANGE_MAC).wait_for("^changed")
    (instance,) = json.loads(launcher.run("stat", "--json").stdout)["instances"]
    assert instance["devices"][0]["mac"] == "02:aa:bb:cc:dd:ee"


def test_link_goes_down_and_up(launcher: Launcher) -> None:
    watch = launcher.start_watch()
    assert launcher.run("link", "mlx5_0", "down").returncode == 0
    watch.wait_for("IBV_EVENT_PORT_ERR")
    assert "mlx5_0  link_up no" in launcher.run("stat").stdout
    assert launcher.run("link", "mlx5_0", "up").returncode == 0
    watch.wait_for("IBV_EVENT_PORT_ACTIVE")
    assert "mlx5_0  link_up yes" in launcher.run("stat").stdout


def test_link_needs_to_know_which(launcher: Launcher) -> None:
    assert "no running program" in launcher.run("link", "mlx5_0", "up").stderr
    watches = [launcher.start_watch(), launcher.start_watch()]
    unknown = launcher.run("link", "mlx5_9", "down")
    assert unknown.returncode == 1 and "mlx5_9" in unknown.stderr
    ambiguous = launcher.run("link", "mlx5_0", "down")
    assert ambiguous.returncode == 1 and "--pid" in ambiguous.stderr
    pids = [int(pid) for pid in re.findall(r"\d{2,}", ambiguous.stderr.split("each")[0])]
    assert len(pids) == 2
    assert launcher.run("link", "mlx5_0", "down", "--pid", str(pids[0])).returncode == 0
    states = [launcher.run("stat", "--pid", str(pid)).stdout for pid in pids]
    assert ["link_up no" in state for state in states] == [True, False]
    assert all(watch.running() for watch in watches)


def test_commands_fail_from_the_start(launcher: Launcher) -> None:
    result = launcher.run("--port", "fault=query_port:EIO", "--", "ibv_devinfo")
    assert result.returncode != 0 and "Failed to query port" in result.stderr
    result = launcher.run("--port", "fault=get_context:EPERM", "--", "ibv_devinfo")
    assert result.returncode != 0 and "Failed to open device" in result.stderr


def test_faults_at_run_time(launcher: Launcher) -> None:
    watch = launcher.start_watch()
    missing = launcher.run("fault", "mlx5_0", "fatal:77")
    assert missing.returncode == 1 and "no such queue" in missing.stderr
    assert "mlx5_9" in launcher.run("fault", "mlx5_9", "none").stderr
    assert launcher.run("fault", "mlx5_0", "alloc_pd:ENOMEM").returncode == 0
    assert launcher.run("fault", "mlx5_0", "device_fatal").returncode == 0
    watch.wait_for("IBV_EVENT_DEVICE_FATAL")


def control_socket(launcher: Launcher) -> socket.socket:
    (path,) = launcher.runtime.glob("softhca-*/*.sock")
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(20)
    client.connect(str(path))
    return client


def test_control_socket_survives_garbage(launcher: Launcher) -> None:
    launcher.start_watch()
    with control_socket(launcher) as client:
        replies = client.makefile("rb")
        for request in (
            *(b"garbage", b"", b"[]", b"{}", b"\xff\xfe\x00", b"[" * 4000, b'{"cmd":5}'),
            *(b'{"cmd":"stop"}', b'{"cmd":"link"}', b'{"cmd":"link","device":1,"up":2}'),
            b'{"cmd":"link","device":"nowhere","up":true}',
            *(b'{"cmd":"fault"}', b'{"cmd":"fault","device":"mlx5_0","fault":7}'),
            *(b'{"cmd":"fault","device":"x","fault":"none"}',
              b'{"cmd":"fault","device":"mlx5_0","fault":"error_cqe:1"}'),
        ):
            client.sendall(request + b"\n")
            assert "error" in json.loads(replies.readline()), request
        client.sendall(b'{"cmd":')  # in two parts
        client.sendall(b'"stat"}\n{"cmd":"stat"}\n')  # and two at once
        assert "devices" in json.loads(replies.readline())
        assert "devices" in json.loads(replies.readline())
        with suppress(ConnectionError):  # a line without end is hung up on
            client.sendall(b"x" * 100_000)
            assert replies.readline() == b""
    idle = [control_socket(launcher) for _ in range(10)]  # that never ask anything
    assert launcher.run("stat").returncode == 0
    for client in idle:
        client.close()


def cpu_seconds(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def test_control_socket_waits_for_a_program_without_free_descriptors(launcher: Launcher) -> None:
    launcher.start_watch()
    pid = json.loads(launcher.run("stat", "--json").stdout)["instances"][0]["pid"]
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    with control_socket(launcher) as client:
        client.sendall(b'{"cmd":"stat"}\n')
        used = cpu_seconds(pid)
        time.sleep(1)
        used = cpu_seconds(pid) - used
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert "devices" in json.loads(client.makefile("rb").readline())
    assert used < 0.5, "seconds of CPU in a second of waiting"
