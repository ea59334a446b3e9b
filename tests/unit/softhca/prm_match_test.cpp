// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/match.hpp"

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
    {"source MAC", 5, {0x0f}, [](FlowKey& k) { k.src_mac[5] = 0x0f; }},
    {"EtherType", 6, {0x08, 0x06}, [](FlowKey& k) { k.ether_type = 0x0806; }},
    {"destination MAC", 8, {0x01}, [](FlowKey& k) { k.dst_mac[0] = 1; }},
    {"VLAN", 14, {0x60, 0x64}, [](FlowKey& k) { k.vlan_tci = 0x6064; }},
    {"protocol", 16, {0x11}, [](FlowKey& k) { k.ip_proto = 17; }},
    {"DSCP and ECN", 17, {0xb9}, [](FlowKey& k) { k.tos = 0xb9; }},
    {"customer VLAN", 18, {0x80}, [](FlowKey& k) { k.cvlan = 1; }},
    {"service VLAN", 18, {0x40}, [](FlowKey& k) { k.svlan = 1; }},
    {"fragment", 18, {0x20}, [](FlowKey& k) { k.ip_fragment = 1; }},
    {"IP version", 18, {0x0c}, [](FlowKey& k) { k.ip_version = 6; }},
    {"header length", 26, {0x50}, [](FlowKey& k) { k.ipv4_ihl = 5; }},
    {"TTL", 27, {0x40}, [](FlowKey& k) { k.ttl = 64; }},
    {"source address", 44, {10, 0, 0, 1}, [](FlowKey& k) { k.src_ip[12] = 10, k.src_ip[15] = 1; }},
    {"destination address", 48, {0xfd}, [](FlowKey& k) { k.dst_ip[0] = 0xfd; }},
    {"VNI", 64 + 20, {1, 2, 3}, [](FlowKey& k) { k.vxlan_vni = 0x010203; }},
    {"flow label", 64 + 29, {0x0a, 0xbc, 0xde}, [](FlowKey& k) { k.flow_label = 0xabcde; }},
};

std::vector<std::byte> prm_with(size_t at, const std::vector<uint8_t>& bits) {
    std::vector<std::byte> prm(128);
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
        EXPECT_EQ(mask->mask.src_port, 0xffff);
        EXPECT_EQ(mask->mask.l4, 0xff);
        const FlowKey key = read_match_value(value, *mask);
        EXPECT_EQ(key.l4, l4);
        EXPECT_EQ(key.src_port, source);
        EXPECT_EQ(key.dst_port, source + 1);
    }
}

TEST(PrmMatch, EveryOtherBitIsRefused) {
    for (size_t bit = 0; bit < 256 * 8; bit++) {
        std::vector<std::byte> prm(256);
        prm[bit / 8] = std::byte(0x80 >> bit % 8);
        const size_t byte = bit / 8;
        const bool tcp_bit8 = byte == 18 && bit % 8 == 7;
        const bool outer =
            byte < 64 && byte != 24 && byte != 25 && !tcp_bit8 && !(byte == 26 && bit % 8 >= 4);
        const bool vni = byte >= 84 && byte < 87;
        const bool label = (byte == 93 && bit % 8 >= 4) || byte == 94 || byte == 95;
        EXPECT_EQ(read_match_mask(prm).has_value(), outer || vni || label)
            << "byte " << byte << " bit " << bit % 8;
    }
}

} // namespace
} // namespace softhca::prm
