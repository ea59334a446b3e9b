# SPDX-License-Identifier: BSD-3-Clause
"""A child program that never outlives us, and whose output can be waited for."""

import ctypes
import os
import pty
import select
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Iterable, Mapping, Sequence

from .screen import ProgramError, Screen

# A prefix of programs that cannot start threads: no address space has room for such a stack.
NO_THREADS = ["prlimit", f"--stack={1 << 47}"]

# testpmd echoes commands with a few system calls for each character. Whoever wakes up for each of them uses more CPU
# time than testpmd, so output gathers for a moment after a few bytes.
FEW = 1024
GATHERING_S = 0.0005

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(death_signal: int = signal.SIGTERM) -> Callable[[], None]:
    """A preexec function: the kernel sends `death_signal` to the child when we die in any way."""
    parent = os.getpid()

    def prepare() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before prctl took effect
            os._exit(1)

    return prepare


def wait_for_end(pid_fds: Iterable[int], timeout: float = 20) -> None:
    """Waits for the end of all these processes (os.pidfd_open), and closes the descriptors."""
    waiting = set(pid_fds)
    while waiting:
        ended, _, _ = select.select(waiting, [], [], timeout)
        if not ended:
            raise ProgramError(f"{len(waiting)} processes are still alive after {timeout} s")
        waiting -= set(ended)
        for pid_fd in ended:
            os.close(pid_fd)


class Program(Screen):
    """A process of this machine. Its output goes through a terminal, so that it flushes each line."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        name: str = "",
        death_signal: int = signal.SIGTERM,
    ) -> None:
        super().__init__(command, log, name)
        self._closed = False
        master, slave = pty.openpty()
        try:
            self._process = subprocess.Popen(
                self.command_line,
                stdin=subprocess.PIPE,
                stdout=slave,
                stderr=slave,
                env=None if env is None else {**os.environ, **env},
                start_new_session=True,
                # Our own descriptors are close-on-exec anyway. Those that a parent softhca passes to its
                # program (TAPs) are inherited.
                close_fds=False,
                preexec_fn=die_with_parent(death_signal),
            )
        except OSError:
            os.close(master)
            self._end()
            raise
        finally:
            os.close(slave)
        self._reader = threading.Thread(target=self._read, args=(master,), daemon=True)
        self._reader.start()

    def _read(self, master: int) -> None:
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # EIO: the last writer has closed its end
                chunk = b""
            if not chunk:
                self._end()
                os.close(master)
                return
            self._show(chunk)
            if len(chunk) < FEW:
                time.sleep(GATHERING_S)

    def _type(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, timeout: float = 20) -> int:
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ProgramError(f"{self.name} did not end within {timeout} s{self._tail()}") from None
        self._reader.join(5)
        return status

    def running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self, grace: float = 5) -> None:
        """Ends the program and everything that it started, by force if it takes longer than `grace`.

        May be called again.
        """
        if self._closed:
            return
        self._closed = True
        if self._process.stdin and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except OSError:
                pass
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.running():
                break
            self._kill_group(number)
            try:
                self._process.wait(grace)
            except subprocess.TimeoutExpired:
                pass
        self._kill_group(signal.SIGKILL)  # processes that the program left in its session
        self._reader.join(5)

    def _kill_group(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass
