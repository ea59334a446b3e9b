// SPDX-License-Identifier: BSD-3-Clause
// Flow tables: which entry wins, goto and miss, copies, tags, counters, and what is refused.
#include "app/softhca/core/flow_tables.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

namespace {

using namespace testbed;
using frames::Spec;

constexpr uint8_t kEveryBit = 0xff;

FlowKey protocol(uint8_t number) {
    FlowKey key;
    key.outer.ip_proto = number;
    return key;
}

class FlowTablesTest : public Testbed {
  protected:
    FlowTablesTest() : second_rq(*device, pd, rx_cq.number, {.listener = &listener}) {
        first_tir = direct_tir(rq);
        second_tir = direct_tir(second_rq);
        root = *device->create_flow_table({.level = 0, .log_size = 4});
        EXPECT_TRUE(device->set_flow_table_root(root));
    }

    /// A group of `count` entries, starting at `first`.
    Number group(Number table, uint32_t first, uint32_t count, const FlowKey& mask) {
        return *device->create_flow_group(
            table, {.first = first, .last = first + count - 1, .mask = mask});
    }
    void receive(const Bytes& frame) {
        wire->incoming.push_back(frame);
        run();
    }

    TestRq second_rq;
    Number first_tir = 0, second_tir = 0, root = 0;
};

/// Tables of the largest size would have room for thousands of millions.
TEST(FlowEntries, AreLimitedInAllTablesTogether) {
    FlowTables tables(3);
    const std::array<Number, 2> made{tables.create_table({.log_size = 2}).value(),
                                     tables.create_table({.log_size = 2}).value()};
    const std::array<Number, 2> groups{tables.create_group(made[0], {.last = 3}).value(),
                                       tables.create_group(made[1], {.last = 3}).value()};
    const auto set = [&](size_t which, uint32_t index) {
        return tables.set_entry(made[which], index, {.group = groups[which], .drop = true}, {}, {});
    };
    EXPECT_TRUE(set(0, 0));
    EXPECT_TRUE(set(0, 1));
    EXPECT_TRUE(set(1, 0));
    EXPECT_EQ(refusal(set(0, 2)), Status::limit);
    EXPECT_EQ(refusal(set(1, 1)), Status::limit);
    EXPECT_TRUE(set(0, 1)) << "replaces one";
    EXPECT_TRUE(tables.erase_entry(made[0], 0));
    EXPECT_TRUE(set(1, 1));
    EXPECT_EQ(refusal(set(1, 2)), Status::limit);
}

TEST_F(FlowTablesTest, TheGroupWithTheLowestIndicesWins) {
    const Number all = group(root, 8, 1, {});
    const Number udp = group(root, 0, 4, protocol(kEveryBit)); // created later, with lower indices
    ASSERT_TRUE(device->set_flow_entry(root, 8, {.group = all, .tag = 8, .tirs = {first_tir}}));
    ASSERT_TRUE(device->set_flow_entry(
        root, 2, {.group = udp, .value = protocol(17), .tag = 2, .tirs = {first_tir}}));
    post_buffers(rq, 2);
    receive(frames::build(Spec{}));
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn, 2u);
    Spec tcp;
    tcp.proto = frames::kTcp;
    receive(frames::build(tcp));
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn, 8u);
}

/// Linux's mlx5 driver replaces the last entry of its tc tables that way: it first adds the new
/// one.
TEST_F(FlowTablesTest, OfEntriesThatMatchAlikeTheLowestIndexWins) {
    const Number all = group(root, 0, 4, {});
    post_buffers(rq, 5);
    const auto set = [&](uint32_t index) {
        return device
            ->set_flow_entry(root, index, {.group = all, .tag = index, .tirs = {first_tir}})
            .has_value();
    };
    const auto decides = [&] {
        receive(frames::build(Spec{}));
        return expect_packet(rx_cq).sop_drop_qpn & 0xffffff;
    };
    ASSERT_TRUE(set(2));
    ASSERT_TRUE(set(3));
    EXPECT_EQ(decides(), 2u);
    ASSERT_TRUE(set(1));
    EXPECT_EQ(decides(), 1u);
    ASSERT_TRUE(device->delete_flow_entry(root, 2));
    EXPECT_EQ(decides(), 1u);
    ASSERT_TRUE(set(1)) << "in its own place";
    ASSERT_TRUE(device->delete_flow_entry(root, 1));
    EXPECT_EQ(decides(), 3u);
    ASSERT_TRUE(device->delete_flow_entry(root, 3));
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_no_match, 1u);
}

