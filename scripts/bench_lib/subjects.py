# SPDX-License-Identifier: BSD-3-Clause
"""What is compared on softhca: each subject is a driver on a pair of cabled ports."""

from __future__ import annotations

from dataclasses import dataclass

from .runner import softhca_port

DRIVER = "librte_net_rawqp.so"

RAWQP = "net_rawqp"
VERBS = "net_rawqp verbs"
MLX5 = "net_mlx5"

# Hand-written loops of rawqp-perf: over mapped mlx5 rings, and over the verbs provider.
FLOOR = "floor"
VERBS_LOOP = "verbs loop"
LOOPS = {FLOOR: "floor", VERBS_LOOP: "verbs"}

# What to look for net_mlx5's best among: its default (CQE compression, vector Rx, eMPW), without
# compression, striding receive queues, packets inlined.
MLX5_VARIANTS = {
    "default": "",
    "no CQE compression": "rxq_cqe_comp_en=0",
    "striding RQ": "mprq_en=1,rxqs_min_mprq=1",
    "inline": "txqs_min_inline=0,txq_inline_mpw=128",
}
# Where rounds are spread over many queues: there its striding queues are never the cheapest, and some
# rounds they do not finish at all (16 queues, 512 descriptors each).
CYCLIC_VARIANTS = {name: each for name, each in MLX5_VARIANTS.items() if name != "striding RQ"}

# The same with striding receive queues (MPRQ) in each: with and without compression, with all packets
# copied, and with packets inlined.
MPRQ = "mprq_en=1,rxqs_min_mprq=1"
MPRQ_VARIANTS = {
    "striding RQ": MPRQ,
    "striding RQ without CQE compression": f"{MPRQ},rxq_cqe_comp_en=0",
    "striding RQ with all packets copied": f"{MPRQ},mprq_max_memcpy_len=2048",
    "striding RQ and inline": f"{MPRQ},txqs_min_inline=0,txq_inline_mpw=128",
}


def mlx5_name(variant: str) -> str:
    return f"{MLX5} {variant}"


@dataclass
class Bench:
    """The ports of one run, and rawqp-perf's subjects on them."""

    wires: list[str]
    eal: list[str]
    subjects: list[str]

    def __init__(self) -> None:
        self.wires, self.eal, self.subjects = [], ["-d", DRIVER], []

    def add(self, name: str, driver: str, devargs: str = "", extra: str = "") -> None:
        """A subject on a new pair of ports. `extra`: more of the subject, ",queues=4"."""
        ends = [self._port(driver, devargs) for _ in range(2)]
        if driver in LOOPS:
            device = softhca_port(len(self.wires) - 2)[0]
            ends = [f"{LOOPS[driver]}:{device}", self._vdev(len(self.wires) - 1)]
        self.subjects += ["--subject", f"{name}={ends[0]},peer={ends[1]}{extra}"]

    def add_mlx5(self, variants: dict[str, str], extra: str = "") -> None:
        """net_mlx5 with each of these devargs."""
        for name, devargs in variants.items():
            self.add(mlx5_name(name), MLX5, devargs, extra)

    def _port(self, driver: str, devargs: str) -> str:
        index = len(self.wires)
        self.wires.append(f"pair:p{index // 2}")
        if driver in LOOPS:
            return ""
        if driver == RAWQP:
            return self._vdev(index, devargs)
        pci = softhca_port(index)[1]
        self.eal += ["-a", ",".join(filter(None, [pci, devargs]))]
        return pci

    def _vdev(self, index: int, devargs: str = "") -> str:
        device = softhca_port(index)[0]
        name = f"net_rawqp{index}"
        self.eal += ["--vdev", ",".join(filter(None, [name, f"device={device}", devargs]))]
        return name

    def finish(self) -> "Bench":
        if "-a" not in self.eal:
            self.eal.append("--no-pci")
        return self
