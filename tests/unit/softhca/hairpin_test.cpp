// SPDX-License-Identifier: BSD-3-Clause
// Hairpin queues: the SQ sends what the RQ takes, subject to the rules for sent packets. They hold
// a limited amount; packets that do not fit are counted.
#include "tests/unit/softhca/collector.hpp"
#include "tests/unit/softhca/hairpin_fixture.hpp"
#include "tests/unit/softhca/refusal.hpp"

#include <gmock/gmock.h>

namespace testbed {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST_F(Hairpin, PacketsLeaveAsTheyCameInTheirOrder) {
    pair_up();
    std::vector<Bytes> all;
    for (size_t round = 0; round < 40; round++) { // wraps around the buffer many times
        const std::vector<Bytes> some = {
            numbered(1, 32 + round), frames::build({.tags = {{0x8100, 5}, {0x8100, 6}}}),
            numbered(2, 1400 - 7 * round), frames::build(frames::ipv6_spec())};
        arrive(some);
        all.insert(all.end(), some.begin(), some.end());
    }
    EXPECT_EQ(wire->sent, all);
    EXPECT_EQ(dropped(), 0u);
    EXPECT_EQ(device->counters().delivered, all.size());
    EXPECT_EQ(device->rq_counters(rqn)->packets, all.size());
    EXPECT_EQ(device->sq_counters(sqn)->packets, all.size());
    EXPECT_EQ(device->sq_counters(sqn)->bytes, device->counters().wire_rx_bytes);
    EXPECT_EQ(device->sq_counters(sqn)->wqes, 0u);
    EXPECT_EQ(device->rq_counters(rqn)->cqes, 0u);
}

TEST_F(Hairpin, HoldsSoManyPacketsAndDropsTheRest) {
    const Number counter = device->create_q_counter().value();
    ASSERT_TRUE(device->bind_q_counter(rqn, counter));
    pair_up();
    wire->room = 0;
    std::vector<Bytes> frames = arrive(20);
    EXPECT_EQ(held(), 16u);
    EXPECT_EQ(dropped(), 4u);
    EXPECT_EQ(device->rq_counters(rqn)->out_of_buffer, 4u);
    EXPECT_EQ(device->query_q_counter(counter), 4u);
    EXPECT_EQ(device->counters().delivered, 16u);
    wire->room = SIZE_MAX;
    run();
    frames.resize(16);
    EXPECT_EQ(wire->sent, frames);
    EXPECT_EQ(held(), 0u);
    EXPECT_EQ(dropped(), 4u);
}

TEST_F(Hairpin, HoldsSoManyBytes) {
    pair_up();
    wire->room = 0;
    arrive({long_frame(1500), long_frame(549)});
    EXPECT_EQ(held(), 1u);
    EXPECT_EQ(dropped(), 1u);
    arrive({long_frame(548)});
    EXPECT_EQ(held(), 2u);
    EXPECT_EQ(dropped(), 1u);
}

TEST_F(Hairpin, HoldsNoMoreThanItsPeerMay) {
    sqn = make_sq({.log_packets = 2, .log_bytes = 11});
    pair_up();
    wire->room = 0;
    arrive(5);
    EXPECT_EQ(held(), 4u);
    EXPECT_EQ(dropped(), 1u);
}

TEST_F(Hairpin, MoreThanARoundBringsIsSentInARound) {
    constexpr HairpinSize kOfARound{.log_packets = 7, .log_bytes = 16};
    rqn = make_rq(kOfARound);
    sqn = make_sq(kOfARound);
    TirAttr attr;
    attr.rqn = rqn;
    ASSERT_TRUE(device->modify_tir(tir, attr));
    pair_up();
    for (int i = 0; i < 5; i++)
        arrive(250);
    EXPECT_EQ(wire->sent.size(), 1250u);
    EXPECT_EQ(dropped(), 0u);
}

TEST_F(Hairpin, WithoutAPeerThatSendsItFillsUp) {
    arrive(1);
    EXPECT_EQ(device->counters().drop_queue_not_ready, 1u) << "not paired yet";
    pair_up();
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::reset));
    const std::vector<Bytes> frames = arrive(3);
    EXPECT_EQ(held(), 3u);
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::ready, rqn));
    run();
    EXPECT_EQ(wire->sent, frames) << "it was the RQ's peer all the time";
    ASSERT_TRUE(device->destroy_sq(sqn));
    arrive(17);
    EXPECT_EQ(held(), 16u);
    EXPECT_EQ(dropped(), 1u);
    EXPECT_EQ(wire->sent.size(), 3u);
    EXPECT_EQ(row_of(device->stats(), "rqs", rqn)["hairpin_peer"], 0);
    const Number another = make_sq(kSmall);
    EXPECT_TRUE(device->modify_sq(another, QueueState::ready, rqn));
    run();
    EXPECT_EQ(wire->sent.size(), 3u) << "the RQ does not name this one";
}

