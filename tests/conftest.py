# SPDX-License-Identifier: BSD-3-Clause
"""Shared by tests/functional and tests/kernel."""

import os

import pytest

pytest_plugins = ["rig.fixtures", "rig.process_fixtures"]


def pytest_configure(config: pytest.Config) -> None:
    """Lets Python programs started by tests find the same packages."""
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, config.getini("pythonpath")))
