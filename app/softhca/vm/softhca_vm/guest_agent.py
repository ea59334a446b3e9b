#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Process 1 of the guest: runs commands for the host, which asks by a virtio-serial port.

One JSON object a line, in both directions; data is in base64. From the host:
    {"op":"setup","modules":DIR,"release":R,"hostname":H,"shares":[[TAG,PATH],…]}
    {"op":"start","id":N,"argv":[…],"env":{…},"cwd":DIR,"tty":BOOL,"console":BOOL,"limit":S}
    {"op":"stdin","id":N,"data":…}          no data: end of file
    {"op":"signal","id":N,"number":S,"group":BOOL}
    {"op":"poweroff"}
To the host:
    {"event":"ready"}       once at the start, and in answer to "setup"
    {"event":"started","id":N,"pid":P}
    {"event":"output","id":N,"fd":1|2,"data":…}
    {"event":"exit","id":N,"status":S,"late":BOOL}  as subprocess has it; late: by its limit
    {"event":"error","id":N,"text":…,"errno":E}     it could not be started, or set up
"""
from __future__ import annotations

import base64
import fcntl
import json
import os
import pty
import resource
import select
import signal
import subprocess
import termios
import time
from typing import Any

PORT = "/dev/virtio-ports/softhca.agent"
GRACE_S = 3  # between SIGTERM and SIGKILL
# Output waits so long for more: for a program that writes byte by byte we would run at each.
GATHER_S = 0.001


def port_path() -> str:
    """The port by its name in sysfs: there is no udev that would make the link."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for port in os.listdir("/sys/class/virtio-ports"):
            with open(f"/sys/class/virtio-ports/{port}/name") as name:
                if name.read().strip() == os.path.basename(PORT):
                    return f"/dev/{port}"
        time.sleep(0.05)  # the host announces the port when it likes
    raise SystemExit("softhca agent: the host has no port " + PORT)


class Job:
    """A running command."""

    def __init__(self, agent: Agent, request: dict[str, Any]) -> None:
        self.agent = agent
        self.number = request["id"]
        self.readers: dict[int, int] = {}  # descriptor: 1 or 2
        self.input: int | None = None
        self.pending = bytearray()  # for the input
        self.end_of_input = False
        self.late = False
        limit = request.get("limit")
        self.deadline = time.monotonic() + limit if limit else None
        env = {**agent.env, **request.get("env", {})}
        if request.get("console"):
            self.process = self._start_on_console(request, env)
        else:
            self.process = self._start(request, env)

    def _start_on_console(self, request: dict[str, Any],
                          env: dict[str, str]) -> subprocess.Popen[bytes]:
        console = os.open("/dev/ttyS0", os.O_RDWR | os.O_NOCTTY)
        try:
            return subprocess.Popen(request["argv"], env=env, cwd=request.get("cwd"),
                                    stdin=console, stdout=console, stderr=console,
                                    preexec_fn=take_terminal)
        finally:
            os.close(console)

    def _start(self, request: dict[str, Any], env: dict[str, str]) -> subprocess.Popen[bytes]:
        input_read, ours_input = os.pipe()
        if request.get("tty"):
            master, slave = pty.openpty()
            outputs, ours = (slave, slave), {master: 1}
        else:
            out, err = os.pipe(), os.pipe()
            outputs, ours = (out[1], err[1]), {out[0]: 1, err[0]: 2}
        try:
            process = subprocess.Popen(request["argv"], env=env, cwd=request.get("cwd"),
                                       stdin=input_read, stdout=outputs[0], stderr=outputs[1],
                                       start_new_session=True)
        except OSError:
            for descriptor in (ours_input, *ours):
                os.close(descriptor)
            raise
        finally:
            for descriptor in {input_read, *outputs}:
                os.close(descriptor)
        for descriptor in ours:
            os.set_blocking(descriptor, False)
        os.set_blocking(ours_input, False)
        self.input = ours_input
        self.readers = ours
        return process

    def feed(self, data: bytes) -> None:
        if self.input is None:
            return
        if data:
            self.pending += data
        else:
            self.end_of_input = True
        self.write_some()

    def write_some(self) -> None:
        """Writes what the program takes now; the rest waits for the descriptor."""
        assert self.input is not None
        try:
            while self.pending:
                written = os.write(self.input, self.pending)
                del self.pending[:written]
        except BlockingIOError:
            return
        except OSError:
            self.end_of_input = True  # nobody reads any more
        if self.end_of_input:
            os.close(self.input)
            self.input = None

    def read_some(self, descriptor: int) -> bool:
        """False at the end of the output."""
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return False
        except OSError:  # EIO: the last writer has closed the terminal
            data = b""
        if data:
            self.agent.tell(event="output", id=self.number, fd=self.readers[descriptor],
                            data=base64.b64encode(data).decode())
            return True
        os.close(descriptor)
        del self.readers[descriptor]
        return False

    def check_limit(self, now: float) -> None:
        if self.deadline is None or now < self.deadline:
            return
        self.kill(signal.SIGKILL if self.late else signal.SIGTERM, group=True)
        self.late = True
        self.deadline = now + GRACE_S

    def kill(self, number: int, group: bool) -> None:
        try:
            (os.killpg if group else os.kill)(self.process.pid, number)
        except ProcessLookupError:
            pass

    def finish(self, status: int) -> None:
        for descriptor in list(self.readers):
            while self.read_some(descriptor):
                pass
        for descriptor in self.readers:  # a child that lives on may still have the other end
            os.close(descriptor)
        if self.input is not None:
            os.close(self.input)
        self.agent.tell(event="exit", id=self.number, status=status, late=self.late)


