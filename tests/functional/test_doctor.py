# SPDX-License-Identifier: BSD-3-Clause
"""rawqp-doctor on devices with one broken link: it names that link, the consequences, and how to fix it.
Cases that only other machines could show are in tests/unit/diagnosis."""

import json
import os
import re
import shutil
import subprocess
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import pytest
from rig.guide import recipe
from rig.launched import DRIVER, launcher_env
from rig.launcher import LITTLE_LOCKED, UNPRIVILEGED
from rig.ports import pci_address
from rig.stack import Build, PortSpec
from rig.testpmd import Testpmd

from functional.conftest import StartSoftHca

# Sanitizers do not work where files or rights are missing; the unit tests of the checks run with sanitizers.
pytestmark = pytest.mark.unsanitized


class Walk:
    """The doctor's findings."""

    def __init__(self, status: int, output: str) -> None:
        self.status = status
        self.text = output
        start = output.find("{")
        self.report: dict[str, Any] = json.loads(output[start:]) if start >= 0 else {}
        self.findings: dict[str, dict[str, str]] = {
            each["id"]: each for each in self.report.get("findings", [])
        }

    def states(self, state: str) -> list[str]:
        return [name for name, each in self.findings.items() if each["state"] == state]


def doctor_of(build: Build) -> str:
    return str(build.folder / "app/rawqp-doctor/rawqp-doctor")


Doctor = Callable[..., Walk]


