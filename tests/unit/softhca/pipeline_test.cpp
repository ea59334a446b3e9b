// SPDX-License-Identifier: BSD-3-Clause
// Where packets go: sniffers, bypass rules, the kernel netdev, leftovers.
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <chrono>

namespace testbed {
namespace {

using frames::Mac;

constexpr Mac kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
constexpr Mac kMulticast{0x01, 0x00, 0x5e, 0, 0, 1};
constexpr Mac kStranger{0x02, 9, 9, 9, 9, 9};

Bytes frame_to(const Mac& mac) { return frames::build({.dst = mac}); }

class Pipeline : public Testbed {
  protected:
    explicit Pipeline(DeviceConfig config = default_config(), bool with_kernel = true)
        : Testbed(std::move(config), with_kernel) {
        post_buffers(rq, 50);
    }
    /// A frame to this MAC arrives. Returns how many copies RQs have got.
    size_t arrive(const Mac& mac) {
        wire->incoming.push_back(frame_to(mac));
        const uint64_t before = device->counters().delivered;
        run();
        return device->counters().delivered - before;
    }
};

TEST_F(Pipeline, BypassBeforeKernelBeforeLeftovers) {
    EXPECT_TRUE(wire->started); // the kernel may take frames from the start
    EXPECT_EQ(arrive(frames::kOurMac), 0u);
    EXPECT_EQ(kernel->sent.size(), 1u);
    EXPECT_EQ(kernel->sent[0], frame_to(frames::kOurMac));
    EXPECT_EQ(arrive(kStranger), 0u);
    EXPECT_EQ(device->counters().drop_no_match, 1u);

    const Number leftovers = steer_all(rq, FlowDomain::leftovers);
    EXPECT_EQ(arrive(frames::kOurMac), 0u) << "the kernel's own";
    EXPECT_EQ(arrive(kBroadcast), 0u);
    EXPECT_EQ(arrive(kMulticast), 0u);
    EXPECT_EQ(kernel->sent.size(), 4u);
    EXPECT_EQ(arrive(kStranger), 1u);

    const Number bypass = steer_all(rq);
    EXPECT_EQ(arrive(frames::kOurMac), 1u);
    EXPECT_EQ(kernel->sent.size(), 4u);
    ASSERT_TRUE(device->destroy_flow(bypass));
    EXPECT_EQ(arrive(frames::kOurMac), 0u);
    EXPECT_EQ(kernel->sent.size(), 5u);
    EXPECT_EQ(device->counters().kernel_rx_packets, 5u);
    ASSERT_TRUE(device->destroy_flow(leftovers));
    EXPECT_EQ(arrive(kStranger), 0u);
    EXPECT_EQ(device->counters().drop_no_match, 2u);
}

TEST_F(Pipeline, PromiscuousKernelTakesAll) {
    device->set_kernel_promiscuous(true);
    steer_all(rq, FlowDomain::leftovers);
    EXPECT_EQ(arrive(kStranger), 0u);
    EXPECT_EQ(kernel->sent.size(), 1u);
    device->set_kernel_promiscuous(false);
    EXPECT_EQ(arrive(kStranger), 1u);
}

TEST_F(Pipeline, KernelFollowsItsMac) {
    device->set_mac(kStranger);
    arrive(kStranger);
    EXPECT_EQ(kernel->sent.size(), 1u);
    arrive(frames::kOurMac);
    EXPECT_EQ(device->counters().drop_no_match, 1u);
}

TEST_F(Pipeline, KernelThatRefusesIsCounted) {
    kernel->room = 1;
    arrive(frames::kOurMac);
    arrive(frames::kOurMac);
    EXPECT_EQ(device->counters().drop_kernel, 1u);
    EXPECT_TRUE(wire->incoming.empty()) << "the kernel never holds the wire";
}

TEST_F(Pipeline, WhatAWireLosesLaterWasNeitherSentNorTaken) {
    const Bytes frame = frames::build({});
    post_packet(frame);
    wire->report = {.lost = 1, .lost_bytes = frame.size()};
    kernel->report = {.lost = 1};
    arrive(frames::kOurMac);
    const PortCounters counters = device->counters();
    EXPECT_EQ(counters.wire_tx_packets, 0u);
    EXPECT_EQ(counters.wire_tx_bytes, 0u);
    EXPECT_EQ(counters.drop_tx_wire, 1u);
    EXPECT_EQ(counters.kernel_rx_packets, 0u);
    EXPECT_EQ(counters.drop_kernel, 1u);
}

TEST_F(Pipeline, KernelFramesLeaveOnTheWire) {
    kernel->incoming.push_back(frame_to(kStranger));
    kernel->incoming.push_back(frame_to(kBroadcast));
    wire->room = 1;
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(device->counters().kernel_tx_packets, 1u);
    wire->room = SIZE_MAX;
    run();
    EXPECT_EQ(wire->sent, (std::vector{frame_to(kStranger), frame_to(kBroadcast)}));
    EXPECT_EQ(device->counters().kernel_tx_packets, 2u);
    EXPECT_EQ(device->counters().wire_tx_packets, 2u);
}

TEST_F(Pipeline, SnifferGetsCopiesOfEverything) {
    steer_all(rq, FlowDomain::sniffer);
    EXPECT_EQ(arrive(frames::kOurMac), 1u);
    EXPECT_EQ(kernel->sent.size(), 1u) << "the kernel still gets its own";
    steer_all(rq);
    EXPECT_EQ(arrive(frames::kOurMac), 2u);
}

TEST_F(Pipeline, DropRuleDropsAndCounts) {
    FlowAttr attr;
    attr.drop = true;
    attr.mask.outer.dst_mac = kBroadcast;
    attr.value.outer.dst_mac = frames::kOurMac;
    ASSERT_TRUE(device->create_flow(attr));
    EXPECT_EQ(arrive(frames::kOurMac), 0u);
    EXPECT_EQ(device->counters().drop_rule, 1u);
    EXPECT_TRUE(kernel->sent.empty());
}

TEST_F(Pipeline, EqualRulesShareEachPacket) {
    TestRq second(*device, pd, rx_cq.number);
    post_buffers(second, 5);
    const Number first_flow = steer_all(rq);
    const Number second_flow = steer_all(second);
    EXPECT_EQ(arrive(frames::kOurMac), 2u);
    ASSERT_TRUE(device->destroy_flow(first_flow));
    EXPECT_EQ(arrive(frames::kOurMac), 1u);
    EXPECT_EQ(device->rq_counters(second.number)->packets, 2u);
    ASSERT_TRUE(device->destroy_flow(second_flow));
    EXPECT_EQ(arrive(frames::kOurMac), 0u);
}

TEST_F(Pipeline, RulesThatPassOnGetCopies) {
    FlowAttr attr;
    attr.pass_on = true;
    attr.tag = 7;
    attr.tirs = {direct_tir(rq)};
    attr.priority = 2;
    ASSERT_TRUE(device->create_flow(attr));
    EXPECT_EQ(arrive(frames::kOurMac), 1u);
    EXPECT_EQ(kernel->sent.size(), 1u) << "what comes after the rules gets the packet, too";
    EXPECT_EQ(device->counters().drop_no_match, 0u);
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn & mlx5::kFlowTagMask, 7u);

