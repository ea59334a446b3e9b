# SPDX-License-Identifier: BSD-3-Clause
"""scripts/get-dpdk-sdk: which package sources it uses, and when it refuses."""
from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/get-dpdk-sdk"
pytestmark = pytest.mark.unsanitized


@pytest.fixture(scope="module")
def sdk() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("get_dpdk_sdk", str(SCRIPT))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_one_line_sources_keep_their_options(sdk: ModuleType) -> None:
    text = ("# deb http://old.example/debian sid main\n"
            "deb [signed-by=/k.gpg check-valid-until=no] http://a.example/debian bookworm main\n"
            "  deb-src http://a.example/debian bookworm-updates main contrib\n\n")
    assert sdk.source_entries(text, deb822=False) == (
        "deb-src [signed-by=/k.gpg check-valid-until=no] http://a.example/debian bookworm main\n"
        "deb-src http://a.example/debian bookworm-updates main contrib\n")


def test_deb822_sources_keep_their_fields(sdk: ModuleType) -> None:
    text = ("# Types: deb\nTypes: deb\nURIs: http://a.example/debian\nSuites: bookworm\n"
            "Signed-By: /k.gpg\n\ntypes: deb deb-src\nEnabled: no\nURIs: http://b.example\n")
    assert sdk.source_entries(text, deb822=True) == (
        "# Types: deb\nTypes: deb-src\nURIs: http://a.example/debian\nSuites: bookworm\n"
        "Signed-By: /k.gpg\n\nTypes: deb-src\nEnabled: no\nURIs: http://b.example\n")


@pytest.fixture
def source_tree(sdk: ModuleType, tmp_path: Path) -> Path:
    """A DPDK source whose public headers are copies of the installed ones."""
    tree = tmp_path / "dpdk"
    headers = [header for folder in sdk.installed_include_dirs() for header in folder.glob("*.h")]
    for folder in {Path(name).parent for name in sdk.DRIVER_HEADERS}:
        (tree / folder).mkdir(parents=True)
    for header in headers:
        if header.name.startswith(("rte_eth", "rte_flow", "rte_dev", "rte_m")):
            (tree / "lib/ethdev" / header.name).write_bytes(header.read_bytes())
    return tree


def test_equal_headers_are_accepted(sdk: ModuleType, source_tree: Path) -> None:
    sdk.check_same_version(source_tree, sdk.installed_include_dirs(), "1.0")


@pytest.mark.parametrize(("before", "after"), [
    ("struct rte_eth_link {", "struct rte_eth_link { int more;"),
    ("RTE_ETH_EVENT_MAX", "RTE_ETH_EVENT_NEW, RTE_ETH_EVENT_MAX"),
    ("#define RTE_ETH_LINK_UP          1", "#define RTE_ETH_LINK_UP 2"),
    ("(*rte_tx_callback_fn)(uint16_t port_id, uint16_t queue", "(*rte_tx_callback_fn)(int queue"),
], ids=["structure", "enumeration", "constant", "function type"])
def test_one_other_type_or_constant_is_refused(
        sdk: ModuleType, source_tree: Path, before: str, after: str) -> None:
    header = source_tree / "lib/ethdev/rte_ethdev.h"
    text = re.sub(re.escape(before).replace(r"\ ", r"\s+"), after, header.read_text())
    assert text != header.read_text()
    header.write_text(text)
    with pytest.raises(sdk.SdkError, match=r"rte_ethdev.h differs .* DPDK 1.0 .*--dpdk-sdk DIR"):
        sdk.check_same_version(source_tree, sdk.installed_include_dirs(), "1.0")


def test_a_patch_release_may_have_other_comments_and_functions(
        sdk: ModuleType, source_tree: Path) -> None:
    header = source_tree / "lib/ethdev/rte_ethdev.h"
    header.write_text("/* struct rte_eth_link { } */\nint rte_eth_gone(void); // enum x {\n"
                      + header.read_text().replace("/**", "/** Said better:"))
    sdk.check_same_version(source_tree, sdk.installed_include_dirs(), "1.0")


def test_lower_patch_releases_serve_for_a_version_that_is_gone(sdk: ModuleType) -> None:
    offered = ["24.11.4-0+deb13u1", "24.11.8-0+deb13u1", "24.11.10-1", "24.11.3-1", "24.11-1",
               "24.11.4-0+deb13u1", "25.11.1-1", "22.11.9-1", "1:24.11.2-1"]
    assert sdk.substitutes("24.11.8-0+deb13u1", offered) == [
        "24.11.4-0+deb13u1", "24.11.3-1", "1:24.11.2-1", "24.11-1"]


