// SPDX-License-Identifier: BSD-3-Clause
// Packets with a time to be sent at: the WQEs that wait for it, and invalid times.
#include "common/mlx5/wait.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "tests/unit/rings/mlx5_tx.hpp"

namespace rings_test {
namespace {

using mlx5::WqeOpcode;

constexpr uint64_t kMask = (uint64_t{1} << 33) - 1;
constexpr uint64_t kSecond = 1'000'000'000;
/// Several whole periods of the mask, and a bit more.
constexpr uint64_t kNow = 5 * (kMask + 1) + 1000;

class Mlx5TxSchedule : public Mlx5Tx {
  protected:
    void start(TxSetup setup = {}) {
        setup.offloads |= RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP;
        setup.time_mask = kMask;
        mrs.clock_ticks = kNow;
        Mlx5Tx::start(setup);
    }
    /// The next `count` packets leave in order, whatever waits precede them.
    void expect_sent(uint32_t count) {
        for (uint32_t seed = 0; seed < count; ++seed) {
            while (wire.empty())
                execute_wqe();
            EXPECT_EQ(execute(), expected(seed, 64));
        }
    }
    static constexpr Shape kWaits{WqeOpcode::wait, 3}, kPacket{WqeOpcode::send, 3};
};

TEST_F(Mlx5TxSchedule, AWqeWaitsForTheTime) {
    start();
    const uint64_t time = kNow + kSecond;
    ASSERT_EQ(send({packet_at(time), packet(1, {64})}), 2u);
    EXPECT_THAT(posted(), testing::ElementsAre(kWaits, kPacket, kPacket));
    const auto control = sq->segment<mlx5::WqeCtrlSeg>(0, 0);
    EXPECT_EQ(control.opmod_idx_opcode, 2u << 24 | 0x0fu) << "opmod WAIT_TIME, index 0, WAIT";
    EXPECT_EQ(control.qpn_ds, FakeSq::kNumber << 8 | 3u);
    EXPECT_EQ(control.fm_ce_se, 0);
    const auto words = sq->wqe(0, 48);
    const std::vector<uint8_t> want = {0, 0, 0, 5,                         // cyclic smaller
                                       0, 0, 0, 0, 0,    0,    0,    0,    // no lkey, …
                                       0, 0, 0, 0,                         // … no address
                                       0, 0, 0, 0, 0x3b, 0x9a, 0xcd, 0xe8, // 1'000'001'000
                                       0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff};
    EXPECT_EQ(std::vector<uint8_t>(words.begin() + 16, words.end()), want);
    settle();
    EXPECT_EQ(in_use(), 0u);
    EXPECT_EQ(ring->counters.packets, 2u);
    EXPECT_EQ(ring->counters.past_times + ring->counters.future_times, 0u);
}

TEST_F(Mlx5TxSchedule, OthersShareWqesBesideIt) {
    start({.multi_packet = true});
    ASSERT_EQ(send({packet(0, {64}), packet(1, {64}), packet_at(kNow + kSecond, 2),
                    packet_at(kNow + 2 * kSecond, 3), packet(4, {64}), packet(5, {64})}),
              6u);
    constexpr Shape kTwo{WqeOpcode::enhanced_mpw, 4};
    EXPECT_THAT(posted(), testing::ElementsAre(kTwo, kWaits, kPacket, kWaits, kPacket, kTwo));
    expect_sent(6);
}

TEST_F(Mlx5TxSchedule, TimesThatThePortDoesNotKeepAreCounted) {
    start();
    // In the past: the device does not wait, unless it is so long ago that it seems to be ahead.
    ASSERT_EQ(send({packet_at(kNow - kSecond), packet_at(0)}), 2u);
    EXPECT_THAT(posted(), testing::ElementsAre(kWaits, kPacket, kPacket));
    EXPECT_EQ(ring->counters.past_times, 2u);
    EXPECT_EQ(ring->counters.future_times, 0u);
    execute_all();
    // The limit is half of the mask, less the time that has passed.
    ASSERT_EQ(send({packet_at(kNow + kMask / 2), packet_at(kNow + kMask / 2 + 100 * kSecond)}), 2u);
    EXPECT_THAT(posted(), testing::ElementsAre(kWaits, kPacket, kPacket));
    EXPECT_EQ(ring->counters.past_times, 2u);
    EXPECT_EQ(ring->counters.future_times, 1u);
    execute_all();
}

TEST_F(Mlx5TxSchedule, TheClockGoesOnBetweenLooks) {
    start();
    const uint64_t begin = rte_rdtsc();
    mrs.clock_error = EIO;                      // the clock cannot be read any more
    const uint64_t late = rte_get_tsc_hz() / 5; // longer than the interval between readings
    while (rte_rdtsc() - begin < late)
        rte_pause();
    ASSERT_EQ(send({packet_at(kNow + kSecond / 20), packet_at(kNow + 100 * kSecond)}), 2u);
    EXPECT_EQ(ring->counters.past_times, 1u) << "now it is past";
    EXPECT_EQ(ring->counters.future_times, 1u);
    execute_all();
    mrs.clock_error = 0;
    mrs.clock_ticks = kNow + 99 * kSecond;
    const uint64_t again = rte_rdtsc();
    while (rte_rdtsc() - again < late)
        rte_pause();
    ASSERT_EQ(send({packet_at(kNow + 100 * kSecond)}), 1u);
    EXPECT_EQ(ring->counters.future_times, 1u) << "another look told";
    EXPECT_EQ(ring->counters.past_times, 1u);
    execute_all();
}

TEST_F(Mlx5TxSchedule, NobodyWaitsForWhatIsDropped) {
    start();
    rte_mbuf* const runt = packet_at(kNow + kSecond);
    runt->data_len = runt->pkt_len = 5;
    ASSERT_EQ(send({runt, packet(1, {64})}), 2u);
    EXPECT_THAT(posted(), testing::ElementsAre(kPacket));
    EXPECT_EQ(ring->counters.errors, 1u);
    execute_all();
}

/// A ring of 64 WQEBBs has room for 32 packets with their waits; the rest is sent later.
TEST_F(Mlx5TxSchedule, WhatFindsNoRoomIsNotTaken) {
    start();
    for (int lap = 0; lap < 5; ++lap) {
        std::vector<rte_mbuf*> packets;
        for (uint32_t i = 0; i < 40; ++i)
            packets.push_back(packet_at(kNow + kSecond + i, i));
        ASSERT_EQ(send(packets), 32u) << lap;
        ASSERT_EQ(pending_wqebbs(), 64u);
        expect_sent(32);
        ASSERT_EQ(send({packets.begin() + 32, packets.end()}), 8u);
        settle();
    }
    EXPECT_EQ(in_use(), 0u);
}

/// Room for only one of the two is not enough.
TEST_F(Mlx5TxSchedule, APacketAndItsWaitFindRoomTogether) {
    start();
    std::vector<rte_mbuf*> packets = {packet(0, {64})};
    for (uint32_t i = 1; i < 40; ++i)
        packets.push_back(packet_at(kNow + kSecond + i, i));
    ASSERT_EQ(send(packets), 32u);
    ASSERT_EQ(pending_wqebbs(), 63u);
    expect_sent(32);
    ASSERT_EQ(send({packets.begin() + 32, packets.end()}), 8u);
    settle();
}

TEST_F(Mlx5TxSchedule, QueuesHaveRoomForWaits) {
    start();
    EXPECT_EQ(rawqp::kMlx5Format.tx_needs(spec).cap.max_send_wr, 2u * spec.descriptors);
    spec.offloads &= ~RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP;
    EXPECT_EQ(rawqp::kMlx5Format.tx_needs(spec).cap.max_send_wr, spec.descriptors);
}

TEST_F(Mlx5TxSchedule, AfterAnErrorTheRightPacketsAreLost) {
    start();
    ASSERT_EQ(send({packet_at(kNow + 1), packet_at(kNow + 2), packet_at(kNow + 3)}), 3u);
    executed = 2; // one packet has left, and the next one's wait fails
    cq->write_error(mlx5::CqeOpcode::req_error, mlx5::CqeSyndrome::local_qp_operation, executed);
    ASSERT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(ring->counters.packets, 1u);
    EXPECT_EQ(ring->counters.errors, 2u);
    EXPECT_EQ(in_use(), 0u);
}

TEST_F(Mlx5TxSchedule, StampsAreThePacketsNotTheWaits) {
    start();
    const eth_tx_burst_t stamping = rawqp::kMlx5Format.tx_stamping(spec.port_id, burst.function);
    rte_mbuf* one = packet_at(kNow + kSecond);
    one->ol_flags |= RTE_MBUF_F_TX_IEEE1588_TMST;
    ASSERT_EQ(stamping(ring, &one, 1), 1u);
    execute_all();
    EXPECT_EQ(rawqp::kMlx5Format.tx_take_stamp(*ring), 2u) << "of the second WQE";
}

TEST_F(Mlx5TxSchedule, OtherQueuesDoNotLook) {
    Mlx5Tx::start();
    time_flag =
        rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_TX_TIMESTAMP_NAME, nullptr) >= 0
            ? uint64_t{1} << rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_TX_TIMESTAMP_NAME, nullptr)
            : 0;
    rte_mbuf* const timed = packet(0, {64});
    timed->ol_flags |= time_flag;
    ASSERT_EQ(send({timed}), 1u);
    EXPECT_THAT(posted(), testing::ElementsAre(kPacket));
    execute_all();
}

/// Each packet may be preceded by a WQE that waits, and followed by one that asks for a completion.
TEST_F(Mlx5TxSchedule, TheCqHoldsACompletionOfEachWqe) {
    start({.sq_wqebbs = 256});
    for (uint32_t i = 0; i < 64; ++i) {
        ASSERT_EQ(send({packet_at(kNow + (i + 1) * kSecond, i)}), 1u);
        ASSERT_EQ(send(nullptr, 0), 0u);
    }
    ASSERT_GE(posted().size(), 128u);
    // A CQ has a power of two of entries, and more than were asked for.
    EXPECT_LE(posted().size(), 2 * size_t{rawqp::tx_cq_depth(64, spec.offloads)});
    EXPECT_GT(posted().size(), 2 * size_t{rawqp::tx_cq_depth(64, 0)}) << "without waits";
    execute_all();
}

} // namespace
} // namespace rings_test
