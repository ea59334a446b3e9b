# SPDX-License-Identifier: BSD-3-Clause
"""Each item and each action listed in features/rawqp.ini is in a rule that a test on either front sends packets
to, and not only in a refused one; and for each action, some of them differ from the pattern in one bit."""

import ast
import re
from pathlib import Path
from typing import Iterator

import pytest
from rig.guide import features

from functional import test_flow_basic, test_flow_edits, test_send_to_kernel
from functional.flow import (test_flow, test_flow_age, test_flow_groups, test_flow_items, test_flow_metadata,
                             test_flow_meter, test_flow_misses, test_flow_passthru, test_flow_sample, test_flow_shared)

MODULES = [test_flow, test_flow_age, test_flow_basic, test_flow_edits, test_flow_groups, test_flow_items,
           test_flow_metadata, test_flow_meter, test_flow_misses, test_flow_passthru, test_flow_sample, test_flow_shared]
NOT_IN_TESTPMD = {"igmp"}  # tests/functional/ethdev/flow_test.cpp has it


def of_packets(tree: ast.Module | ast.ClassDef) -> Iterator[ast.stmt]:
    """The statements that are not about refusals."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from of_packets(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            if "REFUSED" not in ast.unparse(node).split("=")[0]:
                yield node
        elif not re.search("refus|cannot", getattr(node, "name", "")):
            yield node


def texts(file: str | None) -> list[str]:
    """The rules, and pieces of rules: strings of several words in a module."""
    assert file is not None
    strings = (node.value for statement in of_packets(ast.parse(Path(file).read_text())) for node in ast.walk(statement)
               if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [text for text in strings if " " in text]


def first_words() -> set[str]:
    """The first word of each part of a rule; slashes separate parts."""
    return {words[0] for module in [*MODULES, test_send_to_kernel] for text in texts(module.__file__)
            for piece in re.split(r" ?/ |\bpattern |\bactions ", text) if (words := piece.split())}


@pytest.mark.parametrize("section", ["rte_flow items", "rte_flow actions"])
def test_each_is_in_a_rule(section: str) -> None:
    listed = {name.replace("vxlan_gpe", "vxlan-gpe") for name in features(section)}
    assert len(listed) >= 24
    assert listed - first_words() == listed & NOT_IN_TESTPMD


# Tests that send packets which differ from the pattern in one bit, of actions that are in no table of such tests.
MISSED_BY = {
    "queue": test_flow_basic.test_queue,
    "mark": test_flow_items.test_every_bit_of_a_field,
    "count": test_flow_misses.test_a_counter_misses_by_one_bit,
    "age": test_flow_misses.test_an_age_misses_by_one_bit,
    "passthru": test_flow_passthru.test_a_packet_gets_the_effects_of_both,
    "sample": test_flow_sample.test_each_packet_and_its_copy,
    "vxlan_decap": test_flow_edits.test_a_tunnel_comes_off,
    "nvgre_decap": test_flow_edits.test_nvgre_comes_off,
    "raw_decap": test_flow_edits.test_a_tunnel_of_ip_comes_off,
    "vxlan_encap": test_flow_edits.test_vxlan_goes_on_as_it_is_given,
    "nvgre_encap": test_flow_edits.test_nvgre_goes_on,
    "raw_encap": test_flow_edits.test_a_tunnel_goes_on,
}


def test_each_action_is_missed_by_one_bit() -> None:
    rules = [*test_flow_misses.EFFECTS, *test_flow_edits.CHANGES, *test_flow_groups.TAGS, *test_flow_metadata.SETTERS]
    missed = {piece.split()[0] for actions in rules for piece in actions.split(" / ")}
    assert features("rte_flow actions").keys() == missed | MISSED_BY.keys()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_they_run_in_the_guest(module: object) -> None:
    marks = getattr(module, "pytestmark")
    assert "guest" in {mark.name for mark in (marks if isinstance(marks, list) else [marks])}
