# SPDX-License-Identifier: BSD-3-Clause
"""The benchmarks of drained rounds: cycles per packet while the device is idle."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from . import bars
from .ratios import Figure, growth
from .runner import RAWQP
from .scene import Point, Scene
from .subjects import (CYCLIC_VARIANTS, FLOOR, HASHING_VARIANTS, MLX5, MPRQ_VARIANTS, VERBS,
                       VERBS_LOOP, Bench, mlx5_name)

SIZES = ("64", "imix", "1500")
MEASURES = ("rx", "tx", "forward")


def contenders(scene: Scene) -> Bench:
    return scene.contest(more={VERBS: "datapath=verbs"}, loops=(FLOOR, VERBS_LOOP))


def cycles(scene: Scene) -> None:
    """Cycles per packet in drained rounds by frame size: our rings, net_mlx5, and the floor."""
    points = {f"{point.measure}.{point.size}" + ("" if point.fast_free else ".no_fast_free"): point
              for fast_free in (True, False) for measure, size in product(MEASURES, SIZES)
              if (point := Point(measure, size, fast_free=fast_free)).fast_free or measure == "tx"}
    points = {name: point for name, point in points.items() if scene.wants(name)}
    scene.measure(contenders(scene), list(points.values()))
    for name, point in points.items():
        cycles_rows(scene, name, point)


def cycles_rows(scene: Scene, name: str, point: Point) -> None:
    setting = str(scene.setting)
    scene.main_row(name, point, bars.cycles(setting, point.measure, point.size))
    scene.row(f"{name}.vs_mlx5_default", RAWQP, mlx5_name("default"), point)
    scene.row(f"{name}.verbs", VERBS, RAWQP, point)
    scene.against_other_build(f"{name}.verbs", VERBS, point)
    if point.fast_free:
        scene.row(f"{name}.verbs.vs_loop", VERBS, VERBS_LOOP, point,
                  bars.verbs(setting) if point.size == "64" else None)
        scene.row(f"{name}.vs_floor", RAWQP, FLOOR, point, bars.floor(setting))


BURSTS = (4, 8, 16, 64)  # and 32, which `cycles` has


def bursts(scene: Scene) -> None:
    """Cycles per packet of 64 bytes by burst, otherwise as `cycles`."""
    points = {f"{measure}.{burst}": Point(measure, burst=burst)
              for measure, burst in product(MEASURES, BURSTS)
              if scene.wants(f"{measure}.{burst}")}
    scene.measure(contenders(scene), list(points.values()))
    for name, point in points.items():
        scene.main_row(name, point, bars.bursts(str(scene.setting), point.burst))
        scene.row(f"{name}.vs_floor", RAWQP, FLOOR, point)
        scene.row(f"{name}.verbs", VERBS, RAWQP, point)


def mprq(scene: Scene) -> None:
    """Cycles per packet with striding receive queues in both drivers."""
    points = {f"{measure}.{size}": Point(measure, size)
              for measure, size in product(("rx", "forward"), SIZES)
              if scene.wants(f"{measure}.{size}")}
    scene.measure(scene.contest("mprq_en=1", MPRQ_VARIANTS), list(points.values()))
    for name, point in points.items():
        scene.main_row(name, point, bars.mprq(str(scene.setting), point.size), variants=MPRQ_VARIANTS)


def compressed(scene: Scene) -> None:
    """Cycles per packet with compressed CQEs in our driver."""
    points = {f"{measure}.{size}": Point(measure, size)
              for measure, size in product(("rx", "forward"), ("64", "imix"))
              if scene.wants(f"{measure}.{size}")}
    scene.measure(scene.contest("cqe_comp=1"), list(points.values()))
    for name, point in points.items():
        scene.main_row(name, point, bars.compressed(str(scene.setting)))


def of_offloads(scene: Scene, offloads: str, sizes: tuple[str, ...], bar: str | None) -> None:
    """Rx by size with bursts of 32, and with small bursts, which have no target."""
    points = {f"rx.{size}": Point("rx", size) for size in sizes}
    points |= {f"rx.64.burst_{burst}": Point("rx", burst=burst) for burst in (4, 8)}
    points = {name: point for name, point in points.items() if scene.wants(name)}
    for small in (True, False):  # separately, as a run measures each size with each burst
        some = [point for point in points.values() if (point.burst < 32) == small]
        scene.measure(scene.contest("", HASHING_VARIANTS), some, ["--offloads", offloads])
    for name, point in points.items():
        scene.main_row(name, point, bar if point.burst == 32 else None, variants=HASHING_VARIANTS)


def offloads(scene: Scene) -> None:
    """Cycles per packet of Rx with checksums, RSS hash and VLAN stripping."""
    of_offloads(scene, "checksum,rss,vlan", SIZES, bars.offloads(str(scene.setting)))


def marks(scene: Scene) -> None:
    """The same, also with a mark set by a flow rule."""
    of_offloads(scene, "checksum,rss,vlan,mark", ("64",), None)


# Prefetch distances of the floor, other than its defaults (FloorAhead).
FLOOR_OTHERWISE = {"same": "", **{f"fetch_{ahead}": f",fetch={ahead}" for ahead in (0, 2, 4, 8, 16, 32, 64, 128)},
                   **{f"claim_{ahead}": f",claim={ahead}" for ahead in ("none", 0, 8, 32, 64)}}


def floor(scene: Scene) -> None:
    """The floor with other prefetch distances ÷ the floor, to show that none is better."""
    if scene.with_other_build:
        return
    bench = Bench()
    bench.add(FLOOR, FLOOR)
    for name, extra in FLOOR_OTHERWISE.items():
        bench.add(f"{FLOOR} {name}", FLOOR, extra=extra)
    points = {f"{measure}.{size}": Point(measure, size) for measure, size in product(MEASURES, SIZES)
              if scene.wants(f"{measure}.{size}")}
    scene.measure(bench, list(points.values()), memory_mb=2048)
    for (point_name, point), name in product(points.items(), FLOOR_OTHERWISE):
        scene.row(f"{point_name}.{name}", f"{FLOOR} {name}", FLOOR, point, bars.floor_otherwise(name))


QUEUE_COUNTS = (4, 16, 64)
QUEUE_DESCRIPTORS = 8192  # of all queues together, so that all touch the same amount of memory


def queues(scene: Scene) -> None:
    """Cycles per packet by number of queues; the total number of descriptors stays the same."""
    # A round is four times as long as usual, and its preparation takes most of the time.
    scene.effort = replace(scene.effort, rounds=max(16, scene.effort.rounds // 3))
    for count in QUEUE_COUNTS if scene.setting.distance != "cold" else QUEUE_COUNTS[-1:]:
        points = [Point(measure) for measure in MEASURES if scene.wants(f"{measure}.{count}")]
        if points:
            many_queues(scene, count, points)


def many_queues(scene: Scene, count: int, points: list[Point]) -> None:
    def extra(queues: int) -> str:
        return f",queues={queues},descriptors={QUEUE_DESCRIPTORS // queues}"

    bench = scene.contest("", CYCLIC_VARIANTS, loops=[FLOOR], extra=extra(count))
    if not scene.with_other_build:
        for driver in (RAWQP, MLX5, FLOOR):
            bench.add(f"{driver} 1", driver, extra=extra(1))
    scene.figures.clear()  # subjects have the same names for each number of queues
    # One visit of each of 64 queues: more would be frames for which net_mlx5 does not always have buffers in rings of
    # 128 descriptors. Each visit is timed, because the next one would find what it has fetched; and the mean of all
    # rounds counts, because drivers refill a queue in some of them only.
    scene.measure(bench, points, ["--round", "2048", "--mean"], first_of_rx=("--warm-up", "0"),
                  memory_mb=2048)
    for point in points:
        name = f"{point.measure}.{count}"
        scene.main_row(name, point, bars.queues(str(scene.setting), count), variants=CYCLIC_VARIANTS)
        if not scene.with_other_build:
            growth_rows(scene, name, count, point)


def growth_rows(scene: Scene, name: str, count: int, point: Point) -> None:
    """How the cost grows from one queue to `count`."""
    def grown(many: str, driver: str) -> list[Figure]:
        return growth(scene.of(many, point), scene.of(f"{driver} 1", point))

    ours = f"{RAWQP}, {count} ÷ 1 queue"
    scene.results.add(f"{scene.name}.{name}.growth_vs_floor", grown(RAWQP, RAWQP),
                      grown(FLOOR, FLOOR), (ours, f"{FLOOR}, {count} ÷ 1 queue"),
                      bars.growth(str(scene.setting), count))
    scene.results.add(f"{scene.name}.{name}.growth_vs_mlx5", grown(RAWQP, RAWQP),
                      grown(mlx5_name("default"), MLX5),
                      (ours, f"{MLX5}, default, {count} ÷ 1 queue"))


ALL = (cycles, bursts, mprq, compressed, offloads, marks, queues, floor)
