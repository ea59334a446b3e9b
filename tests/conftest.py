# SPDX-License-Identifier: BSD-3-Clause
"""Shared by tests/functional and tests/kernel."""

import os

import pytest

pytest_plugins = ["rig.fixtures", "rig.process_fixtures"]


@pytest.hookimpl(tryfirst=True)  # before others look at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Turns daily(when=FUNCTION) into `thorough` where FUNCTION says no."""
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if not all(mark.kwargs["when"](parameters) for mark in item.iter_markers("daily")):
            item.add_marker(pytest.mark.thorough)


def pytest_configure(config: pytest.Config) -> None:
    """Lets Python programs started by tests find the same packages."""
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, config.getini("pythonpath")))
