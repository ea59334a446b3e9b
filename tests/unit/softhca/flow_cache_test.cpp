// SPDX-License-Identifier: BSD-3-Clause
// The device remembers where a flow's packets go. That must never show: the results are those of a
// device with an observer, which remembers nothing.
#include "common/net/parse.hpp"
#include "tests/unit/softhca/collector.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace {

using namespace testbed;
using frames::Spec;

/// A packet as a program sees it.
struct Seen {
    Bytes bytes;
    uint32_t tag = 0, hash = 0;
    uint8_t hash_type = 0, sound = 0, types = 0;
    uint16_t sum = 0;
    bool operator==(const Seen&) const = default;
};

class FlowCacheTest : public Testbed {
  protected:
    static constexpr uint32_t kTag = 7;

    FlowCacheTest() {
        TirAttr attr;
        attr.rqn = rq.number;
        attr.toeplitz_key.fill(0x6d);
        attr.fields = {.src_ip = true, .dst_ip = true, .src_port = true, .dst_port = true};
        tir = device->create_tir(attr).value();
        FlowAttr all;
        all.priority = 1;
        all.tirs = {tir};
        std::ignore = device->create_flow(all).value();
    }
    /// Frames with the same headers as this one get the tag.
    Number mark(const Bytes& frame) {
        FlowAttr attr;
        attr.tag = kTag;
        attr.tirs = {tir};
        const auto bytes = static_cast<uint32_t>(frame.size());
        extract(net::parse(frames::view(frame), bytes), frames::view(frame), bytes, attr.value);
        std::memset(reinterpret_cast<std::byte*>(&attr.mask), 0xff, sizeof attr.mask);
        attr.mask.outer.integrity = attr.mask.inner.integrity = 0;  // not a header
        attr.mask.outer.tcp_sequence = attr.mask.outer.tcp_ack = 0; // not the flow's
        return device->create_flow(attr).value();
    }
    Seen receive(const Bytes& frame) {
        post_buffer(rq);
        wire->incoming.push_back(frame);
        run();
        const mlx5::Cqe* const cqe = rx_cq.poll();
        if (!cqe) return {};
        rx_cq.release();
        return {packet_of(*cqe),     cqe->sop_drop_qpn & 0xffffff,
                cqe->rx_hash_result, cqe->rx_hash_type,
                cqe->hds_ip_ext,     cqe->l4_l3_type,
                cqe->check_sum};
    }
    uint64_t lookups() { return device->stats()["steering"]["lookups"].get<uint64_t>(); }

    Number tir = 0;
};

struct Kind {
    const char* name;
    Spec spec;
};

/// Frames whose flows are remembered, with each combination of headers.
std::vector<Kind> plain_kinds() {
    std::vector<Kind> kinds;
    for (const bool vlan : {false, true})
        for (const bool v6 : {false, true})
            for (const bool tcp : {false, true}) {
                Spec spec = v6 ? frames::ipv6_spec() : Spec{};
                if (vlan) spec.tags = {{0x8100, 0x2123}};
                if (tcp) spec.proto = frames::kTcp;
                kinds.push_back({"plain", spec});
            }
    return kinds;
}

/// Frames similar to these.
std::vector<Kind> other_kinds() {
    std::vector<Kind> kinds = {
        {"two tags", {.tags = {{0x88a8, 1}, {0x8100, 2}}}},
        {"two inner tags", {.tags = {{0x8100, 1}, {0x8100, 2}}}},
        {"fragment", {.fragment = 0x2000}},
        {"options", {.ip_options = Bytes(4, 1)}},
        {"no IP", {.ip = 0, .payload = Bytes(60, 0x45)}},
        {"short payload", {.payload = {1}}},
    };
    Spec extended = frames::ipv6_spec();
    extended.extensions = {{60, Bytes(8, 0)}};
    kinds.push_back({"extension", extended});
    for (const uint16_t port : {4789, 2152, 4790, 6081, 6635})
        kinds.push_back({"tunnel", {.dst_port = port, .payload = frames::pattern(80, 0x45)}});
    return kinds;
}

