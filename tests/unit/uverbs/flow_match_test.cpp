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
    spec.val.flow_label = __builtin_bswap32(0x12345),
    spec.mask.flow_label = __builtin_bswap32(0xfffff);
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
    spec.mask.hop_limit = 0;
    spec.mask.flow_label = ~0u;
    EXPECT_EQ(add_flow_spec(bytes_of(spec), match), EINVAL) << "the label has 20 bits";
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
    EXPECT_EQ(add_flow_spec(bytes_of(spec), match), EINVAL);
}

TEST(FlowSpecs, HeadersThatTheDeviceDoesNotLookInto) {
    Match match;
    auto gre = make_spec<ib_uverbs_flow_spec_gre>(IBV_FLOW_SPEC_GRE);
    EXPECT_EQ(add_flow_spec(bytes_of(gre), match), 0);
    EXPECT_EQ(match.value.ip_proto, 47);
    gre.mask.protocol = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(gre), match), EINVAL);
    gre.mask.c_ks_res0_ver = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(gre), match), EOPNOTSUPP);

    const core::FlowKey before = match.mask;
    auto inner = make_spec<ib_uverbs_flow_spec_eth>(IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_ETH);
    EXPECT_EQ(add_flow_spec(bytes_of(inner), match), 0);
    EXPECT_EQ(std::memcmp(&before, &match.mask, sizeof before), 0) << "says nothing";
    inner.mask.src_mac[5] = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(inner), match), EINVAL);
    const auto inner_ip =
        make_spec<ib_uverbs_flow_spec_ipv4>(IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_IPV4);
    EXPECT_EQ(add_flow_spec(bytes_of(inner_ip), match), EINVAL) << "its presence is a match";

    auto esp = make_spec<ib_uverbs_flow_spec_esp>(IBV_FLOW_SPEC_ESP);
    EXPECT_EQ(add_flow_spec(bytes_of(esp), match), 0);
    esp.mask.spi = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(esp), match), EINVAL);
    esp.mask.seq = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(esp), match), EOPNOTSUPP);
    auto mpls = make_spec<ib_uverbs_flow_spec_mpls>(IBV_FLOW_SPEC_MPLS);
    EXPECT_EQ(add_flow_spec(bytes_of(mpls), match), 0);
    mpls.mask.label = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(mpls), match), EOPNOTSUPP);
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
