# SPDX-License-Identifier: BSD-3-Clause
"""rte_flow: every action, priorities, refusals, the life cycle of rules. Items are in test_flow_items.py, actions
that change packets in ../test_flow_edits.py."""

import re
from typing import Callable, Sequence

import pytest
from rig.flow_rules import QUEUES, TAKE, receive, taken, turn_marks_on
from rig.packets import PEER_MAC, ether, ipv4, ipv6, opaque, tcp4, tcp6, udp4, udp6
from rig.ports import lossless
from rig.stack import Stack
from rig.testpmd import ReceivedPacket
from rig.toeplitz import flow_hash
from scapy.layers.inet import UDP
from scapy.layers.l2 import GRE, Dot1Q
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving")]


# -- actions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [0, 1, 0xFFFFFD])
def test_marks_from_the_first_to_the_last(stack: Stack, mark: int) -> None:
    stack.testpmd.create_flow(
        0, f"ingress pattern eth / ipv6 / end actions mark id {mark} / queue index 0 / end")
    packet, = receive(stack, [udp6()])
    assert packet.mark == mark
    packet, = receive(stack, [udp4()])
    assert packet.mark is None


def test_a_mark_by_modify_field(stack: Stack) -> None:
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv6 / end actions modify_field op set dst_type mark"
                                 " src_type value src_value 563412 width 24 / queue index 3 / end")
    packet, = receive(stack, [udp6()])
    assert (packet.mark, packet.queue) == (0x123456, 3)


def test_flag(stack: Stack) -> None:
    stack.testpmd.create_flow(
        0, "ingress pattern eth / ipv6 / end actions flag / queue index 0 / end")
    flagged, = receive(stack, [udp6()])
    assert "RTE_MBUF_F_RX_FDIR" in flagged.flags and flagged.mark is None
    plain, = receive(stack, [udp4()])
    assert "RTE_MBUF_F_RX_FDIR" not in plain.flags


def spread(packets: Sequence[ReceivedPacket]) -> set[int]:
    return {packet.queue for packet in packets}


def test_rss_hashes_each_class_as_asked(stack: Stack) -> None:
    """TCP over IPv4 by ports, IPv6 by addresses, the rest goes to the first queue."""
    stack.testpmd.create_flow(0, "ingress pattern eth / end actions"
                                 " rss types ipv4-tcp ipv6 end queues 1 3 end / end")
    ports = range(1, 60)
    assert spread(receive(stack, [tcp4(sport=n) for n in ports])) == {1, 3}
    assert len(spread(receive(stack, [udp6(sport=n) for n in ports]))) == 1
    addresses = [ether() / ipv6(f"fd00::{n:x}") / UDP() for n in ports]
    assert spread(receive(stack, addresses)) == {1, 3}
    assert spread(receive(stack, [udp4(sport=n) for n in ports])) == {1}
    assert spread(receive(stack, [opaque(60, n) for n in ports])) == {1}


def test_rss_types_that_fit_no_packet_are_ignored(stack: Stack) -> None:
    """As rte_flow's guide says; what is not hashed goes to the first queue of the list."""
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp / end actions"
                                 " rss types ipv4-tcp ipv6 end queues 3 1 end / end")
    addresses = [ether() / ipv4(f"10.0.0.{n}") / UDP(sport=n) for n in range(1, 60)]
    assert spread(receive(stack, addresses)) == {3}


def test_rss_over_three_queues_is_fair(stack: Stack) -> None:
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp / end actions"
                                 " rss types ipv4-udp end queues 0 1 3 end / end")
    packets = receive(stack, [udp4(sport=n) for n in range(1, 301)])
    assert spread(packets) == {0, 1, 3}
    for queue in (0, 1, 3):
        assert 60 <= sum(packet.queue == queue for packet in packets) <= 140


def test_what_ovs_falls_back_to(stack: Stack) -> None:
    """A megaflow matches has_vlan; packets that OVS can process itself are marked and spread."""
    stack.testpmd.create_flow(
        0, "ingress pattern eth src is 02:aa:00:00:00:01 dst is 02:00:00:00:00:01 has_vlan is 0"
           " / ipv4 dst is 10.0.0.2 fragment_offset spec 0 fragment_offset mask 0x3fff / udp"
           " / end actions mark id 7 / rss queues 0 1 2 3 end / end")
    packets = receive(stack, [ether() / ipv4(f"10.0.0.{n}") / UDP() for n in range(1, 60)])
    assert {packet.mark for packet in packets} == {7} and len(spread(packets)) > 1
    tagged = ether() / Dot1Q(vlan=5) / ipv4() / UDP()
    assert receive(stack, [tagged])[0].mark is None


