// SPDX-License-Identifier: BSD-3-Clause
// Send WQEs with packet bytes in them: TSO, two tags, inlined packets; also tunnel checksums.
#include "tests/unit/rings/mlx5_tx.hpp"

namespace rings_test {
namespace {

using mlx5::CqeOpcode;
using mlx5::CqeSyndrome;

constexpr uint64_t kTsoOffloads =
    RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
    RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_VXLAN_TNL_TSO |
    RTE_ETH_TX_OFFLOAD_OUTER_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_VLAN_INSERT;

class Mlx5TxHeader : public Mlx5Tx {
  protected:
    /// 14 + 20 + 20 bytes of header.
    rte_mbuf* tso_packet(uint32_t seed, const std::vector<uint16_t>& lengths, uint16_t mss = 1000) {
        rte_mbuf* mbuf = packet(seed, lengths);
        mbuf->ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
        mbuf->l2_len = 14;
        mbuf->l3_len = 20;
        mbuf->l4_len = 20;
        mbuf->tso_segsz = mss;
        return mbuf;
    }
};

TEST_F(Mlx5TxHeader, ExactTsoWqe) {
    start({.offloads = kTsoOffloads});
    EXPECT_STREQ(burst.description, "mlx5 scalar, multi-segment, offloads, TSO");
    rte_mbuf* mbuf = tso_packet(4, {1500}, 536);
    ASSERT_EQ(send({mbuf}), 1u);
    std::vector<uint8_t> expected(6 * 16, 0);
    const auto put = [&](size_t at, uint64_t value, size_t bytes) {
        for (size_t i = 0; i < bytes; ++i)
            expected[at + i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
    };
    put(0, 0x0000000e, 4);               // index 0, TSO
    put(4, FakeSq::kNumber << 8 | 7, 4); // control, Ethernet, 52 header bytes in 4, data
    put(20, 0xc0, 1);                    // L3 and L4 checksum
    put(22, 536, 2);                     // MSS
    put(28, 54, 2);                      // inlined
    for (uint32_t i = 0; i < 54; ++i)
        expected[30 + i] = tx_pattern(4, i);
    auto wqe = sq->wqe(0, 6 * 16);
    std::fill(wqe.begin() + 84, wqe.end(), 0); // padding
    EXPECT_EQ(wqe, expected);
    const auto data = sq->segment<mlx5::WqeDataSeg>(0, 6);
    EXPECT_EQ(data.byte_count, 1446u);
    EXPECT_EQ(data.addr, rte_pktmbuf_mtod(mbuf, uintptr_t) + 54);
    EXPECT_EQ(sq->doorbell.send, 2u);
    EXPECT_EQ(ring->counters.packets, 1u);
    EXPECT_EQ(ring->counters.bytes, 1500u);
}

TEST_F(Mlx5TxHeader, TsoHeadersOfAnyShapeAroundTheRingsEnd) {
    start({.offloads = kTsoOffloads, .multi_packet = true});
    const std::vector<std::vector<uint16_t>> shapes = {
        {900},        {54, 800},   {55, 1}, {20, 34, 500}, {14, 20, 20, 100, 100},
        {53, 0, 200}, {60, 60, 60}};
    uint32_t seed = 0;
    for (int round = 0; round < 60; ++round) {
        for (const auto& lengths : shapes) {
            uint32_t bytes = 0;
            for (const uint16_t length : lengths)
                bytes += length;
            rte_mbuf* tagged = tso_packet(seed, lengths);
            const bool tag = round % 2 != 0;
            if (tag) {
                tagged->ol_flags |= RTE_MBUF_F_TX_VLAN;
                tagged->vlan_tci = 0x1123; // with the DEI bit
            }
            ASSERT_EQ(send({tagged, packet(seed, {60})}), 2u);
            auto want = expected(seed, bytes);
            if (tag) {
                const uint8_t bytes_of_tag[] = {0x81, 0x00, 0x11, 0x23};
                want.insert(want.begin() + 12, std::begin(bytes_of_tag), std::end(bytes_of_tag));
            }
            ASSERT_EQ(execute(), want);
            ASSERT_EQ(execute(), expected(seed, 60));
            ASSERT_EQ(pending_wqebbs(), 0u);
            ++seed;
        }
    }
    EXPECT_EQ(ring->counters.errors, 0u);
}

TEST_F(Mlx5TxHeader, TsoThatCannotBeIsDropped) {
    start({.offloads = kTsoOffloads});
    rte_mbuf* no_size = tso_packet(0, {900}, 0);
    rte_mbuf* no_payload = tso_packet(0, {54});
    rte_mbuf* no_lengths = tso_packet(0, {900});
    no_lengths->l2_len = no_lengths->l3_len = no_lengths->l4_len = 0;
    rte_mbuf* long_header = tso_packet(0, {900});
    long_header->l3_len = 200;
    ASSERT_EQ(send({no_size, no_payload, no_lengths, long_header, tso_packet(7, {900})}), 5u);
    EXPECT_EQ(ring->counters.errors, 4u);
    EXPECT_EQ(execute(), expected(7, 900));
    EXPECT_EQ(pending_wqebbs(), 0u);
}

TEST_F(Mlx5TxHeader, WqebbsRunOutBeforeDescriptors) {
    start({.offloads = kTsoOffloads});
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 40; ++i)
        packets.push_back(tso_packet(i, {300}));
    ASSERT_EQ(send(packets.data(), 40), 32u) << "two WQEBBs each";
    ASSERT_EQ(pending_wqebbs(), 64u);
    ASSERT_EQ(send(packets.data() + 32, 8), 0u);
    for (uint32_t i = 0; i < 32; ++i)
        ASSERT_EQ(execute(), expected(i, 300));
    ASSERT_EQ(send(packets.data() + 32, 8), 8u);
    execute_all();
    settle();
    packets = {packet(0, {64})};
    for (uint32_t i = 0; i < 40; ++i)
        packets.push_back(tso_packet(i, {300}));
    ASSERT_EQ(send(packets.data(), 41), 32u) << "one WQEBB is left over";
    ASSERT_EQ(execute(), expected(0, 64));
    for (uint32_t i = 0; i < 31; ++i)
        ASSERT_EQ(execute(), expected(i, 300));
    rte_pktmbuf_free_bulk(packets.data() + 32, 9);
}

TEST_F(Mlx5TxHeader, TunnelChecksums) {
    start({.offloads = kTsoOffloads});
    constexpr uint64_t kVxlan = RTE_MBUF_F_TX_TUNNEL_VXLAN;
    constexpr uint64_t kOuter = RTE_MBUF_F_TX_OUTER_IPV4 | RTE_MBUF_F_TX_OUTER_IP_CKSUM;
    struct {
        uint64_t flags;
        uint8_t cs_flags;
    } const cases[] = {
        {kVxlan | kOuter, 0x40},
        {kVxlan | RTE_MBUF_F_TX_IP_CKSUM, 0x10},
        {kVxlan | RTE_MBUF_F_TX_TCP_CKSUM, 0x20},
        {kVxlan | kOuter | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM, 0x70},
    };
    uint16_t index = 0;
    for (const auto& c : cases) {
        rte_mbuf* mbuf = packet(0, {64});
        mbuf->ol_flags = c.flags;
        ASSERT_EQ(send({mbuf}), 1u);
        EXPECT_EQ(sq->segment<mlx5::WqeEthSeg>(index++, 1).cs_flags, c.cs_flags);
    }
    rte_mbuf* mbuf = tso_packet(3, {900});
    mbuf->ol_flags |= kVxlan | kOuter;
    mbuf->outer_l2_len = 14;
    mbuf->outer_l3_len = 20;
    mbuf->l2_len = 30; // UDP, VXLAN and the inner Ethernet header
    ASSERT_EQ(send({mbuf}), 1u);
    const auto eth = sq->segment<mlx5::WqeEthSeg>(index, 1);
    EXPECT_EQ(eth.cs_flags, 0x70);
    EXPECT_EQ(eth.inline_size, 104u);
    for (int i = 0; i < 4; ++i)
        execute();
    EXPECT_EQ(execute(), expected(3, 900));
}

TEST_F(Mlx5TxHeader, TwoTags) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_QINQ_INSERT | RTE_ETH_TX_OFFLOAD_VLAN_INSERT,
           .multi_packet = true});
    for (int round = 0; round < 70; ++round) { // also where the ring wraps
        for (const uint16_t bytes : {14, 15, 64}) {
            rte_mbuf* mbuf = packet(9, {bytes});
            mbuf->ol_flags = RTE_MBUF_F_TX_QINQ | RTE_MBUF_F_TX_VLAN;
            mbuf->vlan_tci = 0x1abc; // with the DEI bit
            mbuf->vlan_tci_outer = 0x7def;
            ASSERT_EQ(send({mbuf, packet(1, {60})}), 2u);
            auto tagged = expected(9, bytes);
            const uint8_t tags[] = {0x88, 0xa8, 0x7d, 0xef, 0x81, 0x00, 0x1a, 0xbc};
            tagged.insert(tagged.begin() + 12, std::begin(tags), std::end(tags));
            ASSERT_EQ(execute(), tagged);
            ASSERT_EQ(execute(), expected(1, 60));
        }
    }
}

