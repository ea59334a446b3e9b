# SPDX-License-Identifier: BSD-3-Clause
"""Rules when the process has no memory left for them."""

import re
import resource
from pathlib import Path

import pytest
from rig.flow_rules import flow_stack
from rig.flow_templates import configure, create_table, destroy_table
from rig.launched import program_under

from functional.conftest import OpenStack

PATTERN = "eth / ipv4 src mask 255.255.255.255 / udp dst mask 65535"
ACTIONS = "queue index 0", "queue"
MOST_RULES = 1 << 24
SPARE_BYTES = 1 << 28


@pytest.mark.unsanitized  # a sanitizer's allocator would abort the program
def test_a_table_of_more_rules_than_there_is_memory_for(open_stack: OpenStack) -> None:
    with flow_stack(open_stack, "mlx5") as stack:
        testpmd = stack.testpmd
        configure(stack)
        create_table(stack, "1 group 0 priority 0 rules_number 64", PATTERN, *ACTIONS)
        process = program_under(stack.program)
        before = resource.prlimit(process, resource.RLIMIT_DATA)
        used = re.search(r"VmData:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        assert used
        limit = int(used[1]) * 1024 + SPARE_BYTES
        resource.prlimit(process, resource.RLIMIT_DATA, (limit, before[1]))
        answer = testpmd.command(
            "flow template_table 0 create table_id 2 group 0 priority 0 ingress"
            f" rules_number {MOST_RULES} pattern_template 1 actions_template 1")
        assert f"no memory for a table of {MOST_RULES} rules" in answer
        resource.prlimit(process, resource.RLIMIT_DATA, before)
        create_table(stack, "3 group 0 priority 0 rules_number 64", PATTERN, *ACTIONS)
        for number in (3, 1):
            destroy_table(stack, number)
