# SPDX-License-Identifier: BSD-3-Clause
"""port_guard=1: no socket gets the kernel's TCP and UDP ports that a rule takes.

The netdev is a real TAP in a network namespace of the test's own; in the guest it is the kernel's.
"""

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import Iterator

import pytest
from rig.bifurcation import ARGUMENTS, KERNEL_IP, NETDEV, shared_port
from rig.flow_templates import configure, create_table, destroy_table, pull
from rig.stack import Stack

from functional.conftest import OpenStack

pytestmark = pytest.mark.guest

KERNEL_IP6 = "fd05::1"
PORT = 7777


@pytest.fixture(scope="module")
def stack(open_stack: OpenStack) -> Iterator[Stack]:
    port, = ARGUMENTS["ports"]
    with shared_port(open_stack, "--flow-isolate-all",
                     ports=[replace(port, devargs="port_guard=1")]) as stack:
        stack.testpmd.stop()
        configure(stack)
        stack.testpmd.start("rxonly")
        stack.in_network("sysctl", "-qw", f"net.ipv6.conf.{NETDEV}.disable_ipv6=0")
        stack.in_network("ip", "address", "add", f"{KERNEL_IP6}/64", "dev", NETDEV, "nodad")
        stack.in_network("ip", "link", "set", "lo", "up")
        yield stack


@pytest.fixture(autouse=True)
def no_rules_left(stack: Stack) -> Iterator[None]:
    yield
    stack.testpmd.flush_flows(0)


def rule(layers: str) -> str:
    return f"ingress pattern eth / {layers} / end actions queue index 1 / end"


UDP = rule(f"ipv4 / udp dst is {PORT}")
PYTHON = ("/usr/bin/python3", "-IS", "-c")  # starts in half the time, which is a second in a guest
BIND = """
import socket, sys
for wanted in sys.argv[1:]:
    kind, address, port = wanted.split()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, getattr(socket, kind)) as tried:
            tried.bind((address, int(port)))
        print("bound")
    except OSError as error:
        print(error.strerror)
"""
HOLD = """
import os, signal, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[2] else socket.AF_INET
held = socket.socket(family, getattr(socket, sys.argv[1]))
held.bind((sys.argv[2], int(sys.argv[3])))
ready, done = os.pipe()
child = os.fork()
if child == 0:
    open("/proc/self/comm", "w").write(sys.argv[4])
    for number in (0, 1, 2, done):
        os.close(number)
    signal.alarm(120)  # should the test be killed
    signal.pause()
os.close(done)
os.read(ready, 1)
print(child)
"""


Wanted = tuple[str, str] | tuple[str, str, int]  # kind, address, port


def bindable(stack: Stack, *sockets: Wanted) -> list[bool]:
    """Whether each of these sockets gets its port."""
    wanted = [" ".join(map(str, socket if len(socket) == 3 else (*socket, PORT))) for socket in sockets]
    answers = stack.in_network(*PYTHON, BIND, *wanted).splitlines()
    assert len(answers) == len(sockets) and set(answers) <= {"bound", "Address already in use"}, answers
    return [answer == "bound" for answer in answers]


def bind(stack: Stack, kind: str, address: str) -> bool:
    return bindable(stack, (kind, address))[0]


@contextmanager
def holder(stack: Stack, kind: str, address: str) -> Iterator[str]:
    """The name of a process that holds the port."""
    name = f"holder-{kind[5:].lower()}"
    child = stack.in_network(*PYTHON, HOLD, kind, address, str(PORT), name)
    yield f"{name} (pid {child.strip()})"
    stack.in_network("kill", child.strip())
    deadline = time.monotonic() + 20
    while not bind(stack, kind, address):
        assert time.monotonic() < deadline


def test_a_rule_keeps_its_port_from_sockets_while_it_lives(stack: Stack) -> None:
    number = stack.testpmd.create_flow(0, UDP)
    everywhere = ("0.0.0.0", KERNEL_IP, "127.0.0.1", "::")  # the last one for both families, by default
    assert bindable(stack, *(("SOCK_DGRAM", address) for address in everywhere)) == [False] * 4
    assert bindable(stack, ("SOCK_STREAM", KERNEL_IP), ("SOCK_DGRAM", KERNEL_IP, PORT ^ 1)) == [True] * 2
    stack.testpmd.destroy_flow(0, number)
    assert bind(stack, "SOCK_DGRAM", "0.0.0.0")


