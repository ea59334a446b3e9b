#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Cache lines that a driver touches per packet, by their content: for net_rawqp, stock net_mlx5 and the
floor, from each instruction of a round (rawqp-perf --trace) and its addresses.

    tests/perf/touched.py [BUILD] [--burst N] [--size SIZE]
    tests/perf/touched.py --rows rows.json   # of scripts/bench --json: also the cost of a far line
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
LINE = 64
TIMEOUT_S = 120
REGISTERS = ("rip", "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
             *(f"r{number}" for number in range(8, 16)))
STEP = struct.Struct(f"{len(REGISTERS)}Q")

BY_DEVICE = ("CQE", "WQE", "doorbell record")  # lines that the device also reads or writes

# Functions of loops without a driver that correspond to a driver's bursts.
LOOPS = re.compile(r"perf::(VerbsLoop::(rx|tx)[<(]|"
                   r"(\(anonymous namespace\)::)?(receive|send)(<\w+>)?\(perf::Floor[RT]x&)")
# Kinds of touched lines, in this order.
KINDS = ("CQE", "WQE", "pointer array", "mbuf line 0", "mbuf line 1", "packet", "doorbell record",
         "doorbell register", "queue state", "mempool cache", "mempool", "globals", "other")  # other: mostly the array passed to a burst


