# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's dpdk-test-flow-perf inserts and deletes rules with all items and actions that it has in common with
the driver's guide, at a cost that does not depend on how many there are: in instructions, and in time for 100,000."""

import re
import subprocess
from pathlib import Path
from typing import Callable, Sequence

import pytest
from rig.callgrind import counting, of_main_thread, skip_without_valgrind
from rig.ports import lossless
from rig.stack import DRIVER

from functional.conftest import StartSoftHca

LATER_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}  # dpdk-test-flow-perf does not close its ports

FlowPerf = Callable[..., str]


@pytest.fixture
def flow_perf(start_softhca: StartSoftHca) -> FlowPerf:
    """flow_perf(options, rules=…, devargs=…, deletes=…): inserts rules and deletes them; returns its
    output."""

    def run(options: Sequence[str], rules: int = 64, devargs: str = "", deletes: bool = True) -> str:
        eal = ["--lcores", "0,1", "--no-huge", "-m", "512", "--no-shconf", "--no-telemetry",
               "--no-pci", "-d", DRIVER, "--vdev", f"net_rawqp0,device=mlx5_0{devargs}"]
        counts = [f"--rules-count={rules}", f"--rules-batch={min(rules, 10000)}",
                  *(["--deletion-rate"] if deletes else [])]
        hca = start_softhca(lossless(1), ["dpdk-test-flow-perf", *eal, "--", *counts, *options],
                            env=LATER_LEAKS)
        status, output = hca.program.wait(120), hca.program.output
        done = "Total deletion rate" if deletes else "Total flows insertion rate"
        assert status == 0 and done in output, output[-3000:]
        return output

    return run


MAC = "--set-src-mac --set-dst-mac"
RULES = [
    "--ingress --ether --ipv4 --queue",
    "--ingress --ether --vlan --ipv4 --tcp --queue --mark",
    "--ingress --ether --ipv6 --udp --rss --flag",
    "--ingress --ether --ipv4 --udp --vxlan --drop",
    "--ingress --ether --ipv4 --udp --vxlan-gpe --queue",
    "--ingress --ether --ipv4 --gre --queue",
    "--ingress --ether --ipv4 --udp --geneve --queue",
    "--ingress --ether --ipv4 --udp --gtp --queue",
    "--ingress --ether --ipv4 --icmpv4 --queue",
    "--ingress --ether --ipv6 --icmpv6 --queue",
    "--ingress --ether --ipv4 --count --queue",
    f"--ingress --ether --ipv4 --tcp {MAC} --set-src-ipv4 --set-dst-ipv4 --set-src-tp --set-dst-tp --queue",
    f"--egress --ether --ipv4 --tcp {MAC} --set-src-ipv4 --set-dst-ipv4 --set-src-tp --set-dst-tp",
    "--ingress --ether --ipv6 --tcp --set-src-ipv6 --set-dst-ipv6 --set-ipv6-dscp --set-ttl --queue",
    "--ingress --ether --ipv4 --tcp --inc-tcp-ack --inc-tcp-seq --queue --unique-data",
    "--ingress --ether --ipv4 --tcp --dec-tcp-ack --dec-tcp-seq --dec-ttl --set-ipv4-dscp --queue",
    "--ingress --ether --ipv4 --udp --vxlan --vxlan-decap --queue",
    "--ingress --ether --ipv4 --udp --vxlan --raw-decap=ether,ipv4,udp,vxlan --queue",
    "--egress --ether --ipv4 --vxlan-encap",
    "--egress --ether --ipv4 --raw-encap=ether,ipv4,udp,vxlan",
    "--ingress --ether --ipv4 --queue --random-priority=3,7",
    "--ingress --ether --ipv4 --set-tag --set-meta --jump",
    "--ingress --group=1 --ether --ipv4 --tag --meta --queue",
    "--egress --ether --ipv4 --meta --drop",
]


