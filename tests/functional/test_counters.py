# SPDX-License-Identifier: BSD-3-Clause
"""Nothing is lost silently: full or empty rings, exhausted pools."""

import pytest
from rig.guide import GUIDE
from rig.packets import marker, numbered, opaque
from rig.reliability import TellFaults
from rig.stack import PortSpec
from scapy.layers.l2 import Ether

from functional.conftest import StartStack

pytestmark = pytest.mark.guest

RXD = 128


def test_an_empty_ring_is_counted(datapath: str, start_stack: StartStack,
                                  tell_faults: TellFaults) -> None:
    """Nobody polls: the ring takes as many packets as fit, and the device counts the rest."""
    stack = start_stack([PortSpec()], datapath=datapath, testpmd_args=[f"--rxd={RXD}"])
    sent = stack.wires[0].send_all(numbered(1000))
    stack.wait_counter(0, "wire_rx_packets", sent)
    device = stack.counters(0)
    dropped = device["drop_out_of_buffer"]
    assert device["delivered"] + dropped == sent
    assert device["delivered"] <= RXD and dropped >= sent - RXD

    # When it is polled again, exactly the packets in the ring come out, and traffic continues.
    stack.testpmd.silent("set verbose 1")
    position = stack.testpmd.mark_output()
    stack.testpmd.start("rxonly")
    stack.testpmd.received(position, device["delivered"])
    assert len(stack.show([opaque(100, seed=1)])) == 1
    assert stack.testpmd.stats(0).rx_packets == device["delivered"] + 3  # including two markers
    assert stack.testpmd.stats(0).rx_missed == dropped
    assert stack.testpmd.xstats(0)["rx_missed_errors"] == dropped
    assert stack.testpmd.xstats(0)["rx_out_of_buffer"] == dropped

    stack.testpmd.command("clear port stats 0")
    assert stack.testpmd.stats(0).rx_missed == 0
    tell_faults("empty", 1)


def test_the_guide_has_the_counters_of_the_driver(start_stack: StartStack) -> None:
    """The guide has the counters listed after ethdev's own and before those of each queue."""
    names = list(start_stack([PortSpec()]).testpmd.xstats(0))
    own = names[names.index("tx_q0_bytes") + 1:names.index("rx_q0_missed_errors")]
    assert "tx_unsent_packets" in own
    guide = GUIDE.read_text()
    assert [name for name in own if f"``{name}``" not in guide] == []


@pytest.mark.daily(when=lambda params: (params["datapath"], params["devx"]) in {("mlx5", "on"), ("verbs", "off")})
@pytest.mark.parametrize("devx", ["on", "off"])
def test_the_queue_that_misses_packets_is_told(datapath: str, start_stack: StartStack,
                                               devx: str) -> None:
    """Where the kernel offers DevX, each queue has its own counter."""
    stack = start_stack([PortSpec(options={"devx": devx})], datapath=datapath,
                        testpmd_args=["--rxq=2", "--txq=2", f"--rxd={RXD}"])
    stack.testpmd.expect("flow create 0 ingress pattern eth type is 0x9000 / end "
                         "actions queue index 1 / end", "Flow rule #0 created")
    frame = bytes(Ether(dst="ff:ff:ff:ff:ff:ff", type=0x9000) / (b"x" * 60))

    def overfill() -> int:
        """The number of further packets dropped while nobody polls."""
        before = stack.counters(0)
        sent = stack.wires[0].send_all([frame] * (RXD + 20))
        stack.wait_counter(0, "wire_rx_packets", before["wire_rx_packets"] + sent)
        dropped = stack.counters(0)["drop_out_of_buffer"] - before["drop_out_of_buffer"]
        assert dropped >= 20
        return dropped

    dropped = overfill()
    told = {name: value for name, value in stack.testpmd.xstats(0).items()
            if name.endswith("missed_errors")}
    queues = {"rx_q0_missed_errors": 0, "rx_q1_missed_errors": dropped} if devx == "on" else {}
    assert told == {"rx_missed_errors": dropped, **queues}

    # The queue's counter also works after a restart.
    stack.testpmd.clear_stats(0)
    stack.testpmd.silent("port 0 rxq 1 stop", "port 0 rxq 1 start")
    dropped = overfill()
    assert stack.testpmd.stats(0).rx_missed == dropped
    assert stack.testpmd.xstats(0).get("rx_q1_missed_errors", dropped) == dropped


def test_an_exhausted_pool_is_counted(datapath: str, start_stack: StartStack,
                                      tell_faults: TellFaults) -> None:
    """Packets pile up in a Tx ring that cannot drain, until the pool has no mbufs left for refilling."""
    stack = start_stack(2, datapath=datapath, testpmd_args=[
        "--rxd=512", "--txd=512", "--total-num-mbufs=1100", "--mbcache=0"])
    stack.testpmd.start("io")
    stack.wires[0].transfer(numbered(100), to=stack.wires[1])
    stack.wires[1].hold(True)
    sent = 0
    while stack.testpmd.stats(0).rx_nombuf == 0:
        assert sent < 20_000, "the pool never ran dry: the test proves nothing"
        sent += sum(stack.wires[0].try_send(frame) for frame in numbered(100, 1514))
    stack.wires[1].hold(False)

    # The shortage is over: traffic continues, and everything sent was delivered or counted.
    stack.wires[0].send(marker())
    arrived = stack.wires[1].receive_until(marker(), timeout=20)
    # Not as many as the queue has descriptors: some wait to be refilled together, and testpmd may get no
    # CPU for a while.
    stack.wires[0].transfer(numbered(400), to=stack.wires[1])
    device = stack.counters(0)
    dropped_by_device = sum(n for name, n in device.items() if name.startswith("drop_"))
    port = stack.testpmd.stats(0)
    forward = stack.testpmd.forward_stats()
    assert len(arrived) == sent - dropped_by_device - forward[1].tx_dropped - (
        device["delivered"] - port.rx_packets)
    tell_faults("nombuf", 1)
