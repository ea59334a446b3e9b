# SPDX-License-Identifier: BSD-3-Clause
"""Telemetry of a port: the driver's own commands, and ethdev's."""

import time
from contextlib import ExitStack, closing
from typing import Iterator

import pytest
from rig.guide import GUIDE
from rig.packets import numbered
from rig.ports import port_mac
from rig.stack import Stack
from rig.telemetry import Telemetry, own_prefix

from functional.conftest import OpenStack

COMMANDS = ["device", "events", "flows", "list", "mrs", "queues", "rxq", "txq"]
FRAMES = 50


class Watched:
    """A lossless port with two queues in each direction, and the telemetry of its program."""

    def __init__(self, open_stack: OpenStack, stacks: ExitStack, datapath: str, name: str) -> None:
        prefix = own_prefix(f"telemetry-{name}")
        eal = ["--telemetry", f"--file-prefix={prefix}"]
        queues = ["--rxq=2", "--txq=2", "--rxd=128", "--txd=64"]
        self.stack: Stack = stacks.enter_context(
            open_stack(1, datapath=datapath, eal_args=eal, testpmd_args=queues))
        self.testpmd = self.stack.testpmd
        self.ask = stacks.enter_context(closing(Telemetry(prefix))).ask

    def forward(self) -> None:
        """Forwards frames into the port and out again."""
        self.testpmd.start("io")
        self.stack.wires[0].transfer(numbered(FRAMES), to=self.stack.wires[0])


@pytest.fixture(scope="module")
def watched(open_stack: OpenStack) -> Iterator[Watched]:
    with ExitStack() as stacks:
        yield Watched(open_stack, stacks, "mlx5", "module")


def test_every_command_has_help(watched: Watched) -> None:
    own = [command for command in watched.ask("/") if command.startswith("/rawqp/")]
    assert own == [f"/rawqp/{name}" for name in COMMANDS]
    guide = GUIDE.read_text()
    for command in own:
        assert f"``{command}``; " in guide
        help_text = watched.ask("/help", command)[command]
        assert "arameters: " in help_text or "No parameters" in help_text


def test_mistakes(watched: Watched) -> None:
    for command in ("device", "device,7", "device,0,0", "device,x", "device,70000", "rxq,0",
                    "rxq,0,2", "txq,0,,1", "mrs,", "queues", "queues,0,0,0"):
        name, *parameters = command.split(",")
        assert watched.ask(f"/rawqp/{name}", *parameters) is None, command


def test_states_of_more_queues_than_an_answer_has_room_for(open_stack: OpenStack) -> None:
    prefix = own_prefix("telemetry-many")
    count = 600
    with ExitStack() as stacks:
        stacks.enter_context(open_stack(
            1, eal_args=["--telemetry", f"--file-prefix={prefix}"],
            testpmd_args=["--rxq=1", f"--txq={count}", "--txd=64"]))
        ask = stacks.enter_context(closing(Telemetry(prefix))).ask
        assert ask("/rawqp/queues", 0) == {"rx": ["running"], "tx": ["running"] * 512}
        assert ask("/rawqp/queues", "0,500") == {"rx": [], "tx": ["running"] * (count - 500)}
        assert ask("/rawqp/queues", f"0,{count}") == {"rx": [], "tx": []}


def test_memory_rules_and_events(watched: Watched) -> None:
    memory = watched.ask("/rawqp/mrs", 0)
    assert memory["regions"] == len(memory["list"]) > 0
    assert memory["bytes"] > 8192 * 2048 and memory["retired"] == 0  # testpmd's pool

    empty = watched.ask("/rawqp/flows", 0)
    assert empty["rules"] == empty["device_rules"] == 0
    watched.testpmd.expect("flow create 0 ingress pattern eth / ipv4 / udp / end "
                           "actions drop / count / end", "Flow rule #0 created")
    rules = watched.ask("/rawqp/flows", 0)
    assert rules["rules"] == rules["counting_rules"] == 1 and rules["device_rules"] >= 1
    watched.testpmd.expect("flow flush 0", "")
    assert watched.ask("/rawqp/flows", 0) == empty

    before = watched.ask("/rawqp/events", 0)
    watched.stack.set_link(0, False)
    watched.stack.set_link(0, True)
    deadline = time.monotonic() + 10
    while (now := watched.ask("/rawqp/events", 0))["link_up"] == before["link_up"]:
        assert time.monotonic() < deadline, now
    assert now["link_down"] == before["link_down"] + 1
    assert now["device_fatal"] == now["cq_errors"] == 0


