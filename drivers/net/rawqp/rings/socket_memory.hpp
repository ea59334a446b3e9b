// SPDX-License-Identifier: BSD-3-Clause
// Ring structures and their side arrays live in DPDK memory of the queue's NUMA socket.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <memory>
#include <type_traits>

namespace rawqp {

struct RteFree {
    template <class T> void operator()(T* memory) const {
        rte_free(const_cast<std::remove_const_t<T>*>(memory));
    }
};
template <class T> using SocketArray = std::unique_ptr<T[], RteFree>;

/// `count` zeroed elements on NUMA node `socket` (any node when that one is full), aligned to a
/// cache line; empty when memory is short. Control path only.
template <class T> [[nodiscard]] SocketArray<T> socket_array(size_t count, int socket) {
    static_assert(std::is_trivially_destructible_v<T>);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): T may be a pointer
    const size_t bytes = count * sizeof(T);
    void* memory = rte_zmalloc_socket("rawqp", bytes, RTE_CACHE_LINE_SIZE, socket);
    if (memory == nullptr) memory = rte_zmalloc("rawqp", bytes, RTE_CACHE_LINE_SIZE);
    return SocketArray<T>(static_cast<T*>(memory));
}

/// One T there; destroy with destroy_on_socket.
template <class T, class... Args> [[nodiscard]] T* create_on_socket(int socket, Args... args) {
    static_assert(alignof(T) <= RTE_CACHE_LINE_SIZE);
    void* memory = rte_zmalloc_socket("rawqp", sizeof(T), RTE_CACHE_LINE_SIZE, socket);
    if (memory == nullptr) memory = rte_zmalloc("rawqp", sizeof(T), RTE_CACHE_LINE_SIZE);
    return memory != nullptr ? new (memory) T(args...) : nullptr;
}
template <class T> void destroy_on_socket(T* object) {
    if (object == nullptr) return;
    object->~T();
    rte_free(object);
}
struct DestroyOnSocket {
    template <class T> void operator()(T* object) const { destroy_on_socket(object); }
};
template <class T> using SocketPtr = std::unique_ptr<T, DestroyOnSocket>;

} // namespace rawqp
