# SPDX-License-Identifier: BSD-3-Clause
"""rawqp-perf and scripts/bench work. Their figures do not matter here."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from bench_lib import scale, tcp
from bench_lib.cases import CASES, ROUNDS
from bench_lib.charts import chart
from bench_lib.effort import Effort, Setting
from bench_lib.ratios import Figure, TooFewFigures, growth, ratio
from bench_lib.results import Results
from bench_lib.runner import OTHER, RAWQP, BenchError, Machine, Runner, take_turns
from bench_lib.scene import Point, Scene, in_each_setting
from bench_lib.tables import DOCUMENTS, TABLES, fill, fill_documents
from rig.program import Program
from rig.stack import DRIVER, OWN_NETWORK, ROOT, Build, PortSpec, device_name

from functional.conftest import StartSoftHca

EAL = ["-l", "0", "--no-huge", "-m", "256", "--no-shconf", "--no-telemetry", "-d", DRIVER]
FEW = ["--passes", "2", "--rounds", "3"]


def measure(
    start_softhca: StartSoftHca, build: Build, out: Path, eal: list[str], options: list[str],
    wires: list[str],
) -> list[dict[str, Any]]:
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), *EAL, *eal, "--", *options]
    ports = [PortSpec(wire=wire, options={"pause": "on"}) for wire in wires]
    hca = start_softhca(ports, [*program, "--json", str(out)])
    assert hca.program.wait(60) == 0, hca.program.output
    figures: list[dict[str, Any]] = json.loads(hca.read_text(out))["figures"]
    return figures


def vdevs(count: int, more: str = "") -> list[str]:
    devices = [f"net_rawqp{i},device={device_name(i)}{more}" for i in range(count)]
    return ["--no-pci", *(text for device in devices for text in ("--vdev", device))]


PAIR = ["pair:a", "pair:a"]
LINK = [f"link:perf{os.getpid()}"] * 2  # also between the processes of a guest's devices


@pytest.mark.guest
def test_measures_everything(start_softhca: StartSoftHca, build: Build, tmp_path: Path) -> None:
    measures = ["rx", "tx", "forward", "rate", "rate_by_rules", "latency", "flows", "flows_async"]
    options = ["--subject", "me=net_rawqp0,peer=net_rawqp1", *FEW, "--size", "64,imix",
               "--measure", ",".join(measures), "--seconds", "0.05", "--packets", "64",
               "--rules", "10"]
    figures = measure(start_softhca, build, tmp_path / "out", vdevs(2), options, LINK)
    assert {(figure["measure"], figure["size"]) for figure in figures} == {
        (name, size) for name in measures for size in ("64", "imix")}
    assert len(figures) == 2 * 2 * len(measures)
    assert all(figure["value"] > 0 and figure["subject"] == "me" for figure in figures)
    assert all(figure.get("lost", 0) == 0 for figure in figures)


@pytest.mark.parametrize("queues, ahead", [
    (1, ""), (4, ""), (1, ",fetch=0,claim=none"), (1, ",fetch=64,claim=32")])
def test_many_queues_and_the_loops(
    start_softhca: StartSoftHca, build: Build, tmp_path: Path, queues: int, ahead: str
) -> None:
    """For the driver and the loops without one, a round is valid only if all its packets arrive, whatever the
    floor's prefetch distance."""
    each = f",queues={queues},descriptors=256"
    eal = [*vdevs(2), "--vdev", "net_rawqp3,device=mlx5_3", "--vdev", "net_rawqp5,device=mlx5_5"]
    options = ["--subject", f"port=net_rawqp0,peer=net_rawqp1{each}",
               "--subject", f"floor=floor:mlx5_2,peer=net_rawqp3{each}{ahead}",
               "--subject", f"loop=verbs:mlx5_4,peer=net_rawqp5{each}",
               *FEW, "--round", "128", "--warm-up", "128"]
    figures = measure(start_softhca, build, tmp_path / "out", eal, options,
                      [*PAIR, "pair:b", "pair:b", "pair:c", "pair:c"])
    assert {(figure["subject"], figure["queues"], figure["measure"]) for figure in figures} == {
        (subject, queues, measure) for subject in ("port", "floor", "loop")
        for measure in ("rx", "tx", "forward")}


def skip_if_not_possible(machine: Machine, distance: str) -> None:
    if distance not in machine.distances():
        pytest.skip("all CPUs that the tests may use are of one core: nothing is far; give them another (taskset)")


