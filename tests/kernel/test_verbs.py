# SPDX-License-Identifier: BSD-3-Clause
"""libibverbs programs above the kernel: the same ones that tests/functional runs without it."""

from pathlib import Path
from typing import Callable, Iterator

import pytest
from rig.guest import Guest, GuestPort
from rig.ports import PortSpec
from rig.stack import Build



@pytest.fixture(scope="module")
def loop(guest: Guest) -> Iterator[GuestPort]:
    """A port that is cabled to itself."""
    port = guest.plug(0, PortSpec(), "loop")
    guest.load_drivers()
    port.wait_until_ready()
    yield port
    port.unplug()


# Of uverbs-test: what does not depend on how the device came to be. The others ask for limits that
# are softhca's own, or for frames that the kernel's netdev takes first, as it does beside any NIC.
TESTS = {
    "FlowTest": ["EveryReceiverOfAnEqualRuleGetsACopy", "LowerPriorityNumberGoesFirst",
                 "MulticastRulesComeLast", "PrioritiesEndAtFifteen",
                 "TagArrivesInTheCompletion"],
    "QpTest": ["BadLkeyEndsInAnErrorCompletionAndResetHeals", "FramesComeBackByteForByte",
               "MrOfAnotherPdIsRefused", "RateLimitsAreThoseOfTheDevice",
               "SendOnlyQpNeedsNoReceiveQueue", "StatesFollowEachOtherAsInTheSpecification",
               "WrongPortIsRefused"],
    "RssTest": ["ContradictoryHashesAreRefused", "FlowsSpreadAndStayWhereTheyAre",
                "ObjectsInUseAreBusy", "OneQueueNeedsNoHash"],
    "VerbsTest": ["CqOfQpIsBusy", "CqSizes", "CqWithBadVectorIsRefused", "DeviceAttributes",
                  "MrOfMappedMemory", "MrOfMemoryThatIsNotThere", "PdInUseIsBusy",
                  "PortAttributes"],
}
CHANNEL_TESTS = ["ArmingBehindACompletionFiresAtOnce", "NoEventWithoutArming",
                 "NonBlockingChannel", "OneEventForEachArming"]


def run_tests(guest: Guest, build: Build, suite: str, names: list[str]) -> None:
    program = build.folder / "tests/functional/uverbs/uverbs-test"
    names_of = ":".join(f"{suite}.{name}" for name in names)
    done = guest.try_run([str(program), f"--gtest_filter={names_of}"], timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"[  PASSED  ] {len(names)} tests" in done.stdout, done.stdout


@pytest.mark.parametrize("suite", TESTS)
def test_verbs(guest: Guest, loop: GuestPort, build: Build, suite: str) -> None:
    run_tests(guest, build, suite, TESTS[suite])


def mlx5_interrupts(guest: Guest) -> int:
    return int(guest.run("awk '/mlx5_/ {n += $2} END {print n + 0}' /proc/interrupts"))


def test_a_completion_channel_wakes_by_interrupt(guest: Guest, loop: GuestPort,
                                                 build: Build) -> None:
    before = mlx5_interrupts(guest)
    run_tests(guest, build, "EventsTest", CHANNEL_TESTS)
    assert mlx5_interrupts(guest) > before


def test_port_events_reach_a_waiting_program(guest: Guest, loop: GuestPort,
                                             new_folder: Callable[[], Path]) -> None:
    watch = guest.start(["ibv_asyncwatch", "-d", loop.name], new_folder() / "watch.log")
    try:
        watch.wait_for("async event FD")
        loop.set_link(up=False)
        watch.wait_for("IBV_EVENT_PORT_ERR")
        loop.set_link(up=True)
        watch.wait_for("IBV_EVENT_PORT_ACTIVE")
    finally:
        watch.close()


def as_udev_does(guest: Guest) -> None:
    """The permissions that rdma-core's rules give."""
    guest.run("chgrp rdma /dev/infiniband/uverbs* && chmod 0660 /dev/infiniband/uverbs*")


def unprivileged(guest: Guest, *more: str) -> list[str]:
    group = guest.run("getent group rdma").split(":")[2]
    return ["setpriv", "--reuid=65534", "--regid=65534", f"--groups={group}", *more]


def test_a_user_in_group_rdma_sees_the_device(guest: Guest, loop: GuestPort) -> None:
    as_udev_does(guest)
    assert "PORT_ACTIVE" in guest.run([*unprivileged(guest), "ibv_devinfo", "-d", loop.name])


def test_a_user_without_the_group_does_not(guest: Guest, loop: GuestPort) -> None:
    as_udev_does(guest)
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "ibv_devinfo"]
    done = guest.try_run([*command, "-d", loop.name])
    assert done.returncode != 0 and "Failed to open device" in done.stdout + done.stderr
