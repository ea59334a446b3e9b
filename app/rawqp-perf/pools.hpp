// SPDX-License-Identifier: BSD-3-Clause
// Packet memory on huge pages, also where no hugetlbfs pages are reserved.
#pragma once

#include "app/rawqp-perf/distance.hpp"

#include <memory>
#include <string>
#include <vector>

namespace perf {

struct FreePool {
    void operator()(rte_mempool* pool) const { rte_mempool_free(pool); }
};
using Pool = std::unique_ptr<rte_mempool, FreePool>;

/// "Socket" for the rings of `queues` queues with `descriptors` in each direction, and for striding
/// queues' packets: without hugepages of EAL's own a heap on transparent ones, as packet memory is.
/// With `heap`, one of that name that nobody else uses. Throws std::bad_alloc.
int ring_socket(unsigned queues, unsigned descriptors, const std::string& heap = {});

/// The memory of a heap that ring_socket has made.
std::vector<MemorySpan> memory_of_heap(const std::string& heap);
/// Of each of the pool's mbufs: the mbuf itself, and its first `bytes` of packet.
std::vector<MemorySpan> memory_of_mbufs(rte_mempool* pool, size_t bytes);

inline constexpr unsigned kPoolCache = 512;

/// A pool of `count` mbufs. Without hugepages of EAL's own its memory comes from transparent huge
/// pages: on 4 KiB pages each packet costs TLB misses, which would hide what the driver costs.
/// Without gaps (but for EAL's hugepages, which seldom have any). Throws std::runtime_error.
Pool make_pool(const std::string& name, unsigned count);

} // namespace perf
