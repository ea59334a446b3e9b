# SPDX-License-Identifier: BSD-3-Clause
"""The subjects compared on softhca: each is a driver on a pair of cabled ports."""

from __future__ import annotations

from dataclasses import dataclass, field

from .runner import OTHER, RAWQP, plugin_file, softhca_port

VERBS = f"{RAWQP} verbs"
MLX5 = "net_mlx5"

# Hand-written loops of rawqp-perf: over mapped mlx5 rings, and over the verbs provider.
FLOOR = "floor"
VERBS_LOOP = "verbs loop"
LOOPS = {FLOOR: "floor", VERBS_LOOP: "verbs"}

# The variants of net_mlx5 of which the best one counts: its default (CQE compression, vector Rx, eMPW), without
# compression, striding receive queues, packets inlined.
MLX5_VARIANTS = {
    "default": "",
    "no CQE compression": "rxq_cqe_comp_en=0",
    "striding RQ": "mprq_en=1,rxqs_min_mprq=1",
    "inline": "txqs_min_inline=0,txq_inline_mpw=128",
}
# For rounds spread over many queues: striding ones are never the cheapest there, by far.
CYCLIC_VARIANTS = {name: each for name, each in MLX5_VARIANTS.items() if name != "striding RQ"}

# Where each mbuf must have an RSS hash: striding queues' compressed CQEs contain none.
HASHING_VARIANTS = {**MLX5_VARIANTS,
                    "striding RQ": f"{MLX5_VARIANTS['striding RQ']},rxq_cqe_comp_en=0"}

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


def of_other_build(subject: str) -> str:
    """The same subject with the other build's plugin."""
    return subject.replace(RAWQP, OTHER)


@dataclass
class Layout:
    """The ports of one run, and rawqp-perf's subjects on them."""

    wires: list[str] = field(default_factory=list)
    eal: list[str] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)

    def add(self, name: str, driver: str, devargs: str, extra: str) -> None:
        """Two ends of a cable, with loops' peers on our driver."""
        ends = [self._port(driver, devargs) for _ in range(2)]
        if driver in LOOPS:
            device = softhca_port(len(self.wires) - 2)[0]
            ends = [f"{LOOPS[driver]}:{device}", self._vdev(RAWQP, len(self.wires) - 1)]
        self.subjects += ["--subject", f"{name}={ends[0]},peer={ends[1]}{extra}"]

    def add_looped(self, name: str, driver: str, devargs: str) -> None:
        """One port, whose wire loops back."""
        end = self._port(driver, devargs, "loop")
        if driver in LOOPS:
            end = f"{LOOPS[driver]}:{softhca_port(len(self.wires) - 1)[0]}"
        self.subjects += ["--subject", f"{name}={end}"]

    def _port(self, driver: str, devargs: str, wire: str = "") -> str:
        index = len(self.wires)
        self.wires.append(wire or f"pair:p{index // 2}")
        if driver in LOOPS:
            return ""
        if driver in (RAWQP, OTHER):
            return self._vdev(driver, index, devargs)
        pci = softhca_port(index)[1]
        self.eal += ["-a", ",".join(filter(None, [pci, devargs]))]
        return pci

    def _vdev(self, driver: str, index: int, devargs: str = "") -> str:
        device = softhca_port(index)[0]
        name = f"{driver}{index}"
        self.eal += ["--vdev", ",".join(filter(None, [name, f"device={device}", devargs]))]
        return name


class Bench:
    """Subjects that are measured alternately."""

    def __init__(self) -> None:
        self._subjects: list[tuple[str, str, str, str]] = []

    def add(self, name: str, driver: str, devargs: str = "", extra: str = "") -> None:
        """A subject on a new pair of ports. `extra`: further keys of the subject, ",queues=4"."""
        self._subjects.append((name, driver, devargs, extra))

    def add_mlx5(self, variants: dict[str, str], extra: str = "") -> None:
        """net_mlx5 with each of these devargs."""
        for name, devargs in variants.items():
            self.add(mlx5_name(name), MLX5, devargs, extra)

    def layout(self, reverse: bool = False, looped: bool = False) -> Layout:
        """`reverse`: the last subject comes first. `looped`: each has one port, whose wire loops back."""
        drivers = {driver for _, driver, _, _ in self._subjects}
        plugins = [RAWQP, *({OTHER} & drivers)]
        layout = Layout(eal=[text for each in plugins for text in ("-d", plugin_file(each))])
        for subject in reversed(self._subjects) if reverse else self._subjects:
            if looped:
                layout.add_looped(*subject[:3])
            else:
                layout.add(*subject)
        if "-a" not in layout.eal:
            layout.eal.append("--no-pci")
        return layout
