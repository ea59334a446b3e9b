# SPDX-License-Identifier: BSD-3-Clause
"""VLAN tags stripped on receive, also when turned on at run time, inserted on transmit, and filtered by."""

from typing import Iterator

import pytest
from rig.packets import MARKER_TYPE, ether, opaque, udp4
from rig.ports import lossless
from rig.stack import Stack
from rig.wire import padded
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from functional.conftest import OpenStack, StartStack

pytestmark = pytest.mark.guest

TCI = {"vlan": 123, "prio": 5}
STRIPPED = "RTE_MBUF_F_RX_VLAN_STRIPPED"


def tagged(payload: bytes, **tag: int) -> Packet:
    return ether() / Dot1Q(**(tag or TCI), type=0x88B5) / Raw(payload)


def untagged(payload: bytes) -> Packet:
    return Ether(src=ether().src, dst=ether().dst, type=0x88B5) / Raw(payload)


@pytest.fixture
def inserting(start_stack: StartStack) -> Stack:
    stack = start_stack(2, datapath="mlx5")
    stack.testpmd.silent("port stop 1")
    stack.testpmd.command("tx_vlan set 1 291")
    stack.testpmd.start_port(1)
    stack.testpmd.start("mac", lossless=True)
    return stack


def test_a_tag_is_inserted(inserting: Stack) -> None:
    payload = bytes(range(200))
    inserting.wires[0].send(untagged(payload))
    frame = Ether(inserting.wires[1].receive())
    assert frame[Dot1Q].vlan == 291
    assert bytes(frame[Dot1Q].payload) == payload


@pytest.fixture(scope="module")
def stripping(open_stack: OpenStack, datapath: str) -> Iterator[Stack]:
    arguments = ["--enable-hw-vlan-strip"]
    with open_stack(2, datapath=datapath, testpmd_args=arguments) as stack:
        stack.testpmd.start("io", lossless=True)
        yield stack


@pytest.mark.parametrize("size", [46, 60, 700, 1500])
def test_the_tag_is_stripped(stripping: Stack, size: int) -> None:
    payload = bytes(range(256)) * 6
    stripping.wires[0].send(tagged(payload[:size]))
    stripping.wires[1].expect([padded(untagged(payload[:size]))])


def test_only_the_outer_tag_is_stripped(stripping: Stack) -> None:
    inner = Dot1Q(vlan=7, type=0x88B5) / Raw(bytes(100))
    stripping.wires[0].send(ether() / Dot1Q(**TCI) / inner)
    stripping.wires[1].expect([Ether(src=ether().src, dst=ether().dst) / inner])


def test_untagged_frames_stay_as_they_are(stripping: Stack) -> None:
    frames: list[bytes | Packet] = [opaque(100, seed=1), udp4(bytes(100))]
    stripping.wires[0].transfer(frames, to=stripping.wires[1])


@pytest.fixture
def showing(stripping: Stack) -> Iterator[Stack]:
    """testpmd shows packets instead of forwarding them."""
    testpmd = stripping.testpmd
    testpmd.stop()
    testpmd.silent("set verbose 1")
    testpmd.start("rxonly")
    yield stripping
    testpmd.stop()
    testpmd.silent("set verbose 0")
    testpmd.start("io", lossless=True)


def test_the_stripped_tag_is_in_the_mbuf(showing: Stack) -> None:
    first, second = showing.show([tagged(bytes(64)), untagged(bytes(64))])
    assert STRIPPED in first.flags
    assert "RTE_MBUF_F_RX_VLAN" not in second.flags


def test_a_tag_of_zero_is_a_tag(showing: Stack) -> None:
    """A priority tag without a priority."""
    packet, = showing.show([tagged(bytes(64), vlan=0, prio=0)])
    assert STRIPPED in packet.flags
    assert (packet.length, packet.vlan_tci) == (78, 0)


RINGS = {"mlx5": ("mlx5", ""), "striding": ("mlx5", "mprq_en=1"), "verbs": ("verbs", "")}


@pytest.fixture(scope="module", params=RINGS)
def plain(request: pytest.FixtureRequest, open_stack: OpenStack) -> Iterator[Stack]:
    """Two queues whose burst function was chosen without any offload; testpmd shows packets."""
    datapath, devargs = RINGS[request.param]
    arguments = ["--rxq=2", "--txq=2", "--disable-rss"]
    with open_stack(lossless(1, devargs), datapath=datapath, testpmd_args=arguments) as stack:
        stack.testpmd.silent("set verbose 1")
        stack.testpmd.start("rxonly")
        yield stack


def strips(stack: Stack) -> bool:
    """Whether tagged frames, including tag zero, arrive without their tag, and others unchanged. A burst that began
    before stripping was turned on does not report it, so its end is awaited first."""
    stack.show([untagged(bytes(64))])
    frames = [tagged(bytes(64)), tagged(bytes(64), vlan=0, prio=0), untagged(bytes(64))]
    first, zero, other = stack.show(frames)
    assert STRIPPED not in other.flags and other.length == 78
    assert (STRIPPED in first.flags) == (STRIPPED in zero.flags)
    stripped = STRIPPED in first.flags
    assert [packet.length for packet in (first, zero)] == [78 if stripped else 82] * 2
    if stripped:
        assert (first.vlan_tci, zero.vlan_tci) == (5 << 13 | 123, 0)
    return stripped


