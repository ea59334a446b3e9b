// SPDX-License-Identifier: BSD-3-Clause
// What loops over rings keep alongside them.
#pragma once

#include "app/rawqp-perf/dpdk.hpp"

#include <cstdint>
#include <memory>
#include <new>

namespace perf {

/// A fixed array on the same kind of pages as the rings, zeroed.
template <class T> class RingArray {
  public:
    RingArray() = default;
    RingArray(size_t count, int socket)
        : memory_(static_cast<T*>(
              // NOLINTNEXTLINE(bugprone-sizeof-expression): there are arrays of pointers, too
              rte_zmalloc_socket("perf ring", count * sizeof(T), RTE_CACHE_LINE_SIZE, socket))) {
        if (!memory_) throw std::bad_alloc();
    }
    T& operator[](size_t index) const { return memory_.get()[index]; }
    [[nodiscard]] T* data() const { return memory_.get(); }

  private:
    struct Free {
        void operator()(T* memory) const { rte_free(memory); }
    };
    std::unique_ptr<T, Free> memory_;
};

/// The address of a new mbuf's data, for an mbuf of our pool. Its buffer directly follows it: no
/// need to touch the mbuf.
inline uintptr_t fresh_data(const rte_mbuf* mbuf) {
    return reinterpret_cast<uintptr_t>(mbuf + 1) + RTE_PKTMBUF_HEADROOM;
}

} // namespace perf
