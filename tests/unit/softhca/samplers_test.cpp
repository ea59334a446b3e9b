// SPDX-License-Identifier: BSD-3-Clause
// Samplers: how many packets are copied, where copies and packets go, and what is refused.
#include "tests/unit/softhca/collector.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace {

using namespace testbed;
using frames::Spec;

class SamplersTest : public Testbed {
  protected:
    SamplersTest() {
        root = table(0);
        EXPECT_TRUE(device->set_flow_table_root(root));
        copies = table(5);
        all = table(6);
    }
    /// With one group, which matches everything.
    Number table(uint8_t level, bool sends = false) {
        const Number made =
            *device->create_flow_table({.level = level, .log_size = 0, .sends = sends});
        groups[made] = *device->create_flow_group(made, {});
        return made;
    }
    [[nodiscard]] SamplerAttr sampling(uint32_t ratio) const {
        return {.level = 1, .ratio = ratio, .copies = copies, .all = all};
    }
    auto lead(Number from, Number sampler) {
        return device->set_flow_entry(from, 0, {.group = groups[from], .samplers = {sampler}});
    }
    /// Packets that reach the table are counted and dropped.
    Number count(Number in) {
        const Number counter = *device->create_flow_counters();
        EXPECT_TRUE(device->set_flow_entry(
            in, 0, {.group = groups[in], .drop = true, .counters = {counter}}));
        return counter;
    }
    uint64_t packets(Number counter) { return device->query_flow_counter(counter, false)->packets; }
    void receive(int number) {
        for (int i = 0; i < number; i++)
            wire->incoming.push_back(frames::build(Spec{}));
        run();
    }
    Number root = 0, copies = 0, all = 0;
    std::map<Number, Number> groups;
};

TEST_F(SamplersTest, OneOfSoManyIsCopied) {
    const Number copied = count(copies), counted = count(all);
    uint64_t before = 0;
    for (const uint32_t ratio : {1u, 2u, 10u}) {
        constexpr uint64_t kPackets = 1000;
        const Number sampler = *device->create_sampler(sampling(ratio));
        ASSERT_TRUE(lead(root, sampler));
        receive(kPackets);
        EXPECT_EQ(packets(counted), before + kPackets);
        const uint64_t taken = device->query_flow_counter(copied, true)->packets;
        EXPECT_GE(taken * ratio, kPackets * (ratio == 1 ? 10 : 7) / 10) << ratio;
        EXPECT_LE(taken * ratio, kPackets * (ratio == 1 ? 10 : 13) / 10) << ratio;
        before += kPackets;
        ASSERT_TRUE(device->delete_flow_entry(root, 0));
        ASSERT_TRUE(device->destroy_sampler(sampler));
    }
}

TEST_F(SamplersTest, CopyAndPacketHaveTagsOfTheirOwn) {
    const Number tir = direct_tir(rq);
    ASSERT_TRUE(
        device->set_flow_entry(copies, 0, {.group = groups[copies], .tag = 5, .tirs = {tir}}));
    ASSERT_TRUE(device->set_flow_entry(all, 0, {.group = groups[all], .tag = 6, .tirs = {tir}}));
    ASSERT_TRUE(lead(root, *device->create_sampler(sampling(1))));
    post_buffers(rq, 2);
    receive(1);
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn, 5u);
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn, 6u);
}

TEST_F(SamplersTest, WhatIsSentIsSampledToo) {
    const Number first = table(0, true), copied = table(5, true), rest = table(6, true);
    ASSERT_TRUE(device->set_flow_table_root(first, FlowRoot::transmit));
    const Number counter = count(copied);
    const Number sampler = *device->create_sampler(
        {.level = 1, .ratio = 1, .copies = copied, .all = rest, .sends = true});
    ASSERT_TRUE(lead(first, sampler));
    EXPECT_EQ(refusal(lead(root, sampler)), Status::bad_parameter) << "of the other direction";
    const Bytes frame = frames::build(Spec{});
    post_packet(frame);
    run();
    EXPECT_EQ(packets(counter), 1u);
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], frame);
}

/// A packet that waits for the wire is steered again each time. It must go to the same tables, or
/// one of its two copies would be missing.
TEST_F(SamplersTest, WhatWaitsForTheWireIsSampledOnce) {
    constexpr size_t kPackets = 64;
    const Number first = table(0, true), copied = table(5, true), rest = table(6, true);
    ASSERT_TRUE(device->set_flow_table_root(first, FlowRoot::transmit));
    FlowEntryAttr tagged{.group = groups[copied], .send = true};
    tagged.rewrite.push_vlans = {{.type = 0x8100, .tci = 7}};
    ASSERT_TRUE(device->set_flow_entry(copied, 0, tagged));
    ASSERT_TRUE(
        lead(first, *device->create_sampler(
                        {.level = 1, .ratio = 2, .copies = copied, .all = rest, .sends = true})));
    for (size_t i = 0; i < kPackets; i++) {
        Bytes frame = frames::build(Spec{});
        frame.back() = static_cast<uint8_t>(i);
        post_packet(frame);
        wire->room = wire->sent.size();
        for (run(); !tx_cq.poll(); run())
            wire->room++;
        tx_cq.release();
        EXPECT_EQ(std::ranges::count(wire->sent, frame), 1) << i;
    }
    EXPECT_GT(wire->sent.size(), kPackets * 5 / 4);
    EXPECT_LT(wire->sent.size(), kPackets * 7 / 4);
}

