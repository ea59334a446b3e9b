# SPDX-License-Identifier: BSD-3-Clause
"""What stock tools see of the devices: sysfs, and the kernel's RDMA netlink family.

tests/kernel/test_rdma_tools.py compares the same with a real kernel.
"""

import json
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from functional.conftest import StartSoftHca, StartStack
from rig.launched import launcher_env
from rig.nldev_requests import requests
from rig.packets import numbered, port_mac
from rig.stack import PortSpec, SoftHca, program_under

pytestmark = pytest.mark.unsanitized  # programs that are not ours run under softhca

RIG = Path(__file__).parents[1] / "rig"
LOOP = PortSpec(wire="loop")
PORTS = "/sys/class/infiniband/mlx5_0/ports/1"


def run(start: StartSoftHca, *program: str, ports: list[PortSpec] | None = None) -> str:
    """The output of a program under a softhca of its own."""
    hca = start(ports or [LOOP], program)
    assert hca.program.wait(60) == 0, hca.program.output
    output: str = hca.program.output
    return output


def holding(start: StartSoftHca, *ports: PortSpec) -> SoftHca:
    """A program that has mlx5_0 open."""
    hca = start(list(ports) or [LOOP], ["ibv_asyncwatch", "-d", "mlx5_0"])
    hca.program.wait_for("async event FD")
    return hca


def beside(hca: SoftHca, *command: str) -> str:
    """The output of another program under the same softhca."""
    ours = [f"{name}={value}" for name, value in launcher_env(hca.program).items()]
    return subprocess.run(["env", *ours, *command], check=True, capture_output=True, text=True,
                          timeout=60).stdout


