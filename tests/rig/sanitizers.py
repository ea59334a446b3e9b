# SPDX-License-Identifier: BSD-3-Clause
"""Default options of the sanitizers' run-time libraries, unless set by the environment."""

from pathlib import Path

# The library mistakes the thread-local storage of loaded objects for an allocation of glibc 2.19 if it starts 16
# bytes after a page does: it then reads garbage as its bounds and crashes in the leak check.
ASAN_OPTIONS = "detect_leaks=1:strict_string_checks=1:intercept_tls_get_addr=0"
UBSAN_OPTIONS = "halt_on_error=1:print_stacktrace=1"


def leaks_ignored(folder: Path, *places: str) -> dict[str, str]:
    """An environment in which leaks of these functions or libraries, which are not ours, are not reported."""
    file = folder / "ignored-leaks"
    file.write_text("".join(f"leak:{place}\n" for place in places))
    return {"LSAN_OPTIONS": f"suppressions={file}:print_suppressions=0"}
