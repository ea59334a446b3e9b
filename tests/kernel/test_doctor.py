# SPDX-License-Identifier: BSD-3-Clause
"""rawqp-doctor on a kernel whose links are broken one by one, as on real machines."""

import json
from contextlib import contextmanager
from typing import Any, Iterator

import pytest
from rig.guest import Guest, GuestPort
from rig.stack import Build

NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all"


@pytest.fixture(scope="module")
def loop(guest: Guest) -> Iterator[GuestPort]:
    with guest.loop("02:00:00:00:00:ab") as port:
        yield port


class Doctor:
    def __init__(self, guest: Guest, loop: GuestPort, build: Build) -> None:
        self.guest, self.loop = guest, loop
        self.program = build.folder / "app/rawqp-doctor/rawqp-doctor"

    def findings(self, prefix: str = "") -> dict[str, Any]:
        """By id; "first": the id of the first broken link."""
        done = self.guest.try_run(f"ulimit -l unlimited; {prefix} {self.program} --json", 120)
        report = json.loads(done.stdout)
        assert done.returncode == (0 if report["healthy"] else 1), done.stderr
        found = {each["id"]: each for each in report["findings"]}
        return {**found, "first": report["first_broken"], "device": report["device"]}

    def wait_until_active(self) -> None:
        """The kernel learns of a link after the command that brings its interface up has ended."""
        state = f"/sys/class/infiniband/{self.loop.name}/ports/1/state"
        self.guest.wait_until(f"grep -q ACTIVE {state}")

    @contextmanager
    def broken(self, how: str, mend: str = "") -> Iterator[dict[str, Any]]:
        """The findings while something is broken. By default it is fixed by the remedy given for the first broken
        link; afterwards everything works again."""
        self.guest.run(how)
        try:
            found = self.findings()
            yield found
            self.guest.run(mend or found[found["first"]]["remedy"], 120)
        finally:
            self.guest.load_drivers()
            self.loop.wait_until_ready()
            self.wait_until_active()
        assert self.findings()["first"] is None


@pytest.fixture
def doctor(guest: Guest, loop: GuestPort, build: Build) -> Doctor:
    doctor = Doctor(guest, loop, build)
    doctor.wait_until_active()
    return doctor


def test_a_healthy_device(doctor: Doctor) -> None:
    found = doctor.findings()
    assert found["first"] is None, found
    assert found["device"] == doctor.loop.name
    assert doctor.loop.pci in found["nic"]["evidence"]
    assert found["netdev"]["evidence"] == doctor.loop.netdev


def test_without_the_rdma_module(doctor: Doctor) -> None:
    with doctor.broken("rmmod mlx5_ib") as found:
        assert found["first"] == "rdma-device"
        assert found["rdma-device"]["remedy"] == "modprobe mlx5_ib"


def test_without_the_uverbs_module(doctor: Doctor) -> None:
    unload = "rmmod mlx5_ib && rmmod ib_uverbs"
    with doctor.broken(unload, "modprobe ib_uverbs && modprobe mlx5_ib") as found:
        assert found["first"] == "uverbs-module"
        assert "modprobe ib_uverbs" in found["uverbs-module"]["remedy"]


def test_a_function_without_driver(doctor: Doctor) -> None:
    with doctor.broken(f"echo {doctor.loop.pci} > /sys/bus/pci/drivers/mlx5_core/unbind") as found:
        assert found["first"] == "nic"
        assert found["nic"]["cause"] == f"no kernel driver has {doctor.loop.pci}"


def test_a_function_kept_for_vfio(doctor: Doctor) -> None:
    """As with driverctl and dpdk-devbind, whether or not vfio-pci takes it."""
    function = f"/sys/bus/pci/devices/{doctor.loop.pci}"
    with doctor.broken(f"echo vfio-pci > {function}/driver_override"
                       f" && echo {doctor.loop.pci} > {function}/driver/unbind") as found:
        assert found["first"] == "nic"
        assert "kept for vfio-pci" in found["nic"]["cause"]


def test_an_interface_in_another_namespace(doctor: Doctor) -> None:
    netdev = doctor.loop.netdev
    with doctor.broken(f"ip netns add away && ip link set {netdev} netns away",
                       f"ip netns exec away ip link set {netdev} netns 1 && ip netns del away"
                       ) as found:
        assert found["netdev"]["state"] == "warning"
        assert "another network namespace" in found["netdev"]["cause"]


def test_an_interface_that_is_down(doctor: Doctor) -> None:
    netdev = doctor.loop.netdev
    with doctor.broken(f"ip link set {netdev} down") as found:
        assert found["first"] == "port"
        assert found["port"]["remedy"] == f"ip link set {netdev} up"


def test_a_user_without_rights(doctor: Doctor) -> None:
    """Rights to the node and to raw packets; both are named."""
    doctor.guest.run("chmod 0600 /dev/infiniband/uverbs*")
    found = doctor.findings(NOBODY)
    assert found["first"] == "uverbs-node"
    assert "mode 0600" in found["uverbs-node"]["evidence"]
    assert found["capability"]["state"] == "broken"
    doctor.guest.run("chmod 0666 /dev/infiniband/uverbs*")
    found = doctor.findings(NOBODY)
    assert found["first"] == "capability"
    doctor.guest.run("chmod 0600 /dev/infiniband/uverbs*")
