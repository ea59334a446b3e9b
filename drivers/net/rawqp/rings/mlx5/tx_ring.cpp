// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"

#include "drivers/net/rawqp/rings/tx_common.hpp"

namespace rawqp::mlx5rings {
namespace {

MlxTxRing& mlx(TxRing& ring) { return static_cast<MlxTxRing&>(ring); }

void rewind(MlxTxRing& ring) {
    ring.mbufs.rewind();
    ring.producer = ring.marks_head = ring.marks_tail = 0;
    ring.completed = {};
    ring.faulty = false;
}

/// WQEBBs of the WQE that starts at `index`.
uint16_t wqe_size(const MlxTxRing& ring, uint16_t index) {
    const auto* control = reinterpret_cast<const mlx5::WqeCtrlSeg*>(ring.wqebb(index));
    const uint32_t segments = control->qpn_ds & mlx5::kMaxWqeSegments;
    return static_cast<uint16_t>((segments + 3) / 4);
}

/// Walks the packets in flight, oldest first, to the one whose WQE starts at `failed`: the device
/// sent those before it. Returns its TxMbufs position, or the oldest when there is no such WQE.
uint16_t find_packet(MlxTxRing& ring, uint16_t failed) {
    uint16_t segment = ring.completed.segment;
    uint16_t index = ring.completed.wqebb;
    while (segment != ring.mbufs.head()) {
        if (index == failed) return segment;
        index = static_cast<uint16_t>(index + wqe_size(ring, index));
        segment = static_cast<uint16_t>(segment + ring.mbufs.slot(segment)->nb_segs);
    }
    return ring.completed.segment;
}

Result<MlxTxRing*> map_rings(const TxSpec& spec, SocketPtr<MlxTxRing> ring) {
    const std::string what = fmt::format("port {} Tx queue {}", spec.port_id, spec.queue_id);
    auto cq = map_cq(*spec.api, spec.cq, tx_cq_depth(spec.descriptors), what);
    if (!cq) return tl::unexpected(cq.error());
    ring->cq = *cq;

    mlx5dv_qp qp{};
    mlx5dv_obj object{};
    object.qp.in = spec.qp;
    object.qp.out = &qp;
    if (const int error = spec.api->mlx5_init_obj(&object, MLX5DV_OBJ_QP))
        return fail(error, "{}: libmlx5 does not map its SQ ({})", what, strerror(error));
    if (qp.sq.stride != mlx5::kWqebb || qp.sq.wqe_cnt < spec.descriptors ||
        !rte_is_power_of_2(qp.sq.wqe_cnt))
        return fail(EINVAL, "{}: its SQ has {} blocks of {} bytes, at least {} of {} are needed",
                    what, qp.sq.wqe_cnt, qp.sq.stride, spec.descriptors, mlx5::kWqebb);
    ring->sq = static_cast<uint8_t*>(qp.sq.buf);
    ring->wqebb_mask = qp.sq.wqe_cnt - 1;
    ring->sqn_shifted = spec.qp->qp_num << 8;
    ring->doorbell = &reinterpret_cast<mlx5::QueueDoorbell*>(qp.dbrec)->send;
    ring->uar = {.reg = static_cast<uint8_t*>(qp.bf.reg), .size = qp.bf.size};
    return ring.release();
}

} // namespace

Result<TxRing*> tx_create(const TxSpec& spec) {
    if (auto sound = check_tx_spec(spec); !sound) return tl::unexpected(sound.error());
    SocketPtr<MlxTxRing> ring(create_on_socket<MlxTxRing>(spec.socket));
    auto marks = socket_array<TxMark>(spec.descriptors, spec.socket);
    if (!ring || !marks ||
        !ring->mbufs.create(spec.descriptors, whole_packets_of_one_pool(spec.offloads),
                            spec.socket))
        return fail(ENOMEM, "port {} Tx queue {}: no DPDK memory for a ring of {}", spec.port_id,
                    spec.queue_id, spec.descriptors);
    ring->port_id = spec.port_id;
    ring->queue_id = spec.queue_id;
    ring->max_segments = spec.max_segments;
    ring->offloads = spec.offloads;
    ring->mark_memory = std::move(marks);
    ring->marks = ring->mark_memory.get();
    ring->mrs = MrCache(spec.mrs);
    return map_rings(spec, std::move(ring));
}

void tx_start(TxRing& base) {
    MlxTxRing& ring = mlx(base);
    ring.cq.drain();
    ring.mrs.clear();
    ring.retry.open();
    rewind(ring);
}

void tx_stop(TxRing& base) {
    MlxTxRing& ring = mlx(base);
    ring.mbufs.free_all();
    rewind(ring);
}

void tx_destroy(TxRing* ring) { destroy_on_socket(&mlx(*ring)); }

int tx_descriptor_status(void* queue, uint16_t offset) {
    auto& ring = *static_cast<MlxTxRing*>(queue);
    if (offset >= ring.mbufs.size()) return -EINVAL;
    if (!reap(ring)) return RTE_ETH_TX_DESC_UNAVAIL;
    return offset < ring.mbufs.room() ? RTE_ETH_TX_DESC_DONE : RTE_ETH_TX_DESC_FULL;
}

int tx_done_cleanup(void* queue, uint32_t limit) {
    auto& ring = *static_cast<MlxTxRing*>(queue);
    const uint16_t before = ring.mbufs.used();
    if (!reap(ring, limit != 0 ? limit : UINT32_MAX)) return 0;
    return static_cast<uint16_t>(before - ring.mbufs.used());
}

bool recover(MlxTxRing& ring) {
    const auto& cqe = reinterpret_cast<const ErrorCqe&>(ring.cq.at(ring.cq.consumer));
    if (!ring.faulty) {
        count_lost(ring, ring.mbufs, find_packet(ring, cqe.wqe_counter));
        ring.mbufs.free_all();
        ring.faulty = true;
    }
    if (!ring.retry.try_pass() || ring.reset_qp(ring) != 0) return false;
    log_recovery(ring, cqe.syndrome, cqe.vendor_syndrome);
    ring.cq.drain();
    ring.mrs.clear(); // a stale lkey may be what broke the queue
    rewind(ring);
    return true;
}

} // namespace rawqp::mlx5rings