# On a busy machine, sanitizers make a round so long that the device's CPU can hardly be held for it.
@pytest.mark.parametrize("distance", ["near", pytest.param("far", marks=pytest.mark.unsanitized), "cold"])
def test_distances(
    start_softhca: StartSoftHca, build: Build, tmp_path: Path, distance: str
) -> None:
    """The report names the distance, and for far the cores; rounds are still complete."""
    machine = Machine(build.folder)
    skip_if_not_possible(machine, distance)
    out = tmp_path / "out"
    options = ["--subject", "me=net_rawqp0,peer=net_rawqp1", *FEW, "--distance", distance,
               "--device-cpu", str(machine.measured), "--json", str(out)]
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), "-l", str(machine.other), *EAL[2:],
               *vdevs(2), "--", *options]
    hca = start_softhca([PortSpec(wire=wire, options={"pause": "on"}) for wire in PAIR], program)
    assert hca.program.wait(60) == 0, hca.program.output
    found = json.loads(out.read_text())
    assert {(figure["measure"], figure["distance"]) for figure in found["figures"]} == {
        (measure, distance) for measure in ("rx", "tx", "forward")}
    assert (f"device on CPU {machine.measured}" in found["cpus"]) == (distance == "far")


@pytest.fixture
def busy_cpu(build: Build, tmp_path: Path) -> Iterator[None]:
    """A program on the device's CPU that even a thread of real-time priority yields to, over and over."""
    naps = "import time\nwhile True: time.sleep(2e-5)"
    command = ["taskset", "-c", str(Machine(build.folder).measured), "chrt", "--rr", "50", sys.executable, "-c", naps]
    with closing(Program(command, tmp_path / "naps")):
        yield


@pytest.mark.unsanitized
@pytest.mark.usefixtures("busy_cpu")
def test_a_mean_of_few_rounds_is_refused(start_softhca: StartSoftHca, build: Build) -> None:
    """Those during which the device may have run are left out."""
    machine = Machine(build.folder)
    skip_if_not_possible(machine, "far")
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), "-l", str(machine.other), *EAL[2:], *vdevs(2), "--",
               "--subject", "me=net_rawqp0,peer=net_rawqp1", "--measure", "rx", "--passes", "1", "--rounds", "600",
               "--round", "960", "--mean", "--distance", "far", "--device-cpu", str(machine.measured)]
    ports = [PortSpec(wire=wire, options={"pause": "on"}) for wire in PAIR]
    run = start_softhca(ports, program).program
    assert run.wait(60) != 0
    assert "me: 71 of " in run.output and "the device's CPU is busy" in run.output


@pytest.mark.parametrize("pages", ["huge", "4k"])
def test_pages(start_softhca: StartSoftHca, build: Build, tmp_path: Path, pages: str) -> None:
    """Pages of packets and rings of all subjects, and of drivers' data in EAL's memory, verified by the kernel's
    accounting of the mappings."""
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    if pages == "huge" and "[never]" in enabled:
        pytest.skip("this kernel has no transparent huge pages")
    out = tmp_path / "out"
    subjects = ["--subject", "me=net_rawqp0,peer=net_rawqp1",
                "--subject", "floor=floor:mlx5_2,peer=net_rawqp3"]
    measure(start_softhca, build, out, [*vdevs(2), "--vdev", "net_rawqp3,device=mlx5_3"],
            [*subjects, *FEW, "--pages", pages], [*PAIR, "pair:b", "pair:b"])
    memory = json.loads(out.read_text())["memory"]
    assert memory["resident"] > 4 << 20
    if pages == "huge":
        assert memory["on_huge_pages"] > memory["resident"] / 2
    else:
        assert memory["on_huge_pages"] == 0


@pytest.mark.parametrize("offloads", ["checksum", "rss", "vlan", "mark", "checksum,rss,vlan,mark"])
def test_offloads_are_seen_in_each_round(
    start_softhca: StartSoftHca, build: Build, tmp_path: Path, offloads: str
) -> None:
    """A round whose mbufs lack the requested results is an error, as on a device that sets no marks because it
    has no rules."""
    figures = measure(start_softhca, build, tmp_path / "out", vdevs(2),
                      ["--subject", "me=net_rawqp0,peer=net_rawqp1", *FEW, "--measure",
                       "rx,forward", "--offloads", offloads], PAIR)
    assert {figure["measure"] for figure in figures} == {"rx", "forward"}


