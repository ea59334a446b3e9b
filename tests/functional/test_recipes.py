# SPDX-License-Identifier: BSD-3-Clause
"""The recipes of the driver guide work as written."""

import os
import re
import shlex
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator, Sequence

import pytest
from rig.guide import commands, recipe
from rig.packets import BROADCAST, ether, opaque, port_mac, tcp4, tcp6, udp4, udp6
from rig.ports import lossless
from rig.program import Program
from rig.stack import OWN_NETWORK, Build, SoftHca
from rig.wire import padded
from scapy.layers.inet import IP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet

from functional.conftest import StartSoftHca, StartStack

MTU = 9000
NOT_OURS = {"ASAN_OPTIONS": "detect_leaks=0"}  # for leaks of Debian's programs
OVS_PACKAGES = ["openvswitch-common", "openvswitch-switch", "openvswitch-switch-dpdk"]


@pytest.mark.guest
def test_attach_and_detach(start_stack: StartStack) -> None:
    """Twice, so nothing is left behind that would interfere."""
    stack = start_stack(3, attach=2)
    for _ in range(2):
        for line in commands(recipe("Device arguments", "testpmd> port attach")):
            command = line.removeprefix("testpmd> ")
            if command.startswith("port start"):
                stack.testpmd.start_port(command.split()[-1])
            else:
                stack.testpmd.expect(command, r"is attached|is detached|Done")
        stack.testpmd.expect("show port summary all", "Number of available ports: 2")


def run(folder: Path, *lines: str) -> None:
    """Shell commands that must succeed."""
    result = subprocess.run(["sh", "-ec", "\n".join(lines)], cwd=folder, capture_output=True,
                            text=True, timeout=300)
    assert result.returncode == 0, f"{lines}:\n{result.stdout}{result.stderr}"


def test_l3fwd(start_softhca: StartSoftHca, build: Build) -> None:
    folder = build.folder / "recipes/l3fwd"  # kept, for the next run
    folder.mkdir(parents=True, exist_ok=True)
    *preparations, program = commands(recipe("l3fwd"))
    run(folder, *preparations)
    words = shlex.split(program)
    hca = start_softhca(lossless(2), [str(folder / words[0]), *words[1:]], env=NOT_OURS)
    hca.program.wait_for("entering main loop on lcore 1", timeout=60)
    for source, way_out in ((0, 1), (1, 0), (0, 0)):
        frame = udp4(bytes(100), destination=port_mac(source), destination_ip=f"198.18.{way_out}.7")
        hca.wires[source].send(frame)
        routed = Ether(hca.wires[way_out].receive())
        assert routed[IP].dst == f"198.18.{way_out}.7"
        assert routed[IP].ttl == Ether(bytes(frame))[IP].ttl - 1
    hca.program.signal(2)
    assert hca.program.wait(30) == 0


@pytest.fixture(scope="module")
def ovs_files(build: Build) -> Path:
    """Open vSwitch's packages unpacked: installed, they would start its daemons on this machine."""
    folder = build.folder / "recipes/openvswitch"
    if not (folder / "usr").exists():
        folder.mkdir(parents=True, exist_ok=True)
        run(folder, f"apt-get download {' '.join(OVS_PACKAGES)}",
            'for package in *.deb; do dpkg-deb -x "$package" unpacked; done',
            "mv unpacked/usr usr")
    return folder / "usr"


class OpenVSwitch:
    """ovsdb-server and ovs-vswitchd, with softhca under the latter, in their own network namespace."""

    def __init__(self, hca: SoftHca, files: Path, folder: Path, env: dict[str, str]) -> None:
        self.wires = hca.wires
        self.program = hca.program
        self._folder = folder
        self._path = f"{files / 'bin'}:{os.environ['PATH']}"
        self._env = env

    def ask(self, command: str) -> str:
        """Sends a command to ovs-vswitchd itself."""
        control, = self._folder.glob("ovs-vswitchd*.ctl")
        return self.run(f"ovs-appctl -t {control} {command}")

    def run(self, command: str) -> str:
        result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=90,
                                env={**os.environ, **self._env, "PATH": self._path})
        assert result.returncode == 0, f"{command}: {result.stderr}"
        return result.stdout.strip()


