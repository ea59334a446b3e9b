# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's own examples, unchanged and with their default arguments."""

import os
from pathlib import Path

import pytest
from rig.packets import opaque, port_mac, udp4
from rig.ports import lossless
from rig.processes import compiled
from rig.stack import DRIVER
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from functional.conftest import StartSoftHca

SOURCES = Path("/usr/share/dpdk/examples")  # package dpdk-doc
NO_HUGE = ["--no-huge", "-m", "512", "--no-shconf"]


@pytest.fixture(scope="module")
def ip_fragmentation(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compiled([SOURCES / "ip_fragmentation/main.c"],
                    tmp_path_factory.mktemp("examples") / "ip_fragmentation")


def test_ip_fragmentation(start_softhca: StartSoftHca, datapath: str,
                          ip_fragmentation: str) -> None:
    """Frames of up to 9.5 KB into mbufs of 2 KB: each port has 1024 descriptors, and one pool of
    8192 mbufs serves them and the fragments. Packets for 100.20.0.0/16 go to port 1."""
    cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
    ports = [argument for port in range(2) for argument in
             ("--vdev", f"net_rawqp{port},device=mlx5_{port},datapath={datapath}")]
    hca = start_softhca(lossless(2, mtu="9710"), [
        ip_fragmentation, f"--lcores=0@({cpus}),1@({cpus})", *NO_HUGE, "--no-telemetry", "--no-pci",
        "-d", DRIVER, *ports, "--", "-p", "3"])
    hca.program.wait_for(r"entering main loop on lcore 0", timeout=60)
    hca.program.wait_for(r"entering main loop on lcore 1")
    for size in (100, 1472, 1473, 4000, 9000, 9682):
        payload = opaque(14 + size, seed=size)[14:]
        for _ in range(25):  # in total more than a ring holds
            hca.wires[0].send(udp4(payload, destination_ip="100.20.0.1"))
            fragments = [Ether(hca.wires[1].receive())]
            while fragments[-1][IP].flags.MF:
                fragments.append(Ether(hca.wires[1].receive()))
            data = b"".join(bytes(fragment[IP].payload)[:fragment[IP].len - 20]
                            for fragment in fragments)
            assert data[8:] == payload
            assert {fragment.src for fragment in fragments} == {port_mac(1)}
            assert all(IP(bytes(fragment[IP])).len <= 1500 for fragment in fragments)
    assert hca.program.running(), hca.program.output
    assert not hca.sanitizer_reports(), hca.sanitizer_reports()