def test_a_loop_needs_its_device(start_softhca: StartSoftHca, build: Build, tmp_path: Path) -> None:
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), *EAL, *vdevs(1), "--", "--subject",
               "x=floor:mlx5_9,peer=net_rawqp0"]
    hca = start_softhca([PortSpec(wire="loop")], program)
    assert hca.program.wait(60) != 0
    assert "mlx5_9: open" in hca.program.output


@pytest.mark.guest
def test_first_packet(start_softhca: StartSoftHca, build: Build, tmp_path: Path) -> None:
    options = ["--first-packet", f"me=net_rawqp0,device={device_name(0)}", "--passes", "2"]
    figures = measure(start_softhca, build, tmp_path / "out", ["--no-pci"], options, ["loop"])
    for figure in figures:
        assert figure["probe"] + figure["set_up"] + figure["packet"] == pytest.approx(figure["value"])


@pytest.mark.parametrize("wrong", ["device=mlx5_9", "device=mlx5_0,no_such=1"])
def test_one_failing_probe_leaves_the_others(
    start_softhca: StartSoftHca, build: Build, tmp_path: Path, wrong: str
) -> None:
    """Also of a device of the same name, and the failure is in the report, once."""
    out = tmp_path / "out"
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), *EAL, "--no-pci", "--", "--passes", "2",
               "--first-packet", f"wrong=net_rawqp0,{wrong}", "--first-packet", "me=net_rawqp0,device=mlx5_0",
               "--json", str(out)]
    hca = start_softhca([PortSpec(wire="loop")], program)
    assert hca.program.wait(60) == 1, hca.program.output
    found = json.loads(out.read_text())
    assert [(figure["subject"], figure["pass"]) for figure in found["figures"]] == [("me", 0), ("me", 1)]
    assert len(found["failures"]) == 1 and found["failures"][0].startswith("wrong: ")


def test_a_probe_without_packets_leaves_the_others(
    start_softhca: StartSoftHca, build: Build, tmp_path: Path
) -> None:
    """Its device is removed, so that another probe may use its name."""
    out = tmp_path / "out"
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), *EAL, "--no-pci", "--", "--passes", "1",
               "--first-packet", "silent=net_rawqp0,device=mlx5_1",
               "--first-packet", "me=net_rawqp0,device=mlx5_0", "--json", str(out)]
    hca = start_softhca([PortSpec(wire="loop"), PortSpec(wire="sink")], program)
    assert hca.program.wait(60) == 1, hca.program.output
    found = json.loads(out.read_text())
    assert [figure["subject"] for figure in found["figures"]] == ["me"]
    assert len(found["failures"]) == 1 and "silent: first packet: never came" in found["failures"][0]


@pytest.mark.parametrize("options, says", [
    (["--subject", "x=nobody"], "no port 'nobody'"),
    (["--subject", "x=65536"], "no port '65536'"),
    (["--subject", "x=nobody", "--measure", "latency", "--burst", "100"], "no port 'nobody'"),
    (["--subject", "x=rings:0", "--measure", "rate_by_rules"], "rate_by_rules: only for a port"),
    (["--subject", "x"], "NAME=PORT"),
    (["--subject", "x=0", "--size", "12"], "64 to 1518"),
    (["--subject", "x=rings:0", "--measure", "rate", "--size", "64,1519"], "1519: 'imix' or 64 to 1518"),
    (["--subject", "x=0", "--burst", "100"], "multiples"),
    (["--subject", "x=0", "--round", "1024", "--warm-up", "32"], "must fit into the rings"),
    (["--first-packet", "net_null1"], "net_null1: write NAME=DEVARGS"),
    (["--subject", "x=0", "--json", "/nowhere/out"], "cannot write /nowhere/out: No such file or directory"),
    (["--subject", "x=0", "--json", "/"], "cannot write /: Is a directory"),
    ([], "--subject"),
    *((["--subject", "x=0", option, "0"], f"{option}: Value 0 not in range")
      for option in ("--round", "--rounds", "--passes", "--seconds", "--packets", "--rules")),
    (["--subject", "x=0", "--seconds", "-1"], "--seconds: Value -1 not in range"),
    (["--subject", "x=0", "--round", "4294967264"], "--round: Value 4294967264 not in range"),
    (["--subject", "x=0", "--burst", "0513"], "--burst: Value 513 not in range"),
    (["--subject", "x=0", "--distance", "far"], "--device-cpu"),
    (["--subject", "x=0", "--pages", "1g"], "--pages"),
    (["--subject", "x=floor:0,claim=some"], "not a count"),
    (["--subject", "x=0", "--offloads", "lro"], "--offloads"),
    (["--subject", "x=0", "--distance", "far", "--device-cpu", "0"], "on the physical core"),
])
def test_mistakes_are_explained(build: Build, options: list[str], says: str) -> None:
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), "-l", "0", "--no-huge", "-m", "64",
               "--no-shconf", "--no-telemetry", "--no-pci", "--vdev", "net_null0", "--", *options]
    answer = subprocess.run(program, capture_output=True, text=True, timeout=60,
                            env=build.env(build.folder / "perf-reports"))
    assert answer.returncode != 0
    assert says in answer.stderr + answer.stdout