TEST_F(Hairpin, AResetForgetsHowFarAPacketHadGot) {
    device->set_loopback({.multicast = true});
    const Bytes group = frames::build({.dst = {0x01, 0x00, 0x5e, 0, 0, 1}});
    pair_up();
    wire->room = 0;
    arrive({group});
    EXPECT_EQ(device->counters().loopback_packets, 1u) << "it has had that, and waits for the wire";
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::reset));
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::ready, sqn));
    wire->room = SIZE_MAX;
    arrive({group});
    EXPECT_EQ(device->counters().loopback_packets, 2u);
    EXPECT_EQ(wire->sent, std::vector<Bytes>(1, group));
}

/// Its packets have the same serial numbers as the first peer's.
TEST_F(Hairpin, ThePacketsOfAnotherPeerBeginAnew) {
    device->set_loopback({.multicast = true});
    const Bytes group = frames::build({.dst = {0x01, 0x00, 0x5e, 0, 0, 1}});
    pair_up();
    wire->room = 0;
    arrive({group});
    EXPECT_EQ(device->counters().loopback_packets, 1u) << "it has had that, and waits for the wire";
    const Number another = make_rq(kSmall);
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::reset));
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::ready, another));
    ASSERT_TRUE(device->modify_rq(another, QueueState::ready, sqn));
    lead_to(another);
    wire->room = SIZE_MAX;
    arrive({group});
    EXPECT_EQ(device->counters().loopback_packets, 2u);
    EXPECT_EQ(wire->sent, std::vector<Bytes>(1, group));
}

TEST_F(Hairpin, AFullOneWithDelayDropHoldsTheWire) {
    constexpr uint64_t kLongNs = 3'600'000'000'000;
    device->set_delay_drop(kLongNs);
    rqn = device->create_hairpin_rq({.size = kSmall, .delay_drop = true, .listener = &listener})
              .value();
    lead_to(rqn);
    expect_full_one_to_hold_the_wire();
}

TEST_F(Hairpin, WhatAResetQueueHeldIsCounted) {
    pair_up();
    wire->room = 0;
    arrive(3);
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::reset));
    EXPECT_EQ(device->counters().drop_tx_hairpin, 3u);
    EXPECT_EQ(held(), 0u);
    wire->room = SIZE_MAX;
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::ready, sqn));
    const std::vector<Bytes> frames = arrive(2);
    EXPECT_EQ(wire->sent, frames);
    wire->room = 0;
    arrive(1);
    ASSERT_TRUE(device->destroy_flow(rule));
    ASSERT_TRUE(device->destroy_tir(tir));
    ASSERT_TRUE(device->destroy_rq(rqn));
    EXPECT_EQ(device->counters().drop_tx_hairpin, 4u);
    run();
    EXPECT_EQ(row_of(device->stats(), "sqs", sqn)["hairpin_peer"], 0);
    EXPECT_TRUE(device->destroy_sq(sqn));
}

