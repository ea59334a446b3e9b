# SPDX-License-Identifier: BSD-3-Clause
"""How DPDK and the dynamic linker see the built driver file."""
from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SANITIZED = os.environ.get("RAWQP_SANITIZE") == "1"
BUILD = ROOT / os.environ.get("RAWQP_BUILD", "build-asan" if SANITIZED else "build")
DRIVER = BUILD / "drivers/net/rawqp/librte_net_rawqp.so"


def output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_pmdinfo_lists_the_driver_and_the_arguments_of_the_guide() -> None:
    drivers = json.loads(output("dpdk-pmdinfo.py", DRIVER))
    assert [driver["name"] for driver in drivers] == ["net_rawqp"]
    guide = (ROOT / "doc/guides/nics/rawqp.rst").read_text()
    arguments = re.findall(r"^- ``(\w+)`` \[([^];]+)", guide, re.MULTILINE)
    allowed = [values.replace("`", "").replace(", ", "|").replace(" … ", "..")
               for _, values in arguments]
    assert drivers[0]["params"] == " ".join(f"{key}=<{values}>"
                                            for (key, _), values in zip(arguments, allowed))


def test_rdma_core_is_not_linked() -> None:
    """The plugin must load on a machine without rdma-core, to report which package is missing."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "--dynamic", "--wide", DRIVER))
    assert any(name.startswith("librte_bus_vdev.so") for name in needed)
    assert not [name for name in needed if re.match(r"lib(ibverbs|mlx\d|mana|rdmacm|efa)\b", name)]


def test_no_symbol_is_exported() -> None:
    symbols = output("nm", "--dynamic", "--defined-only", "--format=posix", DRIVER).splitlines()
    exported = [line.split()[0] for line in symbols if line.split()[1] != "A"]  # A: version node
    assert not exported


@pytest.mark.unsanitized
def test_install_goes_to_the_plugin_folder(tmp_path: Path) -> None:
    output("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", tmp_path)
    macros = output("sh", "-c", "echo '#include <rte_build_config.h>' | "
                                "c++ -E -dM $(pkg-config --cflags libdpdk) -x c++ -")
    folder = re.search(r'RTE_EAL_PMD_PATH "(.*)"', macros)
    assert folder and folder[1].startswith("/")
    assert (tmp_path / folder[1][1:] / DRIVER.name).is_file()
    for installed in ("bin/rawqp-doctor", "share/man/man1/rawqp-doctor.1"):
        assert len(list(tmp_path.rglob(installed))) == 1, installed


@pytest.mark.unsanitized
def test_a_world_writable_checkout_is_explained(tmp_path: Path) -> None:
    """EAL refuses a driver by its path there; the advice of scripts/setup works."""
    folder = tmp_path / "checkout/build/drivers/net/rawqp"
    folder.mkdir(parents=True)
    (tmp_path / "checkout").chmod(0o777)
    shutil.copy(DRIVER, folder)
    explain = f"source {ROOT}/scripts/lib.sh; explain_world_writable {tmp_path}/checkout/build"
    said = subprocess.run(["bash", "-c", explain], check=True, capture_output=True, text=True)
    assert f"every user may write to {tmp_path}/checkout," in said.stderr
    advice = re.search(r"(LD_LIBRARY_PATH)=(\S+) dpdk-testpmd (-d) (\S+)", said.stderr)
    assert advice

    def load(plugin: str, **settings: str) -> int:
        command = ["dpdk-testpmd", "-l", "0,1", "--no-huge", "-m", "64", "--no-shconf", "--no-pci",
                   "--no-telemetry", "-d", plugin, "--vdev", "net_null0", "--",
                   "--total-num-mbufs=2048"]
        return subprocess.run(command, env={**os.environ, **settings}, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60).returncode

    assert load(str(folder / DRIVER.name)) != 0
    assert load(advice[4], LD_LIBRARY_PATH=advice[2]) == 0


@pytest.mark.unsanitized
def test_objects_depend_on_what_is_precompiled() -> None:
    """ccache looks up an object by the headers that its compiler reports: see export_ccache_settings."""
    object_file = "drivers/net/rawqp/librawqp_core.a.p/log.cpp.o"
    assert "/ethdev_driver.h" in output("ninja", "-C", BUILD, "-t", "deps", object_file)


@pytest.mark.unsanitized
@pytest.mark.parametrize(("release", "says"), [
    ('VERSION_ID="12"\nID=debian\n', ""),
    ('PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\nVERSION_ID="13"\n', ""),
    ('ID=ubuntu\nVERSION_ID="24.04"\nID_LIKE=debian\n', "this is ubuntu 24.04 and may have other"),
    ("ID=arch\n", "this is arch and"),
], ids=["12", "13", "ubuntu", "no version"])
def test_an_unknown_distribution_is_told(tmp_path: Path, release: str, says: str) -> None:
    (tmp_path / "os-release").write_text(release)
    check = f"source {ROOT}/scripts/lib.sh; check_distribution {tmp_path}/os-release"
    said = subprocess.run(["bash", "-c", check], check=True, capture_output=True, text=True).stderr
    assert says in said and said.count("\n") == bool(says)


@pytest.mark.unsanitized
def test_the_demo_needs_no_tests(tmp_path: Path) -> None:
    """scripts/setup --for demo needs neither the tests' packages nor their targets."""
    group = re.search(r"^\[demo\](?s:.*?)^\[", (ROOT / "scripts/packages").read_text(), re.M)
    assert group
    assert "g++\n" in group[0]
    assert not re.search("gtest|gmock|scapy|pytest|qemu|linux-headers|clang|valgrind", group[0])

    sdk = BUILD / "drivers/net/rawqp/dpdk-sdk"
    headers = f"-Ddpdk_sdk={sdk if sdk.is_dir() else ''}"
    output("meson", "setup", "-Dtests=false", "-Dfirmware=disabled", headers, tmp_path, ROOT)
    steps = output("ninja", "-C", tmp_path, "-n", "-v", "demo")
    assert "libsofthca.so" in steps and DRIVER.name in steps
    assert "devx_absent.cpp" in steps and "mlx5_ifc.h" not in steps, "a bare machine has no kernel headers"
    assert not re.search("^tests/", output("ninja", "-C", tmp_path, "-t", "targets", "all"), re.M)
    assert "gtest" not in steps


