# SPDX-License-Identifier: BSD-3-Clause
"""Hairpin queues of DPDK's own net_mlx5: the device alone sends the packets steered there, while testpmd
receives on other queues. Without `explicit`, net_mlx5 makes rules in groups for packets sent by these queues,
which takes software steering, so it does not run in the guest."""

from pathlib import Path
from typing import Any, Iterator

import pytest
from rig.packets import ether, ipv4, ipv6, udp4
from rig.ports import PortSpec, device_name, lossless
from rig.stack import Stack
from scapy.layers.inet import TCP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack, StartStack
from functional.test_softhca_look import looking
from functional.test_stock_flow import DATA, NEW_MAC, TUNNEL, in_tunnel, udp

NORMAL, HAIRPINS = 2, 2  # queues; those of testpmd come first
EXPLICIT = 0x10  # of --hairpin-mode: rules for sent packets are left to the application
MODES = {"implicit": 0, "explicit": EXPLICIT}


def arguments(mode: int) -> list[str]:
    return [f"--rxq={NORMAL}", f"--txq={NORMAL}", f"--hairpinq={HAIRPINS}", f"--hairpin-mode={mode:#x}"]


@pytest.fixture(scope="module", params=MODES)
def stack(request: pytest.FixtureRequest, open_stack: OpenStack) -> Iterator[Stack]:
    with open_stack(lossless(1), pmd="mlx5", testpmd_args=arguments(MODES[request.param])) as stack:
        stack.testpmd.silent("set verbose 1")
        yield stack


explicit_in_guest = pytest.mark.guest(when=lambda parameters: parameters.get("stack") == "explicit")


@pytest.fixture
def receiving(stack: Stack) -> Iterator[Stack]:
    """testpmd receives on its own queues. No rule is left at the end."""
    stack.testpmd.start("rxonly")
    yield stack
    stack.testpmd.stop()
    stack.testpmd.flush_flows(0)


def hairpins(stack: Stack, kind: str, port: int = 0) -> list[dict[str, Any]]:
    """The hairpin queues of "rqs" or "sqs", in the order of their creation."""
    listed = stack.stat()[device_name(port)][kind]
    found = [queue for queue in listed if "hairpin_peer" in queue]
    return sorted(found, key=lambda queue: int(queue["number"]))


def lead(stack: Stack, pattern: str, queue: int = NORMAL, changes: str = "", port: int = 0) -> int:
    """Steers packets that match to a queue, by default the first hairpin queue."""
    return stack.testpmd.create_flow(
        port, f"ingress pattern {pattern} / end actions {changes} queue index {queue} / end")


UDP_10 = "eth / ipv4 / udp dst is 10"


def test_queues_are_pairs(stack: Stack) -> None:
    receive, send = hairpins(stack, "rqs"), hairpins(stack, "sqs")
    assert len(receive) == len(send) == HAIRPINS
    assert [queue["hairpin_peer"] for queue in receive] == [queue["number"] for queue in send]
    assert [queue["hairpin_peer"] for queue in send] == [queue["number"] for queue in receive]
    assert {queue["state"] for queue in receive + send} == {"ready"}
    dumped = stack.run_tool("dump").stdout
    assert "hairpin_packets" in dumped


@explicit_in_guest
def test_frames_go_out_as_they_came(receiving: Stack) -> None:
    wire, testpmd = receiving.wires[0], receiving.testpmd
    for pattern in UDP_10, "eth / vlan / ipv4 / udp dst is 10", "eth / ipv6 / tcp":
        lead(receiving, pattern)
    bad = bytearray(bytes(udp()))
    bad[-1] ^= 1  # a wrong checksum is kept
    frames: list[Packet | bytes] = [
        udp(), ether() / Dot1Q(vlan=5, prio=3) / ipv4() / UDP(dport=10) / DATA, bytes(bad),
        ether() / ipv6() / TCP(dport=7) / Raw(bytes(1300)), udp(ttl=1)]
    wire.transfer(frames * 20, to=wire)
    position = testpmd.mark_output()
    wire.send(udp4(dport=11))  # testpmd's own queues work alongside them
    assert testpmd.received(position, 1)[0].queue < NORMAL
    assert not wire.drain()


