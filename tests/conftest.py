# SPDX-License-Identifier: BSD-3-Clause
"""What tests/functional and tests/kernel share."""

import os

import pytest

pytest_plugins = ["rig.fixtures", "rig.process_fixtures"]


def pytest_configure(config: pytest.Config) -> None:
    """Python programs that tests start find the same packages."""
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, config.getini("pythonpath")))
