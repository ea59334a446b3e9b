# SPDX-License-Identifier: BSD-3-Clause
"""Meters: how many packets get which color by each algorithm, what happens to them, and what is refused. Rates are
so low (one token per second, or practically none) that only what the buckets held passes."""

import re
import time
from typing import Iterator

import pytest
from rig.flow_meters import Meters
from rig.flow_rules import EVENT_OF_AGE, aged, arrived, markers_for
from rig.flow_templates import configure
from rig.packets import udp4
from rig.stack import Stack
from scapy.packet import Packet

from functional.conftest import OpenStack

pytestmark = [pytest.mark.guest, pytest.mark.usefixtures("receiving")]

TO_100 = "eth / ipv4 / udp dst is 100 / end"
SLOW = 1  # tokens per second
SHORTEST = 60  # bytes of a frame


@pytest.fixture
def meters(stack: Stack) -> Iterator[Meters]:
    meters = Meters(stack)
    yield meters
    meters.clear()


def metered(stack: Stack, number: int, group: int = 0, fate: str = "mark id 7 / queue index 2") -> int:
    return stack.testpmd.create_flow(
        0, f"group {group} ingress pattern {TO_100} actions meter mtr_id {number} / {fate} / end")


def passed(stack: Stack, frames: list[Packet]) -> int:
    return sum(packet.mark == 7 for packet in arrived(stack, frames, markers_for(len(frames))))


def some(count: int) -> list[Packet]:
    return [udp4(dport=100)] * count


# Contents of the buckets: packets that become green, and yellow. At one token per second, a test that takes some
# seconds may see a few more.
ALGORITHMS = {
    f"srtcm_rfc2697 {SLOW} 10 0 1": (10, 0),
    f"srtcm_rfc2697 {SLOW} 10 15 1": (10, 15),
    f"trtcm_rfc2698 {SLOW} {SLOW} 10 30 1": (10, 20),  # green packets take from both buckets
    f"trtcm_rfc4115 {SLOW} {SLOW} 10 15 1": (10, 15),
}
SLACK = 8


@pytest.mark.parametrize("profile", ALGORITHMS)
def test_buckets_of_each_algorithm(stack: Stack, meters: Meters, profile: str) -> None:
    green, yellow = ALGORITHMS[profile]
    meters.make(1, profile)
    metered(stack, 1)
    count = passed(stack, some(100))
    counts = meters.packets(1)
    assert green <= counts[0] <= green + SLACK and yellow <= counts[1] <= yellow + SLACK
    assert sum(counts) == 100 and counts[2] == 0 and count == counts[0] + counts[1]
    assert passed(stack, [udp4(dport=101)] * 5) == 0 and meters.packets(1) == counts  # its rule does not match these


def test_yellow_packets_can_be_dropped(stack: Stack, meters: Meters) -> None:
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 15 1",
                "g_actions end y_actions drop / end r_actions drop / end")
    metered(stack, 1)
    count = passed(stack, some(100))
    assert 10 <= count <= 10 + SLACK
    assert meters.packets(1) == (count, 0, 0, 100 - count), "colors count what passed"


def test_a_policy_that_drops_nothing(stack: Stack, meters: Meters) -> None:
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1", "g_actions end y_actions end r_actions end")
    metered(stack, 1)
    assert passed(stack, some(50)) == 50
    assert meters.packets(1)[2] >= 50 - 10 - SLACK and meters.packets(1)[3] == 0


def test_bytes_are_those_of_ip_packets(stack: Stack, meters: Meters) -> None:
    """Buckets for 20 packets of a given size; a rate of one byte per second adds none."""
    frame = udp4(dport=100)
    meters.make(1, f"srtcm_rfc2697 {SLOW} {20 * (len(frame) - 14)} 0 0")
    metered(stack, 1)
    assert passed(stack, [frame] * 40) == 20


def test_the_rate_fills_the_bucket(stack: Stack, meters: Meters) -> None:
    """While no packets arrive, up to its size."""
    meters.make(1, "srtcm_rfc2697 1000 10 0 1")
    metered(stack, 1)
    deadline = time.monotonic() + 30
    while passed(stack, some(40)) >= 40 and time.monotonic() < deadline:
        pass  # on a slow machine, packets may arrive below the rate
    before = meters.packets(1)
    assert before[3] > 0
    position = time.monotonic()
    while time.monotonic() < position + 0.05:
        pass
    assert passed(stack, some(5)) == 5


def test_rules_share_a_meter(stack: Stack, meters: Meters) -> None:
    meters.make(1, f"srtcm_rfc2697 {SLOW} 20 0 1")
    metered(stack, 1)
    stack.testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp dst is 102 / end"
                                 " actions meter mtr_id 1 / mark id 7 / queue index 1 / end")
    assert 20 <= passed(stack, some(20) + [udp4(dport=102)] * 20) <= 20 + SLACK


