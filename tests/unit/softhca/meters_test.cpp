// SPDX-License-Identifier: BSD-3-Clause
// Meters as objects, and entries that color packets with them.
#include "tests/unit/softhca/collector.hpp"
#include "tests/unit/softhca/fault_handler.hpp"
#include "tests/unit/softhca/meters.hpp"
#include "tests/unit/softhca/refusal.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace {

using namespace testbed;
using frames::Spec;

TEST_F(MetersTest, EntriesColorPackets) {
    const Number first = pairs(packets_only(1), packets_only(2, 3), 4);
    ASSERT_TRUE(lead(root, {{.pair = first + 3, .meter = 1, .reg_c = 5}}, colors_table(1, 5)));
    receive(9);
    EXPECT_EQ(counts(), (Counts{4, 3, 2}));
    EXPECT_EQ((*device->query_meters(first))[1].committed_tokens(), 256u) << "another pair";
    EXPECT_EQ((*device->query_meters(first + 3))[0].committed_tokens(), 128u);
    EXPECT_EQ((*device->query_meters(first + 3))[1].committed_tokens(), 0u);
}

TEST_F(MetersTest, AColorTakesTheLowBitsOfItsRegister) {
    const Number before = *device->create_header_edits(
        {{.kind = HeaderEdit::Kind::set,
          .to = {static_cast<EditField>(static_cast<int>(EditField::reg_c) + 3)},
          .from = {},
          .value = 0xabcdef77}});
    const Number metering = table(1), after = table(2);
    ASSERT_TRUE(device->set_flow_entry(
        root, 0, {.group = groups[root], .tables = {metering}, .rewrite = {.edits = before}}));
    ASSERT_TRUE(lead(metering, {{.pair = pairs(packets_only(1)), .reg_c = 3}}, after));
    FlowKey mask;
    mask.meta.reg_c[3] = 0xffffffff;
    ASSERT_TRUE(device->destroy_flow_group(after, groups[after]));
    const Number group = *device->create_flow_group(after, {.mask = mask});
    FlowEntryAttr entry{.group = group, .tirs = {direct_tir(rq)}};
    entry.value.meta.reg_c[3] = 0xabcdef02;
    ASSERT_TRUE(device->set_flow_entry(after, 0, entry));
    post_buffers(rq, 2);
    receive(2);
    EXPECT_EQ(packet_of(expect_packet(rx_cq)), frames::build(Spec{})) << "the green one";
    EXPECT_EQ(rx_cq.poll(), nullptr);
}

TEST_F(MetersTest, MeteringComesBeforeChanges) {
    const Number edits = *device->create_header_edits(
        {{.kind = HeaderEdit::Kind::copy,
          .to = {EditField::ipv4_ttl, 0, 8},
          .from = {static_cast<EditField>(static_cast<int>(EditField::reg_c) + 1), 0, 8}}});
    ASSERT_TRUE(
        device->set_flow_entry(root, 0,
                               {.group = groups[root],
                                .tirs = {direct_tir(rq)},
                                .metering = {{.pair = pairs(packets_only(1, 1)), .reg_c = 1}},
                                .rewrite = {.edits = edits}}));
    post_buffers(rq, 2);
    receive(2);
    constexpr size_t kTtl = 14 + 8;
    EXPECT_EQ(packet_of(expect_packet(rx_cq))[kTtl], 2) << "green";
    EXPECT_EQ(packet_of(expect_packet(rx_cq))[kTtl], 1) << "yellow";
}

TEST_F(MetersTest, SeveralMetersOnOneWay) {
    const Number next = table(1), last = colors_table(2, 7);
    const Number meters = pairs(packets_only(20), packets_only(2, 4));
    ASSERT_TRUE(lead(root, {{.pair = meters, .meter = 0, .reg_c = 6}}, next));
    ASSERT_TRUE(lead(next,
                     {{.pair = meters, .meter = 0, .reg_c = 6},
                      {.pair = meters, .meter = 1, .reg_c = 7, .before = Color::green}},
                     last));
    receive(5);
    EXPECT_EQ(counts(), (Counts{0, 3, 2}));
    EXPECT_EQ((*device->query_meters(meters))[0].committed_tokens(), 10u * 128) << "twice a packet";
}

TEST_F(MetersTest, EntriesSayTheColorBefore) {
    const Number meters = pairs(packets_only(9, 9));
    ASSERT_TRUE(lead(root, {{.pair = meters, .before = Color::yellow}}, colors_table(1, 0)));
    receive(1);
    EXPECT_EQ(counts(), (Counts{0, 1, 0}));
}

