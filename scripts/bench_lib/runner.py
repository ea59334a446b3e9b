# SPDX-License-Identifier: BSD-3-Clause
"""Runs rawqp-perf: on softhca, or in a network namespace of its own for the kernel's peers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, Callable, Iterator, Mapping, Sequence

from rig.hugepages import lent
from rig.program import die_with_parent

from .effort import Setting
from .ratios import Figure

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300
SHARED_PAGES = 128  # of 2 MiB, for two processes with the same ports

RAWQP = "net_rawqp"
# Name of our driver from another build, so that both can be loaded into one process.
OTHER = "net_other"


def plugin_file(driver: str) -> str:
    return f"librte_{driver}.so"


class BenchError(Exception):
    """A measuring program failed; the text says how to reproduce it."""

    figures: Sequence[Figure] = ()  # measured before the failure


# Further values in a figure of rawqp-perf. Each becomes a measure of its own, named after the figure's
# measure and this.
FURTHER = {"deletions_per_s": "deletions", "bytes_per_rule": "bytes", "p99": "p99", "p999": "p999"}
UNITS = {"bytes_per_rule": "bytes/rule"}  # where it differs from the figure's


Watch = Callable[[dict[str, Any]], None]
WATCH_PERIOD_S = 0.1


@contextmanager
def watched(build: Path, env: Mapping[str, str], watch: Watch | None) -> Iterator[None]:
    """Calls `watch` periodically with the output of `softhca stat`, once there is a device."""
    if watch is None:
        yield
        return
    over = threading.Event()
    see: Watch = watch

    def look() -> None:
        while not over.wait(WATCH_PERIOD_S):
            told = subprocess.run([softhca_of(build), "stat", "--json"], env=env,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if told.returncode == 0:
                see(json.loads(told.stdout))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


TOPOLOGY = Path("/sys/devices/system/cpu")


def cores_of_cpus(topology: Path = TOPOLOGY) -> dict[int, str]:
    """The physical core of each CPU that sysfs tells about, as the list of the core's CPUs."""
    return {int(file.parts[-3].removeprefix("cpu")): file.read_text().strip()
            for file in topology.glob("cpu[0-9]*/topology/thread_siblings_list")}


@dataclass
class Machine:
    """What can be measured on this machine."""

    build: Path
    cpus: list[int] = field(default_factory=lambda: sorted(os.sched_getaffinity(0)))
    other_build: Path | None = None  # to compare our driver with
    cores: Mapping[int, str] = field(default_factory=cores_of_cpus)

    @property
    def measured(self) -> int:
        """The CPU of the lcore."""
        return self.cpus[-1]

    @property
    def other(self) -> int:
        """The CPU of the device thread where both run at the same time."""
        return self.for_device()[0]

    def for_device(self) -> list[int]:
        """CPUs for threads of a live device: first those of other cores than the lcore's, and the lcore's own last."""
        def near(cpu: int) -> tuple[bool, bool]:
            return self.cores.get(cpu) == self.cores.get(self.measured), cpu == self.measured

        return sorted(self.cpus, key=near)

    def distances(self) -> tuple[str, ...]:
        """The distances at which drained rounds can be measured here. Two threads of one core share its caches, so
        nothing is far; rawqp-perf also refuses what sysfs does not tell about."""
        cores = self.cores.get(self.measured), self.cores.get(self.other)
        return ("far", "near", "cold") if None not in cores and len(set(cores)) == 2 else ("near", "cold")

    def real_time(self) -> list[str]:
        """A prefix that keeps other programs from getting between a device and its driver.

        Round robin, not first in, first out: EAL's first thread polls while it waits for its other
        threads to start, and if they are on its CPU they must get their turn."""
        command = ["chrt", "--rr", "1"]
        if shutil.which("chrt") is None:
            return []
        trial = subprocess.run([*command, "true"], capture_output=True, check=False)
        return command if trial.returncode == 0 else []


def softhca_port(index: int) -> tuple[str, str]:
    """RDMA device and PCI address of softhca's port `index`."""
    return f"mlx5_{index}", f"0000:ca:{index // 8:02x}.{index % 8}"


