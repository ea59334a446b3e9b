# SPDX-License-Identifier: BSD-3-Clause
"""API functions that testpmd has no command for: `ethdev-test` (tests/functional/ethdev), on one port whose
wire loops back."""

import subprocess
from typing import Iterator

import pytest
from rig.flow_rules import ENGINES
from rig.process_fixtures import lent_to_test
from rig.stack import DRIVER, Build, PortSpec

from functional.conftest import StartSoftHca

SUITES = ["Cable", "Control", "FlowControl", "FlowFields", "FlowIgmp", "FlowKeep", "Memory",
          "RssSides", "Timesync", "UnknownMemory"]
ELSEWHERE = ["Resets", "Threads"]  # in test_threads.py
MAPPED_SUITES = ["Meter"]  # which verbs flows have not
STEERED_SUITES = ["FlowNumbers"]  # by software
LONG_SUITES = ["FilterScale"]  # the same for all rings
HUGE_SUITES = {"Memory": 64, "Million": 256}  # hugepages of 2 MiB
NO_HUGE = ["--no-huge", "-m", "256", "--no-shconf"]
HUGE = ["--in-memory"]


def program_of(build: Build) -> str:
    return str(build.folder / "tests/functional/ethdev/ethdev-test")


def run(start_softhca: StartSoftHca, build: Build, datapath: str, suite: str,
        memory: list[str], **options: str) -> None:
    eal = ["-l", "0", *memory, "--no-telemetry", "--no-pci", "-d", DRIVER,
           "--vdev", f"net_rawqp0,device=mlx5_0,datapath={datapath},flow_engine={ENGINES[datapath]}"]
    port = PortSpec(wire="loop", options={"pause": "on", **options})
    hca = start_softhca([port], [program_of(build), f"--gtest_filter={suite}.*", *eal])
    status = hca.program.wait(120)
    assert not hca.sanitizer_reports(), hca.sanitizer_reports()
    assert status == 0 and "Running 0 tests" not in hca.program.output, hca.program.output


def listing(build: Build, suite: str = "*") -> list[str]:
    """Suites, with a dot, each followed by its tests."""
    return subprocess.run([program_of(build), "--gtest_list_tests", f"--gtest_filter={suite}.*"], check=True,
                          capture_output=True, text=True).stdout.splitlines()


def test_every_suite_is_listed(build: Build) -> None:
    listed = {line.rstrip(".") for line in listing(build) if line.endswith(".")}
    assert listed == {*SUITES, *MAPPED_SUITES, *STEERED_SUITES, *LONG_SUITES, *ELSEWHERE, *HUGE_SUITES}


# Memory registration is the same for all rings: once in the guest. The kernel sets flow control only for
# functions that manage vports.
@pytest.mark.guest(when=lambda params: params["suite"] != "FlowControl" and (
    params["datapath"] == "mlx5" or params["suite"] in ("FlowFields", "FlowIgmp", "FlowKeep")))
@pytest.mark.parametrize("suite", SUITES)
def test_ethdev(start_softhca: StartSoftHca, build: Build, datapath: str, suite: str) -> None:
    run(start_softhca, build, datapath, suite, NO_HUGE)


@pytest.mark.guest
@pytest.mark.parametrize("suite", MAPPED_SUITES)
def test_ethdev_with_mapped_rings(start_softhca: StartSoftHca, build: Build, suite: str) -> None:
    run(start_softhca, build, "mlx5", suite, NO_HUGE)


@pytest.mark.guest
@pytest.mark.parametrize("steering_format", ["0", "1"], ids=lambda number: f"format{number}")
@pytest.mark.parametrize("suite", STEERED_SUITES)
def test_ethdev_with_software_steering(start_softhca: StartSoftHca, build: Build, datapath: str, suite: str,
                                       steering_format: str) -> None:
    run(start_softhca, build, datapath, suite, NO_HUGE, steering_format=steering_format)


@pytest.mark.thorough
@pytest.mark.parametrize("suite", LONG_SUITES)
def test_ethdev_at_length(start_softhca: StartSoftHca, build: Build, suite: str) -> None:
    run(start_softhca, build, "mlx5", suite, NO_HUGE)


@pytest.fixture
def hugepages(suite: str) -> Iterator[None]:
    """Some additional hugepages, returned even when the test is killed."""
    with lent_to_test(HUGE_SUITES[suite]):
        yield


# Not in the guest: hugepages are lent by the host.
@pytest.mark.parametrize("suite", HUGE_SUITES)
def test_memory_in_hugepages(start_softhca: StartSoftHca, build: Build, datapath: str, suite: str,
                             hugepages: None) -> None:
    """DPDK's heap starts empty here and takes hugepages as it needs them."""
    run(start_softhca, build, datapath, suite, HUGE)