TEST_F(FlowCacheTest, EachBitOfAHeaderCountsAsItDoesForWhoIsWatched) {
    auto kinds = plain_kinds();
    std::ranges::move(other_kinds(), std::back_inserter(kinds));
    for (const auto& [name, spec] : kinds) {
        const Bytes base = frames::padded(frames::build(spec));
        const Number rule = mark(base);
        std::vector<Bytes> changed;
        for (size_t bit = 0; bit < 8 * std::min<size_t>(base.size(), 80); bit++) {
            changed.push_back(base);
            changed.back()[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
        }
        std::vector<Seen> expected;
        Collector collector(false);
        device->add_observer(collector);
        const Seen expected_of_base = receive(base);
        ASSERT_EQ(expected_of_base.tag, kTag) << name;
        for (const Bytes& frame : changed)
            expected.push_back(receive(frame));
        device->remove_observer(collector);

        for (size_t i = 0; i < changed.size(); i++) {
            const std::string where = fmt::format("{}, bit {} of {} bytes", name, i, base.size());
            ASSERT_EQ(receive(base), expected_of_base) << where;
            ASSERT_EQ(receive(changed[i]), expected[i]) << where;
            ASSERT_EQ(receive(changed[i]), expected[i]) << where << ", again";
        }
        ASSERT_TRUE(device->destroy_flow(rule));
    }
}

TEST_F(FlowCacheTest, LengthsAreEachPacketsOwn) {
    for (const auto& [name, spec] : plain_kinds())
        for (size_t payload = 0; payload < 70; payload++) {
            Spec sized = spec;
            sized.payload = frames::pattern(payload);
            const Bytes frame = frames::build(sized);
            const Seen seen = receive(frames::padded(frame, std::max<size_t>(60, frame.size())));
            EXPECT_EQ(seen.sound & (mlx5::kL3Ok | mlx5::kL4Ok), mlx5::kL3Ok | mlx5::kL4Ok);
            const int l4 = spec.proto == frames::kUdp ? static_cast<int>(mlx5::CqeL4::udp)
                           : payload == 0             ? static_cast<int>(mlx5::CqeL4::tcp_ack)
                                                      : static_cast<int>(mlx5::CqeL4::tcp_ack_data);
            EXPECT_EQ(seen.types >> 4 & 7, l4) << payload;
        }
}

TEST_F(FlowCacheTest, AKnownFlowIsNotLookedUp) {
    for (const auto& [name, spec] : plain_kinds()) {
        const Bytes frame = frames::padded(frames::build(spec));
        const uint64_t before = lookups();
        receive(frame); // lookups() makes the device forget it
        const uint64_t once = lookups() - before;
        ASSERT_GT(once, 0u);
        for (int i = 0; i < 10; i++)
            receive(frame);
        EXPECT_EQ(lookups() - before, 2 * once);
    }
}

TEST_F(FlowCacheTest, EachChangeOfRulesIsSeenAtOnce) {
    const Bytes frame = frames::build(Spec{});
    EXPECT_EQ(receive(frame).tag, 0u);
    const Number rule = mark(frame);
    EXPECT_EQ(receive(frame).tag, kTag);
    EXPECT_EQ(receive(frame).tag, kTag);
    ASSERT_TRUE(device->destroy_flow(rule));
    EXPECT_EQ(receive(frame).tag, 0u);

    EXPECT_NE(receive(frame).hash_type, 0);
    TirAttr plain;
    plain.rqn = rq.number;
    ASSERT_TRUE(device->modify_tir(tir, plain));
    EXPECT_EQ(receive(frame).hash_type, 0);
}

TEST_F(FlowCacheTest, RulesThatAskForChecksumsAreAskedEachTime) {
    FlowAttr attr;
    attr.tag = kTag;
    attr.tirs = {tir};
    attr.value.outer.integrity = attr.mask.outer.integrity = Integrity::kL4Checksum;
    std::ignore = device->create_flow(attr).value();
    const Bytes right = frames::build(Spec{});
    Bytes wrong = right;
    wrong.back() ^= 1;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(receive(right).tag, kTag);
        EXPECT_EQ(receive(wrong).tag, 0u);
    }
}

