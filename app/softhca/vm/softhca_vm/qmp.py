# SPDX-License-Identifier: BSD-3-Clause
"""QEMU's machine protocol, as far as a guest needs it."""
from __future__ import annotations

import array
import json
import socket
from typing import Any

from softhca_vm.errors import VmError


class Qmp:
    """Not thread-safe."""

    def __init__(self, connection: socket.socket, timeout: float = 120) -> None:
        self._connection = connection
        self._connection.settimeout(timeout)
        self._lines = connection.makefile("r")
        self._events: list[dict[str, Any]] = []
        self._next()  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, *, descriptor: int | None = None, **arguments: Any) -> Any:
        """`descriptor` goes along (getfd). Names have - for _."""
        words = {name.replace("_", "-"): value for name, value in arguments.items()}
        data = json.dumps({"execute": command, "arguments": words}).encode() + b"\n"
        rights = [] if descriptor is None else [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        self._connection.sendmsg([data], rights)
        while True:
            message = self._next()
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise VmError(f"QEMU refused {command} {words}: {message['error']['desc']}")
            self._events.append(message)

    def wait_event(self, name: str, **data: Any) -> None:
        """Waits for an event with these data."""

        def wanted(message: dict[str, Any]) -> bool:
            return message.get("event") == name and data.items() <= message["data"].items()

        while True:
            for index, message in enumerate(self._events):
                if wanted(message):
                    del self._events[index]
                    return
            self._events.append(self._next())

    def _next(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except OSError as error:
            raise VmError(f"QEMU does not answer ({error})") from None
        if not line:
            raise VmError("QEMU has ended")
        message: dict[str, Any] = json.loads(line)
        return message
