# SPDX-License-Identifier: BSD-3-Clause
"""Device faults, end to end: commands that fail, error completions, broken queues.

softhca injects the faults (`--port fault=…`, `softhca fault`); the driver sees what a kernel and a NIC
would present. Commands that fail with an errno are the uverbs front's; those of firmware, which a kernel
turns into errnos, are in tests/kernel/test_failures.py.
"""

import re
import time
from contextlib import ExitStack, closing
from typing import Any, Callable, ContextManager, Iterator

import pytest
from rig.packets import numbered, opaque
from rig.reliability import TellFaults
from rig.stack import Stack

from functional.conftest import OpenStack, StartStack


class Shared:
    """A stack for many tests, replaced when a test has left it broken."""

    def __init__(self, open_one: Callable[[], ContextManager[Stack]]) -> None:
        self._open_one = open_one
        self._opened = ExitStack()
        self._stack: Stack | None = None

    def get(self) -> Stack:
        if self._stack is None:
            self._stack = self._opened.enter_context(self._open_one())
            self._stack.testpmd.start("io", lossless=True)
        return self._stack

    def close(self) -> None:
        self._stack = None
        self._opened.close()


@pytest.fixture(scope="module")
def shared(datapath: str, open_stack: OpenStack) -> Iterator[Shared]:
    """Two ports with two queues each that forward to each other; a third device for hot plug."""
    shared = Shared(lambda: open_stack(3, datapath=datapath, attach=2,
                                       testpmd_args=["--rxq=2", "--txq=2"]))
    with closing(shared):
        yield shared


@pytest.fixture(autouse=True)
def stack(shared: Shared) -> Iterator[Stack]:
    """After each test no command fails, and both ports forward."""
    stack = shared.get()
    yield stack
    try:
        stack.end_faults()
        forward(stack)
    except BaseException:
        shared.close()
        raise


def forward(stack: Stack) -> None:
    stack.wires[0].transfer(numbered(200, 100), to=stack.wires[1])
    stack.wires[1].transfer(numbered(200, 1000), to=stack.wires[0])


# -- no usable device ------------------------------------------------------------------------------

# What fails, and the driver's one line about it.
REFUSALS = {
    "open:EACCES": r"mlx5_2.*no permission for /dev/infiniband/uverbs2.*root.*group",
    "get_context:ENOMEM": r"mlx5_2.*RLIMIT_MEMLOCK",
    "alloc_pd:ENOMEM": r"mlx5_2.*protection domain",
    "query_port:EIO": r"mlx5_2 port 1",
}


def objects(stack: Stack, port: int) -> dict[str, int]:
    """The objects of a port's device; none if its program has not opened it."""
    counted: dict[str, int] = stack.stat().get(stack.device_name(port), {}).get("objects", {})
    return counted


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_device_that_cannot_be_used(stack: Stack, fault: str) -> None:
    """One clear error, twice; nothing is left behind; without the fault the device works."""
    stack.inject(2, fault)
    tries = 1 if fault.startswith("open") else 2  # libibverbs waits 5 s for a device node
    for _ in range(tries):
        error = stack.refused_plug(stack.vdev(2), timeout=30)
        assert re.search(REFUSALS[fault], error), error
        assert set(objects(stack, 2).values()) <= {0}
    stack.inject(2, "none")
    with stack.plugged(2):
        pass
    assert set(objects(stack, 2).values()) == {0}


# Commands of a port's setup and start, in order. A queue's failure names the queue.
LATER = {
    "create_cq:ENOMEM": r"queue 0.*",
    "create_cq:EPERM": r"queue 0.*RLIMIT_MEMLOCK is 0",  # as from the kernel, which then locks nothing at all
    "create_wq:ENOMEM": r"Rx queue 0",
    "create_wq:EPERM": r"Rx queue 0.*RLIMIT_MEMLOCK is 0",
    "create_qp:EPERM": r"Tx queue 0.*CAP_NET_RAW",  # as from the kernel in a user namespace
    "create_qp:ENOMEM": r"queue 0|RSS|QP",
    "modify_wq:EIO": r"Rx queue 0",
    "modify_qp:EIO": r"Tx queue 0",
    "create_rwq_ind_tbl:ENOMEM": r"indirection table|RSS|table",
    "create_flow:EPERM": r"CAP_NET_RAW",
    "create_flow:ENOMEM": r"rules",
}


