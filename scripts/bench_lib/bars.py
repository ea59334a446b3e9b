# SPDX-License-Identifier: BSD-3-Clause
"""The targets that the project has set itself, by setting ("far", "near", "far-4k" …, see effort.py).
None: the figure is only reported."""

from __future__ import annotations

# Ratio to net_mlx5's best variant.
_CYCLES = {"far": 0.75, "cold": 0.80, "far-4k": 0.85}
_CYCLES_NEAR = {"64": 0.80, "imix": 0.90, "1500": 0.90}
_BURSTS = {4: 0.80, 8: 0.85}


def at_most(limit: float | None) -> str | None:
    return None if limit is None else f"<= {limit:.2f}"


def cycles(setting: str, measure: str, size: str) -> str | None:
    if setting == "near":
        return at_most(_CYCLES_NEAR[size] if size == "64" or measure != "forward" else None)
    return at_most(_CYCLES.get(setting))


def floor(setting: str) -> str | None:
    """Ratio to the hand-written loop over mapped rings, at the same distance."""
    return "<= 1.25" if setting in ("far", "near", "cold") else None


def floor_otherwise(name: str) -> str | None:
    """The floor with another prefetch distance ÷ the floor; "same" shows the noise."""
    return None if name == "same" else ">= 0.95"


def verbs(setting: str) -> str | None:
    """Verbs rings ÷ the hand-written loop over the verbs provider."""
    return "<= 1.50" if setting in ("far", "near") else None


def bursts(setting: str, burst: int) -> str | None:
    return at_most(_BURSTS.get(burst)) if setting in ("far", "near") else None


def mprq(setting: str, size: str) -> str | None:
    wanted = {"far": ("64", "imix"), "near": ("imix",)}
    return "<= 0.80" if size in wanted.get(setting, ()) else None


def compressed(setting: str) -> str | None:
    return "<= 0.80" if setting == "far" else None


def offloads(setting: str) -> str | None:
    return "<= 0.75" if setting == "far" else None


def growth(setting: str, queues: int) -> str | None:
    """Cost with many queues ÷ with one, divided by the same ratio of the floor."""
    return "<= 1.15" if queues == 64 and setting in ("far", "near") else None


def queues(setting: str, queues: int) -> str | None:
    return "<= 0.60" if queues == 64 and setting == "far" else None


def secondary() -> str:
    """A secondary process ÷ its primary."""
    return "<= 1.05"


def latency(size: str, burst: int, percentile: str) -> str | None:
    return "<= 0.90" if (size, burst, percentile) == ("64", 1, "median") else None


def other_build(setting: str) -> str | None:
    """This build's driver ÷ another's."""
    return "<= 1.05" if setting == "near" else None


def flows() -> str:
    """Rules inserted or deleted per second ÷ net_mlx5's, in either of its ways."""
    return ">= 1.00"


def lookups() -> str:
    """Lookups per packet in a device with many rules ÷ with few of the same mask. A packet that finds no buffer is
    looked up again."""
    return "<= 1.05"


def async_flows(row: str) -> str | None:
    """Rules per second from a template table ÷ one by one, by the same engine."""
    return ">= 2.00" if row == "insertion" else None


def scale() -> str:
    """A packet's time with many objects ÷ with one: their number costs nothing, but caches hold fewer of many."""
    return "<= 1.50"


START_MS = 50.0  # additional start-up time allowed under softhca


def start() -> str:
    return "<= 1.00"