// ---------------------------------------------------------------- inlined packets

TEST_F(Mlx5TxHeader, ShortPacketsAreInlined) {
    for (const bool multi_packet : {false, true}) {
        for (const uint32_t part_id : {0x1019u, 0x1015u}) { // the second one: ConnectX-4 Lx
            start({.offloads = 0,
                   .part_id = part_id,
                   .multi_packet = multi_packet,
                   .inline_bytes = 100});
            uint32_t seed = 0;
            for (int lap = 0; lap < 10; ++lap) {
                for (uint16_t batch = 1; batch <= 40; ++batch) {
                    std::vector<rte_mbuf*> packets;
                    for (uint16_t i = 0; i < batch; ++i)
                        packets.push_back(
                            packet(seed + i, {static_cast<uint16_t>(14 + (seed + i) * 7 % 150)}));
                    for (size_t at = 0; at < packets.size();) {
                        const auto left = static_cast<uint16_t>(packets.size() - at);
                        const uint16_t sent = send(packets.data() + at, left);
                        ASSERT_GT(sent, 0u);
                        ASSERT_LE(pending_wqebbs(), 64u);
                        for (; at < packets.size() && pending_wqebbs() + wire.size() > 0; ++at) {
                            ASSERT_EQ(execute(), expected(seed, 14 + seed * 7 % 150));
                            ++seed;
                        }
                    }
                }
            }
            EXPECT_EQ(ring->counters.packets, seed);
            EXPECT_EQ(ring->counters.errors, 0u);
            TearDown();
            ring = nullptr;
        }
    }
    EXPECT_GT(inlined, 1000);
}

