// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/pools.hpp"

#include <cstring>
#include <fmt/format.h>
#include <stdexcept>
#include <sys/mman.h>
#include <vector>

namespace perf {
namespace {

constexpr size_t kHuge = 2u << 20;
constexpr const char* kHeap = "rawqp-perf";

/// Adds `bytes` of transparent huge pages to a heap, for good; its socket number.
int grow_heap(const std::string& heap, size_t bytes) {
    bytes = (bytes + kHuge - 1) / kHuge * kHuge;
    char* const raw = static_cast<char*>(
        mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (raw == MAP_FAILED) return -1;
    char* const start = raw + (kHuge - reinterpret_cast<uintptr_t>(raw) % kHuge) % kHuge;
    madvise(start, bytes, MADV_HUGEPAGE); // refused: then on small pages
    memset(start, 0, bytes);
    std::vector<rte_iova_t> addresses;
    for (size_t at = 0; at < bytes; at += kHuge)
        addresses.push_back(reinterpret_cast<rte_iova_t>(start + at));
    if (rte_malloc_heap_get_socket(heap.c_str()) < 0 && rte_malloc_heap_create(heap.c_str()) != 0)
        return -1;
    if (rte_malloc_heap_memory_add(heap.c_str(), start, bytes, addresses.data(),
                                   static_cast<unsigned>(addresses.size()), kHuge) != 0)
        return -1;
    return rte_malloc_heap_get_socket(heap.c_str());
}

} // namespace

int ring_socket(unsigned queues, unsigned descriptors) {
    if (rte_eal_has_hugepages()) return SOCKET_ID_ANY;
    constexpr const char* kRingHeap = "rawqp-perf rings";
    constexpr size_t kPerDescriptor = 512; // CQEs, WQEs and pointers in both directions
    constexpr size_t kPerQueue = 64u << 10;
    const size_t needed = queues * (kPerQueue + descriptors * kPerDescriptor);
    int socket = rte_malloc_heap_get_socket(kRingHeap);
    rte_malloc_socket_stats stats{};
    if (socket >= 0 && rte_malloc_get_socket_stats(socket, &stats) == 0 &&
        stats.heap_freesz_bytes >= needed)
        return socket;
    socket = grow_heap(kRingHeap, needed);
    return socket >= 0 ? socket : SOCKET_ID_ANY;
}

Pool make_pool(const std::string& name, unsigned count, bool contiguous) {
    const auto create = [&](int socket) {
        return Pool(rte_pktmbuf_pool_create(name.c_str(), count, kPoolCache, 0,
                                            RTE_MBUF_DEFAULT_BUF_SIZE, socket));
    };
    Pool pool;
    if (rte_eal_has_hugepages()) {
        pool = create(SOCKET_ID_ANY);
    } else {
        const std::string heap = contiguous ? name : kHeap;
        const int socket = rte_malloc_heap_get_socket(heap.c_str());
        if (socket >= 0) pool = create(socket); // what earlier pools have given back
        const size_t each = sizeof(rte_mbuf) + RTE_MBUF_DEFAULT_BUF_SIZE + 2 * RTE_CACHE_LINE_SIZE;
        if (!pool) pool = create(grow_heap(heap, count * each + 4 * kHuge));
    }
    if (!pool)
        throw std::runtime_error(
            fmt::format("pool {}: no memory for {} mbufs: {}", name, count, strerror(rte_errno)));
    return pool;
}

} // namespace perf