@pytest.mark.unsanitized
@pytest.mark.parametrize("script", ["bench", "demo", "test"])
def test_scripts_begin_with_the_set_up(tmp_path: Path, script: str) -> None:
    """Which installs Python, if a machine has none."""
    scripts, tools = tmp_path / "scripts", tmp_path / "bin"
    scripts.mkdir()
    tools.mkdir()
    for name in script, "lib.sh":
        shutil.copy(ROOT / "scripts" / name, scripts)
    for name in "bash", "dirname", "env":
        (tools / name).symlink_to(f"/usr/bin/{name}")
    (scripts / "lib.sh").write_text((scripts / "lib.sh").read_text() + f"export PATH={tools}\n")
    (scripts / "setup").write_text("#!/bin/bash\necho setting up; exit 5\n")
    (scripts / "setup").chmod(0o755)
    answer = subprocess.run([scripts / script], text=True, timeout=60, stdout=subprocess.PIPE)
    assert (answer.returncode, answer.stdout) == (5, "setting up\n")


def script_with_tools(folder: Path, script: str, tools: dict[str, str]) -> Path:
    """A copy of a script in a checkout that has nothing else, and finds only these tools beside a few of the system."""
    for name in script, "scripts/lib.sh":
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in "bash", "cat", "dirname", "env", "mkdir":
        (bin_folder / name).symlink_to(f"/usr/bin/{name}")
    for name, text in tools.items():
        tool = folder / name
        tool.write_text(f"#!/bin/bash\n{text}\n")
        tool.chmod(0o755)
    with (folder / "scripts/lib.sh").open("a") as lib:
        lib.write(f"export PATH={bin_folder}\n")
    return folder / script