TEST_F(Mlx5TxHeader, InlineThresholdAndHint) {
    static const rte_mbuf_dynflag kHint = {.name = "mlx5_fine_granularity_inline", .flags = 0};
    const int bit = rte_mbuf_dynflag_register(&kHint);
    ASSERT_GE(bit, 0);
    start({.offloads = 0, .multi_packet = true, .inline_bytes = 64});
    rte_mbuf* hinted = packet(2, {64});
    hinted->ol_flags = RTE_BIT64(bit);
    ASSERT_EQ(send({packet(0, {64}), packet(1, {65}), hinted, packet(3, {60})}), 4u);
    EXPECT_EQ(pending_wqebbs(), (2 + 5 + 1 + 1 + 4 + 3) / 4u);
    for (const uint32_t seed : {0u, 1u, 2u, 3u})
        EXPECT_EQ(execute(), expected(seed, seed == 1 ? 65 : seed == 3 ? 60 : 64));
    EXPECT_EQ(inlined, 2);
}

/// Nobody executes them meanwhile: WQEBBs run out long before descriptors.
TEST_F(Mlx5TxHeader, InlinedPacketsFillTheRing) {
    for (const bool multi_packet : {false, true}) {
        start({.offloads = 0, .multi_packet = multi_packet, .inline_bytes = 100});
        for (uint32_t lap = 0; lap < 20; ++lap) {
            std::vector<rte_mbuf*> packets;
            for (uint32_t i = 0; i < 64; ++i)
                packets.push_back(packet(i, {static_cast<uint16_t>(60 + (lap + i) % 41)}));
            uint16_t sent = 0;
            for (uint16_t taken = 1; taken > 0; sent = static_cast<uint16_t>(sent + taken)) {
                taken = send(packets.data() + sent, static_cast<uint16_t>(std::min(7, 64 - sent)));
                ASSERT_LE(pending_wqebbs(), 64u);
            }
            ASSERT_GT(sent, 20u);
            for (uint32_t i = 0; i < sent; ++i)
                ASSERT_EQ(execute(), expected(i, 60 + (lap + i) % 41));
            rte_pktmbuf_free_bulk(packets.data() + sent, 64u - sent);
            settle();
        }
        EXPECT_EQ(in_use(), 0u);
        TearDown();
        ring = nullptr;
    }
}

