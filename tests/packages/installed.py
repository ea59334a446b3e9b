# SPDX-License-Identifier: BSD-3-Clause
"""In a Debian with our packages: uses the installed files, and removes the packages again.

scripts/check-package runs it, as root. Only these packages and their dependencies are installed, so it
uses only Python's standard library."""
from __future__ import annotations

import os
import re
import struct
import subprocess
import time
from pathlib import Path

PACKAGES = ("librte-net-rawqp", "softhca", "rawqp-doc")
PROGRAMS = ("rawqp-doctor", "rawqp-perf", "softhca", "softhca-pci")
# Volatile files, and those that do not belong to this Debian.
NOT_LOOKED_AT = {"/dev", "/proc", "/sys", "/run", "/rawqp", "/packages", "/dpdk-sdk", "/var/cache",
                 "/var/log", "/var/lib/apt", "/var/lib/dpkg"}
WORK = Path("/var/cache/rawqp-check")
FRAMES = [bytes.fromhex("020000000001" "02aa00000001" "88b5") + bytes([number]) * (46 + 9 * number)
          for number in range(100)]
TIMEOUT_S = 120


def run(*command: str, status: int = 0) -> str:
    print("+", " ".join(command), flush=True)
    ended = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL, timeout=600,
                           env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    assert ended.returncode == status, f"status {ended.returncode}:\n{ended.stdout}"
    return ended.stdout


def files() -> set[str]:
    found = set()
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders
                      if os.path.join(folder, name) not in NOT_LOOKED_AT]
        found |= {os.path.join(folder, name) for name in [*names, *folders]}
    return found


def write_capture(path: Path, frames: list[bytes]) -> None:
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in frames:
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def read_capture(path: Path) -> list[bytes]:
    """The complete frames of a file that may still grow."""
    data = path.read_bytes() if path.exists() else b""
    at, frames = 24, []
    while len(data) >= at + 16:
        size = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16:at + 16 + size])
        at += 16 + size
    return frames


def forward() -> None:
    """DPDK finds the driver by itself, softhca its library; testpmd forwards one file to another."""
    played, recorded = WORK / "in.pcap", WORK / "out.pcap"
    recorded.unlink(missing_ok=True)
    write_capture(played, FRAMES)
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    command = [
        "softhca", "--port", f"wire=pcap:{played},pause=on", "--port", f"wire=pcap:,{recorded}", "--",
        "dpdk-testpmd", "--lcores", f"0@({cpus}),1@({cpus})", "--no-huge", "-m", "256", "--no-shconf",
        "--no-telemetry", "--no-pci", "--vdev", "net_rawqp0,device=mlx5_0",
        "--vdev", "net_rawqp1,device=mlx5_1", "--", "--no-flush-rx", "--forward-mode=io",
        "--auto-start", "--total-num-mbufs=4096"]
    print("+", " ".join(command), flush=True)
    with (WORK / "testpmd.log").open("w+") as log:
        testpmd = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while len(arrived := read_capture(recorded)) < len(FRAMES):
                assert testpmd.poll() is None and time.monotonic() < deadline, \
                    f"{len(arrived)} frames\n{(WORK / 'testpmd.log').read_text()}"
                time.sleep(0.05)
            testpmd.communicate(b"\n", timeout=TIMEOUT_S)
        finally:
            testpmd.kill()
            testpmd.wait()
    assert testpmd.returncode == 0
    assert read_capture(recorded) == FRAMES


def use() -> None:
    for package in PACKAGES:
        listed = run("dpkg", "--listfiles", package).split("\n")
        missing = [path for path in listed if path and not os.path.lexists(path)]
        assert not missing, f"{package}: {missing} is not there"
    assert "mlx5_0" in run("softhca", "--", "ibv_devinfo")
    forward()
    walk = run("softhca", "--", "rawqp-doctor")
    assert re.search("(?m)^ok +plugin", walk) and "no link is broken" in walk, walk
    for program in PROGRAMS[2:]:
        assert "--port" in run(program, "--help")
    assert "--share" in run("softhca", "vm", "--help")
    assert "cycles" in run("rawqp-perf", "--no-huge", "-m", "64", "--no-pci", "--no-shconf",
                           "--no-telemetry", "--", "--help")
    for program in PROGRAMS:
        page = run("man", "--encoding=ascii", program)
        assert re.search(rf"(?m)^NAME\n +{program} - ", page), page
    check_documents(Path("/usr/share/doc/rawqp-doc"))


def check_documents(folder: Path) -> None:
    """Links within the package lead somewhere."""
    pages = [folder / "README.md", *folder.glob("doc/*.md")]
    links = [(page, link) for page in pages
             for link in re.findall(r"\]\(([^)#:\s]+)[#)]", page.read_text())]
    assert any(link == "doc/softhca.md" for _, link in links), links
    broken = [f"{page}: {link}" for page, link in links if not (page.parent / link).exists()]
    assert not broken, broken


def purge() -> None:
    run("apt-get", "purge", "--yes", *PACKAGES)


def bring_what_they_link_to() -> None:
    """dpdk-dev pulls in all libraries of DPDK, and tcpdump libpcap; without them, our packages must declare
    theirs."""
    run("apt-get", "purge", "--yes", "dpdk-dev", "tcpdump")
    run("apt-get", "autoremove", "--purge", "--yes")
    for library in ("librte_eal", "libpcap"):
        assert not list(Path("/usr/lib").glob(f"*/{library}.so.*")), "of another package"
    install = ("apt-get", "install", "--yes", "--no-install-recommends")
    run(*install, *map(str, Path("/packages").glob("*.deb")))
    for package in PACKAGES:
        for file in run("dpkg", "--listfiles", package).split("\n"):
            if Path(file).is_file() and Path(file).read_bytes()[:4] == b"\x7fELF":
                assert "not found" not in (needs := run("ldd", file)), needs
    recommended = run("dpkg-query", "--show", "--showformat=${Recommends}", "softhca")
    run(*install, *recommended.split(", "))
    run("softhca", "--port", "wire=pcap:,/dev/null", "--", "ibv_devinfo")


def main() -> None:
    WORK.mkdir(exist_ok=True)
    run("apt-get", "update")
    run("apt-get", "install", "--yes", "--no-install-recommends", "man-db")
    use()
    purge()
    without = files()
    left = {path for path in without if re.search("rawqp|softhca", path)}
    assert not left, f"purged, they leave {sorted(left)}"
    # All dependencies are installed now, so files that appear from here on belong to our packages.
    run("dpkg", "--install", *map(str, Path("/packages").glob("*.deb")))
    use()
    purge()
    left = files() ^ without
    assert not left, f"purged, they leave or take {sorted(left)}"
    bring_what_they_link_to()
    purge()
    print("installed, used and removed:", *PACKAGES)


if __name__ == "__main__":
    main()