def plugin_of(build: Path) -> Path:
    return build / "drivers/net/rawqp" / plugin_file(RAWQP)


def program_of(build: Path) -> Path:
    return build / "app/rawqp-perf/rawqp-perf"


def softhca_of(build: Path) -> Path:
    return build / "app/softhca/softhca"


def written(report: Path) -> bool:
    """Whether rawqp-perf got as far as its report: it opens the file when it starts."""
    return report.exists() and report.stat().st_size > 0


def copy_programs(machine: Machine, folder: Path) -> None:
    """Copies the programs and libraries to be measured to new files: the placement of a file in the page cache can
    make a burst twice as expensive, and would do so in each run until the next build.

    The other build's driver gets another name, in the file and for the mempools that it creates.
    The new name is as long as the old one, so all offsets in the file remain valid.
    """
    for file in plugin_of(machine.build), program_of(machine.build):
        shutil.copy(file, folder)
    if machine.other_build:
        old, new = (name.removeprefix("net_").encode() for name in (RAWQP, OTHER))
        assert len(old) == len(new)
        plugin = plugin_of(machine.other_build).read_bytes()
        (folder / plugin_file(OTHER)).write_bytes(plugin.replace(old, new))


def end_group(program: subprocess.Popen[str]) -> None:
    """Ends a program that was started in a session of its own, with its children."""
    if program.poll() is None:
        os.killpg(program.pid, signal.SIGKILL)


def completed(command: Sequence[str], timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """As subprocess.run(), but if the program does not end in time, its children end with it.

    Raises BenchError then.
    """
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, start_new_session=True, **options) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except BaseException as stop:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            if isinstance(stop, subprocess.TimeoutExpired):
                raise BenchError(f"not finished after {timeout:g} s: {' '.join(command)}\n{stdout}{stderr or ''}")
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


@contextmanager
def time_limit(programs: Sequence[subprocess.Popen[str]]) -> Iterator[threading.Event]:
    """Ends the programs, to which more may be added, after TIMEOUT_S. The event says that it has."""
    over = threading.Event()
    left = threading.Event()

    def watch() -> None:
        if left.wait(TIMEOUT_S):
            return
        over.set()
        while True:
            for program in list(programs):
                end_group(program)
            if left.wait(WATCH_PERIOD_S):  # for one that was just being started
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield over
    finally:
        left.set()
        thread.join()


def take_turns(commands: Sequence[Sequence[str]], env: dict[str, str]) -> None:
    """Runs two programs with --step alternately. The first one begins, and ends last. Raises BenchError if one fails
    or all is not over in time."""
    programs: list[subprocess.Popen[str]] = []
    with ExitStack() as running:
        late = running.enter_context(time_limit(programs))

        def failed(program: subprocess.Popen[str], command: Sequence[str]) -> BenchError:
            status = program.wait()
            what = f"not finished after {TIMEOUT_S:g} s" if late.is_set() else f"status {status}"
            return BenchError(f"{what}: {' '.join(command)}")

        def wait_for_turn(program: subprocess.Popen[str]) -> bool:
            """False: it has ended."""
            assert program.stdout
            return any(line == "your turn\n" for line in program.stdout)

        def let_go_on(program: subprocess.Popen[str]) -> None:
            assert program.stdin
            with suppress(BrokenPipeError):  # it has ended; its status says why
                program.stdin.write("\n")
                program.stdin.flush()

        for command in commands:
            program = running.enter_context(subprocess.Popen(
                command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                start_new_session=True, preexec_fn=die_with_parent(signal.SIGKILL)))
            running.callback(end_group, program)
            programs.append(program)
            if not wait_for_turn(program):
                raise failed(program, command)
        on_turn = cycle(programs)
        for program in on_turn:
            let_go_on(program)
            if not wait_for_turn(program):
                break
        for program, command in zip(programs, commands):
            program.communicate()
            if program.returncode != 0:
                raise failed(program, command)


