// SPDX-License-Identifier: BSD-3-Clause
// Software steering: hand-made entries of format 0 in ICM, executed on packets.
#include "app/softhca/core/rings/mlx5/ste/v0/layout.hpp"
#include "tests/unit/softhca/ste.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace {

using namespace testbed;
using namespace softhca::core::ste;
using frames::Spec;
using mlx5_rings::v0::RawHeaderEdit;
using mlx5_rings::v0::Ste;
using mlx5_rings::v0::SteType;

constexpr uint8_t kL2Source = 0x1c, kIpv4Tuple = 0x20, kRegisters = 0x2f;
constexpr uint8_t kSentL2Destination = 0x06, kSentIpv6Source = 0x0f;
constexpr uint8_t kDontCare = kSentIpv6Source; ///< libmlx5's number for entries without a mask

/// The hash of all bytes of a tag.
uint32_t hash_of(const Tag& tag) { return mlx5_rings::ste_format(0).hash({.hashed = 0xffff}, tag); }

class SteTest : public SteBed {
  protected:
    SteTest() : SteBed(0) {}

    /// An entry that takes every packet; `hit` is an address, or a table of `entries`.
    static Ste ste(SteType type, uint64_t hit, uint32_t entries = 1) {
        Ste made{};
        made.type = static_cast<uint8_t>(static_cast<unsigned>(type) << 4);
        made.lookup = kDontCare;
        lead(made, hit, entries);
        miss(made, address_of(Place::drop));
        return made;
    }
    static void lead(Ste& made, uint64_t hit, uint32_t entries = 1) {
        const uint64_t word = hit | uint64_t{entries} << 5;
        made.next_table_39_32 = static_cast<uint8_t>(word >> 32);
        made.next_table_31_5 = static_cast<uint32_t>(word);
    }
    static void miss(Ste& made, uint64_t address) {
        made.miss_39_32 = static_cast<uint8_t>(address >> 32);
        made.miss_31_6 = static_cast<uint32_t>(address);
    }
    /// Makes the entry require these bytes in the tag of a lookup.
    static void want(Ste& made, uint8_t lookup, size_t at, const Bytes& bytes) {
        made.lookup = lookup;
        std::memcpy(made.tag.data() + at, bytes.data(), bytes.size());
        std::fill_n(made.mask.begin() + static_cast<ptrdiff_t>(at), bytes.size(), kAll);
    }
};

TEST_F(SteTest, AnEntryThatMatchesLeadsToItsTirWithATag) {
    receives();
    Spec spec;
    Ste made = ste(SteType::receive, to_tir(tir));
    want(made, kL2Source, 0, Bytes(spec.src.begin(), spec.src.end()));
    made.argument = mlx5_rings::v0::kFlowTagValid | 0x1234;
    put_ste(0, made);
    post_buffers(rq, 1);
    receive(frames::build(spec));
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn, 0x1234u);
    spec.src[5] ^= 1;
    receive(frames::build(spec));
    EXPECT_EQ(device->counters().delivered, 1u);
    EXPECT_EQ(device->counters().drop_rule, 1u) << "the miss address is that of drops";
}

TEST_F(SteTest, TracesShowEachEntryByItsAddress) {
    receives();
    Spec spec;
    const Bytes source(spec.src.begin(), spec.src.end());
    Ste first = ste(SteType::receive, to_tir(tir));
    want(first, kL2Source, 0, source);
    miss(first, entry_at(1));
    put_ste(0, first);
    put_ste(1, ste(SteType::receive, to_drop()));
    const auto in_trace = [&](const std::string& text) { return testing::HasSubstr(text); };

    post_buffers(rq, 1);
    std::string way = traced(frames::build(spec));
    EXPECT_THAT(way, in_trace(fmt::format("STE: {:#x}: hit\nSTE: to TIR {}\n", entry_at(0), tir)));
    EXPECT_THAT(way, testing::EndsWith(fmt::format("delivered to RQ {} (WQE 0)", rq.number)));

    spec.src[5] ^= 1;
    way = traced(frames::build(spec));
    EXPECT_THAT(way, in_trace(fmt::format("STE: {:#x}: miss, lookup 0x1c sees ", entry_at(0))));
    EXPECT_THAT(way,
                in_trace(fmt::format("STE: {:#x}: hit\nSTE: to the drop address\n", entry_at(1))));
    EXPECT_THAT(way, testing::EndsWith("drop_rule (a rule says so)"));

    put_ste(1, Ste{}); // of no type
    way = traced(frames::build(spec));
    EXPECT_THAT(way, in_trace(fmt::format("STE: {:#x} is no entry: dropped\n", entry_at(1))));
    EXPECT_THAT(way, testing::EndsWith("drop_rule (a rule says so)"));
}

