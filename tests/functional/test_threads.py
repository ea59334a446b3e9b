# SPDX-License-Identifier: BSD-3-Clause
"""Threads that poll queues, one that makes control calls, telemetry and device events, all concurrently:
`ethdev-test` (tests/functional/ethdev/threads_test.cpp), plain and with ThreadSanitizer."""

import subprocess
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Callable

import pytest
from rig.ports import PortSpec
from rig.stack import DRIVER, ROOT, Build, SoftHca
from rig.telemetry import Telemetry, own_prefix

from functional.conftest import StartSoftHca

PORTS = [PortSpec("loop", {"pause": "on"})] * 2
ASKED = [f"/rawqp/{command}" for command in ("device", "events", "flows", "mrs", "queues")] + [
    "/ethdev/stats", "/ethdev/xstats", "/ethdev/link_status", "/ethdev/info"]
# rte_intr_callback_unregister_sync waits for handlers through EAL's locks, which ThreadSanitizer does not see.
ORDERED_BY_EAL = "race:rawqp::Port::~Port"


class ThreadBuild(Build):
    """The driver and its program with ThreadSanitizer; softhca without, as a NIC is not a thread."""

    def __init__(self, plain: Build) -> None:
        super().__init__(ROOT / "build-threads", sanitize=False)
        self.softhca = plain.softhca

    def env(self, reports: Path) -> dict[str, str]:
        suppressions = reports.with_name("suppressions")
        suppressions.write_text(ORDERED_BY_EAL)
        options = f"log_path={reports}:suppressions={suppressions}:print_suppressions=0"
        return {**super().env(reports), "TSAN_OPTIONS": options}


def run(hca: SoftHca, prefix: str) -> None:
    """Until the program ends, queries both ports through telemetry, and flaps the link of the second one."""
    hca.program.wait_for("traffic runs", timeout=60)
    asked, up = 0, cycle((False, True))
    with closing(Telemetry(prefix)) as telemetry:
        while "traffic is over" not in hca.program.output and hca.program.running():
            for command in ASKED:
                for port in range(2):
                    telemetry.ask(command, port)
                    asked += 1
            hca.set_link(1, next(up))
    hca.program.send_line("")
    status = hca.program.wait(120)
    assert not hca.sanitizer_reports(), hca.sanitizer_reports()
    assert status == 0 and "Running 0 tests" not in hca.program.output, hca.program.output
    assert asked > 2 * len(ASKED)


def command_of(build: Build, datapath: str, prefix: str) -> list[str]:
    program = str(build.folder / "tests/functional/ethdev/ethdev-test")
    vdevs = [word for port in range(2)
             for word in ("--vdev", f"net_rawqp{port},device=mlx5_{port},datapath={datapath}")]
    return [program, "--gtest_filter=Threads.*", "-l", "0", "--no-huge", "-m", "256", "--no-shconf",
            "--telemetry", f"--file-prefix={prefix}", "--no-pci", "-d", DRIVER, *vdevs]


def test_control_calls_beside_traffic(start_softhca: StartSoftHca, build: Build, datapath: str) -> None:
    prefix = own_prefix(f"threads-{datapath}")
    run(start_softhca(PORTS, command_of(build, datapath, prefix)), prefix)


@pytest.fixture(scope="module")
def thread_build(build: Build) -> Build:
    done = subprocess.run([ROOT / "scripts/setup", "--threads", "--no-packages"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return ThreadBuild(build)


@pytest.mark.thorough  # the build takes minutes
@pytest.mark.timeout(3600)
def test_no_thread_races(thread_build: Build, datapath: str, new_folder: Callable[[], Path]) -> None:
    prefix = own_prefix(f"races-{datapath}")
    hca = SoftHca(thread_build, new_folder(), PORTS, command_of(thread_build, datapath, prefix))
    try:
        run(hca, prefix)
    finally:
        hca.close()
