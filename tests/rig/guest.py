# SPDX-License-Identifier: BSD-3-Clause
"""The kernel front: programs, ports and stacks in a QEMU guest with an unmodified kernel.

One guest serves many tests; each stack has PCI functions of its own, which are plugged in for it.
"""

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from .guest_program import GuestProgram
from .packets import port_mac
from .ports import PortSpec, device_name
from .wire import SocketWire

# Programs run at about a tenth of the machine's speed, alternating with everything else.
PATIENCE = 4
MEMORY = "1536M"
MEMORY_POOLS = {"librte_mempool_ring", "librte_mempool_stack"}  # drivers of DPDK
# Kernel messages that indicate a problem with a driver or its device.
ALARMS = re.compile(
    r"WARNING:|\bBUG\b|Oops|Call Trace|hw csum failure|general protection|UBSAN|KASAN|"
    r"blocked for more than|soft lockup|leaked|refcount_t",
)


class GuestError(AssertionError):
    """The guest failed to do what a test needs."""


def load_vm(build_folder: Path) -> Any:
    """The package behind `softhca vm`: the built one, not another of the same name."""
    home = build_folder / "app/softhca/vm/softhca_vm"
    if "softhca_vm" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "softhca_vm", home / "__init__.py", submodule_search_locations=[str(home)])
        assert spec and spec.loader
        sys.modules["softhca_vm"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["softhca_vm"])
    importlib.import_module("softhca_vm.kernel")
    return importlib.import_module("softhca_vm.machine")


