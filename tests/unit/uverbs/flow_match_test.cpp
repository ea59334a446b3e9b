// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/flow_match.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

namespace softhca::uverbs {
namespace {

using core::FlowKey;

bool equal(const FlowKey& a, const FlowKey& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// ---------------------------------------------------------------- PRM match parameters

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

TEST(FlowPrm, EachFieldHasItsPlace) {
    for (const PrmField& field : kPrmFields) {
        FlowKey expected;
        field.set(expected);
        const auto prm = prm_with(field.byte, field.bits);
        PrmMask mask;
        EXPECT_EQ(read_match_mask(prm, mask), 0) << field.name;
        EXPECT_TRUE(equal(mask.mask, expected)) << field.name;
        EXPECT_TRUE(equal(read_match_value(prm, PrmMask{}), expected)) << field.name;
    }
}

TEST(FlowPrm, PortsBelongToTheProtocolThatIsMasked) {
    std::vector<std::byte> value(64);
    value[21] = std::byte{11}, value[23] = std::byte{12}; // TCP source, destination
    value[29] = std::byte{21}, value[31] = std::byte{22}; // UDP
    for (const auto& [at, l4, source] : {std::tuple{20, 6, 11}, {28, 17, 21}}) {
        PrmMask mask;
        ASSERT_EQ(read_match_mask(prm_with(size_t(at), {0xff, 0xff, 0xff, 0xff}), mask), 0);
        EXPECT_EQ(mask.mask.src_port, 0xffff);
        EXPECT_EQ(mask.mask.l4, 0xff);
        const FlowKey key = read_match_value(value, mask);
        EXPECT_EQ(key.l4, l4);
        EXPECT_EQ(key.src_port, source);
        EXPECT_EQ(key.dst_port, source + 1);
    }
}

TEST(FlowPrm, EveryOtherBitIsRefused) {
    for (size_t bit = 0; bit < 256 * 8; bit++) {
        std::vector<std::byte> prm(256);
        prm[bit / 8] = std::byte(0x80 >> bit % 8);
        const size_t byte = bit / 8;
        const bool tcp_bit8 = byte == 18 && bit % 8 == 7;
        const bool outer =
            byte < 64 && byte != 24 && byte != 25 && !tcp_bit8 && !(byte == 26 && bit % 8 >= 4);
        const bool vni = byte >= 84 && byte < 87;
        const bool label = (byte == 93 && bit % 8 >= 4) || byte == 94 || byte == 95;
        PrmMask mask;
        EXPECT_EQ(read_match_mask(prm, mask), outer || vni || label ? 0 : EOPNOTSUPP)
            << "byte " << byte << " bit " << bit % 8;
    }
}

// ---------------------------------------------------------------- ibv_flow_spec

template <class Spec> std::span<const std::byte> bytes_of(const Spec& spec) {
    return std::as_bytes(std::span(&spec, 1));
}

template <class Spec> Spec make_spec(uint32_t type) {
    Spec spec{};
    spec.type = type;
    spec.size = sizeof spec;
    return spec;
}

TEST(FlowSpecs, Ipv6HasEveryFieldThatMlx5Matches) {
    auto spec = make_spec<ib_uverbs_flow_spec_ipv6>(IBV_FLOW_SPEC_IPV6);
    spec.val.src_ip[15] = 1, spec.mask.src_ip[15] = 0xff;
    spec.val.dst_ip[0] = 0xfd, spec.mask.dst_ip[0] = 0xfe;
    spec.val.flow_label = __builtin_bswap32(0x12345), spec.mask.flow_label = ~0u;
    spec.val.next_hdr = 58, spec.mask.next_hdr = 0xff;
    spec.val.traffic_class = 4, spec.mask.traffic_class = 0xfc;
    Match match;
    ASSERT_EQ(add_flow_spec(bytes_of(spec), match), 0);
    EXPECT_EQ(match.value.ip_version, 6);
    EXPECT_EQ(match.mask.ip_version, 0xff);
    EXPECT_EQ(match.value.src_ip[15], 1);
    EXPECT_EQ(match.mask.dst_ip[0], 0xfe);
    EXPECT_EQ(match.value.flow_label, 0x12345u);
    EXPECT_EQ(match.mask.flow_label, 0xfffffu);
    EXPECT_EQ(match.value.ip_proto, 58);
    EXPECT_EQ(match.mask.tos, 0xfc);
    spec.mask.hop_limit = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(spec), match), EOPNOTSUPP);
}

/// ib_uverbs_flow_spec_hdr without its array of length 0, which only may stand last.
struct SpecHead {
    uint32_t type;
    uint16_t size, reserved;
};
static_assert(sizeof(SpecHead) == sizeof(ib_uverbs_flow_spec_hdr));

TEST(FlowSpecs, ShorterSpecsOfOlderPrograms) {
    struct {
        uint32_t type;
        uint16_t size, reserved;
        uint32_t value[2], mask[2]; // source and destination only
    } spec{};
    spec.type = IBV_FLOW_SPEC_IPV4;
    spec.size = sizeof spec;
    spec.value[1] = __builtin_bswap32(0x0a000002);
    spec.mask[1] = ~0u;
    Match match;
    ASSERT_EQ(add_flow_spec(bytes_of(spec), match), 0);
    EXPECT_EQ(match.value.dst_ip[12], 10);
    EXPECT_EQ(match.value.dst_ip[15], 2);
    EXPECT_EQ(match.mask.dst_ip[11], 0);
    EXPECT_EQ(match.mask.ip_proto, 0);
}

TEST(FlowSpecs, LongerSpecsWithAnUnknownTail) {
    struct {
        uint32_t type;
        uint16_t size, reserved;
        uint16_t value[4], mask[4]; // two ports and four bytes that nobody knows
    } spec{};
    spec.type = IBV_FLOW_SPEC_TCP;
    spec.size = sizeof spec;
    Match match;
    EXPECT_EQ(add_flow_spec(bytes_of(spec), match), 0);
    spec.mask[3] = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(spec), match), EOPNOTSUPP);
}

