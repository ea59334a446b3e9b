# SPDX-License-Identifier: BSD-3-Clause
"""testpmd in the guest, on ports that are plugged in for it: the kernel front of Stack."""

import signal
from pathlib import Path
from typing import Mapping, Sequence

from .guest import Guest
from .guest_hca import GuestPorts
from .ports import PortSpec
from .stack_base import StackBase
from .testpmd import Testpmd


class GuestStack(GuestPorts, StackBase):
    """`pmd` is "rawqp" (ours) or "mlx5" (DPDK's own net_mlx5)."""

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
        """As for Stack. `user`: a command prefix that changes the user of testpmd; `devices`: a shell command
        run before it. `prefix`, which gives a Stack its own network, is ignored: the guest has its own."""
        self.datapath = datapath
        self._pmd, self._pmd_devargs = pmd, pmd_devargs
        super().__init__(guest, folder, ports)
        try:
            if devices:
                self.guest.run(devices)
            used = range(len(ports) if attach is None else attach)
            # One CPU: the kernel switches threads every few milliseconds, whereas QEMU would alternate
            # between CPUs every tenth of a second.
            testpmd = self.testpmd_command("0@(0),1@(0)", memory_mb, pmd, pmd_devargs, used,
                                           eal_args, testpmd_args)
            self._command = [*user, *testpmd]
            self._env = env
            self.start_testpmd()
        except BaseException:
            self.close()
            raise

    def start_testpmd(self) -> None:
        """May be called again when the previous one has ended."""
        self.start_program(self._command, self._env)
        self.testpmd = Testpmd(self.program)

    def fail_command(self, port: int, error: str, number: int) -> None:
        """The command does not reach the kernel: strace answers instead. It counts per thread."""
        folder = f"/sys/bus/pci/devices/{self.pci_address(port)}/infiniband_verbs"
        file = "/dev/infiniband/" + self.guest.run(["ls", folder]).strip()
        self._tracer = self.guest.start(
            ["strace", "--attach", str(self.program.pid), "--follow-forks", "--trace-path", file,
             "-e", "trace=ioctl", "-e", f"inject=ioctl:error={error}:when={number + 1}"],
            self.folder / "strace.log")
        self._tracer.wait_for("attached")

    def fail_no_more(self, port: int) -> bool:
        self._tracer.signal(signal.SIGINT)
        self._tracer.wait()
        return "(INJECTED)" not in self._tracer.output

    def open_files(self) -> list[str]:
        shown = self.guest.run(["find", f"/proc/{self.program.pid}/fd", "-type", "l", "-printf",
                                r"%l\n"])
        return shown.splitlines()

    def device_text(self, index: int) -> str:
        """The argument of `port attach` for the stack's driver on this port."""
        ours = self._pmd == "rawqp"
        return self.vdev(index) if ours else self.pci_devargs(index, self._pmd_devargs)

    def real_time_ns(self) -> int:
        return int(self.guest.run(["date", "+%s%N"]))

    def finish(self) -> None:
        """Ends testpmd normally, gives the ports back, and checks that everything was cleaned up."""
        try:
            if not self.abandoned:
                status = self.testpmd.quit(30)
                assert status == 0, f"testpmd ended with status {status}, log: {self.program.log}"
                self.give_ports_back()
            self.guest.check_alarms()
        finally:
            self.close()
