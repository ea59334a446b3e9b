# SPDX-License-Identifier: BSD-3-Clause
"""Random rules and packets, against a model of rte_flow written from its guide: each packet goes where the model
says and is counted, and refusals have a reason that the driver's guide gives.

A failure names its seed, and `pytest tests/functional/flow/test_flow_random.py -k` repeats its test.
"""

from itertools import product

import pytest
from rig.flow_edits import KINDS
from rig.flow_forward import ARGUMENTS, ForwardRun, forwarded
from rig.flow_meters import meters_of_one_color
from rig.flow_frames import Words
from rig.flow_model import FLAGS, HEADERS
from rig.flow_random import QUEUES, random_round
from rig.flow_reasons import all_of, any_of, asks, asks_for, carries, changes, has, has_range, samples, twice
from rig.flow_runs import FlowRun, GroupRun, Refusals, grouped, of_zero_ports
from rig.guide import matched_fields
from rig.ports import lossless

from functional.conftest import OpenStack
from functional.flow.test_flow_items import NOT_IN_TESTPMD

RULES_OF_ROUND = 8
RULES_OF_SEED = 400  # accepted rules: 10,000 in total
SEEDS = 25


def words_of(engine: str) -> Words:
    fields = matched_fields()
    return fields.by_both if engine == "verbs" else fields.by_both | fields.by_mlx5


REFUSED: Refusals = {
    "the device matches masks, and this range": has_range,
    "item icmp6?: field .* cannot be matched inside a tunnel": carries("icmp", "icmp6"),
    "field has_more_vlan cannot be matched": asks("has_more_vlan"),  # after the second tag
    "field packet_id cannot be matched": asks("packet_id"),
    "a rule of the same priority matches": twice,
    "the device has a rule with this match already": twice,  # such as for an EtherType and for its item
    r"cannot create steering rule .*/esp": carries("esp"),
    "ICMPv6 would get a wrong checksum": all_of(
        any_of(has("icmp6"), asks_for("proto", 58)), changes("ipv6", "src", "dst")),
}
# For a group served by commands, where a range becomes many rules: lower priorities have little room.
FULL: Refusals = {"the device's flow tables are full": has_range}
REFUSED_BY: dict[str, Refusals] = {
    "mlx5": REFUSED,
    "verbs": REFUSED | {
        "verbs flow specs have no place": any_of(
            asks(*(name for _, name in matched_fields().by_mlx5)), has("vlan", "geneve", "vxlan-gpe", "gtp")),
        "verbs flow specs carry one VLAN tag": any_of(has("vlan"), asks("has_vlan")),
        "verbs flow specs carry the outer header only": carries("esp"),
        "verbs flow specs have one destination": samples,
        # Not accepted by mlx5_ib.
        "cannot create steering rule": any_of(asks("ttl", "hop", "c_bit", "k_bit", "s_bit"), has("gre_key", "nvgre")),
    },
}


# Fields of the guide that random rules do not ask for, and why.
NOT_IN_MODEL = {
    **{field: "testpmd cannot say it" for field in NOT_IN_TESTPMD},
    ("ipv4", "version"): "part of version_ihl",
    **{("gtpu", name): "another name for gtp" for name in HEADERS["gtp"][1]},
    **{("tag", f"index {index}"): "in rules of groups, which FlowRun adds" for index in range(4)},
    ("mark", "id"): "likewise",
}


def test_the_model_has_the_fields_of_the_guide() -> None:
    fields = matched_fields()
    in_model = {(kind, name) for kind, (_, names) in HEADERS.items() for name in names} | {*FLAGS.items()}
    assert (fields.by_both | fields.by_mlx5) - in_model - {*NOT_IN_MODEL} == set()
    assert not in_model & {*NOT_IN_MODEL}


@pytest.mark.parametrize("seed, rules", [
    (0, 100), *(pytest.param(seed, RULES_OF_SEED, marks=pytest.mark.thorough)
                for seed in range(1, SEEDS + 1))])
