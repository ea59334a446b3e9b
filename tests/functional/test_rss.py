# SPDX-License-Identifier: BSD-3-Clause
"""Receive side scaling: spread, stickiness, the table, the hash value itself."""

import itertools
import time
from collections import Counter
from typing import Callable, Iterator, Sequence

import pytest
from rig.packets import BROADCAST, ether, ipv4, opaque, port_mac, tcp4, tcp6, udp4, udp6
from rig.stack import Stack
from rig.testpmd import ReceivedPacket
from rig.toeplitz import flow_hash
from scapy.layers.inet import UDP, fragment
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest

QUEUES = 4
FLOWS = 256


@pytest.fixture(scope="module")
def stack(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    arguments = [f"--rxq={QUEUES}", f"--txq={QUEUES}"]
    if datapath == "mlx5":
        arguments.append("--rx-offloads=0x80000")  # RSS_HASH, for which verbs has no field
    with open_stack(1, datapath=datapath, testpmd_args=arguments) as stack:
        stack.testpmd.silent("set verbose 1")
        yield stack


@pytest.fixture(autouse=True)
def receiving(stack: Stack) -> Iterator[None]:
    stack.testpmd.silent("port config all rss all")
    stack.testpmd.start("rxonly")
    yield
    stack.testpmd.stop()


def show_all(stack: Stack, frames: Sequence[bytes | Packet]) -> list[ReceivedPacket]:
    """Requires all frames to arrive; returns the packets in the same order."""
    packets = stack.show(frames)
    assert len(packets) == len(frames)
    return packets


def receive_burst(stack: Stack, frames: Sequence[bytes | Packet]) -> list[ReceivedPacket]:
    """Sends all at once, where the order does not matter."""
    position = stack.testpmd.mark_output()
    stack.wires[0].send_all(frames)
    return stack.testpmd.received(position, len(frames))


def test_many_flows_hit_all_queues(stack: Stack) -> None:
    frames = [udp4(sport=1000 + n) for n in range(FLOWS)]
    spread = Counter(packet.queue for packet in receive_burst(stack, frames))
    assert set(spread) == set(range(QUEUES))
    # A fair spread is binomial: a quarter of all, within about five standard deviations.
    assert all(FLOWS // 8 <= count <= FLOWS // 2 for count in spread.values()), spread


def test_a_flow_stays_on_its_queue(stack: Stack) -> None:
    for sport in (1, 1234, 65535):
        frames = [udp4(bytes(size), sport=sport) for size in range(0, 400, 20)]
        assert len({packet.queue for packet in receive_burst(stack, frames)}) == 1


@pytest.fixture
def selective(stack: Stack) -> Iterator[None]:
    """Own address, broadcast and all groups, each by rules of its own."""
    stack.testpmd.silent("set promisc 0 off", "set allmulti 0 on")
    yield
    stack.testpmd.silent("set allmulti 0 off", "set promisc 0 on")


@pytest.mark.usefixtures("selective")
def test_packets_to_groups_spread_as_to_the_own_address(stack: Stack) -> None:
    """Also by types that come later: of rules for groups, some devices try the oldest one first."""
    for types in ("none", "udp", "ip", "all", "tcp", "all"):
        stack.testpmd.silent(f"port config all rss {types}")
        queues = [[packet.queue for packet in show_all(stack, [
            udp4(sport=port, destination=mac) for port in range(1000, 1016)])]
            for mac in (port_mac(0), BROADCAST, "01:00:5e:00:00:05")]
        assert queues[0] == queues[1] == queues[2], types
        assert (len(set(queues[0])) > 1) == (types in ("udp", "all")), types


# Number -> frame and its addresses. TCP and UDP packets have the ports (number, 9).
MakeCase = Callable[[int], tuple[Packet, str, str]]


def numbered_ip(number: int) -> str:
    return f"10.1.{number // 256}.{number % 256}"


KINDS: dict[str, MakeCase] = {
    "udp4": lambda n: (udp4(sport=n, dport=9), "10.0.0.1", "10.0.0.2"),
    "udp6": lambda n: (udp6(sport=n, dport=9), "fd00::1", "fd00::2"),
    "tcp4": lambda n: (tcp4(sport=n, dport=9), "10.0.0.1", "10.0.0.2"),
    "tcp6": lambda n: (tcp6(sport=n, dport=9), "fd00::1", "fd00::2"),
    "ipv4": lambda n: (ether() / ipv4(numbered_ip(n), proto=200) / Raw(bytes(40)),
                       numbered_ip(n), "10.0.0.2"),
    "fragment": lambda n: (ether() / ipv4(numbered_ip(n), proto=17, frag=64) / Raw(bytes(40)),
                           numbered_ip(n), "10.0.0.2"),
}
# testpmd's names: which kinds are also hashed by ports, and which at all. A fragment of a UDP packet is UDP
# by its IP header, which is what the device uses, and has no ports.
TYPES = {
    "ip": ((), tuple(KINDS)),
    "udp": (("udp4", "udp6"), ("udp4", "udp6", "fragment")),
    "tcp": (("tcp4", "tcp6"), ("tcp4", "tcp6")),
    "all": (("udp4", "udp6", "tcp4", "tcp6"), tuple(KINDS)),
    "ipv4-udp": (("udp4",), ("udp4", "fragment")),
    "ipv6-tcp": (("tcp6",), ("tcp6",)),
    "ipv4-frag": ((), ("ipv4",)),  # packets of other protocols, fragments or not
}
# A single type has no name there, but the number of its flow type.
NUMBERS = {"ipv4-frag": "3", "ipv4-udp": "5", "ipv6-tcp": "10"}


# In the guest on one kind of rings only, as the kernel creates the hash tables.
@pytest.mark.guest(when=lambda params: params["datapath"] == "mlx5" or params["types"] == "all")
@pytest.mark.parametrize("types, kind", itertools.product(TYPES, KINDS))
def test_queue_and_hash_are_toeplitz(stack: Stack, types: str, kind: str) -> None:
    """Packets that are not hashed go to the first entry of the table."""
    by_port, hashed = TYPES[types]
    stack.testpmd.silent(f"port config all rss {NUMBERS.get(types, types)}")
    key = stack.testpmd.rss_key(0)
    table = stack.testpmd.reta(0, stack.testpmd.reta_size(0))
    numbers = range(1, 4000, 499)
    cases = [KINDS[kind](number) for number in numbers]
    packets = show_all(stack, [frame for frame, _, _ in cases])
    for packet, number, (_, source, destination) in zip(packets, numbers, cases):
        ports = (number, 9) if kind in by_port else None
        want = flow_hash(key, source, destination, ports) if kind in hashed else None
        assert packet.queue == table[(want or 0) % len(table)]
        # verbs has no field for the hash: then none is shown, rather than a wrong one.
        assert packet.rss_hash == (want if stack.datapath == "mlx5" else None)


@pytest.mark.parametrize("types", ["udp", "all"])
def test_fragments_of_a_packet_stay_together(stack: Stack, types: str) -> None:
    """Only the first one has ports, so they are not used for any."""
    stack.testpmd.silent(f"port config all rss {types}")
    for sport in range(1, 4000, 499):
        whole = ipv4(numbered_ip(sport)) / UDP(sport=sport, dport=9) / Raw(bytes(900))
        frames = [ether() / piece for piece in fragment(whole, fragsize=300)]
        assert len(frames) == 4
        assert len({packet.queue for packet in receive_burst(stack, frames)}) == 1


def test_without_ip_the_first_entry_takes_all(stack: Stack) -> None:
    table = stack.testpmd.reta(0, stack.testpmd.reta_size(0))
    packets = receive_burst(stack, [opaque(80, seed=n) for n in range(50)])
    assert {packet.queue for packet in packets} == {table[0]}


def test_a_table_update_moves_flows_at_once(stack: Stack) -> None:
    size = stack.testpmd.reta_size(0)
    frames = [udp4(sport=n) for n in range(1, 65)]
    before = stack.testpmd.reta(0, size)
    for queue in (2, 0) if stack.patience == 1 else (2,):  # the table takes 43 commands
        stack.testpmd.set_reta(0, [queue] * size)
        assert {packet.queue for packet in receive_burst(stack, frames)} == {queue}
    stack.testpmd.set_reta(0, before)
    assert len({packet.queue for packet in receive_burst(stack, frames)}) > 1


def test_the_key_can_be_changed(stack: Stack) -> None:
    """testpmd's command also sets the types: here, addresses only."""
    testpmd = stack.testpmd
    before = testpmd.rss_key(0)
    key = bytes(range(1, 41))
    testpmd.silent(f"port config 0 rss-hash-key ipv4 {key.hex()}")
    assert testpmd.rss_key(0) == key
    table = testpmd.reta(0, testpmd.reta_size(0))
    cases = [KINDS["ipv4"](number) for number in range(1, 30)]
    packets = show_all(stack, [frame for frame, _, _ in cases])
    for packet, (_, source, destination) in zip(packets, cases):
        assert packet.queue == table[flow_hash(key, source, destination) % len(table)]
    testpmd.silent(f"port config 0 rss-hash-key ipv4 {before.hex()}")


def test_updates_under_traffic_lose_and_double_nothing(stack: Stack) -> None:
    """Frames keep coming while the table, the types and the key change."""
    testpmd = stack.testpmd
    table, key = testpmd.reta(0, testpmd.reta_size(0)), testpmd.rss_key(0)
    testpmd.silent("set verbose 0")  # otherwise testpmd's prompt, which commands wait for, mixes with packets
    testpmd.clear_stats()
    sent, other = 0, bytes(range(1, 41)).hex()
    for command in ("port config 0 rss reta (0,3),(1,2),(2,1),(3,0)",
                    f"port config 0 rss-hash-key ipv4-udp {other}", "port config all rss ip",
                    "port config 0 rss reta (0,1),(1,1),(2,1),(3,1)", "port config all rss all",
                    f"port config 0 rss-hash-key ipv4 {key.hex()}") * 3:
        at = stack.program.send_line(command)
        for _ in range(8):
            sent += 1
            stack.wires[0].send(udp4(sport=sent))
        stack.program.wait_for("testpmd> ", at)
    deadline = time.monotonic() + 20
    while testpmd.stats(0).rx_packets < sent:
        assert time.monotonic() < deadline
    testpmd.silent("set verbose 1")
    show_all(stack, [opaque(60, 1)])  # flushes any duplicates
    assert testpmd.stats(0).rx_packets == sent + 3  # with two markers
    testpmd.silent("port config 0 rss reta "
                   + ",".join(f"({index},{table[index]})" for index in range(4)))


def test_statistics_of_each_queue(stack: Stack) -> None:
    stack.testpmd.clear_stats()
    frames = [udp4(sport=1000 + n) for n in range(FLOWS)]
    spread = Counter(packet.queue for packet in receive_burst(stack, frames))
    xstats = stack.testpmd.xstats(0)
    assert {q: xstats[f"rx_q{q}_packets"] for q in range(QUEUES)} == dict(spread)
    assert xstats["rx_good_packets"] == FLOWS


def test_other_numbers_of_queues(stack: Stack) -> None:
    """Reconfigured in place: three queues (not a power of two), two, and four again."""
    testpmd = stack.testpmd
    for queues in (3, 2, QUEUES):
        testpmd.stop()
        testpmd.stop_port(0)
        testpmd.silent(f"port config all rxq {queues}")
        testpmd.silent(f"port config all txq {queues}")
        testpmd.start_port(0)
        testpmd.start("rxonly")
        frames = [udp4(sport=n) for n in range(FLOWS)]
        spread = Counter(packet.queue for packet in receive_burst(stack, frames))
        assert set(spread) == set(range(queues))
