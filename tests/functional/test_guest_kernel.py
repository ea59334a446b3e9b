# SPDX-License-Identifier: BSD-3-Clause
"""How `softhca vm` prepares a distribution's kernel package, without booting it."""
from __future__ import annotations

import gzip
import importlib
import lzma
import subprocess
from pathlib import Path
from typing import Sequence

import pytest
from rig.guest import load_vm
from rig.stack import Build

pytestmark = pytest.mark.unsanitized
RELEASE = "6.1.0-test"
CONTENT = b"what is in a module"


def package(folder: Path, wanted: Sequence[str], modules: str, suffix: str) -> Path:
    """A kernel package whose modules are in `modules`, compressed according to `suffix`."""
    tree = folder / "package"
    files = {"DEBIAN/control": b"Package: linux-image-test\nVersion: 1\nArchitecture: all\n"
                               b"Maintainer: nobody <nobody@localhost>\nDescription: test\n",
             f"boot/vmlinuz-{RELEASE}": b"kernel"}
    home = f"{modules}/{RELEASE}"
    names = [f"kernel/fs/{name}.ko{suffix}" for name in wanted]
    files |= {f"{home}/{name}": lzma.compress(CONTENT) if suffix else CONTENT for name in names}
    files |= {f"{home}/kernel/sound/left-out.ko{suffix}": b"", f"{home}/modules.builtin": b"",
              f"{home}/modules.order": "".join(f"{name}\n" for name in names).encode()}
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    (tree / "DEBIAN").chmod(0o755)
    subprocess.run(["dpkg-deb", "--build", tree, folder / "linux-image.deb"], check=True,
                   capture_output=True)
    return folder / "linux-image.deb"


def test_what_was_built_is_what_is_tested(build: Build) -> None:
    vm = load_vm(build.folder)
    assert Path(vm.__file__) == build.folder / "app/softhca/vm/softhca_vm/machine.py"


@pytest.mark.parametrize(("modules", "suffix"), [("lib/modules", ""), ("usr/lib/modules", ".xz")],
                         ids=["Debian 12", "Debian 13"])
def test_modules_of_a_package_reach_the_guest(
        tmp_path: Path, build: Build, modules: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the package has them, and uncompressed: the guest loads them with busybox."""
    load_vm(build.folder)
    kernel, initramfs = map(importlib.import_module, ("softhca_vm.kernel", "softhca_vm.initramfs"))
    monkeypatch.setattr(kernel, "_run", lambda command: subprocess.CompletedProcess(command, 0))
    (tmp_path / "scratch").mkdir()
    deb = package(tmp_path, initramfs.MODULES, modules, suffix)
    unpacked = kernel._unpack(deb, tmp_path / "scratch", tmp_path / "kernels")
    assert unpacked.release == RELEASE and unpacked.image.read_bytes() == b"kernel"
    assert not list(unpacked.root.glob("**/left-out*"))
    # As depmod, which needs real modules, would write it.
    (unpacked.modules / "modules.dep").write_text(
        "".join(f"kernel/fs/{name}.ko{suffix}:\n" for name in initramfs.MODULES))
    archive = gzip.decompress(initramfs.provide(tmp_path, unpacked).read_bytes())
    for name in initramfs.MODULES:
        assert f"modules/{name}\0".encode() in archive
    assert archive.count(CONTENT) == len(initramfs.MODULES)
    assert "".join(f"{name}\n" for name in initramfs.MODULES).encode() in archive
