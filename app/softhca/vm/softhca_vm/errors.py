# SPDX-License-Identifier: BSD-3-Clause


class VmError(Exception):
    """What failed, on which object, with the likely cause and the remedy."""


class TimeLimit(VmError):
    """The guest's time is over."""
