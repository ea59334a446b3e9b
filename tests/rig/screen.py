# SPDX-License-Identifier: BSD-3-Clause
"""A program's output, which can be waited for: the base of Program and GuestProgram."""

import re
import shlex
import threading
import time
from pathlib import Path
from typing import Callable, Sequence, TypeVar

T = TypeVar("T")

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x00")


class ProgramError(AssertionError):
    """A program did not do what was expected. The text ends with the program's last output."""


class Screen:
    """Keeps a program's output in memory and in a log.

    Thread-safe. `wait_for` wakes up as output arrives; nothing polls.
    """

    def __init__(
        self, command: Sequence[str], log: Path, name: str = "", patience: float = 1
    ) -> None:
        """`patience` multiplies all timeouts, for programs on slow machines."""
        self.command_line = list(command)
        self.name = name or Path(command[0]).name
        self.log = log
        self.patience = patience
        self._text = ""
        self._ended = False
        self._changed = threading.Condition()
        self._log_file = open(log, "w", encoding="utf-8")
        self._log_file.write(f"$ {self.shell_line()}\n")

    # -- for derived classes ----------------------------------------------------------------------

    def _show(self, chunk: bytes) -> None:
        text = _ESCAPES.sub("", chunk.decode("utf-8", "replace"))
        with self._changed:
            if self._ended:
                return
            self._text += text
            self._log_file.write(text)
            self._log_file.flush()
            self._changed.notify_all()

    def _end(self) -> None:
        """No more output."""
        with self._changed:
            self._ended = True
            self._log_file.close()
            self._changed.notify_all()

    def _type(self, data: bytes) -> None:
        """Passes input to the program; raises OSError if it is gone."""
        raise NotImplementedError

    # -- for tests --------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        raise NotImplementedError

    def wait(self, timeout: float = 20) -> int:
        """Waits for the end; returns the exit status (negative: killed by that signal)."""
        raise NotImplementedError

    def running(self) -> bool:
        raise NotImplementedError

    def signal(self, number: int) -> None:
        """Signals the program only, not its children."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the program by force. May be called again."""
        raise NotImplementedError

    def shell_line(self) -> str:
        return shlex.join(self.command_line)

    @property
    def output(self) -> str:
        """Everything written so far, without terminal escapes and carriage returns."""
        with self._changed:
            return self._text

    def send_line(self, line: str) -> int:
        """Types a line. Returns the position in `output` from which answers can come."""
        position = len(self.output)
        try:
            self._type(line.encode() + b"\n")
        except OSError as error:
            raise ProgramError(f"{self.name} has gone, cannot type {line!r} ({error}){self._tail()}")
        return position

    def wait_for(self, pattern: str, since: int = 0, timeout: float = 10) -> re.Match[str]:
        """Waits until `pattern` matches in the output after position `since`."""
        compiled = re.compile(pattern, re.MULTILINE)
        return self.wait_until(lambda text: compiled.search(text, since), repr(pattern), timeout)

    def wait_until(self, check: Callable[[str], T | None], what: str, timeout: float = 10) -> T:
        """Waits until `check` of the whole output returns a true value, and returns that."""
        timeout *= self.patience
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

    def _tail(self, lines: int = 30) -> str:
        last = "\n".join(self._text.splitlines()[-lines:])
        return f"\n  command: {self.shell_line()}\n  log: {self.log}\n--- last output ---\n{last}"