def test_the_next_lower_source_is_taken(
        sdk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    """apt lists the source of the installed version, whose files are gone, and two more."""

    def run(command: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        listed = "Version: 24.11.8-1\nVersion: 24.11.3-1\nVersion: 24.11.4-1\n"
        fails = command[-1] == "dpdk=24.11.8-1"
        if command[-1] == "dpdk=24.11.4-1":
            assert cwd
            (cwd / "dpdk-24.11.4").mkdir()
        return subprocess.CompletedProcess(
            command, int(fails), listed if "showsrc" in command else "", "404" if fails else "")

    monkeypatch.setattr(sdk, "run", run)
    version, tree = sdk.download_source("24.11.8-1", tmp_path)
    assert (version, tree.name) == ("24.11.4-1", "dpdk-24.11.4")
    assert "24.11.8-1 is gone: the driver headers are those of 24.11.4-1" in capsys.readouterr().err
    monkeypatch.setattr(sdk, "substitutes", lambda *_: [])
    (tmp_path / "none").mkdir()
    with pytest.raises(sdk.SdkError, match=r"(?s)404.*setup --dpdk-sdk DIR"):
        sdk.download_source("24.11.8-1", tmp_path / "none")


def test_a_source_tree_can_be_given(sdk: ModuleType, source_tree: Path, tmp_path: Path) -> None:
    """Its headers are kept, so that the next run no longer needs the source."""
    if sdk.has_driver_headers(sdk.installed_include_dirs()):
        pytest.skip("the installed DPDK has driver headers: scripts/get-dpdk-sdk has nothing to do")
    (source_tree / "VERSION").write_text("1.0\n")
    for header in sdk.DRIVER_HEADERS:
        (source_tree / header).write_text(f"/* {header} */\n")
    kept = tmp_path / "sdk"
    assert sdk.provide(kept, source_tree) == sdk.provide(kept) == str(kept)
    assert (kept / "ethdev_driver.h").read_text() == "/* lib/ethdev/ethdev_driver.h */\n"
    flat = tmp_path / "flat"
    assert sdk.provide(flat, kept) == str(flat) and (flat / "bus_driver.h").is_file()
    with pytest.raises(sdk.SdkError, match="is no DPDK source tree"):
        sdk.provide(flat, tmp_path)


def test_headers_are_replaced_only_by_others(sdk: ModuleType, tmp_path: Path) -> None:
    """Objects that include them would be compiled again."""
    if sdk.has_driver_headers(sdk.installed_include_dirs()):
        pytest.skip("the installed DPDK has driver headers: scripts/get-dpdk-sdk has nothing to do")
    given, kept = tmp_path / "given", tmp_path / "sdk"
    given.mkdir()
    for header in sdk.DRIVER_HEADERS:
        (given / Path(header).name).write_text("/* old */\n")
    sdk.provide(kept, given)
    header = kept / "bus_driver.h"
    before = header.stat().st_mtime_ns
    sdk.provide(kept, given)
    assert header.stat().st_mtime_ns == before
    (given / header.name).write_text("/* new */\n")
    sdk.provide(kept, given)
    assert header.read_text() == "/* new */\n"


def test_too_little_to_compare_is_refused(sdk: ModuleType, source_tree: Path) -> None:
    for header in sorted((source_tree / "lib/ethdev").iterdir())[2:]:
        header.unlink()
    with pytest.raises(sdk.SdkError, match="only 2 installed headers"):
        sdk.check_same_version(source_tree, sdk.installed_include_dirs(), "1.0")


def run_beside(folder: Path, cflags: str) -> subprocess.CompletedProcess[str]:
    """Runs the script with a fake libdpdk."""
    (folder / "libdpdk.pc").write_text(
        f"Name: DPDK\nDescription: test\nVersion: 22.11\nCflags: {cflags}\n")
    return subprocess.run([SCRIPT, folder / "sdk"], env={"PATH": "/usr/bin:/bin",
                          "PKG_CONFIG_PATH": str(folder)}, text=True, capture_output=True,
                          timeout=60, check=False)


def test_installed_driver_headers_are_preferred(sdk: ModuleType, tmp_path: Path) -> None:
    for name in sdk.DRIVER_HEADERS:
        (tmp_path / Path(name).name).touch()
    answer = run_beside(tmp_path, f"-I{tmp_path}")
    assert (answer.returncode, answer.stdout) == (0, "\n")
    assert not (tmp_path / "sdk").exists()


def test_private_dpdk_without_driver_headers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rte_ethdev.h").touch()
    answer = run_beside(tmp_path, f"-I{tmp_path}")
    assert answer.returncode == 1
    assert "does not belong to the package libdpdk-dev" in answer.stderr
    assert "--dpdk-sdk DIR" in answer.stderr and "-Ddpdk_sdk=DIR" in answer.stderr
