// SPDX-License-Identifier: BSD-3-Clause
// All readers of mapped mlx5 rings produce the same result for the same CQEs, bit for bit.
#include "tests/unit/rings/mlx5_rx.hpp"
#include "tests/unit/rings/received.hpp"

#include <map>

namespace rings_test {
namespace {

struct Scenario {
    const char* name;
    RxSetup setup;
    bool blocks = false; ///< some completions are compressed
};

class Mlx5RxDifferential : public Mlx5Rx,
                           public testing::WithParamInterface<std::tuple<Scenario, unsigned>> {
  protected:
    static constexpr uint32_t kPackets = 20000;

    uint32_t random_length() { return 60 + random_() % 400; }

    void deliver_some(bool blocks) {
        for (uint32_t n = random_() % 80; n > 0; --n) {
            // How many are posted depends on when a reader refills; at least half a ring is.
            const uint32_t free = rq->wqes() / 2u - (sequence - taken_);
            if (free < 2 || posted() < 2) return;
            if (!blocks || random_() % 3 != 0) {
                deliver(random_length(), random_cqe(random_));
                continue;
            }
            const uint32_t most = std::min<uint32_t>({posted(), free, mlx5::kMaxCompressed});
            std::vector<mlx5::MiniCqe> minis(2 + random_() % (most - 1));
            for (mlx5::MiniCqe& mini : minis) {
                mini.result = random_();
                mini.byte_count = random_length();
            }
            deliver_block(random_cqe(random_), minis);
        }
    }

    /// What the reader makes of a scenario that depends only on the seed.
    std::vector<Received> transcript(unsigned bits, const Scenario& scenario) {
        random_.seed(7);
        simd_bits = bits;
        sequence = taken_ = 0;
        consumed = 0;
        spec = {};
        start(scenario.setup);
        std::vector<Received> all;
        uint64_t bytes = 0;
        while (sequence < kPackets && !HasFatalFailure()) {
            deliver_some(scenario.blocks);
            rte_mbuf* mbufs[100];
            const auto wanted = static_cast<uint16_t>(random_() % std::size(mbufs));
            const uint32_t waiting = rawqp::kMlx5Format.rx_queue_count(ring) / spec.segments;
            const uint16_t count = receive(mbufs, wanted);
            taken_ += count;
            EXPECT_EQ(count, std::min<uint32_t>(wanted, waiting));
            for (uint16_t i = 0; i < count; ++i) {
                bytes += mbufs[i]->pkt_len;
                all.push_back(look(mbufs[i], static_cast<uint32_t>(all.size())));
            }
        }
        EXPECT_EQ(ring->counters.packets, all.size());
        EXPECT_EQ(ring->counters.bytes, bytes);
        finish();
        return all;
    }
    Received look(rte_mbuf* mbuf, uint32_t packet) {
        const Received got = received_of(*mbuf, spec.offloads);
        take(mbuf, packet, mbuf->pkt_len);
        return got;
    }

    std::mt19937 random_;
    uint32_t taken_ = 0;
};

TEST_P(Mlx5RxDifferential, ReadersAgree) {
    const auto& [scenario, bits] = GetParam();
    SKIP_WITHOUT_VECTORS(bits);
    static std::map<std::string, std::vector<Received>> scalars;
    std::vector<Received>& scalar = scalars[scenario.name];
    if (scalar.empty()) scalar = transcript(kScalar, scenario);
    ASSERT_GT(scalar.size(), kPackets / 2);
    const std::vector<Received> other = transcript(bits, scenario);
    expect_equal(other, scalar);
}

constexpr uint64_t kNoHash = RTE_ETH_RX_OFFLOAD_CHECKSUM;

const Scenario kScenarios[] = {
    {"plain", {}},
    {"offloads", {.offloads = kAllOffloads}},
    {"marks", {.offloads = kAllOffloads, .mark = true}},
    {"marks_only", {.mark = true}},
    {"metadata", {.offloads = kAllOffloads, .mark = true, .metadata = true}},
    {"blocks_metadata",
     {.cq_entries = 128,
      .offloads = kAllOffloads,
      .mark = true,
      .metadata = true,
      .compressed = true},
     true},
    {"checksum_only", {.offloads = kNoHash}},
    {"kept_crc", {.offloads = kAllOffloads | RTE_ETH_RX_OFFLOAD_KEEP_CRC}},
    {"time_stamps", {.offloads = kAllOffloads | RTE_ETH_RX_OFFLOAD_TIMESTAMP, .mark = true}},
    {"real_time_stamps",
     {.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP | RTE_ETH_RX_OFFLOAD_KEEP_CRC, .real_time = true}},
    {"blocks_kept_crc",
     {.cq_entries = 128,
      .offloads = kAllOffloads | RTE_ETH_RX_OFFLOAD_KEEP_CRC,
      .compressed = true},
     true},
    {"other_laps", {.descriptors = 128, .cq_entries = 512, .offloads = kAllOffloads}},
    {"cached_pool", {.descriptors = 256, .pool_size = 800, .cq_entries = 256, .cache = 128}},
    {"small_cache", {.descriptors = 256, .pool_size = 800, .cq_entries = 256, .cache = 40}},
    {"empty_pool", {.pool_size = 90, .offloads = kAllOffloads}},
    {"blocks", {.cq_entries = 128, .offloads = kAllOffloads, .compressed = true}, true},
    {"blocks_no_hash", {.cq_entries = 128, .offloads = kNoHash, .compressed = true}, true},
    {"blocks_marks",
     {.descriptors = 256,
      .pool_size = 800,
      .cq_entries = 512,
      .offloads = kAllOffloads,
      .mark = true,
      .compressed = true,
      .cache = 64},
     true},
    {"blocks_scattered",
     {.descriptors = 128,
      .segments = 2,
      .data_room = 256 + RTE_PKTMBUF_HEADROOM,
      .cq_entries = 128,
      .offloads = kAllOffloads,
      .compressed = true},
     true},
};

INSTANTIATE_TEST_SUITE_P(Scenarios, Mlx5RxDifferential,
                         testing::Combine(testing::ValuesIn(kScenarios),
                                          testing::ValuesIn(kVectorWidths)),
                         kByNameAndWidth);

} // namespace
} // namespace rings_test
