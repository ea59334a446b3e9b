# SPDX-License-Identifier: BSD-3-Clause
"""The guest's first file system: busybox, the modules that reach the host's files, and our agent.

A "newc" cpio archive, written here because its format is a page (kernel documentation,
driver-api/early-userspace/buffer-format.rst).
"""
from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import stat
from pathlib import Path

from softhca_vm.errors import VmError
from softhca_vm.kernel import Kernel

HERE = Path(__file__).parent
# Name in the archive: our file.
OURS = {"init": HERE / "guest_init", "agent.py": HERE / "guest_agent.py"}
BUSYBOX = Path("/bin/busybox")
MODULES = ("virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay")
FOLDERS = ("bin", "dev", "host", "modules", "newroot", "proc", "sys", "tmpfs")


def provide(cache: Path, kernel: Kernel) -> Path:
    """Built anew whenever something that goes into it has changed."""
    modules = _load_order(kernel)
    sources = [BUSYBOX, Path(__file__), *OURS.values(), *modules]
    state = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}\n" for path in sources]
    key = hashlib.sha256("".join(state).encode()).hexdigest()[:16]
    archive = cache / f"initramfs-{kernel.release}-{key}.gz"
    if not archive.exists():
        for old in cache.glob(f"initramfs-{kernel.release}-*.gz"):
            old.unlink(missing_ok=True)
        fresh = archive.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(gzip.compress(_content(modules), compresslevel=1, mtime=0))
        os.rename(fresh, archive)
    return archive


def _load_order(kernel: Kernel) -> list[Path]:
    """Module files, each after those it needs."""
    needs: dict[str, list[str]] = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        module, _, others = line.partition(":")
        needs[module] = others.split()
    by_name = {_module_name(path): path for path in needs}
    builtin = {_module_name(path)
               for path in (kernel.modules / "modules.builtin").read_text().split()}
    order: list[str] = []
    for name in MODULES:
        if name in builtin:
            continue
        if name not in by_name:
            raise VmError(f"the kernel {kernel.release} lacks {name}, which the guest needs")
        # modules.dep names all needed modules, the deepest last.
        for module in [*reversed(needs[by_name[name]]), by_name[name]]:
            if module not in order:
                order.append(module)
    return [kernel.modules / module for module in order]


def _module_name(path: str) -> str:
    return Path(path).name.removesuffix(".xz").removesuffix(".ko").replace("-", "_")


def _content(modules: list[Path]) -> bytes:
    if not BUSYBOX.exists():
        raise VmError(f"{BUSYBOX} is missing (apt install busybox-static)")
    archive = Archive()
    for folder in FOLDERS:
        archive.add(folder, stat.S_IFDIR | 0o755)
    archive.add("bin/busybox", stat.S_IFREG | 0o755, BUSYBOX.read_bytes())
    for name, source in OURS.items():
        archive.add(name, stat.S_IFREG | 0o755, source.read_bytes())
    for module in modules:
        content = module.read_bytes()  # compressed since Debian 13
        archive.add(f"modules/{_module_name(module.name)}", stat.S_IFREG | 0o644,
                    lzma.decompress(content) if module.suffix == ".xz" else content)
    archive.add("modules/order", stat.S_IFREG | 0o644,
                "".join(f"{_module_name(module.name)}\n" for module in modules).encode())
    return archive.finish()


class Archive:
    """cpio "newc": an entry is 13 numbers of 8 hex digits, a name, content; each padded to 4."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._entries = 0

    def add(self, name: str, mode: int, content: bytes = b"") -> None:
        self._entries += 1
        links = 1
        size, name_size = len(content), len(name) + 1
        numbers = [self._entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0]
        self._data += b"070701" + b"".join(b"%08X" % number for number in numbers)
        self._data += name.encode() + b"\0"
        self._pad()
        self._data += content
        self._pad()

    def _pad(self) -> None:
        self._data += bytes(-len(self._data) % 4)

    def finish(self) -> bytes:
        self.add("TRAILER!!!", 0)
        return bytes(self._data)