/// The device is not notified: programs write entries by RDMA.
TEST_F(SteTest, WhatIsWrittenIntoAnEntryCountsAtOnce) {
    receives();
    Ste made = ste(SteType::receive, to_tir(tir));
    put_ste(0, made);
    const auto entry = device->icm_area(entry_at(0), sizeof made);
    ASSERT_TRUE(entry);
    post_buffers(rq, 2);
    receive(frames::build({}));
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn, 0u);
    made.argument = mlx5_rings::v0::kFlowTagValid | 0x1234;
    std::memcpy(entry->at(0), &made, sizeof made);
    receive(frames::build({}));
    EXPECT_EQ(expect_packet(rx_cq).sop_drop_qpn, 0x1234u);
}

TEST_F(SteTest, TheNumberOfEntriesThatDoNotCareIsALookup) {
    receives();
    const Spec spec = frames::ipv6_spec();
    Ste made = ste(SteType::receive, to_tir(tir));
    want(made, kSentIpv6Source, 0, Bytes(spec.src_ip.begin(), spec.src_ip.end()));
    put_ste(0, made);
    EXPECT_EQ(passed(frames::build(spec)), frames::build(spec));
    Spec other = spec;
    other.src_ip.back() ^= 1;
    receive(frames::build(other));
    EXPECT_EQ(device->counters().drop_rule, 1u);
}

TEST_F(SteTest, MissesGoOnToTheNextEntryOfTheList) {
    receives();
    Ste first = ste(SteType::receive, address_of(Place::drop));
    want(first, kIpv4Tuple, 15, {6});
    miss(first, entry_at(5));
    Ste second = ste(SteType::receive, to_tir(tir));
    want(second, kIpv4Tuple, 15, {17});
    put_ste(0, first);
    put_ste(5, second);
    EXPECT_EQ(passed(frames::build(Spec{})), frames::build(Spec{}));
    Spec tcp;
    tcp.proto = frames::kTcp;
    receive(frames::build(tcp));
    EXPECT_EQ(device->counters().drop_rule, 1u);
}

TEST_F(SteTest, TheHashOfTheMaskedTagPicksTheEntry) {
    receives();
    constexpr unsigned kFirst = 64, kEntries = 64;
    Ste root = ste(SteType::receive, entry_at(kFirst), kEntries);
    root.next_lookup = kIpv4Tuple;
    root.byte_mask = 0x0030; // bytes 10 and 11: the destination port
    put_ste(0, root);
    for (uint16_t port = 1; port < 20; port++) {
        Spec spec;
        spec.dst_port = port;
        Tag tag{};
        net::store_be(tag.data() + 10, port);
        const unsigned index = hash_of(tag) % kEntries;
        for (unsigned i = 0; i < kEntries; i++)
            put_ste(kFirst + i, ste(SteType::receive, address_of(Place::drop)));
        put_ste(kFirst + index, ste(SteType::receive, to_tir(tir)));
        EXPECT_EQ(passed(frames::build(spec)), frames::build(spec)) << port;
    }
}

// As libmlx5 computes it (dr_ste_calc_hash_index), else programs and device would disagree about
// where entries are.
TEST_F(SteTest, TheHashIsCrc32WithoutInversionsTurnedRound) {
    const Tag zero{};
    EXPECT_EQ(hash_of(zero), 0u);
    Tag last{};
    last[15] = std::byte{1};
    EXPECT_EQ(hash_of(last), 0x96300777u); // the table's entry 1, 0x77073096
}

TEST_F(SteTest, EntriesCountTheirPackets) {
    receives();
    const Number counter = *device->create_flow_counters();
    Ste made = ste(SteType::receive, to_tir(tir));
    made.counter_23_16 = static_cast<uint8_t>(counter >> 16);
    made.counter_15_0 = static_cast<uint16_t>(counter);
    put_ste(0, made);
    const Bytes frame = frames::build(Spec{});
    (void)passed(frame);
    EXPECT_EQ(device->query_flow_counter(counter, false)->packets, 1u);
    EXPECT_EQ(device->query_flow_counter(counter, false)->bytes, frame.size());
    Ste pop = ste(SteType::receive, entry_at(1));
    pop.tunnel = static_cast<uint8_t>(mlx5_rings::v0::TunnelAction::pop_vlan) << 4;
    put_ste(0, pop);
    put_ste(1, made);
    Spec tagged;
    tagged.tags = {{0x8100, 5}};
    (void)passed(frames::build(tagged));
    EXPECT_EQ(device->query_flow_counter(counter, false)->bytes, 2 * frame.size())
        << "as it is where it is counted";
}