TEST_F(Hairpin, ABrokenQueueStopsUntilItIsReset) {
    pair_up();
    ASSERT_TRUE(device->inject_fatal(sqn));
    EXPECT_TRUE(listener.saw(AsyncEvent::sq_fatal));
    const std::vector<Bytes> frames = arrive(2);
    EXPECT_TRUE(wire->sent.empty());
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::reset));
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::ready, rqn));
    run();
    EXPECT_EQ(wire->sent, frames);
    ASSERT_TRUE(device->inject_fatal(rqn));
    EXPECT_TRUE(listener.saw(AsyncEvent::rq_fatal));
    arrive(1);
    EXPECT_EQ(device->counters().drop_queue_not_ready, 1u);
    EXPECT_EQ(refusal(device->inject_error(rqn, CompletionError::flushed)), Status::unsupported);
    EXPECT_EQ(refusal(device->inject_error(sqn, CompletionError::flushed)), Status::unsupported);
}

TEST_F(Hairpin, OnlyHairpinsOfNobodyElseArePeers) {
    using enum QueueState;
    EXPECT_EQ(refusal(device->modify_sq(sqn, ready)), Status::bad_resource);
    EXPECT_EQ(refusal(device->modify_rq(rqn, ready, 0xfffff)), Status::bad_resource);
    EXPECT_EQ(refusal(device->modify_sq(sqn, ready, sqn)), Status::bad_resource);
    EXPECT_EQ(refusal(device->modify_sq(sqn, ready, rq.number)), Status::bad_parameter);
    EXPECT_EQ(refusal(device->modify_rq(rqn, ready, sq.number)), Status::bad_parameter);
    EXPECT_EQ(*device->query_sq(sqn), reset);
    EXPECT_EQ(*device->query_rq(rqn), reset);
    pair_up();
    EXPECT_EQ(refusal(device->modify_sq(make_sq(kSmall), ready, rqn)), Status::busy);
    EXPECT_EQ(refusal(device->modify_rq(make_rq(kSmall), ready, sqn)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_rq(rqn)), Status::busy) << "a TIR leads there";
    EXPECT_EQ(refusal(device->pace_sq_requests(sqn, 1000)), Status::bad_parameter);
}

TEST_F(Hairpin, AfterAResetTheyMayHaveOtherPeers) {
    pair_up();
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::reset));
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::reset));
    const Number another_sq = make_sq(kSmall), another_rq = make_rq(kSmall);
    EXPECT_TRUE(device->modify_rq(another_rq, QueueState::ready, sqn));
    ASSERT_TRUE(device->modify_sq(another_sq, QueueState::ready, rqn));
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::ready, another_sq));
    const std::vector<Bytes> frames = arrive(2);
    EXPECT_EQ(wire->sent, frames);
    EXPECT_EQ(device->sq_counters(another_sq)->packets, 2u);
}

/// A MODIFY_SQ that changes something else, such as pacing, does this.
TEST_F(Hairpin, ModifiedWhileItWaitsItStillHearsOfPackets) {
    pair_up();
    for (int i = 0; i < 3; i++) {
        run(); // there is nothing to send
        ASSERT_TRUE(device->modify_sq(sqn, QueueState::ready, rqn));
        wire->sent.clear();
        const std::vector<Bytes> frames = arrive(2);
        EXPECT_EQ(wire->sent, frames);
    }
}

TEST_F(Hairpin, AnSqThatGoesIsForgottenByWhoNamesIt) {
    pair_up();
    const Number another = make_sq(kSmall);
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::reset));
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::ready, another));
    EXPECT_EQ(refusal(device->modify_sq(another, QueueState::ready, rqn)), Status::busy)
        << "the former one has not left";
    ASSERT_TRUE(device->destroy_sq(sqn));
    ASSERT_TRUE(device->modify_sq(another, QueueState::ready, rqn));
    const std::vector<Bytes> frames = arrive(2);
    EXPECT_EQ(wire->sent, frames);
}

TEST_F(Hairpin, EitherMayNameTheOtherFirst) {
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::ready, sqn));
    const std::vector<Bytes> frames = arrive(2);
    EXPECT_EQ(held(), 2u);
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::ready, rqn));
    run();
    EXPECT_EQ(wire->sent, frames);
}