@dataclass(frozen=True)
class Operand:
    """An address in an instruction, as a sum of registers."""

    base: str = ""
    index: str = ""
    scale: int = 1
    offset: int = 0
    width: int = 8

    def lines(self, registers: dict[str, int]) -> range:
        start = self.offset + registers.get(self.base, 0) + registers.get(self.index, 0) * self.scale
        start &= (1 << 64) - 1
        return range(start // LINE, (start + self.width - 1) // LINE + 1)


MEMORY = re.compile(r"(?P<segment>%[a-z]s:)?(?P<offset>-?0x[0-9a-f]+)?"
                    r"\((?P<base>%\w+)?(?:,(?P<index>%\w+)(?:,(?P<scale>[1248]))?)?\)")
WIDTHS = {"%z": 64, "%y": 32, "%x": 16}
HALF_OF_YMM = re.compile(r"v(insert|extract|broadcast)[if]128$")  # for memory operands
# Prefetches do not count: a prefetched line is used later.
NO_ACCESS = re.compile(r"lea|nop|endbr|prefetch")


def operands(text: str, target: int | None) -> Iterator[Operand]:
    """The memory operands of an instruction in objdump's syntax. `target`: its resolved rip-relative address."""
    mnemonic = text.split()[0]
    if NO_ACCESS.match(mnemonic):
        return
    width = min([size for name, size in WIDTHS.items() if f"{name}mm" in text], default=4)
    if HALF_OF_YMM.match(mnemonic):
        width = WIDTHS["%x"]
    for found in MEMORY.finditer(text):
        if found["segment"] in ("%fs:", "%gs:") or found["base"] == "%rsp":
            continue  # thread-local data and the stack
        if found["base"] == "%rip":
            if target is not None:
                yield Operand(offset=target, width=width)
            continue
        yield Operand((found["base"] or "")[1:], (found["index"] or "")[1:],
                      int(found["scale"] or 1), int(found["offset"] or "0", 16), width)


def ranges(addresses: Iterable[int], gap: int = 4096) -> list[tuple[int, int]]:
    """First and last address of each group of nearby addresses."""
    found: list[tuple[int, int]] = []
    for address in sorted(addresses):
        if found and address - found[-1][1] < gap:
            found[-1] = (found[-1][0], address)
        else:
            found.append((address, address))
    return found


@dataclass
class Code:
    """The code executed from one file."""

    instructions: dict[int, list[Operand]] = field(default_factory=dict)  # by file address
    symbols: list[tuple[int, str]] = field(default_factory=list)

    @staticmethod
    def of(file: str, executed: Iterable[int]) -> "Code":
        code = Code()
        for first, last in ranges(executed):
            code._read(subprocess.run(
                ["objdump", "-dC", "--no-show-raw-insn", f"--start-address={first}",
                 f"--stop-address={last + 16}", file], capture_output=True, text=True, check=True,
                timeout=TIMEOUT_S).stdout)
        return code

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            if found := re.match(r"\s*([0-9a-f]+):\t(.+)", line):
                target = re.search(r"# ([0-9a-f]+)", found[2])
                some = list(operands(found[2].split("#")[0],
                                     int(target[1], 16) if target else None))
                if some:
                    self.instructions[int(found[1], 16)] = some
            elif found := re.match(r"([0-9a-f]+) <(.+)>:", line):
                self.symbols.append((int(found[1], 16), found[2]))

    def symbol(self, address: int) -> str:
        place = bisect.bisect_right(self.symbols, (address, "\x7f")) - 1
        return self.symbols[place][1] if place >= 0 else ""


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    offset: int
    file: str


def mappings(maps: str) -> list[Mapping]:
    found = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+ *(.*)$", maps, re.MULTILINE)
    return [Mapping(int(start, 16), int(end, 16), int(offset, 16), file)
            for start, end, offset, file in found]


class Memory:
    """The memory layout, from a trace's description and the list of mapped rings."""

    def __init__(self, found: dict[str, Any], heap: bytes, rings: str) -> None:
        self.maps = mappings(found["maps"])
        self._mbufs = sorted(found["mbufs"])
        self._mbuf_set = set(self._mbufs)
        self._mbuf_bytes = found["mbuf_bytes"]
        self._spans = [(int(start, 16), int(bytes_), kind.replace("-", " "))
                       for kind, start, bytes_ in (line.split() for line in rings.splitlines())]
        self._spans += [(start, bytes_, kind) for kind in ("mempool cache", "mempool")
                        for start, bytes_ in found[kind]]
        self._heap = [(start, bytes_) for start, bytes_ in found["heap"]]
        self._heap_contents = heap

    def mapping(self, address: int) -> Mapping | None:
        place = bisect.bisect_right(self.maps, address, key=lambda each: each.start) - 1
        return self.maps[place] if place >= 0 and address < self.maps[place].end else None

    def kind(self, line: int) -> str | None:
        """The kind of a line; None: the stack."""
        address = line * LINE
        for start, bytes_, kind in self._spans:
            if start < address + LINE and address < start + bytes_:
                return kind
        place = bisect.bisect_right(self._mbufs, address) - 1
        if place >= 0 and address < self._mbufs[place] + self._mbuf_bytes:
            return ("mbuf line 0", "mbuf line 1", "packet")[
                min((address - self._mbufs[place]) // LINE, 2)]
        if (words := self._heap_words(address)) is not None:
            pointers = sum(word in self._mbuf_set for word in words)
            return "pointer array" if pointers >= len(words) // 2 else "queue state"
        mapping = self.mapping(address)
        if mapping is not None and mapping.file == "[stack]":
            return None
        return "globals" if mapping is not None and mapping.file.startswith("/") else "other"

    def _heap_words(self, address: int) -> tuple[int, ...] | None:
        before = 0
        for start, bytes_ in self._heap:
            if start <= address < start + bytes_:
                return struct.unpack_from("8Q", self._heap_contents, before + address - start)
            before += bytes_
        return None


class Trace:
    """The trace of one round of one subject."""

    def __init__(self, path: Path, rings: str, program: Path) -> None:
        self._program = str(program)
        described = json.loads(Path(f"{path}.json").read_text())
        self._memory = Memory(described, Path(f"{path}.heap").read_bytes(), rings)
        self._bursts = set(described["bursts"])
        self._steps = list(STEP.iter_unpack(Path(f"{path}.steps").read_bytes()))
        self._places = {rip: place for rip in {values[0] for values in self._steps}
                        if (place := self._place(rip))}
        files = {file for file, _ in self._places.values()}
        self._codes = {file: Code.of(file, [rip - base for rip, (each, base) in
                                            self._places.items() if each == file])
                       for file in files}

    def _place(self, address: int) -> tuple[str, int] | None:
        """The file that an instruction belongs to, and its base address in memory."""
        mapping = self._memory.mapping(address)
        if mapping is None or not mapping.file.startswith("/"):
            return None
        return mapping.file, next(each.start for each in self._memory.maps
                                  if each.file == mapping.file and each.offset == 0)

    def bursts(self) -> Iterator[set[int]]:
        """The lines touched by each call of a burst function."""
        lines: set[int] | None = None
        for values in self._steps:
            if values[0] not in self._places:
                continue
            file, base = self._places[values[0]]
            code = self._codes[file]
            begins = values[0] in self._bursts
            if file == self._program:
                name = code.symbol(values[0] - base)
                inside = LOOPS.search(name) is not None
                begins = inside and (values[0] - base, name) in code.symbols
                if not inside:
                    continue  # rawqp-perf's own loop
            if begins:
                if lines is not None:
                    yield lines
                lines = set()
            if lines is None:
                continue
            registers = dict(zip(REGISTERS, values))
            for operand in code.instructions.get(values[0] - base, ()):
                at = operand
                if not operand.base and not operand.index:
                    at = Operand(offset=operand.offset + base, width=operand.width)
                lines.update(at.lines(registers))
        if lines is not None:
            yield lines

    def per_packet(self, packets: int) -> Counter[str]:
        """Lines by kind; a line touched by two calls counts twice."""
        counts: Counter[str] = Counter()
        for lines in self.bursts():
            counts.update(kind for line in lines if (kind := self._memory.kind(line)))
        return Counter({kind: count / packets for kind, count in counts.items()})


DRIVER = "librte_net_rawqp.so"
# EAL's options and rawqp-perf's subject, each on two cabled ports; the floor's peer is our driver. Without
# dv_flow_en=0, net_mlx5 creates its rings through DevX, where they can be identified only from commands. Its
# bursts are the same.
SUBJECTS = {
    "net_rawqp": (["--vdev", "net_rawqp0,device=mlx5_0", "--vdev", "net_rawqp1,device=mlx5_1"],
                  "net_rawqp0,peer=net_rawqp1"),
    "net_mlx5": (["-a", "0000:ca:00.2,dv_flow_en=0", "-a", "0000:ca:00.3,dv_flow_en=0"],
                 "0000:ca:00.2,peer=0000:ca:00.3"),
    "floor": (["--vdev", "net_rawqp5,device=mlx5_5"], "floor:mlx5_4,peer=net_rawqp5"),
}
ROUND = 512
NOTHING_ON_PCI = ["-a", "0000:ff:1f.7"]


def trace(build: Path, folder: Path, subjects: Sequence[str], options: Sequence[str]) -> str:
    """Runs a round of each subject and measure. Returns the list of rings."""
    rings = folder / "rings"
    command = [str(build / "app/softhca/softhca")]
    for index in range(2 * len(SUBJECTS)):
        command += ["--port", f"device=mlx5_{index},pci=0000:ca:00.{index},pause=on,"
                              f"wire=pair:{index // 2}"]
    command += ["--", str(build / "app/rawqp-perf/rawqp-perf"), "-l", "0", "--no-huge", "-m", "512",
                "--no-shconf", "--no-telemetry", "--log-level=warning", "-d", DRIVER, *NOTHING_ON_PCI]
    for name in subjects:
        command += SUBJECTS[name][0]
    command.append("--")
    for name in subjects:
        command += ["--subject", f"{name}={SUBJECTS[name][1]}"]
    command += ["--passes", "1", "--rounds", "2", "--round", str(ROUND), "--warm-up", "0",
                "--trace", str(folder), *options]
    path = f"{build / 'drivers/net/rawqp'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env={
        **os.environ, "LD_LIBRARY_PATH": path, "XDG_RUNTIME_DIR": str(folder),
        "LD_PRELOAD": str(build / "tests/perf/librawqp-rings.so"), "RAWQP_RINGS": str(rings)})
    if answer.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}:\n{answer.stdout}{answer.stderr}")
    return rings.read_text()