@pytest.fixture
def doctor(build: Build, start_softhca: StartSoftHca) -> Doctor:
    """doctor(port options, *arguments) runs rawqp-doctor under softhca."""

    def examine(
        options: Mapping[str, str] | None = None,
        *arguments: str,
        wire: str = "loop",
        softhca: Sequence[str] = (),
        prefix: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Walk:
        program = [doctor_of(build), *arguments]
        ports = [PortSpec(wire=wire, options=options or {})]
        hca = start_softhca(ports, program, options=softhca, prefix=prefix, env=env)
        return Walk(hca.program.wait(60), hca.program.output)

    return examine


def test_names_that_are_no_utf8(build: Build) -> None:
    """The name of another process, say, which the kernel cuts after 15 bytes."""
    done = subprocess.run([doctor_of(build), "--json", "--device", b"mlx5_\xc3"], stdout=subprocess.PIPE, check=False)
    walk = Walk(done.returncode, done.stdout.decode())
    assert walk.status == 1 and walk.report["device"] == "mlx5_\N{REPLACEMENT CHARACTER}"


def test_a_healthy_device(doctor: Doctor) -> None:
    walk = doctor({}, "--json")
    assert walk.status == 0 and walk.report["healthy"] and walk.report["first_broken"] is None
    assert walk.report["device"] == "mlx5_0"
    assert walk.states("broken") == walk.states("skipped") == walk.states("unknown") == []
    assert "soft0" in walk.findings["netdev"]["evidence"]
    assert "100000 Mbit/s, MTU 1500" in walk.findings["port"]["evidence"]
    assert "no memory of its own" in walk.findings["device"]["evidence"]


def test_text_for_people(doctor: Doctor) -> None:
    """The first broken link is marked; each broken one has its cause and its remedy."""
    walk = doctor({"fault": "create_flow:ENOMEM,reg_mr:ENOMEM"})
    assert walk.status == 1
    lines = walk.text.splitlines()
    marked = [line for line in lines if "the first broken link" in line]
    assert len(marked) == 1 and re.match(r"BROKEN\s+registration", marked[0])
    assert len([line for line in lines if line.startswith("BROKEN")]) == 2
    assert len([line for line in lines if re.match(r"\s+remedy ", line)]) >= 2
    assert re.search(r"(?m)^broken: registration, flow\s*$", walk.text)
    healthy = doctor()
    assert "no link is broken: --no-pci --vdev net_rawqp0,device=mlx5_0" in healthy.text


def test_the_guide_shows_what_is_printed(doctor: Doctor) -> None:
    """Line by line, except those left out, and with this machine's paths and library versions."""
    shown = {
        "ok       nic": doctor(),
        "ok       uverbs-node    /dev/infiniband/uverbs0, mode 0666, group root\n…\nBROKEN   cap":
            doctor(softhca=["--enforce"], prefix=[*LITTLE_LOCKED, *UNPRIVILEGED]),
        "ok       uverbs-node    /dev/infiniband/uverbs0, mode 0666, group root\n…\nBROKEN   prov":
            doctor(prefix=in_mounts(NO_PROVIDER)),
        "BROKEN   port": doctor(wire="link:nobody"),
    }
    for start, walk in shown.items():
        for line in recipe("rawqp-doctor", start).splitlines():
            pattern = re.sub(r"rdmav\d+|/usr/lib/[\w.\\/-]+", lambda _: r"\S+", re.escape(line))
            assert line == "…" or re.search(rf"(?m)^{pattern}\s*$", walk.text), (line, walk.text)


@dataclass
class Break:
    """How a link is broken, and what the doctor reports about it."""

    link: str
    said: str  # found in evidence, cause or remedy
    faults: str = ""
    wire: str = "loop"
    prefix: Sequence[str] = ()
    options: Sequence[str] = ()
    skipped: Sequence[str] = field(default=())  # links skipped because of it


def in_mounts(script: str) -> list[str]:
    """A prefix for a program that sees files differently."""
    user = ["--map-root-user"] if os.getuid() else []
    return ["unshare", *user, "--mount", "bash", "-ec", f'{script}\nexec "$@"', "mounts"]


NO_PROVIDER = (
    "for folder in /usr/lib/*/libibverbs; do mount -t tmpfs none $folder; done\n"
    "for file in /usr/lib/*/libmlx5.so.1; do mount --bind /dev/null $file; done"
)
NO_LIBRARY = "for file in /usr/lib/*/libibverbs.so.1; do mount --bind /dev/null $file; done"
TRIALS = ["port", "registration", "raw-packet", "work-queue", "rss", "flow", "interrupts", "offloads"]

BREAKS = {
    "node": Break("uverbs-node", "no permission for /dev/infiniband/uverbs0", "open:EACCES",
                  skipped=["in-use", "device", *TRIALS]),
    "cgroup of devices": Break("uverbs-node", "DeviceAllow=/dev/infiniband/uverbs0", "open:EPERM",
                             skipped=["in-use", "device", *TRIALS]),
    "provider": Break("provider", "apt install ibverbs-providers", prefix=in_mounts(NO_PROVIDER),
                      skipped=["device", *TRIALS]),
    "provider of another release": Break(
        "provider", "of different releases",
        prefix=in_mounts(f"{NO_PROVIDER}\ntouch $folder/libmlx5-rdmav99.so"),
        skipped=["device", *TRIALS]),
    "library": Break("libibverbs", "apt install libibverbs1", prefix=in_mounts(NO_LIBRARY),
                     skipped=["provider", "device", *TRIALS]),
    "capability": Break("capability", "setcap cap_net_raw", prefix=UNPRIVILEGED,
                        options=["--enforce"], skipped=["raw-packet", "rss", "flow"]),
    "memlock": Break("memlock", "ulimit -l", options=["--enforce"],
                     prefix=LITTLE_LOCKED),
    "device": Break("device", "the kernel does not open mlx5_0", "get_context:EIO", skipped=TRIALS),
    "carrier": Break("port", "the cable is unplugged", wire="link:nobody"),
    "registration": Break("registration", "too little memory", "reg_mr:ENOMEM"),
    "raw packets": Break("raw-packet", "refuses RAW_PACKET QPs", "create_qp:EOPNOTSUPP",
                         skipped=["rss", "flow"]),
    "work queue": Break("work-queue", "no receive WQ", "create_wq:EINVAL", skipped=["rss", "flow"]),
    "rss": Break("rss", "no RSS table", "create_rwq_ind_tbl:ENOMEM", skipped=["flow"]),
    "flow": Break("flow", "eswitch", "create_flow:EOPNOTSUPP"),
    "interrupts": Break("interrupts", "ulimit -n", "create_comp_channel:EMFILE"),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_broken_link(doctor: Doctor, what: str) -> None:
    broken = BREAKS[what]
    if broken.link == "capability" and os.getuid() != 0:
        assert not UNPRIVILEGED  # the user has no rights to lose
    options = {"fault": broken.faults} if broken.faults else {}
    walk = doctor(options, "--json", wire=broken.wire, softhca=broken.options,
                  prefix=broken.prefix)
    assert walk.status == 1
    assert walk.report["first_broken"] == broken.link, walk.text
    finding = walk.findings[broken.link]
    assert finding["state"] == "broken" and finding["cause"] and finding["remedy"]
    assert re.search(broken.said, " ".join(finding.values())), finding
    assert walk.states("skipped") == list(broken.skipped)
    for name in broken.skipped:
        assert walk.findings[name]["skipped_for"] == broken.link


def test_a_later_link_is_named_as_well(doctor: Doctor) -> None:
    """Memory that cannot be pinned is detected by the limit and by a trial registration."""
    walk = doctor({}, "--json", softhca=["--enforce"], prefix=LITTLE_LOCKED)
    assert walk.states("broken") == ["memlock", "registration"]
    assert "976 KiB" in walk.findings["memlock"]["evidence"]
    refusal = walk.findings["registration"]
    assert "16777216 bytes needed, 1000000 allowed" in refusal["evidence"]
    assert "RLIMIT_MEMLOCK is too low" in refusal["cause"]


def test_libraries_of_two_releases(doctor: Doctor, tmp_path: Path) -> None:
    """As after installing MLNX_OFED alongside the distribution's rdma-core."""
    ours = next(Path("/usr/lib").glob("*/libmlx5.so.1")).resolve()
    theirs = tmp_path / re.sub(r"\.\d+\.\d+$", ".999.0", ours.name)
    theirs.write_bytes(ours.read_bytes())
    (tmp_path / "libmlx5.so.1").symlink_to(theirs.name)
    walk = doctor({}, "--json", env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert walk.report["first_broken"] == "libibverbs"
    assert "libmlx5 of 999.0" in walk.findings["libibverbs"]["cause"]


def test_devices_by_name(doctor: Doctor) -> None:
    assert doctor({}, "--json", "--iface", "soft0").report["device"] == "mlx5_0"
    walk = doctor({}, "--device", "mlx5_7", "--json")
    assert walk.report["first_broken"] == "rdma-device"
    assert walk.findings["rdma-device"]["cause"] == "there is no RDMA device mlx5_7"
    assert walk.findings["rdma-device"]["evidence"] == "RDMA devices: mlx5_0"
    walk = doctor({}, "--json", "--iface", "lo")
    assert "lo has no RDMA device" in walk.findings["rdma-device"]["cause"]
    walk = doctor({}, "--json", "--port", "2")
    assert walk.report["first_broken"] == "port"
    assert walk.findings["port"]["cause"] == "RDMA device mlx5_0 has no port 2"


def test_the_drivers_file_and_arguments(doctor: Doctor, build: Build, tmp_path: Path) -> None:
    """The built driver's own record lists the arguments that it accepts."""
    plugin = tmp_path / "build" / build.driver.name
    plugin.parent.mkdir()
    plugin.write_bytes(build.driver.read_bytes())
    walk = doctor({}, "--json", "--plugin", str(plugin), "--devargs", "device=mlx5_0,mprq_en=2")
    assert walk.states("broken")[-1] == "devargs"
    assert walk.findings["devargs"]["cause"] == "mprq_en=2: neither 0 nor 1"
    tmp_path.chmod(0o777)
    walk = doctor({}, "--json", "--plugin", str(plugin), "--devargs", "device=mlx5_0,mprq_en=1")
    assert walk.states("broken") == ["plugin"]
    assert "every user may write to" in walk.findings["plugin"]["evidence"]
    assert walk.findings["devargs"]["state"] == "ok"


class WatchedProgram:
    """testpmd with telemetry on a port that receives all the time, watched by the doctor."""

    def __init__(self, build: Build, start_softhca: StartSoftHca, *eal: str,
                 devx: str = "on") -> None:
        self.doctor = doctor_of(build)
        self.prefix = f"doctor{os.getpid()}"
        memory = ["-l", "0,1", "--no-huge", "-m", "512", f"--file-prefix={self.prefix}"]
        options = ["--", "-i", "--no-mlockall", "--rxq=2", "--txq=2", "--total-num-mbufs=2048"]
        hca = start_softhca([PortSpec(wire="gen:rate=5000", options={"devx": devx})],
                            ["dpdk-testpmd", *memory, *eal, *options])
        self.testpmd = Testpmd(hca.program)
        self.env = {**os.environ, **hca.env, **launcher_env(hca.program)}

    def examine(self, *arguments: str) -> Walk:
        done = subprocess.run([self.doctor, "--json", *arguments], env=self.env,
                              capture_output=True, text=True, timeout=60)
        return Walk(done.returncode, done.stdout)

    def close(self) -> None:
        """Removes the folder that EAL leaves behind."""
        shutil.rmtree(f"/var/run/dpdk/{self.prefix}", ignore_errors=True)


@pytest.mark.parametrize(("devx", "evidence"), [
    ("on", r"net_rawqp0 \(pid \d+\): rx_q[01]_missed_errors \+\d+ in 1 s"),  # one flow, one queue
    ("off", r"out_of_buffer \+\d+; Rx queues of net_rawqp0 .* took nothing: 0, 1 in 1 s"),
], ids=["devx", "no-devx"])
def test_drops_are_explained(build: Build, start_softhca: StartSoftHca, devx: str,
                             evidence: str) -> None:
    """Nobody polls a program's queues: the doctor names them and the lack of descriptors."""
    eal = ["--no-pci", "-d", DRIVER, "--vdev", "net_rawqp0,device=mlx5_0"]
    with closing(WatchedProgram(build, start_softhca, *eal, devx=devx)) as program:
        walk = program.examine("--watch", "1")
        finding = walk.findings["drops-no-descriptors"]
        assert walk.status == 1 and finding["state"] == "broken"
        assert re.search(evidence, finding["evidence"])
        program.testpmd.start("rxonly")
        walk = program.examine("--watch", "1")
        assert "took nothing: 0, 1" not in walk.text  # a slow machine may still drop packets
        assert walk.findings["dpdk-driver"]["state"] == "ok"


def test_dpdks_own_driver_is_noticed(build: Build, start_softhca: StartSoftHca) -> None:
    with closing(WatchedProgram(build, start_softhca, "-a", pci_address(0))) as program:
        finding = program.examine().findings["dpdk-driver"]
        assert finding["state"] == "warning"
        assert re.match(rf"DPDK port {pci_address(0)} \(pid \d+\)", finding["evidence"])
        assert "--no-pci" in finding["remedy"]


@pytest.mark.parametrize("arguments", [["--devise", "x"], ["--device", "a", "--iface", "b"],
                                       ["--port", "0"], ["--port", "2", "--iface", "b"],
                                       ["--program", "/nonexistent"]])
def test_mistakes(doctor: Doctor, arguments: list[str]) -> None:
    walk = doctor({}, *arguments)
    assert walk.status == 2 and arguments[0] in walk.text
