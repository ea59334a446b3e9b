# SPDX-License-Identifier: BSD-3-Clause
"""Two ports, stock testpmd between them: every byte of every frame, and every counter."""

import random
from typing import Iterator

import pytest
from rig.packets import (BROADCAST, PEER_MAC, ether, ipv4, ipv6, marker, numbered, opaque, port_mac,
                         tcp4, tcp6, udp4, udp6)
from rig.stack import PortSpec, Stack
from rig.wire import padded
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, LLC, SNAP, Ether
from scapy.packet import Raw

from functional.conftest import OpenStack, StartStack

pytestmark = pytest.mark.guest

MTU = 1500
LONGEST = MTU + 18  # a VLAN tag fits on top of the MTU


@pytest.fixture(scope="module")
def stack(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    """`pause`: a ring that is briefly empty pauses the wire, so nothing may be lost."""
    with open_stack(2, datapath=datapath) as stack:
        stack.testpmd.start("io", lossless=True)
        yield stack


def test_the_requested_rings_are_in_use(stack: Stack) -> None:
    assert stack.testpmd.rx_burst_mode(0).startswith(stack.datapath)
    assert stack.testpmd.tx_burst_mode(0).startswith(stack.datapath)


@pytest.mark.parametrize("source, target", [(0, 1), (1, 0)])
def test_every_size_unchanged(stack: Stack, source: int, target: int) -> None:
    frames = [opaque(length, seed=length) for length in range(60, LONGEST + 1)]
    stack.wires[source].transfer(frames, to=stack.wires[target])


def test_short_frames_are_padded(stack: Stack) -> None:
    stack.wires[0].transfer([opaque(n, seed=n) for n in range(14, 60)], to=stack.wires[1])


PROTOCOLS = {
    "udp4": udp4(),
    "udp6": udp6(),
    "tcp4": tcp4(),
    "tcp6": tcp6(),
    "icmp": ether() / ipv4() / ICMP() / Raw(b"ping"),
    "icmp6": ether() / ipv6() / ICMPv6EchoRequest(data=b"ping"),
    "arp": ether(BROADCAST) / ARP(op=1, hwsrc=PEER_MAC, psrc="10.0.0.1", pdst="10.0.0.2"),
    "vlan": ether() / Dot1Q(vlan=100, prio=5) / ipv4() / UDP(sport=1, dport=2) / Raw(b"tagged"),
    "qinq": ether() / Dot1AD(vlan=200) / Dot1Q(vlan=100) / ipv4() / UDP() / Raw(b"twice"),
    "ip_options": ether() / ipv4(options=b"\x01\x01\x01\x01") / UDP(sport=1, dport=2),
    "fragment": ether() / ipv4(frag=100, flags="MF", proto=17) / Raw(bytes(64)),
    "llc": Ether(dst=port_mac(0), src=PEER_MAC, type=46) / LLC() / SNAP() / Raw(bytes(38)),
    "ethertype_0": bytes(ether(type=0)) + bytes(46),
    "ethertype_ffff": bytes(ether(type=0xFFFF)) + b"\xff" * 46,
    "lying_length": ether() / IP(src="10.0.0.1", dst="10.0.0.2", len=1400) / UDP() / Raw(b"short"),
    "bad_checksums": ether() / ipv4(chksum=1) / TCP(chksum=2) / Raw(b"kept as it is"),
}


@pytest.mark.guest(when=lambda params: params["name"] in ("tcp6", "icmp", "qinq", "ip_options"))
@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocols_unchanged(stack: Stack, name: str) -> None:
    stack.wires[0].transfer([PROTOCOLS[name]], to=stack.wires[1])
    stack.wires[1].transfer([PROTOCOLS[name]], to=stack.wires[0])


def test_many_in_order_without_loss(stack: Stack) -> None:
    """More than any ring holds, so indices wrap many times."""
    stack.wires[0].transfer(numbered(20_000), to=stack.wires[1], timeout=60)


def test_both_ways_at_once(stack: Stack) -> None:
    there, back = list(numbered(3000, 128)), list(numbered(3000, 256))
    for one, other in zip(there, back):
        stack.wires[0].send(one)
        stack.wires[1].send(other)
    stack.wires[1].expect(there)
    stack.wires[0].expect(back)


@pytest.mark.guest(when=lambda params: params["seed"] == 0)
@pytest.mark.parametrize("seed", range(3))
def test_garbage_passes_unchanged(stack: Stack, seed: int) -> None:
    """Random bytes of random length after a plausible start, so that parsers get far."""
    source = random.Random(seed)
    starts = [b"", bytes(ether()), bytes(udp4())[:34], bytes(tcp6())[:54], bytes(udp4())[:14],
              bytes(ether() / Dot1Q() / ipv6())[:18]]
    frames = []
    for _ in range(1000):
        start = source.choice(starts)
        frames.append(start + source.randbytes(source.randint(60, 600) - len(start)))
    stack.wires[0].transfer(frames, to=stack.wires[1])


def test_runts_are_counted_and_harmless(stack: Stack) -> None:
    before = stack.counters(0)["drop_undersize"]
    for length in range(1, 14):
        stack.wires[0].send(bytes(range(length)))
    stack.wires[0].send(marker(1))
    assert stack.wires[1].receive_until(marker(1)) == []
    assert stack.counters(0)["drop_undersize"] == before + 13


def test_too_long_frames_are_counted_and_dropped(stack: Stack) -> None:
    before = stack.counters(0)["drop_oversize"]
    for length in (LONGEST + 1, LONGEST + 100, 9018):
        stack.wires[0].send(opaque(length, seed=length))
    stack.wires[0].send(marker(2))
    assert stack.wires[1].receive_until(marker(2)) == []
    assert stack.counters(0)["drop_oversize"] == before + 3


def test_statistics_add_up(stack: Stack) -> None:
    """Wire, device, driver and testpmd agree on packets and bytes."""
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.clear_stats()
    testpmd.start("io", lossless=True)
    before = [stack.counters(port) for port in range(2)]
    frames = [opaque(60 + 7 * n, seed=n) for n in range(200)]
    total_bytes = sum(map(len, frames))
    stack.wires[0].transfer(frames, to=stack.wires[1])

    device = [{name: value - before[port][name] for name, value in stack.counters(port).items()}
              for port in range(2)]
    assert device[0]["wire_rx_packets"] == device[0]["delivered"] == len(frames)
    assert device[0]["wire_rx_bytes"] == device[1]["wire_tx_bytes"] == total_bytes
    assert device[1]["wire_tx_packets"] == len(frames)
    drops = {name: n for one in device for name, n in one.items() if name.startswith("drop") and n}
    assert drops == {}

    received, sent = testpmd.stats(0), testpmd.stats(1)
    assert (received.rx_packets, received.rx_bytes) == (len(frames), total_bytes)
    assert (sent.tx_packets, sent.tx_bytes) == (len(frames), total_bytes)
    assert received.rx_errors == received.rx_missed == received.rx_nombuf == sent.tx_errors == 0
    queue = testpmd.xstats(0)
    assert queue["rx_q0_packets"] == queue["rx_good_packets"] == len(frames)
    assert queue["rx_q0_bytes"] == queue["rx_good_bytes"] == total_bytes
    forwarded = testpmd.forward_stats()
    assert (forwarded[0].rx_packets, forwarded[1].tx_packets) == (len(frames), len(frames))
    assert forwarded[1].tx_dropped == 0


def test_statistics_reset(stack: Stack) -> None:
    stack.wires[0].transfer([udp4()], to=stack.wires[1])
    stack.testpmd.clear_stats()
    cleared = [stack.testpmd.stats(port) for port in range(2)]
    assert not any(value for stats in cleared for value in vars(stats).values())
    stack.wires[0].transfer([udp4()], to=stack.wires[1])
    assert stack.testpmd.stats(0).rx_packets == 1


def test_link_is_reported(stack: Stack) -> None:
    info = stack.testpmd.info(0)
    assert info["Link status"] == "up"
    assert info["Link speed"] == "100 Gbps"
    assert info["MAC address"].lower() == port_mac(0)
    assert info["Driver name"] == "net_rawqp"
    stack.testpmd.expect("show device info all", r"Device speed capability:.*100 Gbps")


@pytest.mark.guest(False)  # the speed of a guest's ports is fixed
def test_supported_speeds(start_stack: StartStack) -> None:
    """The device's capabilities, even while the link is down and before the port was started."""
    nobody = PortSpec(wire="link:nobody", options={"speed": "25000"})
    stack = start_stack([nobody], testpmd_args=["--disable-device-start"])
    assert stack.testpmd.info(0)["Link status"] == "down"
    stack.testpmd.expect("show device info all",
                         r"Device speed capability:\s+1 Gbps\s+10 Gbps\s+25 Gbps\s")


def test_link_down_and_up(stack: Stack) -> None:
    """The event arrives unprompted; nothing passes a dead link; traffic continues afterwards."""
    testpmd = stack.testpmd
    before = stack.counters(0)["drop_link_down"]
    position = testpmd.mark_output()
    stack.set_link(0, up=False)
    testpmd.wait_for_link_event(0, position)
    assert testpmd.info(0)["Link status"] == "down"
    stack.wires[0].send(udp4())
    stack.wait_counter(0, "drop_link_down", before + 1)

    position = testpmd.mark_output()
    stack.set_link(0, up=True)
    testpmd.wait_for_link_event(0, position)
    assert testpmd.info(0)["Link status"] == "up"
    stack.wires[0].send(marker(3))
    assert stack.wires[1].receive_until(marker(3)) == []


def test_busy_wire_loses_nothing(stack: Stack) -> None:
    """The far end stops reading: frames wait in rings, and testpmd counts those it drops."""
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.command("clear fwd stats all")
    testpmd.start("io")
    stack.wires[1].hold(True)
    sent = 0
    for frame in numbered(6000, 1514):
        stack.wires[0].send(frame)
        sent += 1
    stack.wires[1].hold(False)

    arrived: list[bytes] = []
    markers = 0
    while padded(marker(4)) not in arrived[-1:]:
        try:
            arrived.append(stack.wires[1].receive(timeout=0.25))
        except AssertionError:  # everything has been sent; testpmd may have dropped markers, too
            assert markers < 100, "nothing passes any more"
            stack.wires[0].send(marker(4))
            markers += 1
    stack.wires[0].send(marker(5))
    arrived += stack.wires[1].receive_until(marker(5))
    dropped = testpmd.forward_stats()[1].tx_dropped
    assert len(arrived) + dropped == sent + markers
    assert dropped > 0, "the wire never pushed back: the test proves nothing"
    numbers = [int.from_bytes(frame[14:22], "big") for frame in arrived
               if frame != padded(marker(4))]
    assert numbers[0] == 0 and numbers == sorted(set(numbers)), "frames repeated or reordered"