@explicit_in_guest
def test_rss_spreads_over_hairpins(receiving: Stack) -> None:
    receiving.testpmd.create_flow(
        0, f"ingress pattern eth / ipv4 / udp / end actions rss types ipv4-udp end"
           f" queues {NORMAL} {NORMAL + 1} end / end")
    frames = [bytes(udp4(sport=port, payload=bytes(40))) for port in range(1, 101)]
    receiving.wires[0].send_all(frames)
    # Order is preserved per queue only.
    assert sorted(receiving.wires[0].receive_count(len(frames))) == sorted(frames)


def test_each_queue_counts_its_own(receiving: Stack) -> None:
    before = hairpins(receiving, "sqs")
    lead(receiving, UDP_10, NORMAL + 1)
    receiving.wires[0].transfer([udp()] * 7, to=receiving.wires[0])
    after = hairpins(receiving, "sqs")
    moved = [[new[name] - old[name] for name in ("packets", "bytes", "wqes", "cqes")]
             for new, old in zip(after, before, strict=True)]
    assert moved == [[0, 0, 0, 0], [7, 7 * len(udp()), 0, 0]]
    assert {queue["held"] for queue in hairpins(receiving, "rqs")} == {0}


def test_rules_change_what_they_lead_there(receiving: Stack) -> None:
    wire = receiving.wires[0]
    changes = [(f"set_mac_dst mac_addr {NEW_MAC} /", udp(), udp(destination=NEW_MAC)),
               ("dec_ttl /", udp(), udp(ttl=63)),
               ("set_tp_dst port 99 /", udp(), ether() / ipv4() / UDP(sport=9, dport=99) / DATA)]
    for change, frame, changed in changes:
        rule = lead(receiving, UDP_10, changes=change)
        wire.send(frame)
        wire.expect([changed])
        receiving.testpmd.destroy_flow(0, rule)


@pytest.mark.parametrize("stack", ["implicit"], indirect=True)
def test_encapsulation_is_done_by_the_send_queue(receiving: Stack) -> None:
    """net_mlx5 splits a rule in two: the first one marks the packet, the other one matches the mark in packets
    sent by the hairpin queue."""
    wire, testpmd = receiving.wires[0], receiving.testpmd
    testpmd.silent(f"set vxlan ip-version ipv4 {TUNNEL}")
    lead(receiving, UDP_10, changes="vxlan_encap /")
    lead(receiving, "eth / ipv4 / udp dst is 11", changes="of_push_vlan ethertype 0x8100"
         " / of_set_vlan_vid vlan_vid 5 / of_set_vlan_pcp vlan_pcp 3 /")
    lead(receiving, "eth / ipv4 / udp dst is 12")
    other = udp4(bytes(40), dport=11)
    tagged = ether() / Dot1Q(vlan=5, prio=3) / Ether(bytes(other)).payload
    plain = udp4(dport=12)
    wire.send_all([udp(), other, plain])
    wire.expect([in_tunnel(udp()), tagged, plain])


@pytest.mark.parametrize("stack", ["explicit"], indirect=True)
@explicit_in_guest
def test_rules_for_what_is_sent(receiving: Stack) -> None:
    lead(receiving, "eth / ipv4 / udp")
    receiving.testpmd.create_flow(0, f"egress pattern {UDP_10} / end"
                                  f" actions set_mac_dst mac_addr {NEW_MAC} / end")
    receiving.wires[0].send_all([udp(), udp4(dport=11)])
    receiving.wires[0].expect([udp(destination=NEW_MAC), udp4(dport=11)])


@explicit_in_guest
def test_restart(receiving: Stack) -> None:
    wire, testpmd = receiving.wires[0], receiving.testpmd
    for _ in range(3):
        lead(receiving, UDP_10)
        wire.transfer([udp()] * 3, to=wire)
        testpmd.stop()
        testpmd.stop_port(0)
        testpmd.start_port(0)
        testpmd.start("rxonly")