def rdma(hca: SoftHca, *question: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(beside(hca, "rdma", "-j", "-d", *question))
    return listed


def node_guid(mac: str) -> str:
    """EUI-64 of the address."""
    first, *rest = bytes.fromhex(mac.replace(":", ""))
    return (bytes([first ^ 2, *rest[:2]]) + b"\xff\xfe" + bytes(rest[2:])).hex()


# -- the tools ------------------------------------------------------------------------------------


def test_ibstat(start_softhca: StartSoftHca) -> None:
    slow = PortSpec(wire="loop", options={"speed": "25G", "device": "slow0"})
    output = run(start_softhca, "ibstat", ports=[LOOP, slow])
    assert re.findall(r"CA '(\w+)'", output) == ["mlx5_0", "slow0"]
    guids = re.findall(r"Node GUID: 0x(\w+)", output)
    assert guids == [node_guid(port_mac(0)), node_guid(port_mac(1))]
    assert re.findall(r"Rate: (\d+)", output) == ["100", "25"]
    assert output.count("State: Active") == output.count("Physical state: LinkUp") == 2
    assert output.count("Link layer: Ethernet") == 2


def test_ibstatus(start_softhca: StartSoftHca) -> None:
    output = run(start_softhca, "ibstatus", ports=[LOOP, LOOP])
    assert re.findall(r"device '(\w+)' port 1 status", output) == ["mlx5_0", "mlx5_1"]
    assert output.count("4: ACTIVE") == output.count("100 Gb/sec (4X EDR)") == 2
    assert "unknown" not in output


def test_rdma_dev_and_link(start_softhca: StartSoftHca) -> None:
    named = PortSpec(wire="loop", options={"device": "left", "netdev": "far0"})
    hca = holding(start_softhca, LOOP, named)
    devices, links = rdma(hca, "dev"), rdma(hca, "link")
    assert [device["ifname"] for device in devices] == ["mlx5_0", "left"]
    assert devices[0]["node_guid"].replace(":", "") == node_guid(port_mac(0))
    assert devices[0]["node_type"] == "ca" and "RAW_IP_CSUM" in devices[0]["caps"]
    assert [link["netdev"] for link in links] == ["soft0", "far0"]
    assert {link["state"] for link in links} == {"ACTIVE"}


def test_link_state_in_every_tool(start_softhca: StartSoftHca) -> None:
    hca = holding(start_softhca)
    for up in (False, True):
        hca.set_link(0, up)
        (link,) = rdma(hca, "link")
        assert (link["state"], link["physical_state"]) == (
            ("ACTIVE", "LINK_UP") if up else ("DOWN", "DISABLED"))
        assert f"State: {'Active' if up else 'Down'}" in beside(hca, "ibstat")
        assert ("5: LinkUp" if up else "3: Disabled") in beside(hca, "ibstatus")
        assert beside(hca, "cat", "/sys/class/net/soft0/carrier").strip() == str(int(up))


def test_rdma_res_tells_the_objects_of_a_program(start_softhca: StartSoftHca) -> None:
    shown = json.loads(run(start_softhca, sys.executable, str(RIG / "rdma_objects.py"), "mlx5_0"))
    (summary,) = shown["res"]
    counts = {kind: summary[kind] for kind in ("ctx", "pd", "cq", "mr", "qp", "srq", "cm_id")}
    assert counts == {"ctx": 1, "pd": 2, "cq": 2, "mr": 1, "qp": 2, "srq": 0, "cm_id": 0}
    qpn, idle_qpn, rss_qpn, lkey = shown["numbers"]
    assert {qp["lqpn"]: qp["state"] for qp in shown["res show qp"]} == {
        qpn: "RTS", idle_qpn: "RESET"}
    assert rss_qpn == 0
    (mr,) = shown["res show mr"]
    assert int(mr["lkey"], 16) == lkey and mr["mrlen"] == 8192
    # Two QPs, each twice, and two WQs.
    assert [(cq["cqe"], cq["users"]) for cq in shown["res show cq"]] == [(127, 6), (15, 0)]
    # An MR, three QPs, two WQs.
    assert [pd["users"] for pd in shown["res show pd"]] == [6, 0]
    assert {mr["pdn"], *(qp["pdn"] for qp in shown["res show qp"])} == {
        shown["res show pd"][0]["pdn"]}
    assert [qp["lqpn"] for qp in shown["one QP"]] == [qpn]


def test_rdma_res_of_several_programs(start_softhca: StartSoftHca) -> None:
    """Each program's objects are listed; those of ended programs are not."""
    hca = holding(start_softhca)
    other = beside(hca, "sh", "-c", "ibv_asyncwatch -d mlx5_0 >&2 & sleep 0.1;"
                   " until rdma res | grep -q 'ctx 2'; do sleep 0.1; done;"
                   " rdma -j res show ctx; kill $!; wait")
    pids = {context["pid"] for context in json.loads(other)}
    assert program_under(hca.program) in pids and len(pids) == 2
    assert [context["pid"] for context in rdma(hca, "res", "show", "ctx")] == [
        program_under(hca.program)]


MANY_PDS = """
import json, subprocess
from pyverbs.device import Context
from pyverbs.pd import PD
with Context(name="mlx5_0") as context:
    pds = [PD(context) for _ in range(6000)]
    told = subprocess.run(["rdma", "-j", "-d", "res", "show", "pd"], capture_output=True).stdout
    print(len({pd["pdn"] for pd in json.loads(told)}))
"""


def test_dumps_larger_than_a_socket_holds(start_softhca: StartSoftHca) -> None:
    assert run(start_softhca, sys.executable, "-c", MANY_PDS).strip() == "6000"


def test_nothing_can_be_changed_by_netlink(start_softhca: StartSoftHca) -> None:
    hca = start_softhca([LOOP], ["rdma", "dev", "set", "mlx5_0", "name", "other0"])
    assert hca.program.wait(60) != 0
    assert re.search("softhca: .*command line|not permitted", hca.program.output)


# -- netlink --------------------------------------------------------------------------------------


def test_refused_requests(start_softhca: StartSoftHca) -> None:
    """As a kernel refuses them: tests/kernel compares all answers."""
    answers = json.loads(run(start_softhca, sys.executable, str(RIG / "nldev_requests.py")))
    assert answers.keys() == requests(0).keys()
    errors = {name: [error for _, _, error, _ in told] for name, told in answers.items()}
    assert errors["no device"] == errors["short index"] == errors["no such command"] == [-22]
    assert errors["system, short index"] == errors["system, bytes left"] == [-22]
    assert errors["no such QP"] == [-2]
    assert errors["two at once"] == [-22, None, 0]
    assert errors["cut off"] == errors["longer than sent"] == []


def test_random_requests(start_softhca: StartSoftHca) -> None:
    storm = run(start_softhca, sys.executable, str(RIG / "nldev_requests.py"), "200000")
    assert int(storm) > 1000


def test_bad_addresses_are_no_crash(start_softhca: StartSoftHca) -> None:
    script = textwrap.dedent("""
        import ctypes, socket, struct
        client = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
        libc = ctypes.CDLL(None, use_errno=True)
        bad = ctypes.c_void_p(16)
        bad_piece = (ctypes.c_uint64 * 7)(0, 0, 16, 1)  # a struct msghdr
        client.send(struct.pack("IHHII", 16, 0, 5, 0, 0))  # is acknowledged
        for call in (lambda: libc.send(client.fileno(), bad, 64, 0),
                     lambda: libc.sendmsg(client.fileno(), bad, 0),
                     lambda: libc.sendmsg(client.fileno(), bad_piece, 0),
                     lambda: libc.recvmsg(client.fileno(), bad, 0),
                     lambda: libc.recvfrom(client.fileno(), None, 0, 0, bad, bad),
                     lambda: libc.bind(client.fileno(), bad, 12),
                     lambda: libc.getsockname(client.fileno(), bad, bad),
                     lambda: libc.setsockopt(client.fileno(), 270, 11, bad, 4)):
            assert call() == -1
            print(ctypes.get_errno())
        for address in ((1, 0), (0, 1)):
            try:
                client.sendto(b"x" * 16, address)
            except ConnectionRefusedError:
                print("refused")
        try:
            client.send(b"")
        except OSError as error:
            print(error.errno)
    """)
    assert run(start_softhca, sys.executable, "-c", script).split() == [
        *["14"] * 8, *["refused"] * 2, "61"]


FORTIFIED = """
import ctypes, os, socket, struct
libc = ctypes.CDLL(None)
room = ctypes.create_string_buffer(4096)
client = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
REQUESTS = 1000
for number in range(REQUESTS):
    client.send(struct.pack("IHHII", 16, 0, 5, number, 0))  # is acknowledged
numbers = []
for number in range(REQUESTS - 1):
    assert libc.__recv_chk(client.fileno(), room, 4096, 4096, 0) > 0
    numbers.append(struct.unpack_from("I", room, 8)[0])
name, length = ctypes.create_string_buffer(12), ctypes.c_uint32(12)
assert libc.__recvfrom_chk(client.fileno(), room, 4096, 4096, 0, name, ctypes.byref(length)) > 0
print(numbers == list(range(REQUESTS - 1)), struct.unpack("HHII", name.raw))
bytes = libc.__readlinkat_chk(-100, b"/sys/class/infiniband/mlx5_0", room, 4096, 4096)
print(room.raw[:bytes].decode())
"""


def test_functions_of_fortified_programs(start_softhca: StartSoftHca) -> None:
    """What calls become under _FORTIFY_SOURCE where a compiler cannot tell that the buffer is large enough."""
    pci = "../../devices/pci0000:ca/0000:ca:00.0"
    assert run(start_softhca, sys.executable, "-c", FORTIFIED).split("\n") == [
        "True (16, 0, 0, 0)", f"{pci}/infiniband/mlx5_0", ""]


def test_stock_net_mlx5_starts_without_a_warning(start_stack: StartStack) -> None:
    stack = start_stack([PortSpec()], pmd="mlx5", pmd_devargs="dv_flow_en=0", memory_mb=512)
    assert stack.testpmd.info(0)["Driver name"] == "mlx5_pci"
    assert re.findall("^mlx5_.*$", stack.program.output, re.MULTILINE) == []


# -- sysfs ----------------------------------------------------------------------------------------


def test_links_and_folders_look_as_a_kernels(start_softhca: StartSoftHca) -> None:
    listing = run(start_softhca, "ls", "-l", "/sys/class/infiniband/", PORTS,
                  "/sys/class/infiniband/mlx5_0/")
    pci = "../../devices/pci0000:ca/0000:ca:00.0"
    assert f" mlx5_0 -> {pci}/infiniband/mlx5_0\n" in listing
    assert " device -> ../../../0000:ca:00.0\n" in listing
    assert " subsystem -> ../../../../../class/infiniband\n" in listing
    for name in ("counters", "hw_counters", "gids", "gid_attrs", "pkeys", "lid_mask_count", "sm_sl",
                 "node_desc", "fw_ver", "hca_type", "hw_rev", "sys_image_guid", "cap_mask"):
        assert f" {name}\n" in listing, name
    assert "cannot" not in listing and "No such file" not in listing


WALK = f"""
import os
os.chdir("/sys/class/infiniband/mlx5_0")
print(os.getcwd(), os.path.realpath("ports"), open("ports/1/state").read().strip())
print(sorted(os.listdir("ports/1/gid_attrs")), os.readlink("device"))
os.chdir("ports/1/counters")
print(os.getcwd())
folder = os.open("{PORTS}", os.O_RDONLY | os.O_DIRECTORY)
with os.fdopen(os.open("pkeys/0", os.O_RDONLY, dir_fd=folder)) as file:
    print(file.read().strip())
os.fchdir(folder)
print(os.stat("rate").st_size > 0, os.access("nothing", os.R_OK), len(os.listdir(folder)))
os.chdir("/")
print(os.getcwd())
"""


def test_walking_about_in_sysfs(start_softhca: StartSoftHca) -> None:
    device = "/sys/devices/pci0000:ca/0000:ca:00.0/infiniband/mlx5_0"
    assert run(start_softhca, sys.executable, "-c", WALK).split("\n") == [
        f"{device} {device}/ports 4: ACTIVE",
        "['ndevs', 'types'] ../../../0000:ca:00.0",
        f"{device}/ports/1/counters",
        "0xffff",
        "True False 14",
        "/",
        "",
    ]


WHERE = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.get_current_dir_name.restype = ctypes.c_char_p
os.symlink("{folder}", "{link}")
os.chdir("{link}")
os.environ["PWD"] = "{link}"
print(libc.get_current_dir_name().decode())
os.chdir("/sys/class/infiniband/mlx5_0")
print(libc.get_current_dir_name().decode())
"""


def test_a_folder_keeps_the_name_that_a_shell_gave_it(start_softhca: StartSoftHca, tmp_path: Path) -> None:
    """get_current_dir_name(3) is $PWD, where that names the folder, as elsewhere."""
    link = tmp_path / "link"
    assert run(start_softhca, sys.executable, "-c", WHERE.format(folder=tmp_path, link=link)).split() == [
        str(link), "/sys/devices/pci0000:ca/0000:ca:00.0/infiniband/mlx5_0"]


READ_COUNTERS = f"""
import os, subprocess
NAMES = ["port_rcv_packets", "port_rcv_data", "unicast_rcv_packets", "multicast_rcv_packets"]
def shown(read):
    print(*[read(name).strip() for name in NAMES])
def by_folder(name):
    with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=folder)) as file:
        return file.read()