def test_meters_are_apart(stack: Stack, meters: Meters) -> None:
    """Even two meters that share a device object."""
    for number, size in ((1, 5), (2, 10), (3, 15)):
        meters.make(number, f"srtcm_rfc2697 {SLOW} {size} 0 1")
        stack.testpmd.create_flow(0, f"ingress pattern eth / ipv4 / udp dst is {100 + number} / end"
                                     f" actions meter mtr_id {number} / mark id 7 / queue index 1 / end")
    for number, size in ((1, 5), (2, 10), (3, 15)):
        assert size <= passed(stack, [udp4(dport=100 + number)] * 40) <= size + SLACK


@pytest.mark.parametrize("group", [0, 1])
def test_in_front_of_a_jump(stack: Stack, meters: Meters, group: int) -> None:
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    if group:
        stack.testpmd.create_flow(0, f"ingress pattern {TO_100} actions jump group {group} / end")
    metered(stack, 1, group, f"set_tag data 5 mask 0xffffffff index 3 / jump group {group + 1}")
    stack.testpmd.create_flow(0, f"group {group + 1} ingress pattern tag data is 5 index is 3 / eth / end"
                                 " actions mark id 7 / queue index 3 / end")
    assert 10 <= passed(stack, some(50)) <= 10 + SLACK


@pytest.mark.parametrize("jumps", [False, True])
@pytest.mark.parametrize("group", [0, 1])
def test_a_rule_counts_what_comes_to_its_counter(stack: Stack, meters: Meters, group: int, jumps: bool) -> None:
    """Before the meter, that is what it drops as well."""
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    if group:
        stack.testpmd.create_flow(0, f"ingress pattern {TO_100} actions jump group {group} / end")
    fate = "jump group 5" if jumps else "mark id 7 / queue index 2"
    stack.testpmd.create_flow(0, "group 5 ingress pattern eth / end actions mark id 7 / queue index 3 / end")
    for actions, all_ in ((f"count / meter mtr_id 1 / {fate}", True), (f"meter mtr_id 1 / count / {fate}", False)):
        rule = stack.testpmd.create_flow(0, f"group {group} ingress pattern {TO_100} actions {actions} / end")
        meters.do("set port meter profile 0 1 1")  # fills the bucket
        through = passed(stack, some(50))
        assert 10 <= through <= 10 + SLACK
        assert stack.testpmd.query_count(0, rule)[0] == (50 if all_ else through)
        stack.testpmd.destroy_flow(0, rule)


# Daily by one engine each, of which both have either kind of action age.
BY_AUTO = {"meter mtr_id 1 / {age}", "{age} / meter mtr_id 1 / count"}


@pytest.mark.daily(when=lambda params: (params["datapath"] == "mlx5") == (params["actions"] in BY_AUTO))
@pytest.mark.parametrize(("actions", "shared"), [
    ("meter mtr_id 1 / {age}", False),
    ("meter mtr_id 1 / count / {age}", False),
    ("{age} / meter mtr_id 1 / count", True),
    ("count / meter mtr_id 1 / {age}", True),
])
def test_packets_that_a_meter_drops_keep_a_rule_young(stack: Stack, meters: Meters, actions: str, shared: bool) -> None:
    """They match it, wherever its count is; once there are none, it ages."""
    testpmd = stack.testpmd
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1", "g_actions drop / end y_actions drop / end r_actions drop / end")
    since = testpmd.mark_output()
    age = "age timeout 2"
    if shared:
        number = int(testpmd.expect("flow indirect_action 0 create ingress action age timeout 2 / end",
                                    r"Indirect action #(\d+) created")[1])
        age = f"indirect {number}"
    busy = testpmd.create_flow(0, f"ingress pattern {TO_100} actions {actions.format(age=age)} / queue index 2 / end")
    idle = testpmd.create_flow(0, "ingress pattern eth / ipv4 / udp dst is 102 / end"
                                  " actions age timeout 3 / queue index 2 / end")
    while EVENT_OF_AGE not in testpmd.program.output[since:]:
        assert passed(stack, some(4)) == 0
    assert aged(stack) == [f"Flow {idle}"]
    if "count" in actions:
        assert (testpmd.query_count(0, busy)[0] == 0) == ("mtr_id 1 / count" in actions)
    testpmd.destroy_flow(0, idle)
    testpmd.program.wait_for(EVENT_OF_AGE, testpmd.mark_output())
    assert aged(stack) == [f"Indirect action {number}" if shared else f"Flow {busy}"]
    testpmd.destroy_flow(0, busy)
    if shared:
        testpmd.expect(f"flow indirect_action 0 destroy action_id {number}", "destroyed")


