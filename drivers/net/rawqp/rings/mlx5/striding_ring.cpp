// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/striding_ring.hpp"

#include "drivers/net/rawqp/rings/mlx5/rx_cq.hpp"
#include "drivers/net/rawqp/rings/mlx5/striding_packet.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace rawqp::mlx5rings {
namespace {

/// A ring needs some WQEs to be filled while others are being read.
constexpr uint32_t kMinWqes = 4;
/// Buffers for each WQE: those in the ring, and those that the application may hold before packets
/// are copied.
constexpr uint32_t kBuffersPerWqe = 4;

StridingRing& striding(RxRing& ring) { return static_cast<StridingRing&>(ring); }

std::string name_of(const RxRing& ring) {
    return fmt::format("port {} Rx queue {}", ring.port_id, ring.queue_id);
}

/// Null where the device has none.
bool query_strides(const verbs::Api& api, ibv_context* context, mlx5dv_striding_rq_caps& caps) {
    mlx5dv_context device{};
    device.comp_mask = MLX5DV_CONTEXT_MASK_STRIDING_RQ;
    if (api.mlx5_query_device(context, &device) != 0 ||
        (device.comp_mask & MLX5DV_CONTEXT_MASK_STRIDING_RQ) == 0)
        return false;
    caps = device.striding_rq_caps;
    return (caps.supported_qpts & 1u << IBV_QPT_RAW_PACKET) != 0;
}

/// `wanted` (0: `usual`), within what the device can do.
Result<uint8_t> choose(const char* what, uint32_t wanted, uint32_t usual, uint32_t min,
                       uint32_t max) {
    if (wanted != 0 && (wanted < min || wanted > max))
        return fail(EINVAL, "{}={}: the device takes {} to {}", what, wanted, min, max);
    return static_cast<uint8_t>(wanted != 0 ? wanted : std::clamp(usual, min, max));
}

void write_wqe(StridingRing& ring, uint16_t slot) {
    StridingWqe& wqe = ring.wqes[slot];
    const auto address = reinterpret_cast<uintptr_t>(ring.data_of(*ring.buffers[slot]));
    const MrEntry* const mr = ring.mrs.find(address);
    wqe.data.byte_count = 1u << (ring.log_strides + ring.log_stride_bytes);
    // No lkey: the WQE ends in an error CQE, and the recovery tries again.
    wqe.data.lkey.raw = mr != nullptr ? mr->lkey_be : 0;
    wqe.data.addr = address;
}

/// Gives the WQE its buffer again, or the spare if packets of the buffer are still held. After each
/// store the process may be killed and another one start over: at worst the used buffer is lost.
void post_again(StridingRing& ring, uint16_t slot) {
    StridingBuffer* const used = ring.buffers[slot];
    if (used == ring.spare || used->in_use()) { // in use: there is a spare then, see take_packet()
        StridingBuffer* const fresh = ring.spare;
        ring.buffers[slot] = fresh;
        rte_compiler_barrier();
        ring.mrs.sync();
        write_wqe(ring, slot);
        rte_compiler_barrier();
        ring.spare = nullptr;
        rte_compiler_barrier();
        if (used != fresh) used->drop_references(1);
    }
    if (ring.spare == nullptr) ring.spare = ring.strides->take();
}

/// Gives every WQE a buffer that nobody uses, and writes the WQE. At most one buffer is in use:
/// that of the present WQE, which the spare replaces.
void write_wqes(StridingRing& ring) {
    ring.mrs.clear();
    for (uint32_t slot = 0; slot < ring.wqe_count(); ++slot) {
        if (ring.spare != nullptr) post_again(ring, static_cast<uint16_t>(slot));
        ring.wqes[slot].next = {};
        write_wqe(ring, static_cast<uint16_t>(slot));
    }
    if (ring.spare == nullptr) ring.spare = ring.strides->take();
}

void leave_block(StridingRing& ring) {
    if (ring.cq.block_left != 0) ring.block.leave(ring.cq);
}

/// For a queue that was reset and whose CQ was drained. `block_left` stays as it is.
void rewind(StridingRing& ring) {
    ring.cq.rq_consumer = 0;
    ring.producer = static_cast<uint16_t>(ring.wqe_count());
    ring.nombuf_counted = false;
}

/// After a reset. If this process is killed in here, another one starts over: what says that the
/// ring is between steps, and why, is cleared last.
void post_anew(StridingRing& ring) {
    write_wqes(ring);
    ring.block.drain(ring.cq);
    rewind(ring);
    rte_compiler_barrier();
    ring.ring_doorbell(ring.producer);
    rte_compiler_barrier();
    ring.cq.block_left = 0;
    rte_compiler_barrier();
    ring.faulty = false;
}

Result<StridingRing*> map_rings(const RxSpec& spec, SocketPtr<StridingRing> ring) {
    const std::string what = name_of(*ring);
    const uint32_t entries = striding_cq_depth(spec) + (spec.compressed ? mlx5::kMaxCompressed : 0);
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
    if (rwq.wqe_cnt != ring->wqe_count() || rwq.stride != sizeof(StridingWqe))
        return fail(EINVAL, "{}: its striding RQ has {} WQEs of {} bytes instead of {} of {}", what,
                    rwq.wqe_cnt, rwq.stride, ring->wqe_count(), sizeof(StridingWqe));
    ring->wqes = static_cast<StridingWqe*>(rwq.buf);
    ring->doorbell = reinterpret_cast<mlx5::be32*>(rwq.dbrec);
    return ring.release();
}

} // namespace