    FlowAttr behind;
    behind.tirs = attr.tirs;
    behind.priority = 2;
    behind.mask.outer.dst_mac = kBroadcast; // a newer mask of the same priority is not reached
    behind.value.outer.dst_mac = frames::kOurMac;
    const auto passed_over = device->create_flow(behind);
    EXPECT_EQ(arrive(frames::kOurMac), 1u);
    EXPECT_EQ(kernel->sent.size(), 2u);
    ASSERT_TRUE(passed_over && device->destroy_flow(*passed_over));
    (void)expect_packet(rx_cq);
    behind.priority = 3;
    const auto taker = device->create_flow(behind);
    EXPECT_EQ(arrive(frames::kOurMac), 2u);
    EXPECT_EQ(kernel->sent.size(), 2u);
    for (int copy = 0; copy < 2; copy++)
        EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn & mlx5::kFlowTagMask, 7u) << "goes along";
    behind.priority = 1;
    ASSERT_TRUE(taker && device->create_flow(behind));
    EXPECT_EQ(arrive(frames::kOurMac), 1u) << "a better priority takes it first";
}

TEST_F(Pipeline, PassingOnGoesWithNothingElse) {
    FlowAttr attr;
    attr.pass_on = attr.drop = true;
    EXPECT_EQ(refusal(device->create_flow(attr)), Status::bad_parameter);
    attr.drop = false;
    attr.tirs = {direct_tir(rq)};
    attr.domain = FlowDomain::leftovers;
    EXPECT_EQ(refusal(device->create_flow(attr)), Status::bad_parameter);
    attr.domain = FlowDomain::bypass;
    ASSERT_TRUE(device->create_flow(attr));
    attr.pass_on = false;
    EXPECT_EQ(refusal(device->create_flow(attr)), Status::exists) << "equal, but takes it";
}

