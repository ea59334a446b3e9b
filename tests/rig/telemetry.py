# SPDX-License-Identifier: BSD-3-Clause
"""A client of a DPDK program's telemetry socket."""

import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

RUNTIME = Path("/var/run/dpdk")  # where EAL of a privileged program keeps its folders


class Telemetry:
    """A connection to the program that was started with this --file-prefix; closing it removes the program's
    folder, as EAL leaves it behind."""

    def __init__(self, prefix: str) -> None:
        self.folder = RUNTIME / prefix
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        self.socket.connect(str(self.folder / "dpdk_telemetry.v2"))
        self.greeting = self._receive()

    def ask(self, command: str, *parameters: object) -> Any:
        """The answer; None if the command refuses the parameters."""
        self.socket.send(",".join([command, *map(str, parameters)]).encode())
        return self._receive()[command]

    def close(self) -> None:
        self.socket.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _receive(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.socket.recv(1 << 20))
        return answer


def own_prefix(name: str) -> str:
    """A --file-prefix that no other program has."""
    return f"{name}{os.getpid()}"
