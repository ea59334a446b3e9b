# SPDX-License-Identifier: BSD-3-Clause
"""A guest for fixtures: it must shut down properly."""

from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from .guest import Guest


@contextmanager
def running_guest(build_folder: Path, folder: Path, limit_s: int) -> Iterator[Guest]:
    """A guest that must shut down properly: drivers unloaded, no complaint from the kernel, power off.

    Its logs are left in `folder`: console, QEMU, devices and the kernel's own.
    """
    guest = Guest(build_folder, folder, limit_s=limit_s)
    try:
        yield guest
        if guest.channel.ended:
            raise AssertionError(f"the guest ended by itself\n{guest.machine.explain()}")
        guest.drop_spares()
        guest.unload_drivers()
        guest.check_alarms()
        keep_dmesg(guest)
        guest.machine.power_off()
    finally:
        keep_dmesg(guest)
        guest.close()


def keep_dmesg(guest: Guest) -> None:
    try:
        (guest.folder / "dmesg.log").write_text(guest.dmesg())
    except Exception:  # the guest is gone: the console's log has its messages
        pass
