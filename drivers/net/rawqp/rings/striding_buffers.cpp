// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/striding_buffers.hpp"

#include "drivers/net/rawqp/rings/socket_memory.hpp"

#include <atomic>

namespace rawqp {
namespace {

struct Layout {
    uint32_t strides, data_offset;
    StridingPool* pool;
};

void format_buffer(rte_mempool*, void* opaque, void* object, unsigned) {
    const auto& layout = *static_cast<const Layout*>(opaque);
    auto* const buffer = new (object) StridingBuffer{.pool = layout.pool};
    for (uint32_t i = 0; i < layout.strides; ++i) {
        buffer->info(i).free_cb = StridingBuffer::free_packet;
        buffer->info(i).fcb_opaque = buffer;
    }
}

} // namespace

StridingBuffer* StridingPool::take() {
    void* object = nullptr;
    if (rte_mempool_get(mempool, &object) != 0) return nullptr;
    __atomic_add_fetch(&users, 1, __ATOMIC_RELAXED);
    auto* const buffer = static_cast<StridingBuffer*>(object);
    __atomic_store_n(&buffer->references, 1, __ATOMIC_RELAXED);
    return buffer;
}

void StridingPool::leave() {
    if (__atomic_sub_fetch(&users, 1, __ATOMIC_ACQ_REL) != 0) return;
    rte_mempool_free(mempool);
    rte_free(this);
}

void StridingBuffer::drop_references(uint32_t count) {
    if (__atomic_sub_fetch(&references, count, __ATOMIC_ACQ_REL) != 0) return;
    StridingPool& owner = *pool;
    rte_mempool_put(owner.mempool, this);
    owner.leave();
}

void StridingBuffer::free_packet(void*, void* buffer) {
    static_cast<StridingBuffer*>(buffer)->drop_references(1);
}

void StridingDetacher::look_at(rte_mempool* pool) {
    own_.pool = pool;
    own_.offset = static_cast<uint32_t>(sizeof(rte_mbuf)) + rte_pktmbuf_priv_size(pool);
    own_.bytes = rte_pktmbuf_data_room_size(pool);
    own_.data_offset = RTE_MIN(uint16_t{RTE_PKTMBUF_HEADROOM}, own_.bytes);
}

Result<StridingPool*> make_striding_pool(const std::string& queue, uint32_t count, uint32_t strides,
                                         uint32_t stride_bytes, int socket) {
    SocketPtr<StridingPool> pool(create_on_socket<StridingPool>(socket));
    if (!pool) return fail(ENOMEM, "{}: no DPDK memory", queue);
    const size_t head = sizeof(StridingBuffer) + strides * sizeof(rte_mbuf_ext_shared_info);
    pool->data_offset =
        static_cast<uint32_t>(RTE_ALIGN_CEIL(head + RTE_PKTMBUF_HEADROOM, RTE_CACHE_LINE_SIZE));
    const size_t bytes = pool->data_offset + size_t{strides} * stride_bytes;

    // Pools from before the queue's last stop may still exist.
    static std::atomic<unsigned> number;
    const std::string name = fmt::format("rawqp_strides_{}", number++);
    Layout layout{strides, pool->data_offset, pool.get()};
    // No cache: other lcores give the buffers back, and their caches would keep them.
    // A single consumer that is killed in take() does not keep the next one out.
    const auto create = [&](int node) {
        return rte_mempool_create(name.c_str(), count, static_cast<unsigned>(bytes), 0, 0, nullptr,
                                  nullptr, format_buffer, &layout, node, RTE_MEMPOOL_F_SC_GET);
    };
    pool->mempool = create(socket);
    // Not by rte_errno: for a socket without memory, mempools leave ENOENT in it.
    if (pool->mempool == nullptr) pool->mempool = create(SOCKET_ID_ANY);
    if (pool->mempool == nullptr)
        return fail(ENOMEM,
                    "{}: no DPDK memory for {} buffers of {} bytes: give EAL more (-m), use fewer "
                    "descriptors, smaller strides or mprq_en=0",
                    queue, count, bytes);
    return pool.release();
}

} // namespace rawqp