/// They are copied, but their mbufs must still return to the right pools.
TEST_F(Mlx5TxHeader, InlinedMbufsThatAreSharedOrOfSeveralPools) {
    const test_eal::Pool other = test_eal::make_pool(63);
    for (const bool multi_packet : {false, true}) {
        start({.offloads = 0, .multi_packet = multi_packet, .inline_bytes = 100});
        for (uint32_t odd = 0; odd < 6; ++odd) {
            std::vector<rte_mbuf*> packets;
            for (uint32_t i = 0; i < 6; ++i)
                packets.push_back(make_packet(i == odd ? other.get() : pool.get(), i, {64}));
            rte_mbuf* const shared = packets[(odd + 3) % 6];
            rte_mbuf_refcnt_update(shared, 1);
            ASSERT_EQ(send(packets), 6u);
            for (uint32_t i = 0; i < 6; ++i)
                ASSERT_EQ(execute(), expected(i, 64));
            settle();
            EXPECT_EQ(in_use(), 1u) << "somebody else's";
            EXPECT_EQ(rte_mempool_in_use_count(other.get()), 0u);
            EXPECT_EQ(rte_mbuf_refcnt_read(shared), 1);
            rte_pktmbuf_free(shared);
        }
        TearDown();
        ring = nullptr;
    }
}

TEST_F(Mlx5TxHeader, ErrorsBehindInlinedPackets) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_UDP_CKSUM, .multi_packet = true, .inline_bytes = 64});
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 9; ++i) {
        packets.push_back(packet(i, {static_cast<uint16_t>(i % 2 == 0 ? 60 : 90)}));
        if (i >= 5) packets.back()->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM;
    }
    ASSERT_EQ(send(packets), 9u);
    execute(); // the first WQE: three packets inlined, two by pointer
    ASSERT_EQ(executed, (2 + 3 * 4 + 2 + 3) / 4);
    cq->write_error(CqeOpcode::req_error, CqeSyndrome::local_protection, executed);
    ASSERT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(ring->counters.packets, 5u);
    EXPECT_EQ(ring->counters.errors, 4u);
    EXPECT_EQ(in_use(), 0u);
}

TEST_F(Mlx5TxHeader, HeadersAreInlinedAsTheDeviceDemands) {
    struct Case {
        rawqp::InlineMode mode;
        uint32_t part_id;
        uint16_t bytes;
        uint32_t wqebbs; ///< per descriptor
    };
    using rawqp::InlineMode;
    constexpr uint32_t kConnectX4 = 0x1013, kConnectX5 = 0x1017;
    for (const Case& c : {Case{InlineMode::automatic, kConnectX4, 18, 1},
                          {InlineMode::automatic, kConnectX5, 0, 1},
                          {InlineMode::none, kConnectX4, 0, 1},
                          {InlineMode::l2, kConnectX5, 18, 1},
                          {InlineMode::ip, kConnectX5, 58, 2},
                          {InlineMode::tcp, kConnectX4, 78, 2}}) {
        start({.sq_wqebbs = 128, .part_id = c.part_id, .multi_packet = true, .min_inline = c.mode});
        EXPECT_EQ(rawqp::kMlx5Format.tx_needs(spec).cap.max_send_wr, c.wqebbs * 64);
        uint32_t seed = 0;
        for (const std::vector<uint16_t>& shape : {std::vector<uint16_t>{14},
                                                   {40},
                                                   {60},
                                                   {77},
                                                   {78},
                                                   {79},
                                                   {500},
                                                   {20, 30, 100},
                                                   {9, 9, 70}}) {
            uint32_t length = 0;
            for (const uint16_t part : shape)
                length += part;
            const uint16_t at = sq->doorbell.send;
            ASSERT_EQ(send({packet(seed, shape)}), 1u);
            const auto eth = sq->segment<mlx5::WqeEthSeg>(at, 1);
            EXPECT_EQ(eth.inline_size, std::min<uint32_t>(c.bytes, length)) << length;
            EXPECT_EQ(execute(), expected(seed++, length));
        }
        TearDown();
        ring = nullptr;
    }
}