folder = os.open("{PORTS}/counters", os.O_RDONLY)
shown(by_folder)
shown(lambda name: open("{PORTS}/counters/" + name).read())
os.chdir("{PORTS}")
shown(lambda name: open("counters/" + name).read())
shown(lambda name: subprocess.run(["cat", "counters/" + name], capture_output=True).stdout.decode())
print(open("/sys/class/net/soft0/statistics/rx_packets").read())
"""


# Linked as with a glibc before 2.33, which had no functions of the plain names.
OLD_STAT = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#define OLD(name, version) int name(int, const char*, struct stat*); \\
    __asm__(".symver " #name ", __" #name "@GLIBC_" version);
#define OLD_AT(name, version) int name(int, int, const char*, struct stat*, int); \\
    __asm__(".symver " #name ", __" #name "@GLIBC_" version);
OLD(xstat, "2.2.5") OLD(xstat64, "2.2.5") OLD(lxstat, "2.2.5") OLD(lxstat64, "2.2.5")
OLD_AT(fxstatat, "2.4") OLD_AT(fxstatat64, "2.4")
#define TELL(call) result = call; \\
    printf("%d:%d:%d ", result, S_ISCHR(status.st_mode), (int)minor(status.st_rdev));
int main(void) {
    const char* node = "/dev/infiniband/uverbs0";
    struct stat status = {0};
    int result;
    TELL(xstat(1, node, &status)) TELL(xstat64(1, node, &status))
    TELL(lxstat(1, node, &status)) TELL(lxstat64(1, node, &status))
    TELL(fxstatat(1, AT_FDCWD, node, &status, 0)) TELL(fxstatat64(1, AT_FDCWD, node, &status, 0))
    return 0;
}
"""


