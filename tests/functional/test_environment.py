# SPDX-License-Identifier: BSD-3-Clause
"""Machines that lack something: the driver reports what is missing, and nothing crashes."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from rig.launcher import LITTLE_LOCKED
from rig.stack import DRIVER, Build, PortSpec
from rig.testpmd import Testpmd

from functional.conftest import StartSoftHca


EAL = ["-l", "0,1", "--no-huge", "-m", "64", "--no-shconf", "--no-pci", "--no-telemetry"]


def run(build: Build, *command: str) -> tuple[int, str]:
    """Runs a program on this machine as it is; returns status and output."""
    settings = {**os.environ, "LD_LIBRARY_PATH": str(build.driver.parent)}
    result = subprocess.run(command, env=settings, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return result.returncode, result.stdout


def run_testpmd(build: Build, vdev: str) -> tuple[int, str]:
    return run(build, "dpdk-testpmd", *EAL, "-d", DRIVER, "--vdev", vdev, "--",
               "--total-num-mbufs=2048")


def driver_lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("net_rawqp")]


@pytest.mark.unsanitized
def test_no_rdma_device(build: Build) -> None:
    status, output = run_testpmd(build, "net_rawqp0,device=no_such_device")
    assert 0 <= status < 128, output  # no crash
    lines = driver_lines(output)
    assert len(lines) == 1 and "RDMA device" in lines[0], output


# Debian's testpmd is linked with libibverbs, and EAL loads net_mlx5 from its plugin folder, so this hides
# both from a program that needs only EAL. Other programs still see them.
WITHOUT_RDMA_CORE = """
set -e
for file in /usr/lib/*/libibverbs.so.1; do mount --bind /dev/null "$file"; done
for folder in /usr/lib/*/dpdk/pmds-*; do
    bus=$(echo "$folder"/librte_bus_vdev.so.??)
    exec 3<"$bus"
    mount -t tmpfs none "$folder"
    cat <&3 >"$bus" # the bus of the driver, which needs no libibverbs, stays
done
exec "$@"
"""
INITIALISE_EAL = """
import ctypes, ctypes.util, sys
eal = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
words = [word.encode() for word in sys.argv[1:]]
print("rte_eal_init:", eal.rte_eal_init(len(words), (ctypes.c_char_p * len(words))(*words)))
"""


@pytest.mark.unsanitized
def test_without_rdma_core(build: Build) -> None:
    """The plugin loads, and the error names the packages to install."""
    eal_library = next(Path("/usr/lib").glob("*/librte_eal.so.*"))
    in_user_namespace = ["--map-root-user"] if os.getuid() else []
    status, output = run(build, "unshare", *in_user_namespace, "--mount",
                         "bash", "-c", WITHOUT_RDMA_CORE, "without-rdma-core",
                         "/usr/bin/python3", "-c", INITIALISE_EAL, str(eal_library),
                         *EAL, "-d", DRIVER, "--vdev", "net_rawqp0,device=mlx5_0")
    assert status == 0 and "rte_eal_init:" in output, output  # no crash
    lines = driver_lines(output)
    assert len(lines) == 1, output
    assert "libibverbs1" in lines[0] and "ibverbs-providers" in lines[0]


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_another_driver_on_the_device(start_softhca: StartSoftHca, first: str) -> None:
    """DPDK's own net_mlx5 takes the same NIC, before or after us: both work, and we report it."""
    address = "0000:ca:00.0"
    theirs = ["-a", address] if first == "theirs" else ["-a", "0000:00:00.0"]
    eal = [*EAL[:2], "--no-huge", "-m", "512", "--no-shconf", "--no-telemetry"]
    hca = start_softhca([PortSpec(wire="loop")], [
        "dpdk-testpmd", *eal, *theirs, "-d", DRIVER, "--vdev", "net_rawqp0,device=mlx5_0",
        "--", "-i", "--total-num-mbufs=4096"])
    testpmd = Testpmd(hca.program)
    if first == "ours":
        testpmd.expect(f"port attach {address}", "Port 1 is attached")
    said = re.findall(r"net_rawqp0: port \d drives mlx5_0 \(0000:ca:00.0\) as well.*",
                      hca.program.output)
    assert len(said) == 1 and "-b 0000:ca:00.0" in said[0], hca.program.output
    assert testpmd.quit() == 0


@pytest.mark.guest
def test_memory_that_may_not_be_locked(request: pytest.FixtureRequest,
                                       start_softhca: StartSoftHca) -> None:
    """The line has the bytes needed, those allowed and the command. A kernel always enforces the limit."""
    rights = {"options": ["--enforce"]} if request.config.getoption("--front") == "uverbs" else {}
    hca = start_softhca([PortSpec(wire="loop")], [
        *LITTLE_LOCKED, "dpdk-testpmd", "--lcores", "0@0,1@0", *EAL[2:], "-d", DRIVER,
        "--vdev", "net_rawqp0,device=mlx5_0",
        "--", "--no-mlockall", "--total-num-mbufs=2048"], **rights)
    assert hca.program.wait(60) != 0
    said = driver_lines(hca.program.output)
    assert re.search(r"mempool mb_pool_0: cannot register \d{7} bytes at .*: RLIMIT_MEMLOCK is too low "
                     r"\(ibv_reg_mr: .*; \d{7} bytes needed, 1000000 allowed by RLIMIT_MEMLOCK.*\): "
                     r"ulimit -l", said[-1]), said


@pytest.mark.unsanitized
def test_the_plugin_loads_unused(build: Build) -> None:
    """Loaded alongside another driver, without a device of ours, it does not interfere."""
    status, output = run_testpmd(build, "net_null0")
    assert status == 0, output
    assert driver_lines(output) == []


@pytest.mark.unsanitized
def test_a_program_that_opens_no_device_is_unaffected(build: Build, tmp_path: Path) -> None:
    """softhca's preload is inherited by everything: it must not change ordinary programs."""
    script = "echo out; echo err >&2; ls /sys/class/net | sort; exit 7"
    plain = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    under = subprocess.run([build.softhca, "--", "bash", "-c", script], capture_output=True,
                           text=True, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    assert (under.returncode, under.stderr) == (plain.returncode, plain.stderr)
    assert under.stdout.startswith("out\n")
    assert list(tmp_path.iterdir()) == []