/// In tables as well as in plain rules.
TEST_F(FlowTablesTest, EntriesKnowWhetherAPacketIsSound) {
    FlowKey mask, sound;
    mask.outer.integrity = sound.outer.integrity = Integrity::kL4Checksum;
    ASSERT_TRUE(device->set_flow_entry(
        root, 0, {.group = group(root, 0, 1, mask), .value = sound, .tirs = {first_tir}}));
    const Bytes frame = frames::build(Spec{});
    Bytes bad = frame;
    bad.back() ^= 1;
    const auto takes_what_is_sound = [&](uint64_t before) {
        post_buffers(rq, 1);
        receive(frame);
        EXPECT_EQ(device->counters().delivered, before + 1);
        receive(bad);
        EXPECT_EQ(device->counters().drop_no_match, before + 1);
    };
    takes_what_is_sound(0);
    ASSERT_TRUE(device->set_flow_table_root(0));
    FlowAttr rule;
    rule.value = sound;
    rule.mask = mask;
    rule.tirs = {first_tir};
    ASSERT_TRUE(device->create_flow(rule));
    takes_what_is_sound(1);
}

TEST_F(FlowTablesTest, EachDestinationGetsACopyAndTablesDecideAboutOne) {
    const Number next = *device->create_flow_table({.level = 1, .log_size = 0});
    const Number counter = *device->create_flow_counters();
    ASSERT_TRUE(device->set_flow_entry(
        next, 0, {.group = group(next, 0, 1, {}), .tirs = {second_tir}, .counters = {counter}}));
    ASSERT_TRUE(device->set_flow_entry(
        root, 0,
        {.group = group(root, 0, 1, {}), .tag = 7, .tirs = {first_tir}, .tables = {next}}));
    post_buffers(rq, 1);
    post_buffers(second_rq, 1);
    const Bytes frame = frames::build(Spec{});
    receive(frame);
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn, 7u);
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn, 7u) << "a tag goes along to the next table";
    EXPECT_EQ(device->counters().delivered, 2u);
    const auto counted = device->query_flow_counter(counter, true);
    EXPECT_EQ(counted->packets, 1u);
    EXPECT_EQ(counted->bytes, frame.size());
    EXPECT_EQ(device->query_flow_counter(counter, false)->packets, 0u);
}

TEST_F(FlowTablesTest, WhatNoEntryTakesGoesToTheMissTableOrIsCounted) {
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_no_match, 1u);
    const Number behind = *device->create_flow_table({.level = 3, .log_size = 0});
    ASSERT_TRUE(
        device->set_flow_entry(behind, 0, {.group = group(behind, 0, 1, {}), .drop = true}));
    ASSERT_TRUE(device->set_flow_table_miss(root, behind));
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_rule, 1u);
    EXPECT_EQ(device->counters().drop_no_match, 1u);
}

TEST_F(FlowTablesTest, ReplacingAnEntryTakesEffect) {
    const Number all = group(root, 0, 1, {});
    ASSERT_TRUE(device->set_flow_entry(root, 0, {.group = all, .drop = true}));
    ASSERT_TRUE(device->set_flow_entry(root, 0, {.group = all, .tirs = {first_tir}}));
    post_buffers(rq, 1);
    receive(frames::build(Spec{}));
    (void)expect_packet(rx_cq);
    ASSERT_TRUE(device->delete_flow_entry(root, 0));
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_no_match, 1u);
}

