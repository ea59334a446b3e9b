#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the kernel's mlx5_ifc.h readable for C++: flexible array members become empty arrays."""
import re
import sys
from pathlib import Path


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    text = re.sub(r"DECLARE_FLEX_ARRAY\(([^,;]+),\s*(\w+)\)", r"\1 \2[0]", source.read_text())
    target.write_text(text.replace("[]", "[0]"))


main()