TEST_F(Pipeline, ADefaultMissGoesPastTheOtherRules) {
    const Number counter = *device->create_flow_counters();
    FlowAttr miss, behind;
    miss.default_miss = true;
    miss.tag = 7;
    miss.counters = {counter};
    miss.mask.outer.dst_mac = kBroadcast;
    miss.value.outer.dst_mac = kStranger;
    ASSERT_TRUE(device->create_flow(miss));
    behind.tirs = {direct_tir(rq)};
    behind.priority = 2;
    ASSERT_TRUE(device->create_flow(behind));
    EXPECT_EQ(arrive(kStranger), 0u);
    EXPECT_EQ(device->counters().drop_no_match, 1u);
    EXPECT_EQ(arrive(frames::kOurMac), 1u) << "which the rule does not match";
    (void)expect_packet(rx_cq);

    steer_all(rq, FlowDomain::leftovers);
    for (int again = 0; again < 2; again++) { // now the flow is known
        EXPECT_EQ(arrive(kStranger), 1u);
        EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn & mlx5::kFlowTagMask, 7u) << "goes along";
    }
    miss.value.outer.dst_mac = frames::kOurMac;
    ASSERT_TRUE(device->create_flow(miss));
    EXPECT_EQ(arrive(frames::kOurMac), 0u);
    EXPECT_EQ(kernel->sent.size(), 1u) << "the kernel comes before the leftovers";
    EXPECT_EQ(device->query_flow_counter(counter, false)->packets, 4u);
}

TEST_F(Pipeline, ADefaultMissGoesWithNothingElse) {
    FlowAttr attr;
    EXPECT_EQ(refusal(device->create_flow(attr)), Status::bad_parameter) << "nowhere";
    attr.default_miss = attr.drop = true;
    EXPECT_EQ(refusal(device->create_flow(attr)), Status::bad_parameter);
    attr.drop = false;
    attr.pass_on = true;
    EXPECT_EQ(refusal(device->create_flow(attr)), Status::bad_parameter);
    attr.pass_on = false;
    attr.rewrite.pop_vlans = 1;
    EXPECT_EQ(refusal(device->create_flow(attr)), Status::bad_parameter);
    attr.rewrite = {};
    attr.tirs = {direct_tir(rq)};
    EXPECT_EQ(refusal(device->create_flow(attr)), Status::bad_parameter);
    attr.tirs.clear();
    for (const FlowDomain other :
         {FlowDomain::leftovers, FlowDomain::sniffer, FlowDomain::egress}) {
        attr.domain = other;
        EXPECT_EQ(refusal(device->create_flow(attr)), Status::bad_parameter);
    }
    attr.domain = FlowDomain::bypass;
    ASSERT_TRUE(device->create_flow(attr));
    attr.default_miss = false;
    attr.drop = true;
    EXPECT_EQ(refusal(device->create_flow(attr)), Status::exists) << "equal, but drops";
}

TEST_F(Pipeline, RulesCountWhatTheyGet) {
    const Number counter = *device->create_flow_counters();
    FlowAttr attr;
    attr.counters = {counter};
    attr.tirs = {direct_tir(rq)};
    attr.mask.outer.dst_mac = kBroadcast;
    attr.value.outer.dst_mac = frames::kOurMac;
    const auto taker = device->create_flow(attr);
    const auto equal = device->create_flow(attr);
    EXPECT_EQ(arrive(frames::kOurMac), 1u);
    EXPECT_EQ(arrive(frames::kPeerMac), 0u);
    EXPECT_EQ(device->query_flow_counter(counter, true)->packets, 1u) << "once, though two name it";
    EXPECT_EQ(refusal(device->destroy_flow_counters(counter)), Status::busy);
    ASSERT_TRUE(device->destroy_flow(*taker) && device->destroy_flow(*equal));
    attr.tirs.clear();
    attr.drop = true;
    const auto drops = device->create_flow(attr);
    EXPECT_EQ(arrive(frames::kOurMac), 0u);
    EXPECT_EQ(device->query_flow_counter(counter, false)->packets, 1u);
    EXPECT_GE(device->query_flow_counter(counter, false)->bytes, 60u);
    ASSERT_TRUE(device->destroy_flow(*drops));
    ASSERT_TRUE(device->destroy_flow_counters(counter));
    EXPECT_EQ(refusal(device->create_flow(attr)), Status::bad_resource) << "it is gone";
}