TEST_F(FlowTablesTest, EntriesThatKnowNoLevelsLeadAnywhereInTheirDirection) {
    const Number lower = *device->create_flow_table({.level = 0, .log_size = 0});
    const Number all = group(root, 0, 1, {});
    ASSERT_TRUE(
        device->set_flow_entry(lower, 0, {.group = group(lower, 0, 1, {}), .tirs = {first_tir}}));
    ASSERT_TRUE(
        device->set_flow_entry(root, 0, {.group = all, .tables = {lower}, .any_level = true}));
    post_buffers(rq, 1);
    receive(frames::build(Spec{}));
    (void)expect_packet(rx_cq);
    // A packet that loops is dropped in the end.
    ASSERT_TRUE(
        device->set_flow_entry(root, 0, {.group = all, .tables = {root}, .any_level = true}));
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_rule_loop, 1u);
    EXPECT_EQ(device->counters().drop_no_match, 0u);
    const Number sends = *device->create_flow_table({.level = 1, .log_size = 0, .sends = true});
    EXPECT_EQ(refusal(device->set_flow_entry(root, 0,
                                             {.group = all, .tables = {sends}, .any_level = true})),
              Status::bad_parameter);
}

TEST_F(FlowTablesTest, LoopsOverlapsAndEqualEntriesAreRefused) {
    const Number lower = *device->create_flow_table({.level = 0, .log_size = 0});
    const Number all = group(root, 0, 2, {});
    EXPECT_EQ(refusal(device->set_flow_entry(root, 0, {.group = all, .tables = {root}})),
              Status::bad_parameter);
    EXPECT_EQ(refusal(device->set_flow_entry(root, 0, {.group = all, .tables = {lower}})),
              Status::bad_parameter);
    EXPECT_EQ(refusal(device->set_flow_table_miss(root, lower)), Status::bad_parameter);
    EXPECT_EQ(refusal(device->create_flow_group(root, {.first = 1, .last = 3})),
              Status::bad_parameter);
    EXPECT_EQ(refusal(device->create_flow_group(root, {.first = 15, .last = 16})),
              Status::bad_parameter);
    EXPECT_EQ(refusal(device->set_flow_entry(root, 1, {.group = all, .tirs = {0xfffff}})),
              Status::bad_resource);
}

TEST_F(FlowTablesTest, WhatIsInUseStays) {
    const Number next = *device->create_flow_table({.level = 1, .log_size = 0});
    const Number counter = *device->create_flow_counters();
    const Number all = group(root, 0, 1, {});
    ASSERT_TRUE(device->set_flow_entry(
        root, 0, {.group = all, .tirs = {first_tir}, .tables = {next}, .counters = {counter}}));
    EXPECT_EQ(refusal(device->destroy_tir(first_tir)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_flow_table(next)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_flow_counters(counter)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_flow_group(root, all)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_flow_table(root)), Status::busy);
    ASSERT_TRUE(device->delete_flow_entry(root, 0));
    ASSERT_TRUE(device->destroy_flow_group(root, all));
    EXPECT_TRUE(device->destroy_flow_table(next));
    EXPECT_TRUE(device->destroy_flow_counters(counter));
    EXPECT_TRUE(device->destroy_flow_table(root)) << "the last table takes the root with it";
    EXPECT_TRUE(device->destroy_tir(first_tir));
}

TEST_F(FlowTablesTest, ManyCopiesOfCopiesEnd) {
    // Each table leads to the next one twice: 2^40 paths in all.
    std::vector<Number> chain = {root};
    for (uint8_t level = 1; level <= 40; level++) {
        chain.push_back(*device->create_flow_table({.level = level, .log_size = 0}));
        const Number from = chain[level - 1], to = chain[level];
        ASSERT_TRUE(
            device->set_flow_entry(from, 0, {.group = group(from, 0, 1, {}), .tables = {to, to}}));
    }
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().wire_rx_packets, 1u);
    EXPECT_GT(device->counters().drop_rule_loop, 0u);
    EXPECT_EQ(device->counters().drop_no_match, 0u);
}

TEST_F(FlowTablesTest, WhatIsSentInCirclesIsLost) {
    const Number circle = *device->create_flow_table({.level = 1, .log_size = 0, .sends = true});
    ASSERT_TRUE(device->set_flow_table_root(circle, FlowRoot::transmit));
    ASSERT_TRUE(device->set_flow_entry(
        circle, 0, {.group = group(circle, 0, 1, {}), .tables = {circle}, .any_level = true}));
    post_packet(frames::build(Spec{}));
    run();
    EXPECT_EQ(device->counters().drop_rule_loop, 1u);
    EXPECT_EQ(device->counters().drop_tx_rule, 0u);
}