TEST(FlowSpecs, ContradictionsBetweenSpecs) {
    Match match;
    ASSERT_EQ(
        add_flow_spec(bytes_of(make_spec<ib_uverbs_flow_spec_tcp_udp>(IBV_FLOW_SPEC_TCP)), match),
        0);
    EXPECT_EQ(match.value.ip_proto, 6);
    EXPECT_EQ(match.mask.l4, 0) << "no port is asked for: fragments match too";
    EXPECT_EQ(
        add_flow_spec(bytes_of(make_spec<ib_uverbs_flow_spec_tcp_udp>(IBV_FLOW_SPEC_UDP)), match),
        EINVAL);
    const auto ipv4 = make_spec<ib_uverbs_flow_spec_ipv4>(IBV_FLOW_SPEC_IPV4);
    const auto ipv6 = make_spec<ib_uverbs_flow_spec_ipv6>(IBV_FLOW_SPEC_IPV6);
    EXPECT_EQ(add_flow_spec(bytes_of(ipv4), match), 0);
    EXPECT_EQ(add_flow_spec(bytes_of(ipv6), match), EINVAL);
    auto arp = make_spec<ib_uverbs_flow_spec_eth>(IBV_FLOW_SPEC_ETH);
    arp.val.ether_type = __builtin_bswap16(0x0806);
    arp.mask.ether_type = 0xffff;
    EXPECT_EQ(add_flow_spec(bytes_of(arp), match), EINVAL) << "in whatever order they come";
    EXPECT_EQ(add_flow_spec(bytes_of(make_spec<ib_uverbs_flow_spec_eth>(0x77)), match), EINVAL);
}

} // namespace
} // namespace softhca::uverbs