@pytest.mark.parametrize("fault", LATER)
def test_a_port_that_cannot_start(stack: Stack, fault: str) -> None:
    """The start fails with the reason; the port starts once the cause is gone."""
    with stack.plugged(2):
        stack.inject(2, fault)
        answer = stack.testpmd.command("port start 2", 30)
        errors = [line for line in answer.splitlines() if line.startswith("net_rawqp")]
        assert any(re.search(LATER[fault], line) for line in errors), answer
        stack.inject(2, "none")
        stack.testpmd.start_port(2)
    assert set(objects(stack, 2).values()) == {0}


def test_a_reset_that_fails(stack: Stack) -> None:
    """The device cannot be reopened: the port can then be closed and plugged in again."""
    with stack.plugged(2):
        stack.inject(2, "alloc_pd:ENOMEM")
        refusal = stack.testpmd.command("port reset 2", timeout=30)
        assert re.search("cannot be reset, close it: .*protection domain", refusal), refusal
        assert "Failed to reset port 2" in refusal
        stack.testpmd.command("show port stats 2")  # is merely refused
        stack.inject(2, "none")
    assert set(objects(stack, 2).values()) == {0}
    with stack.plugged(2):
        pass


# -- error completions -----------------------------------------------------------------------------


def losses(stack: Stack, port: int, counter: str) -> Callable[[], int]:
    """Returns a function for the growth of a port's counter since this call."""
    before = getattr(stack.testpmd.stats(port), counter)
    return lambda: getattr(stack.testpmd.stats(port), counter) - before


def queue_of(stack: Stack, port: int, kind: str) -> int:
    """The number of the queue that frames of one flow use: frames sent now advance it."""
    def packets() -> dict[int, int]:
        return {queue["number"]: queue["packets"] for queue in stack.stat()[stack.device_name(port)][kind]}

    before = packets()
    forward(stack)
    after = packets()
    (number,) = [number for number in after if after[number] != before[number]]
    return number


def wait_ready(stack: Stack, port: int, kind: str, number: int) -> None:
    """Waits until the queue accepts packets again. Devices have no event for that. A send queue recovers
    with the next packet that is sent on it."""
    if kind == "sqs":
        return
    deadline = time.monotonic() + 10
    while True:
        (queue,) = [q for q in stack.stat()[stack.device_name(port)][kind] if q["number"] == number]
        if queue["state"] == "ready":
            return
        assert time.monotonic() < deadline, queue


def others(stack: Stack, port: int, number: int) -> list[dict[str, Any]]:
    """All queues of a port but one, with everything that the device reports about them."""
    device = stack.stat()[stack.device_name(port)]
    return [queue for queue in device["sqs"] + device["rqs"] if queue["number"] != number]


# As softhca names them, see app/softhca/core/error_names.hpp.
SYNDROMES = ("local_qp_operation", "local_length", "local_protection", "flushed", "mw_bind",
             "bad_response", "local_access", "remote_invalid_request", "remote_access",
             "remote_operation")


@pytest.mark.guest
@pytest.mark.parametrize("syndrome", SYNDROMES)
def test_a_send_that_fails(stack: Stack, syndrome: str, tell_faults: TellFaults) -> None:
    """The packet is counted as an error, the queue is set up again, and the next one passes."""
    errors = losses(stack, 1, "tx_errors")
    number = queue_of(stack, 1, "sqs")
    before = others(stack, 1, number)
    stack.break_queue(1, f"error_cqe:{number}:{syndrome}")
    failed = stack.counters(1)["tx_error_wqes"]
    stack.wires[0].send(opaque(100, seed=1))
    stack.wait_counter(1, "tx_error_wqes", failed + 1)
    stack.wires[0].transfer(numbered(300), to=stack.wires[1])
    assert errors() == 1
    assert others(stack, 1, number) == before
    tell_faults("tx-error", 1)


