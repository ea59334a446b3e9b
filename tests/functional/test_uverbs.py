# SPDX-License-Identifier: BSD-3-Clause
"""The uverbs front of softhca: the kernel's RDMA ABI as unmodified programs use it.

Most of it is `uverbs-test`, a libibverbs program (tests/functional/uverbs) that runs under softhca.
"""

import json
import os
import re
import shutil
import subprocess
import textwrap
import time
from pathlib import Path
from typing import Iterator

import pytest

from functional.conftest import StartSoftHca, StartStack
from rig.packets import numbered, port_mac
from rig.ports import lossless
from rig.stack import OWN_NETWORK, Build, PortSpec, SoftHca
from rig.testpmd import CommandRefused, Testpmd
from rig.verbs_program import SUITES, names_of, verbs_program

LOOP = PortSpec(wire="loop")
BURST = 32  # packets that testpmd sends before it forwards


def finished(hca: SoftHca, timeout: float = 60) -> str:
    """The output of a program that must succeed."""
    status = hca.program.wait(timeout)
    reports = hca.sanitizer_reports()
    assert not reports, reports
    assert status == 0, hca.program.output
    return hca.program.output


def test_devices_are_listed_in_order(start_softhca: StartSoftHca) -> None:
    """Twelve devices: alphabetical order would put mlx5_10 before mlx5_2."""
    output = finished(start_softhca([LOOP] * 12, ["ibv_devices"]))
    names = [line.split()[0] for line in output.splitlines() if line.strip().startswith("mlx5_")]
    assert names == [f"mlx5_{index}" for index in range(12)]


def test_every_suite_is_listed(build: Build) -> None:
    listing = subprocess.run(
        [verbs_program(build.folder), "--gtest_list_tests"], check=True, capture_output=True, text=True
    ).stdout
    assert sorted({name.split(".")[0] for name in names_of(listing)}) == SUITES


@pytest.mark.parametrize("suite", SUITES)
def test_verbs(start_softhca: StartSoftHca, build: Build, suite: str) -> None:
    program = [str(verbs_program(build.folder)), f"--gtest_filter={suite}.*"]
    # Contexts are closed on purpose while objects exist, which libmlx5 then leaks.
    env = {"ASAN_OPTIONS": "detect_leaks=0"}
    options = ["--enforce"] if suite.endswith("RightsTest") else []
    output = finished(start_softhca([LOOP], program, env=env, options=options), timeout=120)
    assert "[  PASSED  ]" in output and "Running 0 tests" not in output, output


def test_ibv_devinfo_lists_every_device(start_softhca: StartSoftHca) -> None:
    output = finished(start_softhca([LOOP, LOOP, LOOP], ["ibv_devinfo", "-v"]))
    for name in ("mlx5_0", "mlx5_1", "mlx5_2"):
        assert f"hca_id:\t{name}" in output
    assert output.count("PORT_ACTIVE") >= 3
    assert output.count("link_layer:\t\tEthernet") == 3


def test_devices_are_told_apart_by_their_descriptors(start_softhca: StartSoftHca, build: Build) -> None:
    program = [str(verbs_program(build.folder)), "--gtest_filter=ImportTest.*Itself"]
    assert "[  PASSED  ] 1 test" in finished(start_softhca([LOOP] * 3, program))


def test_options_of_the_port_show(start_softhca: StartSoftHca) -> None:
    port = PortSpec(
        wire="loop",
        options={"device": "rdma7", "mac": "02:11:22:33:44:55", "mtu": "9000", "speed": "25G"},
    )
    output = finished(start_softhca([port], ["ibv_devinfo", "-v", "-d", "rdma7"]))
    assert "node_guid:\t\t\t0011:22ff:fe33:4455" in output
    assert "active_mtu:\t\t4096" in output
    assert "25.0 Gbps" in output and "1X" in output


