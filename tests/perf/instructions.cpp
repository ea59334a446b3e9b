// SPDX-License-Identifier: BSD-3-Clause
// Runs each burst function of the mlx5 rings on fake rings under callgrind, which counts only the
// instructions of the bursts. Without valgrind it runs but measures nothing.
//
// One dump per case, named in its "desc: Trigger" line: "rx scalar", "tx AVX2 fast-free" …
#include "tests/perf/queues.hpp"

#include <fmt/format.h>

namespace {

using namespace perf_test;

constexpr uint16_t kDescriptors = 256;
constexpr int kWarmUp = 32 * kBurst, kCounted = 64 * kBurst; // packets: several times round

rte_mempool* pool() {
    static rte_mempool* const pool = make_pool(2047, RTE_MBUF_DEFAULT_BUF_SIZE);
    return pool;
}

/// Counts what `burst` does with kCounted packets, `packets` at a time. `before` is not counted.
template <class Before, class Burst>
void count(const std::string& name, uint16_t packets, Before before, Burst burst) {
    for (int i = 0; i < kWarmUp + kCounted; i += packets) {
        before();
        if (i == kWarmUp) CALLGRIND_ZERO_STATS;
        if (i >= kWarmUp) CALLGRIND_TOGGLE_COLLECT;
        const uint16_t done = burst();
        if (i >= kWarmUp) CALLGRIND_TOGGLE_COLLECT;
        if (done != packets) fail(name + ": a burst was not full");
    }
    CALLGRIND_DUMP_STATS_AT(name.c_str());
}

/// Receives bursts of up to kBurst, with `packets` packets available.
void count_receive(const std::string& name, Receiver& queue, uint16_t packets = kBurst) {
    Packets mbufs{};
    count(
        name, packets, [&] { queue.prepare(mbufs, packets); },
        [&] { return queue.burst()(queue.ring(), mbufs.data(), kBurst); });
    Receiver::clean_up(mbufs, packets);
}

void receive(const std::string& name, unsigned bits, const Receiver::Kind& kind = {}) {
    Receiver queue(pool(), kDescriptors, bits, kind);
    count_receive(name, queue);
}

void send(const std::string& name, unsigned bits, uint64_t offloads, uint16_t packets = kBurst) {
    Sender queue(pool(), kDescriptors, bits, offloads);
    Packets mbufs{};
    count(
        name, packets, [&] { queue.prepare(mbufs, packets); },
        [&] { return queue.burst()(queue.ring(), mbufs.data(), packets); });
}

void small_bursts() {
    for (const uint16_t packets : {1, 4, 8, 16}) {
        Receiver receiver(pool(), kDescriptors, kAvx2, {});
        count_receive(fmt::format("rx AVX2 burst {}", packets), receiver, packets);
        send(fmt::format("tx AVX2 fast-free burst {}", packets), kAvx2,
             RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE, packets);
        send(fmt::format("tx AVX2 burst {}", packets), kAvx2, 0, packets);
    }
}

} // namespace

int main() {
    if (!test_eal::start()) fail("EAL did not start");
    constexpr uint64_t kChecksums =
        RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
    constexpr uint64_t kFastFree = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
    receive("rx scalar", kScalar);
    receive("rx AVX2", kAvx2);
    receive("rx scalar checksum", kScalar, {.offloads = kChecksums});
    receive("rx AVX2 checksum", kAvx2, {.offloads = kChecksums});
    receive("rx AVX2 compressed", kAvx2, {.compressed = true});
    receive("rx striding", kScalar, {.striding = true});
    receive("rx striding checksum", kScalar, {.offloads = kChecksums, .striding = true});
    receive("rx striding attached", kScalar, {.striding = true, .bytes = 1000});
    receive("rx striding AVX2", kAvx2, {.striding = true});
    receive("rx striding AVX2 checksum", kAvx2, {.offloads = kChecksums, .striding = true});
    receive("rx striding AVX2 attached", kAvx2, {.striding = true, .bytes = 1000});
    receive("rx striding AVX2 compressed", kAvx2, {.striding = true, .compressed = true});
    receive("rx striding AVX2 compressed attached", kAvx2,
            {.striding = true, .bytes = 1000, .compressed = true});
    send("tx scalar fast-free", kScalar, kFastFree);
    send("tx AVX2 fast-free", kAvx2, kFastFree);
    send("tx scalar", kScalar, 0);
    send("tx AVX2", kAvx2, 0);
    small_bursts();
#if defined(__clang__)
    printf("compiler clang %d\n", __clang_major__);
#else
    printf("compiler gcc %d\n", __GNUC__);
#endif
    printf("packets %d\n", kCounted);
    return 0;
}