@contextmanager
def open_vswitch(start_softhca: StartSoftHca, files: Path, folder: Path) -> Iterator[OpenVSwitch]:
    env = {name: str(folder) for name in ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR")}
    schema = files / "share/openvswitch/vswitch.ovsschema"
    database = folder / "conf.db"
    run(folder, f"{files}/bin/ovsdb-tool create {database} {schema}")
    server = Program([f"{files}/sbin/ovsdb-server", str(database),
                      f"--remote=punix:{folder}/db.sock"], folder / "ovsdb.log", env)
    try:
        hca = start_softhca(
            lossless(2),
            [f"{files}/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", f"unix:{folder}/db.sock"],
            env=env | NOT_OURS, prefix=OWN_NETWORK)
        switch = OpenVSwitch(hca, files, folder, env)
        switch.run("ovs-vsctl --retry --timeout=60 list-br")  # the database may not exist yet
        yield switch
    finally:
        server.close()


def test_open_vswitch(start_softhca: StartSoftHca, ovs_files: Path,
                      new_folder: Callable[[], Path]) -> None:
    """Its ports forward, including jumbo frames once it has raised their MTU."""
    with open_vswitch(start_softhca, ovs_files, new_folder()) as ovs:
        for command in commands(recipe("Open vSwitch")):
            ovs.run(command)
        for port in ("p0", "p1"):
            # ovs-vsctl returns when OVS is configured, which may be before it has published the MTU.
            ovs.run(f"ovs-vsctl --timeout=60 wait-until Interface {port} mtu={MTU}")
            assert ovs.run(f"ovs-vsctl --bare get Interface {port} error") in ("", "[]")
        for size in (60, 1514, MTU + 14):
            frame = opaque(size, seed=size)
            ovs.wires[0].send(frame)
            assert ovs.wires[1].receive() == frame


# For each of our OpenFlow rules: packets that turn it into a megaflow, and OVS's name for its actions.
MEGAFLOWS: dict[str, tuple[list[Packet], str]] = {
    "udp,nw_dst=10.0.0.2,tp_dst=53,actions=output:p1": ([udp4(bytes(30), dport=53)], "p1"),
    "tcp,nw_src=10.0.0.1,actions=drop": ([tcp4()], "drop"),
    "ipv6,ipv6_dst=fd00::2,actions=output:p1": ([udp6(), tcp6()], "p1"),
    "arp,actions=output:p1": ([ether() / ARP(pdst="10.0.0.9")], "p1"),
    "dl_type=0x88b5,dl_src=02:aa:00:00:00:01,actions=output:p1": ([opaque(60, 1)], "p1"),
}
PACKETS = 40  # of each megaflow


def packets_of(ovs: OpenVSwitch, actions: str, offloaded: bool = True) -> int | None:
    """The number of packets that OVS counts for the only megaflow, once the device matches it, or while it does
    not."""
    flows = ovs.ask("dpctl/dump-flows -m type=all")
    flow = re.search(r"packets:(\d+), .*actions:(\S+?)(, |\n)", flows + "\n")
    if flow is None or flow[2] != actions or ("offloaded:partial" in flows) != offloaded:
        return None
    assert flows.count("ufid:") == 1, flows
    return int(flow[1])


def thread_counter(ovs: OpenVSwitch, name: str) -> int:
    """A counter of the threads that poll the ports."""
    return sum(map(int, re.findall(rf"{name}: (\d+)", ovs.ask("dpif-netdev/pmd-stats-show"))))


def wait_handled(ovs: OpenVSwitch, packets: int) -> None:
    """Waits until all are received, and then for an iteration without packets: the thread counts a burst as
    received before it looks up its packets, and counts them for their megaflow last."""
    deadline = time.monotonic() + 20
    while thread_counter(ovs, "packets received") < packets:
        assert time.monotonic() < deadline, ovs.ask("dpif-netdev/pmd-stats-show")
    idle = thread_counter(ovs, "idle cycles")
    while thread_counter(ovs, "idle cycles") == idle:
        assert time.monotonic() < deadline, ovs.ask("dpif-netdev/pmd-stats-show")


@contextmanager
def bridge(start_softhca: StartSoftHca, files: Path, folder: Path) -> Iterator[OpenVSwitch]:
    """The recipe's bridge between p0 and p1, with hw-offload."""
    with open_vswitch(start_softhca, files, folder) as ovs:
        for start in "ovs-vsctl set Open_vSwitch . ", "":
            for command in commands(recipe("Open vSwitch", start)):
                ovs.run(command)
        yield ovs


def send_all(ovs: OpenVSwitch, rule: str, frames: Sequence[Packet], actions: str, offloaded: bool = True) -> int:
    """Sends frames to p0, for which this is the only OpenFlow rule: OVS counts all, and recognizes those of an
    offloaded megaflow by their mark. Returns their number."""
    ovs.run("ovs-ofctl del-flows br0")
    ovs.run(f"ovs-ofctl add-flow br0 in_port=p0,{rule}")
    ovs.ask("revalidator/purge")
    before = sent = thread_counter(ovs, "packets received")
    deadline = time.monotonic() + 20
    while packets_of(ovs, actions, offloaded) is None:  # the first packets create it
        assert time.monotonic() < deadline, ovs.ask("dpctl/dump-flows -m type=all")
        ovs.wires[0].send(frames[0])
        sent += 1
    wait_handled(ovs, sent)
    hits, counted = thread_counter(ovs, "phwol hits"), packets_of(ovs, actions, offloaded)
    assert counted is not None
    ovs.wires[0].send_all(frames[at % len(frames)] for at in range(PACKETS))
    sent += PACKETS
    wait_handled(ovs, sent)
    assert packets_of(ovs, actions, offloaded) == counted + PACKETS
    assert thread_counter(ovs, "phwol hits") == hits + (PACKETS if offloaded else 0), rule
    return sent - before


def test_open_vswitch_offloads(start_softhca: StartSoftHca, ovs_files: Path,
                               new_folder: Callable[[], Path]) -> None:
    """Megaflows of L2, L3 and L4 become rules."""
    with bridge(start_softhca, ovs_files, new_folder()) as ovs:
        for rule, (frames, actions) in MEGAFLOWS.items():
            sent = send_all(ovs, rule, frames, actions)
            if actions != "drop":
                for _ in range(sent):
                    ovs.wires[1].receive()
            else:  # it has requested more, and was refused
                assert re.search("flow create 0 .*transfer .*count / drop /", ovs.program.output)


# To br0, which is OVS's own port, and p1. OVS's switching looks at the addresses, so that its megaflows match them.
FLOODED = {
    "actions=flood": (udp4(dport=53, destination=BROADCAST), True),
    "actions=normal": (udp4(dport=53, destination=BROADCAST), False),
    "arp,actions=normal": (ether(BROADCAST) / ARP(pdst="10.0.0.9"), False),
    "udp,actions=normal": (udp4(dport=53, destination="01:00:5e:00:00:05"), False),
}


def test_open_vswitch_floods(start_softhca: StartSoftHca, ovs_files: Path, new_folder: Callable[[], Path]) -> None:
    """Only megaflows for addresses of groups do not become rules, as the recipe says. In either case OVS loses and
    doubles none of their packets."""
    with bridge(start_softhca, ovs_files, new_folder()) as ovs:
        for rule, (frame, offloaded) in FLOODED.items():
            for _ in range(send_all(ovs, rule, [frame], "br0,p1", offloaded)):
                assert ovs.wires[1].receive() == padded(frame)
        assert "item eth: matches multicast" in ovs.program.output
