// SPDX-License-Identifier: BSD-3-Clause
// An mbuf pool that is created partly populated and gets as many mbufs again later, in separate
// memory, as in applications that populate their pools piecemeal.
#pragma once

#include "tests/unit/eal.hpp"

#include <cstdlib>

namespace rings_test {

class GrowingPool {
  public:
    explicit GrowingPool(unsigned count, unsigned cache = 0)
        : pool_(rte_mempool_create_empty("growing", 2 * count,
                                         sizeof(rte_mbuf) + RTE_MBUF_DEFAULT_BUF_SIZE, cache,
                                         sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY, 0)),
          bytes_(count * kPage) {
        rte_mempool_set_ops_byname(pool_.get(), RTE_MBUF_DEFAULT_MEMPOOL_OPS, nullptr);
        rte_pktmbuf_pool_init(pool_.get(), nullptr);
        memory_.reset(std::aligned_alloc(kPage, 2 * bytes_));
        memset(memory_.get(), 0, 2 * bytes_);
        populate(memory());
    }
    [[nodiscard]] rte_mempool* get() const { return pool_.get(); }
    /// Where the mbufs of grow() will be, after the others.
    [[nodiscard]] uintptr_t later_memory() const { return memory() + bytes_; }
    void grow() { populate(later_memory()); }

  private:
    struct Free {
        void operator()(void* memory) const { std::free(memory); } // NOLINT
    };
    static constexpr size_t kPage = 4096;

    [[nodiscard]] uintptr_t memory() const { return reinterpret_cast<uintptr_t>(memory_.get()); }
    void populate(uintptr_t from) {
        EXPECT_GT(rte_mempool_populate_iova(pool_.get(), reinterpret_cast<char*>(from), from,
                                            bytes_, nullptr, nullptr),
                  0);
        rte_mempool_obj_iter(
            pool_.get(),
            [](rte_mempool* pool, void*, void* object, unsigned number) {
                if (static_cast<rte_mbuf*>(object)->pool == nullptr) // not one of the first mbufs
                    rte_pktmbuf_init(pool, nullptr, object, number);
            },
            nullptr);
    }

    std::unique_ptr<void, Free> memory_; // freed after the pool
    test_eal::Pool pool_;
    size_t bytes_; ///< of each part: a page per mbuf, because none may span two
};

} // namespace rings_test
