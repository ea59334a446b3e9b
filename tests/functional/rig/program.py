# SPDX-License-Identifier: BSD-3-Clause
"""A child program whose output can be waited for, and that never outlives us."""

import ctypes
import os
import pty
import re
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Mapping, Sequence, TypeVar

T = TypeVar("T")

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x00")


def die_with_parent(death_signal: int = signal.SIGTERM) -> Callable[[], None]:
    """A preexec function: the kernel sends `death_signal` to the child when we die, however we do."""
    parent = os.getpid()

    def prepare() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:  # died before prctl took effect
            os._exit(1)

    return prepare


class ProgramError(AssertionError):
    """A program did not do what was waited for. The text ends with the program's last output."""


class Program:
    """Output goes through a terminal (so that the program flushes each line) into a log and memory.

    Thread-safe. `wait_for` wakes up as output arrives; nothing polls.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        name: str = "",
        death_signal: int = signal.SIGTERM,
    ) -> None:
        self.command_line = list(command)
        self.name = name or Path(command[0]).name
        self.log = log
        self._text = ""
        self._ended = False
        self._closed = False
        self._changed = threading.Condition()
        master, slave = pty.openpty()
        self._log_file = open(log, "w", encoding="utf-8")
        self._log_file.write(f"$ {self.shell_line()}\n")
        try:
            self._process = subprocess.Popen(
                self.command_line,
                stdin=subprocess.PIPE,
                stdout=slave,
                stderr=slave,
                env=None if env is None else {**os.environ, **env},
                start_new_session=True,
                # Descriptors of ours are close-on-exec anyway. Those that a softhca above us meant
                # for its program (TAPs) pass through.
                close_fds=False,
                preexec_fn=die_with_parent(death_signal),
            )
        except OSError:
            os.close(master)
            self._log_file.close()
            raise
        finally:
            os.close(slave)
        self._reader = threading.Thread(target=self._read, args=(master,), daemon=True)
        self._reader.start()

    def shell_line(self) -> str:
        return shlex.join(self.command_line)

    def _read(self, master: int) -> None:
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # EIO: the last writer has closed its end
                chunk = b""
            with self._changed:
                if chunk:
                    text = _ESCAPES.sub("", chunk.decode("utf-8", "replace"))
                    self._text += text
                    self._log_file.write(text)
                    self._log_file.flush()
                else:
                    self._ended = True
                    self._log_file.close()
                self._changed.notify_all()
            if not chunk:
                os.close(master)
                return

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        """Everything written so far, without terminal escapes and carriage returns."""
        with self._changed:
            return self._text

    def send_line(self, line: str) -> int:
        """Types a line. Returns the position in `output` from which answers can come."""
        assert self._process.stdin is not None
        position = len(self.output)
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ProgramError(f"{self.name} has gone, cannot type {line!r} ({error}){self._tail()}")
        return position

    def wait_for(self, pattern: str, since: int = 0, timeout: float = 10) -> re.Match[str]:
        """Waits until `pattern` stands in the output after position `since`."""
        compiled = re.compile(pattern, re.MULTILINE)
        return self.wait_until(lambda text: compiled.search(text, since), repr(pattern), timeout)

    def wait_until(self, check: Callable[[str], T | None], what: str, timeout: float = 10) -> T:
        """Waits until `check` of the whole output gives something true, and returns that."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                if result := check(self._text):
                    return result
                if self._ended:
                    raise ProgramError(f"{self.name} ended before {what} came{self._tail()}")
                if not self._changed.wait(deadline - time.monotonic()):
                    raise ProgramError(
                        f"{self.name}: {what} did not come within {timeout} s{self._tail()}"
                    )

    def wait(self, timeout: float = 20) -> int:
        """Waits for the end; returns the exit status (negative: killed by that signal)."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ProgramError(f"{self.name} did not end within {timeout} s{self._tail()}") from None
        self._reader.join(5)
        return status

    def running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """To the program only, not to its children."""
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
        self._kill_group(signal.SIGKILL)  # what the program left behind in its session
        self._reader.join(5)

    def _kill_group(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _tail(self, lines: int = 30) -> str:
        last = "\n".join(self._text.splitlines()[-lines:])
        return f"\n  command: {self.shell_line()}\n  log: {self.log}\n--- last output ---\n{last}"
