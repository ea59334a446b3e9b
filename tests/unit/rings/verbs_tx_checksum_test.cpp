// SPDX-License-Identifier: BSD-3-Clause
// Checksums of packets that are sent through verbs calls. That of an IPv4 header alone is computed
// in software.
#include "tests/unit/rings/verbs_tx.hpp"

#include <array>

namespace rings_test {
namespace {

class VerbsTxChecksum : public VerbsTx {};

TEST_P(VerbsTxChecksum, ChecksumRequests) {
    start(kChecksums);
    const auto flags_of = [&](uint64_t flags) {
        rte_mbuf* mbuf = packet(1, {64});
        mbuf->l2_len = 14;
        mbuf->l3_len = 20;
        mbuf->ol_flags = flags;
        EXPECT_EQ(send({mbuf}), 1u);
        return qp.posted.back().request.send_flags & IBV_SEND_IP_CSUM;
    };
    EXPECT_EQ(flags_of(0), 0u);
    EXPECT_NE(flags_of(RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM), 0u);
    EXPECT_NE(flags_of(RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_TCP_CKSUM), 0u);
    EXPECT_NE(flags_of(RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_CKSUM), 0u);
    execute_all();

    // Only the IP header: computed in software, and the device does not touch L4.
    EXPECT_EQ(flags_of(RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM), 0u);
    const auto bytes = execute();
    auto untouched = expected(1, 64);
    EXPECT_EQ(rte_raw_cksum(&bytes[14], 20), 0xffff);
    untouched[24] = bytes[24];
    untouched[25] = bytes[25];
    EXPECT_EQ(bytes, untouched);
}

/// Also if it spans several mbufs; a packet without all of it is dropped.
TEST_P(VerbsTxChecksum, ChecksumOfAHeaderInPieces) {
    start(kChecksums | RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    const std::vector<std::vector<uint16_t>> whole = {
        {14, 66}, {20, 60}, {25, 55}, {9, 2, 9, 5, 55}, {34, 46}};
    const std::vector<std::vector<uint16_t>> cut = {{20, 13}, {33}};
    for (const auto& lengths : {whole, cut})
        for (const auto& shape : lengths) {
            rte_mbuf* mbuf = packet(1, shape);
            mbuf->l2_len = 14;
            mbuf->l3_len = 20;
            mbuf->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
            ASSERT_EQ(send({mbuf}), 1u);
        }
    EXPECT_EQ(ring->counters.errors, cut.size());
    ASSERT_EQ(qp.posted.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
        const auto bytes = execute();
        auto untouched = expected(1, 80);
        EXPECT_EQ(rte_raw_cksum(&bytes[14], 20), 0xffff) << i;
        untouched[24] = bytes[24];
        untouched[25] = bytes[25];
        EXPECT_EQ(bytes, untouched) << i;
    }
}

/// What the burst would drop for lack of the header.
TEST_P(VerbsTxChecksum, PrepareRefusesAHeaderThatIsNotThere) {
    start(kChecksums | RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_TSO);
    constexpr uint64_t kHeader = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
    struct {
        std::vector<uint16_t> lengths;
        uint16_t l3_len;
        uint64_t flags;
        bool sound;
    } const cases[] = {
        {{34}, 20, kHeader, true},
        {{14, 20}, 20, kHeader, true},
        {{33}, 20, kHeader, false},
        {{20, 13}, 20, kHeader, false},
        {{64}, 19, kHeader, false},
        {{64}, 0, kHeader, false},
        {{64}, 0, kHeader | RTE_MBUF_F_TX_UDP_CKSUM, true}, // the device finds it
        {{64}, 0, 0, true},
    };
    for (const auto& c : cases) {
        rte_mbuf* packets[] = {packet(0, {64}), packet(0, c.lengths)};
        packets[1]->l2_len = 14;
        packets[1]->l3_len = c.l3_len;
        packets[1]->ol_flags = c.flags;
        rte_errno = 0;
        EXPECT_EQ(rawqp::kVerbsFormat.tx_prepare(ring, packets, 2), c.sound ? 2 : 1);
        EXPECT_EQ(rte_errno, c.sound ? 0 : EINVAL);
        const uint64_t before = ring->counters.errors;
        ASSERT_EQ(send(packets, 2), 2u);
        EXPECT_EQ(ring->counters.errors - before, c.sound ? 0u : 1u);
        execute_all();
    }
    rte_mbuf* large = packet(0, {200});
    large->ol_flags = kHeader | RTE_MBUF_F_TX_TCP_SEG;
    large->l2_len = 14;
    large->l3_len = large->l4_len = 20;
    large->tso_segsz = 50;
    ring->max_tso = 1 << 16;
    EXPECT_EQ(rawqp::kVerbsFormat.tx_prepare(ring, &large, 1), 1u) << "segments are the device's";
    rte_pktmbuf_free(large);
    rte_mbuf* runt = packet(0, {13});
    EXPECT_EQ(rawqp::kVerbsFormat.tx_prepare(ring, &runt, 1), 0u) << "as for all formats";
    rte_pktmbuf_free(runt);
}

/// Whose data others hold as well, and which need another checksum in it.
class VerbsTxShared : public VerbsTx {
  protected:
    static std::vector<uint8_t> bytes_of(const rte_mbuf* packet) {
        std::vector<uint8_t> bytes;
        for (; packet != nullptr; packet = packet->next) {
            const auto* const data = rte_pktmbuf_mtod(packet, const uint8_t*);
            bytes.insert(bytes.end(), data, data + packet->data_len);
        }
        return bytes;
    }
    static rte_mbuf* asking(rte_mbuf* packet) {
        packet->l2_len = 14;
        packet->l3_len = 20;
        packet->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
        return packet;
    }
    static std::vector<uint8_t> with_checksum(std::vector<uint8_t> bytes) {
        bytes[24] = bytes[25] = 0;
        const auto sum = static_cast<uint16_t>(~rte_raw_cksum(&bytes[14], 20));
        memcpy(&bytes[24], &sum, sizeof sum);
        return bytes;
    }
    /// A packet in memory of the test's own, with one reference that is the test's.
    rte_mbuf* external(uint32_t seed, uint16_t bytes, rte_mempool* from) {
        info.free_cb = [](void*, void*) {};
        rte_mbuf_ext_refcnt_set(&info, 2);
        rte_mbuf* const mbuf = rte_pktmbuf_alloc(from);
        rte_pktmbuf_attach_extbuf(mbuf, memory.data(), 0, static_cast<uint16_t>(memory.size()),
                                  &info);
        const auto contents = expected(seed, bytes);
        memcpy(rte_pktmbuf_append(mbuf, bytes), contents.data(), bytes);
        return mbuf;
    }
    /// Sends the packet, and finishes with it.
    void expect_sent(rte_mbuf* packet, const std::vector<uint8_t>& bytes) {
        rte_mbuf* given = asking(packet);
        ASSERT_EQ(send(&given, 1), 1u);
        EXPECT_EQ(given, packet) << "the caller may send it elsewhere as well";
        EXPECT_EQ(execute(), bytes);
        send(nullptr, 0);
    }
    void expect_dropped(rte_mbuf* packet) {
        const uint64_t before = ring->counters.errors;
        ASSERT_EQ(send({asking(packet)}), 1u);
        EXPECT_EQ(ring->counters.errors, before + 1);
        EXPECT_EQ(executed, qp.posted.size());
    }

    std::array<uint8_t, 9000> memory{};
    rte_mbuf_ext_shared_info info{};
    test_eal::Pool bare = test_eal::make_pool(15, 0); ///< for clones: no room for data
};

TEST_P(VerbsTxShared, DataIsCopied) {
    const std::vector<std::vector<uint16_t>> shapes = {{80}, {14, 66}, {25, 55}};
    for (const uint64_t offloads : {uint64_t{0}, uint64_t{RTE_ETH_TX_OFFLOAD_MULTI_SEGS}}) {
        start(kChecksums | offloads);
        for (const auto& shape : shapes) {
            if (offloads == 0 && shape.size() > 1) continue;
            rte_mbuf* const original = packet(1, shape);
            expect_sent(rte_pktmbuf_clone(original, bare.get()), with_checksum(expected(1, 80)));
            EXPECT_EQ(bytes_of(original), expected(1, 80));
            rte_pktmbuf_refcnt_update(original, 1);
            expect_sent(original, with_checksum(expected(1, 80)));
            EXPECT_EQ(bytes_of(original), expected(1, 80));
            EXPECT_EQ(in_use(), shape.size());
            rte_pktmbuf_free(original);
        }
        expect_sent(external(2, 80, pool.get()), with_checksum(expected(2, 80)));
        EXPECT_EQ(0, memcmp(&memory[0], expected(2, 80).data(), 80));
        EXPECT_EQ(rte_mbuf_ext_refcnt_read(&info), 1);
        EXPECT_EQ(in_use(), 0u);
        EXPECT_EQ(rte_mempool_in_use_count(bare.get()), 0u);
        EXPECT_EQ(ring->counters.errors, 0u);
        TearDown();
        ring = nullptr;
    }
}

TEST_P(VerbsTxShared, DataIsSentAsItIsWherePossible) {
    start(kChecksums | RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    // Nobody else has it.
    rte_mbuf* const own = external(1, 80, pool.get());
    rte_mbuf_ext_refcnt_set(&info, 1);
    expect_sent(own, with_checksum(expected(1, 80)));
    EXPECT_EQ(qp.posted.back().sges[0].addr, reinterpret_cast<uintptr_t>(memory.data()));
    // The checksum is right already.
    rte_mbuf* const original = packet(2, {80});
    auto* const data = rte_pktmbuf_mtod(original, uint8_t*);
    const auto right = with_checksum(expected(2, 80));
    memcpy(data, right.data(), right.size());
    expect_sent(rte_pktmbuf_clone(original, bare.get()), right);
    EXPECT_EQ(qp.posted.back().sges[0].addr, reinterpret_cast<uintptr_t>(data));
    rte_pktmbuf_free(original);
}

TEST_P(VerbsTxShared, PacketsThatCannotBeCopiedAreDropped) {
    start(kChecksums);
    rte_mbuf* const original = packet(1, {80});
    std::vector<void*> others(pool->size - 1);
    ASSERT_EQ(rte_mempool_get_bulk(pool.get(), others.data(), pool->size - 1), 0);
    expect_dropped(rte_pktmbuf_clone(original, bare.get()));
    EXPECT_EQ(bytes_of(original), expected(1, 80));
    rte_mempool_put_bulk(pool.get(), others.data(), pool->size - 1);
    rte_pktmbuf_free(original);
    expect_dropped(external(2, 80, bare.get()));
    expect_dropped(external(3, 5000, pool.get())); // into three mbufs
    EXPECT_EQ(in_use(), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(bare.get()), 0u);
}

/// Copies take more descriptors, and are dropped when the provider refuses them.
TEST_P(VerbsTxShared, CopiesInSeveralMbufs) {
    start(kChecksums | RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 62; ++i)
        packets.push_back(packet(i, {64}));
    ASSERT_EQ(send(packets), 62u);
    rte_mbuf* large = asking(external(3, 5000, pool.get()));
    EXPECT_EQ(send(&large, 1), 0u) << "there is room for two segments";
    EXPECT_EQ(in_use(), 63u);
    execute_all();
    expect_sent(large, with_checksum(expected(3, 5000)));
    EXPECT_EQ(qp.posted.back().sges.size(), 3u);
    EXPECT_EQ(in_use(), 0u);
    qp.accept = 1;
    rte_mbuf* const first = packet(4, {64});
    ASSERT_EQ(send({first, asking(external(5, 5000, pool.get())), packet(6, {64})}), 3u);
    EXPECT_EQ(ring->counters.errors, GetParam() ? 3u : 2u);
    EXPECT_EQ(in_use(), GetParam() ? 0u : 1u);
    execute_all();
}

INSTANTIATE_TEST_SUITE_P(, VerbsTxChecksum, testing::Bool(), way_of);
INSTANTIATE_TEST_SUITE_P(, VerbsTxShared, testing::Bool(), way_of);

} // namespace
} // namespace rings_test