class Runner:
    def __init__(self, machine: Machine, verbose: bool) -> None:
        self.machine = machine
        self.verbose = verbose
        self.prefix = machine.real_time()
        self._turns = 0
        self._noted: set[str] = set()
        self._far_lines: list[tuple[float, float]] = []  # cycles to load one, and to store to one

    def on_softhca(
        self,
        wires: Sequence[str],
        eal: Sequence[str],
        options: Sequence[str],
        *,
        apart: bool = False,
        setting: Setting | None = None,
        memory_mb: int = 512,
        threads: int = 1,
        port_options: str = "",
        watch: Watch | None = None,
    ) -> list[Figure]:
        """One rawqp-perf on softhca ports with these wires.

        The device thread shares the lcore's CPU, where it works while rawqp-perf sleeps and is idle
        while a round is timed; `apart`: it has a CPU of its own, to measure the live device.
        `setting`: of drained rounds, see doc/bench.md; it determines where the device thread runs.
        `threads`: number of device threads, each on a CPU of its own. `port_options`: of softhca, for all ports.
        `watch`: called periodically with the output of `softhca stat`.
        """
        if setting:
            apart = setting.distance == "far"
            options = [*options, "--distance", setting.distance, "--pages", setting.pages]
            if apart:
                options = [*options, "--device-cpu", str(self.machine.other)]
        return self._run(self._softhca(wires, apart, threads, port_options), eal, options, memory_mb, watch)

    def in_two_processes(self, wires: Sequence[str], eal: Sequence[str], own: Sequence[str],
                         others: Sequence[str], options: Sequence[str],
                         setting: Setting) -> list[Figure]:
        """A rawqp-perf as in on_softhca, and another one as its secondary process, alternating after each
        figure; `own` and `others` are their subjects. Needs hugepages."""
        apart = setting.distance == "far"
        options = ["--step", *options, "--distance", setting.distance]
        if apart:
            options += ["--device-cpu", str(self.machine.other)]
        with tempfile.TemporaryDirectory(prefix="rawqp-bench-") as name:
            folder = Path(name)
            copy_programs(self.machine, folder)
            (folder / "huge").mkdir()
            with lent(SHARED_PAGES, folder / "huge") as pages:
                program = [str(folder / program_of(self.machine.build).name), "-l",
                           str(self.machine.measured), "--huge-dir", str(folder / "huge"),
                           "--no-telemetry", "--log-level=warning", "-d", plugin_file(RAWQP),
                           "--no-pci"]
                launch = [*self.prefix, *pages.prefix]
                files = [folder / "primary.json", folder / "secondary.json"]
                commands = [
                    [*launch, *self._softhca(wires, apart), *program, *eal, "--", *own],
                    [*launch, *program, "--proc-type=secondary", "--", *others]]
                take_turns([[*command, *options, "--json", str(file)]
                            for command, file in zip(commands, files)], self._env(folder))
                return self._figures(*files)

    def text_on_softhca(self, wires: Sequence[str], program: Sequence[str]) -> str:
        """The output of another program on such ports. The device thread has its own CPU."""
        with tempfile.TemporaryDirectory(prefix="rawqp-bench-") as folder:
            command = [*self.prefix, *self._softhca(wires, True), *program]
            return self._execute(command, Path(folder))

    def _softhca(self, wires: Sequence[str], apart: bool, threads: int = 1, options: str = "") -> list[str]:
        cpus = self.machine.for_device()[:threads] if apart else [self.machine.measured]
        command = [str(softhca_of(self.machine.build)),
                   "--cpus", ",".join(map(str, cpus))]
        for index, wire in enumerate(wires):
            device, pci = softhca_port(index)
            port = [f"device={device},pci={pci},pause=on,mtu=9000", *filter(None, [options]), f"wire={wire}"]
            command += ["--port", ",".join(port)]
        return [*command, "--"]

    def in_network(
        self, set_up: str, eal: Sequence[str], options: Sequence[str]
    ) -> list[Figure]:
        """One rawqp-perf in a network namespace that the shell command `set_up` prepares."""
        quiet = "sysctl -qw net.ipv6.conf.default.disable_ipv6=1"
        shell = f'{quiet} && {set_up} && exec "$@"'
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        shell = f"mount -t sysfs sysfs /sys && {shell}"
        command = ["unshare", *user, "--net", "--mount", "sh", "-c", shell, "bench"]
        return self._run(command, eal, options, 512)

    def _run(
        self, start: list[str], eal: Sequence[str], options: Sequence[str], memory_mb: int,
        watch: Watch | None = None,
    ) -> list[Figure]:
        build = self.machine.build
        with tempfile.TemporaryDirectory(prefix="rawqp-bench-") as folder:
            out = Path(folder) / "figures.json"
            program = [str(Path(folder) / program_of(build).name), "-l", str(self.machine.measured)]
            program += ["--no-huge", "-m", str(memory_mb), "--no-shconf", "--no-telemetry"]
            program += ["--log-level=warning", *eal, "--", *options, "--json", str(out)]
            try:
                with watched(build, self._env(Path(folder)), watch):
                    text = self._execute([*self.prefix, *start, *program], Path(folder))
            except BenchError as error:
                report = json.loads(out.read_text()) if written(out) else {"failures": []}
                failed = BenchError("\n".join([*report["failures"], str(error)]))
                failed.figures = self._figures(out)
                raise failed from error
            if not written(out):
                raise BenchError(text)
            return self._figures(out)

    @staticmethod
    def _env(folder: Path) -> dict[str, str]:
        path = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        return {**os.environ, "LD_LIBRARY_PATH": path, "XDG_RUNTIME_DIR": str(folder),
                "RUNTIME_DIRECTORY": str(folder)}

    def _execute(self, command: list[str], folder: Path) -> str:
        copy_programs(self.machine, folder)
        env = self._env(folder)
        if self.verbose:
            print("$", " ".join(command), file=sys.stderr)
        done = completed(command, TIMEOUT_S, env=env, stderr=subprocess.STDOUT,
                         preexec_fn=die_with_parent(signal.SIGKILL))
        if done.returncode != 0:
            tail = "\n".join(done.stdout.splitlines()[-12:])
            raise BenchError(f"status {done.returncode}: {' '.join(command)}\n{tail}")
        return done.stdout

    def _figures(self, *files: Path) -> list[Figure]:
        """Turns are numbered across all runs, so that figures of several runs can be combined.
        Those of several files were measured in the same turns."""
        reports: list[dict[str, Any]] = [json.loads(file.read_text()) for file in files
                                         if written(file)]
        for report in reports:
            self._note(report)
        figures: list[Figure] = []
        for one in (one for report in reports for one in report["figures"]):
            figure = Figure(one["subject"], one["measure"], one["value"], self._turns + one["pass"],
                            one["unit"], one["size"], one["burst"], one["queues"], one["fast_free"])
            figures.append(figure)
            if "far_load" in one:
                self._far_lines.append((one["far_load"], one["far_store"]))
            figures += [replace(figure, measure=f"{figure.measure}_{name}", value=one[key],
                                unit=UNITS.get(key, figure.unit))
                        for key, name in FURTHER.items() if key in one]
        self._turns = 1 + max((figure.turn for figure in figures), default=self._turns)
        return figures

    def far_lines(self) -> str:
        """The cost of lines from the device's core since the last call; "": nothing was far."""
        seen, self._far_lines = self._far_lines, []
        if not seen:
            return ""
        loads, stores = (sorted(costs) for costs in zip(*seen))
        return "a line of the device's core cost " + ", ".join(
            f"{costs[0]:.0f} to {costs[-1]:.0f} (median {median(costs):.0f}) cycles to {what}"
            for costs, what in ((loads, "load"), (stores, "store into")))

    def _note(self, found: dict[str, Any]) -> None:
        """Prints once where program and device ran, and on which pages packets and rings were."""
        memory = found["memory"]
        part = memory["on_huge_pages"] / memory["resident"] if memory["resident"] else 0
        for text in found["cpus"], f"{part:.0%} of packets and rings on huge pages":
            if text and text not in self._noted:
                self._noted.add(text)
                print(f"note: {text}", flush=True)
