# SPDX-License-Identifier: BSD-3-Clause
"""Boots and ends guests: QEMU with one device process per PCI function."""
from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Sequence

from softhca_vm import initramfs
from softhca_vm.channel import Channel
from softhca_vm.device import Device
from softhca_vm.errors import TimeLimit, VmError
from softhca_vm.kernel import Kernel
from softhca_vm.process import die_with_parent
from softhca_vm.qmp import Qmp
from softhca_vm.relay import InterruptRelay

QEMU = "qemu-system-x86_64"
SLOTS = range(0x10, 0x20)  # on the PCI bus
BOOT_LIMIT_S = 240
MOST_FOLDER_BYTES = 107 - len("/nic15.vfio-user")  # 107: the longest path of a socket
KERNEL_ARGUMENTS = (
    "console=ttyS0 panic=-1 mitigations=off tsc=nowatchdog "
    # An emulated CPU stands still when the machine is busy: that is not the kernel's fault. A real
    # lock-up still shows, after two minutes.
    "no_timer_check watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120"
)
# Seen with 10.0; 7.2 does not.
NO_TRANSPORT = ("this QEMU crashes with x-pci-proxy-dev where there is no KVM, and has no "
                "vfio-user-pci: install QEMU 10.1 or later (on Debian 13, with trixie-backports among the package "
                "sources: apt install -t trixie-backports qemu-system-x86)")


def offers_vfio_user() -> bool:
    """Whether the QEMU at hand has vfio-user-pci (10.1 and later). Otherwise x-pci-proxy-dev is
    used, which needs help with interrupts."""
    asked = subprocess.run([QEMU, "-device", "vfio-user-pci,help"], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, check=False)
    return "socket=" in asked.stdout  # the status is 0 in either case


@dataclass
class Settings:
    """What a guest is made of."""

    folder: Path  # logs and sockets; its path has MOST_FOLDER_BYTES at most
    ports: Sequence[str] = ()  # as `softhca --port`; one PCI function each
    memory: str = "1G"
    cpus: int = 1
    limit_s: int = 600  # of the machine's life
    shares: Sequence[Path] = ()  # folders that the guest may write to, at the same path
    console: bool = False  # the serial console is our terminal, not a log
    log_level: int = 5  # of kernel messages on the console
    environment: dict[str, str] = field(default_factory=dict)


