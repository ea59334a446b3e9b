# SPDX-License-Identifier: BSD-3-Clause
"""Drives an interactive testpmd: commands in, parsed answers out."""

import re
from dataclasses import dataclass, field
from typing import Sequence

from .screen import Screen
from .typed import Span, find_typed

PROMPT = "testpmd> "


@dataclass
class PortStats:
    """`show port stats`: what the driver counts."""

    rx_packets: int
    rx_missed: int
    rx_bytes: int
    rx_errors: int
    rx_nombuf: int
    tx_packets: int
    tx_errors: int
    tx_bytes: int


@dataclass
class ForwardStats:
    """`show fwd stats`: what testpmd's own forwarding loop counts."""

    rx_packets: int
    tx_packets: int
    tx_dropped: int


@dataclass
class ReceivedPacket:
    """One packet as rxonly with `set verbose 1` shows it."""

    port: int
    queue: int
    source: str
    destination: str
    ether_type: int
    length: int
    segments: int
    rss_hash: int | None = None
    mark: int | None = None
    metadata: int | None = None
    vlan_tci: int | None = None
    hw_ptype: list[str] = field(default_factory=list)
    sw_ptype: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)


class CommandRefused(AssertionError):
    """testpmd's answer to a command was not the expected one."""


class Testpmd:
    __test__ = False  # not a test class

    def __init__(self, program: Screen, startup_timeout: float = 40) -> None:
        self.program = program
        self._started = self._wait_for_typed(PROMPT, 0, startup_timeout)

    def _wait_for_typed(self, text: str, since: int, timeout: float) -> Span:
        return self.program.wait_until(lambda screen: find_typed(text, screen, since), repr(text),
                                       timeout)

    @property
    def startup(self) -> str:
        """The output before the first prompt."""
        return self.program.output[: self._started.start]

    # -- commands ---------------------------------------------------------------------------------

    def command(self, text: str, timeout: float = 15) -> str:
        """Runs one command; returns its answer, without echo and prompt."""
        return self.answers([text], timeout)[0]

    def expect(self, text: str, pattern: str, timeout: float = 15) -> re.Match[str]:
        """Runs a command whose answer must contain `pattern`."""
        return self.expect_all([text], [pattern], timeout)[0]

    def expect_all(self, texts: Sequence[str], patterns: Sequence[str],
                   timeout: float = 15) -> list[re.Match[str]]:
        """The same for several commands, run by `answers`."""
        matches = []
        for text, pattern, answer in zip(texts, patterns, self.answers(texts, timeout)):
            if not (match := re.search(pattern, answer)):
                raise CommandRefused(f"{text!r} should have said {pattern!r}, but said:\n{answer}")
            matches.append(match)
        return matches

    def answers(self, texts: Sequence[str], timeout: float = 15) -> list[str]:
        """The answers to several commands, which are typed all at once: waiting for each answer takes longer than
        most commands."""
        if not texts:
            return []
        position = self.program.send_line("\n".join(texts))
        answers = []
        for text in texts:
            echo = self._wait_for_typed(text + "\n", position, timeout)
            prompt = self._wait_for_typed(PROMPT, echo.end, timeout)
            answers.append(self.program.output[echo.end : prompt.start])
            position = prompt.start
        return answers

    def silent(self, *texts: str) -> None:
        """Runs commands that answer only when they fail."""
        for text, answer in zip(texts, self.answers(texts)):
            if re.search(r"(?i)fail|error|bad|invalid|cannot|not found|not supported", answer):
                raise CommandRefused(f"{text!r} was refused:\n{answer}")

    def start(self, mode: str = "", lossless: bool = False) -> None:
        """Starts forwarding. `lossless`: when a Tx ring is full, testpmd tries again (up to one
        second) instead of dropping the packets."""
        if lossless:
            self.silent("set burst tx delay 100 retry 10000")
            self.expect(f"set fwd {mode} retry", rf"Set {mode}.* with retry")
        elif mode:
            self.expect(f"set fwd {mode}", rf"Set {mode}")
        self.expect("start", "packet forwarding")

    def stop(self) -> str:
        return self.expect("stop", r"Done\.|Packet forwarding not started").string

    def start_port(self, port: int | str) -> None:
        answer = self.command(f"port start {port}", 30)
        if "Done" not in answer or re.search(r"(?i)fail", answer):
            raise CommandRefused(f"port {port} did not start:\n{answer}")

    def stop_port(self, port: int | str) -> None:
        self.expect(f"port stop {port}", r"Stopping ports\.\.\.(?s:.*)Done")

    def wait_until_removed(self, port: int, since: int, forwarding: bool, timeout: float = 20) -> None:
        """Waits until testpmd has handled a device that failed or was removed. It does so in a separate thread,
        without a lock: commands that close ports at that time would crash it. `forwarding`: it was
        forwarding, which it then resumes."""
        self.program.wait_for(rf"(?i)port {port}: device removal event", since, timeout)
        removed = r"Now total ports is \d+\nDone\n"
        again = r"(?s:.*)packet forwarding(?s:.*)TX RS bit threshold" if forwarding else ""
        self.program.wait_for(removed + again, since, timeout)

    def quit(self, timeout: float = 30) -> int:
        """Ends testpmd; returns its exit status."""
        if self.program.running():
            self.program.send_line("quit")
        return self.program.wait(timeout)

    # -- statistics -------------------------------------------------------------------------------

    def stats(self, port: int) -> PortStats:
        numbers = {
            name: int(value)
            for name, value in re.findall(
                r"([RT]X-[a-z]+):\s+(\d+)", self.command(f"show port stats {port}")
            )
        }
        return PortStats(
            rx_packets=numbers["RX-packets"],
            rx_missed=numbers["RX-missed"],
            rx_bytes=numbers["RX-bytes"],
            rx_errors=numbers["RX-errors"],
            rx_nombuf=numbers["RX-nombuf"],
            tx_packets=numbers["TX-packets"],
            tx_errors=numbers["TX-errors"],
            tx_bytes=numbers["TX-bytes"],
        )

    def xstats(self, port: int) -> dict[str, int]:
        answer = self.command(f"show port xstats {port}")
        return {name: int(value) for name, value in re.findall(r"(?m)^(\w+): (\d+)$", answer)}

    def clear_stats(self, port: int | str = "all") -> None:
        self.command(f"clear port stats {port}")
        self.command(f"clear port xstats {port}")

    def mbufs_in_use(self) -> int:
        """Mbufs in use of the pool of socket 0, without those in an lcore's cache."""
        answer = self.command("dump_mempool mb_pool_0")
        size = int(re.search(r"\bsize=(\d+)", answer)[1])  # type: ignore[index]
        free = int(re.search(r"common_pool_count=(\d+)", answer)[1])  # type: ignore[index]
        cached = re.search(r"total_cache_count=(\d+)", answer)
        return size - free - (int(cached[1]) if cached else 0)

    def check_mbufs(self) -> None:
        """Checks that all mbufs are back in the pool when all ports are stopped; then forwards again."""
        self.stop()
        self.stop_port("all")
        assert self.mbufs_in_use() == 0
        self.start_port("all")
        self.start("io", lossless=True)

    def change_mtu(self, port: int, mtu: int) -> None:
        """Stops forwarding and the port, changes its MTU, and starts the port again."""
        self.stop()
        self.stop_port(port)
        self.silent(f"port config mtu {port} {mtu}")
        self.start_port(port)

    def forward_stats(self) -> dict[int, ForwardStats]:
        """By port; ports on which nothing is forwarded are absent."""
        found = re.findall(
            r"Forward statistics for port (\d+).*\n\s+RX-packets: (\d+).*\n(?:.*\n)*?"
            r"\s+TX-packets: (\d+)\s+TX-dropped: (\d+)",
            self.command("show fwd stats all"),
        )
        return {
            int(port): ForwardStats(int(rx), int(tx), int(dropped))
            for port, rx, tx, dropped in found
        }

    def info(self, port: int) -> dict[str, str]:
        """`show port info` as key and value."""
        answer = self.command(f"show port info {port}")
        return dict(re.findall(r"(?m)^([A-Z][^:\n]+): (.*)$", answer))

    def rx_burst_mode(self, port: int, queue: int = 0) -> str:
        """The Rx function in use, as the driver's burst_mode_get names it."""
        return self.expect(f"show rxq info {port} {queue}", r"Burst mode: (.*)")[1].strip()

    def tx_burst_mode(self, port: int, queue: int = 0) -> str:
        return self.expect(f"show txq info {port} {queue}", r"Burst mode: (.*)")[1].strip()

    # -- RSS --------------------------------------------------------------------------------------

    def reta(self, port: int, size: int) -> list[int]:
        """The redirection table: queue of each entry."""
        # One mask per 64 entries; all ones are written as -1, as testpmd accepts only 128 characters.
        masks = ",".join(["-1"] * max(1, size // 64))
        answer = self.command(f"show port {port} rss reta {size} ({masks})")
        entries = {int(i): int(q) for i, q in re.findall(r"index=(\d+), queue=(\d+)", answer)}
        return [entries[index] for index in range(size)]

    def reta_size(self, port: int) -> int:
        return int(self.info(port)["Redirection table size"])

    def set_reta(self, port: int, queues: Sequence[int]) -> None:
        """Sets all entries."""
        pairs = [f"({index},{queue})" for index, queue in enumerate(queues)]
        self.silent(*(  # testpmd accepts lists of up to 128 characters
            f"port config {port} rss reta {','.join(pairs[start:start + 12])}"
            for start in range(0, len(pairs), 12)))
        assert self.reta(port, len(queues)) == list(queues)

    def rss_key(self, port: int) -> bytes:
        return bytes.fromhex(self.expect(f"show port {port} rss-hash key", r"RSS key:\n(\w+)")[1])

    # -- rte_flow ---------------------------------------------------------------------------------

    def create_flow(self, port: int, rule: str) -> int:
        """Returns the rule's number. `rule` is "ingress pattern … / end actions … / end"."""
        return self.create_flows(port, [rule])[0]

    def create_flows(self, port: int, rules: Sequence[str]) -> list[int]:
        """Creates many rules in much less time."""
        created = [r"Flow rule #(\d+) created"] * len(rules)
        commands = [f"flow create {port} {rule}" for rule in rules]
        return [int(match[1]) for match in self.expect_all(commands, created)]

    def validate_flow(self, port: int, rule: str) -> str:
        """Empty if the rule would be accepted, else the reason."""
        answer = self.command(f"flow validate {port} {rule}")
        return "" if "Flow rule validated" in answer else answer.strip()

    def refused_flow(self, port: int, rule: str) -> str:
        """Requires `validate` and `create` to refuse the rule for the same reason, which is returned."""
        answer = self.command(f"flow create {port} {rule}")
        if "created" in answer:
            raise CommandRefused(f"this rule should have been refused: {rule}")
        why, validated = answer.strip(), self.validate_flow(port, rule)
        if validated != why:
            raise CommandRefused(f"create says {why!r} of {rule}, validate {validated!r}")
        return why

    def destroy_flow(self, port: int, number: int) -> None:
        self.destroy_flows(port, [number])

    def destroy_flows(self, port: int, numbers: Sequence[int]) -> None:
        self.expect_all([f"flow destroy {port} rule {number}" for number in numbers],
                        [rf"Flow rule #{number} destroyed" for number in numbers])

    def query_count(self, port: int, number: int) -> tuple[int, int]:
        """Packets and bytes of a rule with a count action."""
        answer = self.expect(f"flow query {port} {number} count",
                             r"hits_set: 1\n *bytes_set: 1\n *hits: (\d+)\n *bytes: (\d+)")
        return int(answer[1]), int(answer[2])

    def flush_flows(self, port: int) -> None:
        answer = self.command(f"flow flush {port}").strip()
        if answer:
            raise CommandRefused(f"flow flush {port}: {answer}")

    # -- packets that rxonly shows ----------------------------------------------------------------

    def mark_output(self) -> int:
        """A position for `received`: packets shown from here on."""
        return len(self.program.output)

    def wait_for_link_event(self, port: int, since: int) -> None:
        self.program.wait_for(rf"(?i)port {port}: link state change event", since)

    def received(self, since: int, count: int, timeout: float = 10) -> list[ReceivedPacket]:
        """Waits until rxonly has shown `count` packets after `since`; returns all shown by then."""

        def enough(text: str) -> list[ReceivedPacket] | None:
            if len(_FLAGS.findall(text, since)) < count:
                return None
            return parse_received(text[since:])

        return self.program.wait_until(enough, f"packet {count} in rxonly", timeout)

    def received_so_far(self, since: int) -> list[ReceivedPacket]:
        """The packets shown completely after `since`, without waiting."""
        text = self.program.output[since:]
        ends = [match.end() for match in _FLAGS.finditer(text)]
        return parse_received(text[: ends[-1]]) if ends else []


_FLAGS = re.compile(r"ol_flags: [^\n]*\n")
_HEADER = re.compile(r"port (\d+)/queue (\d+): received (\d+) packets")
_PACKET = re.compile(
    r"src=(?P<src>[0-9A-F:]{17}) - dst=(?P<dst>[0-9A-F:]{17})(?: - pool=\S+)? - "
    r"type=0x(?P<type>[0-9a-f]+) - length=(?P<length>\d+) - nb_segs=(?P<segs>\d+)(?P<rest>[^\n]*)"
)


def parse_received(text: str) -> list[ReceivedPacket]:
    packets: list[ReceivedPacket] = []
    port = queue = -1
    for line in text.splitlines():
        if header := _HEADER.search(line):
            port, queue = int(header[1]), int(header[2])
        elif match := _PACKET.search(line):
            packets.append(_parse_packet(port, queue, match))
        elif packets and "ol_flags:" in line:
            packets[-1].flags = line.split("ol_flags:")[1].split()
    return packets


def _parse_packet(port: int, queue: int, match: re.Match[str]) -> ReceivedPacket:
    rest = match["rest"]

    def number(pattern: str, base: int) -> int | None:
        found = re.search(pattern, rest)
        return int(found[1], base) if found else None

    def words(pattern: str) -> list[str]:
        found = re.search(pattern, rest)
        return found[1].split() if found else []

    return ReceivedPacket(
        port=port,
        queue=queue,
        source=match["src"].lower(),
        destination=match["dst"].lower(),
        ether_type=int(match["type"], 16),
        length=int(match["length"]),
        segments=int(match["segs"]),
        rss_hash=number(r"RSS hash=0x([0-9a-f]+)", 16),
        mark=number(r"FDIR matched ID=0x([0-9a-f]+)", 16),
        metadata=number(r"Rx metadata: 0x([0-9a-f]+)", 16),
        vlan_tci=number(r"VLAN tci=0x([0-9a-f]+)", 16),
        hw_ptype=words(r"hw ptype: ([A-Z0-9_ ]+)"),
        sw_ptype=words(r"sw ptype: ([A-Z0-9_ ]+)"),
    )
