# SPDX-License-Identifier: BSD-3-Clause
"""The far end of a port's cable: a SEQPACKET socket, one Ethernet frame per message."""

import errno
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from pathlib import Path
from typing import BinaryIO, Callable, Iterable

from scapy.layers.l2 import Ether
from scapy.packet import Packet

MIN_FRAME = 60  # without FCS; a NIC pads shorter ones


def to_bytes(frame: bytes | Packet) -> bytes:
    return frame if isinstance(frame, bytes) else bytes(frame)


def padded(frame: bytes | Packet) -> bytes:
    """The frame as seen on a wire."""
    return to_bytes(frame).ljust(MIN_FRAME, b"\0")


class SocketWire:
    """We listen, the device connects when a program opens it (and again after each restart).

    A thread receives every frame at once, so the lossless wire never blocks the device unless a test
    requests it with `hold`.
    """

    def __init__(self, path: Path, patience: float = 1) -> None:
        """`patience` multiplies all timeouts."""
        self.path = path
        self.patience = patience
        self._capture: BinaryIO | None = None
        self.spec = f"socket:{path}"
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._peer: socket.socket | None = None
        self._frames: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._held = False
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def record(self, path: Path) -> None:
        """Records every frame of both directions in a capture file from now on."""
        if self._capture:
            self._capture.close()
        self._capture = open(path, "wb", buffering=0)
        # pcap: magic number, version 2.4, no offset, frames up to 64 KiB, Ethernet
        self._capture.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))

    def _note(self, frames: Iterable[bytes]) -> None:
        if self._capture:
            now = time.time()
            for frame in frames:
                head = int(now), int(now % 1 * 1e6), len(frame), len(frame)
                self._capture.write(struct.pack("=IIII", *head) + frame)

    # -- receiving side ---------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._closing:
            peer = self._peer
            watched = [self._listener, self._wake_read]
            if peer and not self._held:
                watched.append(peer)
            ready, _, _ = select.select(watched, [], [])
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
            if self._listener in ready and not self._closing:
                self._replace_peer(self._listener.accept()[0])
            elif peer in ready and peer is not None:
                self._take_frames(peer)

    def _take_frames(self, peer: socket.socket) -> None:
        arrived: list[bytes] = []
        try:
            while len(arrived) < 256:
                frame = peer.recv(65536, socket.MSG_DONTWAIT)
                if not frame:
                    self._replace_peer(None)
                    break
                arrived.append(frame)
        except BlockingIOError:
            pass
        except OSError:
            self._replace_peer(None)
        self._note(arrived)
        with self._changed:
            self._frames.extend(arrived)
            self._changed.notify_all()

    def _replace_peer(self, peer: socket.socket | None) -> None:
        with self._changed:
            if self._peer:
                self._peer.close()
            self._peer = peer
            self._changed.notify_all()

    def _wake(self) -> None:
        os.write(self._wake_write, b"x")

    def hold(self, held: bool) -> None:
        """Stops (or resumes) reading: the device then sees a busy wire."""
        self._held = held
        self._wake()

    def connected(self, timeout: float = 10) -> socket.socket:
        """Waits for the device to plug in."""
        timeout *= self.patience
        with self._changed:
            if not self._changed.wait_for(lambda: self._peer is not None, timeout):
                raise AssertionError(f"no device connected to {self.path} within {timeout} s")
            assert self._peer is not None
            return self._peer

    def receive(self, timeout: float = 5) -> bytes:
        """The next frame in order of arrival."""
        timeout *= self.patience
        with self._changed:
            if not self._changed.wait_for(lambda: self._frames, timeout):
                raise AssertionError(f"no frame came out of {self.path.name} within {timeout} s")
            return self._frames.popleft()

    def poll(self, timeout: float) -> bytes | None:
        """The next frame, or None if none comes."""
        with self._changed:
            if self._changed.wait_for(lambda: self._frames, timeout):
                return self._frames.popleft()
        return None

    def receive_count(self, count: int, timeout: float = 10) -> list[bytes]:
        """Waits for `count` frames in total; if they do not arrive, the error shows those that did."""
        timeout *= self.patience
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._frames) >= count, timeout):
                raise AssertionError(
                    f"{len(self._frames)} of {count} frames came out of {self.path.name}"
                    f" within {timeout} s"
                )
            return [self._frames.popleft() for _ in range(count)]

    def receive_until(self, last: bytes | Packet, timeout: float = 5) -> list[bytes]:
        """Everything that arrives before the frame `last`, to show what did *not* pass."""
        end = padded(last)
        before: list[bytes] = []
        deadline = time.monotonic() + timeout
        while (frame := self.receive(max(0.0, deadline - time.monotonic()))) != end:
            before.append(frame)
        return before

    def expect(self, frames: Iterable[bytes | Packet], timeout: float = 10) -> None:
        """Requires the next frames to be exactly these, in this order, byte for byte."""
        wanted = [padded(frame) for frame in frames]
        for index, (got, want) in enumerate(zip(self.receive_count(len(wanted), timeout), wanted)):
            assert got == want, describe_difference(index, got, want)

    def drain(self) -> list[bytes]:
        """Takes the frames that have arrived so far."""
        with self._changed:
            frames = list(self._frames)
            self._frames.clear()
            return frames

    # -- sending side -----------------------------------------------------------------------------

    def send(self, frame: bytes | Packet, timeout: float = 5) -> None:
        """Sends a frame, waiting while the wire is full; nothing is lost."""
        data = to_bytes(frame)
        timeout *= self.patience
        deadline = time.monotonic() + timeout
        while True:
            peer = self.connected()
            try:
                peer.send(data, socket.MSG_DONTWAIT)
                self._note([data])
                return
            except BlockingIOError:
                select.select([], [peer], [], max(0.0, deadline - time.monotonic()))
            except OSError as error:
                # The device was closed and is being opened again.
                if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.EBADF):
                    raise
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.path.name} accepted no frame for {timeout} s")

    def send_all(self, frames: Iterable[bytes | Packet]) -> int:
        count = 0
        for frame in frames:
            self.send(frame)
            count += 1
        return count

    def try_send(self, frame: bytes | Packet) -> bool:
        """Sends a frame; False if the wire is full at the moment."""
        try:
            self.connected().send(to_bytes(frame), socket.MSG_DONTWAIT)
            return True
        except BlockingIOError:
            return False

    def wait_for_room(self, timeout: float = 0.1) -> None:
        """Waits until the wire accepts a frame again, or for `timeout` seconds."""
        select.select([], [self.connected()], [], timeout)

    def transfer(
        self,
        frames: Iterable[bytes | Packet],
        to: "SocketWire",
        change: Callable[[bytes], bytes] = lambda frame: frame,
        timeout: float = 20,
    ) -> None:
        """Sends the frames here and expects them on `to`, modified by `change`, in order."""
        sent = [to_bytes(frame) for frame in frames]
        self.send_all(sent)
        to.expect([change(padded(frame)) for frame in sent], timeout)

    def close(self) -> None:
        """May be called again."""
        if self._closing:
            return
        self._closing = True
        self._wake()
        self._thread.join(5)
        self._replace_peer(None)
        self._listener.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        if self._capture:
            self._capture.close()
        self.path.unlink(missing_ok=True)


def describe_difference(index: int, got: bytes, want: bytes) -> str:
    """The position where two frames differ, and both from there on."""
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    start = max(0, at - 8)
    return (
        f"frame {index} differs at byte {at}: {len(got)} bytes came, {len(want)} were expected\n"
        f"  got  …{got[start:start + 48].hex(' ')}\n"
        f"  want …{want[start:start + 48].hex(' ')}\n"
        f"  got  {Ether(got).summary()}\n  want {Ether(want).summary()}"
    )