def _over_udp(port: int, header: str) -> Packet:
    return ether() / ipv4() / UDP(sport=7, dport=port) / Raw(bytes.fromhex(header))


# Tunnels with an Ethernet header inside, although some of them may also carry IP.
TUNNELS = {
    "udp / vxlan": ether() / ipv4() / UDP(sport=7, dport=4789) / VXLAN(),
    "udp / geneve": _over_udp(6081, "00006558 00000100"),
    "udp / vxlan-gpe": _over_udp(4790, "0c000003 00000100"),
    "gre": ether() / ipv4() / GRE(proto=0x6558),
}


@pytest.mark.parametrize("tunnel", TUNNELS)
def test_rss_of_what_a_tunnel_carries(stack: Stack, datapath: str, tunnel: str) -> None:
    """Hash QPs of `verbs` do not parse tunnels."""
    rule = (f"ingress pattern eth / ipv4 / {tunnel} / end actions rss level {{}} types ipv4-udp end"
            " queues 1 3 end / end")
    inner = [TUNNELS[tunnel] / udp4(sport=n) for n in range(1, 60)]
    outer = stack.testpmd.create_flow(0, rule.format(1))
    assert len(spread(receive(stack, inner))) == 1
    stack.testpmd.destroy_flow(0, outer)
    if datapath == "verbs":
        refusal = stack.testpmd.refused_flow(0, rule.format(2))
        assert "UDP destination port inside the tunnel" in refusal, refusal
        assert "level 2 of action rss needs datapath=mlx5" in refusal, refusal
        return
    stack.testpmd.create_flow(0, rule.format(2))
    if tunnel == "udp / vxlan-gpe":  # which the device looks into for rules only
        assert len(spread(receive(stack, inner))) == 1
        return
    assert spread(receive(stack, inner)) == {1, 3}
    assert spread(receive(stack, [TUNNELS[tunnel] / tcp6()])) == {1}
    if tunnel == "gre":  # without an Ethernet header inside
        of_ip = [ether() / ipv4() / GRE() / ipv4() / UDP(sport=n) for n in range(1, 60)]
        assert spread(receive(stack, of_ip)) == {1, 3}


@pytest.mark.parametrize("tunnel", TUNNELS)
def test_rss_of_what_a_tunnel_carried(stack: Stack, tunnel: str) -> None:
    """Decapsulated packets are spread by their own headers, whatever the tunnel's were."""
    stack.testpmd.silent("set raw_decap 0 eth / ipv4 / gre / end_set")  # stands for any tunnel
    stack.testpmd.create_flow(0, f"ingress pattern eth / ipv4 / {tunnel} / end actions raw_decap index 0"
                                 " / rss types ipv6-udp end queues 1 3 end / end")
    outer = TUNNELS[tunnel]
    assert spread(receive(stack, [outer / udp6(sport=n) for n in range(1, 60)])) == {1, 3}
    assert spread(receive(stack, [outer / udp4(sport=n) for n in range(1, 60)])) == {1}


def test_rss_with_a_key_of_its_own(stack: Stack, datapath: str) -> None:
    key = bytes(range(1, 41))
    rule = ("ingress pattern eth / ipv4 / udp / end actions rss func toeplitz types ipv4-udp end"
            f" key {key.hex()} key_len 40 queues 0 1 2 3 end / end")
    stack.testpmd.create_flow(0, rule)
    by_hash: dict[int, int] = {}
    for sport in range(1, 20):
        packet, = receive(stack, [udp4(sport=sport)])
        value = flow_hash(key, "10.0.0.1", "10.0.0.2", (sport, 2000))
        if datapath == "mlx5":
            assert packet.rss_hash == value
        # The same low bits, the same table entry.
        assert by_hash.setdefault(value % 4, packet.queue) == packet.queue
    assert len(set(by_hash.values())) == 4


