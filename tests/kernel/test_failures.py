# SPDX-License-Identifier: BSD-3-Clause
"""Firmware commands that fail: the user sees the reason, the port closes cleanly, and can be used again.

The firmware's status passes through mlx5_core, mlx5_ib, the uverbs ABI and libibverbs to the driver, as on a
machine whose NIC has run out of a resource.
"""

import re
from dataclasses import dataclass
from typing import Iterator

import pytest
from rig.guest_stack import GuestStack
from rig.packets import numbered
from rig.reliability import TellFaults

from kernel.conftest import DRIVERS, OpenStack

NO_RESOURCES, EXCEEDED_LIMIT = 0x0F, 0x08

OUT_OF_MEMORY = "Cannot allocate memory"  # mlx5_core's error for EXCEEDED_LIMIT


@dataclass
class Failure:
    command: str
    status: int
    message: str  # one of our lines must contain it


FAILURES = {
    "cq": Failure("CREATE_CQ", EXCEEDED_LIMIT, rf"queue 0: .*\bCQ\b.*{OUT_OF_MEMORY}"),
    "sq": Failure("CREATE_SQ", EXCEEDED_LIMIT, rf"Tx queue 0: .*\bQP\b.*{OUT_OF_MEMORY}"),
    "rq": Failure("CREATE_RQ", EXCEEDED_LIMIT, rf"Rx queue 0: .*\bWQ\b.*{OUT_OF_MEMORY}"),
    "tir": Failure("CREATE_TIR", EXCEEDED_LIMIT, rf"\bhash QP\b.*{OUT_OF_MEMORY}"),
    "flow": Failure("SET_FLOW_TABLE_ENTRY", NO_RESOURCES, "Resource temporarily unavailable"),
    "mkey": Failure("CREATE_MKEY", EXCEEDED_LIMIT, rf"regist.*{OUT_OF_MEMORY}"),
}


@pytest.fixture(scope="module")
def stack(driver: str, open_stack: OpenStack) -> Iterator[GuestStack]:
    """testpmd with one port; the other is plugged and unplugged."""
    with open_stack(2, **DRIVERS[driver], attach=1) as stack:
        yield stack


def attach_and_start(stack: GuestStack) -> str:
    """All output of testpmd and the drivers meanwhile. The port is removed at the end."""
    testpmd = stack.testpmd
    text = testpmd.command(f"port attach {stack.device_text(1)}", 30)
    if "Port 1 is attached" in text:
        text += testpmd.command("port start 1", 30)
        testpmd.command("port stop 1")
        text += testpmd.command("port detach 1")
        assert "Device is detached" in text, text
    return text


@pytest.mark.parametrize("what", FAILURES)
def test_a_failing_command(stack: GuestStack, driver: str, what: str,
                           tell_faults: TellFaults) -> None:
    failure = FAILURES[what]
    stack.inject(1, failure.command, failure.status)
    try:
        text = attach_and_start(stack)
    finally:
        stack.inject(1, failure.command, 0)
    refused = stack.functions[1].control(cmd="commands")[failure.command]["refused"]
    assert refused > 0, f"{failure.command} never came, so nothing was tested:\n{text}"
    if driver != "net_mlx5":  # whose messages are not ours
        lines = [line for line in text.splitlines() if "net_rawqp" in line]
        assert any(re.search(failure.message, line) for line in lines), text
    assert re.search(r"(?i)fail|error", text), text

    text = attach_and_start(stack)
    assert not re.search(r"(?i)fail|error", text), f"it did not come back:\n{text}"
    tell_faults("firmware", refused)


def test_traffic_after_all_failures(stack: GuestStack) -> None:
    testpmd = stack.testpmd
    testpmd.expect(f"port attach {stack.device_text(1)}", "Port 1 is attached")
    testpmd.start_port(1)
    testpmd.command("set portlist 0,1")
    testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(500), to=stack.wires[1])
    stack.wires[1].transfer(numbered(500), to=stack.wires[0])
    testpmd.stop()
