# SPDX-License-Identifier: BSD-3-Clause
"""The guide's table of actions matches the ports: by engine and direction, with and without DevX; and the
feature list marks an action as partial where it needs DevX."""

import re
from typing import Iterator

import pytest
from rig.flow_meters import Meters
from rig.guide import GUIDE, features
from rig.ports import PortSpec
from rig.stack import Stack

from functional.conftest import OpenStack

UDP, TCP, TCP6, VLAN = "eth / ipv4 / udp", "eth / ipv4 / tcp", "eth / ipv6 / tcp", "eth / vlan / ipv4"
VXLAN, NVGRE = "eth / ipv4 / udp / vxlan", "eth / ipv4 / nvgre"
MAC = "mac_addr 02:00:00:00:00:09"
FATES = {"queue", "rss", "drop", "jump", "passthru", "send_to_kernel"}  # received packets need one

# A minimal rule for each action.
RULES: dict[str, tuple[str, str]] = {
    "queue": (UDP, "queue index 1"),
    "rss": (UDP, "rss types ipv4 end queues 0 1 end"),
    "drop": (UDP, "drop"),
    "jump": (UDP, "jump group 1"),
    "send_to_kernel": (UDP, "send_to_kernel"),
    "passthru": (UDP, "passthru"),
    "mark": (UDP, "mark id 5"),
    "flag": (UDP, "flag"),
    "count": (UDP, "count"),
    "age": (UDP, "age timeout 9"),
    "sample": (UDP, "sample ratio 2 index 0"),
    "meter": (UDP, "meter mtr_id 1"),
    "set_mac_src": (UDP, f"set_mac_src {MAC}"),
    "set_mac_dst": (UDP, f"set_mac_dst {MAC}"),
    "set_ipv4_src": (UDP, "set_ipv4_src ipv4_addr 10.9.9.9"),
    "set_ipv4_dst": (UDP, "set_ipv4_dst ipv4_addr 10.9.9.9"),
    "set_ipv6_src": (TCP6, "set_ipv6_src ipv6_addr fd09::9"),
    "set_ipv6_dst": (TCP6, "set_ipv6_dst ipv6_addr fd09::9"),
    "set_tp_src": (UDP, "set_tp_src port 9"),
    "set_tp_dst": (UDP, "set_tp_dst port 9"),
    "set_ttl": (UDP, "set_ttl ttl_value 9"),
    "dec_ttl": (UDP, "dec_ttl"),
    "set_ipv4_dscp": (UDP, "set_ipv4_dscp dscp_value 9"),
    "set_ipv6_dscp": (TCP6, "set_ipv6_dscp dscp_value 9"),
    "of_set_vlan_vid": (VLAN, "of_set_vlan_vid vlan_vid 9"),
    "inc_tcp_seq": (TCP, "inc_tcp_seq value 9"),
    "dec_tcp_seq": (TCP, "dec_tcp_seq value 9"),
    "inc_tcp_ack": (TCP, "inc_tcp_ack value 9"),
    "dec_tcp_ack": (TCP, "dec_tcp_ack value 9"),
    "modify_field": (UDP, "modify_field op set dst_type ipv4_ttl src_type value src_value 09 width 8"),
    "set_meta": (UDP, "set_meta data 9 mask 0xff"),
    "set_tag": (UDP, "set_tag data 9 mask 0xff index 0"),
    "vxlan_decap": (VXLAN, "vxlan_decap"),
    "nvgre_decap": (NVGRE, "nvgre_decap"),
    "raw_decap": (VXLAN, "raw_decap index 0"),
    "vxlan_encap": (UDP, "vxlan_encap"),
    "nvgre_encap": (UDP, "nvgre_encap"),
    "raw_encap": (UDP, "raw_encap index 0"),
    "of_pop_vlan": (VLAN, "of_pop_vlan"),
    "of_push_vlan": (UDP, "of_push_vlan ethertype 0x8100"),
    "of_set_vlan_pcp": (UDP, "of_push_vlan ethertype 0x8100 / of_set_vlan_pcp vlan_pcp 3"),
}
OF_GROUPS = {"passthru"}  # above 0
FOR_GROUPS = {"set_meta", "set_tag"}  # their values are for groups, which need DevX
PORTS = ("mlx5 with DevX", "mlx5", "verbs")  # the columns of the guide, from the right: meters are on port 0


@pytest.fixture(scope="module")
def stack(open_stack: OpenStack) -> Iterator[Stack]:
    ports = [PortSpec(options={"devx": "on" if "DevX" in name else "off"}, devargs=f"flow_engine={name.split()[0]}")
             for name in PORTS]
    with open_stack(ports, datapath="mlx5", testpmd_args=["--rxq=2", "--txq=2"]) as stack:
        yield stack


def table() -> dict[str, list[str]]:
    """The guide's entries for each port."""
    found = re.search(r"csv-table:: Actions\n(?:   :.*\n)+\n((?:   .+\n)+)", GUIDE.read_text())
    assert found
    rows = (line.strip().split(";") for line in found[1].splitlines())
    return {name: [cell.strip() for cell in cells] for name, *cells in rows}


def directions(stack: Stack, port: int, action: str) -> str:
    pattern, text = RULES[action]
    fate = "" if action in FATES else " / queue index 0"
    group = "group 1 " if action in OF_GROUPS else ""
    rules = {"ingress": f"{group}ingress pattern {pattern} / end actions {text}{fate} / end",
             "egress": f"{group}egress pattern {pattern} / end actions {text} / end"}
    return ", ".join(way for way, rule in rules.items() if not stack.testpmd.validate_flow(port, rule))


def test_the_guide_says_what_ports_say(stack: Stack) -> None:
    Meters(stack).make(1, "srtcm_rfc2697 1000 1000 0 0")
    stack.testpmd.silent(
        "set sample_actions 0 queue index 1 / end", "set raw_decap 0 eth / ipv4 / udp / vxlan / end_set",
        "set raw_encap 0 eth / ipv4 / udp / vxlan / end_set")
    assert {action: [directions(stack, port, action) for port in reversed(range(len(PORTS)))]
            for action in RULES} == table()


def test_the_list_of_features_says_it_too() -> None:
    partial = {action for action, (verbs, mlx5, devx) in table().items()
               if {*devx.split(", ")} - {*verbs.split(", "), *mlx5.split(", ")}}
    listed = features("rte_flow actions")
    assert listed == {action: "P" if action in partial | FOR_GROUPS else "Y" for action in RULES}
