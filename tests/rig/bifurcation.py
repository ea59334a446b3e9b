# SPDX-License-Identifier: BSD-3-Clause
"""A port that testpmd and the Linux netdev share, on any front and with any driver."""

from contextlib import contextmanager
from typing import Any, Callable, ContextManager, Iterator, TypeVar

from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from .packets import BROADCAST, PEER_MAC, ether, udp4
from .ports import PortSpec
from .stack import OWN_NETWORK
from .stack_base import StackBase
from .wire import SocketWire

AnyStack = TypeVar("AnyStack", bound=StackBase)

KERNEL_IP, PEER_IP = "10.5.0.1", "10.5.0.2"
TAKEN_PORT, FREE_PORT = 7777, 8888
NETDEV = "kern0"


ARGUMENTS: dict[str, Any] = {
    "ports": [PortSpec(options={"netdev": f"tap:{NETDEV}"})],
    "prefix": OWN_NETWORK,
}


def know_the_peer(stack: StackBase) -> None:
    """The kernel forgets its neighbours when the netdev goes down."""
    stack.in_network(*f"ip neighbour replace {PEER_IP} lladdr {PEER_MAC} dev {NETDEV}".split())


def set_up(stack: AnyStack) -> AnyStack:
    """Gives the netdev an address and makes testpmd show packets."""
    stack.in_network(*f"ip address add {KERNEL_IP}/24 dev {NETDEV}".split())
    stack.in_network(*f"ip link set {NETDEV} up".split())
    know_the_peer(stack)
    stack.testpmd.silent("set verbose 1")
    stack.testpmd.start("rxonly")
    return stack


@contextmanager
def shared_port(open_stack: Callable[..., ContextManager[AnyStack]], *arguments: str,
                **options: Any) -> Iterator[AnyStack]:
    """A stack that is set up, with two queues in each direction. `arguments` are testpmd's, `options` go to
    open_stack."""
    with open_stack(**{**ARGUMENTS, **options},
                    testpmd_args=["--rxq=2", "--txq=2", *arguments]) as stack:
        yield set_up(stack)


def arp_request() -> Packet:
    return ether(BROADCAST) / ARP(op=1, hwsrc=PEER_MAC, psrc=PEER_IP, pdst=KERNEL_IP)


def echo_request(number: int) -> Packet:
    return (ether() / IP(src=PEER_IP, dst=KERNEL_IP) / ICMP(type=8, seq=number)
            / Raw(bytes(range(200))))


def datagram(port: int) -> Packet:
    return udp4(b"x" * 32, dport=port, source_ip=PEER_IP, destination_ip=KERNEL_IP)


def answer(wire: SocketWire, request: Packet) -> Packet:
    wire.send(request)
    return Ether(wire.receive())


def reaches_kernel(wire: SocketWire, port: int) -> bool:
    """The kernel rejects datagrams to a port without a socket, so its answer shows that it received one. The
    reply to an echo request sent afterwards shows that there will be no such answer."""
    wire.send(datagram(port))
    wire.send(echo_request(port))
    first = Ether(wire.receive())
    if first[ICMP].type != 3:
        return False
    assert Ether(wire.receive())[ICMP].type == 0
    return True