class Machine:
    """A running guest. Closing it ends everything; logs stay in the folder."""

    def __init__(self, settings: Settings, provide_kernel: Callable[[], Kernel], cache: Path) -> None:
        """`provide_kernel` may have to fetch it: what can be refused at once comes first."""
        if shutil.which(QEMU) is None:
            raise VmError(f"{QEMU} is not installed (apt install qemu-system-x86)")
        self.settings = settings
        self.vfio_user = offers_vfio_user()
        self.console_log = settings.folder / "console.log"
        self.qemu_log = settings.folder / "qemu.log"
        self.devices: list[Device] = []
        self._started = 0
        self._ours: list[socket.socket] = []
        self._closed = False
        if len(os.fsencode(settings.folder)) > MOST_FOLDER_BYTES:
            raise VmError(f"{settings.folder}: too long for the sockets there; --log (or TMPDIR) "
                          f"names a folder whose path has {MOST_FOLDER_BYTES} bytes at most")
        settings.folder.mkdir(parents=True, exist_ok=True)
        self._qtest_path = settings.folder / "qtest"
        self._qtest_path.unlink(missing_ok=True)
        agent, agent_end = socket.socketpair()
        qmp, qmp_end = socket.socketpair()
        qtest, qtest_end = socket.socketpair()
        self._relay = InterruptRelay(self._qtest_path, qtest)
        try:
            for port in settings.ports:
                self._start_device(port)
            self.kernel = provide_kernel()
            archive = initramfs.provide(cache, self.kernel)
            ends = [agent_end, qmp_end, qtest_end]
            self._process = self._start_qemu(archive, ends)
            self.channel = Channel(agent)
            for end in ends:
                end.close()
            for device in self.devices:
                device.taken()
            self.qmp = Qmp(qmp)
            self.channel.set_up(
                BOOT_LIMIT_S, modules=str(self.kernel.modules), release=self.kernel.release,
                hostname="softhca-vm",
                shares=[[f"share{n}", str(path)] for n, path in enumerate(settings.shares)])
        except BaseException as error:
            failure = self.explained(error) if isinstance(error, VmError) else error
            self.close()
            raise failure from None

    def _start_device(self, port: str) -> Device:
        used = {device.slot for device in self.devices}
        slot = min(set(SLOTS) - used, default=None)
        if slot is None:
            raise VmError(f"a guest has room for {len(SLOTS)} NICs")
        device = Device(self.settings.folder, self._started, slot, port,
                        None if self.vfio_user else self._qtest_path)
        self._started += 1
        self.devices.append(device)
        return device

    def _start_qemu(self, archive: Path, ends: list[socket.socket]) -> subprocess.Popen[bytes]:
        agent, qmp, qtest = (end.fileno() for end in ends)
        settings = self.settings
        console = str(self.console_log).replace(",", ",,")  # one would end the value
        serial = "stdio,signal=off" if settings.console else f"file,path={console}"
        command = [
            "timeout", "--foreground", "-k", "5", str(settings.limit_s), QEMU,
            # With several threads, QEMU 7.2 and a device process can wait for each other for ever.
            "-accel", "tcg,thread=single", "-cpu", "max", "-smp", str(settings.cpus),
            "-machine", "pc,memory-backend=memory", "-m", settings.memory,
            # The device reads and writes the guest's memory by itself.
            "-object", f"memory-backend-memfd,id=memory,size={settings.memory},share=on",
            "-nodefaults", "-nographic", "-no-reboot", "-no-user-config",
            "-kernel", str(self.kernel.image), "-initrd", str(archive),
            "-append", f"{KERNEL_ARGUMENTS} loglevel={settings.log_level}",
            "-virtfs", "local,path=/,mount_tag=hostroot,security_model=none,readonly=on,"
            "multidevs=remap",
            "-chardev", f"{serial},id=console", "-serial", "chardev:console",
            "-chardev", f"socket,id=agent,fd={agent}", "-device", "virtio-serial-pci",
            "-device", "virtserialport,chardev=agent,name=softhca.agent",
            "-chardev", f"socket,id=qmp,fd={qmp}", "-qmp", "chardev:qmp",
        ]
        if not self.vfio_user:
            command += ["-chardev", f"socket,id=qtest,fd={qtest}", "-qtest", "chardev:qtest",
                        "-qtest-log", "none"]
        for number, share in enumerate(settings.shares):
            path = str(share).replace(",", ",,")  # QEMU splits options at single commas
            command += ["-virtfs", f"local,path={path},mount_tag=share{number},"
                        "security_model=none,multidevs=remap"]
        descriptors = [agent, qmp, qtest]
        for device in self.devices:
            if device.qemu_end:
                descriptors.append(device.qemu_end.fileno())
            command += ["-device", json.dumps(device.qemu_device(descriptors[-1]))]
        with open(self.qemu_log, "wb") as log:
            # A terminal's signals are for the command in the guest: they end QEMU, as it takes them.
            return subprocess.Popen(
                command, pass_fds=descriptors, preexec_fn=die_with_parent(),
                start_new_session=not settings.console,
                stdin=None if settings.console else subprocess.DEVNULL,
                stdout=None if settings.console else log, stderr=log)

    def plug(self, port: str) -> Device:
        """Puts one more PCI function into the running guest."""
        device = self._start_device(port)
        try:
            if device.qemu_end:
                self.qmp.execute("getfd", descriptor=device.qemu_end.fileno(), fdname=device.name)
            self.qmp.execute("device_add", **device.qemu_device(device.name))
        except VmError as error:
            raise self.explained(error) from None
        device.taken()
        return device

    def free_slots(self) -> int:
        return len(SLOTS) - len(self.devices)

    def unplug(self, device: Device) -> None:
        """Takes a function out of the running guest; returns when the guest has let go. By
        vfio-user its slot is lost: QEMU (11.1) ends by an assertion of its own when it has to
        remove such a device, so that it stays, and no driver may have it any more."""
        if self.vfio_user:
            function = f"/sys/bus/pci/devices/{device.pci_address}"
            script = (f"cd {function} && echo none >driver_override && {{ [ ! -e driver ] ||"
                      f" echo {device.pci_address} >driver/unbind; }}")
            command = self.channel.start(["sh", "-c", script], lambda *_: None, limit=60)
            if status := command.wait(90):
                raise VmError(f"the guest does not let go of {device.name} (status {status})")
            return
        self.qmp.execute("device_del", id=device.name)
        self.qmp.wait_event("DEVICE_DELETED", device=device.name)
        self.devices.remove(device)
        device.close()

    def power_off(self, timeout: float = 30) -> None:
        """Raises VmError if the guest does not go."""
        self.channel.power_off()
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise VmError(f"the guest did not go off within {timeout:g} s") from None
        if status:
            raise self.explained(VmError("the guest ended badly"))

    def wait(self) -> int:
        """For the end of QEMU."""
        return self._process.wait()

    def explained(self, error: VmError) -> VmError:
        """The error with what the logs tell; TimeLimit if that was the cause."""
        if not hasattr(self, "_process"):
            return error  # QEMU has not been started
        kind = TimeLimit if self._status() in (124, 137) else VmError  # as timeout(1) ends
        return kind(f"{error}\n{self.explain()}")

    def _status(self) -> int | None:
        """QEMU's, as timeout(1) gives it; None while it runs."""
        if (process := getattr(self, "_process", None)) is None:
            return None
        if (channel := getattr(self, "channel", None)) and channel.ended:
            try:  # the channel ends a moment before the process
                process.wait(5)
            except subprocess.TimeoutExpired:
                pass
        status: int | None = process.poll()
        return status

    def close(self) -> None:
        """At once; may be called again."""
        if self._closed:
            return
        self._closed = True
        process = getattr(self, "_process", None)
        if process and process.poll() is None:
            process.terminate()  # timeout passes it on
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if channel := getattr(self, "channel", None):
            channel.close()
        for device in self.devices:
            device.close()
        self._qtest_path.unlink(missing_ok=True)

    def explain(self) -> str:
        """The last of what QEMU, the guest's console and the devices wrote."""
        parts = [f"QEMU: status {self._status()}"]
        if self._status() in (-signal.SIGSEGV, 128 + signal.SIGSEGV) and not self.vfio_user:
            parts.append(NO_TRANSPORT)
        parts += [failure for device in self.devices if (failure := device.failure())]
        for log in (self.qemu_log, self.console_log):
            if log.exists() and (text := log.read_text(errors="replace").strip()):
                parts.append(f"--- the end of {log}\n" + "\n".join(text.splitlines()[-15:]))
        return "\n".join(parts)