def test_rss_that_is_symmetric(stack: Stack, datapath: str) -> None:
    """Both directions of a connection have the same hash, through a key that verbs can express."""
    rule = ("ingress pattern eth / {} / udp / end actions rss func symmetric_toeplitz types ipv4-udp"
            " ipv6-udp end {}queues 0 1 2 3 end / end")
    key, other = "3e91" * 20, bytes(range(1, 41)).hex()
    for layer, given in (("ipv4", ""), ("ipv6", ""), ("ipv4", f"key {key} key_len 40 ")):
        number = stack.testpmd.create_flow(0, rule.format(layer, given))
        queues = set()
        for n in range(1, 40):
            there = udp4(sport=n, dport=9) if layer == "ipv4" else udp6(sport=n, dport=9)
            back = there.copy()
            ip, udp = back[1], back[2]
            ip.src, ip.dst, udp.sport, udp.dport = ip.dst, ip.src, udp.dport, udp.sport
            del ip.chksum, udp.chksum
            first, second = receive(stack, [there, back])
            assert (first.queue, first.rss_hash) == (second.queue, second.rss_hash)
            if datapath == "mlx5":
                assert first.rss_hash == flow_hash(bytes.fromhex(key if given else "6d5a" * 20),
                                                   ip.src, ip.dst, (udp.sport, udp.dport))
            queues.add(first.queue)
        assert len(queues) > 1
        stack.testpmd.destroy_flow(0, number)
    assert "a key that repeats" in stack.testpmd.refused_flow(
        0, rule.format("ipv4", f"key {other} key_len 40 "))
    assert "takes source and destination" in stack.testpmd.refused_flow(
        0, rule.format("ipv4", "").replace("ipv4-udp", "ipv4-udp l3-src-only"))


def test_counts_of_a_rule(stack: Stack) -> None:
    """Frames of 100 and 60 bytes, without FCS; packets that other rules take are not counted."""
    first = stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp dst is 53 / end"
                                            " actions count / mark id 5 / queue index 1 / end")
    other = stack.testpmd.create_flow(0, "ingress pattern eth / ipv6 / end"
                                         " actions count / queue index 2 / end")
    assert stack.testpmd.query_count(0, first) == (0, 0)
    frames = [bytes(udp4(dport=53)).ljust(size, b"x") for size in (60, 100, 100)]
    packets = receive(stack, [*frames, udp4(dport=54), udp6()])
    assert sorted(packet.queue for packet in packets if packet.mark == 5) == [1, 1, 1]
    assert stack.testpmd.query_count(0, first) == (3, 260)
    assert stack.testpmd.query_count(0, other) == (1, max(60, len(udp6())))


def test_counts_of_what_is_dropped(stack: Stack) -> None:
    rule = stack.testpmd.create_flow(
        0, "ingress pattern eth / ipv4 / end actions count / drop / end")
    stack.wires[0].send_all([udp4(), tcp4()])
    receive(stack, [udp6()])
    assert stack.testpmd.query_count(0, rule)[0] == 2


def test_counts_of_a_rule_that_spreads(stack: Stack) -> None:
    """The driver splits it into several device rules and reports their sum."""
    rule = stack.testpmd.create_flow(
        0, "ingress pattern eth / end actions count / rss types ipv4-udp ipv6-tcp ipv6 end"
           " queues 1 3 end / end")
    frames = [udp4(), tcp4(), udp6(), tcp6(), opaque(60, 1)]
    receive(stack, frames)
    assert stack.testpmd.query_count(0, rule)[0] == len(frames)


def test_a_rule_without_count_has_none(stack: Stack) -> None:
    rule = stack.testpmd.create_flow(0, f"ingress pattern eth / {TAKE}")
    assert "no count action" in stack.testpmd.command(f"flow query 0 {rule} count")


# -- priorities --------------------------------------------------------------------------------------


def test_three_priorities(stack: Stack) -> None:
    """Priority precedes specificity: a broad rule of a better priority wins."""
    for priority, pattern in ((2, "eth / ipv4 / udp dst is 2000"), (1, "eth / ipv4"), (0, "eth")):
        stack.testpmd.create_flow(0, f"priority {priority} ingress pattern {pattern} / end actions"
                                     f" mark id {priority} / queue index {3 - priority} / end")
        packet, = receive(stack, [udp4()])
        assert (packet.mark, packet.queue) == (priority, 3 - priority)


