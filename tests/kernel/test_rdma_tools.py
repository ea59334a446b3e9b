# SPDX-License-Identifier: BSD-3-Clause
"""Stock RDMA tools on the kernel and on softhca's uverbs front: the differences, and their reasons."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest
from rig.guest import Guest, GuestPort
from rig.stack import Build

RIG = Path(__file__).parents[1] / "rig"
MAC = "02:00:00:00:00:ab"


@pytest.fixture(scope="module")
def loop(guest: Guest) -> Iterator[GuestPort]:
    with guest.loop(MAC) as port:
        yield port


class Fronts:
    def __init__(self, guest: Guest, loop: GuestPort, build: Build) -> None:
        self.guest, self.device = guest, loop.name
        self._softhca = [str(build.softhca), "--port", f"wire=loop,mac={MAC},device={loop.name}",
                         "--"]

    def here(self, *command: str) -> str:
        return subprocess.run([*self._softhca, *command], check=True, capture_output=True,
                              text=True, timeout=60).stdout

    def there(self, *command: str) -> str:
        # Registered memory is locked.
        return self.guest.run(["sh", "-c", 'ulimit -l unlimited; exec "$@"', "sh", *command])


@pytest.fixture
def fronts(guest: Guest, loop: GuestPort, build: Build) -> Fronts:
    return Fronts(guest, loop, build)


# Fields of `rdma` that differ legitimately, with the reason.
EXPLAINED = {
    "ifindex",  # depends on earlier devices
    "netdev", "netdev_index",  # the kernel names its netdev differently
    "pid", "pdn", "cqn", "mrn", "lqpn", "rkey", "lkey",  # numbers in order of creation, from different starting points
}
# mlx5_ib announces these for every device, softhca only those whose transports it supports.
ALWAYS_CAPS = {"CHANGE_PHY_PORT", "RC_RNR_NAK_GEN", "XRC"}
DRIVERS_OWN = {"pd": 2, "cq": 2, "srq": 2}  # objects that the kernel's driver creates for itself


def comparable(told: dict[str, Any]) -> dict[str, Any]:
    del told["numbers"]
    return {question: [{key: value for key, value in row.items() if key not in EXPLAINED}
                       if isinstance(row, dict) else row
                       for row in rows if "mlx5_ib" not in json.dumps(row)]
            for question, rows in told.items()}


def test_rdma_tells_the_same(fronts: Fronts) -> None:
    program = ["/usr/bin/python3", str(RIG / "rdma_objects.py"), fronts.device]
    here = comparable(json.loads(fronts.here(*program)))
    there = comparable(json.loads(fronts.there(*program)))
    for kind, count in DRIVERS_OWN.items():
        here["res"][0][kind] += count
    caps = there["dev"][0]["caps"]
    assert ALWAYS_CAPS <= set(caps)
    there["dev"][0]["caps"] = [each for each in caps if each not in ALWAYS_CAPS]
    assert here == there


def test_netlink_requests_end_alike(fronts: Fronts) -> None:
    program = ["/usr/bin/python3", str(RIG / "nldev_requests.py")]
    assert json.loads(fronts.here(*program)) == json.loads(fronts.there(*program))


LIST_FILES = 'cd /sys/class/infiniband/$0/ && find . | sort'
SHOW_FILES = ('cd /sys/class/infiniband/$0/ && for f in $(find . -type f ! -path "./power/*" | sort);'
              ' do echo "$f: $(cat $f)"; done')


def test_sysfs_has_the_same_files(fronts: Fronts) -> None:
    here, there = (set(front("sh", "-c", LIST_FILES, fronts.device).split())
                   for front in (fronts.here, fronts.there))
    # Power management is the kernel's own; a GID that ibstat insists on is ours.
    assert {name for name in there - here if not name.startswith("./power")} == set()
    assert here - there == {"./ports/1/gids/0"}


def test_sysfs_says_the_same(fronts: Fronts) -> None:
    here, there = (set(front("sh", "-c", SHOW_FILES, fronts.device).splitlines())
                   for front in (fronts.here, fronts.there))
    differ = {line.split(":")[0] for line in here ^ there}
    assert differ == {
        "./ports/1/gids/0",
        "./ports/1/pkeys/0",  # softhca-pci reports a table of zeros, real devices have 0xffff
        "./node_desc",  # free text
        "./fw_pages",  # no firmware behind the uverbs front
        *(name for name in differ if "counters/" in name),  # the kernel's netdev sends packets of its own
    }


def test_ibstatus_tells_the_same(fronts: Fronts) -> None:
    def told(text: str) -> list[str]:
        return [line for line in text.splitlines() if "default gid" not in line]

    here, there = fronts.here("ibstatus", fronts.device), fronts.there("ibstatus", fronts.device)
    assert told(here) == told(there) and "4: ACTIVE" in here
    assert re.search(r"default gid:\s+unknown", there)  # a port without RoCE


def test_ibstat_needs_a_gid(fronts: Fronts) -> None:
    """This is why softhca shows one: in a kernel, a port without RoCE has none, and ibstat exits."""
    assert fronts.there("ibstat", "-l") == fronts.here("ibstat", "-l")
    done = fronts.guest.try_run(["ibstat", fronts.device])
    if done.returncode:
        assert f"stat of IB device '{fronts.device}' failed" in done.stdout + done.stderr
    assert "State: Active" in fronts.here("ibstat", fronts.device)


def test_softhca_goes_before_a_kernel_that_knows_rdma(fronts: Fronts, build: Build) -> None:
    inner = [str(build.softhca), "--port", "device=inner0,wire=loop", "--"]
    kernels = json.loads(fronts.there("rdma", "-j", "dev"))
    assert fronts.device in {device["ifname"] for device in kernels}
    ours = json.loads(fronts.there(*inner, "rdma", "-j", "dev"))
    assert [device["ifname"] for device in ours] == ["inner0"]
    assert "inner0" in fronts.there(*inner, "ibv_devices")
    assert fronts.device not in fronts.there(*inner, "ibv_devices")
