# SPDX-License-Identifier: BSD-3-Clause
"""The interface of a stack of testpmd and ports on either front."""

import json
import time
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

from scapy.packet import Packet

from .launched import DRIVER
from .packets import MARKER_TYPE, marker_by_length
from .ports import PortSpec, device_name
from .testpmd import ReceivedPacket, Testpmd
from .wire import SocketWire


class StackBase:
    """testpmd on ports with a wire each."""

    testpmd: Testpmd
    ports: list[PortSpec]
    wires: list[SocketWire]
    datapath: str
    patience: float = 1

    def device_name(self, index: int) -> str:
        """The RDMA device of a port."""
        return device_name(index)

    def counters(self, port: int = 0) -> dict[str, int]:
        """The device's port counters."""
        raise NotImplementedError

    def set_link(self, port: int, up: bool) -> None:
        raise NotImplementedError

    def break_queue(self, port: int, fault: str) -> None:
        """Injects error_cqe:…, fatal:… or overrun:… of `softhca fault`: failures of the device, not of the
        kernel."""
        raise NotImplementedError

    def dump(self, port: int = 0) -> dict[str, Any]:
        """The output of `softhca dump --json` for the port's device."""
        raise NotImplementedError

    def device_process(self, port: int) -> int:
        """The process whose threads run the port's device."""
        raise NotImplementedError

    def end_faults(self) -> None:
        """Makes commands of the kernel's ABI succeed again."""

    def fail_command(self, port: int, error: str, number: int) -> None:
        """Makes testpmd's command to a port's device fail after `number` others."""
        raise NotImplementedError

    def fail_no_more(self, port: int) -> bool:
        """Cancels the failure; returns whether there was no such command."""
        raise NotImplementedError

    def open_files(self) -> list[str]:
        """What testpmd's file descriptors refer to."""
        raise NotImplementedError

    def stat(self) -> dict[str, dict[str, Any]]:
        """The output of `softhca stat --json`, by device name."""
        raise NotImplementedError

    def real_time_ns(self) -> int:
        """The time of day as seen by the program."""
        return time.time_ns()

    def in_network(self, *command: str) -> str:
        """Runs a command where the netdevs of the ports are; returns its output."""
        raise NotImplementedError

    def kernel_packets(self, netdev: str) -> tuple[int, int]:
        """Packets that the kernel's side of a port has received and sent."""
        shown = self.in_network("ip", "-json", "-statistics", "link", "show", "dev", netdev)
        counters = json.loads(shown)[0]["stats64"]
        return counters["rx"]["packets"], counters["tx"]["packets"]

    def close(self) -> None:
        """Ends everything at once; may be called again."""
        raise NotImplementedError

    def pci_address(self, index: int) -> str:
        """Where EAL finds the PCI function of a port."""
        raise NotImplementedError

    def testpmd_command(
        self,
        lcores: str,
        memory_mb: int,
        pmd: str,
        pmd_devargs: str,
        used: range,
        eal_args: Sequence[str],
        testpmd_args: Sequence[str],
    ) -> list[str]:
        """testpmd on the ports `used`. `pmd` is "rawqp" (ours) or "mlx5" (DPDK's own net_mlx5)."""
        device_args = ["--no-pci", "-d", DRIVER] if pmd == "rawqp" else []
        for index in used:
            if pmd == "rawqp":
                device_args += ["--vdev", self.vdev(index)]
            else:
                device_args += ["-a", self.pci_devargs(index, pmd_devargs)]
        eal = ["--lcores", lcores, "--no-huge", "-m", str(memory_mb)]
        if "--telemetry" not in eal_args:  # EAL accepts the option, but it does not cancel --no-telemetry
            eal += ["--no-telemetry"]
        eal += ["--no-shconf", *device_args, *eal_args]
        # If locked, all of this memory would be populated at once, which takes seconds in the guest.
        own = ["-i", "--no-mlockall", "--total-num-mbufs=8192"]
        return ["dpdk-testpmd", *eal, "--", *own, *testpmd_args]

    def pci_devargs(self, index: int, devargs: str) -> str:
        """The -a (or `port attach`) text of one port for DPDK's own driver."""
        return ",".join(filter(None, [self.pci_address(index), devargs]))

    def vdev(self, index: int, port: PortSpec | None = None) -> str:
        """The --vdev (or `port attach`) text of one port."""
        devargs = (port or self.ports[index]).devargs
        device = self.device_name(index)
        parts = [f"net_rawqp{index}", f"device={device}", f"datapath={self.datapath}"]
        return ",".join([*parts, *filter(None, [devargs])])

    @contextmanager
    def plugged(self, port: int, vdev: str = "") -> Iterator[None]:
        """Stops forwarding and hot plugs a device (as testpmd's port `port`); unplugs it at the end, after which
        ports 0 and 1 forward as before."""
        self.testpmd.stop()
        self.testpmd.expect(f"port attach {vdev or self.vdev(port)}", f"Port {port} is attached")
        yield
        self.testpmd.stop()
        self.testpmd.stop_port(port)
        self.testpmd.expect(f"port detach {port}", "Device is detached")
        self.testpmd.command("set portlist 0,1")
        self.testpmd.start("io", lossless=True)

    def refused_plug(self, vdev: str, timeout: float = 15) -> str:
        """Hot plugs a device that must be refused; returns the driver's one line with the reason."""
        answer = self.testpmd.command(f"port attach {vdev}", timeout)
        assert "Failed to attach" in answer, answer
        errors = [line for line in answer.splitlines() if line.startswith("net_rawqp")]
        assert len(errors) == 1, answer
        return errors[0]

    def wait_counter(self, port: int, name: str, at_least: int, timeout: float = 10) -> int:
        """Waits until a device counter has reached a value. Devices have no event for that."""
        deadline = time.monotonic() + timeout * self.patience
        while (value := self.counters(port)[name]) < at_least:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.device_name(port)} {name} is {value}, not {at_least}")
        return value

    def show(self, frames: Sequence[bytes | Packet], port: int = 0) -> list[ReceivedPacket]:
        """The packets that testpmd shows for these frames: it must run rxonly with `set verbose 1`.

        Packets come in the order of the frames; those that did not arrive are absent. The port must
        accept broadcast.
        """
        arrived: list[ReceivedPacket] = []
        for frame in frames:  # one by one: there is no order between queues
            position = self.testpmd.mark_output()
            self.wires[port].send(frame)
            # The first marker may overtake the frame on another queue. When the second one, sent after the
            # first was seen, has arrived, every queue has been polled in between.
            for number in (1, 2):
                self._send_marker(port, position, marker_by_length(number))
            shown = self.testpmd.received_so_far(position)
            arrived += [packet for packet in shown if packet.ether_type != MARKER_TYPE]
        return arrived

    def _send_marker(self, port: int, position: int, frame: bytes) -> None:
        self.wires[port].send(frame)

        def seen(_text: str) -> bool:
            return any(packet.ether_type == MARKER_TYPE and packet.length == len(frame)
                       for packet in self.testpmd.received_so_far(position))

        self.testpmd.program.wait_until(seen, f"a marker of {len(frame)} bytes")
