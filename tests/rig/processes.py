# SPDX-License-Identifier: BSD-3-Clause
"""A primary DPDK process on two ports of softhca, and others that share the ports with it."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from .guest import PATIENCE, Guest
from .hugepages import NR_HUGEPAGES, Hugepages
from .launched import DRIVER
from .packets import numbered
from .ports import lossless
from .program import Program
from .sanitizers import leaks_ignored
from .screen import Screen
from .stack import Build
from .testpmd import Testpmd

PAGES = 112  # of 2 MiB
MBUFS = 8192  # of testpmd
# EAL never frees a vdev that it has found in its primary, whatever its driver; and the tools have leaks of their own.
LEAKS_OF_SECONDARIES = ("librte_bus_vdev.so", "dpdk-dumpcap")


def compiled(sources: Sequence[Path], program: Path, *flags: str) -> str:
    """Builds a program from a few C files, as the Makefiles of DPDK's examples do."""
    for source in sources:
        assert source.exists(), f"{source} is missing: apt install dpdk-doc"
    dpdk = subprocess.run(["pkg-config", "--cflags", "--libs", "libdpdk"], check=True,
                          capture_output=True, text=True).stdout
    subprocess.run(["cc", "-O1", "-w", *flags, "-o", str(program), *map(str, sources),
                    *shlex.split(dpdk)], check=True)
    return str(program)


def mempool_drivers(program: str) -> list[str]:
    """The mempool drivers that a program is linked with. DPDK finds a mempool's functions by the number of their
    driver, in the order of loading, which must be the same in all processes."""
    path = subprocess.run(["which", program], check=True, capture_output=True, text=True).stdout
    listing = subprocess.run(["ldd", path.strip()], check=True, capture_output=True,
                             text=True).stdout
    return re.findall(r"=> (\S+/librte_mempool_\S+)", listing)


class Home:
    """Where processes that share memory run: this machine."""

    def __init__(self, build: Build, hugepages: Hugepages, folder: Path) -> None:
        """`folder` is for EAL's files."""
        self.build, self.hugepages, self.folder = build, hugepages, folder
        self.cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        self.env = {**build.env(folder / "sanitizer"), "RUNTIME_DIRECTORY": str(folder)}
        self.eal_of_primary: list[str] = []
        if build.sanitize:
            # EAL's usual address range is reserved by AddressSanitizer; the one that the kernel offers
            # instead may be occupied in the next process.
            self.eal_of_primary = ["--base-virtaddr=0x200000000000"]
            self.env |= leaks_ignored(folder, *LEAKS_OF_SECONDARIES)

    patience: float = 1

    def start(self, command: Sequence[str], log: Path, name: str) -> Screen:
        # Preloaded into the program only: nsenter must not load a sanitizer either.
        preload = f"LD_PRELOAD={self.env.get('LD_PRELOAD', '')}"
        env = {name: value for name, value in self.env.items() if name != "LD_PRELOAD"}
        return Program([*self.hugepages.prefix, "env", preload, *command], log, env, name=name)

    def left_in_kernel(self) -> list[Any]:
        """Objects of the devices that programs have left."""
        return []  # nothing outlives a program that has its own kernel

    def reports(self) -> str:
        return "\n".join(path.read_text(errors="replace")
                         for path in sorted(self.folder.glob("sanitizer.*")))


class GuestHome(Home):
    """A guest, which keeps its hugepages, as nothing else needs them."""

    def __init__(self, guest: Guest) -> None:
        self.guest, self.folder, self.cpus = guest, Path("/run/processes"), "0"
        self.hugepages, self.eal_of_primary = Hugepages([], self.folder / "huge"), []
        self.env = {"LD_LIBRARY_PATH": str(guest.build_folder / "drivers/net/rawqp"),
                    "RUNTIME_DIRECTORY": str(self.folder)}
        guest.run(f"mkdir -p {self.hugepages.folder} && echo {PAGES} >{NR_HUGEPAGES} &&"
                  f" test $(cat {NR_HUGEPAGES}) -eq {PAGES} && (mountpoint -q {self.hugepages.folder}"
                  f" || mount -t hugetlbfs hugetlbfs {self.hugepages.folder})")

    patience = PATIENCE

    def start(self, command: Sequence[str], log: Path, name: str) -> Screen:
        return self.guest.start(command, log, self.env)

    def left_in_kernel(self) -> list[Any]:
        return [row for kind in ("mr", "cq", "qp") for row in
                json.loads(self.guest.run(["rdma", "-j", "-d", "res", "show", kind])) if "pid" in row]

    def reports(self) -> str:
        return ""


