// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/match.hpp"

#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <tuple>
#include <vector>

namespace softhca::prm {
namespace {

using core::FlowKey;

bool equal(const FlowKey& a, const FlowKey& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

struct PrmField {
    const char* name;
    size_t byte;
    std::vector<uint8_t> bits;
    void (*set)(FlowKey&); ///< the same in a flow key
};

const PrmField kPrmFields[] = {
    {"source MAC", 5, {0x0f}, [](FlowKey& k) { k.outer.src_mac[5] = 0x0f; }},
    {"EtherType", 6, {0x08, 0x06}, [](FlowKey& k) { k.outer.ether_type = 0x0806; }},
    {"destination MAC", 8, {0x01}, [](FlowKey& k) { k.outer.dst_mac[0] = 1; }},
    {"VLAN", 14, {0x60, 0x64}, [](FlowKey& k) { k.outer.vlan_tci = 0x6064; }},
    {"protocol", 16, {0x11}, [](FlowKey& k) { k.outer.ip_proto = 17; }},
    {"DSCP and ECN", 17, {0xb9}, [](FlowKey& k) { k.outer.tos = 0xb9; }},
    {"customer VLAN", 18, {0x80}, [](FlowKey& k) { k.outer.cvlan = 1; }},
    {"service VLAN", 18, {0x40}, [](FlowKey& k) { k.outer.svlan = 1; }},
    {"fragment", 18, {0x20}, [](FlowKey& k) { k.outer.ip_fragment = 1; }},
    {"IP version", 18, {0x0c}, [](FlowKey& k) { k.outer.ip_version = 6; }},
    {"header length", 26, {0x50}, [](FlowKey& k) { k.outer.ipv4_ihl = 5; }},
    {"integrity", 26, {0x05}, [](FlowKey& k) { k.outer.integrity = 5; }},
    {"TTL", 27, {0x40}, [](FlowKey& k) { k.outer.ttl = 64; }},
    {"source address",
     44,
     {10, 0, 0, 1},
     [](FlowKey& k) { k.outer.src_ip[12] = 10, k.outer.src_ip[15] = 1; }},
    {"destination address", 48, {0xfd}, [](FlowKey& k) { k.outer.dst_ip[0] = 0xfd; }},
    {"VNI", 64 + 20, {1, 2, 3}, [](FlowKey& k) { k.tunnel.vxlan_vni = 0x010203; }},
    {"flow label", 64 + 29, {0x0a, 0xbc, 0xde}, [](FlowKey& k) { k.outer.flow_label = 0xabcde; }},
    {"inner MAC", 128 + 8, {0x01}, [](FlowKey& k) { k.inner.dst_mac[0] = 1; }},
    {"inner label", 64 + 33, {0x0a, 0xbc, 0xde}, [](FlowKey& k) { k.inner.flow_label = 0xabcde; }},
    {"register C1", 192 + 40, {1, 2, 3, 4}, [](FlowKey& k) { k.meta.reg_c[1] = 0x01020304; }},
    {"SQ number", 64 + 1, {1, 2, 3}, [](FlowKey& k) { k.meta.source_sqn = 0x010203; }},
    {"register A", 192 + 48, {1, 2, 3, 4}, [](FlowKey& k) { k.meta.reg_a = 0x01020304; }},
};

std::vector<std::byte> prm_with(size_t at, const std::vector<uint8_t>& bits) {
    std::vector<std::byte> prm(256);
    std::memcpy(prm.data() + at, bits.data(), bits.size());
    return prm;
}

TEST(PrmMatch, EachFieldHasItsPlace) {
    for (const PrmField& field : kPrmFields) {
        FlowKey expected;
        field.set(expected);
        const auto prm = prm_with(field.byte, field.bits);
        const auto mask = read_match_mask(prm);
        ASSERT_TRUE(mask) << field.name;
        EXPECT_TRUE(equal(mask->mask, expected)) << field.name;
        EXPECT_TRUE(equal(read_match_value(prm, MatchMask{}), expected)) << field.name;
    }
}

TEST(PrmMatch, PortsBelongToTheProtocolThatIsMasked) {
    std::vector<std::byte> value(64);
    value[21] = std::byte{11}, value[23] = std::byte{12}; // TCP source, destination
    value[29] = std::byte{21}, value[31] = std::byte{22}; // UDP
    for (const auto& [at, l4, source] : {std::tuple{20, 6, 11}, {28, 17, 21}}) {
        const auto mask = read_match_mask(prm_with(size_t(at), {0xff, 0xff, 0xff, 0xff}));
        ASSERT_TRUE(mask);
        EXPECT_EQ(mask->mask.outer.src_port, 0xffff);
        EXPECT_EQ(mask->mask.outer.l4, 0xff);
        const FlowKey key = read_match_value(value, *mask);
        EXPECT_EQ(key.outer.l4, l4);
        EXPECT_EQ(key.outer.src_port, source);
        EXPECT_EQ(key.outer.dst_port, source + 1);
    }
}

TEST(PrmMatch, APacketIsTcpOrUdp) {
    for (const size_t layer : {size_t{0}, size_t{128}}) {
        auto both = prm_with(layer + 22, {0xff, 0xff}); // TCP destination
        both.resize(512);
        EXPECT_TRUE(read_match_mask(both));
        both[layer + 30] = std::byte{0xff}; // UDP destination
        EXPECT_FALSE(read_match_mask(both));
    }
}

/// A number of zero is not that of a packet without TCP.
TEST(PrmMatch, NumbersAskForTcpInTheirLayer) {
    constexpr size_t kMisc3 = 256;
    struct Case {
        size_t at;
        uint8_t outer, inner;
    };
    for (const Case& one :
         {Case{kMisc3, 0, 6}, {kMisc3 + 4, 6, 0}, {kMisc3 + 8, 0, 6}, {kMisc3 + 12, 6, 0}}) {
        std::vector<std::byte> prm(512);
        prm[one.at] = std::byte{0xff};
        const auto mask = read_match_mask(prm);
        ASSERT_TRUE(mask);
        const FlowKey key = read_match_value(std::vector<std::byte>(512), *mask);
        EXPECT_EQ(key.outer.l4, one.outer) << one.at;
        EXPECT_EQ(key.inner.l4, one.inner) << one.at;
    }
}

/// How many bits of each section of 64 bytes the device knows.
TEST(PrmMatch, EveryOtherBitIsRefused) {
    std::array<size_t, 10> known{};
    for (size_t bit = 0; bit < 640 * 8; bit++) {
        std::vector<std::byte> prm(640);
        prm[bit / 8] = std::byte(0x80 >> bit % 8);
        known[bit / 512] += read_match_mask(prm).has_value();
    }
    constexpr size_t kLayer = 512 - 16;          // reserved
    constexpr size_t kMisc = 3 + 24 + 32 + 4     // GRE options, SQ number, second tags
                             + 16 + 32 + 24      // GRE protocol and key, VXLAN
                             + 24 + 1 + 6 + 16   // Geneve
                             + 20 + 20 + 32;     // flow labels, ESP
    constexpr size_t kMisc2 = 4 * 32 + 9 * 32;   // MPLS, registers
    constexpr size_t kMisc3 = 4 * 32             // numbers of TCP
                              + 24 + 16 + 2 * 48 // VXLAN-GPE, ICMP
                              + 32 + 16;         // GTP-U
    EXPECT_EQ(known, (std::array<size_t, 10>{kLayer, kMisc, kLayer, kMisc2, kMisc3}));
}

} // namespace
} // namespace softhca::prm
