# SPDX-License-Identifier: BSD-3-Clause
"""How the sanitizers' run-time libraries behave where the environment does not say."""

from pathlib import Path

# The library takes thread-local storage of loaded objects for what glibc 2.19 allocated when its address
# is 16 more than a page's: it reads garbage as the bounds and dies of it when it looks for leaks.
ASAN_OPTIONS = "detect_leaks=1:strict_string_checks=1:intercept_tls_get_addr=0"
UBSAN_OPTIONS = "halt_on_error=1:print_stacktrace=1"


def leaks_ignored(folder: Path, *places: str) -> dict[str, str]:
    """An environment in which nothing is said of what these functions or libraries leak: others' faults."""
    file = folder / "ignored-leaks"
    file.write_text("".join(f"leak:{place}\n" for place in places))
    return {"LSAN_OPTIONS": f"suppressions={file}:print_suppressions=0"}
