// SPDX-License-Identifier: BSD-3-Clause
// PTP messages: which frames are recognized, and the times when they were received and sent.
#include "tests/unit/rings/mlx5_striding.hpp"
#include "tests/unit/rings/mlx5_tx.hpp"

#include <initializer_list>

namespace rings_test {
namespace {

using rawqp::PtpKind;
using rawqp::PtpStamps;

constexpr uint8_t kSync = 0, kPdelayResp = 3, kFollowUp = 8, kAnnounce = 11;

Bytes joined(std::initializer_list<Bytes> parts) {
    Bytes all;
    for (const Bytes& part : parts)
        all.insert(all.end(), part.begin(), part.end());
    return all;
}
/// A header of `size` bytes, some of which are set.
Bytes header(size_t size, std::initializer_list<std::pair<size_t, uint8_t>> set) {
    Bytes bytes(size);
    for (const auto& [at, value] : set)
        bytes[at] = value;
    return bytes;
}
const Bytes kAddresses(12, 2);
const Bytes kVlan{0x81, 0x00, 0x00, 0x05};
const Bytes kPtpType{0x88, 0xf7};
const Bytes kIpv4 = joined({{0x08, 0x00}, header(20, {{0, 0x45}, {8, 64}, {9, 17}})});
const Bytes kIpv6 = joined({{0x86, 0xdd}, header(40, {{0, 0x60}, {6, 17}})});
Bytes udp(uint16_t port) {
    return header(8, {{2, static_cast<uint8_t>(port >> 8)}, {3, static_cast<uint8_t>(port)}});
}
/// Version 2; the upper half of the first byte is profile-specific.
Bytes message(uint8_t type) { return header(44, {{0, static_cast<uint8_t>(0x10 | type)}, {1, 2}}); }
Bytes over_ethernet(uint8_t type) { return joined({kAddresses, kPtpType, message(type)}); }

class Ptp : public test_eal::EalTest {
  protected:
    PtpKind kind(const Bytes& frame) {
        rte_mbuf* const mbuf = rte_pktmbuf_alloc(pool.get());
        const auto size = static_cast<uint16_t>(frame.size());
        std::copy(frame.begin(), frame.end(),
                  reinterpret_cast<uint8_t*>(rte_pktmbuf_append(mbuf, size)));
        const PtpKind found = rawqp::ptp_kind(*mbuf);
        rte_pktmbuf_free(mbuf);
        return found;
    }
    test_eal::Pool pool = test_eal::make_pool(8);
};

TEST_F(Ptp, MessagesAreToldFromOtherFrames) {
    for (const Bytes& below : {joined({kPtpType}), joined({kVlan, kPtpType}),
                               joined({kIpv4, udp(319)}), joined({kVlan, kIpv6, udp(319)})}) {
        for (const uint8_t type : {kSync, kPdelayResp})
            EXPECT_EQ(kind(joined({kAddresses, below, message(type)})), PtpKind::event);
    }
    EXPECT_EQ(kind(over_ethernet(kFollowUp)), PtpKind::general);
    EXPECT_EQ(kind(over_ethernet(kAnnounce)), PtpKind::general);
    EXPECT_EQ(kind(joined({kAddresses, kIpv6, udp(320), message(kFollowUp)})), PtpKind::general);

    EXPECT_EQ(kind(joined({kAddresses, {0x88, 0xf8}, message(kSync)})), PtpKind::none);
    EXPECT_EQ(kind(joined({kAddresses, kIpv4, udp(321), message(kSync)})), PtpKind::none);
    EXPECT_EQ(kind(joined({kAddresses, kIpv4})), PtpKind::none) << "cut off";
    EXPECT_EQ(kind(joined({kAddresses, kPtpType})), PtpKind::none) << "cut off";
    EXPECT_EQ(kind({1, 2, 3}), PtpKind::none);
    Bytes tcp = kIpv4;
    tcp[2 + 9] = 6;
    EXPECT_EQ(kind(joined({kAddresses, tcp, udp(319), message(kSync)})), PtpKind::none);
}

constexpr RxSetup kStamped{.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP};

/// Receives a Sync, a Follow_Up and a frame of another kind, stamped 7, 8 and 9.
template <class Rings> class PtpRx : public Rings {
  protected:
    void expect_notes(const rawqp::RingFormat& format, const Bytes& other_frame) {
        this->ring->tell_all = this->ring->tell_ptp = true;
        mlx5::Cqe cqe{};
        for (const auto& [frame, time] :
             {std::pair{over_ethernet(kSync), 7}, std::pair{over_ethernet(kFollowUp), 8},
              std::pair{other_frame, 9}}) {
            cqe.timestamp = time;
            this->deliver(frame, cqe);
        }
        constexpr uint64_t kBoth = RTE_MBUF_F_RX_IEEE1588_PTP | RTE_MBUF_F_RX_IEEE1588_TMST;
        rte_mbuf* got[3];
        ASSERT_EQ(this->receive(got, 3), 3u);
        EXPECT_EQ(got[0]->ol_flags & kBoth, kBoth);
        EXPECT_EQ(got[1]->ol_flags & kBoth, RTE_MBUF_F_RX_IEEE1588_PTP);
        EXPECT_EQ(got[2]->ol_flags & kBoth, 0u);
        EXPECT_EQ(got[0]->timesync / PtpStamps::kKept, Rings::kQueue);
        const PtpStamps& kept = format.rx_ptp_stamps(*this->ring);
        EXPECT_EQ(kept.stamps[got[0]->timesync % PtpStamps::kKept], 7u);
        rte_pktmbuf_free_bulk(got, 3);

        this->deliver(over_ethernet(kSync), cqe);
        ASSERT_EQ(this->receive(got, 1), 1u);
        EXPECT_EQ(kept.stamps[got[0]->timesync % PtpStamps::kKept], 9u);
        EXPECT_EQ(kept.stamps[0], 7u) << "the first one's stays";
        rte_pktmbuf_free(got[0]);
        for (uint64_t number = 2; number < 3 * PtpStamps::kKept; ++number) { // the oldest one goes
            cqe.timestamp = 100 + number;
            this->deliver(over_ethernet(kSync), cqe);
            ASSERT_EQ(this->receive(got, 1), 1u);
            ASSERT_EQ(got[0]->timesync,
                      Rings::kQueue * PtpStamps::kKept + number % PtpStamps::kKept);
            ASSERT_EQ(kept.stamps[number % PtpStamps::kKept], 100 + number);
            rte_pktmbuf_free(got[0]);
        }

        this->ring->tell_ptp = false;
        this->deliver(over_ethernet(kSync), cqe);
        ASSERT_EQ(this->receive(got, 1), 1u);
        EXPECT_EQ(got[0]->ol_flags & kBoth, 0u);
        rte_pktmbuf_free(got[0]);
    }
};
using PtpMlx5Rx = PtpRx<Mlx5Rx>;
using PtpMlx5Striding = PtpRx<Mlx5StridingRing>;

TEST_F(PtpMlx5Rx, MessagesAreNotedWithTheirStamps) {
    start(kStamped);
    expect_notes(rawqp::kMlx5Format, joined({kAddresses, kIpv4, udp(1), message(kSync)}));
}
TEST_F(PtpMlx5Striding, MessagesAreNotedWithTheirStamps) {
    start(kStamped);
    expect_notes(format, joined({kAddresses, kIpv4, udp(1), message(kSync)}));
    stop();
}

class PtpMlx5Tx : public Mlx5Tx, public testing::WithParamInterface<bool> {
  protected:
    void SetUp() override {
        start({.offloads = 0, .multi_packet = GetParam()});
        stamping = rawqp::kMlx5Format.tx_stamping(spec.port_id, burst.function);
    }
    rte_mbuf* to_be_stamped() {
        rte_mbuf* const mbuf = packet(1, {64});
        mbuf->ol_flags |= RTE_MBUF_F_TX_IEEE1588_TMST;
        return mbuf;
    }
    uint16_t send_stamping(std::vector<rte_mbuf*> packets) {
        return stamping(ring, packets.data(), static_cast<uint16_t>(packets.size()));
    }
    std::optional<uint64_t> take() { return rawqp::kMlx5Format.tx_take_stamp(*ring); }

