# SPDX-License-Identifier: BSD-3-Clause
"""Programs as in containers: their own namespaces with one device node, a non-root user, one capability, a limit
on locked memory, no hugepages."""

import re
from typing import Any, Iterator

import pytest
from rig.guest import Guest
from rig.guest_stack import GuestStack
from rig.packets import numbered, port_mac
from rig.ports import lossless

from kernel.conftest import StartStack

MEMORY_MB, MEMLOCK_MB = 64, 96
# /dev as created by `podman run --device /dev/infiniband/uverbsN`, for the program's device.
ONE_DEVICE = """
device=$(echo "$@" | sed 's/.*device=\\([^,]*\\).*/\\1/')
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
USER = ["prlimit", f"--memlock={MEMLOCK_MB << 20}",
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
        "--inh-caps=-all,+net_raw", "--bounding-set=-all,+net_raw", "--ambient-caps=-all,+net_raw"]


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


def container(*namespaces: str, prepare: str = "true") -> dict[str, Any]:
    return {"user": [*namespaces, "sh", "-ec", ONE_DEVICE, "sh", *USER],
            "devices": f"chmod 0666 /dev/infiniband/uverbs*; {prepare}",
            "env": {"HOME": "/tmp", "XDG_RUNTIME_DIR": "/tmp"}, "memory_mb": MEMORY_MB}


@pytest.fixture
def network(guest: Guest) -> Iterator[list[str]]:
    """The command prefix that enters the network created by MAKE_NETWORK."""
    yield ["ip", "netns", "exec", "box", "unshare", "--mount"]
    guest.run(DELETE_NETWORK)


def forwards(stack: GuestStack) -> None:
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(300), to=stack.wires[0])


@pytest.mark.parametrize("datapath", ["mlx5", "verbs"])
@pytest.mark.parametrize("namespaces", [[], ["--net"]], ids=["host-network", "own-network"])
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
