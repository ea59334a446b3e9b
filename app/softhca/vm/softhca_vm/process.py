# SPDX-License-Identifier: BSD-3-Clause
"""Child processes that never outlive us."""
from __future__ import annotations

import ctypes
import os
import signal
from typing import Callable

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> Callable[[], None]:
    """A preexec function: the child gets SIGTERM when the thread that started it ends."""
    parent = os.getpid()

    def prepare() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # died before prctl took effect
            os._exit(1)

    return prepare