def test_programs_built_for_an_older_system(start_softhca: StartSoftHca, tmp_path: Path) -> None:
    source, program = tmp_path / "old.c", tmp_path / "old"
    source.write_text(OLD_STAT)
    subprocess.run(["cc", "-o", program, source], check=True)
    assert run(start_softhca, str(program)).split() == ["0:1:192"] * 6


def test_counters_move_with_traffic(start_softhca: StartSoftHca) -> None:
    """For every reader, under every name."""
    hca = holding(start_softhca, PortSpec())
    for packets in (5, 12):
        hca.wires[0].send_all(list(numbered(packets - hca.counters()["wire_rx_packets"])))
        deadline = time.monotonic() + 20
        while (counters := hca.counters())["wire_rx_packets"] < packets:
            assert time.monotonic() < deadline, counters
        wanted = [str(packets), str(counters["wire_rx_bytes"] // 4), str(packets), "0"]
        told = beside(hca, sys.executable, "-c", READ_COUNTERS).split("\n")
        assert [line.split() for line in told[:4]] == [wanted] * 4
        assert told[4] == str(packets)
    hca.wires[0].send_all([bytes(1600)])  # longer than the MTU allows
    while (errors := beside(hca, "cat", f"{PORTS}/counters/port_rcv_errors")) != "1\n":
        assert time.monotonic() < deadline, errors