    eth_tx_burst_t stamping = nullptr;
};

TEST_P(PtpMlx5Tx, ThePacketsOwnCompletionTells) {
    EXPECT_EQ(take(), std::nullopt);
    ASSERT_EQ(send_stamping({packet(0, {64}), packet(1, {64}), to_be_stamped(), packet(2, {64})}),
              4u);
    EXPECT_EQ(take(), std::nullopt) << "not sent yet";
    const int wqes_before = GetParam() ? 1 : 2;
    for (int i = 0; i < wqes_before; ++i)
        execute_wqe();
    EXPECT_EQ(take(), std::nullopt) << "the one before it";
    execute_wqe();
    const uint64_t time = clock;
    execute_all();
    EXPECT_EQ(send(nullptr, 0), 0u); // polls the completions
    EXPECT_EQ(take(), time);
    EXPECT_EQ(take(), std::nullopt) << "once";
    EXPECT_EQ(wire.size(), 0u);
}

TEST_P(PtpMlx5Tx, AnEmptyBurstFreesWhatWasSent) {
    ASSERT_EQ(send_stamping({packet(0, {64})}), 1u);
    EXPECT_EQ(send_stamping({}), 0u) << "requests a completion";
    execute_all();
    EXPECT_EQ(send_stamping({}), 0u);
    EXPECT_EQ(in_use(), 0u);
}

TEST_P(PtpMlx5Tx, PacketsAfterItAskForCompletionsAsSeldomAsEver) {
    ASSERT_EQ(send_stamping({to_be_stamped()}), 1u);
    for (int i = 0; i < 8; ++i)
        ASSERT_EQ(send_stamping({packet(0, {64})}), 1u);
    execute_all();
    EXPECT_EQ(completions, 1) << "its own";
}

TEST_P(PtpMlx5Tx, TheLastOneCounts) {
    ASSERT_EQ(send_stamping({to_be_stamped(), to_be_stamped(), packet(0, {64})}), 3u);
    execute_wqe();
    EXPECT_EQ(take(), std::nullopt);
    execute_wqe();
    const uint64_t time = clock;
    execute_all();
    EXPECT_EQ(take(), time);
}

TEST_P(PtpMlx5Tx, AFullRingTakesNoMore) {
    std::vector<rte_mbuf*> packets;
    packets.reserve(100);
    for (int i = 0; i < 100; ++i)
        packets.push_back(i % 3 == 0 ? to_be_stamped() : packet(0, {64}));
    const uint16_t sent = send_stamping(packets);
    EXPECT_EQ(sent, 64u);
    rte_pktmbuf_free_bulk(&packets[sent], static_cast<unsigned>(packets.size() - sent));
    execute_all();
    EXPECT_NE(take(), std::nullopt);
}

TEST_P(PtpMlx5Tx, AStampThatWasOverwrittenIsNotThere) {
    ASSERT_EQ(send_stamping({to_be_stamped()}), 1u);
    int sent = 0;
    for (const int laps : {3, 64}) { // after 64, a WQE with its index completes in its CQ entry
        for (; sent < laps * 64 * 16; ++sent) { // every 16th packet requests a completion
            ASSERT_EQ(send({packet(0, {64})}), 1u);
            execute_all();
        }
        EXPECT_EQ(take(), std::nullopt) << laps;
    }
}

TEST_P(PtpMlx5Tx, ARestartForgetsWhatWasToBeStamped) {
    // The last WQE of 16 packets requests a completion; the stamped packet has the same index.
    constexpr size_t kAskEvery = 16;
    const size_t before = GetParam() ? 0 : kAskEvery - 1;
    std::vector<rte_mbuf*> packets;
    for (size_t i = 0; i < before; ++i)
        packets.push_back(packet(0, {64}));
    packets.push_back(to_be_stamped());
    ASSERT_EQ(send_stamping(packets), packets.size());
    rawqp::kMlx5Format.tx_stop(*ring);
    forget();
    rawqp::kMlx5Format.tx_start(*ring);
    packets.clear();
    for (size_t i = 0; i < kAskEvery; ++i)
        packets.push_back(packet(0, {64}));
    ASSERT_EQ(send_stamping(packets), kAskEvery);
    execute_all();
    EXPECT_EQ(completions, 1);
    EXPECT_EQ(take(), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Wqes, PtpMlx5Tx, testing::Bool(),
                         [](const auto& info) { return info.param ? "multi_packet" : "single"; });

} // namespace
} // namespace rings_test
