# SPDX-License-Identifier: BSD-3-Clause
"""Accounts for every packet: counters of each hop, summed from one kernel to the other.

A packet on its way from kernel A to kernel B passes these counters:

    interface A (ip -s link)  tx packets (1) + tx dropped    = offered
    device A    (softhca)     wire_rx -> delivered | drop_…
    port A      (testpmd)     RX-packets
    forwarding  (testpmd)     TX-packets | TX-dropped
    port B      (testpmd)     TX-packets | TX-errors
    device B    (softhca)     wire_tx | drop_tx_…
    interface B (ip -s link)  rx packets (1)                  = delivered

(1) A kernel passes TCP packets of up to 64 KiB to and from a TAP and counts each as one; softhca, which
segments and merges them, counts the packets that do not appear there.

On real devices softhca's counters are missing; RX-missed and RX-errors of the port stand in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rig.testpmd import ForwardStats, PortStats

# softhca's drop counters and their names in the verdict. A send WQE in error is not listed: the
# driver counts that packet in TX-errors.
DEVICE_DROPS = {
    "drop_out_of_buffer": "rx ring empty",
    "drop_no_match": "no filter matched",
    "drop_rule": "flow rule said drop",
    "drop_oversize": "longer than the MTU",
    "drop_undersize": "shorter than a header",
    "drop_queue_not_ready": "rx queue not ready",
    "drop_rx_error": "rx error",
    "drop_link_down": "link down",
    "drop_kernel": "device's netdev refused",
    "drop_tx_wire": "interface refused",
    "drop_tx_oversize": "tx longer than the MTU",
}


@dataclass
class InterfaceStats:
    """Counters of a kernel interface: the end of a cable."""

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    tx_dropped: int


@dataclass
class Snapshot:
    """All counters at one time, by side (0: left, 1: right)."""

    interfaces: list[InterfaceStats]
    devices: list[dict[str, int]]  # softhca's port counters; empty on real devices
    ports: list[PortStats]
    forward: dict[int, ForwardStats]


@dataclass
class Ledger:
    offered: int = 0
    delivered: int = 0
    delivered_bytes: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # only causes that happened

    @property
    def unaccounted(self) -> int:
        """Negative when more came out than went in."""
        return self.offered - self.delivered - sum(self.dropped.values())


def sent_by_kernel(snapshot: Snapshot, side: int) -> int:
    split = snapshot.devices[side]["wire_rx_split"] if snapshot.devices else 0
    return snapshot.interfaces[side].tx_packets + split


def received_by_kernel(snapshot: Snapshot, side: int) -> int:
    merged = snapshot.devices[side]["wire_tx_merged"] if snapshot.devices else 0
    return snapshot.interfaces[side].rx_packets + merged


def balance(snapshot: Snapshot) -> Ledger:
    dropped = sum(i.tx_dropped for i in snapshot.interfaces)
    ledger = Ledger(
        offered=sum(sent_by_kernel(snapshot, side) for side in range(2)) + dropped,
        delivered=sum(received_by_kernel(snapshot, side) for side in range(2)),
        delivered_bytes=sum(i.rx_bytes for i in snapshot.interfaces),
    )
    drops = {
        "interface queue full": dropped,
        "tx ring full": sum(f.tx_dropped for f in snapshot.forward.values()),
        "tx error": sum(port.tx_errors for port in snapshot.ports),
    }
    if snapshot.devices:
        for counter, name in DEVICE_DROPS.items():
            drops[name] = sum(device[counter] for device in snapshot.devices)
    else:
        drops["rx missed"] = sum(port.rx_missed for port in snapshot.ports)
        drops["rx error"] = sum(port.rx_errors for port in snapshot.ports)
    ledger.dropped = {name: count for name, count in drops.items() if count}
    return ledger


def hops(snapshot: Snapshot) -> list[tuple[str, list[int]]]:
    """The packets that passed each hop, for [left to right, right to left]."""
    ways = [(0, 1), (1, 0)]
    table = [("sent by kernel", [sent_by_kernel(snapshot, a) for a, _ in ways])]
    if snapshot.devices:
        table.append(("device received", [snapshot.devices[a]["wire_rx_packets"] for a, _ in ways]))
    table.append(("port received", [snapshot.ports[a].rx_packets for a, _ in ways]))
    table.append(("port sent", [snapshot.ports[b].tx_packets for _, b in ways]))
    if snapshot.devices:
        table.append(("device sent", [snapshot.devices[b]["wire_tx_packets"] for _, b in ways]))
    table.append(("received by kernel", [received_by_kernel(snapshot, b) for _, b in ways]))
    return table
