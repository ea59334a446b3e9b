// SPDX-License-Identifier: BSD-3-Clause
// Rules: each field matches, and misses if one bit differs; priorities; thousands of rules.
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/packet.hpp"
#include "app/softhca/core/steering.hpp"
#include "tests/unit/net/frames.hpp"
#include "tests/unit/softhca/refusal.hpp"

#include <chrono>
#include <gtest/gtest.h>
#include <random>

namespace {

using namespace softhca::core;
using frames::Bytes;
using frames::Spec;

FlowKey key_of(const Bytes& frame) {
    FlowKey key;
    const auto bytes = static_cast<uint32_t>(frame.size());
    extract(net::parse(frames::view(frame), bytes), frames::view(frame), bytes, key);
    return key;
}

/// A field of FlowKey as bytes.
struct Field {
    const char* name;
    size_t at, bytes;
};
#define FIELD(name)                                                                                \
    Field { #name, offsetof(FlowKey, name), sizeof(FlowKey::name) }
constexpr Field kFields[] = {
    FIELD(outer.dst_mac),    FIELD(outer.src_mac),     FIELD(outer.ether_type),
    FIELD(outer.vlan_tci),   FIELD(outer.cvlan),       FIELD(outer.svlan),
    FIELD(outer.ip_version), FIELD(outer.ip_proto),    FIELD(outer.tos),
    FIELD(outer.ttl),        FIELD(outer.ip_fragment), FIELD(outer.tcp_flags),
    FIELD(outer.l4),         FIELD(outer.ipv4_ihl),    FIELD(outer.src_port),
    FIELD(outer.dst_port),   FIELD(outer.flow_label),  FIELD(outer.src_ip),
    FIELD(outer.dst_ip),     FIELD(inner.dst_mac),     FIELD(inner.dst_ip),
    FIELD(tunnel.vxlan_vni), FIELD(tunnel.esp_spi),    FIELD(tunnel.icmpv6_data),
    FIELD(meta.reg_a),       FIELD(meta.reg_c),        FIELD(outer.tcp_sequence),
    FIELD(outer.tcp_ack),
};

uint8_t* bytes_of(FlowKey& key) { return reinterpret_cast<uint8_t*>(&key); }

std::vector<Bytes> sample_frames() {
    Spec v4;
    v4.tags = {{0x8100, 0x5123}};
    v4.proto = frames::kTcp;
    v4.tos = 0x28;
    v4.tcp_flags = frames::kSyn;
    Spec v6 = frames::ipv6_spec();
    v6.tags = {{0x88a8, 0x0123}};
    v6.flow_label = 0x12345;
    v6.tos = 0x11;
    return {frames::build(v4), frames::build(v6), frames::build({.ip = 0}),
            frames::vxlan(0xabcdef, frames::build(v4))};
}

TEST(Steering, EachFieldMatchesAndMissesByOneBit) {
    Tir tir;
    for (const Bytes& frame : sample_frames()) {
        const FlowKey key = key_of(frame);
        for (const Field& field : kFields) {
            Steering steering;
            Flow flow;
            flow.tirs = {&tir};
            FlowKey packet = key;
            std::memset(bytes_of(flow.mask) + field.at, 0xff, field.bytes);
            std::memcpy(bytes_of(flow.value) + field.at, bytes_of(packet) + field.at, field.bytes);
            ASSERT_TRUE(steering.insert(flow));
            ASSERT_NE(steering.match(FlowDomain::bypass, packet), nullptr) << field.name;
            for (size_t bit = 0; bit < field.bytes * 8; bit++) {
                FlowKey other = key;
                bytes_of(other)[field.at + bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
                ASSERT_EQ(steering.match(FlowDomain::bypass, other), nullptr)
                    << field.name << " bit " << bit;
            }
        }
    }
}

TEST(Steering, BitsOutsideTheMaskDoNotMatter) {
    Tir tir;
    const FlowKey key = key_of(sample_frames()[0]);
    for (const Field& field : kFields)
        for (size_t bit = 0; bit < field.bytes * 8; bit++) {
            Steering steering;
            Flow flow;
            flow.tirs = {&tir};
            bytes_of(flow.mask)[field.at + bit / 8] = static_cast<uint8_t>(1 << bit % 8);
            FlowKey packet = key;
            bytes_of(flow.value)[field.at + bit / 8] =
                bytes_of(packet)[field.at + bit / 8] & static_cast<uint8_t>(1 << bit % 8);
            ASSERT_TRUE(steering.insert(flow));
            for (size_t i = 0; i < field.bytes; i++)
                bytes_of(packet)[field.at + i] ^=
                    static_cast<uint8_t>(~(i == bit / 8 ? 1 << bit % 8 : 0));
            ASSERT_NE(steering.match(FlowDomain::bypass, packet), nullptr)
                << field.name << " bit " << bit;
            bytes_of(packet)[field.at + bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
            ASSERT_EQ(steering.match(FlowDomain::bypass, packet), nullptr);
        }
}

TEST(Steering, KeyOfEachKindOfFrame) {
    const FlowKey tcp = key_of(sample_frames()[0]);
    EXPECT_EQ(tcp.outer.dst_mac, frames::kOurMac);
    EXPECT_EQ(tcp.outer.src_mac, frames::kPeerMac);
    EXPECT_EQ(tcp.outer.ether_type, 0x0800);
    EXPECT_EQ(tcp.outer.vlan_tci, 0x5123);
    EXPECT_EQ(tcp.outer.cvlan, 1);
    EXPECT_EQ(tcp.outer.svlan, 0);
    EXPECT_EQ(tcp.outer.ip_version, 4);
    EXPECT_EQ(tcp.outer.ip_proto, frames::kTcp);
    EXPECT_EQ(tcp.outer.l4, frames::kTcp);
    EXPECT_EQ(tcp.outer.tcp_flags, frames::kSyn);
    EXPECT_EQ(tcp.outer.tcp_sequence, 1u);
    EXPECT_EQ(tcp.outer.tcp_ack, 0u);
    EXPECT_EQ(tcp.outer.tos, 0x28);
    EXPECT_EQ(tcp.outer.ttl, 64);
    EXPECT_EQ(tcp.outer.ipv4_ihl, 5);
    EXPECT_EQ(tcp.outer.src_port, 1000);
    EXPECT_EQ(tcp.outer.dst_port, 2000);
    EXPECT_EQ(tcp.outer.src_ip,
              (std::array<uint8_t, 16>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1}));
    const FlowKey udp6 = key_of(sample_frames()[1]);
    EXPECT_EQ(udp6.outer.svlan, 1);
    EXPECT_EQ(udp6.outer.cvlan, 0);
    EXPECT_EQ(udp6.outer.ip_version, 6);
    EXPECT_EQ(udp6.outer.flow_label, 0x12345u);
    EXPECT_EQ(udp6.outer.dst_ip[15], 2);
    EXPECT_EQ(udp6.outer.l4, frames::kUdp);
    const FlowKey other = key_of(sample_frames()[2]);
    EXPECT_EQ(other.outer.ether_type, 0x88b5);
    EXPECT_EQ(other.outer.ip_version, 0);
    EXPECT_EQ(other.outer.l4, 0);
    EXPECT_EQ(key_of(sample_frames()[3]).tunnel.vxlan_vni, 0xabcdefu);
    Spec later;
    later.fragment = 100;
    const FlowKey fragment = key_of(frames::build(later));
    EXPECT_EQ(fragment.outer.ip_fragment, 1);
    EXPECT_EQ(fragment.outer.l4, 0);
    EXPECT_EQ(fragment.outer.ip_proto, frames::kUdp);
    EXPECT_EQ(fragment.outer.src_port, 0);
}

TEST(Steering, PriorityThenAge) {
    Tir tir;
    Steering steering;
    const FlowKey packet = key_of(frames::build({}));
    Flow everything, by_mac, by_type;
    for (Flow* const flow : {&everything, &by_mac, &by_type})
        flow->tirs = {&tir};
    everything.priority = 5;
    everything.tag = 1;
    by_mac.priority = 3;
    by_mac.tag = 2;
    by_mac.mask.outer.dst_mac.fill(0xff);
    by_mac.value.outer.dst_mac = frames::kOurMac;
    by_type.priority = 3;
    by_type.tag = 3;
    by_type.mask.outer.ether_type = 0xffff;
    by_type.value.outer.ether_type = 0x0800;

    ASSERT_TRUE(steering.insert(everything));
    EXPECT_EQ(steering.match(FlowDomain::bypass, packet)->tag, 1u);
    ASSERT_TRUE(steering.insert(by_type));
    ASSERT_TRUE(steering.insert(by_mac));
    EXPECT_EQ(steering.match(FlowDomain::bypass, packet)->tag, 3u) << "the older mask";
    steering.erase(by_type);
    EXPECT_EQ(steering.match(FlowDomain::bypass, packet)->tag, 2u);
    FlowKey to_others = packet;
    to_others.outer.dst_mac[5] ^= 1;
    EXPECT_EQ(steering.match(FlowDomain::bypass, to_others)->tag, 1u);
    EXPECT_EQ(steering.match(FlowDomain::leftovers, packet), nullptr) << "domains are separate";
    steering.erase(by_mac);
    steering.erase(everything);
    EXPECT_EQ(steering.match(FlowDomain::bypass, packet), nullptr);
}

TEST(Steering, ContradictionsAreRefused) {
    Tir tir, other;
    Steering steering;
    Flow tagged, untagged, other_tag, drop;
    tagged.tirs = {&tir};
    tagged.tag = 7;
    untagged.tirs = {&other};
    other_tag.tirs = {&other};
    other_tag.tag = 8;
    drop.drop = true;
    ASSERT_TRUE(steering.insert(tagged));
    EXPECT_EQ(testbed::refusal(steering.insert(other_tag)), Status::exists);
    EXPECT_EQ(testbed::refusal(steering.insert(drop)), Status::exists);
    ASSERT_TRUE(steering.insert(untagged));
    EXPECT_EQ(steering.match(FlowDomain::bypass, {})->tirs.size(), 2u);
    Flow again = tagged; // the same destination twice is one copy
    ASSERT_TRUE(steering.insert(again));
    EXPECT_EQ(steering.match(FlowDomain::bypass, {})->tirs.size(), 2u);
    steering.erase(tagged);
    EXPECT_EQ(steering.match(FlowDomain::bypass, {})->tirs.size(), 2u);
    EXPECT_EQ(steering.match(FlowDomain::bypass, {})->tag, 7u);
    steering.erase(again);
    EXPECT_EQ(steering.match(FlowDomain::bypass, {})->tirs.size(), 1u);
}

/// Rules by destination port and address: found, and no longer found once half of them are removed.
TEST(Steering, ThousandsOfRules) {
    constexpr uint32_t kRules = 20000;
    Tir tir;
    Steering steering;
    std::vector<Flow> flows(kRules);
    for (uint32_t i = 0; i < kRules; i++) {
        flows[i].mask.outer.dst_port = 0xffff;
        flows[i].mask.outer.dst_ip.fill(0xff);
        flows[i].value.outer.dst_port = static_cast<uint16_t>(i % 200);
        flows[i].value.outer.dst_ip[15] = static_cast<uint8_t>(i / 200);
        flows[i].tirs = {&tir};
        flows[i].tag = i;
        ASSERT_TRUE(steering.insert(flows[i]));
    }
    const auto lookup = [&](uint32_t i) {
        FlowKey packet = flows[i].value;
        packet.outer.src_port = static_cast<uint16_t>(i * 3);
        return steering.match(FlowDomain::bypass, packet);
    };
    for (uint32_t i = 0; i < kRules; i++)
        ASSERT_EQ(lookup(i)->tag, i);
    std::mt19937 random(7);
    std::vector<bool> gone(kRules);
    for (uint32_t i = 0; i < kRules; i++) {
        if (random() % 2 == 0) continue;
        steering.erase(flows[i]);
        gone[i] = true;
    }
    for (uint32_t i = 0; i < kRules; i++) {
        const Rule* const rule = lookup(i);
        ASSERT_EQ(rule == nullptr, gone[i]);
        if (rule) {
            ASSERT_EQ(rule->tag, i);
        }
    }
}

/// Not linear: ten thousand rules cost at most a small multiple of ten (caches, not comparisons).
TEST(Steering, LookupTimeDoesNotGrowWithTheRules) {
    Tir tir;
    const auto time_of = [&](uint32_t rules) {
        Steering steering;
        std::vector<Flow> flows(rules);
        for (uint32_t i = 0; i < rules; i++) {
            flows[i].mask.outer.dst_ip.fill(0xff);
            net::store_be(flows[i].value.outer.dst_ip.data() + 12, i);
            flows[i].tirs = {&tir};
            EXPECT_TRUE(steering.insert(flows[i]));
        }
        auto best = std::chrono::nanoseconds::max();
        for (int round = 0; round < 5; round++) {
            const auto begin = std::chrono::steady_clock::now();
            size_t found = 0;
            for (uint32_t i = 0; i < 20000; i++)
                found += steering.match(FlowDomain::bypass, flows[i % rules].value) != nullptr;
            best =
                std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begin);
            EXPECT_EQ(found, 20000u);
        }
        return static_cast<double>(best.count());
    };
    EXPECT_LT(time_of(10000) / time_of(10), 50.0);
}

} // namespace