TEST_F(Pipeline, FrameSizeLimits) {
    steer_all(rq);
    for (const size_t bytes : {1u, 2u, 13u})
        wire->incoming.push_back(frames::pattern(bytes));
    run();
    EXPECT_EQ(device->counters().drop_undersize, 3u);
    wire->incoming.push_back(frames::pattern(14));
    wire->incoming.push_back(frames::pattern(1518));
    wire->incoming.push_back(frames::pattern(1519));
    run();
    EXPECT_EQ(device->counters().drop_oversize, 1u);
    EXPECT_EQ(device->counters().delivered, 2u);
    device->set_mtu(1501);
    wire->incoming.push_back(frames::pattern(1519));
    run();
    EXPECT_EQ(device->counters().delivered, 3u);
    EXPECT_EQ(device->counters().wire_rx_packets, 7u);
}

TEST_F(Pipeline, LinkDownDropsAndTellsListeners) {
    steer_all(rq);
    device->add_listener(&listener);
    device->set_link(false);
    EXPECT_FALSE(device->link_up());
    EXPECT_FALSE(wire->port_up) << "the other end sees it";
    EXPECT_EQ(arrive(frames::kOurMac), 0u);
    EXPECT_EQ(device->counters().drop_link_down, 1u);
    device->set_link(true);
    EXPECT_TRUE(wire->port_up);
    EXPECT_EQ(arrive(frames::kOurMac), 1u);
    wire->plugged = false;
    run();
    EXPECT_FALSE(device->link_up());
    wire->plugged = true;
    run();
    EXPECT_TRUE(device->link_up());
    ASSERT_EQ(listener.events.size(), 4u);
    EXPECT_EQ(listener.events[0].first, AsyncEvent::port_error);
    EXPECT_EQ(listener.events[1].first, AsyncEvent::port_active);
    EXPECT_EQ(listener.events[2].first, AsyncEvent::port_error);
    EXPECT_EQ(listener.events[3].first, AsyncEvent::port_active);
    device->remove_listener(&listener);
    device->set_link(false);
    EXPECT_EQ(listener.events.size(), 4u);
}

TEST_F(Pipeline, APulledCableIsNotTheAdministrators) {
    device->set_cable(false);
    EXPECT_FALSE(device->link_up());
    EXPECT_FALSE(wire->port_up);
    device->set_link(false);
    device->set_link(true);
    EXPECT_FALSE(device->link_up()) << "the cable is still out";
    EXPECT_FALSE(wire->port_up);
    device->set_link(false);
    device->set_cable(true);
    EXPECT_FALSE(device->link_up()) << "the port is still to be down";
    device->set_link(true);
    EXPECT_TRUE(device->link_up());
    EXPECT_TRUE(wire->port_up);
}

class PortOfANetdev : public Testbed {
  protected:
    PortOfANetdev() : Testbed(default_config(), true) {}
};

TEST_F(PortOfANetdev, GoesDownAndUpWithIt) {
    device->add_listener(&listener);
    kernel->plugged = false;
    run();
    EXPECT_FALSE(device->link_up());
    EXPECT_FALSE(wire->port_up) << "the other end sees it";
    device->set_link(true);
    EXPECT_FALSE(device->link_up()) << "only the netdev's administrator can set it up";
    kernel->plugged = true;
    run();
    EXPECT_TRUE(device->link_up());
    EXPECT_TRUE(wire->port_up);
    ASSERT_EQ(listener.events.size(), 2u);
    EXPECT_EQ(listener.events[0].first, AsyncEvent::port_error);
    EXPECT_EQ(listener.events[1].first, AsyncEvent::port_active);
}

TEST_F(PortOfANetdev, ShowsItTheCarrier) {
    wire->plugged = false;
    run();
    EXPECT_FALSE(kernel->port_up);
    wire->plugged = true;
    run();
    EXPECT_TRUE(kernel->port_up);
    device->set_cable(false);
    EXPECT_FALSE(kernel->port_up);
}

DeviceConfig without_peer() {
    DeviceConfig config;
    config.carrier_always = true;
    return config;
}
class CarrierAlways : public Testbed {
  protected:
    CarrierAlways() : Testbed(without_peer()) {}
};

TEST_F(CarrierAlways, IsUpWithoutAPeerButFollowsTheAdministrator) {
    wire->plugged = false;
    run();
    EXPECT_TRUE(device->link_up());
    device->set_link(false);
    run();
    EXPECT_FALSE(device->link_up());
}

