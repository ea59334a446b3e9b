# SPDX-License-Identifier: BSD-3-Clause
"""`softhca stat`, `link` and `fault`, and the underlying control socket."""

import json
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from rig.launcher import Launcher
from rig.program import wait_for_end
from rig.stack import OWN_NETWORK

pytestmark = pytest.mark.unsanitized  # programs that are not ours run under softhca

NO_ANSWER = "does not answer; is it stopped, or are too many clients connected to it already?"


def pid_with_device(launcher: Launcher) -> int:
    """Of the only program that has one."""
    pid: int = json.loads(launcher.run("stat", "--json").stdout)["instances"][0]["pid"]
    return pid


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
    for command in ["stat"], ["stat", "--json"]:
        nothing = launcher.run(*command, "--pid", "1")
        assert nothing.returncode == 1 and "process 1 has no softhca device open" in nothing.stderr


def stop(pid: int) -> None:
    """Its threads stop one by one, and any may still answer meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 20
    while any(stat.read_text().rpartition(") ")[2][0] != "T" for stat in Path(f"/proc/{pid}/task").glob("*/stat")):
        assert time.monotonic() < deadline


def test_a_stopped_program_is_not_said_to_have_no_device(launcher: Launcher) -> None:
    launcher.start_watch()
    pid = pid_with_device(launcher)
    stop(pid)
    try:
        for command in ["stat", "--pid", str(pid)], ["trace", "mlx5_0"]:
            result = launcher.run(*command)
            assert result.returncode == 1
            assert result.stderr == f"softhca: process {pid}: {NO_ANSWER}\n"
    finally:
        os.kill(pid, signal.SIGCONT)


def test_idle_clients_lock_nobody_out(launcher: Launcher) -> None:
    launcher.start_watch()
    path = next(launcher.runtime.glob(f"softhca-*/{pid_with_device(launcher)}.sock"))
    with ExitStack() as clients:
        with suppress(BlockingIOError, TimeoutError):
            while True:
                client = clients.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                client.settimeout(1)
                client.connect(str(path))
        assert launcher.run("stat").returncode == 0


def test_a_client_that_is_heard_keeps_its_place(launcher: Launcher) -> None:
    launcher.start_watch()
    with ExitStack() as clients:
        working = clients.enter_context(control_socket(launcher))
        replies = working.makefile("rb")
        idle = [clients.enter_context(control_socket(launcher)) for _ in range(16)]
        deadline = time.monotonic() + 20
        while not select.select(idle, [], [], 0)[0]:  # one is closed, for another that waits
            working.sendall(b'{"cmd":"stat"}\n')
            assert "devices" in json.loads(replies.readline())
            assert time.monotonic() < deadline


def test_a_program_that_does_not_answer_is_not_hidden_by_others(launcher: Launcher) -> None:
    launcher.start_watch()
    stopped = pid_with_device(launcher)
    launcher.start_watch()
    stop(stopped)
    try:
        both = launcher.run("stat", "--json")
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert both.stderr == f"softhca: process {stopped}: {NO_ANSWER}\n"
    assert len(json.loads(both.stdout)["instances"]) == 1
    assert both.returncode == 1


def test_a_program_that_ends_meanwhile_is_not_mentioned(launcher: Launcher) -> None:
    """Its socket is seen, but then gone, or closed before the answer."""
    folder = launcher.runtime / "softhca-1"
    folder.mkdir()
    (folder / "11.sock").symlink_to(folder / "gone")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(folder / "12.sock"))
        listener.listen()

        def end() -> None:
            client, _ = listener.accept()
            client.recv(4096)
            client.close()

        ending = threading.Thread(target=end)
        ending.start()
        seen = launcher.run("stat")
        ending.join()
    assert seen.stderr == "softhca: no running program of this user has a softhca device open\n"
    named = launcher.run("stat", "--socket", str(folder / "11.sock"))
    assert named.returncode == 1 and "cannot connect (No such file or directory)" in named.stderr


# Opens mlx5_0, and leaves a child that waits.
FORK = """
import os, signal
from pyverbs.device import Context
with Context(name="mlx5_0"):
    if os.fork() == 0:
        signal.alarm(60)  # whatever becomes of the test
        signal.pause()
    print("parent", os.getpid(), flush=True)
    signal.pause()
