# SPDX-License-Identifier: BSD-3-Clause
"""What conftest.py files ask of collected tests."""

from typing import Any

import pytest


def parameters_of(item: pytest.Item) -> dict[str, Any]:
    """By name; none if the test has none."""
    return item.callspec.params if hasattr(item, "callspec") else {}
