# SPDX-License-Identifier: BSD-3-Clause
"""Ports that are reconfigured: another MTU, no queues of one kind."""

import re

import pytest
from rig.packets import numbered, opaque
from rig.ports import lossless

from functional.conftest import StartStack

pytestmark = pytest.mark.guest

MTU = 9000
LONGEST = MTU + 18


def test_mtu_before_scatter(start_stack: StartStack, datapath: str) -> None:
    """The MTU of a stopped port is not checked against queues that are about to be set up again."""
    stack = start_stack(2, datapath=datapath,
                        testpmd_args=["--total-num-mbufs=16384", "--tx-offloads=0x8000"])
    testpmd = stack.testpmd
    for port in (0, 1):
        testpmd.silent(f"port stop {port}", f"port config mtu {port} {MTU}",
                       f"port config {port} rx_offload scatter on")
        testpmd.start_port(port)
        assert testpmd.info(port)["MTU"] == str(MTU)
    testpmd.start("io", lossless=True)
    stack.wires[0].transfer([opaque(LONGEST, seed=n) for n in range(20)], to=stack.wires[1])


def test_start_refuses_an_mtu_that_does_not_fit(start_stack: StartStack, datapath: str) -> None:
    """One sentence gives the reason; with the old MTU the port runs as before."""
    stack = start_stack(2, datapath=datapath)
    testpmd = stack.testpmd
    testpmd.silent("port stop 0", f"port config mtu 0 {MTU}")
    refusal = testpmd.command("port start 0")
    assert re.search(rf"frame of {LONGEST} bytes does not fit in one mbuf.*SCATTER", refusal)
    testpmd.silent("port config mtu 0 1500")
    testpmd.start_port(0)
    testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(100, 100), to=stack.wires[1])


def test_an_mtu_beyond_striding_wqes_is_refused(start_stack: StartStack) -> None:
    """Also while the port runs: no WQE of 2 KB would take such frames, and each would be an error."""
    stack = start_stack(lossless(2, "mprq_en=1,mprq_log_stride_num=3,mprq_log_stride_size=8"),
                        datapath="mlx5",
                        testpmd_args=["--mbuf-size=9728", "--total-num-mbufs=4096"])
    stack.testpmd.start("io", lossless=True)
    refusal = stack.testpmd.command(f"port config mtu 0 {MTU}")
    assert f"2^3 strides of 2^8 bytes holds no frame of {LONGEST} bytes" in refusal
    stack.testpmd.silent("port config mtu 0 2000", "port config mtu 1 2000")
    stack.wires[0].transfer(numbered(100, length=2000), to=stack.wires[1])


def test_ports_that_only_send(start_stack: StartStack, datapath: str) -> None:
    """Without Rx queues, every receive setting is accepted and has no effect."""
    stack = start_stack(2, datapath=datapath,
                        testpmd_args=["--rxq=0", "--txq=1", "--forward-mode=txonly"])
    testpmd = stack.testpmd
    for port in (0, 1):
        assert testpmd.info(port)["Current number of RX queues"] == "0"
        for mode in ("promisc", "allmulti"):
            testpmd.silent(f"set {mode} {port} off", f"set {mode} {port} on")
        testpmd.silent(f"mac_addr add {port} 02:00:00:00:00:77")
    assert "no Rx queue" in testpmd.refused_flow(0, "ingress pattern eth / end actions drop / end")
    for _ in range(2):
        testpmd.start("txonly")
        for wire in stack.wires:
            wire.receive()
        testpmd.stop()
        testpmd.stop_port("all")
        testpmd.start_port("all")
    for wire in stack.wires:
        wire.send(opaque(100, seed=1))  # goes to the Linux interface, if anywhere
    assert testpmd.stats(0).rx_packets == 0


def test_ports_that_only_receive(start_stack: StartStack, datapath: str) -> None:
    stack = start_stack(2, datapath=datapath, testpmd_args=["--rxq=2", "--txq=0"])
    testpmd = stack.testpmd
    testpmd.silent("set verbose 1")
    for _ in range(2):
        testpmd.start("rxonly")
        for port in (0, 1):
            assert len(stack.show(list(numbered(3, 100)), port)) == 3
        testpmd.stop()
        testpmd.stop_port("all")
        assert testpmd.mbufs_in_use() == 0
        testpmd.start_port("all")
