# SPDX-License-Identifier: BSD-3-Clause
"""QEMU serves a single qtest connection, and each device process injects its interrupts by one.

Requests are lines ("writel ADDRESS DATA"), each answered by one line, in order.
"""
from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from pathlib import Path


class InterruptRelay:
    """Passes the lines of any number of clients of `path` on to `qemu`, and the answers back."""

    def __init__(self, path: Path, qemu: socket.socket) -> None:
        self._qemu = qemu
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._partial: dict[socket.socket, bytes] = {qemu: b""}
        self._asked: deque[socket.socket] = deque()  # who gets the next answer
        self._selector = selectors.DefaultSelector()
        for one in (self._listener, qemu):
            self._selector.register(one, selectors.EVENT_READ)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                source = key.fileobj
                assert isinstance(source, socket.socket)
                if source is self._listener:
                    client, _ = source.accept()
                    self._partial[client] = b""
                    self._selector.register(client, selectors.EVENT_READ)
                elif not self._pass_on(source) and source is self._qemu:
                    return self._close()

    def _pass_on(self, source: socket.socket) -> bool:
        """False when the source is gone."""
        try:
            data = source.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(source)
            del self._partial[source]
            if source is not self._qemu:
                source.close()
            return False
        *lines, self._partial[source] = (self._partial[source] + data).split(b"\n")
        try:
            if source is not self._qemu:
                self._asked.extend([source] * len(lines))
                self._qemu.sendall(b"".join(line + b"\n" for line in lines))
            else:
                for line in lines:
                    self._answer(line + b"\n")
        except OSError:
            pass  # QEMU is gone: the next select says so
        return True

    def _answer(self, line: bytes) -> None:
        if not self._asked:
            return
        client = self._asked.popleft()
        if client in self._partial:
            try:
                client.send(line, socket.MSG_DONTWAIT)
            except OSError:
                pass  # a client that does not read its answers, or is gone

    def _close(self) -> None:
        for client in [one for one in self._partial if one is not self._qemu]:
            client.close()
        self._listener.close()
        self._selector.close()
        self._qemu.close()
