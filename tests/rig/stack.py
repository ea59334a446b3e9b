# SPDX-License-Identifier: BSD-3-Clause
"""softhca and testpmd as a unit: ports with a wire each, and a testpmd on top of them."""

import json
import os
import shlex
import signal
import socket
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Mapping, Sequence

from .launched import DRIVER, devices_of, let_others_run, program_under, suspend
from .ports import PortSpec, device_name, pci_address, port_mac
from .program import Program
from .sanitizers import ASAN_OPTIONS, UBSAN_OPTIONS
from .stack_base import StackBase
from .testpmd import Testpmd
from .wire import SocketWire

ROOT = Path(__file__).resolve().parents[2]

# A prefix that gives softhca its own network namespace, with a matching /sys: for TAPs. Without IPv6,
# which would send packets of its own.
OWN_NETWORK = [
    "unshare",
    *([] if os.geteuid() == 0 else ["--map-root-user"]),
    *("--net", "--mount", "sh", "-c"),
    # These two leak, which does not matter here when a sanitizer is preloaded.
    'asan="$ASAN_OPTIONS"; export ASAN_OPTIONS=detect_leaks=0;'
    " mount -t sysfs sysfs /sys && sysctl -qw net.ipv6.conf.default.disable_ipv6=1"
    ' && export ASAN_OPTIONS="$asan" && exec "$@"',
    "own-network",
]


