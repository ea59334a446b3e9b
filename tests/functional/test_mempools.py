# SPDX-License-Identifier: BSD-3-Clause
"""Where applications keep packets: testpmd's --mp-alloc, from pages that it maps for the device itself
(anon) to heaps and pinned buffers outside DPDK's memory (xmem, xmemhuge, xbuf)."""

from typing import Iterator

import pytest
from rig.packets import numbered
from rig.process_fixtures import lent_to_test

from functional.conftest import StartStack

HUGEPAGES = 96  # of 2 MiB: testpmd needs 128 MiB in addition to the mbufs


@pytest.fixture
def hugepages(kind: str) -> Iterator[None]:
    if kind != "xmemhuge":
        yield
        return
    with lent_to_test(HUGEPAGES):
        yield


# Hugepages are lent by the host.
@pytest.mark.guest(when=lambda params: params["kind"] != "xmemhuge" and params["datapath"] == "mlx5")
# Both ring formats register memory in the same way; that of xbuf is outside of the mbufs.
@pytest.mark.daily(when=lambda params: params["datapath"] == "mlx5" or params["kind"] == "xbuf")
@pytest.mark.parametrize("kind", ["anon", "xmem", "xmemhuge", "xbuf"])
def test_packets_in_memory_of_this_kind(start_stack: StartStack, datapath: str, kind: str,
                                        hugepages: None) -> None:
    stack = start_stack(2, datapath=datapath, testpmd_args=[f"--mp-alloc={kind}"])
    assert "unable to DMA" not in stack.testpmd.startup
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(300), to=stack.wires[1])