@pytest.mark.unsanitized  # Python and shells leak
def test_pyverbs(start_softhca: StartSoftHca) -> None:
    script = textwrap.dedent("""
        import pyverbs.enums as e
        from pyverbs.cq import CQ
        from pyverbs.device import Context, get_device_list
        from pyverbs.flow import Flow, FlowAttr
        from pyverbs.mr import MR
        from pyverbs.pd import PD
        from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
        from pyverbs.spec import EthSpec
        from pyverbs.wr import RecvWR, SendWR, SGE

        assert [device.name for device in get_device_list()] == [b"mlx5_0"]
        with Context(name="mlx5_0") as context:
            assert context.query_port(1).link_layer == e.IBV_LINK_LAYER_ETHERNET
            pd = PD(context)
            mr = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
            cq = CQ(context, 16)
            cap = QPCap(max_send_wr=8, max_recv_wr=8)
            init = QPInitAttr(qp_type=e.IBV_QPT_RAW_PACKET, scq=cq, rcq=cq, cap=cap)
            qp = QP(pd, init, QPAttr())
            attributes = FlowAttr(num_of_specs=1)
            attributes.specs.append(EthSpec(dst_mac="02:00:00:00:00:01", dst_mac_mask="ff:ff:ff:ff:ff:ff"))
            flow = Flow(qp, attributes)
            frame = bytes.fromhex("020000000001 020000000002 88b5") + bytes(range(100))
            mr.write(frame, len(frame))
            qp.post_recv(RecvWR(sg=[SGE(mr.buf + 2048, 2048, mr.lkey)], num_sge=1))
            qp.post_send(SendWR(num_sge=1, sg=[SGE(mr.buf, len(frame), mr.lkey)]))
            done = []
            while len(done) < 2:
                done += cq.poll(2)[1]
            assert all(wc.status == e.IBV_WC_SUCCESS for wc in done)
            assert mr.read(len(frame), 2048) == frame
            print("received")
        """)
    assert "received" in finished(start_softhca([LOOP], ["/usr/bin/python3", "-c", script]))


@pytest.mark.parametrize("tool, kind", [("ibv_rc_pingpong", "RC"), ("ibv_ud_pingpong", "UD")])
def test_other_transports_are_refused_with_a_word(start_softhca: StartSoftHca, tool: str, kind: str) -> None:
    hca = start_softhca([LOOP], [tool, "-d", "mlx5_0"])
    assert hca.program.wait() != 0
    said = [line for line in hca.program.output.splitlines() if line.startswith("softhca:")]
    assert len(said) == 1 and f"no {kind} queue pairs" in said[0] and "RAW_PACKET" in said[0], said


def test_port_events_reach_a_waiting_program(start_softhca: StartSoftHca) -> None:
    hca = start_softhca([LOOP], ["ibv_asyncwatch", "-d", "mlx5_0"])
    hca.program.wait_for(r"async event FD")
    hca.set_link(0, up=False)
    hca.program.wait_for(r"IBV_EVENT_PORT_ERR")
    hca.set_link(0, up=True)
    hca.program.wait_for(r"IBV_EVENT_PORT_ACTIVE")


def test_wire_that_cannot_be_opened_is_an_error_at_once(start_softhca: StartSoftHca, work: Path) -> None:
    """libibverbs would wait five seconds for a device node that cannot be opened."""
    hca = start_softhca([PortSpec(wire=f"pcap:{work}/no-such-file.pcap")], ["ibv_devinfo"])
    begin = time.monotonic()
    assert hca.program.wait() != 0
    assert time.monotonic() - begin < 4
    complaint = f"softhca: mlx5_0: wire pcap: cannot play {work}/no-such-file.pcap"
    assert hca.program.output.count(complaint) == 1, "libmlx5 tries twice: " + hca.program.output


# -- programs that have nothing to do with RDMA ----------------------------------------------------

