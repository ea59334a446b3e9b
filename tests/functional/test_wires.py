# SPDX-License-Identifier: BSD-3-Clause
"""Wires that no other functional test uses, under testpmd. (unit/wire tests each separately.)"""

from pathlib import Path
from typing import Callable

import pytest
from functional.conftest import StartStack
from rig.stack import OWN_NETWORK, PortSpec
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import rdpcap, wrpcap


@pytest.mark.parametrize("pmd", ["rawqp", "mlx5"])
def test_pcap_is_played_through_testpmd(
    start_stack: StartStack, new_folder: Callable[[], Path], pmd: str
) -> None:
    """The file waits for the program's queues, so not one of its frames is missing; net_mlx5 tries rules long before
    it starts its ports."""
    folder = new_folder()
    frames = [
        Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02")
        / IP(src="192.0.2.1", dst="192.0.2.2")
        / UDP(sport=1000 + number, dport=9)
        / Raw(bytes([number]) * (18 + 7 * number))
        for number in range(100)
    ]
    wrpcap(str(folder / "in.pcap"), frames)
    port = PortSpec(wire=f"pcap:{folder}/in.pcap,{folder}/out.pcap", options={"pause": "on"})
    # By default testpmd discards packets received before "start".
    stack = start_stack([port], pmd=pmd, testpmd_args=["--no-flush-rx"])
    stack.testpmd.start("io")
    stack.wait_counter(0, "wire_tx_packets", len(frames))
    assert [bytes(frame) for frame in rdpcap(f"{folder}/out.pcap")] == [bytes(f) for f in frames]


def test_pair_cables_two_ports(start_stack: StartStack) -> None:
    """Packets sent by one port are received by the other; io forwarding keeps them circulating."""
    stack = start_stack([PortSpec(wire="pair:p"), PortSpec(wire="pair:p")])
    stack.testpmd.command("start tx_first")  # one burst of 32 on each port
    for port in (0, 1):
        stack.wait_counter(port, "wire_rx_packets", 4 * 32, timeout=30)


@pytest.mark.parametrize("pmd, options", [("rawqp", {}),
                                          ("mlx5", {"netdev": "tap"})])  # the kernel tells it about its netdev
def test_a_tap_that_is_set_down_is_an_unplugged_cable(
    start_stack: StartStack, pmd: str, options: dict[str, str]
) -> None:
    stack = start_stack([PortSpec(wire="tap:cable0", options=options)], pmd=pmd, prefix=OWN_NETWORK)
    for state in "down", "up":
        position = stack.testpmd.mark_output()
        stack.in_network("ip", "link", "set", "cable0", state)
        stack.testpmd.wait_for_link_event(0, position)
        assert stack.testpmd.info(0)["Link status"] == state


def test_generated_frames_are_counted_to_the_last(start_stack: StartStack) -> None:
    spec = "gen:count=20000,flows=64,size=200"
    stack = start_stack([PortSpec(wire=spec, options={"pause": "on"})])
    stack.testpmd.start("rxonly")
    stack.wait_counter(0, "wire_rx_packets", 20000)
    counters = stack.counters()
    # The generator starts with the port's first rule; packets before the rule that takes them match nothing.
    # `pause` keeps the rest from being dropped.
    assert counters["delivered"] + counters["drop_no_match"] == counters["wire_rx_packets"] == 20000
    assert counters["delivered"] > 10000
