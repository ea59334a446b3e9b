# SPDX-License-Identifier: BSD-3-Clause
"""The host's end of the agent: commands in the guest as objects (protocol: guest_agent.py)."""
from __future__ import annotations

import base64
import json
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Mapping, Sequence

from softhca_vm.errors import VmError

Output = Callable[[int, bytes], None]  # descriptor (1 or 2) and data


class Command:
    """A command in the guest. Thread-safe; `output` and `on_end` are called in the channel's thread,
    the latter once, also when the guest ends first. An OSError of `output` is a SIGPIPE of the
    command's."""

    def __init__(self, channel: Channel, number: int, argv: Sequence[str], output: Output,
                 on_end: Callable[[], None]) -> None:
        self.argv = list(argv)
        self.number = number
        self.late = False  # ended by its time limit
        self.refusal: OSError | None = None  # why it could not be started
        self._channel = channel
        self._output = output
        self._on_end = on_end
        self._status: int | None = None
        self._pid = 0

    @property
    def pid(self) -> int:
        """Its number in the guest."""
        self._channel.wait_for(lambda: self._pid or self._status is not None, "the start", 30)
        return self._pid

    def write(self, data: bytes) -> None:
        if data:
            self._channel.send(op="stdin", id=self.number, data=base64.b64encode(data).decode())

    def close_input(self) -> None:
        self._channel.send(op="stdin", id=self.number)

    def signal(self, number: int, group: bool = False) -> None:
        """To the command only, or to all of its process group."""
        self._channel.send(op="signal", id=self.number, number=int(number), group=group)

    @property
    def status(self) -> int | None:
        """None while it runs; negative: killed by that signal."""
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises OSError if it could not be started, VmError if it takes longer
        or the guest ends."""
        self._channel.wait_for(lambda: self._status is not None, f"end of {self.argv}", timeout)
        if self.refusal:
            raise self.refusal
        assert self._status is not None
        return self._status

    # Called by the channel.

    def on_output(self, descriptor: int, data: bytes) -> None:
        try:
            self._output(descriptor, data)
        except OSError:  # nobody takes it: as with a pipe whose reader has gone
            with suppress(VmError):  # the guest has gone as well
                self.signal(signal.SIGPIPE, group=True)

    def on_start(self, pid: int) -> None:
        self._pid = pid

    def end(self, status: int, late: bool, refusal: OSError | None = None) -> None:
        self.late, self.refusal = late, refusal
        self._status = status
        self._on_end()

    def abandon(self) -> None:
        """The guest has ended before it."""
        self._on_end()


class Channel:
    """One per guest. A thread reads; everybody may send."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._commands: dict[int, Command] = {}
        self._next = 1
        self._ready = 0
        self._failure = ""
        self._ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return self._ended

    def set_up(self, timeout: float, **settings: Any) -> None:
        """Waits for the agent and prepares the guest."""
        self.wait_for(lambda: self._ready >= 1, "the guest's agent", timeout)
        self.send(op="setup", **settings)
        self.wait_for(lambda: self._ready >= 2 or self._failure, "the guest's set-up", timeout)
        if self._failure:
            raise VmError(f"the guest could not be set up: {self._failure}")

    def start(self, argv: Sequence[str], output: Output, *, env: Mapping[str, str] | None = None,
              cwd: str | None = None, tty: bool = False, console: bool = False,
              limit: float | None = None, on_end: Callable[[], None] = lambda: None) -> Command:
        """`limit`: seconds until the guest ends the command and all of its process group."""
        with self._changed:
            command = Command(self, self._next, argv, output, on_end)
            self._commands[command.number] = command
            self._next += 1
        self.send(op="start", id=command.number, argv=command.argv, env=dict(env or {}), cwd=cwd,
                  tty=tty, console=console, limit=limit)
        return command

    def power_off(self) -> None:
        try:
            self.send(op="poweroff")
        except VmError:
            pass  # it is off

    def send(self, **message: Any) -> None:
        with self._sending:
            try:
                self._connection.sendall(json.dumps(message).encode() + b"\n")
            except OSError as error:
                raise VmError(f"the guest is gone ({error})") from None

    def wait_for(self, check: Callable[[], Any], what: str, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not check():
                if self._ended:
                    raise VmError(f"the guest ended before {what} came")
                left = None if deadline is None else deadline - time.monotonic()
                if not self._changed.wait(left):
                    raise VmError(f"{what} did not come within {timeout:g} s")

    def close(self) -> None:
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join(5)
        self._connection.close()

    def _read(self) -> None:
        received = b""
        while True:
            try:
                data = self._connection.recv(1 << 18)
            except OSError:
                data = b""
            if not data:
                break
            *lines, received = (received + data).split(b"\n")
            for line in lines:
                self._handle(json.loads(line))
        with self._changed:
            self._ended = True
            for command in self._commands.values():
                command.abandon()
            self._changed.notify_all()

    def _handle(self, message: dict[str, Any]) -> None:
        event = message["event"]
        command = self._commands.get(message.get("id") or 0)
        if event == "output" and command:
            command.on_output(message["fd"], base64.b64decode(message["data"]))
            return
        with self._changed:
            if event == "ready":
                self._ready += 1
            elif event == "started" and command:
                command.on_start(message["pid"])
            elif event == "exit" and command:
                del self._commands[command.number]
                command.end(message["status"], message["late"])
            elif event == "error" and command:
                del self._commands[command.number]
                command.end(127, False, OSError(message["errno"], message["text"]))
            elif event == "error":
                self._failure = message["text"]
            self._changed.notify_all()
