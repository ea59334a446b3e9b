# SPDX-License-Identifier: BSD-3-Clause
"""What runs have found, kept in the build folder for the pages that are made of it."""

import json
from typing import Any, Mapping

from rig.stack import Build


def keep(build: Build, name: str, found: Mapping[str, Mapping[str, Any]]) -> None:
    """By front, and within it by case, beside what was found before."""
    file = build.folder / "test-results" / name
    file.parent.mkdir(exist_ok=True)
    known: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    for front, cases in found.items():
        known.setdefault(front, {}).update(cases)
    file.write_text(json.dumps(known, indent=1))
