// SPDX-License-Identifier: BSD-3-Clause
// Receive through verbs calls: packet types and checksums, for which the driver parses the headers.
#include "tests/unit/rings/verbs_rx.hpp"
#include "tests/unit/rings/verdict_frames.hpp"

namespace rings_test {
namespace {

/// The shortcut for common headers agrees with the parser, whatever the bytes.
TEST_F(VerbsRx, PacketTypesAreThoseOfTheParser) {
    start();
    for (uint32_t seed = 0; seed < 4000; ++seed) {
        Bytes frame = Frame{.ipv6 = (seed & 1) != 0, .tcp = (seed & 2) != 0}.build(seed % 30);
        const size_t spoilt[] = {12, 13, 14, 20, 21, 23};
        if (seed % 5 != 0) frame[spoilt[seed % 6]] = static_cast<uint8_t>(seed / 7);
        if (seed % 11 == 0) frame.resize(14 + seed % 50);
        deliver(frame);
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        rte_net_hdr_lens lens;
        EXPECT_EQ(mbuf->packet_type,
                  rte_net_get_ptype(mbuf, &lens,
                                    RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK))
            << seed;
        rte_pktmbuf_free(mbuf);
    }
}

TEST_F(VerbsRx, PacketTypes) {
    start();
    const auto type_of = [&](const Frame& frame) {
        deliver(frame.build());
        return receive_one(frame.build()).second;
    };
    EXPECT_EQ(type_of({}), uint32_t{RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_UDP});
    EXPECT_EQ(type_of({.tcp = true, .vlan = true}),
              uint32_t{RTE_PTYPE_L2_ETHER_VLAN | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_TCP});
    EXPECT_EQ(type_of({.ipv6 = true}),
              uint32_t{RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV6 | RTE_PTYPE_L4_UDP});
    EXPECT_EQ(type_of({.fragment = true}),
              uint32_t{RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4 | RTE_PTYPE_L4_FRAG});
}

TEST_F(VerbsRx, ProvidersWordOnChecksumsIsTaken) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    EXPECT_STREQ(burst.description, "verbs, checksum");
    Bytes frame = Frame{}.build();
    frame[Frame{}.l4_checksum()] ^= 1; // the driver would find it bad if it checked
    deliver(frame, {.wc_flags = IBV_WC_IP_CSUM_OK});
    EXPECT_EQ(receive_one(frame).first, kIpGood | kL4Good);
}

/// The provider has one flag for both layers.
TEST_F(VerbsRx, ProvidersWordSaysNothingOfALayerThatIsNotThere) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    for (const Frame& frame : {Frame{.protocol = 47}, Frame{.fragment = true}}) {
        deliver(frame.build(), {.wc_flags = IBV_WC_IP_CSUM_OK});
        EXPECT_EQ(receive_one(frame.build()).first, kIpGood);
    }
}

TEST_F(VerbsRx, ChecksumsAreVerifiedWhereTheProviderIsSilent) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    for (const bool ipv6 : {false, true}) {
        for (const bool tcp : {false, true}) {
            for (const bool vlan : {false, true}) {
                const Frame frame{.ipv6 = ipv6, .tcp = tcp, .vlan = vlan};
                SCOPED_TRACE(testing::Message() << ipv6 << tcp << vlan);
                const uint64_t ip = ipv6 ? 0 : kIpGood;
                Bytes good = frame.build();
                deliver(good);
                EXPECT_EQ(receive_one(good).first, ip | kL4Good);
                Bytes bad = frame.build();
                bad.back() ^= 0x10;
                deliver(bad);
                EXPECT_EQ(receive_one(bad).first, ip | kL4Bad);
                if (ipv6) continue;
                Bytes header = frame.build();
                header[frame.l3() + 8] ^= 1; // TTL: covered by the IP header checksum only
                deliver(header);
                EXPECT_EQ(receive_one(header).first, kIpBad | kL4Good);
            }
        }
    }
}