TEST_F(MetersTest, WhatIsSentIsMeteredOnce) {
    const Number meters = meter_sent(packets_only(2));
    const Bytes frame = frames::build(Spec{});
    post_packet(frame);
    wire->room = 0;
    run();
    run();
    EXPECT_EQ((*device->query_meters(meters))[0].committed_tokens(), 256u) << "it waits";
    wire->room = 1;
    run();
    EXPECT_EQ(wire->sent, std::vector<Bytes>{frame});
    EXPECT_EQ((*device->query_meters(meters))[0].committed_tokens(), 128u);
}

TEST_F(MetersTest, WhatIsGoneWhenItIsSentIsNotMetered) {
    const Handler handler;
    const Number meters = meter_sent(packets_only(2));
    constexpr uint32_t kHeader = 512;
    Wqe wqe(mlx5::WqeOpcode::send);
    wqe.eth();
    wqe.data(lkey, put(0, frames::build({.payload = frames::pattern(470)})), kHeader);
    std::byte* const far = memory_at(16 * kPage);
    wqe.data(lkey, far, 512);
    sq.post(wqe);
    sq.ring_doorbell();
    {
        const Hole hole(far, kPage);
        run();
    }
    EXPECT_EQ(*device->query_sq(sq.number), QueueState::error);
    EXPECT_EQ((*device->query_meters(meters))[0].committed_tokens(), 256u);
}

TEST_F(MetersTest, WhatIsReceivedAsItIsSentIsMeteredTwice) {
    device->set_loopback({.unicast = true, .multicast = true});
    const Number meters = meter_sent(packets_only(3));
    ASSERT_TRUE(lead(root, {{.pair = meters, .reg_c = 2}}, colors_table(1, 2)));
    const Bytes frame = frames::build({.dst = {0x01, 0x00, 0x5e, 0, 0, 1}});
    post_packet(frame);
    wire->room = 0; // it waits for the wire after its loopback
    run();
    EXPECT_EQ(counts(), (Counts{0, 0, 1}));
    wire->room = 1;
    run();
    EXPECT_EQ(wire->sent, std::vector<Bytes>{frame});
    EXPECT_EQ((*device->query_meters(meters))[0].committed_tokens(), 128u);
}

/// Green packets leave twice, others once: a packet keeps its color while a copy of it waits.
TEST_F(MetersTest, WhatHasLeftInPartKeepsItsColor) {
    const Number first = table(0, true), colors = table(1, true), copied = table(5, true),
                 rest = table(6, true);
    ASSERT_TRUE(device->set_flow_table_root(first, FlowRoot::transmit));
    const Number meters = pairs(packets_only(1));
    ASSERT_TRUE(lead(first, {{.pair = meters, .reg_c = 2}}, colors));
    ASSERT_TRUE(device->destroy_flow_group(colors, groups[colors]));
    FlowKey mask;
    mask.meta.reg_c[2] = 0xff;
    const Number group = *device->create_flow_group(colors, {.mask = mask});
    FlowEntryAttr green{.group = group};
    green.value.meta.reg_c[2] = static_cast<uint32_t>(Color::green);
    green.samplers = {*device->create_sampler(
        {.level = 2, .ratio = 1, .copies = copied, .all = rest, .sends = true})};
    ASSERT_TRUE(device->set_flow_entry(colors, 0, green));

    const Bytes waiting = frames::build({.ttl = 1}), later = frames::build({.ttl = 2});
    post_packet(waiting);
    wire->room = 1;
    run();
    ASSERT_EQ(wire->sent, std::vector<Bytes>{waiting});
    EXPECT_EQ((*device->query_meters(meters))[0].committed_tokens(), 0u) << "that is green";
    wire->incoming.push_back(later); // takes what the meter has left, if anything
    ASSERT_TRUE(lead(root, {{.pair = meters, .reg_c = 2}}, colors_table(1, 2)));
    run();
    EXPECT_EQ(counts(), (Counts{1, 0, 0}));
    wire->room = SIZE_MAX;
    run();
    EXPECT_EQ(wire->sent, (std::vector<Bytes>{waiting, waiting}));
}