def take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Agent:
    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.received = b""
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "HOME": "/root", "LC_ALL": "C.UTF-8", "TERM": "linux", "USER": "root"}
        self.wake_read, wake_write = os.pipe()
        os.set_blocking(self.wake_read, False)
        os.set_blocking(wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write)
        self.port = os.open(port_path(), os.O_RDWR)

    def tell(self, **message: Any) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self.port, data):]

    def run(self) -> None:
        self.tell(event="ready")
        while True:
            poll = select.poll()
            poll.register(self.port, select.POLLIN)
            poll.register(self.wake_read, select.POLLIN)
            owners = {}
            for job in self.jobs.values():
                for descriptor in job.readers:
                    owners[descriptor] = job
                    poll.register(descriptor, select.POLLIN)
                if job.input is not None and job.pending:
                    owners[job.input] = job
                    poll.register(job.input, select.POLLOUT)
            events = poll.poll(self.next_limit())
            if any(descriptor in owners for descriptor, _ in events):
                time.sleep(GATHER_S)
            for descriptor, event in events:
                if descriptor == self.port:
                    self.receive(event)
                elif descriptor == self.wake_read:
                    self.drain_wakeups()
                elif descriptor in owners:
                    job = owners[descriptor]
                    if descriptor == job.input:
                        job.write_some()
                    elif descriptor in job.readers:
                        job.read_some(descriptor)
            self.reap()
            now = time.monotonic()
            for job in self.jobs.values():
                job.check_limit(now)

    def next_limit(self) -> int | None:
        limits = [job.deadline for job in self.jobs.values() if job.deadline is not None]
        return max(0, int(1000 * (min(limits) - time.monotonic())) + 1) if limits else None

    def drain_wakeups(self) -> None:
        try:
            os.read(self.wake_read, 4096)
        except BlockingIOError:
            pass

    def reap(self) -> None:
        """Also the orphans that fall to process 1."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for job in list(self.jobs.values()):
                if job.process.pid == pid:
                    del self.jobs[job.number]
                    job.process.returncode = os.waitstatus_to_exitcode(status)
                    job.finish(job.process.returncode)

    def receive(self, event: int) -> None:
        data = os.read(self.port, 65536)
        if not data and event & select.POLLHUP:
            self.power_off()  # the host's end is gone
        self.received += data
        *lines, self.received = self.received.split(b"\n")
        for line in lines:
            self.handle(json.loads(line))

    def handle(self, request: dict[str, Any]) -> None:
        number = request.get("id", 0)
        job = self.jobs.get(number)
        try:
            if request["op"] == "setup":
                self.set_up(request)
                self.tell(event="ready")
            elif request["op"] == "start":
                self.jobs[number] = job = Job(self, request)
                self.tell(event="started", id=number, pid=job.process.pid)
            elif request["op"] == "poweroff":
                self.power_off()
            elif job and request["op"] == "stdin":
                job.feed(base64.b64decode(request.get("data", "")))
            elif job and request["op"] == "signal":
                job.kill(request["number"], request.get("group", False))
        except (OSError, subprocess.SubprocessError, RuntimeError) as error:
            self.tell(event="error", id=number, text=str(error),
                      errno=getattr(error, "errno", None) or 0)

    def set_up(self, request: dict[str, Any]) -> None:
        with open("/proc/sys/kernel/hostname", "w") as file:
            file.write(request["hostname"])
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
        modules = f"/lib/modules/{request['release']}"
        os.makedirs(modules, exist_ok=True)
        self.mount("--bind", request["modules"], modules)
        self.call("ip", "link", "set", "lo", "up")
        for tag, path in request["shares"]:
            os.makedirs(path, exist_ok=True)
            self.mount("-t", "9p", "-o", "trans=virtio,version=9p2000.L,cache=none,msize=262144",
                       tag, path)

    def mount(self, *arguments: str) -> None:
        self.call("mount", *arguments)

    def call(self, *command: str) -> None:
        done = subprocess.run(command, env=self.env, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")

    @staticmethod
    def power_off() -> None:
        os.sync()
        with open("/proc/sysrq-trigger", "w") as trigger:
            trigger.write("o")
        while True:
            time.sleep(1)


if __name__ == "__main__":
    Agent().run()