class Build:
    """A build folder, and how to run programs from it."""

    def __init__(self, folder: Path, sanitize: bool) -> None:
        self.folder = folder
        self.sanitize = sanitize
        self.softhca = folder / "app/softhca/softhca"
        self.driver = folder / "drivers/net/rawqp" / DRIVER

    @staticmethod
    def from_environment() -> "Build":
        sanitize = os.environ.get("RAWQP_SANITIZE") == "1"
        name = os.environ.get("RAWQP_BUILD", "build-asan" if sanitize else "build")
        build = Build(ROOT / name, sanitize)
        for needed in (build.softhca, build.driver):
            if not needed.exists():
                raise AssertionError(f"{needed} is missing: run scripts/setup first")
        return build

    def env(self, reports: Path) -> dict[str, str]:
        """The environment of softhca and its children. Sanitizers write their reports to `reports`*."""
        # By name with a search path, not by path: EAL refuses a path below a world-writable folder.
        path = [str(self.driver.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        env = {"LD_LIBRARY_PATH": ":".join(filter(None, path))}
        if self.sanitize:
            env |= sanitizer_env(reports)
        return env


@cache
def sanitizer_library() -> str:
    """The sanitizers' run-time library. To ask clang takes a third of a second."""
    library = f"libclang_rt.asan-{os.uname().machine}.so"
    return subprocess.run(
        ["clang", f"-print-file-name={library}"], check=True, capture_output=True, text=True
    ).stdout.strip()


def sanitizer_env(reports: Path) -> dict[str, str]:
    """The sanitizers' run-time library must come first in a program built without it."""
    asan = os.environ.get("ASAN_OPTIONS", ASAN_OPTIONS)
    ubsan = os.environ.get("UBSAN_OPTIONS", UBSAN_OPTIONS)
    return {
        "LD_PRELOAD": sanitizer_library(),
        "ASAN_OPTIONS": f"{asan}:log_path={reports}",
        "UBSAN_OPTIONS": f"{ubsan}:log_path={reports}",
    }


class SoftHca:
    """A `softhca … -- program` in a folder of its own, with the far ends of its socket wires."""

    def __init__(
        self,
        build: Build,
        folder: Path,
        ports: Sequence[PortSpec],
        program: Sequence[str],
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """`options` are softhca's own; `prefix` is a program that starts softhca (see OWN_NETWORK)."""
        folder.mkdir(parents=True, exist_ok=True)
        self.build = build
        self.folder = folder
        self.ports = list(ports)
        self.wires: list[SocketWire] = []
        specs = [self._port_option(index, port) for index, port in enumerate(self.ports)]
        command = [*prefix, str(build.softhca)]
        for spec in specs:
            command += ["--port", spec]
        command += [*options, "--", *program]
        runtime = folder / "run"
        runtime.mkdir(mode=0o700, exist_ok=True)
        self.env = {**build.env(folder / "sanitizer"), "XDG_RUNTIME_DIR": str(runtime)}
        self.program = Program(
            command, folder / "output.log", {**self.env, **(env or {})}, name=Path(program[0]).name
        )

    def _port_option(self, index: int, port: PortSpec) -> str:
        wire = port.wire
        if wire == "socket":
            self.wires.append(SocketWire(self.folder / f"wire{index}"))
            wire = self.wires[-1].spec
        options = {
            "device": device_name(index),
            "pci": pci_address(index),
            "mac": port_mac(index),
            **port.options,
        }
        # The wire comes last: its own text may contain commas.
        return ",".join([*(f"{key}={value}" for key, value in options.items()), f"wire={wire}"])

    def run_tool(self, *arguments: str, timeout: float = 20) -> subprocess.CompletedProcess[str]:
        """Runs a softhca subcommand (dump, trace) against this instance."""
        return subprocess.run(
            [str(self.build.softhca), *arguments],
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def _ask(self, **request: Any) -> dict[str, Any]:
        """One request to our program (app/softhca/control/protocol.hpp), as `softhca stat` and the others send
        it. Tests ask by the thousand, and the start of a program with sanitizers takes a quarter of a second."""
        process = program_under(self.program)
        sockets = list(Path(self.env["XDG_RUNTIME_DIR"]).glob(f"softhca-*/{process}.sock"))
        if len(sockets) != 1:
            raise AssertionError(f"process {process} has no softhca device open")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(20)
            connection.connect(str(sockets[0]))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile() as answers:
                line = answers.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "it has ended"}
        if "error" in answer:
            raise AssertionError(f"process {process} refuses {request}: {answer['error']}")
        return answer

    def stat(self) -> dict[str, dict[str, Any]]:
        """The devices of our program in `softhca stat --json`, by name."""
        return devices_of({"instances": [self._ask(cmd="stat")]})

    def counters(self, port: int = 0) -> dict[str, int]:
        """The device's port counters."""
        return self.stat()[device_name(port)]["counters"]

    def in_network(self, *command: str, timeout: float = 20) -> str:
        """Runs a command in the network namespace of a softhca started with OWN_NETWORK."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        enter = ["nsenter", f"--target={self.program.pid}", *user, "--net", "--", *command]
        return subprocess.run(
            enter, check=True, capture_output=True, text=True, timeout=timeout
        ).stdout

    def set_link(self, port: int, up: bool) -> None:
        self._ask(cmd="link", device=device_name(port), up=up)

    def inject(self, port: int, fault: str) -> str:
        """Injects a fault into a device of our program, as `softhca fault` does. Returns what "none" has ended."""
        return str(self._ask(cmd="fault", device=device_name(port), fault=fault).get("ended", ""))

    def signal_program(self, number: int) -> None:
        """Signals the program under softhca, not softhca itself. Returns after SIGSTOP has stopped it."""
        process = program_under(self.program)
        if number == signal.SIGSTOP:
            suspend(process)
        else:
            os.kill(process, number)

    def dump(self, port: int = 0) -> dict[str, Any]:
        return devices_of({"instances": [self._ask(cmd="dump")]})[device_name(port)]

    def device_process(self, port: int) -> int:
        return program_under(self.program)

    def break_queue(self, port: int, fault: str) -> None:
        self.inject(port, fault)

    def end_faults(self) -> None:
        """Commands succeed again."""
        for port in range(len(self.ports)):
            self.inject(port, "none")

    @staticmethod
    def read_text(path: Path) -> str:
        """A file that the program has written."""
        return path.read_text()

    def pci_address(self, index: int) -> str:
        return pci_address(index)

    def queues(self, port: int, kind: str) -> list[int]:
        """Numbers of a device's "rqs" or "sqs" in use, in the order of their creation."""
        listed = self.stat()[device_name(port)][kind]
        return sorted(queue["number"] for queue in listed if queue["state"] != "reset")

    def sanitizer_reports(self) -> str:
        return "\n".join(
            path.read_text(errors="replace") for path in sorted(self.folder.glob("sanitizer.*"))
        )

    def repeat_line(self) -> str:
        """The command that starts the same manually."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        return " ".join([*settings, self.program.shell_line()])

    def close(self) -> None:
        """Ends everything; may be called again."""
        self.program.close()
        while self.wires:
            self.wires.pop().close()


class Stack(SoftHca, StackBase):
    """testpmd on softhca. `pmd` is "rawqp" (ours) or "mlx5" (DPDK's own net_mlx5)."""

    def __init__(
        self,
        build: Build,
        folder: Path,
        ports: Sequence[PortSpec],
        *,
        pmd: str = "rawqp",
        datapath: str = "auto",
        pmd_devargs: str = "",
        attach: int | None = None,
        testpmd_args: Sequence[str] = (),
        eal_args: Sequence[str] = (),
        softhca_options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        memory_mb: int = 256,
    ) -> None:
        """`attach`: how many of the ports testpmd gets at its start (default: all)."""
        self.datapath = datapath
        self.abandoned = False
        self.ports = list(ports)  # used by the command
        used = range(len(ports) if attach is None else attach)
        # Both threads may run on any CPU: tests need progress, not speed.
        cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        program = self.testpmd_command(f"0@({cpus}),1@({cpus})", memory_mb, pmd, pmd_devargs, used,
                                       eal_args, testpmd_args)
        super().__init__(build, folder, ports, program, softhca_options, env, prefix)
        try:
            self.testpmd = Testpmd(self.program, startup_timeout=60 if build.sanitize else 30)
            let_others_run(program_under(self.program))
        except BaseException:
            self.close()
            raise

    def fail_command(self, port: int, error: str, number: int) -> None:
        self.inject(port, f"any:{error}:1:{number}")

    def fail_no_more(self, port: int) -> bool:
        return bool(self.inject(port, "none"))

    def open_files(self) -> list[str]:
        """Excludes softhca's own streams to those who ask it, which may just be closing."""
        process = Path(f"/proc/{program_under(self.program)}")
        sockets = map(str.split, (process / "net/unix").open())
        streams = {f"socket:[{fields[6]}]" for fields in sockets if fields[4] == "0001"}
        names = []
        for entry in (process / "fd").iterdir():
            with suppress(FileNotFoundError):
                names.append(os.readlink(entry))
        return [name for name in names if name not in streams]

    def abandon(self, how: signal.Signals) -> None:
        """Kills testpmd (not softhca, which must clean up after it)."""
        self.signal_program(how)
        self.program.wait()
        self.abandoned = True

    def finish(self) -> None:
        """Ends testpmd normally and checks that it has cleaned up."""
        if self.abandoned:
            self.close()
            return
        try:
            status = self.testpmd.quit()
            reports = self.sanitizer_reports()
            assert not reports, f"sanitizer reports:\n{reports}"
            assert status == 0, f"testpmd ended with status {status}, log: {self.program.log}"
        finally:
            self.close()
