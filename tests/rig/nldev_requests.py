# SPDX-License-Identifier: BSD-3-Clause
"""RDMA netlink requests, most of them invalid, and the answers.

Runs alone, on either front: nldev_requests.py [BYTES]. Prints {name: [answer, …]} as JSON, each
answer [type, flags, error or null, length]; properties of the device itself are not requested. With BYTES
it instead sends that many random bytes in datagrams and prints how many were answered.
"""
from __future__ import annotations

import json
import random
import socket
import struct
import sys

NETLINK_RDMA = 20
REQUEST, MULTI, ACK, DUMP = 1, 2, 4, 0x300
ERROR, DONE = 2, 3
SEQUENCE = 77
NLDEV = 5 << 10
GET, SET, PORT_GET, SYS_GET, RES_QP_GET, RES_PD_GET, GET_CHARDEV, STAT_GET = 1, 2, 5, 6, 10, 14, 15, 17
DEV_INDEX, PORT_INDEX, LQPN, CHARDEV_TYPE, PDN = 1, 3, 21, 69, 60

Answer = tuple[int, int, "int | None", int]


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("I", value))


def message(kind: int, flags: int, payload: bytes = b"", length: int = -1) -> bytes:
    if length < 0:
        length = 16 + len(payload)
    return struct.pack("IHHII", length, kind, flags, SEQUENCE, 0) + payload


def requests(index: int) -> dict[str, tuple[int, bytes]]:
    """The number of answers to wait for, and the message. `index` is a device's."""
    short = attribute(DEV_INDEX, b"\0")
    device = u32(DEV_INDEX, index)
    port = device + u32(PORT_INDEX, 1)
    return {
        "no device": (1, message(NLDEV | GET, REQUEST, u32(DEV_INDEX, 99))),
        "device missing": (1, message(NLDEV | GET, REQUEST)),
        "short index": (1, message(NLDEV | GET, REQUEST, short)),
        "no such command": (1, message(NLDEV | 60, REQUEST)),
        "no such dump": (1, message(NLDEV | 60, REQUEST | DUMP)),
        "no such client": (1, message(60 << 10 | GET, REQUEST)),
        "port of nothing": (1, message(NLDEV | PORT_GET, REQUEST | DUMP)),
        "no such port": (1, message(NLDEV | PORT_GET, REQUEST, device + u32(PORT_INDEX, 7))),
        "system": (2, message(NLDEV | SYS_GET, REQUEST | ACK)),
        "system, dumped": (1, message(NLDEV | SYS_GET, REQUEST | DUMP)),
        "system, short index": (1, message(NLDEV | SYS_GET, REQUEST, short)),
        "system, bytes left": (1, message(NLDEV | SYS_GET, REQUEST, b"\1\2")),
        "chardev of no kind": (1, message(NLDEV | GET_CHARDEV, REQUEST)),
        "chardev, text without end": (1, message(NLDEV | GET_CHARDEV, REQUEST, device
                                                 + attribute(CHARDEV_TYPE, b"uverbs"))),
        "no request": (1, message(NLDEV | GET, ACK)),
        "nothing to do": (1, message(1, REQUEST | ACK)),
        "QPs of no port": (1, message(NLDEV | RES_QP_GET, REQUEST | DUMP,
                                      device + u32(PORT_INDEX, 9))),
        "which QP": (1, message(NLDEV | RES_QP_GET, REQUEST, port)),
        "no such QP": (1, message(NLDEV | RES_QP_GET, REQUEST, port + u32(LQPN, 1))),
        "PD of a port": (1, message(NLDEV | RES_PD_GET, REQUEST, port + u32(PDN, 1))),
        "counters of what": (1, message(NLDEV | STAT_GET, REQUEST | DUMP)),
        "port's counters": (1, message(NLDEV | STAT_GET, REQUEST, port)),
        "two at once": (3, message(NLDEV | GET, REQUEST, u32(DEV_INDEX, 99))
                        + message(NLDEV | SYS_GET, REQUEST | ACK)),
        "shorter than itself": (0, message(NLDEV | GET, REQUEST | ACK, length=8)),
        "longer than sent": (0, message(NLDEV | GET, REQUEST | ACK, length=4000)),
        "cut off": (0, message(NLDEV | GET, REQUEST | ACK)[:11]),
    }


def open_socket() -> socket.socket:
    client = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
    client.bind((0, 0))
    assert client.getsockname()[1] == 0 and client.getsockname()[0] != 0
    return client


def first_device(client: socket.socket) -> int:
    """The device's index, which comes first in the first answer."""
    client.send(message(NLDEV | GET, REQUEST | DUMP))
    index: int = struct.unpack_from("I", client.recv(65536), 16 + 4)[0]
    while struct.unpack_from("IH", client.recv(65536))[1] != DONE:
        pass
    return index


def parse(data: bytes, port: int) -> Answer:
    length, kind, flags, sequence, to = struct.unpack_from("IHHII", data)
    assert (length, sequence, to) == (len(data), SEQUENCE, port)
    error = struct.unpack_from("i", data, 16)[0] if kind in (ERROR, DONE) else None
    return kind, flags, error, length


def ask(client: socket.socket, count: int, request: bytes) -> list[Answer]:
    """Answers are available at once: the kernel has queued them when send() returns."""
    client.send(request)
    answers = []
    for _ in range(count):
        data, sender = client.recvfrom(65536, socket.MSG_DONTWAIT)
        assert sender == (0, 0)
        answers.append(parse(data, client.getsockname()[0]))
    try:
        more = client.recv(65536, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return answers
    raise AssertionError(f"{len(more)} bytes more than expected: {more.hex()}")


def storm(client: socket.socket, left: int) -> int:
    """Sends random variations of valid requests; returns how many datagrams came back."""
    rng = random.Random(5)
    good = [request for _, request in requests(first_device(client)).values()]
    answered = 0
    while left > 0:
        request = bytearray(rng.choice(good))
        if len(request) > 5:
            request[5] = rng.choice([request[5], NLDEV >> 8])
        for _ in range(rng.randrange(4)):
            if request:
                request[rng.randrange(len(request))] = rng.randrange(256)
        left -= len(request) + 1
        client.send(bytes(request))  # never empty: the kernel warns about that
        try:
            while client.recv(65536, socket.MSG_DONTWAIT):
                answered += 1
        except BlockingIOError:
            pass
    return answered


def main() -> None:
    client = open_socket()
    if len(sys.argv) > 1:
        print(storm(client, int(sys.argv[1])))
        return
    asked = requests(first_device(client))
    print(json.dumps({name: ask(client, *request) for name, request in asked.items()}))


if __name__ == "__main__":
    main()
