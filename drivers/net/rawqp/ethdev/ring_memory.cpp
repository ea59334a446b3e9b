// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/ring_memory.hpp"

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {
namespace {

/// Rings begin on a page of their own: devices are told of pages.
unsigned page_bytes() {
    static const auto bytes = static_cast<unsigned>(sysconf(_SC_PAGESIZE));
    return bytes;
}

} // namespace

void RingMemory::serve(const verbs::Api& api, ibv_context* context) {
    if (api.mlx5_set_context_attr == nullptr || !api.mlx5_is_supported(context->device)) return;
    mlx5dv_ctx_allocators allocators{.alloc = allocate, .free = release, .data = this};
    // Refused: the rings are where libmlx5 puts them, and work as well.
    (void)api.mlx5_set_context_attr(context, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &allocators);
}

void* RingMemory::allocate(size_t bytes, void* self) {
    const int socket = static_cast<const RingMemory*>(self)->socket_;
    void* memory = rte_malloc_socket("rawqp ring", bytes, page_bytes(), socket);
    if (memory == nullptr) memory = rte_malloc("rawqp ring", bytes, page_bytes());
    if (memory == nullptr) errno = ENOMEM;
    return memory;
}

void RingMemory::release(void* memory, void*) { rte_free(memory); }

} // namespace rawqp
