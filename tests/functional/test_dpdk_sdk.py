# SPDX-License-Identifier: BSD-3-Clause
"""scripts/get-dpdk-sdk: which package sources it asks, and when it refuses."""
from __future__ import annotations

import importlib.machinery
import importlib.util
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


def test_one_changed_header_is_refused(sdk: ModuleType, source_tree: Path) -> None:
    with (source_tree / "lib/ethdev/rte_ethdev_core.h").open("a") as header:
        header.write("/* another release */\n")
    with pytest.raises(sdk.SdkError, match="rte_ethdev_core.h differs .* DPDK 1.0"):
        sdk.check_same_version(source_tree, sdk.installed_include_dirs(), "1.0")


def test_too_little_to_compare_is_refused(sdk: ModuleType, source_tree: Path) -> None:
    for header in sorted((source_tree / "lib/ethdev").iterdir())[2:]:
        header.unlink()
    with pytest.raises(sdk.SdkError, match="only 2 installed headers"):
        sdk.check_same_version(source_tree, sdk.installed_include_dirs(), "1.0")


def run_beside(folder: Path, cflags: str) -> subprocess.CompletedProcess[str]:
    """Runs the script with a libdpdk of our own making."""
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
    assert "-Ddpdk_sdk=DIR" in answer.stderr
