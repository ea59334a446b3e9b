# SPDX-License-Identifier: BSD-3-Clause
"""Action send_to_kernel: a port that takes everything leaves a part of it to the Linux netdev.

Apart from test_bifurcated.py, whose port is open all the time: a guest has one netdev of this name.
"""

from typing import Iterator

import pytest
from rig.bifurcation import (
    FREE_PORT, TAKEN_PORT, answer, arp_request, echo_request, reaches_kernel, shared_port,
)
from rig.stack import Stack
from scapy.layers.l2 import ARP

from functional.conftest import OpenStack


@pytest.fixture
def normal(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    with shared_port(open_stack, datapath=datapath) as stack:
        yield stack


@pytest.mark.guest
def test_the_kernel_gets_what_a_rule_leaves_to_it(normal: Stack) -> None:
    """Past later rules and the port's filters; everything else comes to the port."""
    testpmd, wire = normal.testpmd, normal.wires[0]
    for layers in "eth type is 0x0806", "eth / ipv4 / icmp":
        testpmd.create_flow(0, f"ingress pattern {layers} / end actions send_to_kernel / end")
    counted = testpmd.create_flow(0, f"ingress pattern eth / ipv4 / udp dst is {FREE_PORT} / end"
                                     " actions count / send_to_kernel / end")
    testpmd.create_flow(0, "priority 1 ingress pattern eth / ipv4 / end actions queue index 1 / end")
    assert answer(wire, arp_request())[ARP].op == 2
    assert reaches_kernel(wire, FREE_PORT)
    assert testpmd.query_count(0, counted)[0] == 1
    position = testpmd.mark_output()
    assert not reaches_kernel(wire, TAKEN_PORT)
    assert [packet.queue for packet in testpmd.received(position, 1)] == [1]
    testpmd.flush_flows(0)
    position = testpmd.mark_output()
    wire.send(echo_request(1))
    testpmd.received(position, 1)