Touched = dict[tuple[str, str], Counter[str]]  # lines per packet by kind; by subject and measure


def touched(build: Path, subjects: Sequence[str], measures: Sequence[str],
            options: Sequence[str] = ()) -> Touched:
    with tempfile.TemporaryDirectory(prefix="rawqp-touched-") as folder:
        rings = trace(build, Path(folder), subjects, ["--measure", ",".join(measures), *options])
        program = (build / "app/rawqp-perf/rawqp-perf").resolve()
        return {(subject, measure):
                Trace(Path(folder) / f"{subject}-{measure}", rings, program).per_packet(ROUND)
                for subject in subjects for measure in measures}


NO_FAST_FREE = "tx, no fast free"
# Rows of scripts/bench, with 64 bytes, which contain the cycles of both sides.
ROWS = {"rx": "rx.64", "tx": "tx.64", NO_FAST_FREE: "tx.64.no_fast_free", "forward": "forward.64"}


def cycles(rows: dict[str, dict[str, Any]], subject: str, setting: str, measure: str) -> float | None:
    by, side = {"net_rawqp": ("vs_mlx5", "a"), "net_mlx5": ("vs_mlx5", "b"),
                "floor": ("vs_floor", "b")}[subject]
    row = rows.get(f"cycles{setting}.{ROWS[measure]}.{by}")
    return row[f"{side}_value"] if row else None