/// Inlined bytes get the same offloads as packets by pointer. A VLAN tag is inlined as well, so
/// that the WQE needs no more room than the queue provides.
TEST_F(Mlx5TxHeader, OffloadsOfInlinedBytes) {
    for (const uint16_t inline_bytes : {0, 100}) {
        start({.offloads = RTE_ETH_TX_OFFLOAD_VLAN_INSERT | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM |
                           RTE_ETH_TX_OFFLOAD_UDP_CKSUM,
               .inline_bytes = inline_bytes,
               .min_inline = rawqp::InlineMode::l2});
        for (const bool tagged : {false, true}) {
            rte_mbuf* const mbuf = packet(5, {90});
            mbuf->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
            auto want = expected(5, 90);
            if (tagged) {
                mbuf->ol_flags |= RTE_MBUF_F_TX_VLAN;
                mbuf->vlan_tci = 0x3123;
                const uint8_t tag[] = {0x81, 0x00, 0x31, 0x23};
                want.insert(want.begin() + 12, std::begin(tag), std::end(tag));
            }
            const uint16_t at = sq->doorbell.send;
            ASSERT_EQ(send({mbuf}), 1u);
            const auto eth = sq->segment<mlx5::WqeEthSeg>(at, 1);
            EXPECT_EQ(eth.cs_flags, 0xc0);
            EXPECT_EQ(eth.inline_size, inline_bytes == 0 ? 18 : want.size());
            EXPECT_EQ(execute(), want);
        }
        TearDown();
        ring = nullptr;
    }
}

// ---------------------------------------------------------------- rte_eth_tx_prepare

/// Says of a packet that it is in a VXLAN tunnel; l2_len includes UDP, VXLAN and inner Ethernet.
void put_into_vxlan(rte_mbuf& packet, uint64_t outer_ip, uint8_t outer_l2, uint16_t outer_l3,
                    uint8_t l2) {
    packet.ol_flags |= RTE_MBUF_F_TX_TUNNEL_VXLAN | outer_ip;
    packet.outer_l2_len = outer_l2;
    packet.outer_l3_len = outer_l3;
    packet.l2_len = l2;
}

