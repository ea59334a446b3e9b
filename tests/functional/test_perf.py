# SPDX-License-Identifier: BSD-3-Clause
"""rawqp-perf and scripts/bench work. Their figures do not matter here."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_lib import scale, tcp
from bench_lib.cases import CASES
from bench_lib.effort import Effort, Setting
from bench_lib.results import Results
from bench_lib.runner import OTHER, RAWQP, BenchError, Machine, Runner, take_turns
from bench_lib.scene import Point, Scene
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
    pytest.param(1, "", marks=pytest.mark.thorough), (4, ""), (1, ",fetch=0,claim=none"), (1, ",fetch=64,claim=32")])
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
    """The report names the distance, and for far, the default, the cores; rounds are still complete."""
    machine = Machine(build.folder)
    skip_if_not_possible(machine, distance)
    out = tmp_path / "out"
    named = [] if distance == "far" else ["--distance", distance]
    options = ["--subject", "me=net_rawqp0,peer=net_rawqp1", *FEW, *named,
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


@pytest.mark.parametrize("offloads", [
    *(pytest.param(alone, marks=pytest.mark.thorough) for alone in ("checksum", "rss", "vlan", "mark")),
    "checksum,rss,vlan,mark"])
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
    (["--subject", "x=0", "--round", "0"], "--round: Value 0 not in range"),
    *(pytest.param(["--subject", "x=0", option, "0"], f"{option}: Value 0 not in range", marks=pytest.mark.thorough)
      for option in ("--rounds", "--passes", "--seconds", "--packets", "--rules")),
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


def test_bench_lists_its_benchmarks() -> None:
    answer = subprocess.run([str(ROOT / "scripts/bench"), "--list"], capture_output=True, text=True,
                            timeout=60)
    assert answer.returncode == 0
    assert [line.split()[0] for line in answer.stdout.splitlines()] == [
        "cycles", "bursts", "mprq", "compressed", "offloads", "marks", "queues", "floor", "latency",
        "flows", "lookups", "flow_perf", "first_packet", "secondary", "rates", "tcp", "scale"]


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


@pytest.mark.unsanitized  # it starts its programs in its own way
@pytest.mark.parametrize("way", tcp.WAYS)
def test_tcp_between_two_kernels(build: Build, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(tcp, "SECONDS", 1)
    figure = tcp.figure(Machine(build.folder), tcp.WAYS[way], 3)
    assert (figure.subject, figure.turn, figure.unit) == (way, 3, "Gbit/s")
    assert figure.value > 0


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