@pytest.mark.parametrize("engine", REFUSED_BY)
def test_what_the_model_says(open_stack: OpenStack, engine: str, seed: int, rules: int) -> None:
    ports = lossless(1, devargs=f"flow_engine={engine}")
    arguments = [f"--rxq={QUEUES}", f"--txq={QUEUES}"]
    with open_stack(ports, datapath="mlx5", testpmd_args=arguments) as stack:
        run = FlowRun(stack, REFUSED_BY[engine], detours=engine == "mlx5", templates=True)
        meters = meters_of_one_color(stack) if engine == "mlx5" else ()
        round_ = 0
        while run.rules < rules or (run.from_templates <= run.rules / 40 and run.rules < 2 * rules):
            run.play(random_round(f"{engine}-{seed}-{round_}", RULES_OF_ROUND, words_of(engine),
                                  counting=True, sampling=True, meters=meters))
            round_ += 1
    # Most packets are handled by rules, mostly by a single one; and enough packets match none.
    assert run.taken > run.rules and run.passed > run.rules
    assert run.open_ < run.taken / 4, f"{run.open_} of {run.taken} packets might go several ways"
    assert run.from_templates > run.rules / 40
    if engine == "mlx5":
        packets, copies = (sum(numbers) for numbers in zip(*(
            numbers for ratio, numbers in run.copied.items() if ratio > 1)))
        assert run.copied[1][0] > 0 and packets > copies > 0, run.copied
        assert run.metered.keys() >= {*product("GYR", (False, True))}, run.metered


@pytest.mark.parametrize("seed, rules", [
    (1, 100), *(pytest.param(seed, RULES_OF_SEED, marks=pytest.mark.thorough) for seed in range(2, 6))])
@pytest.mark.parametrize("format_", ["0", "1"], ids=lambda number: f"format{number}")
def test_templates_of_a_group(open_stack: OpenStack, format_: str, seed: int, rules: int) -> None:
    """By software steering, with each format of its entries. In every third round some rule makes copies, for which
    the whole group is re-created by commands."""
    ports = lossless(1, devargs="flow_engine=mlx5", devx="on", steering_format=format_)
    arguments = [f"--rxq={QUEUES}", f"--txq={QUEUES}"]
    with open_stack(ports, datapath="mlx5", testpmd_args=arguments) as stack:
        run = GroupRun(stack, FULL | REFUSED, of_zero_ports, templates=True, divides=True)
        round_ = 0
        while run.rules < rules or run.from_templates < run.rules / 20:
            run.play(grouped(random_round(f"group-{seed}-{round_}", RULES_OF_ROUND, words_of("mlx5"),
                                          counting=True, sampling=round_ % 3 == 0)))
            round_ += 1
    assert run.taken > run.rules and run.passed > run.rules
    assert run.excused < run.taken / 10
    assert run.served["software steering"] > run.rules / 4 and run.served["mlx5"] > run.rules / 4, run.served


@pytest.mark.parametrize("seed, rules", [
    (2, 60), *(pytest.param(seed, RULES_OF_SEED, marks=pytest.mark.thorough) for seed in range(3, 8))])
def test_what_comes_out_again(open_stack: OpenStack, seed: int, rules: int) -> None:
    """Rules of either direction, compared byte by byte, until each kind has changed packets; and rules that age."""
    ports = lossless(1, devargs="flow_engine=mlx5", devx="on")
    with open_stack(ports, datapath="mlx5", testpmd_args=ARGUMENTS) as stack:
        run = ForwardRun(stack, REFUSED, detours=True, metadata=True)
        meters = meters_of_one_color(stack)
        round_ = 0
        while run.rules < rules or run.rules < 4 * rules and (
                {*run.edited} != KINDS or run.edited_inside < run.rules // 60):
            run.play(forwarded(random_round(f"forward-{seed}-{round_}", RULES_OF_ROUND,
                                            words_of("mlx5"), counting=True, meters=meters,
                                            often="vxlan")))
            round_ += 1
    assert run.taken > run.rules and run.passed > run.rules
    assert {*run.edited} == KINDS and run.edited.total() > run.rules / 4 and run.aged > 0
    assert run.edited_inside >= run.rules // 60
    assert {drops for _, drops in run.metered} == {False, True}, run.metered
