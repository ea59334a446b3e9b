// SPDX-License-Identifier: BSD-3-Clause
// All readers of striding queues produce the same result for the same CQEs, bit for bit.
#include "tests/unit/rings/mlx5_striding.hpp"
#include "tests/unit/rings/received.hpp"

#include <map>

namespace rings_test {
namespace {

struct Scenario {
    const char* name;
    RxSetup setup;
    uint32_t most = 1900; ///< largest packet, in bytes
    bool blocks = false;  ///< some completions are compressed
    uint32_t held = 0;    ///< packets that the application keeps
};

class Mlx5StridingDifferential
    : public Mlx5StridingRing,
      public testing::WithParamInterface<std::tuple<Scenario, unsigned>> {
  protected:
    static constexpr uint32_t kPackets = 10000;

    /// As many packets as certainly fit: each may need a filler, and all strides of a WQE.
    void deliver_some(const Scenario& scenario) {
        for (uint32_t n = random_() % 40; n > 0; --n) {
            const uint32_t bytes = random_length(scenario);
            const uint32_t waiting = format.rx_queue_count(ring);
            if (waiting + 12 > kStrides * (kWqes - 2) / strides_for(scenario.most)) return;
            if (!scenario.blocks || random_() % 3 != 0) {
                deliver(bytes, random_cqe(random_));
                continue;
            }
            std::vector<uint32_t> sizes(2 + random_() % 4);
            for (uint32_t& size : sizes)
                size = random_length(scenario);
            deliver_block(random_cqe(random_), sizes);
        }
    }
    uint32_t random_length(const Scenario& scenario) {
        if (random_() % 2 == 0) return 60 + random_() % (2 * kCopyBytes);
        return 60 + random_() % (scenario.most - 60);
    }

    std::vector<Received> transcript(unsigned bits, const Scenario& scenario) {
        random_.seed(7);
        simd_bits = bits;
        sequence = 0;
        consumed = 0;
        used_ = 0;
        spec = {};
        start(scenario.setup);
        std::vector<Received> all;
        std::vector<rte_mbuf*> held;
        uint64_t bytes = 0;
        while (sequence < kPackets && !HasFailure()) {
            deliver_some(scenario);
            rte_mbuf* mbufs[100];
            const auto wanted = static_cast<uint16_t>(random_() % std::size(mbufs));
            const uint16_t count = receive(mbufs, wanted);
            for (uint16_t i = 0; i < count; ++i) {
                all.push_back(received_of(*mbufs[i], spec.offloads));
                held.push_back(mbufs[i]);
                bytes += mbufs[i]->pkt_len;
            }
            const size_t over = held.size() - std::min<size_t>(held.size(), scenario.held);
            for (size_t i = 0; i < over; ++i)
                take(held[i], static_cast<uint32_t>(all.size() - held.size() + i),
                     held[i]->pkt_len);
            held.erase(held.begin(), held.begin() + static_cast<ptrdiff_t>(over));
        }
        EXPECT_EQ(ring->counters.packets, all.size());
        EXPECT_EQ(ring->counters.bytes, bytes);
        EXPECT_EQ(resets, 0);
        rte_pktmbuf_free_bulk(held.data(), static_cast<unsigned>(held.size()));
        stop();
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
        return all;
    }
    std::mt19937 random_;
};

TEST_P(Mlx5StridingDifferential, ReadersAgree) {
    const auto& [scenario, bits] = GetParam();
    SKIP_WITHOUT_VECTORS(bits);
    static std::map<std::string, std::vector<Received>> scalars;
    std::vector<Received>& scalar = scalars[scenario.name];
    if (scalar.empty()) scalar = transcript(kScalar, scenario);
    ASSERT_GT(scalar.size(), kPackets / 2);
    const std::vector<Received> other = transcript(bits, scenario);
    ASSERT_EQ(std::string_view(burst.description).substr(0, name().size()), name());
    expect_equal(other, scalar);
}

const Scenario kScenarios[] = {
    {"plain", {}},
    {"offloads", {.offloads = kAllOffloads}},
    {"marks", {.offloads = kAllOffloads, .mark = true}},
    {"metadata", {.offloads = kAllOffloads, .mark = true, .metadata = true}},
    {"kept_crc", {.offloads = kAllOffloads | RTE_ETH_RX_OFFLOAD_KEEP_CRC}},
    {"time_stamps", {.offloads = kAllOffloads | RTE_ETH_RX_OFFLOAD_TIMESTAMP, .mark = true}},
    {"real_time_stamps", {.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP, .real_time = true}},
    {"other_laps", {.cq_entries = 256, .offloads = kAllOffloads}},
    {"several_strides", {.data_room = 6000, .offloads = kAllOffloads}, 5000},
    {"few_mbufs", {.pool_size = 70, .offloads = kAllOffloads}},
    {"buffers_held", {.pool_size = 600, .offloads = kAllOffloads}, 1900, false, 300},
    {"blocks", {.cq_entries = 128, .offloads = kAllOffloads, .compressed = true}, 1900, true},
};

INSTANTIATE_TEST_SUITE_P(Scenarios, Mlx5StridingDifferential,
                         testing::Combine(testing::ValuesIn(kScenarios),
                                          testing::ValuesIn(kVectorWidths)),
                         kByNameAndWidth);

} // namespace
} // namespace rings_test