def test_the_example_of_the_manual(build: Build) -> None:
    """All is accepted but the ports, which are of another machine."""
    example = re.search(r"    rawqp-perf -l (.*\\\n)+.*", (ROOT / "doc/bench.md").read_text())
    assert example
    own = example[0].partition(" -- ")[2].replace("\\\n", "").split()
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), "-l", "0", "--no-huge", "-m", "64",
               "--no-shconf", "--no-telemetry", "--no-pci", "--", *own]
    answer = subprocess.run(program, capture_output=True, text=True, timeout=60,
                            env=build.env(build.folder / "perf-reports"))
    assert "no port '0000:81:00.0'" in answer.stderr, answer.stderr


def test_help_needs_no_eal(build: Build) -> None:
    """Which does not start without hugepages, or with options like these."""
    answer = subprocess.run([str(build.folder / "app/rawqp-perf/rawqp-perf"), "--no-such-option", "--", "--help"],
                            capture_output=True, text=True, timeout=60,
                            env=build.env(build.folder / "perf-reports"))
    assert answer.returncode == 0 and "rate_by_rules" in answer.stdout, answer.stderr


def test_the_floor_of_rates_delivers_packets(build: Build, tmp_path: Path) -> None:
    """All packets sent, of each size."""
    out, sizes = tmp_path / "out", ["64", "imix", "1500", "1518"]
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), *EAL, "--no-pci", "--", "--subject",
               "floor=rings:0", "--measure", "rate", "--seconds", "0.05", "--passes", "1",
               "--size", ",".join(sizes), "--json", str(out)]
    subprocess.run(program, check=True, timeout=60,
                   env=build.env(build.folder / "perf-reports"))
    figures = json.loads(out.read_text())["figures"]
    assert [figure["size"] for figure in figures] == sizes
    assert all(figure["value"] > 0 and figure["lost"] == 0 for figure in figures)


def test_json_on_standard_output_is_all_there(build: Build) -> None:
    """So that another program can read it from a pipe."""
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), *EAL, "--no-pci", "--", "--subject",
               "floor=rings:0", "--measure", "rate", "--seconds", "0.05", "--passes", "1", "--json", "-"]
    answer = subprocess.run(program, check=True, timeout=60, capture_output=True, text=True,
                            env=build.env(build.folder / "perf-reports"))
    (figure,) = json.loads(answer.stdout)["figures"]
    assert figure["measure"] == "rate" and "packets/s" in answer.stderr


def test_queues_let_go_of_their_pools(build: Build) -> None:
    """net_tap frees the mbufs of its receive queues when EAL closes it, after the pools are gone."""
    taps = ["--vdev", "net_tap0,iface=ta", "--vdev", "net_tap1,iface=tb"]
    answer = subprocess.run(
        [*OWN_NETWORK, str(build.folder / "app/rawqp-perf/rawqp-perf"), *EAL, "--no-pci", *taps,
         "--", "--subject", "taps=net_tap0,peer=net_tap1", "--measure", "latency",
         "--packets", "1", "--passes", "1"],
        capture_output=True, text=True, timeout=60,
        env=build.env(build.folder / "perf-reports") | {"ASAN_OPTIONS": "detect_leaks=0"})
    assert "no packet came back" in answer.stderr, answer.stderr  # there is no cable
    assert answer.returncode == 1


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


def test_bench_lists_its_benchmarks() -> None:
    answer = subprocess.run([str(ROOT / "scripts/bench"), "--list"], capture_output=True, text=True,
                            timeout=60)
    assert answer.returncode == 0
    assert [line.split()[0] for line in answer.stdout.splitlines()] == [
        "cycles", "bursts", "mprq", "compressed", "offloads", "marks", "queues", "floor", "latency",
        "flows", "lookups", "flow_perf", "first_packet", "secondary", "rates", "tcp", "scale"]


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


