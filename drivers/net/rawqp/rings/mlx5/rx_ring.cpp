// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"

#include "drivers/net/rawqp/rings/ahead.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_cq.hpp"
#include "drivers/net/rawqp/rings/pool_layout.hpp"
#include "drivers/net/rawqp/rings/rx_fill.hpp"

#include <algorithm>
#include <utility>

namespace rawqp::mlx5rings {
namespace {

MlxRxRing& mlx(RxRing& ring) { return static_cast<MlxRxRing&>(ring); }

/// fill_slots for rings of one-segment WQEs: the pool's pointers go straight into the ring.
bool fill_single(MlxRxRing& ring, uint16_t first, uint16_t count) {
    rte_mbuf** mbufs = &ring.mbufs[first];
    if (!take_mbufs(ring.pool, mbufs, count)) return false;
    // Checked after the mbufs were taken: a growing pool counts an mbuf before offering it.
    if (ring.one_lkey() && ring.pool->populated_size == ring.pool_size) [[likely]] {
        for (uint16_t i = 0; i < count; ++i) {
            const auto mbuf = reinterpret_cast<uintptr_t>(mbufs[i]);
            ring.wqes[first + i].addr =
                ring.data_offset != 0
                    ? mbuf + ring.data_offset // not read: it may be out of the cache
                    : reinterpret_cast<uintptr_t>(mbufs[i]->buf_addr) + ring.segment(0).offset;
        }
        return true;
    }
    for (uint16_t i = 0; i < count; ++i) {
        if (ring.write_segment(first + i, *mbufs[i])) continue;
        return_mbufs(mbufs, count);
        return false;
    }
    return true;
}

/// Posts buffers until no slot lacks any or the pool is empty; no doorbell. False: the latter.
bool fill(MlxRxRing& ring) {
    if (ring.segments == 1) return fill_ring(ring, fill_single);
    return fill_ring(ring, ring.split ? fill_split_slots<MlxRxRing> : fill_slots<MlxRxRing>);
}

/// Rewrites all WQEs, with lkeys looked up now, and with addresses where a slot has its mbuf.
/// False: the memory of one cannot be registered.
bool write_wqes(MlxRxRing& ring) {
    ring.mrs.clear();
    ring.pool_size = ring.pool->populated_size;
    const uint32_t lkey_be = ring.split ? 0 : common_lkey(ring.pool, ring.mrs);
    ring.set_wqe_head(lkey_be);
    for (uint32_t i = 0; i < ring.descriptors(); ++i) {
        ring.wqes[i].byte_count = ring.segment(i & (ring.segments - 1u)).room;
        ring.wqes[i].lkey.raw = lkey_be;
        if (ring.mbufs[i] != nullptr && !ring.write_segment(i, *ring.mbufs[i])) return false;
    }
    return true;
}

/// After WQEs are written: refills need not read mbufs if the whole pool is alike.
void note_data_offset(MlxRxRing& ring) {
    ring.data_offset =
        ring.one_lkey() ? common_data_offset(ring.pool, ring.segment(0).offset, ring.mrs) : 0;
}

/// Forgets the mbufs of free slots that went to the application (one-segment rings leave the
/// pointers there).
void clear_free_slots(MlxRxRing& ring) {
    if (ring.segments > 1 || ring.slots_cleared) return;
    for (uint16_t i = 0; i < ring.missing(); ++i)
        ring.mbufs[(ring.producer + i) & ring.mask] = nullptr;
}

/// Drops what is left of the present block. Returns how many packets were left.
uint32_t close_block(MlxRxRing& ring) {
    const uint32_t left = ring.cq.packets_left();
    if (ring.cq.block_left != 0) ring.block.leave(ring.cq);
    return left;
}

void rewind(MlxRxRing& ring) { ring.cq.rq_consumer = ring.producer = 0; }

/// After a reset: posts the buffers that the ring still holds. If this process is killed in here,
/// another one starts over: refill_batch and `faulty` change last.
void post_anew(MlxRxRing& ring) {
    clear_free_slots(ring);
    ring.slots_cleared = true; // `producer` will not tell which slots are free
    rte_compiler_barrier();
    uint16_t held = gather_buffers(ring);
    // The lkeys are looked up again: a stale one may be what broke the queue.
    if (!write_wqes(ring)) {
        free_buffers(ring); // refills try again
        ring.set_wqe_head(0);
        held = 0;
    }
    close_block(ring);
    ring.block.drain(ring.cq);
    rewind(ring);
    ring.producer = held;
    rte_compiler_barrier();
    ring.slots_cleared = false;
    rte_compiler_barrier();
    ring.ring_doorbell();
    rte_compiler_barrier();
    ring.refill_batch = refill_batch(ring.mask + 1u);
    rte_compiler_barrier();
    note_data_offset(ring);
    ring.faulty = false;
}

Result<MlxRxRing*> map_rings(const RxSpec& spec, SocketPtr<MlxRxRing> ring) {
    const std::string what = fmt::format("port {} Rx queue {}", spec.port_id, spec.queue_id);
    // A block gives its entries back when all of it is taken.
    const uint32_t entries = rx_wqes(spec) + (spec.compressed ? mlx5::kMaxCompressed : 0);
    ring->cq_arm.slot = register_slot(spec.port_id, spec.queue_id);
    auto cq = map_cq(*spec.api, spec.cq, entries, what, &ring->cq_arm);
    if (!cq) return tl::unexpected(cq.error());
    ring->cq = *cq;
    if (!ring->block.create(*cq, spec.socket))
        return fail(ENOMEM, "{}: no DPDK memory for a CQ of {}", what, cq->mask + 1);

    mlx5dv_rwq rwq{};
    mlx5dv_obj object{};
    object.rwq.in = spec.wq;
    object.rwq.out = &rwq;
    if (const int error = spec.api->mlx5_init_obj(&object, MLX5DV_OBJ_RWQ))
        return fail(error, "{}: libmlx5 does not map its RQ ({})", what, strerror(error));
    if (rwq.wqe_cnt != rx_wqes(spec) || rwq.stride != spec.segments * sizeof(mlx5::WqeDataSeg))
        return fail(EINVAL,
                    "{}: its RQ has {} WQEs of {} bytes instead of {} of {}; is "
                    "MLX5_RWQE_SIGNATURE set?",
                    what, rwq.wqe_cnt, rwq.stride, rx_wqes(spec),
                    spec.segments * sizeof(mlx5::WqeDataSeg));
    ring->wqes = static_cast<mlx5::WqeDataSeg*>(rwq.buf);
    ring->doorbell = reinterpret_cast<mlx5::be32*>(rwq.dbrec);
    return ring.release();
}

} // namespace

ibv_cq_ex* rx_compressed_cq(const RxSpec& spec, ibv_cq_init_attr_ex& attributes) {
    mlx5dv_context device{};
    device.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION;
    if (spec.api->mlx5_query_device(spec.context, &device) != 0 ||
        (device.comp_mask & MLX5DV_CONTEXT_MASK_CQE_COMPRESION) == 0)
        return nullptr;
    const auto format =
        static_cast<uint8_t>(rx_hashes_in_blocks(spec.offloads) ? MLX5DV_CQE_RES_FORMAT_HASH
                                                                : MLX5DV_CQE_RES_FORMAT_CSUM);
    const mlx5dv_cqe_comp_caps& caps = device.cqe_comp_caps;
    if (caps.max_num == 0 || caps.max_num > mlx5::kMaxCompressed ||
        (caps.supported_format & format) == 0)
        return nullptr;
    mlx5dv_cq_init_attr extra{};
    extra.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
    extra.cqe_comp_res_format = format;
    attributes.cqe += mlx5::kMaxCompressed; // see map_rings
    return spec.api->mlx5_create_cq(spec.context, &attributes, &extra);
}

Result<RxRing*> rx_create(const RxSpec& spec) {
    if (auto sound = check_rx_spec(spec); !sound) return tl::unexpected(sound.error());
    SocketPtr<MlxRxRing> ring(create_on_socket<MlxRxRing>(spec.socket));
    auto mbufs =
        socket_array<rte_mbuf*>(spec.descriptors + ahead::kMbufs * spec.segments, spec.socket);
    if (!ring || !mbufs)
        return fail(ENOMEM, "port {} Rx queue {}: no DPDK memory for a ring of {}", spec.port_id,
                    spec.queue_id, spec.descriptors);

    const Result<RxExtras> extras = rx_extras(spec);
    if (!extras) return tl::unexpected(extras.error());
    ring->extras = *extras;
    if (spec.real_time && !ring->clock.open(*spec.api, spec.context, spec.port_id))
        return fail(ENOTSUP, "port {} Rx queue {}: the device's clock has no real time",
                    spec.port_id, spec.queue_id);
    const RxBuffers buffers = rx_buffers(spec);
    ring->port_id = spec.port_id;
    ring->queue_id = spec.queue_id;
    ring->mbuf_memory = std::move(mbufs);
    ring->mbufs = ring->mbuf_memory.get();
    ring->mask = static_cast<uint16_t>(rx_wqes(spec) - 1);
    ring->refill_batch = kNoRefill;
    ring->rearm = buffers.rearm;
    ring->base_flags = buffers.base_flags;
    std::ranges::copy(rx_layout(spec), ring->layout.begin());
    ring->split = spec.split.size() > 1;
    ring->pool = spec.pool;
    ring->segments = spec.segments;
    ring->log_segments = static_cast<uint8_t>(rte_log2_u32(spec.segments));
    ring->mrs = MrCache(spec.mrs);
    ring->flags_mask = static_cast<uint16_t>(rx_flags(spec.offloads));
    ring->block.hashes = rx_hashes_in_blocks(spec.offloads);
    ring->may_compress = spec.compressed;
    ring->hash_flag = spec.offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH ? RTE_MBUF_F_RX_RSS_HASH : 0;
    return map_rings(spec, std::move(ring));
}

Result<void> rx_start(RxRing& base) {
    MlxRxRing& ring = mlx(base);
    ring.block.drain(ring.cq);
    rewind(ring);
    ring.retry.open();
    const bool written = write_wqes(ring);
    note_data_offset(ring);
    if (!written || !fill(ring)) {
        rx_stop(ring);
        return not_filled(ring);
    }
    ring.ring_doorbell();
    ring.refill_batch = refill_batch(ring.mask + 1u); // from here on bursts replace buffers
    return {};
}

uint32_t rx_stop(RxRing& base) {
    MlxRxRing& ring = mlx(base);
    ring.refill_batch = kNoRefill;
    const uint32_t unread = close_block(ring) + ring.block.drain(ring.cq);
    clear_free_slots(ring);
    free_buffers(ring);
    rewind(ring);
    ring.nombuf_due = 0;
    ring.slots_cleared = ring.faulty = false;
    return unread;
}

void rx_destroy(RxRing* ring) { destroy_on_socket(&mlx(*ring)); }

uint32_t rx_queue_count(void* queue) {
    const auto& ring = *static_cast<const MlxRxRing*>(queue);
    return completions_waiting(ring, ring.posted()) << ring.log_segments;
}

int rx_descriptor_status(void* queue, uint16_t offset) {
    const auto& ring = *static_cast<const MlxRxRing*>(queue);
    if (offset >= ring.descriptors()) return -EINVAL;
    const uint32_t slot = uint32_t{offset} >> ring.log_segments; // from the consumer on
    if (slot >= ring.posted()) return RTE_ETH_RX_DESC_UNAVAIL;
    const bool filled = ring.may_compress
                            ? rx_queue_count(queue) > offset
                            : ring.cq.state(ring.cq.consumer + slot) != CqeState::empty;
    return filled ? RTE_ETH_RX_DESC_DONE : RTE_ETH_RX_DESC_AVAIL;
}

namespace {
/// What is there to be read goes first: an error that leads to recover(), or packets if a process
/// was killed when everything was done.
void go_on_recovering(MlxRxRing& ring) {
    const bool to_be_read = ring.posted() > 0 && ring.cq.state(ring.cq.consumer) != CqeState::empty;
    if (!to_be_read && reset_after_error(ring)) post_anew(ring);
}
} // namespace

void refill(MlxRxRing& ring) {
    if (ring.faulty) [[unlikely]]
        return go_on_recovering(ring);
    ring.mrs.sync();
    const uint16_t before = ring.producer;
    const bool complete = fill(ring);
    count_nombuf(ring.counters, ring.nombuf_due, complete ? 0 : lacking_buffers(ring));
    if (ring.producer != before) ring.ring_doorbell();
}

void recover(MlxRxRing& ring) {
    note_error(ring);
    // First, or a refill would use kRecover as its batch size.
    ring.data_offset = 0;
    rte_compiler_barrier();
    ring.refill_batch = kRecover;
    rte_compiler_barrier();
    if (reset_after_error(ring)) post_anew(ring);
}

int rx_arm_filled(RxRing& base) {
    return may_wait(static_cast<MlxRxRing&>(base), refill) ? rx_arm<MlxRxRing>(base) : EAGAIN;
}

} // namespace rawqp::mlx5rings