LOOK_AROUND = """
import fcntl, json, os, socket, struct
print(json.dumps({
    "net": sorted(os.listdir("/sys/class/net")),
    "mtu": open("/sys/class/net/lo/mtu").read(),
    "dev": sorted(os.listdir("/dev"))[:20],
    "lo": socket.if_nametoindex("lo"),
    "pci": os.path.realpath("/sys/bus/pci"),
    "cpu": os.path.realpath("/sys/devices/system/cpu"),
    "threads": len(os.listdir("/proc/self/task")),
    "links": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in ("0", "1", "2")),
}))
"""


@pytest.mark.unsanitized  # Python and shells leak
def test_other_programs_see_the_machine_as_it_is(start_softhca: StartSoftHca) -> None:
    command = ["/usr/bin/python3", "-c", LOOK_AROUND]
    inside = json.loads(finished(start_softhca([LOOP], command)).splitlines()[-1])
    outside = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for seen in (inside, outside):
        del seen["links"]  # the rig's terminal
    assert inside == outside


@pytest.mark.unsanitized  # Python and shells leak
def test_shells_and_their_children(start_softhca: StartSoftHca) -> None:
    script = """
        set -eu
        test -d /sys/class/infiniband/mlx5_0
        test "$(cat /sys/class/infiniband/mlx5_0/device/vendor)" = 0x15b3
        test "$(cat /sys/class/net/soft0/device/infiniband/mlx5_0/node_type)" = '1: CA'
        test "$(ls /sys/bus/pci/devices)" = 0000:ca:00.0
        test "$(readlink -f /sys/class/net/soft0/device)" = /sys/devices/pci0000:ca/0000:ca:00.0
        seq 1000 | sort -n | tail -1
        ibv_devices
        (ibv_devinfo | grep -c hca_id) | cat
        """
    output = finished(start_softhca([LOOP], ["bash", "-c", script]))
    assert "1000" in output and "mlx5_0" in output and output.split()[-1] == "1"


def test_programs_under_one_launcher_have_devices_of_their_own(
    start_softhca: StartSoftHca, build: Build
) -> None:
    program = f"{verbs_program(build.folder)} --gtest_filter=QpTest.FramesComeBackByteForByte"
    output = finished(start_softhca([LOOP], ["sh", "-c", f"{program} & {program}; wait"]))
    assert output.count("[  PASSED  ] 1 test") == 2


@pytest.mark.unsanitized  # Python and shells leak
def test_processes_under_one_launcher_share_its_ports(start_softhca: StartSoftHca) -> None:
    """Each has its own device, and both are cabled: a wire belongs to the process that opens its port."""
    script = """
        import os, subprocess, sys
        from pyverbs.device import Context
        with Context(name="mlx5_0"):
            subprocess.run(["ibv_devinfo", "-d", "mlx5_1"], check=True, close_fds=False)
            sys.stdout.flush()
            if os.fork() == 0:
                with Context(name="mlx5_1") as context:
                    print("state", context.query_port(1).state, flush=True)
                os._exit(0)
            assert os.wait()[1] == 0
        """
    program = ["/usr/bin/python3", "-c", textwrap.dedent(script)]
    output = finished(start_softhca([PortSpec(wire="link:shared")] * 2, program))
    assert "PORT_ACTIVE" in output and "state 4" in output


@pytest.mark.unsanitized  # Python leaks
def test_ports_have_one_clock(start_softhca: StartSoftHca) -> None:
    """Who reads it at one port and then at the other sees it advance, as on a card with two ports: DPDK's example
    rxtx_callbacks compares the time stamps of one port with the clock of another."""
    script = """
        from pyverbs.device import Context
        ports = Context(name="mlx5_0"), Context(name="mlx5_1")
        ticks = 0
        for number in range(20000):
            _, later = ports[number % 2].query_rt_values_ex()
            assert 0 < later >= ticks, (number, ticks, later)
            ticks = later
        """
    finished(start_softhca([LOOP] * 2, ["/usr/bin/python3", "-c", textwrap.dedent(script)]))


