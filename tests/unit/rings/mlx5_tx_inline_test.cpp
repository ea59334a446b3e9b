// SPDX-License-Identifier: BSD-3-Clause
// Send on mapped mlx5 rings: headers in the WQE, for NICs that need them there (ConnectX-4).
#include "tests/unit/rings/mlx5_tx.hpp"

namespace rings_test {
namespace {

class Mlx5TxInline : public Mlx5Tx {
  protected:
    void start_inline(uint64_t offloads) { start({.offloads = offloads, .part_id = 0x1015}); }
};

TEST_F(Mlx5TxInline, HeaderIsInTheWqe) {
    start_inline(0);
    EXPECT_STREQ(burst.description, "mlx5 scalar, inline header");
    rte_mbuf* mbuf = packet(3, {100});
    const auto address = rte_pktmbuf_mtod(mbuf, uintptr_t);
    ASSERT_EQ(send({mbuf}), 1u);
    const auto wqe = sq->wqe(0, 64);
    EXPECT_EQ(wqe[7], 4) << "ctrl, eth, rest of the header, data";
    EXPECT_EQ(wqe[28] << 8 | wqe[29], 18);
    const auto data = sq->segment<mlx5::WqeDataSeg>(0, 3);
    EXPECT_EQ(data.byte_count, 82u);
    EXPECT_EQ(data.addr, address + 18);
    EXPECT_EQ(execute(), expected(3, 100));
    EXPECT_EQ(sq->doorbell.send, 1u);
}

TEST_F(Mlx5TxInline, ShortPacketsAndSplitHeaders) {
    start_inline(RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    uint32_t seed = 0;
    const std::vector<std::vector<uint16_t>> shapes = {
        {14},     {17},       {18},      {19}, {1, 60}, {10, 4, 2, 2}, {10, 4, 2, 2, 50},
        {18, 40}, {17, 1, 9}, {5, 0, 60}};
    for (int round = 0; round < 20; ++round) {
        for (const auto& lengths : shapes) {
            uint32_t bytes = 0;
            for (const uint16_t length : lengths)
                bytes += length;
            ASSERT_EQ(send({packet(seed, lengths)}), 1u);
            ASSERT_EQ(execute(), expected(seed, bytes));
            ASSERT_EQ(pending_wqebbs(), 0u);
            ++seed;
        }
    }
}

TEST_F(Mlx5TxInline, ManySegmentsFitTheRing) {
    start_inline(RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    for (uint16_t segments = 1; segments <= 8; ++segments) {
        std::vector<rte_mbuf*> packets;
        const std::vector<uint16_t> lengths(segments, 30);
        for (uint32_t i = 0; i < 70; ++i)
            packets.push_back(i < 64u / segments ? packet(i, lengths) : packet(i, {64}));
        const uint16_t sent = send(packets);
        ASSERT_GE(sent, 64 / segments);
        ASSERT_LE(pending_wqebbs(), 64u);
        for (uint32_t i = 0; i < 64u / segments; ++i)
            ASSERT_EQ(execute(), expected(i, segments * 30u));
        execute_all();
        rte_pktmbuf_free_bulk(packets.data() + sent, static_cast<unsigned>(packets.size()) - sent);
    }
}

TEST_F(Mlx5TxInline, VlanTagIsPutInBySoftware) {
    start_inline(RTE_ETH_TX_OFFLOAD_VLAN_INSERT);
    for (const uint16_t bytes : {14, 15, 64}) {
        rte_mbuf* mbuf = packet(9, {bytes});
        mbuf->ol_flags = RTE_MBUF_F_TX_VLAN;
        mbuf->vlan_tci = 0x1abc; // with the DEI bit
        ASSERT_EQ(send({mbuf}), 1u);
        auto tagged = expected(9, bytes);
        const uint8_t tag[] = {0x81, 0x00, 0x1a, 0xbc};
        tagged.insert(tagged.begin() + 12, std::begin(tag), std::end(tag));
        EXPECT_EQ(execute(), tagged);
    }
}

} // namespace
} // namespace rings_test