def test_what_goes_to_the_kernel_is_not_reserved(stack: Stack) -> None:
    stack.testpmd.create_flow(0, UDP.replace("queue index 1", "send_to_kernel"))
    assert bind(stack, "SOCK_DGRAM", KERNEL_IP)


def test_validation_reserves_nothing(stack: Stack) -> None:
    assert stack.testpmd.validate_flow(0, UDP) == ""
    assert bind(stack, "SOCK_DGRAM", "0.0.0.0")


@pytest.mark.parametrize("kind, layer, address", [
    ("SOCK_DGRAM", "ipv4 / udp", KERNEL_IP), ("SOCK_DGRAM", "ipv4 / udp", "0.0.0.0"),
    ("SOCK_DGRAM", "ipv4 / udp", "::"), ("SOCK_DGRAM", "ipv6 / udp", KERNEL_IP6)])
def test_a_port_in_use_refuses_the_rule_and_names_the_owner(
        stack: Stack, kind: str, layer: str, address: str) -> None:
    with holder(stack, kind, address) as name:
        why = stack.testpmd.refused_flow(0, rule(f"{layer} dst is {PORT}"))
        of = KERNEL_IP6 if "ipv6" in layer else KERNEL_IP
        assert f"item udp: port_guard=1: UDP port {PORT} of {of} is in use by {name}" in why
        other = rule(f"{layer.replace('udp', 'tcp')} dst is {PORT}")
        stack.testpmd.create_flow(0, other)
        stack.testpmd.create_flow(0, rule(f"{layer} src is {PORT}"))
    stack.testpmd.create_flow(0, rule(f"{layer} dst is {PORT}"))


def test_a_rule_of_a_template_reserves_its_port(stack: Stack) -> None:
    create_table(stack, "1 group 0 priority 0 rules_number 4", "eth / ipv4 / udp dst mask 65535", "queue index 1",
                 "queue index 1")
    create = (f"flow queue 0 create 0 template_table 1 pattern_template 0 actions_template 0 postpone no pattern eth"
              f" / ipv4 / udp dst is {PORT} / end actions queue index 1 / end")
    with holder(stack, "SOCK_DGRAM", KERNEL_IP) as name:
        why = stack.testpmd.command(create)
        assert f"item udp: port_guard=1: UDP port {PORT} of {KERNEL_IP} is in use by {name}" in why
    made = stack.testpmd.expect(create, r"Flow rule #(\d+) creation enqueued")
    assert not bind(stack, "SOCK_DGRAM", KERNEL_IP)
    stack.testpmd.expect(f"flow queue 0 destroy 0 postpone no rule {made[1]}", "enqueued")
    assert bind(stack, "SOCK_DGRAM", KERNEL_IP)
    assert pull(stack) == 2
    destroy_table(stack, 1)


def test_a_socket_of_loopback_is_no_hindrance(stack: Stack) -> None:
    with holder(stack, "SOCK_DGRAM", "127.0.0.1"):
        stack.testpmd.create_flow(0, UDP)
        assert not bind(stack, "SOCK_DGRAM", KERNEL_IP)


def test_tcp_ports_are_bound_and_nothing_listens(stack: Stack) -> None:
    stack.testpmd.create_flow(0, rule(f"ipv6 / tcp dst is {PORT}"))
    assert bindable(stack, *(("SOCK_STREAM", address) for address in ("::", KERNEL_IP6, KERNEL_IP))) == [
        False, False, True]
    for version in ("tcp", "tcp6"):
        assert f":{PORT:04X}" not in stack.in_network("cat", f"/proc/net/{version}")


def test_only_the_address_that_the_rule_takes(stack: Stack) -> None:
    stack.testpmd.create_flow(0, rule(f"ipv4 dst is {KERNEL_IP} / udp dst is {PORT}"))
    assert bindable(stack, ("SOCK_DGRAM", KERNEL_IP), ("SOCK_DGRAM", "127.0.0.1")) == [False, True]
    # An address that the kernel does not own.
    stack.testpmd.create_flow(0, rule(f"ipv4 dst is 10.5.0.77 / udp dst is {PORT + 1}"))
    assert bindable(stack, ("SOCK_DGRAM", "0.0.0.0", PORT + 1)) == [True]


