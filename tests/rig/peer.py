# SPDX-License-Identifier: BSD-3-Clause
"""A host at the far end of a cable: answers ARP and ICMP echo, keeps everything else."""

import threading
from collections import deque
from types import TracebackType
from typing import Callable

from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet

from .packets import PEER_MAC
from .wire import SocketWire

PEER_IP = "10.7.0.2"
GUEST_IP = "10.7.0.1"


class Peer:
    def __init__(self, wire: SocketWire, mac: str = PEER_MAC, address: str = PEER_IP) -> None:
        self.wire = wire
        self.mac = mac
        self.address = address
        self.echoes = 0
        self._kept: deque[Packet] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "Peer":
        self.wire.drain()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._closing = True
        self._thread.join(10)

    def _serve(self) -> None:
        while not self._closing:
            frame = self.wire.poll(0.2)
            if frame is None:
                continue
            packet = Ether(frame)
            answer = self._answer(packet)
            if answer:
                self.wire.send(answer)
                continue
            with self._changed:
                self._kept.append(packet)
                self._changed.notify_all()

    def _answer(self, packet: Packet) -> Packet | None:
        reply = Ether(src=self.mac, dst=packet.src)
        if Dot1Q in packet:
            reply /= Dot1Q(vlan=packet[Dot1Q].vlan)
        if ARP in packet and packet[ARP].op == 1 and packet[ARP].pdst == self.address:
            return reply / ARP(op=2, hwsrc=self.mac, psrc=self.address, hwdst=packet.src,
                               pdst=packet[ARP].psrc)
        if ICMP in packet and packet[ICMP].type == 8 and packet[IP].dst == self.address:
            self.echoes += 1
            return (reply / IP(src=self.address, dst=packet[IP].src)
                    / ICMP(type=0, id=packet[ICMP].id, seq=packet[ICMP].seq)
                    / packet[ICMP].payload)
        return None

    def receive(self, wanted: Callable[[Packet], bool], timeout: float = 20) -> Packet:
        """The next kept packet that is wanted; those before it are dropped."""

        def found() -> bool:
            while self._kept:
                if wanted(self._kept[0]):
                    return True
                self._kept.popleft()
            return False

        with self._changed:
            if not self._changed.wait_for(found, timeout):
                raise AssertionError(f"no such packet came within {timeout} s")
            return self._kept.popleft()