@pytest.mark.guest
@pytest.mark.parametrize("syndrome", SYNDROMES)
def test_a_receive_that_fails(stack: Stack, syndrome: str, tell_faults: TellFaults) -> None:
    errors = losses(stack, 0, "rx_errors")
    number = queue_of(stack, 0, "rqs")
    before = others(stack, 0, number)
    refused = stack.counters(0)["drop_rx_error"]
    stack.break_queue(0, f"error_cqe:{number}:{syndrome}")
    stack.wires[0].send(opaque(100, seed=1))
    stack.wait_counter(0, "drop_rx_error", refused + 1)
    wait_ready(stack, 0, "rqs", number)
    stack.wires[0].transfer(numbered(300), to=stack.wires[1])
    assert errors() == (syndrome != "flushed")  # a flushed WQE received no packet
    assert others(stack, 0, number) == before
    tell_faults("rx-error", 1)


def error_cqes(stack: Stack, number: int) -> int:
    queues = {queue["number"]: queue for queue in stack.stat()[stack.device_name(1)]["sqs"]}
    count: int = queues[number]["error_cqes"]
    return count


# Receive queues are not tested in the guest: its kernel never destroys one that has reported the event, see
# "A kernel of its own" in doc/softhca.md.
@pytest.mark.guest(when=lambda params: params["kind"] == "sqs")
@pytest.mark.parametrize("kind, port", [("sqs", 1), ("rqs", 0)])
def test_a_queue_that_breaks(stack: Stack, kind: str, port: int, tell_faults: TellFaults) -> None:
    """The NIC reports it by an event, and the queue's WQEs are flushed: the queue recovers."""
    number = queue_of(stack, port, kind)
    before = others(stack, port, number)
    position = stack.testpmd.mark_output()
    stack.break_queue(port, f"fatal:{number}")
    stack.program.wait_for(f"net_rawqp{port}: event of mlx5_{port}: .*(?i:fatal|catastrophic)", position)
    if kind == "sqs":  # the next packet is flushed
        lost = losses(stack, 1, "tx_errors")
        completed = error_cqes(stack, number)
        stack.wires[0].send(opaque(100, seed=1))
        deadline = time.monotonic() + 10
        while error_cqes(stack, number) == completed:
            assert time.monotonic() < deadline
    wait_ready(stack, port, kind, number)
    stack.wires[0].transfer(numbered(300), to=stack.wires[1])
    if kind == "sqs":
        assert lost() == 1
    assert others(stack, port, number) == before
    tell_faults("queue-fatal", 1)


@pytest.mark.guest
def test_many_errors_leak_nothing(stack: Stack, tell_faults: TellFaults) -> None:
    """Twenty resets of each queue: all mbufs are back when the ports are stopped."""
    for kind, port in (("sqs", 1), ("rqs", 0)):
        number = queue_of(stack, port, kind)
        for seed in range(20):
            stack.break_queue(port, f"error_cqe:{number}")
            counter = "tx_error_wqes" if kind == "sqs" else "drop_rx_error"
            before = stack.counters(port)[counter]
            stack.wires[0].send(opaque(100, seed))
            stack.wait_counter(port, counter, before + 1)
            wait_ready(stack, port, kind, number)
        tell_faults("tx-error" if kind == "sqs" else "rx-error", 20)
    stack.testpmd.check_mbufs()


# -- completion queues -----------------------------------------------------------------------------


def set_up_again(stack: Stack, port: int, side: str) -> None:
    """Sets up queue 0 of a stopped port again."""
    stack.testpmd.silent(f"port config {port} {side}q 0 ring_size 256", f"port {port} {side}q 0 setup")


def asks_for_completions(stack: Stack, port: int) -> bool:
    """Makes mlx5 rings request a completion for the last packets, which they otherwise do only occasionally, by
    reading the status of the newest descriptor. False: none is missing."""
    newest = 1023, 255  # as testpmd sets rings up, and as set_up_again() does
    return any("FULL" in stack.testpmd.command(f"show port {port} txq 0 desc {number} status")
               for number in newest)