std::string striding_reject(const verbs::Api& api, ibv_context* context) {
    mlx5dv_striding_rq_caps caps;
    return query_strides(api, context, caps) ? "" : "has no striding receive queues";
}

Result<void> striding_adjust(RxSpec& spec) {
    mlx5dv_striding_rq_caps caps{};
    if (!query_strides(*spec.api, spec.context, caps))
        return fail(ENOTSUP, "the device has no striding receive queues");
    constexpr uint32_t kUsualLogStrides = 6;
    const auto log_strides =
        choose("mprq_log_stride_num", spec.striding.log_strides, kUsualLogStrides,
               caps.min_single_wqe_log_num_of_strides, caps.max_single_wqe_log_num_of_strides);
    if (!log_strides) return tl::unexpected(log_strides.error());
    const uint32_t crc = spec.offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC ? RTE_ETHER_CRC_LEN : 0;
    const uint32_t frame = spec.max_frame + crc + RTE_PKTMBUF_HEADROOM;
    const auto log_bytes =
        choose("mprq_log_stride_size", spec.striding.log_stride_bytes,
               static_cast<uint32_t>(std::bit_width(frame - 1)),
               caps.min_single_stride_log_num_of_bytes, caps.max_single_stride_log_num_of_bytes);
    if (!log_bytes) return tl::unexpected(log_bytes.error());
    if (spec.max_frame + crc > 1u << (*log_strides + *log_bytes))
        return fail(EINVAL, "a WQE of 2^{} strides of 2^{} bytes holds no frame of {} bytes",
                    *log_strides, *log_bytes, spec.max_frame + crc);
    spec.striding.log_strides = *log_strides;
    spec.striding.log_stride_bytes = *log_bytes;
    const uint32_t least = kMinWqes << *log_strides;
    if (spec.descriptors < least) spec.descriptors = static_cast<uint16_t>(least);
    return {};
}

ibv_wq* striding_create_wq(const RxSpec& spec, ibv_wq_init_attr& attributes) {
    attributes.max_wr = static_cast<uint32_t>(spec.descriptors) >> spec.striding.log_strides;
    attributes.max_sge = 1;
    mlx5dv_wq_init_attr extra{};
    extra.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
    extra.striding_rq_attrs.single_stride_log_num_of_bytes = spec.striding.log_stride_bytes;
    extra.striding_rq_attrs.single_wqe_log_num_of_strides = spec.striding.log_strides;
    return spec.api->mlx5_create_wq(spec.context, &attributes, &extra);
}

Result<RxRing*> striding_create(const RxSpec& spec) {
    if (auto sound = check_rx_spec(spec); !sound) return tl::unexpected(sound.error());
    const uint32_t wqes = static_cast<uint32_t>(spec.descriptors) >> spec.striding.log_strides;
    SocketPtr<StridingRing> ring(create_on_socket<StridingRing>(spec.socket));
    auto buffers = socket_array<StridingBuffer*>(wqes, spec.socket);
    if (!ring || !buffers)
        return fail(ENOMEM, "port {} Rx queue {}: no DPDK memory for a ring of {}", spec.port_id,
                    spec.queue_id, spec.descriptors);
    const Result<RxExtras> extras = rx_extras(spec);
    if (!extras) return tl::unexpected(extras.error());
    const RxBuffers mbufs = rx_buffers(spec);
    ring->extras = *extras;
    if (spec.real_time && !ring->clock.open(*spec.api, spec.context, spec.port_id))
        return fail(ENOTSUP, "port {} Rx queue {}: the device's clock has no real time",
                    spec.port_id, spec.queue_id);
    ring->port_id = spec.port_id;
    ring->queue_id = spec.queue_id;
    ring->buffer_memory = std::move(buffers);
    ring->buffers = ring->buffer_memory.get();
    ring->mask = static_cast<uint16_t>(wqes - 1);
    ring->log_strides = spec.striding.log_strides;
    ring->stride_mask = static_cast<uint16_t>((1u << ring->log_strides) - 1);
    ring->log_stride_bytes = spec.striding.log_stride_bytes;
    // An mbuf with a pinned external buffer cannot have another attached.
    ring->copy_bytes = mbufs.base_flags != 0 ? UINT16_MAX : spec.striding.copy_bytes;
    ring->segments = spec.segments;
    ring->rearm = mbufs.rearm;
    ring->base_flags = mbufs.base_flags;
    ring->first_room = mbufs.first_room;
    ring->next_room = mbufs.next_room;
    ring->most_bytes =
        mbufs.first_room + (spec.segments - 1u) * mbufs.next_room + extras->crc_bytes;
    ring->pool = spec.pool;
    ring->mrs = MrCache(spec.mrs);
    ring->flags_mask = static_cast<uint16_t>(rx_flags(spec.offloads));
    ring->hash_flag = spec.offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH ? RTE_MBUF_F_RX_RSS_HASH : 0;
    ring->block.hashes = rx_hashes_in_blocks(spec.offloads);
    ring->may_compress = spec.compressed;
    ring->socket = spec.socket;
    rewind(*ring); // as after a stop: bursts before the first start find nothing and post nothing
    return map_rings(spec, std::move(ring));
}

