// SPDX-License-Identifier: BSD-3-Clause
// Send on mapped mlx5 rings: doorbells and BlueFlame.
#include "tests/unit/rings/mlx5_tx.hpp"

namespace rings_test {
namespace {

TEST_F(Mlx5Tx, DoorbellsAlternateBetweenBlueFlameBuffers) {
    start();
    constexpr size_t kSecond = FakeSq::kBlueFlame / 8;
    for (uint32_t i = 0; i < 6; ++i) {
        std::fill(sq->uar.begin(), sq->uar.end(), 0);
        ASSERT_EQ(send({packet(i, {64}), packet(i, {64})}), 2u);
        const auto wqe = sq->wqe(static_cast<uint16_t>(2 * i + 1), 8);
        uint64_t last;
        memcpy(&last, wqe.data(), sizeof last);
        EXPECT_EQ(sq->uar[0], i % 2 == 0 ? last : 0);
        EXPECT_EQ(sq->uar[kSecond], i % 2 == 0 ? 0 : last);
    }
}

/// What a burst writes to the two buffers of the register.
class Mlx5TxBlueFlame : public Mlx5Tx {
  protected:
    /// How many bytes of the first WQE are written to the next buffer; the other must not change.
    size_t written(const std::vector<rte_mbuf*>& packets) {
        const uint16_t at = sq->doorbell.send;
        std::fill(sq->uar.begin(), sq->uar.end(), kUntouched);
        EXPECT_EQ(send(packets), packets.size());
        const auto half = sq->uar.begin() + std::ssize(sq->uar) / 2;
        const auto first = second ? half : sq->uar.begin();
        const auto end = second ? sq->uar.end() : half;
        const auto stop = std::find(first, end, kUntouched);
        EXPECT_EQ(std::count(sq->uar.begin(), sq->uar.end(), kUntouched),
                  std::ssize(sq->uar) - (stop - first));
        const size_t bytes = static_cast<size_t>(stop - first) * sizeof(uint64_t);
        if (bytes > sizeof(uint64_t)) {
            EXPECT_EQ(memcmp(&*first, sq->wqe(at, bytes).data(), bytes), 0);
        }
        second = !second;
        execute_all();
        return bytes;
    }
    static constexpr uint64_t kUntouched = 0x5a5a5a5a5a5a5a5a;
    bool second = false;
};

TEST_F(Mlx5TxBlueFlame, WritesASingleWqe) {
    start({.offloads = 0, .blue_flame = true});
    EXPECT_TRUE(rawqp::kMlx5Format.tx_needs(spec).thread_domain);
    for (uint32_t i = 0; i < 200; ++i) { // past the end of the ring
        EXPECT_EQ(written({packet(i, {64})}), 64u);
        EXPECT_EQ(written({packet(i, {64}), packet(i, {64})}), 8u);
    }
}

TEST_F(Mlx5TxBlueFlame, WritesAllPacketsOfOneWqe) {
    start({.descriptors = 256,
           .offloads = 0,
           .sq_wqebbs = 256,
           .multi_packet = true,
           .blue_flame = true});
    for (const size_t count : {1, 2, 3, 6, 7, 14, 15, 32}) {
        std::vector<rte_mbuf*> packets;
        for (uint32_t i = 0; i < count; ++i)
            packets.push_back(packet(i, {60}));
        EXPECT_EQ(written(packets), count <= 14 ? (2 + count + 3) / 4 * 64 : 8u) << count;
    }
}

TEST_F(Mlx5TxBlueFlame, NeedsARegisterOfItsOwn) {
    start({.offloads = 0, .blue_flame = true, .own_register = false});
    EXPECT_EQ(written({packet(1, {64})}), 8u);
}

TEST_F(Mlx5TxBlueFlame, IsNotTheDefault) {
    start({.offloads = 0});
    EXPECT_FALSE(rawqp::kMlx5Format.tx_needs(spec).thread_domain);
    EXPECT_EQ(written({packet(1, {64})}), 8u);
}

TEST_F(Mlx5TxBlueFlame, AWqeThatWrapsIsNotWritten) {
    start({.blue_flame = true});
    for (int i = 0; i < 63; ++i) // up to the last WQEBB
        ASSERT_EQ(written({packet(1, {64})}), 64u);
    EXPECT_EQ(written({packet(1, {20, 20, 20, 20})}), 8u);
    EXPECT_EQ(written({packet(1, {20, 20, 20, 20})}), 128u);
}

} // namespace
} // namespace rings_test