@pytest.mark.guest(when=lambda params: params["datapath"] == "mlx5")
def test_ten_priorities_in_any_order(stack: Stack) -> None:
    """Existing rules make room for new priorities. The best one wins, and an eleventh is refused."""
    priorities = [500, 3, 100000, 40, 7, 20, 6, 5, 1, 900]
    best = 1 << 31
    for priority in priorities:
        stack.testpmd.create_flow(
            0, f"priority {priority} ingress pattern eth / ipv4 / udp dst is 2000 / end actions"
               f" mark id {priority} / queue index 1 / end")
        best = min(best, priority)
        assert receive(stack, [udp4()])[0].mark == best
    why = stack.testpmd.refused_flow(0, "priority 8 ingress pattern eth / ipv4 / udp / end actions"
                                        " queue index 1 / end")
    assert "priority 8: the device has 10 steering priorities for rules" in why
    for number, priority in sorted(enumerate(priorities), key=lambda pair: pair[1]):
        assert receive(stack, [udp4()])[0].mark == priority
        stack.testpmd.destroy_flow(0, number)


# Each takes some of MIXED_FRAMES, the last one all of them.
MIXED = ["eth / ipv4 / udp dst is 2000", "eth / ipv4 dst is 10.0.0.2", "eth / ipv6 / udp", "eth type is 0x88b5",
         f"eth src is {PEER_MAC}"]
MIXED_FRAMES = [udp4(), tcp4(), udp6(), tcp6(), opaque(60, 1)]


def in_disorder(stack: Stack, priorities: Sequence[int], rules: Callable[[int], list[str]],
                check: Callable[[int], None]) -> None:
    """Creates the rules of each priority in this order, and destroys them, the best priority first."""
    numbers: dict[int, list[int]] = {}
    for priority in priorities:
        numbers[priority] = [stack.testpmd.create_flow(0, f"priority {priority} ingress {rule}")
                             for rule in rules(priority)]
        check(min(numbers))
    for priority in sorted(numbers):
        check(priority)
        for number in numbers[priority]:
            stack.testpmd.destroy_flow(0, number)


@pytest.mark.guest(when=lambda params: params["datapath"] == "mlx5")
def test_eight_priorities_of_mixed_rules(stack: Stack) -> None:
    """However different the rules of a priority, each of them is tried before all of the next one. One of them
    spreads its packets, by classes that must also be tried in order."""
    ports = range(1, 40)

    def rules(priority: int) -> list[str]:
        to = [f"mark id {priority} / queue index 2 / end"] * 4
        to.append(f"mark id {priority} / rss types ipv6-tcp ipv6 end queues 1 3 end / end")
        return [f"pattern {pattern} / end actions {actions}" for pattern, actions in zip(MIXED, to)]

    def check(best: int) -> None:
        assert {packet.mark for packet in receive(stack, MIXED_FRAMES)} == {best}
        packets = receive(stack, [tcp6(sport=port) for port in ports])
        assert {packet.mark for packet in packets} == {best}
        assert spread(packets) == {1, 3}

    in_disorder(stack, [40, 3, 900, 7, 500, 20, 1, 5], rules, check)


def test_eight_priorities_by_verbs_alone(datapath: str, open_stack: OpenStack) -> None:
    """As above, but there is no table to tell the classes of an rss apart: it takes several levels."""
    rss = "pattern eth / ipv6 / end actions rss types ipv6-tcp ipv6 end queues 1 3 end / end"

    def rules(priority: int) -> list[str]:
        return [f"pattern {pattern} / end actions mark id {priority} / queue index 2 / end" for pattern in MIXED]

    def check(best: int) -> None:
        assert {packet.mark for packet in receive(stack, MIXED_FRAMES)} == {best}

    with open_stack(lossless(1, devargs="flow_engine=verbs"), datapath=datapath,
                    testpmd_args=[f"--rxq={QUEUES}", f"--txq={QUEUES}"]) as stack:
        stack.testpmd.silent("set verbose 1")
        turn_marks_on(stack)
        stack.testpmd.start("rxonly")
        in_disorder(stack, [40, 3, 900, 7, 500, 20, 1, 5], rules, check)
        for priority in (1, 2, 3, 4, 5):
            stack.testpmd.create_flow(0, f"priority {priority} ingress {rss}")
        why = stack.testpmd.refused_flow(0, f"priority 6 ingress {rss}")
        assert "an rss of several traffic classes needs one for those with ports" in why
        stack.testpmd.stop()