def test_a_pair_is_plugged_in_at_both_ends(start_softhca: StartSoftHca) -> None:
    program = ["ibv_devinfo", "-d", "mlx5_0"]
    assert "PORT_ACTIVE" in finished(start_softhca([PortSpec(wire="pair:a")] * 2, program))


@pytest.mark.unsanitized  # Python and shells leak
def test_netdev_settings_outlast_a_program(start_softhca: StartSoftHca) -> None:
    script = """
        import fcntl, socket, struct
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        fcntl.ioctl(s, 0x8922, struct.pack("16si", b"soft0", 9000))  # SIOCSIFMTU
        """
    setter = f"/usr/bin/python3 -c '{textwrap.dedent(script)}'"
    output = finished(start_softhca([LOOP], ["sh", "-c", f"{setter}; ibv_devinfo"]))
    assert "active_mtu:\t\t4096" in output


@pytest.mark.unsanitized  # Python and shells leak
def test_real_tap_beside_the_port(start_softhca: StartSoftHca) -> None:
    """Requests go to the kernel; the port follows, and the TAP shows the device that it lacks."""
    script = """
        import fcntl, os, socket, struct, subprocess
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        fcntl.ioctl(s, 0x8922, struct.pack("16si", b"swx0", 9000))  # SIOCSIFMTU
        pci = "/sys/devices/pci0000:ca/0000:ca:00.0"
        assert open("/sys/class/net/swx0/mtu").read() == "9000\\n"
        assert os.path.realpath("/sys/class/net/swx0/device") == pci
        assert os.listdir("/sys/class/net/swx0/device/infiniband") == ["mlx5_0"]
        assert os.listdir("/sys/class/infiniband/mlx5_0/device/net") == ["swx0"]
        assert sorted(os.listdir("/sys/class/net")) == ["lo", "swx0"]
        subprocess.run(["ibv_devinfo"], check=True, close_fds=False)
        """
    port = PortSpec(wire="loop", options={"netdev": "tap:swx0"})
    program = ["/usr/bin/python3", "-c", textwrap.dedent(script)]
    output = finished(start_softhca([port], program, prefix=OWN_NETWORK))
    assert "active_mtu:\t\t4096" in output


SOMEBODY_ELSE = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]