TEST_F(Pipeline, EveryFrameIsAccountedFor) {
    steer_all(rq, FlowDomain::leftovers);
    for (int i = 0; i < 300; i++)
        wire->incoming.push_back(i % 7 == 0 ? frames::pattern(10)
                                            : frame_to(i % 3 == 0 ? frames::kOurMac : kStranger));
    run();
    const PortCounters counters = device->counters();
    EXPECT_EQ(counters.wire_rx_packets, 300u);
    EXPECT_EQ(counters.delivered + counters.kernel_rx_packets + counters.drop_out_of_buffer +
                  counters.drop_undersize,
              300u);
    EXPECT_GT(counters.drop_out_of_buffer, 0u);
}

class WithoutKernel : public Testbed {};

TEST_F(WithoutKernel, OwnFramesGoToLeftovers) {
    EXPECT_FALSE(wire->started) << "nobody could take frames yet";
    post_buffers(rq, 2);
    steer_all(rq, FlowDomain::leftovers);
    EXPECT_FALSE(wire->started) << "more rules may come";
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (!wire->started && std::chrono::steady_clock::now() < deadline)
        device->poll();
    EXPECT_TRUE(wire->started);
    wire->incoming.push_back(frame_to(frames::kOurMac));
    run();
    expect_packet(rx_cq);
}

TEST_F(WithoutKernel, AWireThatShowsItsFrameWaitsForWhoTakesIt) {
    using namespace std::chrono_literals;
    wire->first = frame_to(frames::kOurMac);
    const auto poll_for = [&](std::chrono::milliseconds time) {
        const auto end = std::chrono::steady_clock::now() + time;
        while (!wire->started && std::chrono::steady_clock::now() < end)
            device->poll();
    };
    FlowAttr others;
    others.mask.outer.dst_mac = kBroadcast;
    others.value.outer.dst_mac = kBroadcast;
    others.tirs = {direct_tir(rq)};
    ASSERT_TRUE(device->create_flow(others));
    poll_for(300ms);
    EXPECT_FALSE(wire->started) << "the rule takes other frames";
    steer_all(rq, FlowDomain::leftovers);
    poll_for(300ms);
    EXPECT_FALSE(wire->started) << "no receive WQE is there";
    post_buffers(rq, 1);
    poll_for(2000ms);
    EXPECT_TRUE(wire->started);
}

TEST_F(WithoutKernel, RulesWithoutAPauseDelayTheStartForASecondOnly) {
    using namespace std::chrono_literals;
    FlowAttr everything;
    everything.tirs = {direct_tir(rq)};
    ASSERT_TRUE(device->create_flow(everything)); // stays: there is a destination all the time
    const auto begin = std::chrono::steady_clock::now();
    auto now = begin;
    std::chrono::nanoseconds pause{}; // the longest: a busy machine makes some, too
    while (!wire->started && now < begin + 5s) {
        const auto flow = device->create_flow(everything);
        ASSERT_TRUE(flow);
        ASSERT_TRUE(device->destroy_flow(*flow));
        device->poll();
        const auto last = std::exchange(now, std::chrono::steady_clock::now());
        pause = std::max(pause, std::chrono::nanoseconds(now - last));
    }
    EXPECT_TRUE(wire->started);
    EXPECT_TRUE(now - begin >= 900ms || pause >= 90ms) << (now - begin) / 1ms << " ms";
}

/// net_mlx5 tries what the device accepts when it finds it, and makes the port's rules when that
/// starts.
TEST_F(WithoutKernel, RulesThatWereOnlyTriedStartNothing) {
    using namespace std::chrono_literals;
    FlowAttr everything;
    everything.tirs = {direct_tir(rq)};
    const auto flow = device->create_flow(everything);
    ASSERT_TRUE(flow);
    ASSERT_TRUE(device->destroy_flow(*flow));
    const auto poll_for = [&](std::chrono::milliseconds time) {
        const auto end = std::chrono::steady_clock::now() + time;
        while (!wire->started && std::chrono::steady_clock::now() < end)
            device->poll();
    };
    poll_for(1200ms); // longer than a program is waited for from its first rule on
    EXPECT_FALSE(wire->started) << "there is no rule";
    ASSERT_TRUE(device->create_flow(everything));
    device->poll();
    EXPECT_FALSE(wire->started) << "more rules may come";
    poll_for(2000ms);
    EXPECT_TRUE(wire->started);
}

} // namespace
} // namespace testbed