TEST_F(Hairpin, SizesAndNumbersHaveLimits) {
    const auto made = [&](uint8_t log_packets, uint8_t log_bytes) {
        const HairpinAttr attr{.size = {log_packets, log_bytes}};
        const auto send = device->create_hairpin_sq(attr),
                   receive = device->create_hairpin_rq(attr);
        EXPECT_EQ(send.has_value(), receive.has_value());
        return refusal(send);
    };
    EXPECT_EQ(made(0, Limits::kLogMinHairpinBytes), std::nullopt);
    EXPECT_EQ(made(0, Limits::kLogMinHairpinBytes - 1), Status::bad_parameter);
    EXPECT_EQ(made(Limits::kLogMaxHairpinPackets, Limits::kLogMaxHairpinBytes), std::nullopt);
    EXPECT_EQ(made(0, Limits::kLogMaxHairpinBytes + 1), Status::bad_parameter);
    EXPECT_EQ(made(Limits::kLogMaxHairpinPackets + 1, 12), Status::bad_parameter);
    for (size_t more = (1u << Limits::kLogMaxHairpins) - 3; more != 0; more--)
        ASSERT_EQ(made(0, 11), std::nullopt);
    EXPECT_EQ(made(0, 11), Status::limit);
}

TEST_F(Hairpin, RulesForWhatIsSentDecide) {
    // As net_mlx5 expects, register B of a received packet becomes register A of the sent one.
    const Number mark = device
                            ->create_header_edits({{.kind = HeaderEdit::Kind::set,
                                                    .to = {EditField::reg_b, 0, 32},
                                                    .from = {},
                                                    .value = 0x77}})
                            .value();
    const Number lower = device
                             ->create_header_edits({{.kind = HeaderEdit::Kind::set,
                                                     .to = {EditField::ipv4_ttl, 0, 8},
                                                     .from = {},
                                                     .value = 9}})
                             .value();
    ASSERT_TRUE(device->destroy_flow(rule));
    FlowAttr received;
    received.mask.outer.dst_port = 0xffff;
    received.value.outer.dst_port = 2000;
    received.tirs = {tir};
    received.rewrite.edits = mark;
    ASSERT_TRUE(device->create_flow(received));
    received.value.outer.dst_port = 2001;
    received.rewrite = {};
    ASSERT_TRUE(device->create_flow(received));
    FlowAttr sent;
    sent.domain = FlowDomain::egress;
    sent.mask.meta.reg_a = sent.mask.meta.source_sqn = 0xffffffff;
    sent.value.meta.reg_a = 0x77;
    sent.value.meta.source_sqn = sqn;
    sent.rewrite.edits = lower;
    ASSERT_TRUE(device->create_flow(sent));
    pair_up();
    arrive({frames::build({}), frames::build({.dst_port = 2001})});
    EXPECT_EQ(wire->sent,
              (std::vector{frames::build({.ttl = 9}), frames::build({.dst_port = 2001})}));

    sent.rewrite = {};
    sent.drop = true;
    sent.mask.meta.reg_a = 0;
    ASSERT_TRUE(device->create_flow(sent));
    arrive({frames::build({.dst_port = 2001})});
    EXPECT_EQ(wire->sent.size(), 2u);
    EXPECT_EQ(device->counters().drop_tx_rule, 1u);
}

TEST_F(Hairpin, ItsFramesAreLoopedLikeOthers) {
    device->set_loopback({.unicast = true, .multicast = true});
    pair_up();
    arrive({frames::build({})}); // to the port's own address
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_EQ(device->counters().loopback_packets, 1u);
    EXPECT_EQ(device->counters().drop_self_loopback, 1u) << "TIR and SQ are of one domain";
    arrive({frames::build({.dst = {2, 9, 9, 9, 9, 9}})});
    EXPECT_EQ(wire->sent.size(), 1u);
}