@pytest.fixture
def softhca_for_everyone(build: Build, work: Path) -> Iterator[Path]:
    """A copy that every user can start."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    folder = Path("/tmp") / f"{work.name}-nobody"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    try:
        copies = folder / "app/softhca/uverbs"
        copies.mkdir(parents=True)
        shutil.copy(build.softhca, folder / "app/softhca")
        shutil.copy(build.folder / "app/softhca/uverbs/libsofthca.so", copies)
        yield folder / "app/softhca/softhca"
    finally:
        shutil.rmtree(folder)


def run_with_another_user(
    build: Build, command: list[str], sanitizer: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env={**os.environ, **build.env(sanitizer), "XDG_RUNTIME_DIR": ""},
                          capture_output=True, text=True, timeout=60)


def test_without_privileges(build: Build, softhca_for_everyone: Path) -> None:
    command = [*SOMEBODY_ELSE, str(softhca_for_everyone), "--", "ibv_devinfo"]
    result = run_with_another_user(build, command, softhca_for_everyone.parents[2] / "sanitizer")
    assert result.returncode == 0 and "PORT_ACTIVE" in result.stdout, result.stderr


def test_a_program_that_becomes_another_user_is_told(build: Build, softhca_for_everyone: Path) -> None:
    command = [str(softhca_for_everyone), "--", *SOMEBODY_ELSE, "ibv_devinfo"]
    result = run_with_another_user(build, command, softhca_for_everyone.parents[2] / "sanitizer")
    assert result.returncode != 0
    said = [line for line in result.stderr.splitlines() if line.startswith("softhca:")]
    assert len(said) == 1 and "runs as user 65534" in said[0], result.stderr
    assert "start it as that user" in said[0]


# -- the stock driver ------------------------------------------------------------------------------


STRIDING = "mprq_en=1,rxqs_min_mprq=1"


@pytest.mark.parametrize(("devx", "devargs"), [
    ("on", ""), ("on", STRIDING), ("on", "dv_flow_en=0"), ("off", STRIDING), ("off", f"dv_flow_en=0,{STRIDING}"),
])
def test_stock_net_mlx5_forwards(start_stack: StartStack, devx: str, devargs: str) -> None:
    """With DevX, it creates queues by firmware commands, and rules lead to TIRs created by commands."""
    ports = [PortSpec(options={"pause": "on", "devx": devx})] * 2
    stack = start_stack(ports, pmd="mlx5", pmd_devargs=devargs, memory_mb=512)
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(3000), to=stack.wires[1], timeout=30)
    stack.wires[1].transfer(numbered(100), to=stack.wires[0], timeout=30)


FOR_TEMPLATES = [
    "flow pattern_template 0 create ingress pattern_template_id 1 template eth / end",
    "flow actions_template 0 create ingress actions_template_id 1 template drop / end mask drop / end",
    "flow template_table 0 create table_id 1 group 1 priority 0 ingress rules_number 8 pattern_template 1"
    " actions_template 1",
]


# With DevX: doc/hardware-steering.md tells what net_mlx5 of 22.11 does without.
@pytest.mark.parametrize("options", [
    {}, pytest.param({"steering_format": "0"}, marks=pytest.mark.thorough), {"steering_format": "1"}],
                         ids=["no_format", "format0", "format1"])
def test_hardware_steering_is_refused(start_stack: StartStack, options: dict[str, str]) -> None:
    """The device has none. net_mlx5 keeps running: that of 22.11 without rules, that of 24.11 stopped."""
    stack = start_stack(lossless(1, devx="on", **options), pmd="mlx5", pmd_devargs="dv_flow_en=2", memory_mb=512)
    testpmd = stack.testpmd
    testpmd.stop_port(0)
    answer = testpmd.command("flow configure 0 queues_number 1 queues_size 64 counters_number 0 "
                             "aging_counters_number 0 meters_number 0 flags 0")
    assert "fail to configure port: Operation not supported" in answer
    cannot_be_created(testpmd)
    try:
        testpmd.start_port(0)
    except CommandRefused as refused:
        assert "HWS is not supported" in str(refused)
        return
    cannot_be_created(testpmd)
    testpmd.expect("set fwd io", "Set io")
    testpmd.expect("start tx_first", "packet forwarding")
    stack.wires[0].receive_count(BURST)
    stack.wires[0].send_all(numbered(5))
    stack.wait_counter(0, "drop_no_match", at_least=5)
    assert "RX-packets: 0 " in testpmd.stop()


def cannot_be_created(testpmd: Testpmd) -> None:
    assert "not supported" in testpmd.command("flow create 0 ingress pattern eth / end actions drop / end")
    for answer in testpmd.answers(FOR_TEMPLATES):
        assert re.search("not configured|is invalid", answer)
    testpmd.flush_flows(0)


def test_without_devx_the_firmware_answers_nobody(start_softhca: StartSoftHca, build: Build) -> None:
    program = [str(verbs_program(build.folder)), "--gtest_filter=DevxTest.CapabilitiesAreForEveryContext"]
    hca = start_softhca([PortSpec(wire="loop", options={"devx": "off"})], program)
    assert hca.program.wait(30) != 0 and "Operation not supported" in hca.program.output


def test_stock_net_mlx5_sets_the_mtu(start_stack: StartStack) -> None:
    stack = start_stack([PortSpec()], pmd="mlx5", pmd_devargs="dv_flow_en=0", memory_mb=512)
    stack.testpmd.command("port stop all")
    stack.testpmd.command("port config mtu 0 3000")
    stack.testpmd.command("port start all")
    assert port_mac(0).lower() in stack.testpmd.command("show port info 0").lower()
    assert "MTU: 3000" in stack.testpmd.command("show port info 0")
