# SPDX-License-Identifier: BSD-3-Clause
"""The command line of `softhca vm`."""
from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import termios
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Sequence

from softhca_vm import kernel
from softhca_vm.channel import Command
from softhca_vm.errors import TimeLimit, VmError
from softhca_vm.machine import Machine, Settings

EXIT_USAGE, EXIT_NO_GUEST, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 2, 125, 126, 127
EXIT_LATE = 124  # as timeout(1)

DESCRIPTION = """\
Runs a command under an unmodified Linux kernel in QEMU, above a software RDMA NIC that is a PCI
device there: the kernel's own mlx5 drivers bind to it. The machine has all files of this one, may
change none of them (what it writes is in memory and vanishes), and starts in seconds. No root, no
KVM, nothing to install in it."""

EPILOG = """\
The command runs as the guest's root in the current folder, with its input, output and exit status
connected to yours. The drivers are not loaded yet: `modprobe mlx5_ib` does it.

Examples:
  softhca vm -- sh -c 'modprobe mlx5_ib && ibv_devinfo -v'
      what the kernel's drivers make of the device
  softhca vm --port wire=socket:/tmp/cable
      a shell; the far end of the port's cable is a socket on this machine
  softhca vm --port wire=link:a --port wire=sink -- ./my-test
      two NICs; the first is cabled to a program of this machine under
      `softhca --port wire=link:a -- PROGRAM`
  softhca vm --share results -- sh -c 'dmesg > results/dmesg'
      a folder that the guest may write to

Exit status: that of the command, 128 + N if signal N ended it; 124 at the time limit, 125 if the
guest failed, 126 or 127 if the command cannot be run or found, 2 for a wrong command line."""


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="softhca vm", usage="softhca vm [options] [-- command [arguments]]",
        description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--port", action="append", metavar="KEY=VALUE,...",
                        help="a NIC, as in softhca --port; repeat it for more "
                             "(default: one, wire=loop)")
    result.add_argument("--no-port", action="store_true", help="a guest without a NIC")
    result.add_argument("--timeout", type=seconds, default=600, metavar="S",
                        help="the machine's life at most, in seconds (default: 600)")
    result.add_argument("--memory", type=size, default="1G", metavar="M",
                        help="as 512M or 2G (default: 1G)")
    result.add_argument("--cpus", type=int, choices=range(1, 9), default=1, metavar="N",
                        help="CPUs of the guest, which take turns on one here (default: 1)")
    result.add_argument("--share", type=folder, action="append", default=[], metavar="DIR",
                        help="a folder that the guest may write to, at its path here")
    result.add_argument("--log", type=Path, metavar="DIR",
                        help="keeps the logs of console, QEMU and devices there")
    result.add_argument("--cache", type=Path, metavar="DIR",
                        help="where the guest's kernel is kept (default: %s)"
                             % kernel.default_cache())
    result.add_argument("-v", "--verbose", action="store_true", help="say what is done")
    result.add_argument("command", nargs="*", help=argparse.SUPPRESS)
    return result


def seconds(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return int(text)


def size(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d*[MG]", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, as 512M or 2G")
    return text


def folder(text: str) -> Path:
    path = Path(text).absolute()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return path


def pump_input(command: Command) -> None:
    """Our standard input to the command, in a thread of its own."""

    def read() -> bytes:
        try:
            return os.read(0, 65536)
        except OSError:  # a terminal that has gone, say: there is nothing to come
            return b""

    with suppress(VmError):  # the guest is gone
        while data := read():
            command.write(data)
        command.close_input()


def handle_signals(numbers: Sequence[int], handler: Callable[[int, Any], Any]) -> None:
    """Except those that are ignored, as under nohup(1)."""
    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def run_command(machine: Machine, argv: list[str]) -> int:
    def output(descriptor: int, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(descriptor, data):]
        except BrokenPipeError:
            raise  # as `head` does it: nothing to complain about
        except OSError as error:
            print(f"softhca vm: cannot write the command's output ({error.strerror}); is there room "
                  "left?", file=sys.stderr)
            raise

    command = machine.channel.start(argv, output, cwd=os.getcwd(),
                                    env=machine.settings.environment)
    handle_signals((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
                   lambda which, _frame: command.signal(which, group=True))
    threading.Thread(target=pump_input, args=(command,), daemon=True).start()
    try:
        status = command.wait()
    except OSError as error:
        print(f"softhca vm: {argv[0]}: {error.strerror} (in the guest)", file=sys.stderr)
        return EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_EXECUTABLE
    return status if status >= 0 else 128 - status


def run_shell(machine: Machine) -> int:
    """A shell on the serial console, which is our terminal. Without the host's start-up files:
    what they set up, a prompt first of all, is meant for the host."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shell = machine.channel.start(
        ["/bin/bash", "--norc", "-i"], lambda *_: None, cwd=os.getcwd(), console=True,
        env={**machine.settings.environment, "PS1": r"guest:\w\$ ",
             "TERM": os.environ.get("TERM", "linux")})
    status = shell.wait()
    return status if status >= 0 else 128 - status


def run(arguments: argparse.Namespace, work: Path) -> int:
    cache = (arguments.cache or kernel.default_cache()).absolute()  # the guest mounts what is in it

    def provide_kernel() -> kernel.Kernel:
        if kernel.cached(cache) is None:
            print("softhca vm: getting the distribution's kernel (once, 70 MB) ...", file=sys.stderr)
        return kernel.provide(cache)

    ports = [] if arguments.no_port else arguments.port or ["wire=loop"]
    interactive = not arguments.command
    path = os.environ.get("PATH", "")
    settings = Settings(
        folder=work, ports=ports, memory=arguments.memory, cpus=arguments.cpus,
        limit_s=arguments.timeout, shares=arguments.share, console=interactive,
        log_level=4 if interactive else 5,
        environment={"PATH": f"{path}:/usr/sbin:/sbin"} if path else {})
    try:
        machine = Machine(settings, provide_kernel, cache)
    except OSError as error:
        raise VmError(f"{error.filename or work}: {error.strerror}; --log and --cache name folders "
                      "that you may write to") from None
    if arguments.verbose:
        print(f"softhca vm: Linux {machine.kernel.release}, logs in {work}", file=sys.stderr)
    try:
        status = run_shell(machine) if interactive else run_command(machine, arguments.command)
        machine.power_off()
        return status
    except VmError as error:
        raise machine.explained(error) from None
    finally:
        machine.close()


def main() -> int:
    arguments = parser().parse_args()
    work = arguments.log or Path(tempfile.mkdtemp(prefix="softhca-vm-"))
    terminal = termios.tcgetattr(0) if os.isatty(0) else None
    # Until a command takes them.
    handle_signals((signal.SIGTERM, signal.SIGHUP), lambda which, _frame: sys.exit(128 + which))
    try:
        return run(arguments, work.absolute())
    except TimeLimit:
        print(f"softhca vm: not finished after {arguments.timeout} s; --timeout gives it more",
              file=sys.stderr)
        return EXIT_LATE
    except VmError as error:
        print(f"softhca vm: {error}", file=sys.stderr)
        return EXIT_NO_GUEST
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        if terminal:
            with suppress(termios.error):  # it has gone
                termios.tcsetattr(0, termios.TCSADRAIN, terminal)
        if not arguments.log:
            shutil.rmtree(work, ignore_errors=True)
