# SPDX-License-Identifier: BSD-3-Clause
"""Private namespaces for the demo: whatever happens to it, the kernel cleans up everything.

The outer process forks an inner one that is process 1 of a new PID namespace, with its own mounts
and network. When process 1 ends, or the outer one is killed, the kernel kills every process inside.
The interfaces, the namespaces and the files in the private /dev/shm disappear with the last of them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, Sequence

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

# A tmpfs of the demo's own is mounted here: run-time files vanish with the namespace.
PRIVATE_DIR = Path("/dev/shm")

_libc = ctypes.CDLL(None, use_errno=True)


class NamespaceError(RuntimeError):
    """The kernel refused a namespace; the text says what to do."""


def _check(result: int, what: str) -> None:
    if result == 0:
        return
    error = os.strerror(ctypes.get_errno())
    raise NamespaceError(
        f"{what}: {error}. The demo needs private namespaces: run it as root, or on a kernel that"
        " gives them to users (sysctl kernel.unprivileged_userns_clone=1,"
        " user.max_user_namespaces>0); in a container, start that one with --privileged."
    )


def run_inside(main: Callable[[], int], private_network: bool = True) -> int:
    """Runs `main` as process 1 of new namespaces and returns its exit status.

    SIGINT and SIGTERM to this process reach `main` as KeyboardInterrupt, once.
    """
    flags = CLONE_NEWPID | CLONE_NEWNS | (CLONE_NEWNET if private_network else 0)
    uid, gid = os.getuid(), os.getgid()
    if os.geteuid() != 0:
        if not private_network:
            raise NamespaceError("moving real interfaces to namespaces needs root: use sudo")
        flags |= CLONE_NEWUSER
    _check(_libc.unshare(flags), "cannot make namespaces")
    if flags & CLONE_NEWUSER:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")

    parent_alive, keep = os.pipe()
    inner = os.fork()
    if inner == 0:
        os.close(keep)
        status = _inner(main, parent_alive)
        sys.stdout.flush()  # _exit does not
        os._exit(status)
    os.close(parent_alive)
    return _wait_for_inner(inner)


def _inner(main: Callable[[], int], parent_alive: int) -> int:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.set_blocking(parent_alive, False)
    try:
        if os.read(parent_alive, 1) == b"":
            return 1  # the parent had died before prctl
    except BlockingIOError:
        pass
    os.setpgid(0, 0)  # Ctrl-C reaches us through the parent only, once
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _private_mounts()
        status = main()
    except NamespaceError as error:
        print(f"demo: {error}")
        status = 1
    except KeyboardInterrupt:
        status = 130
    return status


def _private_mounts() -> None:
    ms_rec_private, ms_nosuid_nodev_noexec = (1 << 14) | (1 << 18), 2 | 4 | 8
    _check(_libc.mount(b"none", b"/", None, ms_rec_private, None), "cannot make mounts private")
    _check(
        _libc.mount(b"proc", b"/proc", b"proc", ms_nosuid_nodev_noexec, None), "cannot mount /proc"
    )
    target = str(PRIVATE_DIR).encode()
    _check(
        _libc.mount(b"tmpfs", target, b"tmpfs", ms_nosuid_nodev_noexec, b"mode=1777"),
        f"cannot mount a private {PRIVATE_DIR}",
    )


def _wait_for_inner(inner: int) -> int:
    def forward(number: int, _frame: object) -> None:
        os.kill(inner, number)

    signal.signal(signal.SIGINT, forward)
    signal.signal(signal.SIGTERM, forward)
    _, status = os.waitpid(inner, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


class NetworkNamespace:
    """A network namespace that lives as long as its holder process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"],
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            raise NamespaceError(f"cannot make the network namespace {name}")

    @property
    def pid(self) -> int:
        return self._holder.pid

    def wrap(self, command: Sequence[str]) -> list[str]:
        """The command, wrapped to run inside."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *command]

    def run(self, *command: str, timeout: float = 30) -> str:
        return run(*self.wrap(command), timeout=timeout)

    def take(self, interface: str) -> None:
        """Moves an interface of the current namespace in here."""
        run("ip", "link", "set", interface, "netns", str(self.pid))


def run(*command: str, timeout: float = 30) -> str:
    """Runs a command that must succeed; returns its output."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if result.returncode:
        text = (result.stderr or result.stdout).strip()
        raise RuntimeError(f"{' '.join(command)}: {text or f'status {result.returncode}'}")
    return result.stdout