TEST_F(Hairpin, WhoSniffsGetsCopies) {
    FlowAttr sniffer;
    sniffer.domain = FlowDomain::sniffer;
    sniffer.tirs = {direct_tir(rq)};
    ASSERT_TRUE(device->create_flow(sniffer));
    post_buffers(rq, 4);
    pair_up();
    const std::vector<Bytes> frames = arrive(1);
    EXPECT_EQ(wire->sent, frames);
    EXPECT_EQ(packet_of(expect_packet(rx_cq)), frames[0]);
    EXPECT_EQ(packet_of(expect_packet(rx_cq)), frames[0]) << "once as it came, once as it left";
}

TEST_F(Hairpin, RssSpreadsOverHairpinsAndOtherQueues) {
    TirAttr attr;
    attr.rqt = device->create_rqt(std::vector{rqn, rq.number}).value();
    attr.fields = {.src_port = true, .ip_version = 4, .l4 = frames::kUdp};
    attr.toeplitz_key.fill(0x6d);
    ASSERT_TRUE(device->modify_tir(tir, attr));
    post_buffers(rq, 60);
    pair_up();
    for (uint16_t port = 1; port <= 60; port++)
        arrive({frames::build({.src_port = port})});
    EXPECT_GT(wire->sent.size(), 0u);
    EXPECT_LT(wire->sent.size(), 60u);
    EXPECT_EQ(wire->sent.size() + device->rq_counters(rq.number)->packets, 60u);
}

TEST_F(Hairpin, AKilobitASecondTakesItsTime) {
    pair_up();
    ASSERT_TRUE(device->pace_sq(sqn, 1));
    arrive({long_frame(600), long_frame(600), long_frame(600)}); // almost five seconds each
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(held(), 2u);
    ASSERT_TRUE(device->pace_sq(sqn, 0));
    run();
    EXPECT_EQ(wire->sent.size(), 3u);
}

TEST_F(Hairpin, DumpNamesThem) {
    pair_up();
    wire->room = 0;
    arrive(2);
    const json dump = device->dump();
    const json receives = row_of(dump, "rqs", rqn), sends = row_of(dump, "sqs", sqn);
    EXPECT_EQ(receives["hairpin_peer"], sqn);
    EXPECT_EQ(receives["hairpin_packets"], 16);
    EXPECT_EQ(receives["hairpin_bytes"], 2048);
    EXPECT_EQ(receives["held"], 2);
    EXPECT_TRUE(receives["cq"].is_null());
    EXPECT_EQ(sends["hairpin_peer"], rqn);
    EXPECT_FALSE(row_of(dump, "rqs", rq.number).contains("hairpin_peer"));
    EXPECT_EQ(row_of(device->stats(), "rqs", rqn)["hairpin_peer"], sqn);
}

TEST_F(Hairpin, TraceTellsBothHalvesOfTheWay) {
    pair_up();
    Collector collector{true};
    device->add_observer(collector);
    arrive(1);
    wire->room = 0;
    arrive(17);
    device->remove_observer(collector);
    ASSERT_GE(collector.passages.size(), 3u);
    EXPECT_EQ(collector.passages[0].queue, rqn);
    EXPECT_EQ(collector.passages[0].verdict,
              "passed from hairpin RQ " + std::to_string(rqn) + " to SQ " + std::to_string(sqn));
    EXPECT_THAT(collector.first_way(), HasSubstr("bytes for SQ " + std::to_string(sqn)));
    EXPECT_EQ(collector.passages[1].queue, sqn);
    EXPECT_EQ(collector.passages[1].verdict, "sent");
    EXPECT_THAT(collector.passages[1].steps[0].text, HasSubstr("what hairpin RQ"));
    EXPECT_THAT(collector.passages.back().verdict, HasSubstr("drop_out_of_buffer"));
}

class HairpinWithPause : public Hairpin {
  protected:
    HairpinWithPause() : Hairpin(with_pause()) {}
    static DeviceConfig with_pause() {
        DeviceConfig config = default_config();
        config.pause = true;
        return config;
    }
};

TEST_F(HairpinWithPause, AFullOneHoldsTheWire) { expect_full_one_to_hold_the_wire(); }

} // namespace
} // namespace testbed