def test_trace_tells_both_halves(receiving: Stack, tmp_path: Path) -> None:
    lead(receiving, UDP_10)
    rqn, sqn = (hairpins(receiving, kind)[0]["number"] for kind in ("rqs", "sqs"))
    with looking(receiving, tmp_path / "trace.log", "trace", device_name(0), "--count", "2") as trace:
        receiving.wires[0].send(udp())
        told = trace.end()
    assert f"passed from hairpin RQ {rqn} to SQ {sqn}" in told
    assert f"{sqn} sends what hairpin RQ {rqn} took" in told


def test_a_busy_wire_fills_the_queue(start_stack: StartStack) -> None:
    """Packets that do not fit are dropped and counted, the rest arrives. net_mlx5 requests 64 KB."""
    stack = start_stack([PortSpec()], pmd="mlx5", testpmd_args=arguments(EXPLICIT))
    wire, frame = stack.wires[0], udp()
    lead(stack, UDP_10)
    wire.hold(True)
    count = 0
    while stack.counters()["drop_out_of_buffer"] == 0:
        count += wire.send_all([frame] * 100)
    stack.wait_counter(0, "wire_rx_packets", count)
    queue = hairpins(stack, "rqs")[0]
    assert queue["held"] == 65536 // len(frame)
    assert queue["out_of_buffer"] == stack.counters()["drop_out_of_buffer"]
    wire.hold(False)
    wire.expect([frame] * (count - queue["out_of_buffer"]))
    assert not wire.drain()
    stack.testpmd.flush_flows(0)


# For each of testpmd's modes: which port sends the packets received on each.
LEADS_TO = {1: [1, 2, 0], 2: [1, 0]}


@pytest.mark.parametrize("mode", LEADS_TO)
def test_ports_lead_to_each_other(start_stack: StartStack, mode: int) -> None:
    """Packets received on one port are sent by another one, by the device alone. Not in the guest, where each
    port is a process of its own."""
    leads_to = LEADS_TO[mode]
    stack = start_stack(lossless(len(leads_to)), pmd="mlx5",
                        testpmd_args=[*arguments(mode | EXPLICIT), "--total-num-mbufs=16384"])
    testpmd, frames = stack.testpmd, [udp(ttl=ttl) for ttl in range(1, 101)]
    for _ in range(2):
        testpmd.start("rxonly")
        for port, sender in enumerate(leads_to):
            lead(stack, UDP_10, port=port)
            stack.wires[port].transfer(frames, to=stack.wires[sender])
        for port, sender in enumerate(leads_to):
            peers = [queue["hairpin_peer_device"] for queue in stack.dump(port)["rqs"]
                     if "hairpin_peer" in queue]
            assert peers == [device_name(sender)] * HAIRPINS
        testpmd.stop()
        testpmd.stop_port("all")
        testpmd.start_port("all")
    assert not any(wire.drain() for wire in stack.wires)


def test_a_port_goes_while_another_one_sends_to_it(start_stack: StartStack) -> None:
    """Packets that it can no longer send wait, and are counted as lost when the queue is gone. The other port
    continues on its own queues."""
    stack = start_stack(lossless(2), pmd="mlx5", testpmd_args=arguments(1 | EXPLICIT))
    testpmd, frame = stack.testpmd, udp()
    testpmd.start("rxonly")
    lead(stack, UDP_10, port=0)
    stack.wires[0].transfer([frame] * 10, to=stack.wires[1])
    testpmd.stop()
    testpmd.stop_port(1)
    testpmd.command("port close 1")
    stack.wires[0].send_all([frame] * 10)
    stack.wait_counter(0, "wire_rx_packets", 20)
    testpmd.command("set portlist 0")
    testpmd.start("rxonly")
    testpmd.silent("set verbose 1")
    position = testpmd.mark_output()
    stack.wires[0].send(udp4(dport=11))
    assert testpmd.received(position, 1)[0].queue < NORMAL
    testpmd.stop()
    testpmd.flush_flows(0)
    assert not stack.wires[1].drain()