/// The flows of UDP stay known.
TEST_F(FlowCacheTest, RulesThatAskForNumbersAreAskedForEachPacketOfTcp) {
    Spec first, second, udp;
    first.proto = second.proto = frames::kTcp;
    first.sequence = 0x1234;
    first.ack = second.sequence = second.ack = 0x5678;
    for (const auto member : {&LayerKey::tcp_sequence, &LayerKey::tcp_ack}) {
        FlowAttr attr;
        attr.tag = kTag;
        attr.tirs = {tir};
        attr.mask.outer.*member = ~0u;
        attr.value.outer.*member = member == &LayerKey::tcp_ack ? 0x5678 : 0x1234;
        const Number rule = device->create_flow(attr).value();
        const uint32_t tag_of_second = member == &LayerKey::tcp_ack ? kTag : 0;
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(receive(frames::build(first)).tag, kTag);
            EXPECT_EQ(receive(frames::build(second)).tag, tag_of_second);
        }
        const uint64_t before = lookups();
        receive(frames::build(udp));
        const uint64_t once = lookups() - before;
        for (int i = 0; i < 5; i++)
            receive(frames::build(udp));
        EXPECT_EQ(lookups() - before, 2 * once);
        ASSERT_TRUE(device->destroy_flow(rule));
    }
}

TEST_F(FlowCacheTest, SoAreTheEntriesOfTables) {
    const Number table = device->create_flow_table({.log_size = 1}).value();
    FlowGroupAttr of_number{.first = 0, .last = 0};
    of_number.mask.outer.tcp_sequence = ~0u;
    FlowEntryAttr marked{.tag = kTag, .tirs = {tir}};
    marked.value.outer.tcp_sequence = 0x1234;
    marked.group = device->create_flow_group(table, of_number).value();
    ASSERT_TRUE(device->set_flow_entry(table, 0, marked));
    const Number rest = device->create_flow_group(table, {.first = 1, .last = 1}).value();
    ASSERT_TRUE(device->set_flow_entry(table, 1, {.group = rest, .tirs = {tir}}));
    ASSERT_TRUE(device->set_flow_table_root(table));
    Spec first, second;
    first.proto = second.proto = frames::kTcp;
    first.sequence = 0x1234;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(receive(frames::build(second)).tag, 0u);
        EXPECT_EQ(receive(frames::build(first)).tag, kTag);
    }
}

TEST_F(FlowCacheTest, CountersCountAllPackets) {
    const Number counter = device->create_flow_counters().value();
    FlowAttr attr;
    attr.tirs = {tir};
    attr.counters = {counter};
    const Number rule = device->create_flow(attr).value();
    const Bytes frame = frames::build(Spec{});
    for (int i = 0; i < 5; i++)
        receive(frame);
    const auto counts = device->query_flow_counter(counter, false);
    EXPECT_EQ(counts->packets, 5u);
    EXPECT_EQ(counts->bytes, 5 * frame.size());
    EXPECT_EQ(device->counters().wire_rx_packets, 5u);
    EXPECT_EQ(device->counters().delivered, 5u);
    ASSERT_TRUE(device->destroy_flow(rule));
}

TEST_F(FlowCacheTest, AllCountersOfARuleCount) {
    for (const size_t number : {2, 3}) { // as many as a flow remembers, and more
        FlowAttr attr;
        attr.tirs = {tir};
        for (size_t i = 0; i < number; i++)
            attr.counters.push_back(device->create_flow_counters().value());
        const Number rule = device->create_flow(attr).value();
        for (int i = 0; i < 5; i++)
            receive(frames::build(Spec{}));
        for (const Number counter : attr.counters)
            EXPECT_EQ(device->query_flow_counter(counter, false)->packets, 5u) << number;
        ASSERT_TRUE(device->destroy_flow(rule));
    }
}

TEST_F(FlowCacheTest, WhatARuleChangesIsChangedEachTime) {
    FlowAttr attr;
    attr.tirs = {tir};
    attr.rewrite.push_vlans = {{0x8100, 5}};
    std::ignore = device->create_flow(attr).value();
    const Bytes changed = frames::build({.tags = {{0x8100, 5}}});
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(receive(frames::build(Spec{})).bytes, changed) << i;
}

