# SPDX-License-Identifier: BSD-3-Clause
"""Devices that fail or are removed, programs that die, users without rights."""

import re
import signal
from typing import Any, Callable

import pytest
from rig.guest import Guest
from rig.guest_stack import GuestStack
from rig.packets import marker, numbered, port_mac
from rig.ports import lossless
from rig.reliability import TellFaults

from kernel.conftest import DRIVERS, StartStack


def assert_port_1_lives(stack: GuestStack) -> None:
    """testpmd forwards from it to itself when it is the only one left."""
    wire = stack.wires[1]
    wire.drain()
    wire.transfer(numbered(200), to=wire)
    assert stack.testpmd.program.running()


def unplugged(stack: GuestStack) -> None:
    """Unplugs the device during traffic."""
    for frame in numbered(100):
        stack.wires[0].send(frame)
    stack.functions[0].unplug()


def fatal_error(stack: GuestStack) -> None:
    """The firmware stops, and mlx5_core notifies all users."""
    stack.functions[0].control(cmd="fatal")


# Daily, each loss with one of our ring formats, and one with DPDK's own driver.
DAILY = {("mlx5", unplugged), ("verbs", fatal_error), ("net_mlx5", unplugged)}
# Our driver only, in both of its ways to the device.
ours_daily = pytest.mark.daily(when=lambda params: params["driver"] != "net_mlx5")


@pytest.mark.daily(when=lambda params: (params["driver"], params["lose"]) in DAILY)
@pytest.mark.parametrize("lose", [unplugged, fatal_error])
def test_a_lost_device_is_a_removal_event(start_stack: StartStack, driver: str,
                                          lose: Callable[[GuestStack], None],
                                          tell_faults: TellFaults) -> None:
    """The process keeps running, and can close the port and exit."""
    stack = start_stack(lossless(2), **DRIVERS[driver])
    testpmd = stack.testpmd
    testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(200), to=stack.wires[1])
    position = testpmd.mark_output()
    lose(stack)
    testpmd.wait_until_removed(0, position, forwarding=True)
    assert_port_1_lives(stack)
    tell_faults("device-fatal", 1)


@ours_daily
def test_kill_in_mid_traffic_and_a_second_start(start_stack: StartStack, guest: Guest,
                                                driver: str, tell_faults: TellFaults) -> None:
    """The kernel releases everything; a new process can use the port at once."""
    stack = start_stack(lossless(2), **DRIVERS[driver])
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(100), to=stack.wires[1])
    for number in range(400):
        if not stack.wires[0].try_send(marker(number, port_mac(0))):
            break
    stack.abandon(signal.SIGKILL)
    objects = stack.functions[0].control(cmd="commands")
    for command in ("RQ", "SQ", "CQ"):
        created = objects[f"CREATE_{command}"]["done"] - objects[f"CREATE_{command}"]["refused"]
        assert objects[f"DESTROY_{command}"]["done"] <= created

    for wire in stack.wires:
        wire.drain()
    stack.start_testpmd()
    stack.testpmd.start("io", lossless=True)
    end = marker(9999, port_mac(0))
    stack.wires[0].send(end)
    stack.wires[1].receive_until(end)  # frames still on the wire come first
    stack.wires[0].transfer(numbered(500), to=stack.wires[1])
    tell_faults("kill", 1)
    stack.wires[1].transfer(numbered(500), to=stack.wires[0])


@pytest.mark.parametrize("drivers", [
    ("mlx5", "verbs"), pytest.param(("net_mlx5", "mlx5"), marks=pytest.mark.thorough)], ids=" and ".join)
def test_two_processes_on_two_devices(start_stack: StartStack, drivers: tuple[str, str]) -> None:
    """Each has its own; one is killed, the other is not affected."""
    one, other = (start_stack(lossless(1), **DRIVERS[driver]) for driver in drivers)
    assert one.device_name(0) != other.device_name(0)
    for stack in (one, other):
        stack.testpmd.start("io", lossless=True)
    for stack in (one, other):
        stack.wires[0].transfer(numbered(300), to=stack.wires[0])
    one.abandon(signal.SIGKILL)
    other.wires[0].transfer(numbered(300), to=other.wires[0])


# -- without privileges ----------------------------------------------------------------------------

USER: dict[str, Any] = {
    # A user's locked memory is limited; EAL and queues need some hundred megabytes.
    "user": ["prlimit", "--memlock=unlimited", "setpriv", "--reuid=65534", "--regid=65534"],
    "env": {"HOME": "/tmp", "XDG_RUNTIME_DIR": "/tmp"},
}


def as_user(guest: Guest, *more: str) -> dict[str, Any]:
    group = guest.run("getent group rdma").split(":")[2]
    return {**USER, "user": [*USER["user"], f"--groups={group}", *more],
            "devices": "chgrp rdma /dev/infiniband/uverbs* && chmod 0660 /dev/infiniband/uverbs*"}


@ours_daily
def test_a_user_with_cap_net_raw(start_stack: StartStack, guest: Guest, driver: str) -> None:
    """Group rdma for the device node, CAP_NET_RAW for raw queue pairs: nothing else is needed."""
    user = as_user(guest, "--inh-caps=-all,+net_raw", "--bounding-set=-all,+net_raw",
                   "--ambient-caps=-all,+net_raw")
    stack = start_stack(lossless(2), **DRIVERS[driver], **user)
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(300), to=stack.wires[1])
    status = guest.run(f"cat /proc/{stack.program.pid}/status")
    assert re.search(r"Uid:\s+65534", status) and "CapEff:\t0000000000002000" in status


def test_a_user_without_cap_net_raw_reads_why(start_stack: StartStack, guest: Guest) -> None:
    """One line; testpmd continues without the port, and there is nothing to clean up."""
    stack = start_stack(lossless(1), **as_user(guest, "--inh-caps=-all", "--bounding-set=-all"))
    errors = re.findall(r"net_rawqp: .*", stack.testpmd.startup)
    assert len(errors) == 1 and "CAP_NET_RAW is needed" in errors[0], stack.testpmd.startup
    assert "No probed ethernet devices" in stack.testpmd.startup
