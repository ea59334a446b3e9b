#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the kernel's mlx5_ifc.h readable for C++: flexible array members become empty arrays."""
import sys
from pathlib import Path


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    target.write_text(source.read_text().replace("[]", "[0]"))


main()