TEST_F(FlowCacheTest, EachQueueOfARuleGetsEachPacket) {
    TestCq cq(*device, 6);
    TestRq second(*device, pd, cq.number);
    post_buffers(second, 3);
    FlowAttr attr;
    attr.tirs = {tir, direct_tir(second)};
    std::ignore = device->create_flow(attr).value();
    for (int i = 0; i < 3; i++) {
        receive(frames::build(Spec{}));
        EXPECT_NE(cq.poll(), nullptr) << i;
    }
    EXPECT_EQ(device->counters().delivered, 6u);
}

TEST_F(FlowCacheTest, ASamplerIsAskedEachTime) {
    const auto table = [&](uint8_t level, FlowEntryAttr entry) {
        const Number made = device->create_flow_table({.level = level}).value();
        entry.group = device->create_flow_group(made, {}).value();
        EXPECT_TRUE(device->set_flow_entry(made, 0, entry));
        return made;
    };
    const Number counter = device->create_flow_counters().value();
    SamplerAttr half{.level = 1, .ratio = 2};
    half.copies = table(2, {.drop = true, .counters = {counter}});
    half.all = table(2, {.tirs = {tir}});
    const Number sampler = device->create_sampler(half).value();
    ASSERT_TRUE(device->set_flow_table_root(table(0, {.samplers = {sampler}})));
    constexpr uint64_t kPackets = 200;
    for (uint64_t i = 0; i < kPackets; i++)
        receive(frames::build(Spec{}));
    EXPECT_GT(device->query_flow_counter(counter, false)->packets, kPackets / 4);
}

TEST_F(FlowCacheTest, WithPauseAKnownFlowWaitsForItsQueue) {
    device->set_pause(true);
    const Bytes frame = frames::build(Spec{});
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(receive(frame).bytes, frame);
    wire->incoming.push_back(frame);
    run();
    EXPECT_EQ(wire->incoming.size(), 1u);
    post_buffer(rq);
    run();
    EXPECT_NE(rx_cq.poll(), nullptr);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 0u);
}

class FlowCacheKernelTest : public Testbed {
  protected:
    FlowCacheKernelTest() : Testbed(default_config(), true) {}
};

TEST_F(FlowCacheKernelTest, WhatAQueueGetsACopyOfStillGoesToTheKernel) {
    FlowAttr attr;
    attr.pass_on = true;
    attr.tirs = {direct_tir(rq)};
    std::ignore = device->create_flow(attr).value();
    post_buffers(rq, 3);
    for (size_t i = 1; i <= 3; i++) {
        wire->incoming.push_back(frames::build(Spec{}));
        run();
        EXPECT_EQ(kernel->sent.size(), i);
    }
    EXPECT_EQ(device->counters().delivered, 3u);
}

TEST_F(FlowCacheTest, ASnifferGetsEachPacket) {
    TestCq cq(*device, 6);
    TestRq sniffer(*device, pd, cq.number);
    const Bytes frame = frames::build(Spec{});
    receive(frame);
    steer_all(sniffer, FlowDomain::sniffer);
    post_buffers(sniffer, 3);
    for (int i = 0; i < 3; i++) {
        receive(frame);
        EXPECT_NE(cq.poll(), nullptr) << i;
    }
}

TEST_F(FlowCacheTest, FlowsThatShareAPlaceDoNotMix) {
    Spec spec;
    std::map<uint16_t, Number> rules;
    for (uint16_t port = 0; port < 10000; port++) { // more flows than places
        spec.src_port = port;
        const Bytes frame = frames::build(spec);
        if (port % 1000 == 0) rules[port] = mark(frame);
    }
    for (int round = 0; round < 2; round++)
        for (uint16_t port = 0; port < 10000; port++) {
            spec.src_port = port;
            ASSERT_EQ(receive(frames::build(spec)).tag, port % 1000 == 0 ? kTag : 0) << port;
        }
}

} // namespace