/// `inside` in VXLAN. The outer checksums are right.
Bytes in_vxlan(const Bytes& inside, bool ipv6 = false) {
    const Frame outer{.ipv6 = ipv6};
    constexpr size_t kVxlan = 8;
    Bytes frame = outer.build(kVxlan + inside.size());
    const size_t udp = outer.l4();
    net::store_be<uint16_t>(&frame[udp + 2], 4789);
    net::store_be<uint64_t>(&frame[udp + 8], 0x0800'0000'0000'2a00);
    std::ranges::copy(inside, frame.begin() + static_cast<long>(udp + 8 + kVxlan));
    net::store_be<uint16_t>(&frame[outer.l4_checksum()], 0);
    const uint16_t sum =
        ipv6 ? rte_ipv6_udptcp_cksum(reinterpret_cast<rte_ipv6_hdr*>(&frame[14]), &frame[udp])
             : rte_ipv4_udptcp_cksum(reinterpret_cast<rte_ipv4_hdr*>(&frame[14]), &frame[udp]);
    memcpy(&frame[outer.l4_checksum()], &sum, sizeof sum);
    return frame;
}

/// Good means good both outside and inside. If one is bad, the one flag cannot say which.
TEST_F(VerbsRx, VerdictsOfTunnels) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    const auto flags_of = [&](const Bytes& frame) {
        deliver(frame);
        return receive_one(frame).first;
    };
    const auto changed = [](Bytes frame, size_t at) {
        frame[at] ^= 1;
        return frame;
    };
    constexpr size_t kTtl = 14 + 8, kUdp4 = 14 + 20, kPayload = kUdp4 + 8 + 3;
    const Bytes inside = Frame{}.build(), tunnel = in_vxlan(inside);
    EXPECT_EQ(flags_of(tunnel), kIpGood | kL4Good);
    EXPECT_EQ(flags_of(changed(tunnel, kTtl)), kL4Good);
    EXPECT_EQ(flags_of(changed(tunnel, kUdp4)), kIpGood) << "the outer UDP";
    EXPECT_EQ(flags_of(in_vxlan(changed(inside, kTtl))), kL4Good);
    EXPECT_EQ(flags_of(in_vxlan(changed(inside, kPayload))), kIpGood);
    Bytes bare = tunnel;
    bare[kUdp4 + 6] = bare[kUdp4 + 7] = 0;
    EXPECT_EQ(flags_of(bare), kIpGood | kL4Good) << "over IPv4 it is optional";
    EXPECT_EQ(flags_of(in_vxlan(inside, true)), kIpGood | kL4Good);
    EXPECT_EQ(flags_of(changed(in_vxlan(inside, true), 14 + 40)), kIpGood);
    EXPECT_EQ(flags_of(in_vxlan(Frame{.ipv6 = true}.build())), kL4Good);
}

TEST_F(VerbsRx, ChecksumsThatCannotBeKnown) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    const auto flags_of = [&](const Bytes& frame) {
        deliver(frame);
        return receive_one(frame).first;
    };
    EXPECT_EQ(flags_of(Frame{.fragment = true}.build()), kIpGood);
    EXPECT_EQ(flags_of(Frame{.protocol = 47}.build()), kIpGood);
    EXPECT_EQ(flags_of(pattern(1, 64)), 0u);
    Bytes none = Frame{}.build();
    none[Frame{}.l4_checksum()] = none[Frame{}.l4_checksum() + 1] = 0;
    EXPECT_EQ(flags_of(none), kIpGood | kL4Good) << "UDP without a checksum";
    Bytes runt = Frame{}.build();
    for (const size_t bytes : {14u, 20u, 33u, 34u, 38u}) { // headers cut off at various points
        const Bytes cut(runt.begin(), runt.begin() + static_cast<long>(bytes));
        EXPECT_EQ(flags_of(cut) & kL4Good, 0u) << bytes;
    }
}

constexpr VerbsRxSetup kChecksumOfSegments = {.segments = 4,
                                              .pool_size = 400,
                                              .data_room = 128 + RTE_PKTMBUF_HEADROOM,
                                              .offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM};

TEST_F(VerbsRx, ChecksumOverSeveralSegments) {
    start(kChecksumOfSegments);
    for (const size_t payload : {301u, 400u, 600u}) {
        Bytes frame = Frame{.tcp = true}.build(payload);
        deliver(frame);
        EXPECT_EQ(receive_one(frame).first, kIpGood | kL4Good);
        frame.back() ^= 1;
        deliver(frame);
        EXPECT_EQ(receive_one(frame).first, kIpGood | kL4Bad);
    }
}

/// The headers span two segments, so code that needs them contiguous copies them.
TEST_F(VerbsRx, LongExtensionHeadersOverSeveralSegments) {
    start(kChecksumOfSegments);
    for (const size_t options : {8u, 64u, 256u}) {
        const Bytes frame = with_extension(IPPROTO_DSTOPTS, Bytes(options));
        deliver(frame);
        const auto [flags, type] = receive_one(frame);
        EXPECT_EQ(type & (RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK),
                  RTE_PTYPE_L3_IPV6_EXT | RTE_PTYPE_L4_UDP);
        // The driver does not parse beyond this many bytes.
        EXPECT_EQ(flags, options < net::kParseBytes - 100 ? kL4Good : 0) << options;
    }
}

TEST_F(VerbsRx, VerdictsAreWhatThePacketShows) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    for (const VerdictCase& c : verdict_cases()) {
        deliver(c.frame);
        EXPECT_EQ(receive_one(c.frame).first, c.flags) << c.name;
    }
}

TEST_F(VerbsRx, OnlyEnabledChecksumsAreTold) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM});
    const Bytes frame = Frame{}.build();
    deliver(frame);
    EXPECT_EQ(receive_one(frame).first, kIpGood);
}

} // namespace
} // namespace rings_test
