# SPDX-License-Identifier: BSD-3-Clause
"""A process that plays one PCI function of the guest: softhca-pci."""
from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from softhca_vm.errors import VmError
from softhca_vm.process import die_with_parent


START_LIMIT_S = 60


def find_program() -> Path:
    """softhca-pci of the build folder or of the installation that this file belongs to."""
    home = Path(__file__).resolve().parents[1]
    for candidate in (home.parent / "pci/softhca-pci", home.parents[1] / "bin/softhca-pci"):
        if os.access(candidate, os.X_OK):
            return candidate
    raise VmError("softhca-pci is not built: scripts/setup installs what it needs "
                  "(linux-headers-amd64) and builds it")


class Device:
    """Two transports carry what the guest does with it. By vfio-user, QEMU connects to a socket of
    the device's. By x-pci-proxy-dev, `qemu_end` is QEMU's end of the connection: close it when QEMU
    has it."""

    def __init__(self, folder: Path, number: int, slot: int, port: str, qtest: Path | None) -> None:
        """`port`: as `softhca --port`. `qtest`: where it can inject interrupts, which only
        x-pci-proxy-dev needs; None: by vfio-user."""
        self.name = name = f"nic{number}"
        self.slot = slot
        self.pci_address = f"0000:00:{slot:02x}.0"  # in the guest
        self.log = folder / f"{name}.log"
        self.control_path = folder / f"{name}.control"
        self.control_path.unlink(missing_ok=True)  # of an earlier run
        self._serves = [self.control_path]
        self.qemu_end: socket.socket | None = None
        command = [str(find_program()), "--control", str(self.control_path), "--port", port]
        if qtest is None:
            self._socket_path = folder / f"{name}.vfio-user"
            self._socket_path.unlink(missing_ok=True)
            self._serves.append(self._socket_path)
            self._start([*command, "--vfio-user", str(self._socket_path)])
        else:
            self.qemu_end, device_end = socket.socketpair()
            with device_end:
                number = device_end.fileno()
                self._start([*command, "--fd", str(number), "--qtest", str(qtest)], number)
        self._wait_until_serving()

    def _start(self, command: list[str], *descriptors: int) -> None:
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, pass_fds=descriptors, stderr=log, stdout=log,
                                            stdin=subprocess.DEVNULL, preexec_fn=die_with_parent(),
                                            start_new_session=True)  # it has no part in Ctrl-C

    def qemu_device(self, descriptor: int | str = "") -> dict[str, Any]:
        """What makes it a device of QEMU: for -device and device_add. `descriptor`: number or name
        that QEMU has `qemu_end` by."""
        where = {"id": self.name, "addr": f"{self.slot:#x}"}
        if self.qemu_end:
            return {"driver": "x-pci-proxy-dev", **where, "fd": str(descriptor)}
        return {"driver": "vfio-user-pci", **where,
                "socket": {"type": "unix", "path": str(self._socket_path)}}

    def taken(self) -> None:
        """QEMU has its end."""
        if self.qemu_end:
            self.qemu_end.close()

    def _wait_until_serving(self) -> None:
        """Its sockets are there, or it ended: a wrong port, say."""
        deadline = time.monotonic() + START_LIMIT_S
        while not all(path.exists() for path in self._serves):
            try:
                self.process.wait(0.02)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
                self.process.kill()
            self.taken()
            reason = self.log.read_text(errors="replace").strip() or "it did not start in time"
            raise VmError(reason)

    def control(self, timeout: float = 10, **request: Any) -> dict[str, Any]:
        """One request to the device (app/softhca/control/protocol.hpp); raises on its error."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            try:
                connection.connect(str(self.control_path))
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile() as answers:
                    line = answers.readline()
            except OSError as error:
                raise VmError(f"device {self.name} does not answer ({error}); its log is "
                              f"{self.log}") from None
        if not line:
            raise VmError(f"device {self.name} closed its control socket; its log is {self.log}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise VmError(f"device {self.name} refused {request}: {answer['error']}")
        return answer

    def failure(self) -> str:
        """Empty while it runs or if it ended well."""
        status = self.process.poll()
        if not status:
            return ""
        return f"device {self.name} ended with {status}:\n{self.log.read_text(errors='replace')}"

    def close(self) -> None:
        self.taken()
        try:
            self.process.wait(3)  # it ends by itself when QEMU is gone
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
