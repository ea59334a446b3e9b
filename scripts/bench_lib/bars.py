# SPDX-License-Identifier: BSD-3-Clause
"""The bars that the project has set itself, by distance of the lines that the device has touched.
None: the figure is reported only."""

from __future__ import annotations

# ÷ net_mlx5's best: 64 bytes, then IMIX and 1500 bytes.
_CYCLES = {"far": (0.75, 0.75), "near": (0.80, 0.90), "cold": (0.80, None)}
_FLOOR = {"far": {"rx": 1.25, "tx": 1.25, "forward": 1.25},
          "near": {"rx": 1.3, "tx": 1.3, "forward": 1.4}}
_BURSTS = {4: 0.80, 8: 0.85}


def at_most(limit: float | None) -> str | None:
    return None if limit is None else f"<= {limit:.2f}"


def cycles(distance: str, measure: str, size: str) -> str | None:
    small, others = _CYCLES[distance]
    if distance == "near" and measure == "forward":
        others = None
    return at_most(small if size == "64" else others)


def floor(distance: str, measure: str) -> str | None:
    """64 bytes, ÷ the hand-written loop over mapped rings."""
    return at_most(_FLOOR.get(distance, {}).get(measure))


def verbs(distance: str) -> str | None:
    """64 bytes, verbs rings ÷ the hand-written loop over the verbs provider."""
    return None if distance == "cold" else "<= 1.50"


def bursts(distance: str, burst: int) -> str | None:
    return None if distance == "cold" else at_most(_BURSTS.get(burst))


def mprq(distance: str, size: str) -> str | None:
    if distance == "cold" or size == "1500" or (distance == "near" and size == "64"):
        return None
    return "<= 0.80"


def growth(distance: str, queues: int) -> str | None:
    """Cost with many queues ÷ with one, ÷ the same of the floor."""
    return "<= 1.15" if queues == 64 and distance != "cold" else None


def queues(distance: str, queues: int) -> str | None:
    return "<= 0.60" if queues == 64 and distance == "far" else None


def latency(size: str, burst: int, percentile: str) -> str | None:
    return "<= 0.90" if (size, burst, percentile) == ("64", 1, "median") else None


def other_build(distance: str) -> str | None:
    """This build's driver ÷ another's."""
    return "<= 1.05" if distance == "near" else None
