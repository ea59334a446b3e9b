# SPDX-License-Identifier: BSD-3-Clause
"""The rows of scripts/bench: how they are computed, their targets, and the tables that are filled from them."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from bench_lib import tcp
from bench_lib.cases import ROUNDS
from bench_lib.charts import chart
from bench_lib.effort import Effort
from bench_lib.ratios import Figure, TooFewFigures, growth, ratio
from bench_lib.results import Results
from bench_lib.runner import OTHER, RAWQP, BenchError, Machine, Runner
from bench_lib.scene import in_each_setting
from bench_lib.tables import DOCUMENTS, TABLES, fill, fill_documents


def figures_of(subject: str, values: list[float]) -> list[Figure]:
    return [Figure(subject, "rx", value, turn, "cycles/packet") for turn, value in enumerate(values)]


def test_ratios_are_taken_turn_by_turn() -> None:
    """The machine is half as fast in the second turn; that must not affect the ratio."""
    row = ratio("r", figures_of("a", [10, 20, 9]), figures_of("b", [20, 40, 20]), ("a", "b"), "<= 0.5")
    assert (row.ratio_median, row.ratio_min, row.ratio_max, row.pairs) == (0.5, 0.45, 0.5, 3)
    assert row.ok is True
    assert ratio("r", figures_of("a", [4]), figures_of("b", [1]), ("a", "b"), ">= 5").ok is False
    assert ratio("r", figures_of("a", [4]), figures_of("b", [1]), ("a", "b"), None).ok is None
    assert ratio("r", figures_of("a", [4, 3]), figures_of("b", [0, 1]), ("a", "b"), None).pairs == 1
    with pytest.raises(TooFewFigures):
        ratio("r", figures_of("a", [4]), [], ("a", "b"), None)
    assert chart("title & more", [row]).count("<rect") == 2


def test_growth_is_taken_turn_by_turn() -> None:
    """Twice the cost in each turn, on a machine that is half as fast in the second."""
    many, one = figures_of("a", [20, 40, 7]), figures_of("a 1", [10, 20])
    assert [(each.turn, each.value) for each in growth(many, one)] == [(0, 2), (1, 2)]


def test_rows_are_written_as_they_come(tmp_path: Path) -> None:
    """A row that cannot be computed, or a program that fails, does not affect the others."""
    out = tmp_path / "new" / "rows.json"
    results = Results(out)
    one, two = figures_of("a", [1, 2]), figures_of("b", [2, 4])
    results.add("cycles.rx", one, two, ("a", "b"), "<= 0.4")
    results.add("cycles.tx", one, [], ("a", "b"))
    assert [row["name"] for row in json.loads(out.read_text())] == ["cycles.rx"]

    def fails(_number: int) -> list[Figure]:
        error = BenchError("status 1: some program")
        error.figures = one
        raise error

    assert results.collect("what", 2, fails) == [*one, *one]
    results.add("queues.rx", one, two, ("a", "b"))
    assert [row["ok"] for row in json.loads(out.read_text())] == [False, None]
    assert len(results.failures) == 3
    assert {file.name for file in out.parent.iterdir()} == {
        "rows.json", "rows-cycles.svg", "rows-queues.svg"}
    assert "cycles" not in (out.parent / "rows-queues.svg").read_text()


def test_tables_are_filled_from_rows(tmp_path: Path) -> None:
    """Far and near side by side, missed targets in bold, and no table without rows."""
    out = tmp_path / "rows.json"
    results = Results(out)
    for name, value in (("cycles.rx.64.vs_mlx5", 8), ("cycles.rx.imix.vs_mlx5", 5),
                        ("cycles@near.rx.64.vs_mlx5", 6)):
        results.add(name, figures_of("a", [value]), figures_of("b", [10]), ("a", "b"), "<= 0.75")
    document = tmp_path / "document.md"
    blocks = {name: f"<!-- bench {name} -->\nold\n<!-- end of bench -->" for name in TABLES}
    document.write_text("\n\n".join(["before", *blocks.values(), "after"]))
    fill_documents(out, [document])
    text = document.read_text()
    assert text.startswith("before") and text.endswith("after")
    assert "| Rx | **0.80** / 0.50 / – | 0.60 / – / – |\n| Tx, fast free |  |  |" in text
    assert "| cycles.rx.64.vs_mlx5 | 0.80 [0.80 … 0.80] | ≤ 0.75 |" in text
    assert "| 32 | **0.80** | 0.60 |" in text
    assert blocks["queues"] in text and blocks["headline"] not in text
    chart_of_both = (tmp_path / "rows-cycles.svg").read_text()
    assert chart_of_both.index("cycles@near.rx.64") < chart_of_both.index("cycles.rx.imix")


def test_documents_name_tables_that_there_are() -> None:
    for document in DOCUMENTS:
        text = document.read_text()
        assert text.count("<!-- bench ") == text.count("<!-- end of bench -->") > 0
        fill(text, {})


TWO_CORES = Machine(Path("build"), cpus=[0, 1], cores={0: "0", 1: "1"})


def test_rows_of_each_distance() -> None:
    """`cycles` rows are at far; the others name their setting."""
    asked: list[tuple[str, str]] = []
    case = in_each_setting(
        "cycles", lambda scene: asked.append((str(scene.setting), scene.name)), once=True)
    machine = TWO_CORES
    for only in (), ("cycles@cold.rx",), ("cycles",):
        case(Runner(machine, False), Effort.of(True, machine.distances()), Results(only=only))
    case(Runner(machine, False), Effort.of(True, ("far", "near"), ("4k",)), Results())
    assert asked == [("far", "cycles"), ("near", "cycles@near"), ("cold", "cycles@cold"),
                     ("far-4k", "cycles@far-4k"), ("cold", "cycles@cold"), ("far", "cycles"),
                     ("far-4k", "cycles@far-4k"), ("near-4k", "cycles@near-4k")]


def test_turns_of_an_effort() -> None:
    """Each process makes all passes; two builds get twice the processes."""
    quick, whole = (Effort.of(is_quick, ("far",)) for is_quick in (True, False))
    assert (quick.turns, whole.turns) == (3, 12)
    assert (quick.for_two_builds().turns, whole.for_two_builds().turns) == (6, 24)


def test_only_some_rows() -> None:
    results = Results(only=["cycles.rx.*", "latency"])
    assert results.wants("cycles.rx.64.vs_mlx5") and results.wants("latency.64.1.p99")
    assert not results.wants("cycles.tx.64.vs_mlx5") and not results.wants("rates.vs_net_tap")
    assert results.may_want("cycles") and results.may_want("cycles.rx.")
    assert not results.may_want("cycles.tx.") and not results.may_want("rates")


class NoRunner(Runner):
    """Every subject costs 1 in every measure."""

    def on_softhca(self, wires: Sequence[str], eal: Sequence[str], options: Sequence[str],
                   **_how: object) -> list[Figure]:
        given = dict(zip(options, options[1:]))  # of --subject the last
        once = [text for text in options if text.startswith("--") and text != "--subject"]
        assert len(once) == len(set(once)), f"rawqp-perf refuses {options}"
        subjects = [text for option, text in zip(options, options[1:]) if option == "--subject"]
        return [Figure(subject.split("=")[0], measure, 1.0, 0, "", size, int(burst),
                       fast_free=given["--fast-free"] == "on")
                for subject in subjects for measure in given["--measure"].split(",")
                for size in given["--size"].split(",") for burst in given["--burst"].split(",")]


def rows_of(machine: Machine) -> Results:
    results = Results()
    for case in ROUNDS.values():
        case(NoRunner(machine, False), Effort.of(True, machine.distances()), results)
    assert not results.failures
    return results


BARS = {  # ratio to net_mlx5's best at far, on huge pages unless the name includes another setting
    "cycles.{rx,tx,forward}.{64,imix,1500}.vs_mlx5": 0.75,
    "cycles.tx.{64,imix,1500}.no_fast_free.vs_mlx5": 0.75,
    "offloads.rx.{64,imix,1500}.vs_mlx5": 0.75,
    "cycles.{rx,tx,forward}.{64,imix,1500}.vs_floor": 1.25,
    "cycles@cold.{rx,tx,forward}.{64,imix,1500}.vs_mlx5": 0.80,
    "cycles@far-4k.{rx,tx,forward}.{64,imix,1500}.vs_mlx5": 0.85,
    "mprq.{rx,forward}.{64,imix}.vs_mlx5": 0.80,
    "compressed.{rx,forward}.{64,imix}.vs_mlx5": 0.80,
    "bursts.{rx,tx,forward}.{4,8}.vs_mlx5": 0.85,
    "queues.{rx,tx,forward}.64.vs_mlx5": 0.60,
}


def names_of(pattern: str) -> Iterator[str]:
    choices = [part.split(",") for part in re.findall(r"{(.+?)}", pattern)]
    for chosen in product(*choices):
        parts = iter(chosen)
        yield re.sub(r"{.+?}", lambda _: next(parts), pattern)


def test_tcp_is_compared_with_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def figure(_machine: Machine, way: tcp.Way, turn: int) -> Figure:
        if way.name == "net_af_xdp" or way.name == "net_tap" and turn > 0:
            raise BenchError("it is not there")
        return Figure(way.name, "tcp", 6.0 if way is tcp.TAP else 2.0, turn, "Gbit/s")

    monkeypatch.setattr(tcp, "figure", figure)
    results = Results()
    tcp.tcp(NoRunner(Machine(Path("build")), False), Effort.of(True, ("far",)), results)
    assert [(row.name, row.ratio_median, row.pairs, row.ok) for row in results.rows] == [
        ("tcp.vs_plain", 3.0, 3, True), ("tcp.vs_net_af_packet", 3.0, 3, None),
        ("tcp.vs_net_tap", 3.0, 1, None)]
    assert len(results.failures) == 2, "a way that was there, and then was not, in two turns"


def test_each_bar_is_held_against_a_row() -> None:
    """No target is laxer than originally set."""
    rows = {row.name: row for row in rows_of(TWO_CORES).rows}
    for pattern, limit in BARS.items():
        for name in names_of(pattern):
            bar = rows[name].bar
            assert bar is not None and float(bar.removeprefix("<= ")) <= limit, name


def test_another_build_is_all_that_ours_is_compared_with() -> None:
    """With targets where figures must not get worse."""
    build = Path("build")
    rows = rows_of(replace(TWO_CORES, other_build=build)).rows
    names = {row.name for row in rows_of(TWO_CORES).rows}
    assert {row.name for row in rows} >= {
        name.replace("vs_mlx5", "vs_other") for name in names if name.endswith(".vs_mlx5")}
    for row in rows:
        assert row.b == row.a.replace(RAWQP, OTHER) and row.name.endswith(".vs_other")
        assert row.bar == ("<= 1.05" if "@near" in row.name else None)