def restart(stack: Stack) -> None:
    stack.testpmd.stop()
    stack.testpmd.stop_port(0)
    stack.testpmd.start_port(0)
    stack.testpmd.start("rxonly")


def test_stripping_begins_and_ends_at_run_time(plain: Stack) -> None:
    for on in (False, True, False, True):
        plain.testpmd.silent(f"vlan set strip {'on' if on else 'off'} 0")
        assert strips(plain) == on
    restart(plain)
    assert strips(plain)
    plain.testpmd.stop()
    plain.testpmd.stop_port(0)
    plain.testpmd.silent("vlan set strip off 0")
    plain.testpmd.start_port(0)
    plain.testpmd.start("rxonly")
    assert not strips(plain)


def test_a_queue_set_up_anew_strips_like_the_port(plain: Stack) -> None:
    """While the port runs, with the burst function that it was started with."""
    testpmd = plain.testpmd
    for on in (True, False):
        testpmd.silent(f"vlan set strip {'on' if on else 'off'} 0")
        testpmd.stop()
        testpmd.silent("port 0 rxq 0 stop", "port 0 rxq 0 setup", "port 0 rxq 0 start")
        testpmd.start("rxonly")
        assert strips(plain) == on


def test_stripping_of_one_queue(plain: Stack) -> None:
    testpmd = plain.testpmd
    testpmd.silent("vlan set stripq on 0,1")
    assert not strips(plain)
    for _ in range(2):
        rule = testpmd.create_flow(0, "ingress pattern eth / vlan / end actions queue index 1 / end")
        assert strips(plain)
        testpmd.destroy_flow(0, rule)
        restart(plain)
    testpmd.silent("vlan set stripq off 0,1")
    testpmd.create_flow(0, "ingress pattern eth / vlan / end actions queue index 1 / end")
    assert not strips(plain)
    testpmd.flush_flows(0)


@pytest.fixture
def filtering(plain: Stack) -> Iterator[Stack]:
    """The VLAN filter is on. The rig's markers, which have no tag, are received by their own rule."""
    testpmd = plain.testpmd
    testpmd.silent("set promisc 0 off", "vlan set filter on 0")
    testpmd.create_flow(0, f"ingress pattern eth type is {MARKER_TYPE:#x} / end "
                           "actions queue index 0 / end")
    yield plain
    testpmd.flush_flows(0)
    testpmd.silent("vlan set filter off 0", "set promisc 0 on")


ANY: list[int | None] = [0, 1, 2, 4095, None]


def let_in(stack: Stack) -> list[int | None]:
    """Which of these VLANs are received, and whether untagged frames are."""
    frames = [untagged(bytes(64)) if vlan is None else tagged(bytes(64), vlan=vlan) for vlan in ANY]
    return [vlan for vlan, frame in zip(ANY, frames) if stack.show([frame])]


def test_the_filter_lets_listed_vlans_in(filtering: Stack) -> None:
    testpmd = filtering.testpmd
    assert let_in(filtering) == ANY  # nothing is listed
    testpmd.silent("rx_vlan add 1 0", "rx_vlan add 4095 0")
    assert let_in(filtering) == [1, 4095]
    testpmd.silent("rx_vlan rm 1 0", "rx_vlan add 0 0")
    assert let_in(filtering) == [0, 4095]
    testpmd.silent("vlan set filter off 0")
    assert let_in(filtering) == ANY
    testpmd.silent("vlan set filter on 0")
    assert let_in(filtering) == [0, 4095]  # the list was kept
    testpmd.silent("rx_vlan rm 0 0", "rx_vlan rm 4095 0")
    assert let_in(filtering) == ANY


def test_promiscuous_lets_every_vlan_in(filtering: Stack) -> None:
    testpmd = filtering.testpmd
    testpmd.silent("rx_vlan add 2 0", "set promisc 0 on")
    assert let_in(filtering) == ANY
    testpmd.silent("set promisc 0 off")
    assert let_in(filtering) == [2]
    testpmd.silent("rx_vlan rm 2 0")


def test_the_filter_outlives_a_stop(filtering: Stack) -> None:
    testpmd = filtering.testpmd
    testpmd.silent("rx_vlan add 2 0")
    testpmd.stop()
    testpmd.stop_port(0)  # where testpmd flushes its flow rules
    testpmd.start_port(0)
    testpmd.create_flow(0, f"ingress pattern eth type is {MARKER_TYPE:#x} / end "
                           "actions queue index 0 / end")
    testpmd.start("rxonly")
    assert let_in(filtering) == [2]
    testpmd.silent("rx_vlan rm 2 0")


@pytest.mark.guest(False)  # ethdev refuses it without asking a device
def test_verbs_rings_do_not_offer_insertion(start_stack: StartStack) -> None:
    """Offloads that standard verbs cannot request are not offered."""
    stack = start_stack(1, datapath="verbs")
    offloads = stack.testpmd.command("show port 0 rx_offload capabilities")
    assert "VLAN_STRIP" in offloads
    offloads = stack.testpmd.command("show port 0 tx_offload capabilities")
    assert "VLAN_INSERT" not in offloads