/// A packet that ends on another path than it began on leaves no state to the next one.
TEST_F(SamplersTest, RulesMayGoWhileAPacketWaitsForTheWire) {
    const Number first = table(0, true), copied = table(5, true), rest = table(6, true);
    ASSERT_TRUE(device->set_flow_table_root(first, FlowRoot::transmit));
    ASSERT_TRUE(
        lead(first, *device->create_sampler(
                        {.level = 1, .ratio = 1, .copies = copied, .all = rest, .sends = true})));
    const Bytes frame = frames::build(Spec{});
    Wqe wqe(mlx5::WqeOpcode::send);
    wqe.eth();
    wqe.data(lkey, put(0, frame), static_cast<uint32_t>(frame.size()));
    wire->room = 1;
    sq.post(wqe);
    sq.ring_doorbell();
    run();
    ASSERT_TRUE(device->set_flow_table_root(0, FlowRoot::transmit));
    wire->room = SIZE_MAX;
    run();
    ASSERT_EQ(wire->sent.size(), 2u);
    ASSERT_TRUE(device->set_flow_table_root(first, FlowRoot::transmit));
    sq.post(wqe);
    sq.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), 4u);
}

TEST_F(SamplersTest, WhatIsInUseStays) {
    const Number sampler = *device->create_sampler(sampling(3));
    ASSERT_TRUE(device->destroy_flow_group(copies, groups[copies]));
    ASSERT_TRUE(device->destroy_flow_group(all, groups[all]));
    EXPECT_EQ(refusal(device->destroy_flow_table(copies)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_flow_table(all)), Status::busy);
    ASSERT_TRUE(lead(root, sampler));
    EXPECT_EQ(refusal(device->destroy_sampler(sampler)), Status::busy);
    ASSERT_TRUE(device->delete_flow_entry(root, 0));
    ASSERT_TRUE(device->destroy_sampler(sampler));
    EXPECT_EQ(refusal(device->destroy_sampler(sampler)), Status::bad_resource);
    EXPECT_TRUE(device->destroy_flow_table(copies));
    EXPECT_TRUE(device->destroy_flow_table(all));
}

TEST_F(SamplersTest, WhoLooksSeesThem) {
    count(copies);
    count(all);
    const Number sampler = *device->create_sampler(sampling(1));
    ASSERT_TRUE(lead(root, sampler));
    Collector collector{true};
    device->add_observer(collector);
    receive(1);
    device->remove_observer(collector);
    ASSERT_EQ(collector.passages.size(), 1u);
    const std::string way = collector.first_way();
    EXPECT_THAT(way, testing::HasSubstr(fmt::format("actions: to sampler {}\n", sampler)));
    EXPECT_THAT(way,
                testing::HasSubstr(fmt::format("sampler: {} (1 of 1): a copy goes to table {}; "
                                               "it goes to table {}\n",
                                               sampler, copies, all)));
    const auto dump = device->dump();
    EXPECT_EQ(dump["samplers"][0]["number"], sampler);
    EXPECT_EQ(dump["samplers"][0]["copies_to_table"], copies);
    EXPECT_EQ(dump["samplers"][0]["all_to_table"], all);
    EXPECT_EQ(dump["flow_entries"].back()["to_samplers"].size() +
                  dump["flow_entries"].front()["to_samplers"].size(),
              1u);
}

TEST_F(SamplersTest, Refusals) {
    const auto refused = [&](auto change) {
        SamplerAttr attr = sampling(1);
        change(attr);
        return refusal(device->create_sampler(attr));
    };
    EXPECT_EQ(refused([](SamplerAttr& attr) { attr.ratio = 0; }), Status::bad_parameter);
    EXPECT_EQ(refused([](SamplerAttr& attr) { attr.copies = 0xfffff; }), Status::bad_resource);
    EXPECT_EQ(refused([](SamplerAttr& attr) { attr.all = 0xfffff; }), Status::bad_resource);
    EXPECT_EQ(refused([](SamplerAttr& attr) { attr.level = 5; }), Status::bad_parameter);
    EXPECT_EQ(refused([](SamplerAttr& attr) { attr.sends = true; }), Status::bad_parameter);
    EXPECT_EQ(refused([](SamplerAttr& attr) { attr.level = 5, attr.any_level = true; }),
              std::nullopt);
    const Number sampler = *device->create_sampler(sampling(1));
    const Number above = table(1);
    EXPECT_EQ(refusal(lead(above, sampler)), Status::bad_parameter) << "not below it";
    EXPECT_EQ(refusal(lead(root, 0xfffff)), Status::bad_resource);
}

/// As Linux makes them (esw_setup_sampler_dest).
TEST_F(SamplersTest, EntriesThatKnowNoLevelsLeadToAnyOfThem) {
    const Number above = table(2), counted = count(all);
    ASSERT_TRUE(device->set_flow_table_root(above));
    const Number sampler = *device->create_sampler(sampling(1));
    const auto lead_anywhere = [&](Number from) {
        return device->set_flow_entry(
            from, 0, {.group = groups[from], .any_level = true, .samplers = {sampler}});
    };
    EXPECT_EQ(refusal(lead(above, sampler)), Status::bad_parameter);
    ASSERT_TRUE(lead_anywhere(above));
    receive(3);
    EXPECT_EQ(packets(counted), 3u);
    EXPECT_EQ(refusal(lead_anywhere(table(2, true))), Status::bad_parameter)
        << "of the other direction";
}

TEST_F(SamplersTest, AWayRoundEnds) {
    SamplerAttr attr = sampling(1);
    attr.any_level = true;
    attr.copies = attr.all = root;
    ASSERT_TRUE(lead(root, *device->create_sampler(attr)));
    receive(1);
    EXPECT_EQ(device->counters().wire_rx_packets, 1u);
    EXPECT_EQ(device->counters().delivered, 0u);
    // Each of 128 visits begins two; all but the 127 that came to a visit are lost.
    EXPECT_EQ(device->counters().drop_rule_loop, 129u);
}

} // namespace