def far_line(rows: dict[str, dict[str, Any]], counts: Counter[str], subject: str, measure: str) -> str:
    """Additional cycles, at far compared with near, per line that the device has touched."""
    far, near = (cycles(rows, subject, setting, measure) for setting in ("", "@near"))
    lines = sum(counts[kind] for kind in BY_DEVICE)
    return f"{(far - near) / lines:.0f}" if far and near and lines else ""


def show(found: Touched, rows: dict[str, dict[str, Any]]) -> None:
    """Prints a table in Markdown."""
    columns = list(found)
    print(f"| lines per packet | {' | '.join(f'{measure}: {name}' for name, measure in columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    for kind in KINDS:
        if any(found[column][kind] for column in columns):
            cells = (f"{found[column][kind]:.2f}" for column in columns)
            print(f"| {kind} | {' | '.join(cells)} |")
    cells = (f"{sum(found[column].values()):.2f}" for column in columns)
    print(f"| all | {' | '.join(cells)} |")
    if rows:
        costs = (far_line(rows, found[column], *column) for column in columns)
        print(f"| cycles per far line | {' | '.join(costs)} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build")
    parser.add_argument("--burst", default="32")
    parser.add_argument("--size", default="64")
    parser.add_argument("--rows", type=Path)
    arguments = parser.parse_args()
    if shutil.which("objdump") is None:
        print("objdump is missing (binutils)", file=sys.stderr)
        return 1
    options = ["--burst", arguments.burst, "--size", arguments.size]
    build = arguments.build.resolve()
    subjects = list(SUBJECTS)
    found = touched(build, subjects, ["rx", "tx", "forward"], options)
    without = touched(build, subjects, ["tx"], [*options, "--fast-free", "off"])
    found |= {(subject, NO_FAST_FREE): counts for (subject, _), counts in without.items()}
    order = list(ROWS)
    found = {key: found[key] for key in sorted(found, key=lambda key: order.index(key[1]))}
    rows = json.loads(arguments.rows.read_text()) if arguments.rows else []
    show(found, {row["name"]: row for row in rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
