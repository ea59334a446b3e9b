# SPDX-License-Identifier: BSD-3-Clause
"""Each command that a port's life cycle issues to its device fails in turn, until a cycle has none left to
fail. Whatever fails, nothing is left behind, and the next cycle, in which that command succeeds, gets at
least as far."""

import re
from dataclasses import dataclass
from typing import Iterator

import pytest
from rig.left_behind import check_clean, left_behind
from rig.packets import numbered
from rig.reliability import TellFaults
from rig.sanitizers import leaks_ignored
from rig.stack import Stack

from functional.conftest import OpenStack

PORT = 1

RULES = {
    "verbs": ["ingress pattern eth / ipv4 / udp dst is 7 / end actions queue index 1 / end",
              "ingress pattern eth / ipv6 / end actions rss types ipv6 end queues 0 1 end / end",
              "ingress pattern eth / ipv4 / tcp / end actions drop / end"],
    "mlx5": ["ingress pattern eth / ipv4 / udp dst is 7 / end actions count / queue index 1 / end",
             "ingress pattern eth / ipv6 / end actions mark id 5 / rss types ipv6 end queues 0 1 end / end",
             "group 1 ingress pattern eth / ipv4 / end actions set_ttl ttl_value 9 / queue index 0 / end",
             "ingress pattern eth / ipv4 / tcp / end actions jump group 1 / end"],
}


@dataclass
class Step:
    command: str
    good: str = r"(?s)\A(?!.*(?i:fail|error|cannot|refuse|invalid))"  # matches the answer of a successful step


def life(stack: Stack) -> list[Step]:
    """The steps of an existing port, from its configuration until its final stop."""
    rules = [Step(f"flow create {PORT} {rule}", r"rule #\d+ created") for rule in RULES[stack.datapath]]
    start, stop = Step(f"port start {PORT}"), Step(f"port stop {PORT}")
    return [
        Step(f"port config mtu {PORT} 1400"), start,
        Step(f"set allmulti {PORT} on"), Step(f"set promisc {PORT} off"),
        Step(f"mac_addr add {PORT} 02:00:00:00:77:01"),
        Step(f"vlan set filter on {PORT}"), Step(f"rx_vlan add 7 {PORT}"),
        *rules,
        Step(f"port config {PORT} rss reta (0,1)"), Step(f"flow flush {PORT}"), *rules[:1],
        stop, Step(f"port config mtu {PORT} 1500"), start, stop,
    ]


def live(stack: Stack) -> bool:
    """Whether all steps succeeded. The port is removed in either case."""
    testpmd = stack.testpmd
    if f"Port {PORT} is attached" not in testpmd.command(f"port attach {stack.vdev(PORT)}", 30):
        return False
    answers = [(step, testpmd.command(step.command, 30)) for step in life(stack)]
    failed = [step.command for step, answer in answers if not re.search(step.good, answer)]
    testpmd.command(f"port stop {PORT}", 30)
    testpmd.expect(f"port detach {PORT}", "Device is detached", 30)
    return not failed


def left(stack: Stack) -> dict[str, object]:
    """What a life cycle must not leave behind."""
    return {**left_behind(stack, PORT), "mbufs": stack.testpmd.mbufs_in_use()}


@pytest.fixture(scope="module")
def stack(datapath: str, open_stack: OpenStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack in which another port exists all the time."""
    # If the kernel fails to destroy an object, these two keep their allocations for it.
    not_ours = leaks_ignored(tmp_path_factory.mktemp("leaks"), "libmlx5.so", "libibverbs.so")
    with open_stack(2, datapath=datapath, attach=1, testpmd_args=["--rxq=2", "--txq=2"],
                    env=not_ours) as stack:
        yield stack


GUEST_STRIDE = 13  # a life takes ten seconds there


@pytest.mark.guest(when=lambda params: params["stride"] == GUEST_STRIDE)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("error, stride", [
    ("ENOMEM", 7), *(pytest.param(error, stride, marks=pytest.mark.thorough)
                     for error, stride in (("ENOMEM", 1), ("EIO", 1), ("EPERM", 1), ("EIO", GUEST_STRIDE)))])
def test_every_command_fails_in_turn(stack: Stack, error: str, stride: int,
                                     tell_faults: TellFaults) -> None:
    """`stride`: every `stride`-th command fails."""
    assert live(stack)
    clean = left(stack)
    nth = 0
    while True:
        stack.fail_command(PORT, error, nth)
        good = live(stack)
        unused = stack.fail_no_more(PORT)
        check_clean(left(stack), clean, f"command {nth} of mlx5_1 failed with {error}")
        if unused:
            break
        nth += stride
    assert good, "no command failed"
    assert nth > 150, "a life has more commands"
    tell_faults("command", nth // stride)
    stack.testpmd.start("io", lossless=True)  # the other port is unaffected
    stack.wires[0].transfer(numbered(100), to=stack.wires[0])
    stack.testpmd.stop()