def test_one_failing_subject_leaves_the_others(
    start_softhca: StartSoftHca, build: Build, tmp_path: Path
) -> None:
    """The wire of the third port returns nothing."""
    options = ["--subject", "nobody=net_rawqp2", "--subject", "me=net_rawqp0,peer=net_rawqp1", *FEW]
    program = [str(build.folder / "app/rawqp-perf/rawqp-perf"), *EAL, *vdevs(3), "--", *options]
    ports = [PortSpec(wire=wire, options={"pause": "on"}) for wire in [*PAIR, "sink"]]
    out = tmp_path / "out"
    hca = start_softhca(ports, [*program, "--json", str(out)])
    assert hca.program.wait(60) != 0
    found = json.loads(out.read_text())
    assert {figure["subject"] for figure in found["figures"]} == {"me"}
    assert len(found["figures"]) == 2 * 3
    assert len(found["failures"]) == 1 and found["failures"][0].startswith("nobody:")


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


@pytest.mark.unsanitized  # it starts its programs in its own way
@pytest.mark.parametrize("way", tcp.WAYS)
def test_tcp_between_two_kernels(build: Build, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(tcp, "SECONDS", 1)
    figure = tcp.figure(Machine(build.folder), tcp.WAYS[way], 3)
    assert (figure.subject, figure.turn, figure.unit) == (way, 3, "Gbit/s")
    assert figure.value > 0


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


def test_scale_measures_each_crowd(build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With fewer objects of each kind, and one turn: the rows exist, each with its target."""
    for name, value in build.env(tmp_path / "reports").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(scale, "CROWDS", {kind: (1, 3) for kind in scale.CROWDS})
    monkeypatch.setattr(scale, "STARTS", 1)
    results = Results()
    scale.scale(Runner(Machine(build.folder), False), Effort(1, 1, 1, ()), results)
    assert not results.failures
    assert [(row.name, row.bar) for row in results.rows] == [
        *((f"scale.{kind}.3", "<= 1.50") for kind in ("qps", "cqs", "contexts", "mrs")), ("scale.start", "<= 1.00")]
    assert all(row.a_value > 0 and row.b_value > 0 for row in results.rows)
    assert results.rows[-1].b_value == 50
    assert 100 <= scale.milliseconds_of(["sleep", "0.1"]) < 10_000
    assert not list(tmp_path.glob("reports*"))


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


@pytest.mark.parametrize("first", [RAWQP, OTHER])
def test_two_builds_of_the_driver_in_one_program(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: str
) -> None:
    """Also with the driver's own mempools. Either build may come first."""
    for name, value in build.env(tmp_path / "reports").items():
        monkeypatch.setenv(name, value)
    runner = Runner(Machine(build.folder, other_build=build.folder), False)
    effort = replace(Effort.of(True, ("near",)), passes=1, rounds=3)
    scene = Scene(runner, effort, Results(), Setting("near"), "cycles@near")
    bench = scene.contest("mprq_en=1")
    layouts = {RAWQP: bench.layout(), OTHER: bench.layout(reverse=True)}
    assert f"={first}0," in layouts[first].subjects[1]
    monkeypatch.setattr(bench, "layout", lambda _reverse: layouts[first])
    scene.measure(bench, [Point("rx"), Point("tx", fast_free=False)])
    assert not scene.results.failures
    assert {(each.subject, each.measure) for each in scene.figures} == {
        (driver, measure) for driver in (RAWQP, OTHER) for measure in ("rx", "tx")}
    assert not list(tmp_path.glob("reports*"))


def test_a_program_that_ends_before_its_turn() -> None:
    ends = ["sh", "-c", "exec <&-; echo 'your turn'; exit 3"]
    with pytest.raises(BenchError, match="status 3: sh"):
        take_turns([ends, ends], dict(os.environ))


@pytest.mark.unsanitized  # it starts its programs in its own way
@pytest.mark.parametrize("distance", ["near", "far"])
def test_a_secondary_process_in_turns(build: Build, monkeypatch: pytest.MonkeyPatch,
                                      tmp_path: Path, distance: str) -> None:
    for name, value in build.env(tmp_path / "reports").items():
        monkeypatch.setenv(name, value)
    machine = Machine(build.folder)
    skip_if_not_possible(machine, distance)
    results = Results()
    effort = Effort(processes=1, passes=2, rounds=3, settings=(Setting(distance),))
    CASES["secondary"](Runner(machine, False), effort, results)
    assert not results.failures
    assert [(row.name, row.pairs) for row in results.rows] == [
        ("secondary.rx", 2), ("secondary.tx", 2), ("secondary.forward", 2)]
    assert all(row.a_value > 0 and row.b_value > 0 for row in results.rows)
