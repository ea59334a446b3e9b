# SPDX-License-Identifier: BSD-3-Clause
"""Checksum offload: the device computes the requested checksums, and reports received ones correctly."""

from typing import Callable, Iterator

import pytest
from rig.checksums import DOUBTFUL
from rig.packets import ether, ipv4, opaque, port_mac, tcp4, tcp6, udp4, udp6
from rig.stack import Stack
from rig.testpmd import ReceivedPacket
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest

GOOD_IP, BAD_IP = "RTE_MBUF_F_RX_IP_CKSUM_GOOD", "RTE_MBUF_F_RX_IP_CKSUM_BAD"
GOOD_L4, BAD_L4 = "RTE_MBUF_F_RX_L4_CKSUM_GOOD", "RTE_MBUF_F_RX_L4_CKSUM_BAD"


@pytest.fixture(scope="module")
def stack(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    """Port 0 receives and checks, port 1 sends and computes."""
    with open_stack(2, datapath=datapath, testpmd_args=["--enable-rx-cksum"]) as stack:
        stack.testpmd.stop_port(1)
        for layer in ("ip", "udp", "tcp"):
            stack.testpmd.command(f"csum set {layer} hw 1")
        stack.testpmd.start_port(1)
        yield stack


# -- receive ---------------------------------------------------------------------------------------


@pytest.fixture
def receive(stack: Stack) -> Iterator[Callable[[Packet | bytes], ReceivedPacket]]:
    stack.testpmd.silent("set verbose 1")
    stack.testpmd.start("rxonly")

    def one(frame: Packet | bytes) -> ReceivedPacket:
        position = stack.testpmd.mark_output()
        stack.wires[0].send(frame)
        return stack.testpmd.received(position, 1)[0]

    yield one
    stack.testpmd.stop()
    stack.testpmd.silent("set verbose 0")


Receive = Callable[[Packet | bytes], ReceivedPacket]


def verdicts(packet: ReceivedPacket) -> set[str]:
    return {GOOD_IP, BAD_IP, GOOD_L4, BAD_L4} & set(packet.flags)


@pytest.mark.parametrize("make", [udp4, tcp4, udp6, tcp6])
def test_good_checksums_are_good(receive: Receive, make: Callable[[], Packet]) -> None:
    want = {GOOD_IP, GOOD_L4} if IP in make() else {GOOD_L4}
    assert verdicts(receive(make())) == want


def broken(frame: Packet, layer: type[Packet], bit: int) -> Packet:
    """The frame with one bit of its checksum flipped."""
    built = Ether(bytes(frame))
    built[layer].chksum ^= 1 << bit
    return built


@pytest.mark.guest(when=lambda params: params["bit"] == 7)
@pytest.mark.parametrize("bit", [0, 7, 15])
def test_a_bad_ip_checksum_is_bad(receive: Receive, bit: int) -> None:
    assert verdicts(receive(broken(udp4(), IP, bit))) == {BAD_IP, GOOD_L4}


@pytest.mark.guest(when=lambda params: params["bit"] == 7)
@pytest.mark.parametrize("bit", [0, 7, 15])
@pytest.mark.parametrize("make, layer", [(udp4, UDP), (tcp4, TCP), (udp6, UDP), (tcp6, TCP)])
def test_a_bad_l4_checksum_is_bad(
    receive: Receive, make: Callable[[], Packet], layer: type[Packet], bit: int
) -> None:
    flags = verdicts(receive(broken(make(), layer, bit)))
    assert flags == ({GOOD_IP, BAD_L4} if IP in make() else {BAD_L4})


@pytest.mark.parametrize("name", DOUBTFUL)
def test_bad_is_only_what_is_shown_to_be_wrong(receive: Receive, name: str) -> None:
    """Both ring formats report the same, even where the device does not vouch for a checksum."""
    frame, want = DOUBTFUL[name]
    flags = {f"RTE_MBUF_F_RX_{layer}_CKSUM_{word}" for layer, word in want.items()
             if word != "UNKNOWN"}
    assert verdicts(receive(frame)) == flags


@pytest.mark.guest(when=lambda params: params["bit"] in (0, 63))
@pytest.mark.parametrize("bit", range(0, 64, 9))
def test_a_changed_payload_is_never_good(receive: Receive, bit: int) -> None:
    frame = bytearray(bytes(udp4(bytes(8))))
    frame[42 + bit // 8] ^= 1 << bit % 8
    assert GOOD_L4 not in receive(bytes(frame)).flags


def test_udp_without_checksum_is_not_bad(receive: Receive) -> None:
    frame = ether() / ipv4() / UDP(sport=1, dport=2, chksum=0) / Raw(b"none")
    assert BAD_L4 not in receive(frame).flags


def test_tagged_packets_are_checked(receive: Receive) -> None:
    tagged = ether() / Dot1Q(vlan=7) / ipv4() / UDP(sport=1, dport=2) / Raw(b"tagged")
    assert GOOD_L4 in receive(tagged).flags
    assert GOOD_L4 not in receive(broken(tagged, UDP, 3)).flags


@pytest.mark.parametrize("frame", [
    pytest.param(opaque(80, seed=1), id="no_ip"),
    pytest.param(ether() / ipv4(frag=10, flags="MF", proto=17) / Raw(bytes(64)), id="fragment"),
])
def test_nothing_is_claimed_without_l4(receive: Receive, frame: Packet | bytes) -> None:
    assert not {GOOD_L4, BAD_L4} & set(receive(frame).flags)


PACKET_TYPES = {
    "udp4": (udp4(), {"L2_ETHER", "L4_UDP"}, "L3_IPV4"),
    "tcp4": (tcp4(), {"L2_ETHER", "L4_TCP"}, "L3_IPV4"),
    "udp6": (udp6(), {"L2_ETHER", "L4_UDP"}, "L3_IPV6"),
    "tcp6": (tcp6(), {"L2_ETHER", "L4_TCP"}, "L3_IPV6"),
    "icmp": (ether() / ipv4() / ICMP(), {"L2_ETHER"}, "L3_IPV4"),
}


@pytest.mark.parametrize("name", PACKET_TYPES)
def test_packet_types(receive: Receive, name: str) -> None:
    frame, exact, l3 = PACKET_TYPES[name]
    ptype = receive(frame).hw_ptype
    assert exact <= set(ptype), ptype
    assert any(word.startswith(l3) for word in ptype), ptype
    assert ("L4_UDP" in ptype, "L4_TCP" in ptype) == ("L4_UDP" in exact, "L4_TCP" in exact)


# -- transmit --------------------------------------------------------------------------------------


@pytest.fixture
def forward(stack: Stack) -> Iterator[Callable[[Packet], Packet]]:
    """csum engine: clears the checksums and asks port 1's hardware for new ones."""
    stack.testpmd.start("csum")

    def one(frame: Packet) -> Packet:
        stack.wires[0].send(frame)
        return Ether(stack.wires[1].receive())

    yield one
    stack.testpmd.stop()


def right(frame: Packet) -> Packet:
    """The frame with the checksums that Scapy computes."""
    copy = frame.copy()
    for layer in (IP, UDP, TCP):
        if layer in copy:
            del copy[layer].chksum
    return Ether(bytes(copy))


@pytest.mark.guest(when=lambda params: params["size"] in (1, 700))
@pytest.mark.parametrize("size", [1, 2, 63, 64, 700, 1400])
@pytest.mark.parametrize("make, l4", [(udp4, UDP), (tcp4, TCP), (udp6, UDP), (tcp6, TCP)])
def test_wrong_checksums_are_put_right(
    forward: Callable[[Packet], Packet], make: Callable[[bytes], Packet], l4: type[Packet],
    size: int
) -> None:
    frame = Ether(bytes(make((bytes(range(256)) * 6)[:size])))
    want = right(frame)
    frame[l4].chksum ^= 0x5555
    if IP in frame:
        frame[IP].chksum ^= 0x0F0F
    got = forward(frame)
    l3 = IP if IP in frame else IPv6
    assert bytes(got[l3])[:len(want[l3])] == bytes(want[l3])


def test_ip_header_only(forward: Callable[[Packet], Packet]) -> None:
    frame = Ether(bytes(ether() / ipv4() / ICMP() / Raw(bytes(32))))
    want = frame[IP].chksum
    frame[IP].chksum = 0xDEAD
    got = forward(frame)
    assert got[IP].chksum == want
    assert bytes(got[ICMP])[:40] == bytes(frame[ICMP])[:40]


def test_ip_options_and_vlan(forward: Callable[[Packet], Packet]) -> None:
    frame = Ether(bytes(ether() / Dot1Q(vlan=9) / ipv4(options=b"\x01" * 8)
                        / UDP(sport=1, dport=2) / Raw(b"offset headers")))
    want = right(frame)
    frame[IP].chksum, frame[UDP].chksum = 1, 2
    got = forward(frame)
    assert (got[IP].chksum, got[UDP].chksum) == (want[IP].chksum, want[UDP].chksum)
    assert got[Dot1Q].vlan == 9


def test_the_addresses_are_ours(forward: Callable[[Packet], Packet]) -> None:
    """Shows that the csum engine was active: it writes the sending port's address."""
    assert forward(udp4()).src == port_mac(1)


def test_offloads_are_announced(stack: Stack) -> None:
    receives = stack.testpmd.command("show port 0 rx_offload capabilities")
    sends = stack.testpmd.command("show port 0 tx_offload capabilities")
    for name in ("IPV4_CKSUM", "UDP_CKSUM", "TCP_CKSUM"):
        assert name in receives and name in sends


