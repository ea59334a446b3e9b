# SPDX-License-Identifier: BSD-3-Clause
"""Life cycle of ports: stop, start, close, hot plug, bad device arguments."""

import re
from typing import Iterator

import pytest
from rig.packets import numbered, opaque
from rig.stack import Stack, device_name

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def stack(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    """Three devices; testpmd starts with the first two, the third is for hot plug."""
    with open_stack(3, datapath=datapath, attach=2) as stack:
        yield stack


@pytest.fixture(autouse=True)
def forwarding(stack: Stack) -> Iterator[None]:
    """Each test begins and ends with two ports that forward to each other."""
    stack.testpmd.start("io", lossless=True)
    yield
    check_forwarding(stack)
    stack.testpmd.stop()


def check_forwarding(stack: Stack, one: int = 0, other: int = 1) -> None:
    stack.wires[one].transfer(numbered(100, 100), to=stack.wires[other])
    stack.wires[other].transfer(numbered(100, 1000), to=stack.wires[one])


def test_stop_and_start_many_times(stack: Stack) -> None:
    for _ in range(20 if stack.patience == 1 else 5):
        stack.testpmd.stop()
        stack.testpmd.stop_port("all")
        stack.testpmd.start_port("all")
        stack.testpmd.start("io", lossless=True)
    check_forwarding(stack)


def test_stop_in_full_traffic(stack: Stack) -> None:
    """Rings are full of frames when the port stops; no old frame comes out afterwards."""
    for round_number in range(5):
        for frame in numbered(500, 200):
            if not stack.wires[0].try_send(frame):
                break
        stack.testpmd.stop()
        stack.testpmd.stop_port("all")
        stack.testpmd.start_port("all")
        stack.testpmd.start("io", lossless=True)
        end = opaque(100, seed=round_number)
        stack.wires[0].send(end)
        stack.wires[1].receive_until(end)
    check_forwarding(stack)


def test_no_mbuf_leaks(stack: Stack) -> None:
    """All mbufs are back in the pool when both ports are stopped."""
    for _ in range(3):
        stack.wires[0].transfer(numbered(3000, 64), to=stack.wires[1], timeout=30)
        stack.testpmd.check_mbufs()


def test_other_ring_sizes(stack: Stack) -> None:
    testpmd = stack.testpmd
    for size in (64, 1024, 256):
        testpmd.stop()
        testpmd.stop_port("all")
        testpmd.silent(f"port config all rxd {size}")
        testpmd.silent(f"port config all txd {size}")
        testpmd.start_port("all")
        testpmd.start("io", lossless=True)
        stack.wires[0].transfer(numbered(3000, 100), to=stack.wires[1], timeout=30)


def test_one_queue_can_be_set_up_again(stack: Stack) -> None:
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.stop_port(0)
    testpmd.silent("port 0 rxq 0 setup")
    testpmd.silent("port 0 txq 0 setup")
    testpmd.start_port(0)
    testpmd.start("io", lossless=True)
    check_forwarding(stack)


def test_a_port_can_be_reset(stack: Stack) -> None:
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.stop_port(0)
    assert "Failed to reset port 0" not in testpmd.command("port reset 0")
    testpmd.start_port(0)
    testpmd.start("io", lossless=True)


def forward_to_the_third(stack: Stack) -> None:
    """Port 2, just plugged in, forwards."""
    stack.testpmd.start_port(2)
    stack.testpmd.command("set portlist 0,2")
    stack.testpmd.start("io", lossless=True)
    check_forwarding(stack, 0, 2)


def test_hot_plug_twice(stack: Stack) -> None:
    for _ in range(2):
        with stack.plugged(2):
            forward_to_the_third(stack)
        check_forwarding(stack)


def test_close_and_attach_again(stack: Stack) -> None:
    """`port close`, then detach of the closed port; the same device comes back."""
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.expect(f"port attach {stack.vdev(2)}", "Port 2 is attached")
    testpmd.start_port(2)
    testpmd.stop_port(2)
    testpmd.expect("port close 2", "Port 2 is closed")
    testpmd.command("device detach net_rawqp2")
    testpmd.expect(f"port attach {stack.vdev(2)}", "Port 2 is attached")
    testpmd.expect("port detach 2", "Device is detached")
    testpmd.command("set portlist 0,1")
    testpmd.start("io", lossless=True)


def test_attach_by_interface_name(stack: Stack) -> None:
    with stack.plugged(2, f"net_rawqp2,iface=soft2,datapath={stack.datapath}"):
        forward_to_the_third(stack)


BAD_DEVARGS = {
    "": r"device=.*iface=",
    "device=": r"device",
    "device=nosuch": r"nosuch.*mlx5_0.*mlx5_2",  # lists the existing devices
    "device=mlx5_2,port=0": r"port=0",
    "device=mlx5_2,port=2": r"port.*\b2\b",
    "device=mlx5_2,port=x": r"port=x",
    "device=mlx5_2,device=mlx5_2": r"device.*more than once",
    "device=mlx5_2,iface=soft2": r"only one of",
    "device=mlx5_2,colour=blue": r"colour",
    "device=mlx5_2,datapath=fast": r"datapath=fast.*mlx5.*verbs",
    "iface=nosuch0": r"nosuch0",
    "iface=lo": r"lo\b.*RDMA",
}


@pytest.mark.guest(when=lambda params: params["datapath"] == "mlx5")
@pytest.mark.parametrize("devargs", BAD_DEVARGS)
def test_bad_device_arguments(stack: Stack, devargs: str) -> None:
    """One clear error; testpmd keeps running; the device is still free."""
    error = stack.refused_plug(",".join(filter(None, ["net_rawqp2", devargs])))
    assert re.search(BAD_DEVARGS[devargs], error), error


def test_a_device_after_the_failures(stack: Stack) -> None:
    with stack.plugged(2):
        pass


def test_a_used_device_may_be_opened_twice(stack: Stack) -> None:
    """As on real hardware: a second port on the same device has queues of its own."""
    with stack.plugged(2, f"net_rawqp7,device={device_name(0)}"):
        pass
