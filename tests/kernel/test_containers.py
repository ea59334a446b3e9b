# SPDX-License-Identifier: BSD-3-Clause
"""Programs as in containers: their own namespaces with one device node, a non-root user, one capability, a limit
on locked memory, no hugepages."""

import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from rig.guest import Guest
from rig.guest_hca import GuestHca
from rig.guest_stack import GuestStack
from rig.guide import commands, recipe
from rig.launched import DRIVER
from rig.packets import numbered, port_mac
from rig.ports import lossless
from rig.testpmd import Testpmd

from kernel.conftest import StartStack

MEMORY_MB, MEMLOCK_MB = 64, 96
# /dev as created by `podman run --device /dev/infiniband/uverbsN`, for the program's device.
ONE_DEVICE = """
device=$(echo "$@" | sed 's/.*device=\\([^, ]*\\).*/\\1/')
umount --lazy /sys
mount -t sysfs sysfs /sys # of its own network namespace
node=infiniband/$(ls /sys/class/infiniband/"$device"/device/infiniband_verbs)
mount -t tmpfs -o mode=755 dev /mnt
mkdir /mnt/infiniband
for each in null zero urandom "$node"; do
    touch /mnt/"$each"
    mount --bind /dev/"$each" /mnt/"$each"
done
mount --rbind /mnt /dev
exec "$@"
"""
USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
        "--inh-caps=-all,+net_raw", "--bounding-set=-all,+net_raw", "--ambient-caps=-all,+net_raw"]
LET_IN = "chmod 0666 /dev/infiniband/uverbs*"
ENV = {"HOME": "/tmp", "XDG_RUNTIME_DIR": "/tmp"}


# A network namespace with all interfaces of RDMA devices, as moved by a CNI plugin.
MAKE_NETWORK = """
ip netns add box
ip netns exec box sysctl -qw net.ipv6.conf.default.disable_ipv6=1 # or it sends of its own
for netdev in /sys/class/infiniband/*/device/net/*; do
    ip link set "${netdev##*/}" netns box
done
for netdev in $(ip netns exec box ls /sys/class/net); do
    ip -netns box link set "$netdev" up
done
"""
DELETE_NETWORK = """
for netdev in $(ip -netns box -o link | sed -n 's/^[0-9]*: \\(e[^:]*\\):.*/\\1/p'); do
    ip -netns box link set "$netdev" netns 1
done
ip netns del box
"""


def inside(*namespaces: str, memlock: int = MEMLOCK_MB << 20) -> list[str]:
    """A prefix for the program's command."""
    return [*namespaces, "sh", "-ec", ONE_DEVICE, "sh", "prlimit", f"--memlock={memlock}", *USER]


def container(*namespaces: str, prepare: str = "true") -> dict[str, Any]:
    return {"user": inside(*namespaces), "devices": f"{LET_IN}; {prepare}", "env": ENV, "memory_mb": MEMORY_MB}


@pytest.fixture
def network(guest: Guest) -> Iterator[list[str]]:
    """The command prefix that enters the network created by MAKE_NETWORK."""
    yield ["ip", "netns", "exec", "box", "unshare", "--mount"]
    guest.run(DELETE_NETWORK)


def forwards(stack: GuestStack) -> None:
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(300), to=stack.wires[0])


# Daily, each network with one of the ring formats.
@pytest.mark.parametrize(("namespaces", "datapath"), [
    pytest.param([], "mlx5", id="host-network-mlx5"),
    pytest.param([], "verbs", id="host-network-verbs", marks=pytest.mark.thorough),
    pytest.param(["--net"], "mlx5", id="own-network-mlx5", marks=pytest.mark.thorough),
    pytest.param(["--net"], "verbs", id="own-network-verbs"),
])
def test_one_device(start_stack: StartStack, guest: Guest, datapath: str,
                    namespaces: list[str]) -> None:
    """In its own network namespace, the program does not see the interface of its port, and reports it."""
    options = container("unshare", "--mount", *namespaces)
    stack = start_stack(lossless(2), attach=1, datapath=datapath, **options)
    pid = stack.program.pid
    status = guest.run(f"cat /proc/{pid}/status")
    assert re.search(r"Uid:\s+65534", status) and "CapEff:\t0000000000002000" in status
    nodes = guest.run(f"ls /proc/{pid}/root/dev/infiniband").split()
    assert len(nodes) == 1 and nodes[0].startswith("uverbs")
    told = "is not in this network namespace: the MAC address is random" in stack.testpmd.startup
    assert told == bool(namespaces), stack.testpmd.startup
    forwards(stack)


def test_the_interface_beside_the_device(start_stack: StartStack, network: list[str]) -> None:
    """With the interface in the container's network, the port is complete again."""
    stack = start_stack(lossless(1), **container(*network, prepare=MAKE_NETWORK))
    assert not re.search("net_rawqp.*namespace", stack.testpmd.startup), stack.testpmd.startup
    assert port_mac(0).upper() in stack.testpmd.startup
    forwards(stack)


def test_recipe(guest: Guest, new_folder: Callable[[], Path]) -> None:
    """The guide's `podman run`: its limit, and the command in the image with a driver that is not installed."""
    line, = commands(recipe("Users and containers", "podman run"))
    options, _, program = line.partition(" IMAGE ")
    memlock = re.search(r"--ulimit memlock=(\d+)", options)
    assert memlock and program.endswith(" …") and "--cap-drop all --cap-add NET_RAW" in options
    # The guest has one CPU. If locked, all of the memory would be populated at once, which takes seconds there.
    rest = ["--lcores", "0@(0),1@(0)", "-d", DRIVER, "--", "-i", "--no-mlockall", "--total-num-mbufs=8192"]
    hca = GuestHca(guest, new_folder(), lossless(2), [
        "sh", "-ec", f'{LET_IN}; exec "$@"', "sh", *inside("unshare", "--mount", memlock=int(memlock[1])),
        *shlex.split(program.removesuffix(" …")), *rest], ENV)
    with closing(hca):
        testpmd = Testpmd(hca.program)
        testpmd.start("io", lossless=True)
        hca.wires[0].transfer(numbered(300), to=hca.wires[0])
        assert testpmd.quit(30) == 0
