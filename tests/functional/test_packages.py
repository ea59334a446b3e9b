# SPDX-License-Identifier: BSD-3-Clause
"""Packages and container image match the build and the archive. scripts/check-package builds and tries them,
which takes too long here."""

import os
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest
from rig.stack import ROOT, Build

pytestmark = pytest.mark.unsanitized

FOLDER = ROOT / "scripts/package_lib"
DEBIAN = FOLDER / "debian"
CONTAINERFILE = (FOLDER / "Containerfile").read_text()


def patterns(package: str) -> list[str]:
    """Patterns of the installed files that a package contains."""
    lines = (DEBIAN / f"{package}.install").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def installed(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files installed by `meson install`, as if the prefix were /usr."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", build.folder, "--no-rebuild", "--quiet",
                    "--destdir", folder], check=True, timeout=60)
    (folder / "usr/local").rename(folder / "local")
    for top in (folder / "local").iterdir():
        for path in [top, *top.rglob("*")]:
            if not path.is_dir():
                to = folder / "usr" / path.relative_to(folder / "local")
                to.parent.mkdir(parents=True, exist_ok=True)
                path.rename(to)
    return folder


def test_each_installed_file_is_in_one_package(installed: Path) -> None:
    files = [str(path.relative_to(installed)) for path in (installed / "usr").rglob("*")
             if not path.is_dir()]
    assert files
    for package in ("librte-net-rawqp", "softhca"):
        for pattern in patterns(package):
            taken = [path for path in files if fnmatch(path, pattern) or fnmatch(path, f"{pattern}/*")]
            assert taken, f"{package}: nothing is {pattern}"
            files = [path for path in files if path not in taken]
    assert not files, "in no package"
    for pattern in patterns("rawqp-doc"):
        assert list(ROOT.glob(pattern.split()[0])), pattern


def test_installed_softhca_finds_its_parts(installed: Path) -> None:
    softhca = str(installed / "usr/bin/softhca")
    assert "mlx5_0" in subprocess.run([softhca, "--", "ibv_devices"], check=True, text=True,
                                      capture_output=True, timeout=60).stdout
    subprocess.run([softhca, "vm", "--help"], check=True, capture_output=True, timeout=60,
                   env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def test_each_installed_program_has_its_page(installed: Path) -> None:
    for program in (installed / "usr/bin").iterdir():
        assert (installed / f"usr/share/man/man1/{program.name}.1").exists(), program.name


def test_the_version_is_that_of_the_build() -> None:
    version = re.search(r"version: '(.*)'", (ROOT / "meson.build").read_text())
    packaged = re.match(r"rawqp \((.*)\)", (DEBIAN / "changelog").read_text())
    assert version and packaged and version[1] == packaged[1]


def test_a_package_is_built_from_what_setup_installs() -> None:
    """The libraries that setup installs for the demo, and no others."""
    group = re.search(r"^\[demo\](?s:.*?)^\[", (ROOT / "scripts/packages").read_text(), re.M)
    field = re.search(r"^Build-Depends:((?:.*\n)(?: .*\n)*)", (DEBIAN / "control").read_text(), re.M)
    assert group and field
    libraries = {name for name in re.findall(r"(?m)^(\S+-dev)$", group[0])}
    needed = set(re.findall(r"(?m)([a-z0-9.+-]+-dev)\b", field[1]))
    assert needed <= libraries <= needed | {"dpdk-dev", "dpkg-dev"}


def test_headers_may_be_in_a_folder_with_a_space(tmp_path: Path) -> None:
    """As they are in a checkout that is below one."""
    configure = tmp_path / "dh_auto_configure"
    configure.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    configure.chmod(0o755)
    arguments = subprocess.run(
        ["make", "--silent", "-f", DEBIAN / "rules", "override_dh_auto_configure"], check=True, text=True,
        capture_output=True, timeout=60, cwd=FOLDER,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "DPDK_SDK": "/my work/sdk"}).stdout
    assert "-Ddpdk_sdk=/my work/sdk" in arguments.splitlines()


@pytest.mark.parametrize("program", ["ibv_devices", "ibv_devinfo"])
def test_the_demo_installs_the_programs_of_the_readme(program: str) -> None:
    group = re.search(r"^\[demo\](?s:.*?)^\[", (ROOT / "scripts/packages").read_text(), re.M)
    assert group and program in (ROOT / "README.md").read_text()
    assert owner_of(program) in group[0].split()


def owner_of(program: str) -> str:
    """The package of an installed program."""
    file = shutil.which(program, path="/usr/bin:/usr/sbin")  # not a user's own
    owner = subprocess.run(["dpkg", "--search", file or program], check=True, capture_output=True,
                           text=True, timeout=60).stdout
    return owner.split(":")[0]


def image_packages() -> set[str]:
    """The image's packages from the archive."""
    words = " ".join(CONTAINERFILE.replace("\\\n", " ").split())
    install = re.search(r"install --yes --no-install-recommends (.*?) &&", words)
    assert install
    return {name for name in install[1].split() if not name.startswith("/")}


def test_the_archive_has_what_packages_and_image_name() -> None:
    names = image_packages()
    control = (DEBIAN / "control").read_text()
    for field in re.findall(r"(?m)^(?:Depends|Recommends|Suggests): (.*)$", control):
        names |= set(re.findall(r"(?:^|, )([a-z0-9.+-]+)", field))
    names -= set(re.findall(r"(?m)^Package: (.*)$", control))
    told = subprocess.run(["apt-cache", "policy", *names], check=True, capture_output=True, text=True,
                          timeout=60, env={**os.environ, "LC_ALL": "C"}).stdout
    assert names == set(re.findall(r"(?m)^(\S+):\n  Installed: .*\n  Candidate: \d", told))


@pytest.mark.parametrize("program", ["dpdk-testpmd", "ibv_devinfo", "python3", "raw_ethernet_bw",
                                     "tcpdump"])
def test_the_image_has_the_programs_of_the_manual(program: str) -> None:
    assert owner_of(program) in image_packages() | {"python3-minimal"}


def test_what_the_image_copies_exists() -> None:
    """The context is the checkout; the rest comes from the output folder of scripts/package."""
    script = re.search(r"RUN .*/rawqp/(\S+)", CONTAINERFILE)
    copied = re.search(r"COPY --from=packages /rawqp/(\S+)/\*\.deb", CONTAINERFILE)
    assert script and copied
    assert os.access(ROOT / script[1], os.X_OK)
    assert f"out=$root/{copied[1]}\n" in (ROOT / script[1]).read_text()
