# SPDX-License-Identifier: BSD-3-Clause
"""Threads that poll queues, one that makes control calls, telemetry and device events, all concurrently; and
telemetry while the application resets a port again and again: `ethdev-test` (threads_test.cpp and reset_test.cpp
in tests/functional/ethdev), plain and with ThreadSanitizer."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
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
# What answers have that are given while a port is reset. Not /ethdev/xstats: if their number shrinks between two
# of telemetry's calls, its answer has names that nobody wrote. The program itself asks for those.
ASKED_IN_RESETS = {"/ethdev/info": "mac_addr", "/ethdev/stats": "ipackets", "/ethdev/link_status": "status",
                   "/ethdev/dump_priv": "port 0 net_rawqp0", "/rawqp/device": "rdma_device"}
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
    finish(hca)
    assert asked > 2 * len(ASKED)


def run_resets(hca: SoftHca, prefix: str) -> None:
    """Queries the port through telemetry until the program's resets are over. Each question is answered, or
    refused."""
    hca.program.wait_for("ready for questions", timeout=60)

    def ask(command: str, telemetry: Telemetry) -> int:
        """Asks until the resets are over, and once more; returns how many questions were answered."""
        answered, over = 0, False
        while not over:
            over = "resets are over" in hca.program.output or not hca.program.running()
            answer = telemetry.ask(command, 0)
            assert answer is None or ASKED_IN_RESETS[command] in answer, answer
            answered += answer is not None
        return answered

    with ExitStack() as opened, ThreadPoolExecutor(len(ASKED_IN_RESETS)) as pool:
        connections = [opened.enter_context(closing(Telemetry(prefix))) for _ in ASKED_IN_RESETS]
        hca.program.send_line("")
        counts = list(pool.map(ask, ASKED_IN_RESETS, connections))  # the program has a thread for each, too
    finish(hca)
    assert all(counts), dict(zip(ASKED_IN_RESETS, counts))


def finish(hca: SoftHca) -> None:
    hca.program.send_line("")
    status = hca.program.wait(120)
    assert not hca.sanitizer_reports(), hca.sanitizer_reports()
    assert status == 0 and "Running 0 tests" not in hca.program.output, hca.program.output


def command_of(build: Build, datapath: str, prefix: str, suite: str = "Threads") -> list[str]:
    program = str(build.folder / "tests/functional/ethdev/ethdev-test")
    vdevs = [word for port in range(2)
             for word in ("--vdev", f"net_rawqp{port},device=mlx5_{port},datapath={datapath}")]
    return [program, f"--gtest_filter={suite}.*", "-l", "0", "--no-huge", "-m", "256", "--no-shconf",
            "--telemetry", f"--file-prefix={prefix}", "--no-pci", "-d", DRIVER, *vdevs]


def test_control_calls_beside_traffic(start_softhca: StartSoftHca, build: Build, datapath: str) -> None:
    prefix = own_prefix(f"threads-{datapath}")
    run(start_softhca(PORTS, command_of(build, datapath, prefix)), prefix)


def test_resets_beside_telemetry(start_softhca: StartSoftHca, build: Build, datapath: str) -> None:
    prefix = own_prefix(f"resets-{datapath}")
    run_resets(start_softhca(PORTS, command_of(build, datapath, prefix, "Resets")), prefix)


@pytest.fixture(scope="module")
def thread_build(build: Build) -> Build:
    done = subprocess.run([ROOT / "scripts/setup", "--threads", "--no-packages"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return ThreadBuild(build)


@pytest.mark.thorough  # the build takes minutes
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("suite, run_suite", [("Threads", run), ("Resets", run_resets)], ids=["threads", "resets"])
def test_no_thread_races(thread_build: Build, datapath: str, new_folder: Callable[[], Path], suite: str,
                         run_suite: Callable[[SoftHca, str], None]) -> None:
    prefix = own_prefix(f"races-{suite}-{datapath}")
    hca = SoftHca(thread_build, new_folder(), PORTS, command_of(thread_build, datapath, prefix, suite))
    try:
        run_suite(hca, prefix)
    finally:
        hca.close()