class Processes:
    """Processes with their own folder for EAL's files, and their own hugetlbfs."""

    def __init__(self, home: Home, start_softhca: Callable[..., Any], folder: Path) -> None:
        """`folder` is for logs."""
        self.home, self.start_softhca, self.folder = home, start_softhca, folder
        self.eal = ["--huge-dir", str(home.hugepages.folder), "--no-telemetry", "--no-pci", "-d",
                    DRIVER]
        self.others: list[Screen] = []
        self.started = 0
        self.hca: Any  # SoftHca or GuestHca, from the primary's start on

    def preload(self, libraries: Sequence[str]) -> None:
        """Preloads libraries into programs started alongside the primary."""
        before = self.home.env.get("LD_PRELOAD", "")
        self.home.env["LD_PRELOAD"] = ":".join(filter(None, [before, *libraries]))

    def lcores(self, count: int = 1, first: int = 0) -> list[str]:
        return ["--lcores", ",".join(f"{lcore}@({self.home.cpus})"
                                     for lcore in range(first, first + count))]

    def start_primary(self, program: str, own: Sequence[str], eal: Sequence[str] = (),
                      lcores: int = 1, devargs: str = "", port_keys: Mapping[str, str] = {}) -> None:
        """`port_keys`: further keys of softhca's ports."""
        vdevs = [argument for port in range(2) for argument in
                 ("--vdev", f"net_rawqp{port},device=mlx5_{port}{devargs}")]
        command = [program, *self.lcores(lcores), *self.eal, *self.home.eal_of_primary, *eal, *vdevs,
                   "--", *own]
        self.hca = self.start_softhca(lossless(2, **port_keys), command, prefix=self.home.hugepages.prefix,
                                      env={"RUNTIME_DIRECTORY": str(self.home.folder)})

    def run(self, command: Sequence[str]) -> Screen:
        """Runs a program alongside the primary, without softhca, which it does not need."""
        name = Path(command[0]).name
        self.started += 1
        log = self.folder / f"{name}{self.started}.log"
        self.others.append(self.home.start(command, log, name))
        return self.others[-1]

    def run_secondary(self, program: str, own: Sequence[str] = (), lcores: int = 1) -> Screen:
        """With its own lcores: a mempool has one cache per lcore number, shared by all processes."""
        first = 4 * (len(self.others) + 1)
        return self.run([program, "--proc-type=secondary", *self.lcores(lcores, first), *self.eal,
                         "--", *own])

    def transfer(self, count: int = 200) -> None:
        one, other = self.hca.wires
        one.transfer(numbered(count), to=other)
        other.transfer(numbered(count, 1400), to=one)

    def reports(self) -> str:
        of_primary = self.hca.sanitizer_reports() if hasattr(self, "hca") else ""
        return "\n".join(filter(None, [self.home.reports(), of_primary]))

    def objects(self) -> list[dict[str, int]]:
        """Numbers of objects of each kind in the devices: memory regions, queues, rules …"""
        return [device["objects"] for _, device in sorted(self.hca.stat().items())]

    def close(self) -> None:
        for program in self.others:
            program.close()


class TestpmdProcesses(Processes):
    """The primary is a testpmd that polls queue 0 of each port."""

    __test__ = False  # not a test class

    def __init__(self, *args: Any, devargs: str = "", options: Sequence[str] = (),
                 eal: Sequence[str] = (), processes: int = 2, port_keys: Mapping[str, str] = {}) -> None:
        """`options`: for every testpmd; `eal`: for the primary's EAL."""
        super().__init__(*args)
        self.options = ["-i", "--no-mlockall", f"--total-num-mbufs={MBUFS}",
                        f"--num-procs={processes}", f"--rxq={processes}", f"--txq={processes}",
                        *options]
        self.start_primary("dpdk-testpmd", [*self.options, "--proc-id=0"], ["-m", "128", *eal], 2,
                           devargs, port_keys)
        self.primary = Testpmd(self.hca.program, startup_timeout=60)
        self.preload(mempool_drivers("dpdk-testpmd"))

    def secondary(self, number: int = 1) -> Testpmd:
        """Starts a secondary that polls the queues of that number."""
        options = [*self.options, f"--proc-id={number}"]
        return Testpmd(self.run_secondary("dpdk-testpmd", options, 2), startup_timeout=60)

    def steer_to(self, queue: int) -> None:
        """Steers all packets of both ports to this queue."""
        for port in range(2):
            self.primary.flush_flows(port)
            self.primary.create_flow(port, f"ingress pattern eth / end actions queue index {queue} "
                                           "/ end")
