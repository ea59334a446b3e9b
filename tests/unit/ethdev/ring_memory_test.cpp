// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/memory/ring_memory.hpp"

#include "drivers/net/rawqp/dpdk.hpp"
#include "tests/unit/eal.hpp"

#include <gtest/gtest.h>
#include <utility>

namespace rawqp {
namespace {

class RingHeapTest : public test_eal::EalTest {};

/// What is allocated in DPDK's heaps: number of blocks and bytes.
std::pair<unsigned, size_t> in_use() {
    std::pair<unsigned, size_t> sum{};
    for (unsigned i = 0; i < rte_socket_count(); ++i) {
        rte_malloc_socket_stats stats{};
        if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) != 0) continue;
        sum.first += stats.alloc_count;
        sum.second += stats.heap_allocsz_bytes;
    }
    return sum;
}

TEST_F(RingHeapTest, FreesWhatWasNotGivenBack) {
    constexpr size_t kBytes = 10000, kPage = 4096;
    const auto before = in_use();
    {
        RingHeap heap;
        void* const kept = heap.allocate(kBytes, kPage);
        void* const released = heap.allocate(kBytes, kPage);
        ASSERT_NE(kept, nullptr);
        ASSERT_NE(released, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(kept) % kPage, 0u);
        EXPECT_EQ(in_use().first, before.first + 2);
        heap.release(released);
        EXPECT_EQ(in_use().first, before.first + 1) << "at once";
    }
    EXPECT_EQ(in_use(), before);
}

/// The device writes some pieces and reads others: a line that two of them share would go back and
/// forth. Doorbell records, of 8 bytes, are the smallest.
TEST_F(RingHeapTest, SharesNoLineBetweenPieces) {
    constexpr size_t kRecord = 8;
    RingHeap heap;
    for (int i = 0; i < 16; ++i) {
        const auto at = reinterpret_cast<uintptr_t>(heap.allocate(kRecord, kRecord));
        ASSERT_NE(at, 0u);
        EXPECT_EQ(at % RTE_CACHE_LINE_SIZE, 0u) << "record " << i;
    }
}

} // namespace
} // namespace rawqp