def test_what_ethdev_tells(watched: Watched) -> None:
    """All commands of DPDK 22.11, against the values of testpmd and the device."""
    watched.forward()
    watched.testpmd.stop()
    assert watched.ask("/ethdev/list") == [0]
    stats = watched.ask("/ethdev/stats", 0)
    port = watched.testpmd.stats(0)
    assert (stats["ipackets"], stats["opackets"], stats["obytes"]) == (
        port.rx_packets, port.tx_packets, port.tx_bytes)
    assert sum(stats["q_ipackets"]) == stats["ipackets"] == FRAMES
    xstats = watched.ask("/ethdev/xstats", 0)
    assert xstats == watched.testpmd.xstats(0)
    assert xstats["rx_good_packets"] == FRAMES and xstats["rx_out_of_buffer"] == 0
    link = watched.ask("/ethdev/link_status", 0)
    assert link["status"] == "UP" and link["speed"] == 100_000
    info = watched.ask("/ethdev/info", 0)
    assert info["name"] == "net_rawqp0" and info["dev_started"] == 1
    assert (info["nb_rx_queues"], info["nb_tx_queues"]) == (2, 2)
    assert info["mac_addr"].lower() == port_mac(0)
    dump = watched.ask("/ethdev/dump_priv", 0)
    assert "rxq 0     running, 128 descriptors" in dump and f"; {FRAMES} packets" in dump
    assert watched.ask("/ethdev/module_eeprom", 0)["Vendor name"] == "softhca"


def test_the_life_of_a_port(datapath: str, open_stack: OpenStack) -> None:
    with ExitStack() as stacks:
        watched = Watched(open_stack, stacks, datapath, datapath)
        ask, testpmd = watched.ask, watched.testpmd
        assert ask("/rawqp/list") == [0]
        device = ask("/rawqp/device", 0)
        assert device["name"] == "net_rawqp0" and device["rdma_device"] == "mlx5_0"
        assert device["datapath"] == datapath and device["running"] == "yes"
        bursts = device["rx_burst"], device["tx_burst"]  # by the same names everywhere
        assert bursts == (testpmd.rx_burst_mode(0), testpmd.tx_burst_mode(0))
        assert "  bursts    rx {}, tx {}\n".format(*bursts) in ask("/ethdev/dump_priv", 0)
        assert bursts[0].startswith(datapath)
        assert ("work requests" in bursts[1]) == (datapath == "verbs")
        assert ask("/rawqp/queues", 0) == {"rx": ["running"] * 2, "tx": ["running"] * 2}
        fresh = ask("/rawqp/rxq", 0, 0)
        assert fresh["descriptors"] == 128 and fresh["ring"]["wqes_posted"] == 128

        watched.forward()
        received = [ask("/rawqp/rxq", 0, queue) for queue in range(2)]
        assert sum(queue["packets"] for queue in received) == FRAMES
        assert sum(queue["bytes"] for queue in received) == ask("/ethdev/stats", 0)["ibytes"]
        assert sum(queue["ring"]["wqe_consumer"] for queue in received) == FRAMES
        assert all(queue["pool"].startswith("mb_pool_") for queue in received)
        sent = [ask("/rawqp/txq", 0, queue) for queue in range(2)]
        assert sum(queue["packets"] for queue in sent) == FRAMES
        for queue in sent:
            assert queue["ring"]["segments_held"] + queue["ring"]["segments_room"] == 64

        testpmd.stop()
        testpmd.command("clear port stats 0")
        assert sum(ask("/rawqp/rxq", 0, queue)["packets"] for queue in range(2)) == 0
        testpmd.stop_port(0)
        assert ask("/rawqp/queues", 0) == {"rx": ["stopped"] * 2, "tx": ["stopped"] * 2}
        assert ask("/rawqp/device", 0)["running"] == "no"

        testpmd.expect("port detach 0", "Device is detached")
        assert ask("/rawqp/list") == [] and ask("/rawqp/device", 0) is None
        testpmd.expect(f"port attach {watched.stack.vdev(0)}", "Port 0 is attached")
        assert ask("/rawqp/list") == [0]
        assert ask("/rawqp/queues", 0) == {"rx": [], "tx": []}