Result<void> striding_start(RxRing& base) {
    StridingRing& ring = striding(base);
    ring.block.drain(ring.cq);
    // Each start makes new buffers: the application may hold all of the previous ones.
    auto pool =
        make_striding_pool(name_of(ring), ring.wqe_count() * kBuffersPerWqe, ring.strides_per_wqe(),
                           1u << ring.log_stride_bytes, ring.socket);
    if (!pool) return tl::unexpected(pool.error());
    ring.strides = *pool;
    for (uint32_t slot = 0; slot < ring.wqe_count(); ++slot)
        ring.buffers[slot] = ring.strides->take();
    ring.spare = ring.strides->take();
    ring.retry.open();
    write_wqes(ring);
    rewind(ring);
    if (ring.wqes[0].data.lkey == 0) {
        striding_stop(ring);
        return fail(ENOMEM, "{}: the memory of its packets cannot be registered", name_of(ring));
    }
    ring.ring_doorbell(ring.producer);
    return {};
}

uint32_t striding_skip(StridingRing& ring) {
    constexpr RxOptions kPlain;
    if (ring.faulty) return 0; // nothing but errors
    if (ring.is_between_steps()) (void)striding_go_on(ring);
    uint32_t packets = 0;
    for (PeekedCqe peeked{}; peek<kPlain>(ring, peeked) == PeekState::completion;) {
        packets += !peeked.filler();
        step_over(ring, peeked);
    }
    return packets;
}

uint32_t striding_stop(RxRing& base) {
    StridingRing& ring = striding(base);
    if (ring.strides == nullptr) return 0;
    const uint32_t unread = striding_skip(ring);
    if (!ring.faulty) leave_block(ring);
    ring.block.drain(ring.cq);
    ring.cq.block_left = 0;
    ring.faulty = false;
    rewind(ring);
    return_mbufs(ring.stash.data(), std::exchange(ring.stashed, 0u));
    for (uint32_t slot = 0; slot < ring.wqe_count(); ++slot)
        std::exchange(ring.buffers[slot], nullptr)->drop_references(1);
    if (ring.spare != nullptr) std::exchange(ring.spare, nullptr)->drop_references(1);
    std::exchange(ring.strides, nullptr)->leave();
    return unread;
}

void striding_destroy(RxRing* ring) { destroy_on_socket(&striding(*ring)); }

void striding_share(RxRing& ring) {
    __atomic_store_n(&striding(ring).copy_bytes, UINT16_MAX, __ATOMIC_RELAXED);
}

uint32_t striding_queue_count(void* queue) {
    const auto& ring = *static_cast<const StridingRing*>(queue);
    return completions_waiting(ring, ring.posted());
}

int striding_descriptor_status(void* queue, uint16_t offset) {
    const auto& ring = *static_cast<const StridingRing*>(queue);
    if (offset >= ring.wqe_count() << ring.log_strides) return -EINVAL;
    if (offset >= ring.posted()) return RTE_ETH_RX_DESC_UNAVAIL;
    const bool done = completions_waiting(ring, offset + 1u) > offset;
    return done ? RTE_ETH_RX_DESC_DONE : RTE_ETH_RX_DESC_AVAIL;
}

void striding_post(StridingRing& ring) {
    while (ring.missing() > 0) {
        post_again(ring, static_cast<uint16_t>(ring.producer & ring.mask));
        const auto next = static_cast<uint16_t>(ring.producer + 1);
        ring.ring_doorbell(next);
        rte_compiler_barrier();
        ring.producer = next; // now everything is done
    }
}

bool striding_go_on(StridingRing& ring) {
    if (ring.faulty) {
        if (reset_after_error(ring)) post_anew(ring);
        return !ring.faulty;
    }
    if (ring.cq.is_leaving()) ring.block.leave(ring.cq);
    striding_post(ring);
    return true;
}

void striding_recover(StridingRing& ring) {
    note_error(ring);
    leave_block(ring); // if there is one, its rest makes no sense
    // There is no block, but this makes each burst continue here.
    ring.cq.block_left = CqPlace::kLeaving;
    rte_compiler_barrier();
    if (reset_after_error(ring)) post_anew(ring);
}

} // namespace rawqp::mlx5rings
