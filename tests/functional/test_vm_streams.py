# SPDX-License-Identifier: BSD-3-Clause
"""Input and output of a command of `softhca vm`, with a guest that only says what one would say."""

import os
import signal
import subprocess
import sys
from typing import IO

import pytest
from rig.stack import Build

pytestmark = pytest.mark.unsanitized

# The command writes a word at its start, then what it reads, and ends with its input or by a signal.
GUEST = """
import base64, json, socket, sys, threading, types
from softhca_vm.channel import Channel
from softhca_vm.cli import run_command
ours, guest = socket.socketpair()

def say(**message):
    guest.sendall(json.dumps({"id": 1, **message}).encode() + b"\\n")

def serve():
    for line in guest.makefile():
        request = json.loads(line)
        if request["op"] == "start":
            say(event="output", fd=1, data=base64.b64encode(b"word").decode())
        elif request["op"] == "signal":
            say(event="exit", status=-request["number"], late=False)
        elif "data" in request:
            say(event="output", fd=1, data=request["data"])
        else:
            say(event="exit", status=0, late=False)

threading.Thread(target=serve, daemon=True).start()
machine = types.SimpleNamespace(channel=Channel(ours), settings=types.SimpleNamespace(environment={}))
sys.exit(run_command(machine, ["command"]))
"""


def start(build: Build, stdin: int, stdout: int | IO[bytes], *prefix: str) -> subprocess.Popen[str]:
    packages = {**os.environ, "PYTHONPATH": str(build.folder / "app/softhca/vm")}
    return subprocess.Popen([*prefix, sys.executable, "-c", GUEST], env=packages, stdin=stdin,
                            stdout=stdout, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status and what it said on stderr; stdin stays open meanwhile."""
    try:
        assert process.stderr
        return process.wait(20), process.stderr.read()
    finally:
        process.kill()
        process.wait()


def test_a_reader_that_has_seen_enough_ends_the_command(build: Build) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start(build, subprocess.PIPE, writer)
    os.close(writer)
    assert end(process) == (128 + signal.SIGPIPE, "")


def test_output_that_cannot_be_written_ends_the_command(build: Build) -> None:
    with open("/dev/full", "wb") as full:
        status, said = end(start(build, subprocess.PIPE, full))
    assert status == 128 + signal.SIGPIPE
    assert said == ("softhca vm: cannot write the command's output (No space left on device); "
                    "is there room left?\n")


def test_input_that_cannot_be_read_has_ended(build: Build) -> None:
    writable = os.open("/dev/null", os.O_WRONLY)
    process = start(build, writable, subprocess.PIPE)
    os.close(writable)
    assert end(process) == (0, "")
    assert process.stdout and process.stdout.read() == "word"


def test_a_signal_that_is_ignored_does_not_reach_the_command(build: Build) -> None:
    process = start(build, subprocess.PIPE, subprocess.PIPE, "sh", "-c", 'trap "" HUP; exec "$@"', "as-nohup")
    assert process.stdin and process.stdout
    process.stdin.write("x")
    process.stdin.flush()
    assert process.stdout.read(5) == "wordx"  # input is passed on when signals are
    process.send_signal(signal.SIGHUP)
    process.stdin.close()
    assert end(process) == (0, "")
