// SPDX-License-Identifier: BSD-3-Clause
// A pool whose mbufs have pinned external buffers, in separate memory.
#pragma once

#include "tests/unit/eal.hpp"

#include <vector>

namespace rings_test {

class PinnedPool {
  public:
    explicit PinnedPool(unsigned count) : memory_(size_t{count} * RTE_MBUF_DEFAULT_BUF_SIZE) {
        rte_pktmbuf_extmem area{};
        area.buf_ptr = memory_.data();
        area.buf_iova = reinterpret_cast<uintptr_t>(memory_.data());
        area.buf_len = memory_.size();
        area.elt_size = RTE_MBUF_DEFAULT_BUF_SIZE;
        pool_.reset(rte_pktmbuf_pool_create_extbuf("pinned", count, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                                   SOCKET_ID_ANY, &area, 1));
    }
    [[nodiscard]] rte_mempool* get() const { return pool_.get(); }
    /// Whether the mbuf is as the pool made it: its buffer is a pinned external one of this pool.
    [[nodiscard]] bool owns_buffer_of(const rte_mbuf* mbuf) const {
        const auto offset = reinterpret_cast<uintptr_t>(mbuf->buf_addr) -
                            reinterpret_cast<uintptr_t>(memory_.data());
        return offset < memory_.size() && RTE_MBUF_HAS_EXTBUF(mbuf) &&
               RTE_MBUF_HAS_PINNED_EXTBUF(mbuf);
    }

  private:
    std::vector<uint8_t> memory_; // freed after the pool
    test_eal::Pool pool_;
};

} // namespace rings_test
