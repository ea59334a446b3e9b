// SPDX-License-Identifier: BSD-3-Clause
#include "common/net/parse.hpp"
#include "tests/unit/net/frames.hpp"

#include <gtest/gtest.h>
#include <random>

namespace {

using frames::Bytes;
using frames::Spec;

net::Headers parse(const Bytes& frame) {
    return net::parse(frames::view(frame), static_cast<uint32_t>(frame.size()));
}

TEST(Parse, PlainUdpOverIpv4) {
    Spec spec;
    spec.tos = 0x2e;
    spec.ttl = 9;
    const net::Headers headers = parse(build(spec));
    EXPECT_EQ(headers.ether_type, 0x0800);
    EXPECT_EQ(headers.l3, 14);
    EXPECT_EQ(headers.l4, 34);
    EXPECT_EQ(headers.payload, 42);
    EXPECT_EQ(headers.ip_version, 4);
    EXPECT_EQ(headers.ip_proto, frames::kUdp);
    EXPECT_EQ(headers.ipv4_ihl, 5);
    EXPECT_EQ(headers.tos, 0x2e);
    EXPECT_EQ(headers.ttl, 9);
    EXPECT_EQ(headers.ip_bytes, 20u + 8 + 32);
    EXPECT_TRUE(headers.length_ok);
    EXPECT_FALSE(headers.fragment);
    EXPECT_EQ(headers.first_tag, 0);
    EXPECT_EQ(headers.inner, 0);
}

TEST(Parse, TcpOverIpv6WithVlan) {
    Spec spec = frames::ipv6_spec();
    spec.tags = {{0x8100, 0x6064}};
    spec.proto = frames::kTcp;
    spec.tcp_flags = frames::kSyn;
    spec.tos = 0xb8;
    spec.flow_label = 0xabcde;
    const net::Headers headers = parse(build(spec));
    EXPECT_EQ(headers.ether_type, 0x86dd);
    EXPECT_EQ(headers.first_tag, 0x8100);
    EXPECT_EQ(headers.vlan_tci, 0x6064);
    EXPECT_EQ(headers.l3, 18);
    EXPECT_EQ(headers.l4, 58);
    EXPECT_EQ(headers.payload, 78);
    EXPECT_EQ(headers.tcp_flags, frames::kSyn);
    EXPECT_EQ(headers.tos, 0xb8);
    EXPECT_EQ(headers.flow_label, 0xabcdeu);
}

TEST(Parse, QinqKeepsTheFirstTag) {
    Spec spec;
    spec.tags = {{0x88a8, 100}, {0x8100, 200}};
    const net::Headers headers = parse(build(spec));
    EXPECT_EQ(headers.first_tag, 0x88a8);
    EXPECT_EQ(headers.vlan_tci, 100);
    EXPECT_EQ(headers.l3, 22);
    EXPECT_EQ(headers.l4, 42);
}

TEST(Parse, Ipv4OptionsMoveL4) {
    Spec spec;
    spec.ip_options = {0x94, 4, 0, 0, 1, 1, 1, 0};
    const net::Headers headers = parse(build(spec));
    EXPECT_EQ(headers.ipv4_ihl, 7);
    EXPECT_EQ(headers.l4, 42);
}

TEST(Parse, Ipv4Fragments) {
    Spec first;
    first.fragment = 0x2000; // more fragments
    const net::Headers first_headers = parse(build(first));
    EXPECT_TRUE(first_headers.fragment);
    EXPECT_NE(first_headers.l4, 0); // the ports are present

    Spec later;
    later.fragment = 185;
    const net::Headers later_headers = parse(build(later));
    EXPECT_TRUE(later_headers.fragment);
    EXPECT_EQ(later_headers.l4, 0);
    EXPECT_EQ(later_headers.ip_proto, frames::kUdp);

    Spec dont;
    dont.fragment = 0x4000; // do not fragment: not a fragment
    EXPECT_FALSE(parse(build(dont)).fragment);
}

TEST(Parse, Ipv6ExtensionHeaders) {
    Spec spec = frames::ipv6_spec();
    spec.extensions = {
        {0, Bytes(8)}, {43, {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, {60, Bytes(8)}};
    const net::Headers headers = parse(build(spec));
    EXPECT_EQ(headers.ip_proto, frames::kUdp);
    EXPECT_EQ(headers.l4, 14 + 40 + 8 + 16 + 8);
    EXPECT_FALSE(headers.fragment);
}

/// Its length counts 4-byte words, those of other headers 8-byte units.
TEST(Parse, Ipv6Authentication) {
    Spec spec = frames::ipv6_spec();
    spec.extensions = {
        {51, {0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}};
    const net::Headers headers = parse(build(spec));
    EXPECT_EQ(headers.ip_proto, frames::kUdp);
    EXPECT_EQ(headers.l4, 14 + 40 + 24);
}

TEST(Parse, Ipv6Fragments) {
    Spec spec = frames::ipv6_spec();
    spec.extensions = {{44, {0, 0, 0, 1, 0, 0, 0, 9}}}; // offset 0, more fragments
    EXPECT_TRUE(parse(build(spec)).fragment);
    EXPECT_NE(parse(build(spec)).l4, 0);
    spec.extensions = {{44, {0, 0, 0x05, 0xb8, 0, 0, 0, 9}}};
    EXPECT_TRUE(parse(build(spec)).fragment);
    EXPECT_EQ(parse(build(spec)).l4, 0);
    EXPECT_EQ(parse(build(spec)).ip_proto, frames::kUdp);
}

TEST(Parse, VxlanShowsTheInnerFrame) {
    Spec inner = frames::ipv6_spec();
    inner.proto = frames::kTcp;
    const Bytes frame = frames::vxlan(0x123456, build(inner));
    const net::Headers outer = parse(frame);
    ASSERT_EQ(outer.inner, 14 + 20 + 8 + 8);
    EXPECT_EQ(outer.vni, 0x123456u);
    const net::Headers found =
        net::parse_inner(frames::view(frame), static_cast<uint32_t>(frame.size()), outer);
    EXPECT_EQ(found.ip_version, 6);
    EXPECT_EQ(found.l4, outer.inner + 14 + 40);
    EXPECT_TRUE(found.length_ok);
}

TEST(Parse, LyingLengthsAreNoticed) {
    Bytes longer = build(Spec{});
    frames::put16(longer, 16, 2000);
    EXPECT_FALSE(parse(longer).length_ok);
    Bytes shorter = build(Spec{});
    frames::put16(shorter, 16, 19);
    EXPECT_FALSE(parse(shorter).length_ok);
    EXPECT_EQ(parse(shorter).l4, 0);
    Bytes bad_ihl = build(Spec{});
    bad_ihl[14] = 0x44;
    EXPECT_EQ(parse(bad_ihl).ip_version, 0);
    Bytes bad_version = build(Spec{});
    bad_version[14] = 0x65;
    EXPECT_EQ(parse(bad_version).ip_version, 0);
    Spec tcp;
    tcp.proto = frames::kTcp;
    Bytes bad_offset = build(tcp);
    bad_offset[14 + 20 + 12] = 4 << 4;
    EXPECT_EQ(parse(bad_offset).l4, 0);
}

TEST(Parse, PaddingBehindTheIpPacketIsFine) {
    Spec spec;
    spec.payload = Bytes(2);
    const Bytes frame = frames::padded(build(spec));
    const net::Headers headers = parse(frame);
    EXPECT_TRUE(headers.length_ok);
    EXPECT_EQ(headers.ip_bytes, 30u);
}

// The head is copied into a block of exactly its size, so that ASan detects reads beyond it.
TEST(Parse, CutOffAnywhereNeverReadsBeyond) {
    std::vector<Bytes> all;
    Spec v6 = frames::ipv6_spec();
    v6.extensions = {{0, Bytes(8)}, {51, {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}};
    v6.tags = {{0x88a8, 1}, {0x8100, 2}};
    all.push_back(build(v6));
    all.push_back(frames::vxlan(1, build(Spec{.proto = frames::kTcp})));
    for (const Bytes& frame : all)
        for (size_t bytes = 0; bytes <= frame.size(); bytes++) {
            const Bytes head(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(bytes));
            const net::Headers headers =
                net::parse(frames::view(head), static_cast<uint32_t>(frame.size()));
            ASSERT_LE(headers.l4, bytes);
            ASSERT_LE(headers.payload, bytes);
            ASSERT_LE(headers.inner, bytes);
        }
}

TEST(Parse, GarbageNeverReadsBeyond) {
    std::mt19937 random(1);
    for (int round = 0; round < 20000; round++) {
        Bytes frame = round % 2 ? build(Spec{}) : build(frames::ipv6_spec());
        frame.resize(random() % 200);
        for (int flips = 0; flips < 6 && !frame.empty(); flips++)
            frame[random() % frame.size()] = static_cast<uint8_t>(random());
        const net::Headers headers = parse(frame);
        ASSERT_LE(headers.payload, frame.size());
    }
}

} // namespace
