# SPDX-License-Identifier: BSD-3-Clause
"""A primary DPDK process on two ports of softhca, and others that share the ports with it."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, Callable, Sequence

from .hugepages import Hugepages
from .launched import DRIVER
from .packets import numbered
from .ports import lossless
from .program import Program
from .stack import Build, SoftHca
from .testpmd import Testpmd

PAGES = 112  # of 2 MiB
MBUFS = 8192  # of testpmd


def compiled(sources: Sequence[Path], program: Path, *flags: str) -> str:
    """A program of a few C files, built as the Makefiles of DPDK's examples do."""
    for source in sources:
        assert source.exists(), f"{source} is missing: apt install dpdk-doc"
    dpdk = subprocess.run(["pkg-config", "--cflags", "--libs", "libdpdk"], check=True,
                          capture_output=True, text=True).stdout
    subprocess.run(["cc", "-O1", "-w", *flags, "-o", str(program), *map(str, sources),
                    *shlex.split(dpdk)], check=True)
    return str(program)


def mempool_drivers(program: str) -> list[str]:
    """Those that a program is linked with. DPDK finds a mempool's functions by the number of their
    driver, in the order of loading: it must be the same in all processes."""
    path = subprocess.run(["which", program], check=True, capture_output=True, text=True).stdout
    listing = subprocess.run(["ldd", path.strip()], check=True, capture_output=True,
                             text=True).stdout
    return re.findall(r"=> (\S+/librte_mempool_\S+)", listing)


class Processes:
    """EAL's files are in a folder of their own, as is its hugetlbfs."""

    def __init__(self, hugepages: Hugepages, build: Build, start_softhca: Callable[..., SoftHca],
                 folder: Path) -> None:
        self.hugepages, self.build, self.folder = hugepages, build, folder
        self.start_softhca = start_softhca
        self.cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        self.env = {**build.env(folder / "sanitizer"), "RUNTIME_DIRECTORY": str(folder)}
        self.eal = ["--huge-dir", str(hugepages.folder), "--no-telemetry", "--no-pci", "-d", DRIVER]
        self.others: list[Program] = []
        self.hca: SoftHca

    def preload(self, libraries: Sequence[str]) -> None:
        """For what is started beside the primary."""
        before = self.env.get("LD_PRELOAD", "")
        self.env["LD_PRELOAD"] = ":".join(filter(None, [before, *libraries]))

    def lcores(self, count: int = 1) -> list[str]:
        return ["--lcores", ",".join(f"{lcore}@({self.cpus})" for lcore in range(count))]

    def start_primary(self, program: str, own: Sequence[str], eal: Sequence[str] = (),
                      lcores: int = 1, devargs: str = "") -> None:
        vdevs = [argument for port in range(2) for argument in
                 ("--vdev", f"net_rawqp{port},device=mlx5_{port}{devargs}")]
        command = [program, *self.lcores(lcores), *self.eal, *eal, *vdevs, "--", *own]
        self.hca = self.start_softhca(lossless(2), command, prefix=self.hugepages.prefix,
                                      env={"RUNTIME_DIRECTORY": str(self.folder)})

    def run(self, command: Sequence[str]) -> Program:
        """Beside the primary, and not under softhca, which has nothing to do with it."""
        name = Path(command[0]).name
        log = self.folder / f"{name}{len(self.others)}.log"
        # Preloaded into the program alone: nsenter is not to load a sanitizer either.
        preload = f"LD_PRELOAD={self.env.get('LD_PRELOAD', '')}"
        env = {name: value for name, value in self.env.items() if name != "LD_PRELOAD"}
        self.others.append(Program([*self.hugepages.prefix, "env", preload, *command], log, env,
                                   name=name))
        return self.others[-1]

    def run_secondary(self, program: str, own: Sequence[str] = (), lcores: int = 1) -> Program:
        return self.run([program, "--proc-type=secondary", *self.lcores(lcores), *self.eal, "--",
                         *own])

    def transfer(self, count: int = 200) -> None:
        one, other = self.hca.wires
        one.transfer(numbered(count), to=other)
        other.transfer(numbered(count, 1400), to=one)

    def reports(self) -> str:
        return "\n".join(path.read_text(errors="replace")
                         for path in sorted(self.folder.glob("sanitizer.*"))) \
            + self.hca.sanitizer_reports()

    def close(self) -> None:
        for program in self.others:
            program.close()


class TestpmdProcesses(Processes):
    """The primary is a testpmd that polls queue 0 of each port."""

    __test__ = False  # not a test class

    def __init__(self, *args: Any, devargs: str = "") -> None:
        super().__init__(*args)
        self.start_primary("dpdk-testpmd", self.testpmd_options(0), ["-m", "128"], 2, devargs)
        self.primary = Testpmd(self.hca.program, startup_timeout=60)
        self.preload(mempool_drivers("dpdk-testpmd"))

    @staticmethod
    def testpmd_options(number: int) -> list[str]:
        return ["-i", "--no-mlockall", f"--total-num-mbufs={MBUFS}", "--num-procs=2",
                f"--proc-id={number}", "--rxq=2", "--txq=2"]

    def secondary(self) -> Testpmd:
        """Polls queues 1."""
        return Testpmd(self.run_secondary("dpdk-testpmd", self.testpmd_options(1), 2),
                       startup_timeout=60)

    def steer_to(self, queue: int) -> None:
        """All packets of both ports."""
        for port in range(2):
            self.primary.flush_flows(port)
            self.primary.create_flow(port, f"ingress pattern eth / end actions queue index {queue} "
                                           "/ end")
