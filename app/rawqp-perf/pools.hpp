// SPDX-License-Identifier: BSD-3-Clause
// Packet memory on huge pages, also where no hugetlbfs pages are reserved.
#pragma once

#include "app/rawqp-perf/dpdk.hpp"

#include <memory>
#include <string>

namespace perf {

struct FreePool {
    void operator()(rte_mempool* pool) const { rte_mempool_free(pool); }
};
using Pool = std::unique_ptr<rte_mempool, FreePool>;

/// "Socket" for the rings of `queues` queues with `descriptors` in each direction: without
/// hugepages of EAL's own a heap on transparent ones, as packet memory is. Throws std::bad_alloc.
int ring_socket(unsigned queues, unsigned descriptors);

inline constexpr unsigned kPoolCache = 512;

/// A pool of `count` mbufs. Without hugepages of EAL's own its memory comes from transparent huge
/// pages: on 4 KiB pages each packet costs TLB misses, which would hide what the driver costs.
/// Without gaps (but for EAL's hugepages, which seldom have any). Throws std::runtime_error.
Pool make_pool(const std::string& name, unsigned count);

} // namespace perf