def test_more_layers_win_within_a_priority(stack: Stack) -> None:
    rules = ["eth / ipv4 / udp dst is 2000", "eth", "eth / ipv4"]
    for mark, pattern in enumerate(rules):
        stack.testpmd.create_flow(0, f"ingress pattern {pattern} / end actions"
                                     f" mark id {mark} / queue index 1 / end")
    marks = [receive(stack, [frame])[0].mark for frame in (udp4(), opaque(60, 1), tcp4())]
    assert marks == [0, 1, 2]


def test_rules_stand_above_the_ports_own_filters(stack: Stack, engine: str) -> None:
    """Also for multicast, although the device's driver sorts multicast rules last."""
    multicast = ("ff:ff:ff:ff:ff:ff", "33:33:00:00:00:07") if engine == "auto" else ()
    for destination in ("02:00:00:00:00:01", *multicast):
        stack.testpmd.create_flow(0, f"ingress pattern eth dst is {destination} / {TAKE}")
        assert taken(stack, [opaque(60, 1, destination), udp4(destination=destination)]) == 2


# -- what is refused ---------------------------------------------------------------------------------

REFUSED = {
    "transfer pattern eth / end actions drop / end": "transfer rules are not supported",
    "pattern eth / end actions drop / end": "set ingress",
    "ingress pattern eth / eth / end actions drop / end": "item eth is out of order",
    "ingress pattern eth / vlan / vlan / vlan / end actions drop / end": "item vlan is out of order",
    "ingress pattern eth / udp / end actions drop / end":
        "item udp is out of order: it needs item ipv4 or ipv6 right before it, not eth",
    "ingress pattern eth / ipv4 / sctp / end actions drop / end": "ipv4 or ipv6 with proto 132",
    "ingress pattern eth / ipv4 / udp / gtpc / end actions drop / end": "use item udp with dst 2123",
    "ingress pattern eth / ipv4 / udp / gtpu / gtp_psc / end actions drop / end":
        "item gtp_psc is not supported: .*: use item gtp, where bit 0x04 of v_pt_rsv_flags tells",
    "ingress pattern eth / ipv4 / udp / geneve / geneve-opt / end actions drop / end":
        "item geneve_opt is not supported: .*: use item geneve, where optlen tells",
    "ingress pattern eth / ipv6 / ipv6_ext / end actions drop / end":
        "item ipv6_ext is not supported: .*: use item ipv6, where proto is the protocol after them",
    "ingress pattern raw / end actions drop / end": "item raw is not supported: .*: name the header items",
    "ingress pattern eth / integrity level is 0 / end actions drop / end":
        "item integrity is not supported: .*: use the Rx checksum offloads",
    "ingress pattern eth / ipv4 / tcp / conntrack is 1 / end actions drop / end":
        "item conntrack is not supported: .*: use item tcp, where flags tell",
    "ingress pattern port_id / eth / end actions drop / end":
        "item port_id is not supported: there is no embedded switch, .*: make the rule on that port",
    "ingress pattern represented_port / eth / end actions drop / end":
        "item represented_port is not supported: there is no embedded switch",
    "ingress pattern port_representor / eth / end actions drop / end":
        "item port_representor is not supported: there is no embedded switch",
    "ingress pattern eth / end actions passthru / end":
        "action passthru: in group 0 the kernel tries no other rule .*: put the rule, .* into a group of 1 … 22",
    "ingress pattern eth / ipv4 / tcp / end actions conntrack / end":
        "action conntrack is not supported: .*: use queue or rss for the packets of item tcp",
    "ingress pattern eth / end actions port_id id 0 / end":
        "action port_id is not supported: there is no embedded switch .*: use queue",
    "ingress pattern eth / end actions represented_port ethdev_port_id 0 / end":
        "action represented_port is not supported: there is no embedded switch",
    "ingress pattern eth / end actions port_representor port_id 0 / end":
        "action port_representor is not supported: there is no embedded switch",
    "ingress pattern eth / mark id is 7 / end actions drop / end": "item mark: no rule has set it before",
    "ingress pattern eth / any num is 2 / end actions drop / end": "item any: a number of headers",
    "ingress pattern eth / any / ipv4 / end actions drop / end": "item ipv4 after item any",
    "ingress pattern eth has_vlan is 0 / vlan / end actions drop / end": "item vlan contradicts",
    "ingress pattern eth type is 0x8100 has_vlan is 0 / end actions drop / end":
        "item eth: no packet matches it: type is that of a VLAN tag, and has_vlan 0",
    "ingress pattern eth / vlan inner_type is 0x8100 has_more_vlan is 0 / end actions drop / end":
        "item vlan: no packet matches it: inner_type is that of a VLAN tag, and has_more_vlan 0",
    "ingress pattern eth / ipv4 / udp dst is 8472 / vxlan / end actions drop / end":
        "item vxlan contradicts field dst 0x2118 of item udp before it",
    "ingress pattern eth / ipv4 fragment_offset spec 1 fragment_offset last 0x1fff fragment_offset mask 0x3fff"
    " / end actions drop / end": "or for all fragments",
    "ingress pattern eth / ipv4 fragment_offset is 7 / end actions drop / end":
        r"ask for whole packets \(spec 0, mask 0x3fff\) or for all fragments",
    "ingress pattern eth / ipv6 / ipv6_frag_ext next_hdr is 17 / end actions drop / end":
        "item ipv6_frag_ext: its fields",
    "ingress pattern eth / ipv4 / ipv6 / end actions drop / end": "item ipv6 is out of order",
    "ingress pattern eth type is 0x86dd / ipv4 / end actions drop / end": "item ipv4 contradicts",
    "ingress pattern eth / ipv4 proto is 6 / udp / end actions drop / end": "item udp contradicts",
    "ingress pattern eth / ipv4 / udp dst spec 1 dst last 65534 dst mask 65535 / end actions drop"
    " / end": "item udp: range on field dst: .* made of 30",
    "ingress pattern eth / ipv4 src spec 10.0.0.1 src last 10.9.0.1 src mask 255.255.0.0 / end"
    " actions drop / end": "item ipv4: range on field src: ranges are of a whole field, or of its last bits",
    "ingress pattern eth / end actions mark id 0xfffffe / queue index 0 / end": "action mark",
    "ingress pattern eth / end actions queue index 1 / drop / end": "has queue already",
    "ingress pattern eth / end actions mark id 1 / drop / end": "no effect on dropped",
    "ingress pattern eth / end actions mark id 1 / end": "no fate action",
    "ingress pattern eth / end actions queue index 4 / end": "no Rx queue 4",
    "ingress pattern eth / end actions rss queues 0 7 end / end": "no Rx queue 7",
    "ingress pattern eth / end actions rss level 2 types ip end queues 0 1 end / end":
        "level 2 hashes what a tunnel carries, and the pattern has none",
    "ingress pattern eth / end actions rss func simple_xor types ip end queues 0 1 end / end":
        "hash function",
    "ingress pattern eth / end actions rss types l2-payload end queues 0 1 end / end":
        "types .* are not supported",
}