/// The device remembers where a flow's packets go: if some of their copies are lost, it must not.
TEST_F(FlowTablesTest, LostCopiesAreCountedForEveryPacketOfAFlow) {
    constexpr uint64_t kPackets = 3;
    const Number circle = *device->create_flow_table({.level = 1, .log_size = 0});
    const Number in_circle = group(circle, 0, 1, {}), in_root = group(root, 0, 1, {});
    ASSERT_TRUE(device->set_flow_entry(
        root, 0, {.group = in_root, .tirs = {first_tir}, .tables = {circle}}));
    const auto receive_all = [&] {
        post_buffers(rq, kPackets);
        for (uint64_t i = 0; i < kPackets; i++)
            receive(frames::build(Spec{}));
    };
    ASSERT_TRUE(device->set_flow_entry(
        circle, 0, {.group = in_circle, .tables = {circle}, .any_level = true}));
    receive_all();
    EXPECT_EQ(device->counters().drop_rule_loop, kPackets);
    FlowEntryAttr pops{.group = in_circle, .tirs = {second_tir}};
    pops.rewrite.pop_vlans = 1;
    ASSERT_TRUE(device->set_flow_entry(circle, 0, pops));
    receive_all();
    EXPECT_EQ(device->counters().drop_rewrite, kPackets) << "there is no tag to take off";
    EXPECT_EQ(device->counters().delivered, 2 * kPackets);
}

TEST_F(FlowTablesTest, ATirMayChangeUnderItsEntries) {
    ASSERT_TRUE(
        device->set_flow_entry(root, 0, {.group = group(root, 0, 1, {}), .tirs = {first_tir}}));
    TirAttr attr;
    attr.rqn = 0xfffff;
    EXPECT_EQ(refusal(device->modify_tir(first_tir, attr)), Status::bad_resource);
    attr.rqn = second_rq.number;
    ASSERT_TRUE(device->modify_tir(first_tir, attr));
    post_buffers(second_rq, 1);
    receive(frames::build(Spec{}));
    (void)expect_packet(rx_cq);
    EXPECT_EQ(device->rq_counters(second_rq.number)->packets, 1u);
}

TEST(FlowNumbers, ThoseOfCountersAreUsedAgain) {
    FlowTables tables;
    const Number first = tables.create_counters(Limits::kMaxFlowCounters).value();
    ASSERT_TRUE(tables.destroy_counters(first));
    EXPECT_EQ(tables.create_counters(2).value(), first);
}

TEST(FlowNumbers, OthersGoRoundAndPassOverThoseInUse) {
    Numbers numbers(4);
    EXPECT_EQ(numbers.take(), 1u);
    EXPECT_EQ(numbers.take(), 2u);
    numbers.give_back(2);
    EXPECT_EQ(numbers.take(), 3u) << "the others come first";
    EXPECT_EQ(numbers.take(), 4u);
    EXPECT_EQ(numbers.take(), 2u);
    numbers.give_back(3);
    EXPECT_EQ(numbers.take(), 3u) << "the only one left";
}

TEST(FlowNumbers, WhatIsDestroyedGivesItsOwnBack) {
    FlowTables tables;
    const Number table = tables.create_table({}).value();
    const Number group = tables.create_group(table, {}).value();
    const Number edits = tables.create_edits({}).value();
    const Number sampler =
        tables.create_sampler({.copies = table, .all = table, .any_level = true}).value();
    EXPECT_EQ(tables.numbers().taken(), 4u);
    EXPECT_TRUE(tables.destroy_sampler(sampler));
    EXPECT_TRUE(tables.destroy_edits(edits));
    EXPECT_TRUE(tables.destroy_group(table, group));
    EXPECT_TRUE(tables.destroy_table(table));
    EXPECT_EQ(tables.numbers().taken(), 0u);
}

} // namespace
