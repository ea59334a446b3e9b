// SPDX-License-Identifier: BSD-3-Clause
// Packet memory and rings on the chosen pages (pages.hpp), also where no hugetlbfs pages are
// reserved.
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
/// queues' packets: without EAL's own hugepages, a heap on the same kind of pages as packet memory.
/// With `heap`, one of that name that nothing else uses. Throws std::bad_alloc.
int ring_socket(unsigned queues, unsigned descriptors, const std::string& heap = {});

/// The memory of all pools and rings.
std::vector<MemorySpan> memory_of_pools();
/// The memory of a heap that ring_socket has created.
std::vector<MemorySpan> memory_of_heap(const std::string& heap);
/// For each of the pool's mbufs: the mbuf itself, and its first `bytes` of packet.
std::vector<MemorySpan> memory_of_mbufs(rte_mempool* pool, size_t bytes);

inline constexpr unsigned kPoolCache = 512;

/// A pool of `count` mbufs. Without EAL's own hugepages, its memory comes from transparent ones, or
/// from 4 KiB pages if those were chosen. Without gaps (except on EAL's hugepages, which seldom
/// have any). Throws std::runtime_error.
Pool make_pool(const std::string& name, unsigned count);

} // namespace perf
