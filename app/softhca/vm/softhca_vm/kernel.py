# SPDX-License-Identifier: BSD-3-Clause
"""The distribution's stock kernel, from its linux-image package: never the kernel of this machine.

The package comes from the machine's own package sources and is unpacked into a cache; nothing is
installed and no root is needed. Later runs use what is in the cache.
"""
from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from softhca_vm.errors import VmError

META_PACKAGE = "linux-image-amd64"  # depends on the current kernel's own package
COMPLETE = ".complete"
# Half of the package is for hardware that the guest does not have.
LEFT_OUT = re.compile(r"/kernel/(sound|drivers/(gpu|hid|iio|media|scsi|staging|usb|"
                      r"net/(wireless|wwan|can|ieee802154|phy)))/")


@dataclass(frozen=True)
class Kernel:
    """`root` holds lib/modules/RELEASE with its modules.dep."""

    release: str
    image: Path
    root: Path

    @property
    def modules(self) -> Path:
        return self.root / "lib/modules" / self.release


def default_cache() -> Path:
    """Beside the programs in a build folder; of the user where softhca is installed."""
    build = Path(__file__).resolve().parents[4]
    if (build / "meson-private").is_dir():
        return build / "guest"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "softhca"


def cached(cache: Path) -> Kernel | None:
    """The newest kernel in the cache."""

    def version(root: Path) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", root.name)]

    roots = [path.parent for path in cache.glob(f"kernel/*/{COMPLETE}")]
    if not roots:
        return None
    root = max(roots, key=version)
    return Kernel(root.name, root / f"boot/vmlinuz-{root.name}", root)


def provide(cache: Path, update: bool = False) -> Kernel:
    """The newest kernel in the cache; what the package sources offer if there is none."""
    kernel = None if update else cached(cache)
    if kernel:
        return kernel
    if platform.machine() != "x86_64":
        raise VmError(f"the guest is an x86-64 machine with the kernel of {META_PACKAGE}, which "
                      f"this machine's package sources ({platform.machine()}) do not have")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".kernel-", dir=cache) as scratch:
        return _unpack(_download(Path(scratch)), Path(scratch), cache / "kernel")


def _run(command: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=cwd, text=True, capture_output=True, check=False)
    except FileNotFoundError:
        raise VmError(f"{command[0]} is not installed; the guest's kernel is taken from a Debian "
                      "package (apt install apt dpkg kmod)") from None


def _private_lists(state: Path) -> list[str]:
    """apt options that keep lists and cache of our own: for `update` without root."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    options = {"Dir::State::Lists": f"{state}/lists", "Dir::Cache": f"{state}/cache",
               "APT::Sandbox::User": "", "Acquire::Languages": "none"}
    return [part for name, value in options.items() for part in ("-o", f"{name}={value}")]


def _download(folder: Path) -> Path:
    """Fetches the package into `folder`, by the machine's lists or, if they fail, by fresh ones."""
    log = ""
    for fresh in (False, True):
        options = _private_lists(folder / "apt") if fresh else []
        if fresh:
            log += _run(["apt-get", *options, "-q", "update"]).stderr
        show = _run(["apt-cache", *options, "show", "--no-all-versions", META_PACKAGE])
        package = re.search(r"^Depends:.*?\b(linux-image-\d[^\s,]*)", show.stdout, re.MULTILINE)
        if not package:
            log += show.stderr
            continue
        answer = _run(["apt-get", *options, "-q", "download", package[1]], cwd=folder)
        packages = list(folder.glob("linux-image-*.deb"))
        if answer.returncode == 0 and len(packages) == 1:
            return packages[0]
        log += answer.stderr
    raise VmError(f"cannot get {META_PACKAGE} from this machine's package sources:\n{log.strip()}\n"
                  "likely cause: no network, or no Debian sources in /etc/apt; once there is a "
                  "network, try again, or give the folder that scripts/get-guest-kernel filled "
                  "elsewhere (--cache)")


def _unpack(package: Path, scratch: Path, kernels: Path) -> Kernel:
    fresh = scratch / "root"
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)],
                          stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                member.name = member.name.replace("./usr/lib/", "./lib/", 1)  # since Debian 13
                if re.match(r"\./(boot/vmlinuz-|lib/modules/)", member.name) \
                        and not LEFT_OUT.search(member.name):
                    archive.extract(member, fresh)
    images = list(fresh.glob("boot/vmlinuz-*"))
    if process.returncode or len(images) != 1:
        raise VmError(f"{package.name} holds {len(images)} kernels, expected one")
    release = images[0].name.removeprefix("vmlinuz-")
    depmod = _run(["depmod", "--basedir", str(fresh), release])
    if depmod.returncode:
        raise VmError(f"depmod of {package.name} failed: {depmod.stderr.strip()}")
    (fresh / COMPLETE).touch()
    root = kernels / release
    kernels.mkdir(exist_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    try:
        os.rename(fresh, root)
    except OSError:  # somebody else has just put the same there
        if not (root / COMPLETE).exists():
            raise
    return Kernel(release, root / f"boot/vmlinuz-{release}", root)


def main() -> int:
    """What scripts/get-guest-kernel runs."""
    parser = argparse.ArgumentParser(description="Provides the newest kernel in a cache.")
    parser.add_argument("cache", type=Path)
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    try:
        print(provide(arguments.cache.absolute(), arguments.update).release)
    except VmError as error:
        print(f"get-guest-kernel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
