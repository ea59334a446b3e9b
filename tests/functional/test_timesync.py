# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's example `ptpclient`, unchanged, synchronizes its port's clock with a master on the wire."""

import struct
import time
from pathlib import Path
from typing import Any

import pytest
from rig.packets import PEER_MAC, ether
from rig.ports import lossless
from rig.processes import compiled
from rig.screen import Screen
from rig.stack import DRIVER
from rig.wire import SocketWire
from scapy.packet import Raw

from functional.conftest import StartSoftHca

SOURCE = Path("/usr/share/dpdk/examples/ptpclient/ptpclient.c")  # package dpdk-doc
NO_HUGE = ["--no-huge", "-m", "256", "--no-shconf"]
SECOND = 1_000_000_000  # ns, as all times here
SLACK = SECOND  # programs wait for CPUs, unequally in the two directions

# IEEE 1588-2008, 13.3: type, version, length, domain, flags, correction, source (clock and port),
# sequence, control, interval; then a time stamp of 48 bits of seconds and 32 of nanoseconds.
HEADER = struct.Struct("!BBHBxHq4x10sHBb")
STAMP = struct.Struct("!HII")
SYNC, DELAY_REQ, FOLLOW_UP, DELAY_RESP = 0, 1, 8, 9
PTP_TYPE = 0x88f7
MASTER = bytes(range(8)) + b"\0\1"


@pytest.fixture(scope="module")
def ptpclient(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled([SOURCE], tmp_path_factory.mktemp("examples") / "ptpclient",
                    "-DALLOW_EXPERIMENTAL_API")


class Master:
    """A master whose clock is ahead of this machine's."""

    def __init__(self, wire: SocketWire) -> None:
        self._wire = wire
        self._sequence = 0
        self.ahead = 0

    def now(self) -> bytes:
        seconds, nanoseconds = divmod(time.time_ns() + self.ahead, SECOND)
        return STAMP.pack(seconds >> 32, seconds & 0xffffffff, nanoseconds)

    def send(self, kind: int, stamp: bytes, after: bytes = b"") -> None:
        length = HEADER.size + len(stamp) + len(after)
        header = HEADER.pack(kind, 2, length, 0, 0x200, 0, MASTER, self._sequence, 0, 0)
        message = Raw(header + stamp + after)
        self._wire.send(ether("01:1b:19:00:00:00", PEER_MAC, type=PTP_TYPE) / message)

    def exchange(self) -> None:
        """Sync and Follow_Up carry the time, Delay_Req and Delay_Resp measure the delay."""
        self._sequence += 1
        sent = self.now()
        self.send(SYNC, STAMP.pack(0, 0, 0))
        self.send(FOLLOW_UP, sent)
        request = self._wire.receive(timeout=20)
        received = self.now()
        kind, *_, source, sequence, _, _ = HEADER.unpack_from(request, 14)
        assert (kind, sequence) == (DELAY_REQ, self._sequence)
        self.send(DELAY_RESP, received, source)


class Client:
    """ptpclient, once it waits for messages."""

    def __init__(self, program: Screen, master: Master) -> None:
        self._program = program
        self._master = master
        program.wait_for("Waiting for SYNC packets", timeout=60)

    def behind(self) -> int | None:
        """The offset to its master that it finds before it sets its clock. None: the stamp of its own packet did
        not arrive within the millisecond that it waits, as the device got no CPU; it then sets its clock to
        garbage."""
        position = len(self._program.output)
        self._master.exchange()
        match = self._program.wait_for(
            # The messages of DPDK 22.11, and of 24.11.
            r"T3 - (?:Slave  Clock|time receiver clock)\.  (\d+)s (\d+)ns(?s:.*?)"
            r"(?:master and slave|transmitter and receiver) clocks:(-?\d+)ns", position, timeout=20)
        return int(match[3]) if int(match[1]) else None

    def settle(self) -> None:
        for _ in range(50):
            if self.behind() is not None and (rest := self.behind()) is not None:
                assert abs(rest) < SLACK
                return
        raise AssertionError("the client never had its stamps")


def start_client(start_softhca: StartSoftHca, ptpclient: str, devargs: str) -> Any:
    return start_softhca(lossless(1), [
        ptpclient, "-l", "0", *NO_HUGE, "--no-telemetry", "--no-pci", "-d", DRIVER,
        "--vdev", f"net_rawqp0,device=mlx5_0,{devargs}", "--", "-p", "1", "-T", "0"])


@pytest.mark.guest(when=lambda params: params["devargs"] != "datapath=mlx5,mprq_en=1")
@pytest.mark.parametrize("devargs", ["datapath=mlx5", "datapath=mlx5,rx_timestamp=real",
                                     "datapath=mlx5,mprq_en=1"])
def test_a_client_follows_its_master(start_softhca: StartSoftHca, ptpclient: str,
                                     devargs: str) -> None:
    hca = start_client(start_softhca, ptpclient, devargs)
    master = Master(hca.wires[0])
    client = Client(hca.program, master)
    client.settle()
    for jump in (1000 * SECOND, -50 * SECOND):
        for _ in range(20):
            master.ahead += jump
            behind, rest = client.behind(), client.behind()
            if behind is not None and rest is not None:
                break
            client.settle()
        assert behind is not None and rest is not None
        assert abs(behind - jump) < SLACK and abs(rest) < SLACK
    assert not hca.sanitizer_reports(), hca.sanitizer_reports()


@pytest.mark.guest
def test_verbs_rings_cannot(start_softhca: StartSoftHca, ptpclient: str) -> None:
    hca = start_client(start_softhca, ptpclient, "datapath=verbs")
    assert hca.program.wait(60) == 1
    assert ("timesync: datapath=verbs does not tell when packets are sent" in hca.program.output
            and "Timesync enable failed" in hca.program.output)