def test_disabled_and_enabled_again(stack: Stack, meters: Meters) -> None:
    meters.profile(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    meters.policy(1)
    meters.create(1, enabled="no")
    metered(stack, 1)
    assert passed(stack, some(50)) == 50 and meters.packets(1) == (50, 0, 0, 0)
    meters.do("enable port meter 0 1")
    assert 10 <= passed(stack, some(50)) <= 10 + SLACK
    meters.do("disable port meter 0 1")
    assert passed(stack, some(50)) == 50


def test_another_profile(stack: Stack, meters: Meters) -> None:
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    meters.profile(2, f"srtcm_rfc2697 {SLOW} 30 0 1")
    metered(stack, 1)
    assert 10 <= passed(stack, some(50)) <= 10 + SLACK
    meters.do("set port meter profile 0 1 2")
    assert 30 <= passed(stack, some(60)) <= 30 + SLACK
    meters.do("set port meter profile 0 1 1")  # so that profile 2 can be deleted first


def fail_next_request(stack: Stack) -> None:
    """Fails the next WQE of the queue that meters are written through: the smallest, on which no packets are sent."""
    smallest = min(stack.stat()[stack.device_name(0)]["sqs"], key=lambda queue: queue["entries"])
    stack.break_queue(0, f"error_cqe:{smallest['number']}")


def test_changes_that_the_device_refuses(stack: Stack, meters: Meters) -> None:
    """The meter is unchanged, and the same change can be requested again."""
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    meters.profile(2, f"srtcm_rfc2697 {SLOW} 30 0 1")
    metered(stack, 1)
    fail_next_request(stack)
    assert "the device refuses to change it" in meters.refusal("set port meter profile 0 1 2")
    assert "uses meter profile 1" in meters.refusal("del port meter profile 0 1")
    assert 10 <= passed(stack, some(50)) <= 10 + SLACK
    meters.do("set port meter profile 0 1 1")  # through another queue
    assert 10 <= passed(stack, some(50)) <= 10 + SLACK
    fail_next_request(stack)
    assert "the device refuses to change it" in meters.refusal("disable port meter 0 1")
    assert passed(stack, some(50)) <= SLACK
    meters.do("disable port meter 0 1")
    assert passed(stack, some(50)) == 50
    fail_next_request(stack)
    assert "the device refuses to change it" in meters.refusal("enable port meter 0 1")
    assert passed(stack, some(50)) == 50
    meters.do("enable port meter 0 1")
    assert 10 <= passed(stack, some(50)) <= 10 + SLACK


def test_bytes_of_each_color_and_of_drops(stack: Stack, meters: Meters) -> None:
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 15 1", "g_actions end y_actions drop / end r_actions drop / end")
    metered(stack, 1)
    passed(stack, some(50))
    shown = meters.shown(1)
    assert all(bytes_ == packets * SHORTEST for packets, bytes_ in shown.values()), shown
    assert shown["DROPPED"][0] == 50 - shown["G"][0] >= 40 - SLACK and shown["Y"] == shown["R"] == (0, 0)


def test_statistics_are_cleared(stack: Stack, meters: Meters) -> None:
    meters.make(1, f"srtcm_rfc2697 {SLOW} 100 0 1")
    metered(stack, 1)
    passed(stack, some(5))
    assert meters.packets(1, clear="yes") == (5, 0, 0, 0)
    passed(stack, some(3))
    assert meters.packets(1) == (3, 0, 0, 0)


def test_meters_outlive_a_stop(stack: Stack, meters: Meters) -> None:
    """testpmd flushes the rules of a port that it stops."""
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    stack.testpmd.stop()
    stack.testpmd.command("port stop 0")
    stack.testpmd.command("port start 0")
    stack.testpmd.start("rxonly")
    metered(stack, 1)
    assert 10 <= passed(stack, some(50)) <= 10 + SLACK


def test_what_is_in_use_stays(stack: Stack, meters: Meters) -> None:
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    rule = metered(stack, 1)
    assert "rules run meter 1" in meters.refusal("del port meter 0 1")
    assert "uses meter profile 1" in meters.refusal("del port meter profile 0 1")
    assert "uses meter policy 1" in meters.refusal("del port meter policy 0 1")
    assert 10 <= passed(stack, some(50)) <= 10 + SLACK
    stack.testpmd.destroy_flow(0, rule)


def test_refusals_say_why(stack: Stack, meters: Meters) -> None:
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    for command, why in (
        ("add port meter profile srtcm_rfc2697 0 1 1 10 0 1", "there is a meter profile 1 already"),
        ("add port meter profile srtcm_rfc2697 0 2 0 10 0 1", "neither can be 0"),
        ("add port meter profile trtcm_rfc2698 0 2 10 5 10 10 1", "less than the committed rate"),
        ("add port meter profile srtcm_rfc2697 0 2 255000000001 10 0 0", "the largest is 255000000000"),
        ("add port meter policy 0 2 g_actions queue index 0 / end y_actions end r_actions end",
         "action queue of green packets is not supported"),
        ("create port meter 0 1 1 1 yes 0xff 0 g 0", "there is a meter 1 already"),
        ("create port meter 0 2 7 1 yes 0xff 0 g 0", "no meter profile 7"),
        ("create port meter 0 2 1 7 yes 0xff 0 g 0", "no meter policy 7"),
        (f"create port meter 0 2 1 1 yes 0xff 0 g 0 {'g ' * 63}y", "green for all values"),
        ("create port meter 0 2 1 1 yes 0xff 0 g 1", "no color before they are metered"),
        ("del port meter 0 9", "no meter 9"),
        ("enable port meter 0 9", "no meter 9"),
        ("set port meter profile 0 1 9", "no meter profile 9"),
    ):
        assert why in meters.refusal(command), command
    for actions, why in (("meter mtr_id 9 / queue index 0", "no meter 9 on this port"),
                         ("meter mtr_id 1 / meter mtr_id 1 / queue index 0", "the rule has one already"),
                         ("meter mtr_id 1", "no fate action")):
        assert why in stack.testpmd.refused_flow(0, f"ingress pattern eth / end actions {actions} / end")
    assert "none behind group 23" in stack.testpmd.refused_flow(
        0, "group 23 ingress pattern eth / end actions meter mtr_id 1 / queue index 0 / end")
    stack.testpmd.command("set sample_actions 0 queue index 1 / end")
    assert "sample beside meter" in stack.testpmd.refused_flow(
        0, "ingress pattern eth / end actions sample ratio 1 index 0 / meter mtr_id 1 / queue index 0 / end")


def test_an_input_color_that_changes_nothing(stack: Stack, meters: Meters) -> None:
    """A default, without a protocol to take colors from. Tables are for the unit tests: testpmd never frees them."""
    meters.profile(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    meters.policy(1)
    meters.do("create port meter 0 1 1 1 yes 0xff 0 r 0", "del port meter 0 1")
    metered(stack, 1)
    assert 10 <= passed(stack, some(50)) <= 10 + SLACK


def test_templates_have_none(stack: Stack, meters: Meters) -> None:
    stack.testpmd.stop()
    configure(stack)
    stack.testpmd.start("rxonly")
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    actions = "meter mtr_id 1 / queue index 0 / end"
    assert "action meter is not for templates" in stack.testpmd.command(
        f"flow actions_template 0 create ingress actions_template_id 9 template {actions} mask {actions}")


def test_capabilities(stack: Stack) -> None:
    answer = stack.testpmd.command("show port meter cap 0")
    assert int(re.search(r"cap.n_max (\d+)", answer)[1]) >= 2  # type: ignore[index]
    assert "cap.srtcm_rfc2697_packet_mode_supported 1" in answer


def test_what_is_sent_is_metered(open_stack: OpenStack, forwarders: Stack) -> None:
    testpmd = forwarders.testpmd
    meters = Meters(forwarders)
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    testpmd.create_flow(0, f"egress pattern {TO_100} actions meter mtr_id 1 / end")
    sent = [udp4(dport=100)] * 50 + [udp4(dport=101)]
    forwarders.wires[1].send_all(sent)
    came = [forwarders.wires[0].receive()]
    while b"\x00\x65" not in came[-1][36:38]:
        came.append(forwarders.wires[0].receive())
    meters.clear()
    assert 10 <= len(came) - 1 <= 10 + SLACK


def test_what_is_sent_is_counted_behind_the_meter(forwarders: Stack) -> None:
    testpmd = forwarders.testpmd
    meters = Meters(forwarders)
    meters.make(1, f"srtcm_rfc2697 {SLOW} 10 0 1")
    rule = testpmd.create_flow(0, f"egress pattern {TO_100} actions meter mtr_id 1 / count / end")
    forwarders.wires[1].send_all([udp4(dport=100)] * 50 + [udp4(dport=101)])
    came = 0
    while b"\x00\x65" not in forwarders.wires[0].receive()[36:38]:
        came += 1
    assert testpmd.query_count(0, rule)[0] == came
    meters.clear()
    assert 10 <= came <= 10 + SLACK