class Guest:
    """A booted guest. Ports come and go."""

    def __init__(
        self, build_folder: Path, folder: Path, *, limit_s: int = 600, shares: Sequence[Path] = ()
    ) -> None:
        self._vm = load_vm(build_folder)
        self.folder = folder
        self.build_folder = build_folder
        self._settings = self._vm.Settings(
            folder=folder, memory=MEMORY, limit_s=limit_s, shares=list(shares)
        )
        self.spares: list[GuestPort] = []  # by index
        self._boot()

    def _boot(self) -> None:
        kernel = sys.modules["softhca_vm.kernel"]
        cache = self.build_folder / "guest"
        self.machine = self._vm.Machine(self._settings, lambda: kernel.provide(cache), cache)
        self.channel = self.machine.channel
        self._alarms_seen = 0
        self.run("sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1")
        self._thin_out_plugins()

    def _boot_again(self) -> None:
        """Needed where unplugged ports keep their slots, which eventually run out."""
        self.check_alarms()
        self.machine.power_off()
        self.machine.close()
        self._boot()

    def _thin_out_plugins(self) -> None:
        """EAL loads every driver of the distribution, which takes seconds here. Keeps only those that testpmd is
        linked with, and the memory pools."""
        testpmd = shutil.which("dpdk-testpmd") or "dpdk-testpmd"
        linked = subprocess.run(["ldd", testpmd], check=True, capture_output=True, text=True).stdout
        libraries = [Path(path).resolve() for path in re.findall(r"=> (/\S+/librte_\S+)", linked)]
        folder = next(path.parent for path in libraries if path.name.startswith("librte_bus_vdev."))
        names = {path.name.split(".so")[0] for path in libraries if path.parent == folder}
        files = " ".join(f"{name}.so*" for name in sorted(names | MEMORY_POOLS))
        self.run(f"mkdir /run/plugins && cd {folder} && cp -P {files} /run/plugins &&"
                 f" mount --bind /run/plugins {folder}")

    # -- commands ---------------------------------------------------------------------------------

    def try_run(
        self,
        command: str | Sequence[str],
        timeout: float = 60,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes = b"",
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command (a string: by sh) as root. The guest enforces its time limit."""
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        outputs: dict[int, list[bytes]] = {1: [], 2: []}
        running = self.channel.start(
            argv, lambda fd, data: outputs[fd].append(data), env=env, cwd=cwd, limit=timeout
        )
        running.write(stdin)
        running.close_input()
        status = running.wait(timeout + 30)
        out, err = (b"".join(outputs[fd]).decode("utf-8", "replace") for fd in (1, 2))
        if running.late:
            raise GuestError(f"in the guest: not finished after {timeout} s: {argv}\n{out}{err}")
        return subprocess.CompletedProcess(argv, status, out, err)

    def run(self, command: str | Sequence[str], timeout: float = 60, **options: Any) -> str:
        """The output of a command that must succeed."""
        done = self.try_run(command, timeout, **options)
        if done.returncode:
            raise GuestError(
                f"in the guest: {done.args} ended with {done.returncode}\n"
                f"{done.stdout}{done.stderr}\n--- the end of dmesg\n{self.dmesg_tail()}"
            )
        return done.stdout

    def start(
        self,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        limit: float = 1800,
    ) -> GuestProgram:
        """Starts an interactive program. The guest ends it after `limit` seconds, in case no test does."""
        return GuestProgram(self.channel, command, log, env, limit, PATIENCE)

    # -- the kernel's log -------------------------------------------------------------------------

    def dmesg(self) -> str:
        return self.try_run(["dmesg"]).stdout

    def dmesg_tail(self, lines: int = 30) -> str:
        return "\n".join(self.dmesg().splitlines()[-lines:])

    def alarms(self) -> list[str]:
        """The kernel's complaints since the last call, with the lines that followed."""
        lines = self.dmesg().splitlines()
        new, self._alarms_seen = lines[self._alarms_seen :], len(lines)
        for index, line in enumerate(new):
            if ALARMS.search(line):
                return new[max(0, index - 2) : index + 40]
        return []

    def check_alarms(self) -> None:
        alarms = self.alarms()
        assert not alarms, "the kernel complained:\n" + "\n".join(alarms)

    # -- ports ------------------------------------------------------------------------------------

    def provide(self, ports: Sequence[PortSpec], folder: Path) -> list["GuestPort"]:
        """Ports with their drivers, preferably similar ones left by an earlier stack: plugging one in or out takes
        the guest seconds."""
        spares, self.spares = self.spares, []
        alike = 0
        while alike < min(len(ports), len(spares)) and spares[alike].is_like(alike, ports[alike]):
            alike += 1
        if alike < len(ports):
            for spare in spares[alike:]:
                spare.unplug()
        else:
            self.spares = spares[alike:]
        provided = spares[:alike]
        if not provided and self.machine.free_slots() < len(ports):
            self._boot_again()
        try:
            self._start_over(provided, folder)
            steer = any("steering_format" in port.options for port in ports[alike:])
            with self._without_roce(provided) if steer else nullcontext():
                for index in range(alike, len(ports)):
                    provided.append(self._plug_with_wire(index, ports[index], folder))
                if alike < len(ports):
                    self.load_drivers()
            for function in provided[alike:]:
                function.wait_until_ready()
        except BaseException:
            for function in provided:
                function.unplug()
            raise
        return provided

    @contextmanager
    def _without_roce(self, functions: list["GuestPort"]) -> Iterator[None]:
        """With software steering a port announces RoCE, which it does not support: it is switched off before
        mlx5_ib sees it, as doc/softhca.md describes."""
        bus, before = "/sys/bus/auxiliary", len(functions)
        self.run(f"echo 0 > {bus}/drivers_autoprobe")
        yield
        for function in functions[before:]:
            port = f"pci/{function.pci}"
            if "steering_format" in function.spec.options:
                self.wait_until(f"devlink dev param set {port} name enable_roce value false"
                                " cmode driverinit 2> /dev/null")
                self.run(["devlink", "dev", "reload", port], PATIENCE * 60)
        self.run(f"echo 1 > {bus}/drivers_autoprobe; for device in {bus}/devices/*; do"
                 f" [ -e $device/driver ] || echo ${{device##*/}} > {bus}/drivers_probe || true; done")

    def _start_over(self, functions: Sequence["GuestPort"], folder: Path) -> None:
        """Resets their netdevs in one command: starting a program in the guest takes a tenth of a second."""
        lines = [line for function in functions for line in function.start_over(folder)]
        if lines:
            self.run(["ip", "-batch", "-"], stdin="\n".join(lines).encode())
        for function in functions:
            function.count_from_here()

    def _plug_with_wire(self, index: int, port: PortSpec, folder: Path) -> "GuestPort":
        if port.wire != "socket":
            return self.plug(index, port, port.wire)
        wire = SocketWire(folder / f"wire{index}", PATIENCE)
        wire.record(folder / f"wire{index}.pcap")
        function = self.plug(index, port, wire.spec)
        function.wire = wire
        return function

    def take_back(self, functions: list["GuestPort"]) -> None:
        """Keeps intact ports for the next stack."""
        all_spares = [*functions, *self.spares]
        in_order = all(function.index == at for at, function in enumerate(all_spares))
        if in_order and all(f.may_stay() for f in functions):
            self.spares = all_spares
            return
        for function in functions:
            function.unplug()

    def drop_spares(self) -> None:
        while self.spares:
            self.spares.pop().unplug()

    def wait_until(self, condition: str, tries: int = 1000) -> None:
        """Waits until a shell command succeeds; it is tried up to 20 times a second."""
        self.run(f"for n in $(seq {tries}); do {condition} && exit; sleep 0.05; done; exit 1",
                 PATIENCE * 60)

    @contextmanager
    def hugepages(self, pages: int) -> Iterator[None]:
        """Provides hugepages of 2 MiB."""
        self.run(f"sysctl -qw vm.nr_hugepages={pages}")
        yield
        self.run("sysctl -qw vm.nr_hugepages=0")

    def load_drivers(self) -> None:
        self.run("modprobe mlx5_core && modprobe mlx5_ib && modprobe ib_uverbs", PATIENCE * 60)

    def unload_drivers(self) -> None:
        self.run("for m in mlx5_ib mlx5_core; do ! [ -d /sys/module/$m ] || rmmod $m; done",
                 PATIENCE * 60)

    def plug(self, index: int, port: PortSpec, wire: str) -> "GuestPort":
        """Plugs in a new PCI function; the guest's drivers find it if they are loaded."""
        options = {"device": device_name(index), "mac": port_mac(index), **port.options}
        tap = options.pop("netdev", "")  # in the guest every port has a netdev
        text = ",".join([*(f"{key}={value}" for key, value in options.items()), f"wire={wire}"])
        function = GuestPort(self, index, self.machine.plug(text), tap.removeprefix("tap:"))
        function.spec = port
        return function

    @contextmanager
    def loop(self, mac: str) -> Iterator["GuestPort"]:
        """A single port, cabled to itself."""
        self.drop_spares()
        port = self.plug(0, PortSpec(options={"mac": mac}), "loop")
        self.load_drivers()
        port.wait_until_ready()
        yield port
        port.unplug()

    def close(self) -> None:
        self.machine.close()


class GuestPort:
    """A plugged PCI function with its netdev and RDMA device."""

    def __init__(self, guest: Guest, index: int, device: Any, netdev: str = "") -> None:
        """`netdev`: the name for its netdev."""
        self.guest = guest
        self.index = index
        self.device = device
        self.device_name = device_name(index)  # the device's own name
        self.name = self.device_name  # the kernel's name, once it is ready
        self.netdev = netdev
        self.pci = device.pci_address
        self.plugged = True
        self.sound = True  # its firmware has not been stopped
        self.wire: SocketWire | None = None  # the far end of its cable, if a test holds it
        self.spec = PortSpec()
        self._counted: dict[str, int] = {}  # at the time the current user got it
        self._mtu = ""

    def wait_until_ready(self) -> None:
        """Waits until the drivers have bound to it. Its netdev is then up, as with a network manager."""
        home = f"/sys/bus/pci/devices/{self.pci}"
        script = f"""
            tries=0
            until [ -d {home}/net ] && [ -e {home}/infiniband_verbs ] &&
                  [ -c /dev/infiniband/$(ls {home}/infiniband_verbs) ]; do
                tries=$((tries + 1))
                [ $tries -lt 1000 ] || exit 9
                sleep 0.05
            done
            set -e
            name=$(ls {home}/infiniband)
            netdev={self.netdev}
            [ -n "$netdev" ] || netdev=soft${{name#mlx5_}}  # as the uverbs front names it
            ip link set "$(ls {home}/net)" name $netdev
            ip link set $netdev up
            echo $name $netdev $(cat /sys/class/net/$netdev/mtu)
            """
        self.name, self.netdev, self._mtu = self.guest.run(script, PATIENCE * 60).split()

    def is_like(self, index: int, port: PortSpec) -> bool:
        """Whether a stack that asks for `port` could use this one instead."""
        return (self.index, self.spec.wire, self.spec.options) == (index, port.wire, port.options)

    def may_stay(self) -> bool:
        """Whether it has its standard names, and a cable that another stack can use."""
        cable = self.wire is not None or self.spec.wire == "loop"
        return self.plugged and self.sound and self.name == self.device_name and cable

    def start_over(self, folder: Path) -> list[str]:
        """Makes it like new for another user; returns the ip commands that this takes."""
        if self.wire:
            self.wire.hold(False)
            self.wire.drain()
            self.wire.record(folder / f"wire{self.index}.pcap")
        self.set_link(up=True)
        link = f"link set dev {self.netdev}"
        return [f"{link} promisc off allmulticast off mtu {self._mtu}", f"{link} up",
                f"address flush dev {self.netdev}", f"neighbour flush dev {self.netdev} nud all"]

    def count_from_here(self) -> None:
        """Makes `stat` exclude what was counted before the current user."""
        self._counted = self._stat()["counters"]

    def control(self, **request: Any) -> dict[str, Any]:
        self.sound &= request["cmd"] != "fatal"
        answer: dict[str, Any] = self.device.control(**request)
        return answer

    def stat(self) -> dict[str, Any]:
        """The device's counters, as `softhca stat --json` reports them for one device."""
        device = self._stat()
        counters = device["counters"]
        device["counters"] = {name: counters[name] - self._counted.get(name, 0) for name in counters}
        return device

    def _stat(self) -> dict[str, Any]:
        device: dict[str, Any] = self.control(cmd="stat")["devices"][0]
        return device

    def set_link(self, up: bool) -> None:
        self.control(cmd="link", device=self.name, up=up)

    def unplug(self) -> None:
        """Returns when the guest has released it."""
        if not self.plugged:
            return
        self.plugged = False
        self.guest.machine.unplug(self.device)
        if self.wire:
            self.wire.close()
