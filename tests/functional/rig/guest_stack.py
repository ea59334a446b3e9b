# SPDX-License-Identifier: BSD-3-Clause
"""testpmd in the guest, on ports that are plugged in for it: the kernel front of Stack."""

import signal
from pathlib import Path
from typing import Any, Mapping, Sequence

from .guest import PATIENCE, Guest, GuestPort
from .ports import PortSpec
from .stack_base import StackBase
from .testpmd import Testpmd
from .wire import SocketWire


class GuestStack(StackBase):
    """`pmd` is "rawqp" (ours) or "mlx5" (DPDK's own net_mlx5)."""

    patience = PATIENCE

    def __init__(
        self,
        guest: Guest,
        folder: Path,
        ports: Sequence[PortSpec],
        *,
        pmd: str = "rawqp",
        datapath: str = "auto",
        pmd_devargs: str = "",
        attach: int | None = None,
        testpmd_args: Sequence[str] = (),
        eal_args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        user: Sequence[str] = (),
        devices: str = "",
        prefix: Sequence[str] = (),
        memory_mb: int = 256,
    ) -> None:
        """As Stack's. `user`: a command before testpmd that changes who runs it; `devices`: a
        shell command before it. `prefix`, which gives a Stack a network of its own, has no meaning:
        the guest is one."""
        self.guest = guest
        self.folder = folder
        self.ports = list(ports)
        self.datapath = datapath
        self._pmd, self._pmd_devargs = pmd, pmd_devargs
        self.abandoned = False
        self._starts = 0
        self.wires: list[SocketWire] = []
        self.functions: list[GuestPort] = []
        try:
            self._plug_all()
            if devices:
                self.guest.run(devices)
            used = range(len(ports) if attach is None else attach)
            # One CPU: the kernel then shares it in milliseconds, where QEMU would take turns
            # between CPUs of a tenth of a second.
            testpmd = self.testpmd_command("0@(0),1@(0)", memory_mb, pmd, pmd_devargs, used,
                                           eal_args, testpmd_args)
            self._command = [*user, *testpmd]
            self._env = {"LD_LIBRARY_PATH": str(guest.build_folder / "drivers/net/rawqp")}
            self._env |= env or {}
            self.start_testpmd()
        except BaseException:
            self.close()
            raise

    def start_testpmd(self) -> None:
        """Again, if the one before has ended."""
        self.abandoned = False
        self._starts += 1
        log = self.folder / f"output{self._starts}.log"
        self.program = self.guest.start(self._command, log, self._env)
        self.testpmd = Testpmd(self.program)

    def _plug_all(self) -> None:
        for index, port in enumerate(self.ports):
            wire = port.wire
            if wire == "socket":
                self.wires.append(SocketWire(self.folder / f"wire{index}", self.patience))
                self.wires[-1].record(self.folder / f"wire{index}.pcap")
                wire = self.wires[-1].spec
            self.functions.append(self.guest.plug(index, port, wire))
        self.guest.load_drivers()
        for function in self.functions:
            function.wait_until_ready()

    def device_name(self, index: int) -> str:
        return self.functions[index].name

    def pci_address(self, index: int) -> str:
        return self.functions[index].pci

    def device_text(self, index: int) -> str:
        """What `port attach` takes for the stack's driver on this port."""
        ours = self._pmd == "rawqp"
        return self.vdev(index) if ours else self.pci_devargs(index, self._pmd_devargs)

    def stat(self) -> dict[str, dict[str, Any]]:
        """As `softhca stat --json`, by device name."""
        return {function.name: function.stat() for function in self.functions}

    def counters(self, port: int = 0) -> dict[str, int]:
        counters: dict[str, int] = self.functions[port].stat()["counters"]
        return counters

    def in_network(self, *command: str) -> str:
        return self.guest.run(command)

    def set_link(self, port: int, up: bool) -> None:
        self.functions[port].set_link(up)

    def inject(self, port: int, command: str, status: int, skip: int = 0) -> None:
        """From now on this firmware command fails (status 0: works again), the first `skip` aside."""
        self.functions[port].control(cmd="inject", opcode=command, status=status, skip=skip)

    def abandon(self, how: signal.Signals) -> None:
        """Kills testpmd."""
        self.program.signal(how)
        self.program.wait()
        self.abandoned = True

    def repeat_line(self) -> str:
        return self.program.shell_line()

    def finish(self) -> None:
        """Ends testpmd in the regular way, takes the ports out, and checks that all left in good
        order."""
        try:
            if not self.abandoned:
                status = self.testpmd.quit(30)
                assert status == 0, f"testpmd ended with status {status}, log: {self.program.log}"
            self._unplug_all()
            self.guest.check_alarms()
        finally:
            self.close()

    def _unplug_all(self) -> None:
        while self.functions:
            function = self.functions.pop()
            if function.plugged:
                function.unplug()

    def close(self) -> None:
        """At once; may be called again."""
        if program := getattr(self, "program", None):
            program.close()
        try:
            if not self.guest.channel.ended:
                self._unplug_all()
        finally:
            while self.wires:
                self.wires.pop().close()