# In the guest only those where the device is involved; the others are refused by the driver alone.
@pytest.mark.guest(when=lambda params: "type is 0x" in params["rule"])
@pytest.mark.parametrize("rule", REFUSED)
def test_validate_and_create_refuse_with_the_same_reason(stack: Stack, rule: str) -> None:
    why = stack.testpmd.refused_flow(0, rule)
    assert re.search(REFUSED[rule], why), why


def test_validate_installs_nothing(stack: Stack) -> None:
    assert stack.testpmd.validate_flow(0, f"ingress pattern eth / {TAKE}") == ""
    assert taken(stack, [udp4(), opaque(60, 1)]) == 0


def test_the_same_match_twice(stack: Stack) -> None:
    rule = "ingress pattern eth / ipv4 / udp dst is 53 / end actions queue index {} / end"
    first = stack.testpmd.create_flow(0, rule.format(1))
    why = stack.testpmd.refused_flow(0, rule.format(2))
    assert "matches eth/ipv4/udp with the same values already" in why
    stack.testpmd.create_flow(0, "priority 1 " + rule.format(2))
    assert [packet.queue for packet in receive(stack, [udp4(dport=53)])] == [1]
    stack.testpmd.destroy_flow(0, first)
    assert [packet.queue for packet in receive(stack, [udp4(dport=53)])] == [2]