def await_completions(stack: Stack, port: int) -> None:
    deadline = time.monotonic() + 10
    while asks_for_completions(stack, port):
        assert time.monotonic() < deadline


# Receive queues are not tested in the guest, as above: the RQ breaks with its CQ.
@pytest.mark.guest(when=lambda params: params["kind"] == "sqs")
@pytest.mark.parametrize("kind, port", [("sqs", 1), ("rqs", 0)])
@pytest.mark.parametrize("fault", ["fatal", "overrun"])
def test_a_cq_that_breaks(stack: Stack, fault: str, kind: str, port: int, tell_faults: TellFaults) -> None:
    """By itself, or because a completion overruns it. Only its queue is lost: the driver reports it with the
    remedy, without which it does not start the queue. All packets are accounted for."""
    testpmd, side = stack.testpmd, kind[0].replace("s", "t") + "x"
    number = queue_of(stack, port, kind)
    if kind == "sqs":
        await_completions(stack, port)  # of packets sent before
    (cq,) = [q["cq"] for q in stack.stat()[stack.device_name(port)][kind] if q["number"] == number]
    untouched, before = others(stack, port, number), stack.counters(port)
    received, sent = losses(stack, 0, "rx_packets"), losses(stack, 1, "tx_packets")
    unsent = testpmd.xstats(1)["tx_unsent_packets"]
    position = testpmd.mark_output()

    stack.break_queue(port, f"{fault}:{cq}")
    frames = list(numbered(11, 100))
    stack.wires[0].send(frames[0])
    if kind == "sqs":
        assert stack.wires[1].receive() == frames[0]  # only its completion is lost
        asks_for_completions(stack, port)  # fills the CQ
    lost = (f"net_rawqp{port}: a CQ of {stack.device_name(port)} failed, and {side.title()} queue 0 is lost"
            ".*set this queue up again")
    stack.program.wait_for(lost, position)
    stack.wires[0].send_all(frames[1:])
    if kind == "rqs":  # the device drops them
        stack.wait_counter(0, "drop_queue_not_ready", before["drop_queue_not_ready"] + 10)
        assert stack.counters(0)["drop_out_of_buffer"] == before["drop_out_of_buffer"] + 1
    else:  # the driver receives them
        deadline = time.monotonic() + 10
        while received() < 11:
            assert time.monotonic() < deadline
    assert others(stack, port, number) == untouched
    stack.wires[1].transfer(numbered(300), to=stack.wires[0])  # in the other direction

    testpmd.stop()
    testpmd.stop_port(port)
    unsent = testpmd.xstats(1)["tx_unsent_packets"] - unsent
    assert (received(), sent(), unsent) == ((11, 0, 11) if kind == "sqs" else (0, 0, 0))
    refusal = testpmd.command(f"port start {port}", 30)
    assert f"{side.title()} queue 0: its CQ failed: set the queue up again" in refusal
    set_up_again(stack, port, side)
    testpmd.start_port(port)
    testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(300), to=stack.wires[1])
    testpmd.check_mbufs()
    tell_faults("cq-error" if fault == "fatal" else "cq-overrun", 1)


# The kernel's part in the guest is tested in tests/kernel/test_faults.py.
def test_a_device_that_dies(start_stack: StartStack, datapath: str, tell_faults: TellFaults) -> None:
    """testpmd is notified of the removal, and removes the port; the other port keeps working."""
    stack = start_stack(2, datapath=datapath)
    testpmd = stack.testpmd
    position = testpmd.mark_output()
    stack.inject(1, "device_fatal")
    stack.program.wait_for("net_rawqp1: RDMA device mlx5_1 failed", position)
    testpmd.wait_until_removed(1, position, forwarding=False)
    testpmd.command("set portlist 0")
    testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(300), to=stack.wires[0])
    tell_faults("device-fatal", 1)
