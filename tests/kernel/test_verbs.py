# SPDX-License-Identifier: BSD-3-Clause
"""libibverbs programs on the kernel: the same ones that tests/functional runs without it."""

import subprocess
from pathlib import Path
from typing import Callable, Iterator

import pytest
from rig.guest import Guest, GuestPort
from rig.stack import Build
from rig.verbs_program import SUITES, names_of, verbs_program


LOOP_MAC = "02:00:00:00:00:aa"


@pytest.fixture(scope="module")
def loop(guest: Guest) -> Iterator[GuestPort]:
    """A port cabled to itself. The frames of uverbs-test are not for its own address: those that no rule takes would
    go to the kernel, as with any NIC."""
    with guest.loop(LOOP_MAC) as port:
        yield port


# All of uverbs-test except these:
LEFT_OUT = {
    # mlx5 keeps the doorbell pages of leaked QPs mapped, and a mapping holds the kernel's file open:
    # nothing is released before the program ends.
    "ContextTest.CloseTakesEverythingAlong",
    # A kernel's doorbell pages need no room in a file.
    "DevxPacingTest.DoorbellPagesThatFailAreGivenBack",
    # A kernel's netdev counts what the kernel sends and receives.
    "NetdevTest.SysfsCountsThePortsPackets",
    # A guest's port has steering memory only with the option steering_format.
    "DevxTest.PatternsOfEditsNeedASteeringFormat",
    "DevxTest.SteeringMemoryIsAligned",
    "DevxTest.SteeringMemoryIsRoundedUp",
    "DevxTest.SteeringMemoryStaysWhileARegionIsInIt",
    "RightsTest.SteeringMemoryNeedsCapNetRawAndCapSysRawio",
    # These are about threads and the control socket of softhca, which are not in a program here.
    "ProcessTest.AForkedChildMayHoldWhatTheControlSocketHasClosed",
    "ProcessTest.SignalsAreForTheProgramsOwnThreads",
    # A kernel serves every process that has the descriptor.
    "ProcessTest.ForkedChildCannotUseTheParentsDevice",
    # mlx5_ib also refuses it, but logs a warning.
    "QpTest.AFailedSendQueueIsNotMadeReady",
    # A kernel in an emulator takes minutes for so many.
    "LimitsTest.ProtectionDomains",
    # mlx5_ib announces them regardless of the device, and rejects devices without XRC.
    "LimitsTest.NoCapabilityOfTransportsThatAreNotThere",
    # mlx5_ib does not look at the memory again where nothing but the key's access changes.
    "ReregTest.AccessThatTheProgramItselfLacks",
    # The kernel refuses it, but keeps a reference to the WQ, which is then busy for good.
    "RssTest.WqCurrentStateThatIsNone",
    # Up to Linux 6.1 memory is pinned regardless of its protection.
    "VerbsTest.MrOfUnreadableMemory",
}
CHANNEL_TESTS = ["ArmingBehindACompletionFiresAtOnce", "NoEventWithoutArming",
                 "NonBlockingChannel", "OneEventForEachArming"]


def run_tests(guest: Guest, build: Build, names: list[str]) -> None:
    program = [str(verbs_program(build.folder)), f"--gtest_filter={':'.join(names)}"]
    # Registered memory is locked.
    command = ["sh", "-c", 'ulimit -l unlimited; exec "$@"', "sh", *program]
    done = guest.try_run(command, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"[  PASSED  ] {len(names)} test" in done.stdout, done.stdout


@pytest.fixture(scope="module")
def all_tests(build: Build) -> list[str]:
    listing = subprocess.run([str(verbs_program(build.folder)), "--gtest_list_tests"],
                             check=True, capture_output=True, text=True).stdout
    return names_of(listing)


def test_what_is_left_out_exists(all_tests: list[str]) -> None:
    assert LEFT_OUT < set(all_tests)


@pytest.mark.parametrize("suite", SUITES)
def test_verbs(guest: Guest, loop: GuestPort, build: Build, all_tests: list[str],
               suite: str) -> None:
    names = [name for name in all_tests if name.startswith(f"{suite}.") and name not in LEFT_OUT]
    assert names
    run_tests(guest, build, names)


# Lines of ibv_devinfo in which the fronts legitimately differ, with the reason.
EXPLAINED = {
    "num_comp_vectors",  # the kernel's driver has one per CPU, and the guest has one CPU
    # mlx5_ib announces these for every device, softhca only those whose transports it supports.
    "device_cap_flags", "device_cap_flags_ex", "CHANGE_PHY_PORT", "RC_RNR_NAK_GEN", "XRC",
}


def test_both_fronts_say_the_same_of_the_device(guest: Guest, loop: GuestPort, build: Build) -> None:
    def told(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.split(":")[0].strip() not in EXPLAINED]

    port = f"wire=loop,mac={LOOP_MAC},device={loop.name}"
    here = subprocess.run([build.softhca, "--port", port, "--", "ibv_devinfo", "-v"], check=True,
                          capture_output=True, text=True, timeout=30).stdout
    there = guest.run(["ibv_devinfo", "-v", "-d", loop.name])
    assert len(told(there)) > 80
    assert told(here) == told(there)


def mlx5_interrupts(guest: Guest) -> int:
    return int(guest.run("awk '/mlx5_/ {n += $2} END {print n + 0}' /proc/interrupts"))


def test_a_completion_channel_wakes_by_interrupt(guest: Guest, loop: GuestPort,
                                                 build: Build) -> None:
    before = mlx5_interrupts(guest)
    run_tests(guest, build, [f"EventsTest.{name}" for name in CHANNEL_TESTS])
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
    """Sets the permissions that rdma-core's udev rules give."""
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
