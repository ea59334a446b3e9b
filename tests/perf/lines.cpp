// SPDX-License-Identifier: BSD-3-Clause
// The same bursts on 1, 4, 16 and 64 queues under callgrind's cache simulation: how many lines are
// no longer where the queue's last burst left them? One dump per case, as in instructions.cpp.
#include "tests/perf/queues.hpp"

#include <deque>
#include <vector>

namespace {

using namespace perf_test;

constexpr uint16_t kDescriptors = 8192; // of all queues together: the same memory for 1 as for 64
constexpr size_t kBursts = 64;          // per round, in turn on the queues
constexpr int kWarmUp = 2, kRounds = 4;

/// Device and application prepare a round, which is not counted; then its bursts are counted.
template <class Queue, class Kind>
void count(const std::string& name, rte_mempool* pool, size_t queues, const Kind& kind) {
    std::deque<Queue> all;
    for (size_t i = 0; i < queues; ++i)
        all.emplace_back(pool, static_cast<uint16_t>(kDescriptors / queues), kAvx2, kind);
    std::vector<Packets> mbufs(kBursts);
    for (int round = 0; round < kWarmUp + kRounds; ++round) {
        for (size_t i = 0; i < kBursts; ++i)
            all[i % queues].prepare(mbufs[i]);
        if (round == kWarmUp) CALLGRIND_ZERO_STATS;
        for (size_t i = 0; i < kBursts; ++i) {
            const auto burst = all[i % queues].burst();
            void* const ring = all[i % queues].ring();
            if (round >= kWarmUp) CALLGRIND_TOGGLE_COLLECT;
            const uint16_t done = burst(ring, mbufs[i].data(), kBurst);
            if (round >= kWarmUp) CALLGRIND_TOGGLE_COLLECT;
            if (done != kBurst) fail(name + ": a burst was not full");
        }
    }
    CALLGRIND_DUMP_STATS_AT(name.c_str());
    for (Packets& some : mbufs)
        Queue::clean_up(some);
}

} // namespace

int main() {
    if (!test_eal::start()) fail("EAL did not start");
    // Small mbufs: EAL has little memory here.
    rte_mempool* const pool = make_pool(12287, 2 * RTE_PKTMBUF_HEADROOM);
    for (const size_t queues : {1, 4, 16, 64}) {
        count<Receiver>(fmt::format("rx {} queues", queues), pool, queues, Receiver::Kind{});
        count<Sender>(fmt::format("tx {} queues", queues), pool, queues,
                      RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE);
    }
    printf("bursts %zu\n", kRounds * kBursts);
    return 0;
}