TEST_F(Mlx5TxHeader, PrepareRefusesWhatTheDeviceWouldRefuse) {
    start({.offloads = kTsoOffloads & ~RTE_ETH_TX_OFFLOAD_VLAN_INSERT});
    const auto accepts = [&](rte_mbuf* mbuf) {
        const uint16_t accepted = rawqp::kMlx5Format.tx_prepare(ring, &mbuf, 1);
        rte_pktmbuf_free(mbuf);
        return accepted == 1;
    };
    struct {
        const char* name;
        int error;
        void (*change)(rte_mbuf&);
    } const cases[] = {
        {"TSO", 0, [](rte_mbuf&) {}},
        {"no segment size", EINVAL, [](rte_mbuf& m) { m.tso_segsz = 0; }},
        {"segment size of 14 bits", 0, [](rte_mbuf& m) { m.tso_segsz = 0x3fff; }},
        {"segment size beyond 14 bits", EINVAL, [](rte_mbuf& m) { m.tso_segsz = 0x4000; }},
        {"TCP header too short", EINVAL, [](rte_mbuf& m) { m.l4_len = 16; }},
        {"no Ethernet header", EINVAL, [](rte_mbuf& m) { m.l2_len = 0; }},
        {"no IP header", EINVAL, [](rte_mbuf& m) { m.l3_len = 0; }},
        {"IPv6", 0,
         [](rte_mbuf& m) {
             m.ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV6;
             m.l3_len = 40;
         }},
        {"IPv6 header too short", EINVAL,
         [](rte_mbuf& m) { m.ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV6; }},
        {"header longer than the packet", EINVAL, [](rte_mbuf& m) { m.l3_len = 400; }},
        {"header longer than a WQE holds", EINVAL, [](rte_mbuf& m) { m.l3_len = 160; }},
        {"IPv4 without checksum", EINVAL,
         [](rte_mbuf& m) { m.ol_flags &= ~RTE_MBUF_F_TX_IP_CKSUM; }},
        {"neither IPv4 nor IPv6", EINVAL, [](rte_mbuf& m) { m.ol_flags = RTE_MBUF_F_TX_TCP_SEG; }},
        {"VXLAN", 0, [](rte_mbuf& m) { put_into_vxlan(m, RTE_MBUF_F_TX_OUTER_IPV4, 14, 20, 30); }},
        {"VXLAN without the outer headers", EINVAL,
         [](rte_mbuf& m) { put_into_vxlan(m, RTE_MBUF_F_TX_OUTER_IPV4, 0, 0, 30); }},
        {"VXLAN with a short outer IPv6 header", EINVAL,
         [](rte_mbuf& m) { put_into_vxlan(m, RTE_MBUF_F_TX_OUTER_IPV6, 14, 20, 30); }},
        {"VXLAN without its own header", EINVAL,
         [](rte_mbuf& m) { put_into_vxlan(m, RTE_MBUF_F_TX_OUTER_IPV4, 14, 20, 14); }},
        {"GRE", ENOTSUP, [](rte_mbuf& m) { m.ol_flags |= RTE_MBUF_F_TX_TUNNEL_GRE; }},
        {"GRE, of which nothing is asked", 0,
         [](rte_mbuf& m) { m.ol_flags = RTE_MBUF_F_TX_TUNNEL_GRE; }},
        {"UDP segmentation", ENOTSUP, [](rte_mbuf& m) { m.ol_flags |= RTE_MBUF_F_TX_UDP_SEG; }},
        {"tag", ENOTSUP, [](rte_mbuf& m) { m.ol_flags |= RTE_MBUF_F_TX_VLAN; }},
        {"two tags", ENOTSUP, [](rte_mbuf& m) { m.ol_flags |= RTE_MBUF_F_TX_QINQ; }},
        {"outer UDP", ENOTSUP, [](rte_mbuf& m) { m.ol_flags = RTE_MBUF_F_TX_OUTER_UDP_CKSUM; }},
        {"IP checksum in VXLAN", 0,
         [](rte_mbuf& m) {
             m.ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TUNNEL_VXLAN;
         }},
        {"IP checksum in GENEVE", ENOTSUP,
         [](rte_mbuf& m) {
             m.ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TUNNEL_GENEVE;
         }},
    };
    for (const auto& c : cases) {
        rte_mbuf* packets[] = {packet(0, {64}), tso_packet(0, {300})};
        c.change(*packets[1]);
        rte_errno = 0;
        EXPECT_EQ(rawqp::kMlx5Format.tx_prepare(ring, packets, 2), c.error == 0 ? 2 : 1) << c.name;
        EXPECT_EQ(rte_errno, c.error) << c.name;
        rte_pktmbuf_free_bulk(packets, 2);
    }
    ring->max_tso = 246;
    EXPECT_TRUE(accepts(tso_packet(0, {300})));
    ring->max_tso = 245;
    EXPECT_FALSE(accepts(tso_packet(0, {300})));
    EXPECT_EQ(rte_errno, EINVAL);
}

/// Inserting two tags is a separate offload, which does not need the one for a single tag.
TEST_F(Mlx5TxHeader, PrepareTakesBothTagsOfTwo) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_QINQ_INSERT});
    rte_mbuf* mbuf = packet(0, {64});
    mbuf->ol_flags = RTE_MBUF_F_TX_QINQ | RTE_MBUF_F_TX_VLAN;
    EXPECT_EQ(rawqp::kMlx5Format.tx_prepare(ring, &mbuf, 1), 1u);
    rte_pktmbuf_free(mbuf);
}

TEST_F(Mlx5TxHeader, CapacityOfTheQp) {
    rawqp::TxSpec plain;
    plain.api = &fake_api();
    plain.descriptors = 1024;
    plain.max_segments = 16;
    const auto wqebbs = [](const rawqp::TxSpec& spec) {
        return rawqp::kMlx5Format.tx_needs(spec).cap.max_send_wr;
    };
    EXPECT_EQ(wqebbs(plain), 1024u);
    EXPECT_EQ(rawqp::kMlx5Format.tx_needs(plain).cap.max_send_sge, 1u);
    plain.offloads = RTE_ETH_TX_OFFLOAD_TCP_TSO;
    EXPECT_EQ(wqebbs(plain), 2048u);
    plain.inline_bytes = 92; // 32 + 4 + 92: two WQEBBs
    EXPECT_EQ(wqebbs(plain), 2048u);
    plain.inline_bytes = 93;
    EXPECT_EQ(wqebbs(plain), 4096u);
}

} // namespace
} // namespace rings_test