TEST_F(SteTest, SamplersOfTheOtherDirectionAreNotReached) {
    receives();
    const auto sending = [&](uint8_t level) {
        return *device->create_flow_table({.level = level, .log_size = 0, .sends = true});
    };
    const Number copies = sending(5), all = sending(6), counter = *device->create_flow_counters();
    ASSERT_TRUE(device->set_flow_entry(
        all, 0,
        {.group = *device->create_flow_group(all, {}), .drop = true, .counters = {counter}}));
    const Number sampler = *device->create_sampler(
        {.level = 1, .ratio = 1, .copies = copies, .all = all, .sends = true});
    put_ste(0, ste(SteType::receive, address_of(Place::sampler, sampler)));
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->query_flow_counter(counter, false)->packets, 0u);
    EXPECT_EQ(device->counters().drop_rule, 1u);
}

TEST_F(SteTest, TablesOfTheOtherDirectionAreNotReached) {
    receives();
    sends(1);
    // Each with one rule, which counts.
    const auto table_with = [&](bool of_sent, Number counter) {
        const Number made = *device->create_flow_table({.log_size = 0, .sends = of_sent});
        EXPECT_TRUE(device->set_flow_entry(
            made, 0,
            {.group = *device->create_flow_group(made, {}), .drop = true, .counters = {counter}}));
        return made;
    };
    const Number for_sent = *device->create_flow_counters(),
                 for_received = *device->create_flow_counters();
    put_ste(0, ste(SteType::receive, address_of(Place::flow_table, table_with(true, for_sent))));
    put_ste(1,
            ste(SteType::transmit, address_of(Place::flow_table, table_with(false, for_received))));
    receive(frames::build(Spec{}));
    send(frames::build(Spec{}));
    EXPECT_EQ(device->query_flow_counter(for_sent, false)->packets, 0u);
    EXPECT_EQ(device->query_flow_counter(for_received, false)->packets, 0u);
    EXPECT_EQ(device->counters().drop_rule, 1u);
    EXPECT_EQ(device->counters().drop_tx_rule, 1u);
}

TEST_F(SteTest, EditsOfAListAreMadeAndSeenByLaterEntries) {
    receives();
    // Destination MAC in two parts, TTL minus 1, a gap, a register that the next entry requires.
    const RawHeaderEdit list[] = {{2, 0x00, 16, 0, 0x02112233}, {2, 0x00, 0, 16, 0x4455},
                                  {3, 0x04, 8, 8, 0xff},        {0, 0, 0, 0, 0},
                                  {2, 0x0c, 32, 0, 0xcafe},     {1, 0x0c, 0, 32, 0x0c2000}};
    write(edits + 64, list, sizeof list);
    Ste first = ste(SteType::modify_packet, entry_at(1));
    first.kind_data = std::size(list);
    first.argument = 1; // in units of 64 bytes
    Ste second = ste(SteType::receive, to_tir(tir));
    want(second, kRegisters, 0, {0, 0, 0xca, 0xfe, 0, 0, 0xca, 0xfe}); // registers 0 and 1
    put_ste(0, first);
    put_ste(1, second);
    Spec spec, changed;
    changed.dst = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
    changed.ttl = static_cast<uint8_t>(spec.ttl - 1);
    EXPECT_EQ(passed(frames::build(spec)), frames::build(changed));
}

TEST_F(SteTest, TagsAreTakenOffOneByOne) {
    receives();
    Ste pop = ste(SteType::receive, to_tir(tir));
    pop.tunnel = static_cast<uint8_t>(mlx5_rings::v0::TunnelAction::pop_vlan) << 4;
    put_ste(0, pop);
    Spec tagged;
    tagged.tags = {{0x8100, 5}};
    EXPECT_EQ(passed(frames::build(tagged)), frames::build(Spec{}));
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_rewrite, 1u) << "there is no tag to take off";
}

