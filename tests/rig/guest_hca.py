# SPDX-License-Identifier: BSD-3-Clause
"""A program in the guest on ports that are plugged in for it: the kernel front of SoftHca."""

import signal
from pathlib import Path
from typing import Any, Mapping, Sequence

from .guest import PATIENCE, Guest, GuestPort
from .guest_program import GuestProgram
from .ports import PortSpec
from .wire import SocketWire


class GuestPorts:
    """PCI functions with the far ends of their socket wires, and a program on top."""

    patience: float = PATIENCE
    program: GuestProgram

    def __init__(self, guest: Guest, folder: Path, ports: Sequence[PortSpec]) -> None:
        self.guest = guest
        self.folder = folder
        self.ports = list(ports)
        self.abandoned = False
        self._starts = 0
        self.functions: list[GuestPort] = guest.provide(ports, folder)
        self.wires: list[SocketWire] = [f.wire for f in self.functions if f.wire]

    def start_program(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """May be called again when the previous program has ended."""
        self.abandoned = False
        self._starts += 1
        log = self.folder / f"output{self._starts}.log"
        libraries = {"LD_LIBRARY_PATH": str(self.guest.build_folder / "drivers/net/rawqp")}
        self.program = self.guest.start(command, log, {**libraries, **(env or {})})

    def device_name(self, index: int) -> str:
        return self.functions[index].name

    def pci_address(self, index: int) -> str:
        return self.functions[index].pci

    def stat(self) -> dict[str, dict[str, Any]]:
        """The output of `softhca stat --json`, by device name."""
        return {function.name: function.stat() for function in self.functions}

    def counters(self, port: int = 0) -> dict[str, int]:
        counters: dict[str, int] = self.functions[port].stat()["counters"]
        return counters

    def in_network(self, *command: str) -> str:
        return self.guest.run(command)

    def read_text(self, path: Path) -> str:
        """A file that the program has written in the guest."""
        return self.guest.run(["cat", str(path)])

    def set_link(self, port: int, up: bool) -> None:
        self.functions[port].set_link(up)

    def inject(self, port: int, command: str, status: int) -> None:
        """Makes this firmware command fail from now on (status 0: succeed again)."""
        self.functions[port].control(cmd="inject", opcode=command, status=status)

    def break_queue(self, port: int, fault: str) -> None:
        """error_cqe:…, fatal:… or overrun:… of `softhca fault`."""
        self.functions[port].control(cmd="fault", device=self.functions[port].device_name,
                                     fault=fault)

    def dump(self, port: int = 0) -> dict[str, Any]:
        device: dict[str, Any] = self.functions[port].control(cmd="dump")["devices"][0]
        return device

    def device_process(self, port: int) -> int:
        pid: int = self.functions[port].device.process.pid
        return pid

    def sanitizer_reports(self) -> str:
        return ""  # not applicable in the guest

    def signal_program(self, number: int) -> None:
        self.program.signal(number)

    def abandon(self, how: signal.Signals) -> None:
        """Kills the program."""
        self.signal_program(how)
        self.program.wait()
        self.abandoned = True

    def repeat_line(self) -> str:
        return self.program.shell_line()

    def give_ports_back(self) -> None:
        """Called when the program has ended successfully."""
        functions, self.functions = self.functions, []
        self.guest.take_back(functions)

    def close(self) -> None:
        """Ends everything at once; may be called again."""
        if program := getattr(self, "program", None):
            program.close()
        while self.functions:
            function = self.functions.pop()
            if not self.guest.channel.ended:
                function.unplug()
            elif function.wire:
                function.wire.close()


class GuestHca(GuestPorts):
    """Any program, with device names as tests use them on the other front."""

    def __init__(self, guest: Guest, folder: Path, ports: Sequence[PortSpec],
                 program: Sequence[str], env: Mapping[str, str] | None = None,
                 prefix: Sequence[str] = ()) -> None:
        """`prefix`, a program that starts softhca, is ignored here."""
        super().__init__(guest, folder, ports)
        try:
            names = [function.name for function in self.functions]
            expected = [function.device_name for function in self.functions]
            assert names == expected, f"another stack has ports: these are {names}"
            self.start_program(program, env)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        program = getattr(self, "program", None)
        if self.functions and program and program.ended_well():
            self.give_ports_back()
        super().close()
