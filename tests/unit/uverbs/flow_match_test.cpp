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
    EXPECT_EQ(match.value.outer.ip_version, 6);
    EXPECT_EQ(match.mask.outer.ip_version, 0xf);
    EXPECT_EQ(match.value.outer.src_ip[15], 1);
    EXPECT_EQ(match.mask.outer.dst_ip[0], 0xfe);
    EXPECT_EQ(match.value.outer.flow_label, 0x12345u);
    EXPECT_EQ(match.mask.outer.flow_label, 0xfffffu);
    EXPECT_EQ(match.value.outer.ip_proto, 58);
    EXPECT_EQ(match.mask.outer.tos, 0xfc);
    spec.mask.hop_limit = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(spec), match), EOPNOTSUPP);
    spec.mask.hop_limit = 0;
    spec.mask.flow_label = ~0u;
    EXPECT_EQ(add_flow_spec(bytes_of(spec), match), EINVAL) << "the label has 20 bits";
}

/// ib_uverbs_flow_spec_hdr without its array of length 0, which is allowed only at the end.
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
    EXPECT_EQ(match.value.outer.dst_ip[12], 10);
    EXPECT_EQ(match.value.outer.dst_ip[15], 2);
    EXPECT_EQ(match.mask.outer.dst_ip[11], 0);
    EXPECT_EQ(match.mask.outer.ip_proto, 0);
}

TEST(FlowSpecs, LongerSpecsWithAnUnknownTail) {
    struct {
        uint32_t type;
        uint16_t size, reserved;
        uint16_t value[4], mask[4]; // two ports and four unknown bytes
    } spec{};
    spec.type = IBV_FLOW_SPEC_TCP;
    spec.size = sizeof spec;
    Match match;
    EXPECT_EQ(add_flow_spec(bytes_of(spec), match), 0);
    spec.mask[3] = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(spec), match), EINVAL);
}

TEST(FlowSpecs, TunnelsAndWhatTheyCarry) {
    Match match;
    auto gre = make_spec<ib_uverbs_flow_spec_gre>(IBV_FLOW_SPEC_GRE);
    gre.val.protocol = __builtin_bswap16(0x6558), gre.mask.protocol = 0xffff;
    gre.val.key = __builtin_bswap32(0x01020304), gre.mask.key = ~0u;
    ASSERT_EQ(add_flow_spec(bytes_of(gre), match), 0);
    EXPECT_EQ(match.value.outer.ip_proto, 47);
    EXPECT_EQ(match.value.tunnel.gre_protocol, 0x6558);
    EXPECT_EQ(match.value.tunnel.gre_key, 0x01020304u);
    gre.mask.c_ks_res0_ver = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(gre), match), EOPNOTSUPP);

    auto inner = make_spec<ib_uverbs_flow_spec_eth>(IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_ETH);
    inner.val.src_mac[5] = inner.mask.src_mac[5] = 1;
    ASSERT_EQ(add_flow_spec(bytes_of(inner), match), 0);
    EXPECT_EQ(match.value.inner.src_mac[5], 1);
    EXPECT_EQ(match.mask.outer.src_mac[5], 0);
    const auto inner_ip =
        make_spec<ib_uverbs_flow_spec_ipv4>(IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_IPV4);
    ASSERT_EQ(add_flow_spec(bytes_of(inner_ip), match), 0);
    EXPECT_EQ(match.value.inner.ip_version, 4) << "its presence is a match";
    auto inner_udp =
        make_spec<ib_uverbs_flow_spec_tcp_udp>(IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_UDP);
    inner_udp.val.dst_port = __builtin_bswap16(53), inner_udp.mask.dst_port = 0xffff;
    ASSERT_EQ(add_flow_spec(bytes_of(inner_udp), match), 0);
    EXPECT_EQ(match.value.inner.ip_proto, 17);
    EXPECT_EQ(match.value.inner.l4, 17);
    EXPECT_EQ(match.value.inner.dst_port, 53);
    EXPECT_EQ(match.value.outer.ip_proto, 47) << "the layers are apart";
}

TEST(FlowSpecs, EspHasItsSpiAndNoSequenceNumber) {
    Match match;
    auto esp = make_spec<ib_uverbs_flow_spec_esp>(IBV_FLOW_SPEC_ESP);
    esp.val.spi = __builtin_bswap32(0x11223344), esp.mask.spi = ~0u;
    ASSERT_EQ(add_flow_spec(bytes_of(esp), match), 0);
    EXPECT_EQ(match.value.tunnel.esp_spi, 0x11223344u);
    esp.mask.seq = 1;
    EXPECT_EQ(add_flow_spec(bytes_of(esp), match), EOPNOTSUPP);
}

TEST(FlowSpecs, TheSpecBeforeMplsSaysWhereItsLabelsAre) {
    auto mpls = make_spec<ib_uverbs_flow_spec_mpls>(IBV_FLOW_SPEC_MPLS);
    mpls.val.label = __builtin_bswap32(0x12345140), mpls.mask.label = ~0u;
    const auto udp = make_spec<ib_uverbs_flow_spec_tcp_udp>(IBV_FLOW_SPEC_UDP);
    const auto gre = make_spec<ib_uverbs_flow_spec_gre>(IBV_FLOW_SPEC_GRE);
    Match plain, over_udp, over_gre, inner;
    ASSERT_EQ(add_flow_spec(bytes_of(mpls), plain), 0);
    EXPECT_EQ(plain.value.tunnel.mpls, 0x12345140u);
    ASSERT_EQ(add_flow_spec(bytes_of(udp), over_udp), 0);
    ASSERT_EQ(add_flow_spec(bytes_of(mpls), over_udp), 0);
    EXPECT_EQ(over_udp.value.tunnel.mpls_over_udp, 0x12345140u);
    EXPECT_EQ(over_udp.value.tunnel.mpls, 0u);
    ASSERT_EQ(add_flow_spec(bytes_of(gre), over_gre), 0);
    ASSERT_EQ(add_flow_spec(bytes_of(mpls), over_gre), 0);
    EXPECT_EQ(over_gre.value.tunnel.mpls_over_gre, 0x12345140u);
    mpls.type |= IBV_FLOW_SPEC_INNER;
    ASSERT_EQ(add_flow_spec(bytes_of(mpls), inner), 0);
    EXPECT_EQ(inner.value.tunnel.inner_mpls, 0x12345140u);
}

TEST(FlowSpecs, ContradictionsBetweenSpecs) {
    Match match;
    ASSERT_EQ(
        add_flow_spec(bytes_of(make_spec<ib_uverbs_flow_spec_tcp_udp>(IBV_FLOW_SPEC_TCP)), match),
        0);
    EXPECT_EQ(match.value.outer.ip_proto, 6);
    EXPECT_EQ(match.mask.outer.l4, 0) << "no port is asked for: fragments match too";
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
