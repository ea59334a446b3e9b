# SPDX-License-Identifier: BSD-3-Clause
"""Shared by tests/functional and tests/kernel."""

import os

import pytest
from rig.marks import parameters_of

pytest_plugins = ["rig.fixtures", "rig.process_fixtures"]


@pytest.hookimpl(tryfirst=True)  # before others look at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Turns daily(when=FUNCTION) into `thorough` where FUNCTION says no."""
    for item in items:
        if not all(mark.kwargs["when"](parameters_of(item)) for mark in item.iter_markers("daily")):
            item.add_marker(pytest.mark.thorough)


def pytest_configure(config: pytest.Config) -> None:
    """Lets Python programs started by tests find the same packages."""
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, config.getini("pythonpath")))
