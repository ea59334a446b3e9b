# SPDX-License-Identifier: BSD-3-Clause
"""Several processes, each with its own devices, and a cable between them."""

import signal
import uuid

import pytest
from rig.packets import marker, numbered
from rig.stack import PortSpec, Stack

from functional.conftest import StartStack


def open_end(start_stack: StartStack, datapath: str, cable: str) -> Stack:
    """One testpmd between a socket and the cable."""
    ports = [PortSpec(options={"pause": "on"}), PortSpec(wire=cable, options={"pause": "on"})]
    return start_stack(ports, datapath=datapath)


def start_end(start_stack: StartStack, datapath: str, cable: str) -> Stack:
    """The same, forwarding."""
    stack = open_end(start_stack, datapath, cable)
    stack.testpmd.start("io", lossless=True)
    return stack


@pytest.fixture
def cable() -> str:
    return f"link:t{uuid.uuid4().hex[:12]}"


@pytest.mark.guest(when=lambda params: params["datapath"] == "mlx5")
def test_two_processes_on_one_cable(datapath: str, start_stack: StartStack, cable: str) -> None:
    one, other = (open_end(start_stack, datapath, cable) for _ in range(2))
    for stack in (one, other):
        stack.testpmd.start("io", lossless=True)
    count = 5000 if one.patience == 1 else 100  # in the guest, two polling processes share one CPU
    one.wires[0].transfer(numbered(count, 200), to=other.wires[0], timeout=30)
    other.wires[0].transfer(numbered(count, 1400), to=one.wires[0], timeout=30)


# Not in the guest: there a device outlives its program, and so does its carrier. The kernel's cleanup after a
# program that dies is tested in tests/kernel/test_faults.py.
@pytest.mark.daily(when=lambda params: (params["datapath"] == "mlx5") == (params["how"] == signal.SIGKILL))
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_one_dies_and_comes_back(
    datapath: str, start_stack: StartStack, cable: str, how: signal.Signals
) -> None:
    """The survivor continues, sees the link go down and come back, and forwards again."""
    survivor = start_end(start_stack, datapath, cable)
    victim = start_end(start_stack, datapath, cable)
    survivor.wires[0].transfer(numbered(100), to=victim.wires[0])
    position = survivor.testpmd.mark_output()
    victim.abandon(how)
    survivor.testpmd.wait_for_link_event(1, position)
    assert survivor.testpmd.info(1)["Link status"] == "down"

    position = survivor.testpmd.mark_output()
    successor = start_end(start_stack, datapath, cable)
    survivor.testpmd.wait_for_link_event(1, position)
    assert survivor.testpmd.info(1)["Link status"] == "up"
    successor.wires[0].send(marker())
    assert survivor.wires[0].receive_until(marker()) == []
    survivor.wires[0].transfer(numbered(1000), to=successor.wires[0])
