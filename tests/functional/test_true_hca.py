# SPDX-License-Identifier: BSD-3-Clause
"""softhca is a true HCA: the distribution's programs run on it unmodified."""

import re
import uuid

import pytest
from rig.packets import numbered, opaque, port_mac
from rig.program import Program
from rig.stack import PortSpec, SoftHca

from functional.conftest import StartSoftHca, StartStack


def test_ibv_devinfo_lists_the_devices(start_softhca: StartSoftHca) -> None:
    hca = start_softhca([PortSpec(wire="loop"), PortSpec(wire="loop", options={"mtu": "9000"})],
                        ["ibv_devinfo", "-v"])
    assert hca.program.wait() == 0
    text = hca.program.output
    assert re.findall(r"hca_id:\s*(\S+)", text) == ["mlx5_0", "mlx5_1"]
    assert text.count("link_layer:\t\tEthernet") == text.count("PORT_ACTIVE (4)") == 2
    assert "raw packet" in text.lower() or "RAW_" in text


@pytest.fixture
def two_ends(start_softhca: StartSoftHca) -> "TwoEnds":
    return TwoEnds(start_softhca)


class TwoEnds:
    """perftest's server and client, each on a softhca of its own, with a cable between them."""

    def __init__(self, start_softhca: StartSoftHca) -> None:
        self.start_softhca = start_softhca

    def run(self, tool: str, *options: str) -> tuple[SoftHca, SoftHca]:
        """Starts the client when the server is ready: raw Ethernet has no handshake."""
        cable = f"link:t{uuid.uuid4().hex[:12]}"
        ends = []
        for own, other, role in ((1, 0, "--server"), (0, 1, "--client")):
            # perftest checks the port's state once, when the first end has no peer yet.
            port = PortSpec(wire=cable, options={"mac": port_mac(own), "pause": "on",
                                                 "carrier": "always"})
            command = [tool, "-d", "mlx5_0", role, "-B", port_mac(own), "-E", port_mac(other)]
            ends.append(self.start_softhca([port], [*command, *options]))
            ends[-1].program.wait_for(r"#bytes")
        return ends[0], ends[1]


def table_row(program: Program) -> list[float]:
    """The numbers of perftest's result line."""
    rows = re.findall(r"(?m)^\s*(\d+(?:\s+[\d.]+)+)\s*$", program.output)
    assert rows, program.output
    return [float(number) for number in rows[-1].split()]


ITERATIONS = 5000


@pytest.mark.unsanitized  # perftest leaks
@pytest.mark.parametrize("size", [64, 1500])
def test_raw_ethernet_bw_loses_nothing(two_ends: TwoEnds, size: int) -> None:
    """The server ends only when it has received every one of the messages."""
    server, client = two_ends.run("raw_ethernet_bw", "-s", str(size), "-n", str(ITERATIONS))
    assert client.program.wait(60) == 0
    assert server.program.wait(60) == 0
    for end in (server, client):
        row = table_row(end.program)
        assert row[0] == size and row[1] == ITERATIONS


@pytest.mark.unsanitized  # perftest leaks
def test_raw_ethernet_lat(two_ends: TwoEnds) -> None:
    server, client = two_ends.run("raw_ethernet_lat", "-s", "64", "-n", "300")
    assert client.program.wait(60) == 0
    assert server.program.wait(60) == 0
    assert table_row(client.program)[1] == 300


@pytest.mark.parametrize("devargs", ["dv_flow_en=0", ""], ids=["verbs_flows", "default"])
def test_stock_net_mlx5_forwards(start_stack: StartStack, devargs: str) -> None:
    stack = start_stack(2, pmd="mlx5", pmd_devargs=devargs, memory_mb=512)
    assert stack.testpmd.info(0)["Driver name"] == "mlx5_pci"
    stack.testpmd.start("io", lossless=True)
    sizes = range(60, 1519, 7)
    stack.wires[0].transfer([opaque(size, seed=size) for size in sizes], to=stack.wires[1])
    stack.wires[1].transfer(numbered(5000), to=stack.wires[0], timeout=30)