TEST_F(MetersTest, WhoLooksSeesThem) {
    const Number meters = pairs({}, packets_only(1, 3));
    ASSERT_TRUE(lead(root, {{.pair = meters, .meter = 1, .reg_c = 4}}, colors_table(1, 4)));
    Collector collector{true};
    device->add_observer(collector);
    receive(1);
    device->remove_observer(collector);
    ASSERT_EQ(collector.passages.size(), 1u);
    const std::string way = collector.first_way();
    EXPECT_THAT(way, testing::HasSubstr(fmt::format(
                         "actions: meter 1 of pair {}, color into reg_c4, to table", meters)));
    EXPECT_THAT(way, testing::HasSubstr(fmt::format("meter: 1 of pair {}: green\n", meters)));
    const auto dump = device->dump();
    ASSERT_EQ(dump["meters"].size(), 1u) << "the other one is not valid";
    EXPECT_EQ(dump["meters"][0]["meter"], 1);
    EXPECT_EQ(dump["meters"][0]["committed"], "0/s, 0 of 128");
    EXPECT_EQ(dump["meters"][0]["excess"], "0/s, 384 of 384");
}

TEST_F(MetersTest, Refusals) {
    const auto make = [&](Number owner, uint32_t count, const MeterAttr& attr) {
        return refusal(device->create_meters({.pd = owner, .pairs = count, .meters = {attr, {}}}));
    };
    EXPECT_EQ(make(0xfffff, 1, {}), Status::bad_resource);
    EXPECT_EQ(make(pd, 0, {}), Status::bad_parameter);
    EXPECT_EQ(make(pd, Limits::kMaxMeterPairsAtOnce + 1, {}), Status::bad_parameter);
    EXPECT_EQ(make(pd, 1, {.committed = {.rate_exponent = 32}}), Status::bad_parameter);
    EXPECT_EQ(make(pd, 1, {.excess = {.size_exponent = 32}}), Status::bad_parameter);
    const Number meters = pairs({}), next = table(1);
    EXPECT_EQ(refusal(lead(root, {{.pair = meters + 1}}, next)), Status::bad_resource);
    EXPECT_EQ(refusal(lead(root, {{.pair = meters, .meter = 2}}, next)), Status::bad_parameter);
    EXPECT_EQ(refusal(lead(root, {{.pair = meters, .reg_c = 8}}, next)), Status::bad_parameter);
    EXPECT_EQ(refusal(device->query_meters(meters + 1)), Status::bad_resource);
    for (uint32_t left = Limits::kMaxMeterPairs - 1; left != 0;) {
        const uint32_t count = std::min(left, Limits::kMaxMeterPairsAtOnce);
        pairs({}, {}, count);
        left -= count;
    }
    EXPECT_EQ(make(pd, 1, {}), Status::limit);
    ASSERT_TRUE(device->destroy_meters(meters));
    EXPECT_EQ(make(pd, 2, {}), Status::limit);
    EXPECT_EQ(make(pd, 1, {}), std::nullopt);
}

TEST_F(MetersTest, WhatIsInUseStays) {
    const Number own = *device->alloc_pd(), next = table(1);
    const Number first = *device->create_meters({.pd = own, .pairs = 4});
    EXPECT_EQ(refusal(device->dealloc_pd(own)), Status::busy);
    ASSERT_TRUE(lead(root, {{.pair = first + 2}}, next));
    EXPECT_EQ(refusal(device->destroy_meters(first)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_meters(first + 2)), Status::bad_resource) << "all at once";
    ASSERT_TRUE(device->delete_flow_entry(root, 0));
    ASSERT_TRUE(device->destroy_meters(first));
    EXPECT_EQ(refusal(device->destroy_meters(first)), Status::bad_resource);
    EXPECT_EQ(refusal(device->query_meters(first)), Status::bad_resource);
    ASSERT_TRUE(device->create_meters({.pd = own}));
    device->destroy_all_flow_tables();
    EXPECT_TRUE(device->dealloc_pd(own));
}

TEST_F(MetersTest, NumbersAreUsedAgain) {
    const Number first = pairs({}, {}, 4), second = pairs({}, {}, 2), third = pairs({}, {}, 4);
    EXPECT_EQ(second, first + 4);
    EXPECT_EQ(third, second + 2);
    ASSERT_TRUE(device->destroy_meters(second));
    EXPECT_EQ(pairs({}, {}, 3), third + 4) << "too many for the gap";
    EXPECT_EQ(pairs({}, {}, 2), second);
    device->destroy_all_flow_tables();
    EXPECT_EQ(pairs({}), first);
}

} // namespace
