# SPDX-License-Identifier: BSD-3-Clause
"""A program in the guest, with the same interface as one on this machine."""

import shlex
import signal
from pathlib import Path
from typing import Any, Mapping, Sequence

from .screen import ProgramError, Screen


class GuestProgram(Screen):
    def __init__(
        self,
        channel: Any,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None,
        limit: float,
        patience: float,
    ) -> None:
        """`channel`: softhca_vm.channel.Channel. The guest ends the program after `limit` s."""
        self._env = dict(env or {})
        super().__init__(command, log, patience=patience)
        self._command = channel.start(
            command, lambda _fd, data: self._show(data), env=env, tty=True, limit=limit,
            on_end=self._end,
        )

    def _type(self, data: bytes) -> None:
        self._command.write(data)

    @property
    def pid(self) -> int:
        """Its process ID in the guest."""
        pid: int = self._command.pid
        return pid

    def wait(self, timeout: float = 20) -> int:
        timeout *= self.patience
        try:
            status: int = self._command.wait(timeout)
        except Exception as error:  # raised by softhca_vm
            if not self.running():  # it could not be started
                raise
            raise ProgramError(f"{self.name} did not end within {timeout} s{self._tail()}") from error
        if self._command.late:
            raise ProgramError(f"{self.name} was ended by its time limit{self._tail()}")
        return status

    def running(self) -> bool:
        return self._command.status is None

    def ended_well(self) -> bool:
        return self._command.status == 0

    def signal(self, number: int) -> None:
        self._command.signal(number)

    def close(self) -> None:
        if self.running():
            self._command.signal(signal.SIGKILL, group=True)
            try:
                self._command.wait(20)
            except Exception:  # the guest is gone
                pass
        self._end()

    def shell_line(self) -> str:
        settings = [f"{name}={shlex.quote(value)}" for name, value in self._env.items()]
        return " ".join(["in the guest:", *settings, super().shell_line()])
