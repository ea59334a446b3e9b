# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's own net_mlx5 reports packets that found no buffer from the device's counters, as on other NICs."""

import pytest
from rig.packets import numbered, opaque
from rig.stack import PortSpec

from functional.conftest import StartStack

RXD = 128


@pytest.mark.parametrize("devx", ["on", "off"])
def test_packets_without_a_buffer_are_missed(start_stack: StartStack, devx: str) -> None:
    """From its own counter set, where there is DevX; else from the kernel's, in sysfs."""
    stack = start_stack([PortSpec(options={"devx": devx})], pmd="mlx5", memory_mb=512,
                        testpmd_args=[f"--rxd={RXD}"])
    assert stack.testpmd.stats(0).rx_missed == 0
    sent = stack.wires[0].send_all(numbered(1000))
    stack.wait_counter(0, "wire_rx_packets", sent)
    device = stack.counters(0)
    dropped = device["drop_out_of_buffer"]
    assert device["delivered"] + dropped == sent and dropped >= sent - RXD
    assert stack.testpmd.stats(0).rx_missed == dropped

    stack.testpmd.silent("set verbose 1")
    position = stack.testpmd.mark_output()
    stack.testpmd.start("rxonly")
    stack.testpmd.received(position, device["delivered"])
    assert len(stack.show([opaque(100, seed=1)])) == 1
    stats = stack.testpmd.stats(0)
    assert stats.rx_missed == stack.counters(0)["drop_out_of_buffer"] == dropped, "none since there is room"

    stack.testpmd.clear_stats(0)
    assert stack.testpmd.stats(0).rx_missed == 0
