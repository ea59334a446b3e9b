# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures for tests of rte_flow rules: a port for each engine, whose rules mark the packets that they take.

Modules whose tests receive packets have `pytestmark = pytest.mark.usefixtures("receiving")`.
"""

from typing import Iterator

import pytest
from rig.flow_rules import ENGINES, flow_stack, receiving_rules
from rig.ports import lossless
from rig.stack import Stack

from functional.conftest import OpenStack


@pytest.fixture(scope="module")
def stack(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    with flow_stack(open_stack, datapath) as stack:
        yield stack


@pytest.fixture(scope="module")
def forwarders(datapath: str, open_stack: OpenStack) -> Iterator[Stack]:
    """Two ports that forward packets and support groups."""
    with open_stack(lossless(2, devargs=f"flow_engine={ENGINES[datapath]}", devx="on"),
                    datapath=datapath) as stack:
        stack.testpmd.start("io", lossless=True)
        yield stack
        stack.testpmd.stop()


@pytest.fixture
def engine(datapath: str) -> str:
    return ENGINES[datapath]


@pytest.fixture
def receiving(stack: Stack) -> Iterator[None]:
    """Starts receiving; flushes the rules at the end."""
    with receiving_rules(stack):
        yield