@pytest.mark.parametrize("rules", RULES)
def test_rules_go_in_and_out(flow_perf: FlowPerf, rules: str) -> None:
    flow_perf(rules.split())


METERED = "--ingress --ether --ipv4 --meter --policy-mtr=::drop --queue"
NOT_OFFERED = {"port-id", "hairpin-queue", "hairpin-rss"}  # for a switch, and for hairpin queues


def test_no_item_and_no_action_is_left_out() -> None:
    eal = ["--lcores", "0", "--no-huge", "-m", "64", "--no-shconf", "--no-telemetry", "--no-pci", "--vdev", "net_null0"]
    shown = subprocess.run(["dpdk-test-flow-perf", *eal, "--", "--help"], capture_output=True, text=True, timeout=60)
    of_rules = shown.stdout[shown.stdout.index("To set flow items:"):]
    known = {*re.findall(r"(?m)^ +--([a-z0-9-]+)", of_rules)}
    used = {*re.findall(r"--([a-z0-9-]+)", " ".join([*RULES, METERED]))}
    assert len(known) > 40 and known - used == NOT_OFFERED


@pytest.mark.parametrize("options", ["", "--packet-mode --meter-profile=1000,100,0"])
def test_metered_rules_go_in(flow_perf: FlowPerf, options: str) -> None:
    """Without deletes: the program would delete the policy before the meters that use it, and again at its end."""
    assert "Meter create" in flow_perf([*METERED.split(), *options.split()], deletes=False)


def instructions(start_softhca: StartSoftHca, folder: Path, engine: str, rules: int) -> int:
    """Of inserting so many rules and deleting them: the driver's, libmlx5's, and those of softhca's kernel."""
    out = folder / f"{rules}"
    of_rules = ["--collect-atstart=no", "--toggle-collect=rte_flow_create", "--toggle-collect=rte_flow_destroy"]
    eal = ["--lcores", "0,1", "--no-huge", "-m", "512", "--no-shconf", "--no-telemetry", "--no-pci", "-d", DRIVER,
           "--vdev", f"net_rawqp0,device=mlx5_0,flow_engine={engine}"]
    options = [f"--rules-count={rules}", f"--rules-batch={rules}", "--deletion-rate", "--ingress", "--ether", "--ipv4",
               "--queue"]
    hca = start_softhca(lossless(1), [*counting(out, *of_rules), "dpdk-test-flow-perf", *eal, "--", *options])
    assert hca.program.wait(300) == 0, hca.program.output
    return of_main_thread(out)


@pytest.mark.thorough
@pytest.mark.unsanitized  # valgrind does not work with sanitizers
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["verbs", "mlx5"])
def test_later_rules_cost_what_the_first_did(start_softhca: StartSoftHca, new_folder: Callable[[], Path],
                                             engine: str) -> None:
    """Whatever else the machine does. A search of all rules, be it of one instruction each, would cost more than
    the limit allows; the trees that keep rules cost 2 % from the first thousand to the fourth."""
    skip_without_valgrind()
    folder = new_folder()
    first, some, many = (instructions(start_softhca, folder, engine, rules) for rules in (1000, 2000, 4000))
    assert (many - some) / 2000 <= 1.05 * first / 1000, (first, some, many)


@pytest.mark.unsanitized
@pytest.mark.parametrize("engine", ["verbs", "mlx5"])
def test_the_last_of_100000_rules_costs_what_the_first_did(flow_perf: FlowPerf, engine: str) -> None:
    """A cost that grows with the number would be some twenty times higher; the margin is for a busy machine."""
    shown = flow_perf(["--ingress", "--ether", "--ipv4", "--queue", "--dump-iterations"], 100_000,
                      f",flow_engine={engine}")
    batches = [float(text) for text in re.findall(r"batch #\d+: 10000 rules in ([\d.]+) sec", shown)]
    for seconds in batches[:10], batches[10:]:  # insertion, deletion
        assert len(seconds) == 10 and min(seconds[-4:]) < 8 * min(seconds[:4]), shown