def test_the_kernel_never_hands_the_port_out(stack: Stack) -> None:
    """One of two ephemeral ports is taken."""
    testpmd = stack.testpmd
    before = stack.in_network("cat", "/proc/sys/net/ipv4/ip_local_port_range").split()
    try:
        stack.in_network("sysctl", "-qw", f"net.ipv4.ip_local_port_range={PORT - 1} {PORT}")
        for layer in ("udp", "tcp"):
            testpmd.create_flow(0, rule(f"ipv4 / {layer} dst is {PORT}"))
        script = ("import socket\n"
                  "for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):\n"
                  "  for address in ('10.5.0.1', '127.0.0.1'):\n"
                  "    for _ in range(10):\n"
                  "      s = socket.socket(socket.AF_INET, kind)\n"
                  "      s.bind((address, 0)); print(s.getsockname()[1]); s.close()\n"
                  "for _ in range(5):\n"
                  "  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  "  s.connect(('10.5.0.2', 9)); print(s.getsockname()[1]); s.close()\n"
                  "s = socket.socket(); s.setblocking(False)\n"
                  "s.connect_ex(('10.5.0.2', 9)); print(s.getsockname()[1])\n")
        given = stack.in_network(*PYTHON, script).split()
        assert set(given) == {str(PORT - 1)} and len(given) == 46
    finally:
        stack.in_network("sysctl", "-qw", f"net.ipv4.ip_local_port_range={' '.join(before)}")


def test_rules_share_a_reservation(stack: Stack) -> None:
    first = stack.testpmd.create_flow(0, UDP)
    other = stack.testpmd.create_flow(
        0, rule(f"ipv4 src is 10.5.0.2 dst is {KERNEL_IP} / udp dst is {PORT}"))
    stack.testpmd.destroy_flow(0, first)
    assert not bind(stack, "SOCK_DGRAM", KERNEL_IP)
    stack.testpmd.destroy_flow(0, other)
    assert bind(stack, "SOCK_DGRAM", KERNEL_IP)


def test_a_link_local_address_is_one_of_all(stack: Stack) -> None:
    stack.in_network("ip", "address", "replace", "fe80::5/64", "dev", NETDEV, "nodad")
    everywhere = stack.testpmd.create_flow(0, rule(f"ipv6 / udp dst is {PORT}"))
    stack.testpmd.create_flow(0, rule(f"ipv6 dst is fe80::5 / udp dst is {PORT}"))
    stack.testpmd.destroy_flow(0, everywhere)
    assert not bind(stack, "SOCK_DGRAM", "::")


def test_masks_and_ranges(stack: Stack) -> None:
    stack.testpmd.create_flow(0, rule("ipv4 / udp dst spec 8000 dst last 8003 dst mask 65535"))
    stack.testpmd.create_flow(0, rule("ipv4 / udp dst spec 9000 dst mask 65532"))
    for base in (8000, 9000):
        assert bindable(stack, *(("SOCK_DGRAM", KERNEL_IP, base + offset) for offset in (0, 3, 4))) == [
            False, False, True]
    why = stack.testpmd.refused_flow(0, rule("ipv4 / udp dst spec 0x4000 dst mask 0xff00"))
    assert "its mask leaves 256 ports, of which at most 64" in why
    stack.testpmd.create_flow(0, rule("ipv4 / udp"))  # names no port


def test_what_is_reserved_receives_nothing(stack: Stack) -> None:
    """Datagrams that reach the kernel by another path are not queued."""
    stack.testpmd.create_flow(0, UDP)
    stack.in_network(*PYTHON,
                     "import socket\ns = socket.socket(type=socket.SOCK_DGRAM)\n"
                     f"for _ in range(20): s.sendto(bytes(100), ('127.0.0.1', {PORT}))")
    lines = [line.split() for line in stack.in_network("cat", "/proc/net/udp").splitlines()]
    queues = [line[4] for line in lines if line[1].endswith(f":{PORT:04X}")]
    assert queues == ["00000000:00000000"]