TEST_F(SteTest, WhatIsSentGetsATagAndATunnel) {
    sends(8);
    Ste push = ste(SteType::transmit, address_of(Place::send));
    push.kind_data = static_cast<uint16_t>(mlx5_rings::v0::SendAction::push_vlan) << 7;
    push.argument = 0x81000007;
    want(push, kSentL2Destination, 0, Bytes(frames::kOurMac.begin(), frames::kOurMac.end()));
    put_ste(8, push);
    send(frames::build(Spec{}));
    Spec tagged;
    tagged.tags = {{0x8100, 7}};
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], frames::build(tagged));

    const Bytes outer = frames::build(tagged);
    const Number tunnel = *device->create_reformat(
        ReformatKind::l2_to_l2_tunnel, std::as_bytes(std::span(outer).first(net::kEthernetBytes)));
    push.kind_data = static_cast<uint16_t>(mlx5_rings::v0::SendAction::encap) << 7;
    push.argument = tunnel;
    put_ste(8, push);
    send(frames::build(Spec{}));
    ASSERT_EQ(wire->sent.size(), 2u);
    Bytes expected(outer.begin(), outer.begin() + net::kEthernetBytes);
    const Bytes frame = frames::build(Spec{});
    expected.insert(expected.end(), frame.begin(), frame.end());
    EXPECT_EQ(wire->sent[1], expected);

    lead(push, address_of(Place::drop));
    put_ste(8, push);
    send(frames::build(Spec{}));
    EXPECT_EQ(wire->sent.size(), 2u);
    EXPECT_EQ(device->counters().drop_tx_rule, 1u);
}

TEST_F(SteTest, EntriesLeadToTablesAndTablesToEntries) {
    const Number root = *device->create_flow_table({});
    const Number groups = *device->create_flow_table({.level = 2});
    const Number own = *device->create_flow_table({.level = 1, .icm_root = icm});
    const auto all = [&](Number of) { return *device->create_flow_group(of, {}); };
    ASSERT_TRUE(device->set_flow_entry(root, 0, {.group = all(root), .tables = {own}}));
    ASSERT_TRUE(device->set_flow_entry(groups, 0, {.group = all(groups), .tirs = {tir}}));
    put_ste(0, ste(SteType::receive, address_of(Place::flow_table, groups)));
    ASSERT_TRUE(device->set_flow_table_root(root));
    EXPECT_EQ(passed(frames::build(Spec{})), frames::build(Spec{}));
}

TEST_F(SteTest, WhatIsNoEntryOrLeadsInCirclesDropsThePacket) {
    receives();
    receive(frames::build(Spec{})); // zeros
    EXPECT_EQ(device->counters().drop_rule, 1u);
    put_ste(0, ste(SteType::receive, entry_at(0)));
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_rule_loop, 1u);
    const Number next = *device->create_flow_table({.level = 1, .icm_root = entry_at(1)});
    put_ste(0, ste(SteType::receive, address_of(Place::flow_table, next)));
    put_ste(1, ste(SteType::receive, address_of(Place::flow_table, table)));
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_rule_loop, 2u) << "tables that lead to each other";
    for (const uint64_t nowhere : {uint64_t{0}, to_tir(0xfffff), address_of(Place::send)}) {
        put_ste(0, ste(SteType::receive, nowhere));
        receive(frames::build(Spec{}));
    }
    EXPECT_EQ(device->counters().drop_rule, 4u);
    EXPECT_EQ(device->counters().delivered, 0u);
}

/// Each change costs the device a copy, which it keeps for later packets.
TEST_F(SteTest, APacketIsChangedSoOftenOnly) {
    constexpr uint64_t kMost = 1000;
    receives();
    const Number counter = *device->create_flow_counters();
    const RawHeaderEdit less_ttl{3, 0x04, 8, 8, 0xff};
    write(edits, &less_ttl, sizeof less_ttl);
    Ste circle = ste(SteType::modify_packet, entry_at(0));
    circle.kind_data = 1;
    circle.counter_15_0 = static_cast<uint16_t>(counter);
    put_ste(0, circle);
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_rewrite, 1u);
    EXPECT_LT(device->query_flow_counter(counter, false)->packets, kMost);
}

TEST_F(SteTest, EditsOfLongListsCountAsSteps) {
    constexpr uint16_t kGaps = 512; // which change nothing, but are read all the same
    receives();
    const Number counter = *device->create_flow_counters();
    Ste circle = ste(SteType::modify_packet, entry_at(0));
    circle.kind_data = kGaps;
    circle.counter_15_0 = static_cast<uint16_t>(counter);
    put_ste(0, circle);
    receive(frames::build(Spec{}));
    EXPECT_EQ(device->counters().drop_rewrite, 1u);
    EXPECT_EQ(device->query_flow_counter(counter, false)->packets, (1u << 16) / (kGaps + 1) + 1);
}

} // namespace