def test_dump(stack: Stack, engine: str) -> None:
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp dst is 53 / end"
                                 " actions mark id 5 / queue index 1 / end")
    other = stack.testpmd.create_flow(0, "priority 1 ingress pattern eth / ipv6 / end"
                                         " actions rss types ipv6 end queues 1 3 end / end")
    whole = stack.testpmd.command("flow dump 0 all")
    by = "verbs" if engine == "auto" else "mlx5"
    assert ("ingress priority 0: eth type 0x800 / ipv4 version 0x4 proto 0x11 / udp dst 0x35: queue 1,"
            f" mark 5 (by {by})") in whole, whole
    only = stack.testpmd.command(f"flow dump 0 rule {other}")
    assert "udp" not in only
    assert "rss to queues 1 3, table of 2, by IPv6 source, IPv6 destination" in only


# -- the life cycle of rules --------------------------------------------------------------------------


@pytest.mark.guest(when=lambda params: params["datapath"] == "mlx5")
def test_hundreds_of_rules(stack: Stack) -> None:
    ports = range(1, 401 if stack.patience == 1 else 151)
    numbers = stack.testpmd.create_flows(0, [
        f"ingress pattern eth / ipv4 / udp dst is {port} / end actions"
        f" mark id {port} / queue index {port % QUEUES} / end" for port in ports])
    packets = receive(stack, [udp4(dport=port) for port in ports])
    assert sorted(packet.mark or 0 for packet in packets) == list(ports)
    assert all(packet.queue == (packet.mark or 0) % QUEUES for packet in packets)
    stack.testpmd.destroy_flows(0, numbers[::2])
    marks = {packet.mark for packet in receive(stack, [udp4(dport=port) for port in ports])}
    assert marks == {None, *list(ports)[1::2]}


def test_rules_made_while_the_port_is_stopped(stack: Stack) -> None:
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.stop_port(0)
    kept = testpmd.create_flow(0, f"ingress pattern eth / ipv4 / {TAKE}")
    gone = testpmd.create_flow(0, f"ingress pattern eth / ipv6 / {TAKE}")
    testpmd.destroy_flow(0, gone)
    testpmd.start_port(0)
    testpmd.start("rxonly")
    assert taken(stack, [udp4(), udp6()]) == 1
    testpmd.destroy_flow(0, kept)
    assert taken(stack, [udp4(), udp6()]) == 0


def test_start_names_the_rule_whose_queue_is_gone(stack: Stack) -> None:
    testpmd = stack.testpmd
    testpmd.stop()
    testpmd.stop_port(0)  # testpmd flushes rules here, so they are created afterwards
    testpmd.create_flow(0, f"ingress pattern eth / ipv4 / {TAKE}")
    testpmd.create_flow(0, "ingress pattern eth / ipv6 / end actions queue index 3 / end")
    testpmd.command("port config all rxq 3")
    answer = testpmd.command("port start 0")
    assert "rte_flow rule 2 of 2" in answer, answer
    assert "there is no Rx queue 3: the port is configured with 3" in answer, answer
    testpmd.command(f"port config all rxq {QUEUES}")
    testpmd.start_port(0)
    testpmd.start("rxonly")
    assert taken(stack, [udp4()]) == 1


def test_the_device_has_the_last_word(open_stack: OpenStack) -> None:
    """Verbs can express a TTL, which mlx5_ib refuses: on a running port and on a stopped one."""
    with open_stack(lossless(1, devargs="flow_engine=verbs"), datapath="mlx5") as stack:
        rule = "ingress pattern eth / ipv4 ttl is 1 / end actions drop / end"
        assert "does not offer" in stack.testpmd.refused_flow(0, rule)
        untagged = "ingress pattern eth has_vlan is 0 / end actions drop / end"
        why = stack.testpmd.refused_flow(0, untagged)
        assert "item eth: field has_vlan cannot be matched: verbs flow specs have no place" in why
        stack.testpmd.stop_port(0)
        assert "does not offer" in stack.testpmd.refused_flow(0, rule)
        stack.testpmd.start_port(0)
