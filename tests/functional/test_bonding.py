# SPDX-License-Identifier: BSD-3-Clause
"""Ports as members of DPDK's net_bonding, which reconfigures and restarts them, receives their link events, and
with LACP may receive its protocol's frames on a dedicated queue, through a flow rule."""

import re
import shlex
import time
from typing import Iterator

import pytest
from rig.guide import commands, recipe
from rig.packets import numbered
from rig.ports import PortSpec, lossless
from rig.stack import Stack
from rig.testpmd import Testpmd

from functional.conftest import OpenStack, StartSoftHca, StartStack

ACTIVE_BACKUP, LACP = 1, 4  # modes
IN_SERVICE = "SYNCHRONIZATION COLLECTING DISTRIBUTING"


def bond(testpmd: Testpmd, mode: int, bonded: int, members: tuple[int, ...]) -> None:
    testpmd.expect(f"create bonded device {mode} 0", rf"on \(port {bonded}\)")
    testpmd.silent(*(f"add bonding slave {member} {bonded}" for member in members))


def wait_for_answer(testpmd: Testpmd, command: str, pattern: str, timeout: float = 20) -> None:
    """Repeats the command until the answer contains `pattern`."""
    deadline = time.monotonic() + timeout
    while not re.search(pattern, answer := testpmd.command(command)):
        assert time.monotonic() < deadline, f"{command!r} never said {pattern!r}, but:\n{answer}"


@pytest.fixture(scope="module")
def backed_up(open_stack: OpenStack) -> Iterator[Stack]:
    """Port 3 bonds ports 0 and 1, one at a time; packets pass between it and port 2."""
    with open_stack(lossless(3)) as stack:
        bond(stack.testpmd, ACTIVE_BACKUP, 3, (0, 1))
        stack.testpmd.start_port(3)
        stack.testpmd.command("set portlist 2,3")
        stack.testpmd.start("io", lossless=True)
        yield stack


def test_recipe(start_softhca: StartSoftHca) -> None:
    [command] = commands(recipe("Bonding"))
    testpmd = Testpmd(start_softhca(lossless(2), shlex.split(command)).program)
    testpmd.expect("show bonding config 2", r"Active Slaves \(2\): \[0 1\]")
    assert testpmd.quit() == 0


def check_both_ways(stack: Stack, active: int) -> None:
    frames = list(numbered(100, 300))
    outside, inside = stack.wires[active], stack.wires[2]
    outside.transfer(frames, to=inside)
    inside.transfer(frames, to=outside)


def test_backup_takes_over(backed_up: Stack) -> None:
    check_both_ways(backed_up, active=0)
    for down, up in (0, 1), (1, 0):
        backed_up.set_link(down, up=False)
        wait_for_answer(backed_up.testpmd, "show bonding config 3", rf"Active Slaves \(1\): \[{up}\]")
        check_both_ways(backed_up, active=up)
        backed_up.set_link(down, up=True)
        wait_for_answer(backed_up.testpmd, "show bonding config 3", r"Active Slaves \(2\)")


def test_bond_has_its_members_properties(backed_up: Stack) -> None:
    """The address is the first member's, and rules are applied to each."""
    testpmd = backed_up.testpmd
    addresses = {testpmd.info(port)["MAC address"] for port in (0, 3)}
    assert len(addresses) == 1

    def rules() -> list[bool]:
        return ["udp" in testpmd.command(f"flow dump {member} all").lower() for member in (0, 1)]

    assert rules() == [False, False]
    testpmd.create_flow(3, "ingress pattern eth / ipv4 / udp dst is 9 / end actions drop / end")
    assert rules() == [True, True]
    testpmd.flush_flows(3)
    assert rules() == [False, False]


@pytest.mark.parametrize("dedicated", (False, True), ids=("shared", "dedicated"))
def test_lacp_finds_its_partner(start_stack: StartStack, dedicated: bool) -> None:
    """Two bonds of two ports each, cabled to each other: all links of both come into service and carry packets."""
    wires = ("pair:a", "pair:a", "pair:b", "pair:b")
    testpmd = start_stack([PortSpec(wire=wire) for wire in wires]).testpmd
    for bonded, members in (4, (0, 2)), (5, (1, 3)):
        bond(testpmd, LACP, bonded, members)
        if dedicated:
            testpmd.silent(f"set bonding lacp dedicated_queues {bonded} enable")
    for bonded in 4, 5:
        testpmd.start_port(bonded)
    testpmd.command("set portlist 4,5")
    testpmd.start("flowgen")  # LACP frames are sent along with other packets
    for bonded in 4, 5:
        wait_for_answer(testpmd, f"show bonding lacp info {bonded}", rf"(?:(?s:.*){IN_SERVICE}){{4}}")
    testpmd.expect("show fwd stats all", r"(?:(?s:.*)RX-packets: [1-9]){2}")
    testpmd.stop()