"""


def test_a_forked_child_does_not_answer_for_its_dead_parent(launcher: Launcher) -> None:
    program = launcher.start("--", "/usr/bin/python3", "-c", FORK)
    parent = int(program.wait_for(r"parent (\d+)")[1])
    trace = launcher.start_command([launcher.softhca, "trace", "mlx5_0"])
    trace.wait_for("tracing mlx5_0")
    end = os.pidfd_open(parent)
    os.kill(parent, signal.SIGKILL)
    wait_for_end([end])
    assert trace.wait() == 0
    trace.wait_for(f"process {parent}: ended")
    seen = launcher.run("stat")
    assert seen.stderr == "softhca: no running program of this user has a softhca device open\n"
    assert program.running(), "it waits for the child"


def test_programs_of_the_same_pid_in_namespaces_of_their_own(launcher: Launcher) -> None:
    apart = f"unshare {'--map-root-user' if os.geteuid() else ''} --pid --fork --kill-child"
    programs = (f"{apart} ibv_asyncwatch -d mlx5_0 & first=$!; "
                "until ls $XDG_RUNTIME_DIR/softhca-*/1.sock; do sleep 0.1; done; "
                f"{apart} ibv_devinfo -d mlx5_1; "  # its end takes nothing from the first
                f"{apart} ibv_asyncwatch -d mlx5_1 & "
                'trap "kill -KILL $first $!" TERM; wait')  # unshare ignores SIGTERM
    program = launcher.start("--port=wire=loop", "--port=wire=loop", "--", "sh", "-c", programs)
    program.wait_for("(?s)async event FD.*async event FD")
    instances = json.loads(launcher.run("stat", "--json").stdout)["instances"]
    assert [instance["pid"] for instance in instances] == [1, 1]
    assert {device["device"] for instance in instances for device in instance["devices"]} == {
        "mlx5_0", "mlx5_1"}


@pytest.mark.parametrize("command", [["stat"], ["stat", "--json"], ["dump"], ["fault", "mlx5_0", "none"]],
                         ids=" ".join)
def test_an_answer_that_cannot_be_written(launcher: Launcher, command: list[str]) -> None:
    launcher.start_watch("--port", "wire=loop,fault=reg_mr:ENOMEM")
    result = launcher.run(*command, prefix=["sh", "-c", 'exec "$@" > /dev/full', "sh"])
    assert result.returncode == 1
    assert result.stderr.count("cannot write to stdout (No space left on device)") == 1


# As in libvma, whose functions know only its own descriptors.
EPOLL_OF_OTHERS = """
#include <errno.h>
int epoll_create1(int flags) { (void)flags; return 1000; }
int epoll_ctl() { errno = EBADF; return -1; }
int epoll_wait() { errno = EBADF; return -1; }
"""


def test_stat_beside_a_library_with_functions_of_libc(launcher: Launcher) -> None:
    source, library = launcher.folder / "epoll.c", launcher.folder / "epoll.so"
    source.write_text(EPOLL_OF_OTHERS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    watch = f"LD_PRELOAD=$LD_PRELOAD:{library} exec ibv_asyncwatch -d mlx5_0"
    program = launcher.start_command([launcher.softhca, "--port", "wire=loop", "--", "sh", "-c", watch])
    program.wait_for("async event FD")
    instance, = json.loads(launcher.run("stat", "--json").stdout)["instances"]
    assert instance["program"] == "ibv_asyncwatch"


POLL_OF_OTHERS = """
#include <stdlib.h>
int poll() { abort(); }
int ppoll() { abort(); }
"""


def times_slept(pid: int) -> int:
    """How often the device's thread of this program has waited."""
    (status,) = [(task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()
                 if (task / "comm").read_text() == "softhca-0\n"]
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_device_waits_by_itself_beside_a_library_with_functions_of_libc(launcher: Launcher) -> None:
    source, library = launcher.folder / "poll.c", launcher.folder / "poll.so"
    source.write_text(POLL_OF_OTHERS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    watch = f"LD_PRELOAD=$LD_PRELOAD:{library} exec ibv_asyncwatch -d mlx5_0"
    wire = f"--port=wire=socket:{launcher.folder / 'cable'}"  # a device without descriptors only sleeps
    program = launcher.start_command([launcher.softhca, wire, "--", "sh", "-c", watch])
    program.wait_for("async event FD")
    pid = pid_with_device(launcher)
    deadline = time.monotonic() + 20
    while times_slept(pid) < 20:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    program.signal(signal.SIGTERM)
    assert program.wait() == 128 + signal.SIGTERM


def test_stat_counts_what_passes(launcher: Launcher) -> None:
    """A generator feeds the kernel netdev: every frame is counted on both sides."""
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


# Opens mlx5_0. Another process, which does not, sets MTU, address and flags of its netdev, one after each line of
# input, and says what it reads then.
CHANGE_BY_ANOTHER = """
import fcntl, os, signal, socket, struct, sys
from pyverbs.device import Context
ready, is_open = os.pipe()
if os.fork() == 0:
    os.read(ready, 1)
    (netdev,) = os.listdir("/sys/class/infiniband/mlx5_0/device/net")
    SIOCSIFFLAGS, SIOCGIFMTU, SIOCSIFMTU, SIOCSIFHWADDR, ETHER, UP = 0x8914, 0x8921, 0x8922, 0x8924, 1, 1
    def call(request, layout, *values):
        with socket.socket() as any_socket:
            return fcntl.ioctl(any_socket, request, struct.pack(layout, netdev.encode(), *values))
    for step in (lambda: call(SIOCSIFMTU, "16si12x", 4321),
                 lambda: call(SIOCSIFHWADDR, "16sH14s", ETHER, bytes.fromhex("02aabbccddee")),
                 lambda: call(SIOCSIFFLAGS, "16sH14x", 0), lambda: call(SIOCSIFFLAGS, "16sH14x", UP)):
        sys.stdin.readline()
        step()
        print("mtu", *struct.unpack("16xi12x", call(SIOCGIFMTU, "16si12x", 0)), flush=True)
    os._exit(0)
with Context(name="mlx5_0"):
    os.write(is_open, b"1")
    print("open", flush=True)
    signal.pause()
"""


def test_what_another_process_sets_reaches_the_device_that_runs(launcher: Launcher) -> None:
    program = subprocess.Popen(
        [launcher.softhca, "--", "/usr/bin/python3", "-c", CHANGE_BY_ANOTHER], env=launcher.env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert program.stdin and program.stdout and program.stdout.readline() == "open\n"
        for key, value in ("mtu", 4321), ("mac", "02:aa:bb:cc:dd:ee"), ("link_up", False), ("link_up", True):
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout.readline() == "mtu 4321\n"
            (instance,) = json.loads(launcher.run("stat", "--json").stdout)["instances"]
            assert instance["devices"][0][key] == value, key
    finally:
        program.terminate()
        program.communicate(timeout=20)


def test_link_goes_down_and_up(launcher: Launcher) -> None:
    watch = launcher.start_watch()
    assert launcher.run("link", "mlx5_0", "down").returncode == 0
    watch.wait_for("IBV_EVENT_PORT_ERR")
    assert "mlx5_0  link_up no" in launcher.run("stat").stdout
    assert launcher.run("link", "mlx5_0", "up").returncode == 0
    watch.wait_for("IBV_EVENT_PORT_ACTIVE")
    assert "mlx5_0  link_up yes" in launcher.run("stat").stdout


# Opens mlx5_0, and says after each step whether its port is up: 4, or not: 1.
TOGGLE = """
import ctypes, fcntl, os, socket, struct, subprocess, sys
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
assert verbs.ibv_open_device(ctypes.c_void_p(verbs.ibv_get_device_list(None)[0]))
(netdev,) = os.listdir("/sys/class/infiniband/mlx5_0/device/net")
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
states = ""
for step in sys.argv[2:]:
    what, state = step.split()
    if what == "cable":
        subprocess.run([sys.argv[1], "link", "mlx5_0", state], check=True)
    else:
        with socket.socket() as any_socket:
            flags = IFF_UP if state == "up" else 0
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", netdev.encode(), flags))
    with open("/sys/class/infiniband/mlx5_0/ports/1/state") as file:
        states += file.read()[0]
print(states)
"""


@pytest.mark.parametrize("netdev", ["soft0", "tap:kn0"])
def test_a_program_does_not_bring_a_pulled_cable_back(launcher: Launcher, netdev: str) -> None:
    steps = {"cable down": "1", "netdev down": "1", "netdev up": "1", "cable up": "4"}
    other_way = {"netdev down": "1", "cable down": "1", "cable up": "1", "netdev up": "4"}
    done = launcher.run("--port", f"wire=loop,netdev={netdev}", "--",
                        sys.executable, "-c", TOGGLE, launcher.softhca, *steps, *other_way, prefix=OWN_NETWORK)
    assert done.stdout == "".join([*steps.values(), *other_way.values()]) + "\n", done.stderr


def test_link_needs_to_know_which(launcher: Launcher) -> None:
    assert "no running program" in launcher.run("link", "mlx5_0", "up").stderr
    watches = [launcher.start_watch(), launcher.start_watch()]
    unknown = launcher.run("link", "mlx5_9", "down")
    assert unknown.returncode == 1 and "mlx5_9" in unknown.stderr
    ambiguous = launcher.run("link", "mlx5_0", "down")
    assert ambiguous.returncode == 1 and "--pid" in ambiguous.stderr
    of_any = launcher.run("trace")
    assert of_any.returncode == 1 and "each have a device open; choose by --pid" in of_any.stderr
    pids = [int(pid) for pid in re.findall(r"\d{2,}", ambiguous.stderr.split("each")[0])]
    assert len(pids) == 2
    assert launcher.run("link", "mlx5_0", "down", "--pid", str(pids[0])).returncode == 0
    states = [launcher.run("stat", "--pid", str(pid)).stdout for pid in pids]
    assert ["link_up no" in state for state in states] == [True, False]
    assert all(watch.running() for watch in watches)


def test_of_two_programs_neither_is_asked_for_a_device_that_it_has_not(launcher: Launcher) -> None:
    watches = [launcher.start_watch("--port", "wire=loop", "--port", "wire=loop") for _ in range(2)]
    result = launcher.run("fault", "mlx5_1", "alloc_pd:ENOMEM")
    assert result.returncode == 1 and result.stderr == "softhca: no running program has a device mlx5_1\n"
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
    assert launcher.run("fault", "mlx5_0", "alloc_pd:ENOMEM:1:5").returncode == 0
    ended = launcher.run("fault", "mlx5_0", "none")
    assert ended.returncode == 0 and ended.stdout == "ended: alloc_pd:ENOMEM:1:5\n"
    assert launcher.run("fault", "mlx5_0", "none").stdout == ""
    begin = time.monotonic()
    assert launcher.run("fault", "mlx5_0", "stall:300").returncode == 0
    assert time.monotonic() - begin >= 0.3
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
            b'{"cmd":"link","device":"mlx5_0","up":1}',
            *(b'{"cmd":"next"}', b'{"cmd":"watch","device":5}', b'{"cmd":"watch","device":"x"}',
              b'{"cmd":"watch","steps":1}', b'{"cmd":"watch","count":-1}'),
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
        with suppress(ConnectionError):  # the server closes the connection on an endless line
            client.sendall(b"x" * 100_000)
            assert replies.readline() == b""
    idle = [control_socket(launcher) for _ in range(10)]  # which never send a request
    assert launcher.run("stat").returncode == 0
    for client in idle:
        client.close()


def test_a_client_that_does_not_read_holds_up_nobody(launcher: Launcher) -> None:
    launcher.start_watch()
    with control_socket(launcher) as client:
        client.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                client.sendall(b'{"cmd":"dump"}\n' * 100)
        assert launcher.run("stat").returncode == 0


def cpu_seconds(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def test_control_socket_waits_for_a_program_without_free_descriptors(launcher: Launcher) -> None:
    launcher.start_watch()
    pid = pid_with_device(launcher)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with control_socket(launcher) as earlier:
        earlier.sendall(b'{"cmd":"stat"}\n')
        assert "devices" in json.loads(earlier.makefile("rb").readline())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        with control_socket(launcher) as client:
            client.sendall(b'{"cmd":"stat"}\n')
            used = cpu_seconds(pid)
            time.sleep(1)
            used = cpu_seconds(pid) - used
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            assert "devices" in json.loads(client.makefile("rb").readline())
    assert used < 0.5, "seconds of CPU in a second of waiting"
