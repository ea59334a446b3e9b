# SPDX-License-Identifier: BSD-3-Clause
"""VLAN tags taken out on receive and put in on transmit, where the ring format offers it."""

from typing import Iterator

import pytest
from rig.packets import ether, opaque, udp4
from rig.stack import Stack
from rig.wire import padded
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw

from conftest import OpenStack, StartStack

pytestmark = pytest.mark.guest

TCI = {"vlan": 123, "prio": 5}


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
    """It shows packets instead of forwarding them."""
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
    assert "RTE_MBUF_F_RX_VLAN_STRIPPED" in first.flags
    assert "RTE_MBUF_F_RX_VLAN" not in second.flags


@pytest.mark.guest(False)  # ethdev refuses it without asking a device
def test_verbs_rings_do_not_offer_insertion(start_stack: StartStack) -> None:
    """What standard verbs cannot ask for is not claimed."""
    stack = start_stack(1, datapath="verbs")
    offloads = stack.testpmd.command("show port 0 rx_offload capabilities")
    assert "VLAN_STRIP" in offloads
    offloads = stack.testpmd.command("show port 0 tx_offload capabilities")
    assert "VLAN_INSERT" not in offloads
