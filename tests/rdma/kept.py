# SPDX-License-Identifier: BSD-3-Clause
"""Results of runs, kept in the build folder for the pages generated from them."""

import json
from typing import Any, Mapping

from rig.stack import Build


def keep(build: Build, name: str, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds results, by front and case, to earlier ones."""
    file = build.folder / "test-results" / name
    file.parent.mkdir(exist_ok=True)
    known: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    for front, cases in found.items():
        known.setdefault(front, {}).update(cases)
    file.write_text(json.dumps(known, indent=1))
