# SPDX-License-Identifier: BSD-3-Clause
"""The launcher `softhca`, run as users run it."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Sequence

from .program import Program
from .stack import Build

# Prints the number of SIGINTs on SIGUSR1; exits with status 5 on SIGTERM. In Python, because a shell's trap
# may come too late to interrupt its read().
COUNT_SIGNALS = """
import signal, sys
awaited = {signal.SIGINT, signal.SIGUSR1, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
print("ready", flush=True)
ints = 0
while (number := signal.sigwait(awaited)) != signal.SIGTERM:
    ints += number == signal.SIGINT
    if number == signal.SIGUSR1:
        print("ints:", ints, flush=True)
print("terminated", flush=True)
sys.exit(5)
"""
SIGNAL_COUNTER = ("--", sys.executable, "-c", COUNT_SIGNALS)

# As root without any capability: the checkout and the folders remain readable.
UNPRIVILEGED = (
    ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
)

# For programs that may lock only little memory.
LITTLE_LOCKED = ["prlimit", "--memlock=1000000:1000000"]
if os.geteuid() == 0:
    LITTLE_LOCKED += ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-all"]


class Launcher:
    """softhca with a runtime folder of its own."""

    def __init__(self, build: Build, folder: Path) -> None:
        self.softhca = str(build.softhca)
        self.folder = folder
        self.runtime = folder / "run"
        self.runtime.mkdir(mode=0o700)
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(self.runtime)}
        self._started = ExitStack()

    def run(
        self, *arguments: str, prefix: Sequence[str] = (), stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*prefix, self.softhca, *arguments],
            env=self.env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def start(self, *arguments: str) -> Program:
        return self.start_command([self.softhca, *arguments])

    def start_command(self, command: Sequence[str]) -> Program:
        log = self.folder / f"{len(list(self.folder.iterdir()))}.log"
        program = Program(command, log, self.env, name="softhca")
        self._started.callback(program.close)
        return program

    def start_counter(self) -> Program:
        program = self.start(*SIGNAL_COUNTER)
        program.wait_for("^ready")
        return program

    def start_watch(self, *options: str) -> Program:
        """A program that holds device mlx5_0 open and prints its events."""
        watch = self.start(*options, "--", "ibv_asyncwatch", "-d", "mlx5_0")
        watch.wait_for("async event FD")
        return watch

    def runtime_folders(self) -> list[Path]:
        return sorted(self.runtime.iterdir())

    def close(self) -> None:
        self._started.close()
