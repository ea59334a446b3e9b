# SPDX-License-Identifier: BSD-3-Clause
"""Random rules and packets on net_rawqp and on DPDK's own net_mlx5, in both of its modes: a rule that both accept
does the same on both, judged by packets and counters; some of net_rawqp's rules come from templates. Differences,
in rules that one of them refuses or in packets, are listed here with their reasons."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Sequence

import pytest
from rig.flow_edits import COMMON_KINDS, Encap, PushVlan
from rig.flow_forward import ARGUMENTS, ForwardRun, forwarded
from rig.flow_metered import MeterRun, metered
from rig.flow_meters import COLORS
from rig.flow_model import Header, Item, Rule, dissect
from rig.flow_frames import Words
from rig.flow_random import QUEUES, random_round
from rig.flow_reasons import (all_of, any_of, asks, asks_for, carries, changes, copies_fields, counts, drops, edits,
                              has, has_range, meters, of_first_group, of_later_group, received, sent, twice)
from rig.flow_runs import Excuse, FlowRun, GroupRun, Refusals, grouped, of_zero_ports
from rig.guide import matched_fields
from rig.ports import PortSpec
from rig.sanitizers import leaks_ignored

from functional.conftest import OpenStack

RULES_OF_ROUND = 8
SEEDS, RULES_OF_SEED = {"dv": 25, "verbs": 5}, 400  # in the whole matrix
MOST_ROUNDS = 20  # until each kind of edit has occurred
# The largest share of packets that may be excused, above what seeds have shown: at most 5.2 % (dv), 0 % (verbs),
# 31.2 % (forward), 4.4 % (copy) and 7.5 % (meter). A round's rules repeat patterns and fields, so that one rule with
# an excuse affects many of its packets. Forwarded and metered packets are not even sent if there is an excuse for
# them, as they would shift the order, or take tokens: there, it counts also where both drivers would have agreed.
MOST_EXCUSED = {"dv": 0.10, "verbs": 0.02, "forward": 0.40, "copy": 0.08, "meter": 0.15}

# net_mlx5 deviates here: an EtherType means frames without tags, has_vlan those of 802.1Q, and neither holds
# in a rule with rss. These fields are compared with the model instead.
UNCOMMON = {("eth", "type"), ("eth", "has_vlan"), ("vlan", "has_more_vlan"), ("vlan", "inner_type")}


def spreads_any_tagged(rule: Rule, _: Sequence[Rule]) -> bool:
    """Spreads by ports, with a single vlan item as pattern and no header before or after the tag. To spread by packet
    types, net_mlx5 adds their headers to the pattern; it treats one that begins with vlan as one that ends in
    IPv6, and adds UDP and TCP without IP, for which libmlx5 makes no steering entries. (With an eth item before
    the tag, or an IP item after it, it accepts the rule.)"""
    items = [item for item in rule.items if item.kind != "void"]
    return [item.kind for item in items] == ["vlan"] and items[0].on("inner_type") is None and (
        len(rule.queues) > 1 and {"udp", "tcp"} & {*rule.rss_types.split()} != set())


OURS: Refusals = {
    "the device matches masks, and this range": has_range,
    "field .* cannot be matched inside a tunnel": carries("icmp", "icmp6"),
    "field has_more_vlan cannot be matched": asks("has_more_vlan"),
    "field packet_id cannot be matched": asks("packet_id"),
    "counters by DevX only": counts,
    "a rule of the same priority matches": twice,
    # Not accepted by mlx5_ib through verbs, where the counters are.
    "cannot create steering rule": any_of(carries("esp"), counts),
}
OURS_BY_MLX5 = OURS | {
    "cannot create steering rule": carries("esp"),
    "ICMPv6 would get a wrong checksum": all_of(
        any_of(has("icmp6"), asks_for("proto", 58)), changes("ipv6", "src", "dst")),
}
del OURS_BY_MLX5["counters by DevX only"]
THEIRS: Refusals = {
    # Rules that net_rawqp accepts.
    r"proto \(next header\) should not be set as ext": asks("proto"),  # AH and ESP, by their numbers
    "protocol filtering not compatible": asks("proto", "protocol"),
    "item not supported": has("arp_eth_ipv4", "gre", "gre_key", "nvgre", "esp", "geneve", "gtp"),
    "ICMP/ICMP6 item not supported": has("icmp", "icmp6"),
    "VLAN cannot be empty": has("vlan"),
    "multiple VLAN layers not supported": has("vlan"),
    "L3 cannot follow an NVGRE layer": has("nvgre"),  # without the Ethernet header between them
    "mask enables non supported bits": any_of(asks(
        "packet_id", "ttl", "hop", "tos", "tc", "fragment_offset", "has_frag_ext", "has_vlan", "has_more_vlan",
        "flags", "proto", "protocol"), has("vlan")),
    "partial mask is not supported for protocol": asks("proto"),
    "range is not valid": has_range,
    # The device's error, without the reason.
    "hardware refuses to create flow: File exists": twice,
    "hardware refuses to create flow: Invalid argument": any_of(
        carries("esp"), has("gre_key", "vlan", "vxlan", "geneve", "gtp")),  # such as a partial mask of a tunnel's port
    # Kernel flows cannot change tags, but net_mlx5 requests it in group 0 nevertheless.
    "hardware refuses to create flow: Operation not supported": all_of(
        of_first_group, edits("of_push_vlan", "of_pop_vlan")),
    # Fields are copied only in later groups.
    "modify field action is not supported for group 0": all_of(of_first_group, copies_fields),
    # Its checksum covers the addresses, and devices leave it as it was.
    "Can't change header with ICMPv6 proto": all_of(
        any_of(has("icmp6"), asks_for("proto", 58)), edits("set_ipv6_src", "set_ipv6_dst")),
    # No entry has a place for an SPI, and libmlx5 of rdma-core 56 refuses unhandled parts of a mask.
    # (That of 44 does not check, see of_dv_groups().)
    "cannot allocate ref memory": all_of(of_later_group, any_of(has("esp"), spreads_any_tagged)),
    # As on a ConnectX-5, by the format of steering entries.
    "push VLAN action not supported for ingress": all_of(received, edits("of_push_vlan")),
    "pop vlan action not supported for egress": all_of(sent, edits("of_pop_vlan")),
}

THEIRS_WITH_METERS = THEIRS | {
    # net_mlx5 derives such rules from one with a meter whose packets all have the same fate.
    "Drop action is mutually-exclusive with any other action": all_of(meters, drops),
}


def of_both_modes(rules: Sequence[Rule], frame: bytes) -> bool:
    """The same match twice: net_mlx5 accepts both rules, and the device executes both."""
    headers = dissect(frame)
    return any(one.items == other.items and one.priority == other.priority and one.takes(headers)
               for one, other in combinations(rules, 2))


def without(rule: Rule, kind: str) -> Rule:
    return replace(rule, items=[item for item in rule.items if item.kind != kind])


def takes_any_udp(rule: Rule, headers: Sequence[Header]) -> bool:
    """Before a VXLAN item, net_mlx5 matches only those bits of the UDP port that the rule matches, whereas net_rawqp
    adds the others of VXLAN's port. A packet to another port has no VXLAN header: devices see a VNI of zero, and
    zeros after it."""
    kinds = [item.kind for item in rule.items]
    if "vxlan" not in kinds:
        return False
    before = rule.items[:kinds.index("vxlan")]
    port = next((item for item in reversed(before) if item.kind == "udp"), Item("udp")).on("dst")
    return port is not None and port.mask & 0xFFFF != 0xFFFF and replace(rule, items=before).takes(headers)


def of_dv_flows(rules: Sequence[Rule], frame: bytes) -> bool:
    """Where net_mlx5 deviates from the rte_flow guide in its own mode: without a mask it also compares the EtherType,
    inner ICMP headers are looked for outside the tunnel, and a GRE key is compared without checking that there is
    one, as the match for the GRE item overwrites that check. See also takes_any_udp(), for rules that match no VXLAN
    field (the device refuses others)."""
    headers = dissect(frame)
    kinds = {header.kind for header in headers}
    inner_icmp, gre_key = carries("icmp", "icmp6"), has("gre_key")

    def does_otherwise(rule: Rule) -> bool:
        if inner_icmp(rule, []) and kinds & {"icmp", "icmp6"}:
            return True
        if gre_key(rule, []) and "gre_key" not in kinds and without(rule, "gre_key").takes(headers):
            return True
        return takes_any_udp(rule, headers) or rule.takes(headers) and any(
            item.kind == "eth" and item.bare_spec for item in rule.items)

    return of_both_modes(rules, frame) or any(map(does_otherwise, rules))


def any_spi(rule: Rule) -> Rule:
    return replace(rule, items=[replace(item, conditions=(), bare_spec=False) if item.kind == "esp" else item
                                for item in rule.items])


def of_dv_groups(rules: Sequence[Rule], frame: bytes) -> bool:
    """Additionally, in groups: libmlx5 of rdma-core 44 omits the SPI from its steering entries; and to match
    ports, net_mlx5 requires only the IP protocol, which a later fragment has as well. Steering entries see its ports
    as zero, which a rule may match."""
    headers = dissect(frame)
    return of_dv_flows(rules, frame) or of_zero_ports(rules, frame) or any(
        has("esp")(rule, []) and any_spi(rule).takes(headers) for rule in rules if rule.group > 0)


def counted_last(rule: Rule, frame: bytes) -> int:
    """Of the steering entries that libmlx5 creates for a rule, the last one counts: that of a tunnel comes after
    that of a tag."""
    if rule.group == 0 or not any(isinstance(edit, Encap) for edit in rule.edits):
        return len(frame)
    return len(frame) + 4 * sum(isinstance(edit, PushVlan) for edit in rule.edits)


def of_verbs_flows(rules: Sequence[Rule], frame: bytes) -> bool:
    """See takes_any_udp(). Before an ESP item (which net_mlx5 of 22.11 refuses), net_mlx5 does not match the IP
    protocol, and mlx5_ib looks for inner SPIs outside the tunnel."""
    headers = dissect(frame)
    esp = has("esp")

    def takes_any_protocol(rule: Rule) -> bool:
        return esp(rule, []) and without(rule, "esp").takes(headers)

    return of_both_modes(rules, frame) or any(
        takes_any_udp(rule, headers) or takes_any_protocol(rule) for rule in rules)


MODES: dict[str, tuple[str, Excuse]] = {"dv": ("", of_dv_flows), "verbs": ("dv_flow_en=0", of_verbs_flows)}


def words_of(mode: str) -> Words:
    fields = matched_fields()
    if mode == "dv":
        return (fields.by_both | fields.by_mlx5) - UNCOMMON
    return fields.by_both - UNCOMMON - {("ipv4", "ttl"), ("ipv6", "hop")}


def few_excused(run: FlowRun, kind: str) -> None:
    """Requires that few of the packets that rules take were excused. Several rules of the same priority may take
    an ambiguous packet, and each driver chooses another one."""
    told = f"excused: {run.excused} of {run.taken} packets ({run.excused / run.taken:.1%}); ambiguous: {run.open_}"
    print(told)
    assert run.excused <= MOST_EXCUSED[kind] * run.taken, told


@pytest.mark.parametrize("mode, seed, rules", [
    *((mode, 0, 40) for mode in MODES),
    *(pytest.param(mode, seed, RULES_OF_SEED, marks=pytest.mark.thorough)
      for mode in MODES for seed in range(1, SEEDS[mode] + 1))])
def test_both_drivers_do_the_same(open_stack: OpenStack, mode: str, seed: int, rules: int) -> None:
    devargs, excuse = MODES[mode]
    arguments = [f"--rxq={QUEUES}", f"--txq={QUEUES}"]
    ports = [PortSpec(options={"pause": "on", "devx": "on"} if mode == "dv" else {"pause": "on"})]
    with (open_stack(1, datapath="mlx5", testpmd_args=arguments) as our_stack,
          open_stack(ports, pmd="mlx5", pmd_devargs=devargs, testpmd_args=arguments) as their_stack):
        ours = FlowRun(our_stack, OURS, templates=True)
        # With DevX, net_mlx5 makes the device write all counters to memory about once a second.
        theirs = FlowRun(their_stack, THEIRS, excuse, validates=False, counts_lag=10)
        round_ = both = 0
        while both < rules:
            shared = random_round(f"{mode}-{seed}-{round_}", RULES_OF_ROUND, words_of(mode),
                                  counting=True, plain=True)
            mine, their = ours.play(shared), theirs.play(shared)
            both += sum(rule in mine for rule in their)
            round_ += 1
    few_excused(theirs, mode)
    assert ours.from_templates > 0


@pytest.mark.parametrize("seed, rules", [
    (26, 20), *(pytest.param(seed, RULES_OF_SEED, marks=pytest.mark.thorough) for seed in range(1, 3))])
def test_both_drivers_forward_the_same(open_stack: OpenStack, seed: int, rules: int) -> None:
    """Rules of either direction that drop, count, age and change headers; in group 1, net_mlx5 uses software
    steering."""
    ports = [PortSpec(options={"pause": "on", "devx": "on"})]
    devargs = [PortSpec(options={"pause": "on", "devx": "on"}, devargs="flow_engine=mlx5")]
    with (open_stack(devargs, datapath="mlx5", testpmd_args=ARGUMENTS) as our_stack,
          open_stack(ports, pmd="mlx5", testpmd_args=ARGUMENTS) as their_stack):
        ours = ForwardRun(our_stack, OURS_BY_MLX5)
        theirs = ForwardRun(their_stack, THEIRS, of_dv_groups, validates=False, counts_lag=10,
                            counted=counted_last)
        round_ = both = 0
        while both < rules or (round_ < max(MOST_ROUNDS, rules) and COMMON_KINDS > {*ours.edited} & {*theirs.edited}):
            shared = forwarded(random_round(f"forward-{seed}-{round_}", RULES_OF_ROUND, words_of("dv"),
                                            counting=True, plain=True), common=True)
            mine, their = ours.play(shared), theirs.play(shared)
            both += sum(rule in mine for rule in their)
            round_ += 1
    assert ours.aged > 0 and theirs.aged > 0
    assert {*ours.edited} == COMMON_KINDS == {*theirs.edited}, f"not all edits: {ours.edited}, {theirs.edited}"
    few_excused(theirs, "forward")


@pytest.mark.parametrize("seed, rules", [
    (0, 60), *(pytest.param(seed, RULES_OF_SEED, marks=pytest.mark.thorough) for seed in range(1, 3))])
def test_both_drivers_copy_the_same(open_stack: OpenStack, seed: int, rules: int) -> None:
    """Rules of group 1, some with action sample; net_mlx5 uses software steering for them."""
    arguments = [f"--rxq={QUEUES}", f"--txq={QUEUES}"]
    ports = [PortSpec(options={"pause": "on", "devx": "on"})]
    devargs = [PortSpec(options={"pause": "on", "devx": "on"}, devargs="flow_engine=mlx5")]
    with (open_stack(devargs, datapath="mlx5", testpmd_args=arguments) as our_stack,
          open_stack(ports, pmd="mlx5", testpmd_args=arguments) as their_stack):
        ours = GroupRun(our_stack, OURS_BY_MLX5, divides=True)
        theirs = GroupRun(their_stack, THEIRS, of_dv_groups, validates=False, counts_lag=10)
        round_ = both = 0
        while both < rules:
            shared = grouped(random_round(f"sample-{seed}-{round_}", RULES_OF_ROUND, words_of("dv"),
                                          counting=True, plain=True, sampling=True))
            mine, their = ours.play(shared), theirs.play(shared)
            both += sum(rule in mine for rule in their)
            round_ += 1
    for run in ours, theirs:
        packets, copies = (sum(numbers) for numbers in zip(*(
            numbers for ratio, numbers in run.copied.items() if ratio > 1)))
        assert run.copied[1][0] == run.copied[1][1] > 0 and packets > copies > 0, run.copied
    few_excused(theirs, "copy")


@pytest.mark.parametrize("seed, rules", [
    (0, 40), *(pytest.param(seed, RULES_OF_SEED, marks=pytest.mark.thorough) for seed in range(1, 3))])
def test_both_drivers_meter_the_same(open_stack: OpenStack, tmp_path: Path, seed: int, rules: int) -> None:
    """Rules of group 1, most with meters, which net_mlx5 supports with format 1 of steering entries."""
    arguments = [f"--rxq={QUEUES}", f"--txq={QUEUES}"]
    ports = [PortSpec(options={"pause": "on", "devx": "on", "steering_format": "1"})]
    devargs = [PortSpec(options={"pause": "on", "devx": "on"}, devargs="flow_engine=mlx5")]
    # net_mlx5 leaks libmlx5's allocations for actions that run meters.
    not_ours = leaks_ignored(tmp_path, "mlx5dv_dr_action_create_aso")
    with (open_stack(devargs, datapath="mlx5", testpmd_args=arguments) as our_stack,
          open_stack(ports, pmd="mlx5", testpmd_args=arguments, env=not_ours) as their_stack):
        ours = MeterRun(our_stack, OURS_BY_MLX5, divides=True)
        theirs = MeterRun(their_stack, THEIRS_WITH_METERS, of_dv_groups, validates=False, counts_lag=10,
                          statistics=["DROPPED"], policies_send=True)
        round_ = both = 0
        while both < rules:
            shared = grouped(metered(random_round(f"meter-{seed}-{round_}", RULES_OF_ROUND, words_of("dv"),
                                                  counting=True, plain=True)))
            mine, their = ours.play(shared), theirs.play(shared)
            both += sum(rule in mine for rule in their)
            round_ += 1
    for run in ours, theirs:
        assert min(run.colors[color] for color in COLORS) > 0, run.colors
    few_excused(theirs, "meter")
