# SPDX-License-Identifier: BSD-3-Clause
"""scripts/bench: wrong arguments, programs that do not end, part of the rows, CPUs that share a core. Its rows are
in test_bench_rows.py, what it measures in test_perf.py."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bench_lib import runner, scale, tcp
from bench_lib.ratios import Figure, ratio
from bench_lib.runner import BenchError, Machine, cores_of_cpus, take_turns
from bench_lib.tables import TABLES, fill_documents
from rig.stack import Build

MISSED = "<!-- bench missed -->\n{}\n<!-- end of bench -->"


def row(name: str, value: float, pairs: int = 1) -> dict[str, Any]:
    """Its bar is 0.75."""
    ours, theirs = ([Figure(subject, "rx", each, turn, "cycles/packet") for turn in range(pairs)]
                    for subject, each in (("a", 10 * value), ("b", 10.0)))
    return ratio(name, ours, theirs, ("a", "b"), "<= 0.75").as_json()


def test_some_rows_change_only_their_part_of_the_missed_bars(tmp_path: Path) -> None:
    """What was not measured again is kept: worse, better, the same and new."""
    file, document = tmp_path / "rows.json", tmp_path / "document.md"
    old = ["|  | ratio | bar |", "| --- | --- | --- |", "| flows.x | 0.99 [0.42 … 1.20] | ≥ 1.00 |",
           "| cycles.rx | 0.80 [0.80 … 0.80] | ≤ 0.75 |", "| cycles.tx | 0.77 [0.77 … 0.77] | ≤ 0.75 |"]
    document.write_text(MISSED.format("\n".join(old)))
    file.write_text(json.dumps([row("cycles.rx", 0.9), row("cycles.tx", 0.5), row("cycles.forward", 1)]))
    fill_documents(file, [document])
    assert document.read_text() == MISSED.format("\n".join([
        *old[:3], "| cycles.rx | 0.90 [0.90 … 0.90] | ≤ 0.75 |", "| cycles.forward | 1.00 [1.00 … 1.00] | ≤ 0.75 |"]))
    document.write_text(MISSED.format("\n".join([*old[:2], old[4]])))
    fill_documents(file, [document])
    file.write_text(json.dumps([row(name, 0.5) for name in ("cycles.rx", "cycles.tx", "cycles.forward")]))
    fill_documents(file, [document])
    assert document.read_text() == MISSED.format("None.")


def test_pairs_are_those_of_the_table() -> None:
    """Other benchmarks may have fewer."""
    rows = {each["name"]: each for each in (row("cycles.rx.64.vs_mlx5", 0.5, 12), row("tcp.vs_plain", 0.5, 3))}
    assert "Medians of 12 pairs." in TABLES["headline"](rows, "")
    rows["cycles@near.tx.64.vs_mlx5"] = row("cycles@near.tx.64.vs_mlx5", 0.5, 6)
    assert "Medians of 6 to 12 pairs." in TABLES["headline"](rows, "")
    assert TABLES["headline"]({"tcp.vs_plain": rows["tcp.vs_plain"]}, "") == ""


def test_mistakes_of_the_bench_are_explained(build: Build, tmp_path: Path) -> None:
    """In one line, before anything is measured."""
    (tmp_path / "text").write_text("no rows")
    (tmp_path / "other.json").write_text('[{"name": "x"}]')
    written = "these are no rows that scripts/bench --json has written"
    for options, says in (
            (["--fill", "/nowhere"], "--fill: /nowhere: No such file or directory"),
            (["--fill", "text"], f"--fill: text: {written}"),
            (["--fill", "other.json"], f"--fill: other.json: {written}"),
            (["--build", "/nowhere"], "--build /nowhere: no build there, "
             "/nowhere/drivers/net/rawqp/librte_net_rawqp.so is missing: scripts/setup builds"),
            (["--json", "."], "--json .: .: Is a directory"),
            (["--json", "text/rows"], "--json text/rows: text: File exists"),
            (["--json", "/proc/rows"], "--json /proc/rows: /proc/rows.part: No such file or directory"),
            (["--only", "nothing"], "no benchmark has such rows: nothing; see --list")):
        answer = subprocess.run(["/usr/bin/python3", "-P", "-m", "bench_lib.bench", f"--build={build.folder}", *options],
                                cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (answer.returncode, answer.stderr, answer.stdout) == (2, f"{says}\n", "")


@pytest.mark.parametrize("siblings, cpus, device, far", [
    (["0"], [0], 0, False),
    (["0", "1"], [0, 1], 0, True),
    (["0-1", "0-1"], [0, 1], 0, False),  # two threads of one core
    (["0-1", "0-1", "2-3", "2-3"], [0, 1, 2, 3], 0, True),
    (["0-1", "0-1", "2-3", "2-3"], [2, 3], 2, False),
    (["0,3", "1,2", "1,2", "0,3"], [0, 1, 2, 3], 1, True),  # the first CPU is of the lcore's core
    ([], [0, 1], 0, False),  # sysfs tells nothing
])
def test_far_is_on_another_core(tmp_path: Path, siblings: list[str], cpus: list[int], device: int, far: bool) -> None:
    for cpu, text in enumerate(siblings):
        folder = tmp_path / f"cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{text}\n")
    machine = Machine(Path("build"), cpus=cpus, cores=cores_of_cpus(tmp_path))
    assert (machine.measured, machine.other) == (cpus[-1], device)
    assert sorted(machine.for_device()) == cpus
    assert ("far" in machine.distances()) == far


HANGS = ["sh", "-c", "sleep 1000; exit"]  # two processes
HANGS_ON_ITS_TURN = ["sh", "-c", "echo 'your turn'; sleep 1000; exit"]
ENDS = ["sh", "-c", "echo 'your turn'; read -r line"]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("programs, guilty, limit_s", [
    ([HANGS, ENDS], HANGS, 0.2), ([HANGS_ON_ITS_TURN, ENDS], HANGS_ON_ITS_TURN, 0.2),
    # The other program must get as far as it can before the limit, also on a busy machine.
    ([HANGS_ON_ITS_TURN, HANGS], HANGS, 3), ([ENDS, HANGS_ON_ITS_TURN], HANGS_ON_ITS_TURN, 3)])
def test_turns_are_over_in_time(
    monkeypatch: pytest.MonkeyPatch, programs: list[list[str]], guilty: list[str], limit_s: float
) -> None:
    monkeypatch.setattr(runner, "TIMEOUT_S", limit_s)
    with pytest.raises(BenchError, match=f"not finished after {limit_s:g} s: {re.escape(' '.join(guilty))}"):
        take_turns(programs, dict(os.environ))


@pytest.mark.timeout(30)
def test_programs_end_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If not, that is a failure of their benchmark only."""
    monkeypatch.setattr(scale, "TIMEOUT_S", 0.2)
    with pytest.raises(BenchError, match="not finished after 0.2 s: sh -c sleep 1000; exit"):
        scale.milliseconds_of(HANGS)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 1000; exit\n")
    python.chmod(0o755)
    monkeypatch.setattr(tcp.sys, "executable", str(python))
    monkeypatch.setattr(tcp, "TIMEOUT_S", 0.2)
    with pytest.raises(BenchError, match=f"not finished after 0.2 s: {python}"):
        tcp.figure(Machine(Path("build")), tcp.TAP, 0)


@pytest.mark.unsanitized
def test_tcp_fails_if_testpmd_does(
    build: Build, monkeypatch: pytest.MonkeyPatch, failing_end: dict[str, str]
) -> None:
    monkeypatch.setattr(tcp, "SECONDS", 1)
    for name, value in failing_end.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BenchError, match="testpmd ended with status 7"):
        tcp.figure(Machine(build.folder), tcp.TAP, 0)