@pytest.fixture(params=["scripts/check-arm", "tests/fuzz/run"])
def checking_script(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Its meson prints the arguments, and fails."""
    sysroot = tmp_path / "build-arm/sysroot"
    sysroot.mkdir(parents=True)
    (sysroot / ".dpdk").write_text("1.0")
    return script_with_tools(tmp_path, request.param, {
        "bin/dpkg-query": "[[ $* == *Version* ]] && printf 1.0 || printf installed",
        "bin/meson": 'printf "meson %s\\n" "$*"; exit 5',
        "scripts/get-dpdk-sdk": '[[ ! -e $1/gone ]] || { echo "no network" >&2; exit 1; }; echo "$1"'})


@pytest.mark.unsanitized
@pytest.mark.parametrize("script", ["bench", "demo", "check-arm"])
def test_a_wrong_option_is_refused_before_anything_is_set_up(tmp_path: Path, script: str) -> None:
    started = 'echo "$0"; exit 5'
    path = script_with_tools(tmp_path, f"scripts/{script}", {"bin/dpkg-query": started, "scripts/setup": started,
                                                             "bin/python3": 'exec /usr/bin/python3 "$@"'})
    for package in "bench_lib", "demo_lib":
        (path.parent / package).symlink_to(ROOT / "scripts" / package)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    answer = subprocess.run([path, "--bogus-option"], text=True, timeout=60, capture_output=True)
    assert (answer.returncode, answer.stdout) == (2, "") and "--bogus-option" in answer.stderr


@pytest.mark.unsanitized
def test_other_builds_use_the_driver_headers_of_the_set_up(checking_script: Path, tmp_path: Path) -> None:
    """Those that scripts/setup --dpdk-sdk remembers."""
    answer = subprocess.run([checking_script], text=True, timeout=60, stdout=subprocess.PIPE)
    assert answer.returncode == 5 and f"-Ddpdk_sdk={tmp_path}/.cache/dpdk-sdk " in answer.stdout, answer.stdout


@pytest.mark.unsanitized
def test_other_builds_without_driver_headers(checking_script: Path, tmp_path: Path) -> None:
    (tmp_path / ".cache/dpdk-sdk/gone").mkdir(parents=True)
    answer = subprocess.run([checking_script], text=True, timeout=60, capture_output=True)
    assert answer.returncode == (77 if checking_script.name == "check-arm" else 1)
    assert "meson" not in answer.stdout
    last = answer.stderr.splitlines()[-1]
    assert "there are no driver headers of the installed DPDK, see the message above" in last, answer.stderr


@pytest.fixture
def busybox_root(tmp_path: Path) -> Path:
    """A chroot as scripts/check-debian leaves it, but with busybox only."""
    root = tmp_path / "debian"
    for folder in ("bin", "dev", "etc", "proc", "run", "sys"):
        (root / folder).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin")
    for name in ("cat", "env", "sh", "sleep"):
        (root / "bin" / name).symlink_to("busybox")
    (root / ".check-debian").write_text("complete\n")
    return root


@pytest.mark.unsanitized
@pytest.mark.skipif(os.geteuid() != 0, reason="scripts/check-debian asks sudo: run the tests as root")
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="scripts/check-debian copies what git knows:"
                    " run the tests in a git checkout")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_chroot_ends_with_its_script(busybox_root: Path, number: signal.Signals) -> None:
    """So do its private mounts, and everything that runs in it."""
    script = "cat README.md /proc/mounts; echo .git/*; echo ready; exec sleep 1000"
    with subprocess.Popen([ROOT / "scripts/check-debian", "13", "--root", busybox_root, "--", "sh",
                           "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            lines = list(itertools.takewhile(lambda line: line != "ready\n", process.stdout))
            mounts = {line.split()[1] for line in lines if line.count(" ") == 5}
            assert lines[0] == "# rawqp\n" and {"/", "/proc"} <= mounts
            assert ".git/index" in lines[-1], "the copy is to be a git checkout"
            assert str(busybox_root) not in Path("/proc/mounts").read_text()
        finally:
            process.send_signal(number)
        # The pipe ends when nothing holds it any more: the sleeper is gone, too.
        assert process.stdout.read() == ""
    shutil.rmtree(busybox_root)


@pytest.mark.unsanitized
@pytest.mark.parametrize(("command", "says"), [
    (["scripts/check-debian", "11"], "Debian 11 is not known here: 12 and 13 are"),
    (["scripts/check-debian", "13", "--root", "doc"], "of no earlier run of this script"),
    (["scripts/check-debian", "--wrong"], "unknown option: --wrong"),
    (["scripts/check-debian", "13", "--root"], "--root: which folder?"),
    (["scripts/check-debian", "13", "12", "--root", "doc"], "13 and 12: one release at a time"),
    (["scripts/check-debian", "13", "--dpdk-sdk", "LICENSE", "--root", "doc"], "--dpdk-sdk: 'LICENSE' is no folder"),
    (["scripts/check-package", "11"], "Debian 11 is not known here: 12 and 13 are"),
    (["scripts/check-package", "11", "12"], "11 and 12: one release at a time"),
    (["scripts/check-package", "11", "--dpdk-sdk", "LICENSE"], "--dpdk-sdk: 'LICENSE' is no folder"),
    (["scripts/package", "--dpdk-sdk", "nowhere"], "--dpdk-sdk: 'nowhere' is no folder"),
    (["scripts/test", "--dpdk", "nowhere"], "--dpdk: 'nowhere' is no folder"),
    (["scripts/test", "unit", "lint"], "unit or lint: one at a time, or all"),
    ([sys.executable, "tests/run.py", "dpdk:doc"], f"{ROOT}/doc is no DPDK source tree"),
    (["tests/fuzz/run", "soon"], "'soon' is no number of seconds, such as 60"),
    (["tests/fuzz/run", "0"], "'0' is no number of seconds, such as 60"),
    (["tests/fuzz/run", "60", "cqes", "queues"], "there is no target queues: cqes frames texts control"),
], ids=["release", "somebody's folder", "option", "no root", "two releases", "a file", "packages' release",
         "packages' two releases", "packages' file", "no driver headers", "no folder", "two suites", "no DPDK",
         "no seconds", "for ever", "target"])
def test_scripts_refuse(command: list[str], says: str) -> None:
    answer = subprocess.run(command, cwd=ROOT, text=True, timeout=60, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert answer.returncode == 1 and says in answer.stdout
