// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"

#include "drivers/net/rawqp/rings/mlx5/device.hpp"
#include "drivers/net/rawqp/rings/mlx5/syndrome.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_schedule.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_wqe.hpp"

#include <algorithm>
#include <bit>
#include <sys/mman.h>
#include <utility>

namespace rawqp::mlx5rings {
namespace {

const mlx5::WqeCtrlSeg& control_at(const MlxTxRing& ring, uint16_t index) {
    return *reinterpret_cast<const mlx5::WqeCtrlSeg*>(ring.wqebb(index));
}
bool sends_nothing(const MlxTxRing& ring, uint16_t index) {
    return is_wait(ring, index) || ring.opcode(index) == mlx5::WqeOpcode::nop;
}

/// Packets of the eMPW WQE at `index`, of `size` segments: each takes one segment or is inlined.
uint32_t packets_of(const MlxTxRing& ring, uint16_t index, uint32_t size) {
    const uint8_t* const wqe = ring.wqebb(index); // never wraps
    uint32_t packets = 0;
    for (uint32_t at = kHeadSegments; at < size; ++packets) {
        const auto word = net::load_be<uint32_t>(wqe + at * size_t{mlx5::kSegment});
        at += word & mlx5::kInlineFlag ? inline_segments(word & ~mlx5::kInlineFlag) : 1;
    }
    return packets;
}

/// Walks the WQEs in flight, oldest first, to the one at `failed`: the device sent those before it.
/// Returns the TxMbufs position of its first packet, or the oldest when there is no such WQE. A
/// killed process may have left a WQE whose mbufs it had not noted yet: then the mbufs end before
/// the WQEs do.
uint16_t find_packet(MlxTxRing& ring, uint16_t failed) {
    const uint16_t head = ring.mbufs.head();
    uint16_t segment = ring.mbufs.tail();
    uint16_t index = ring.completed;
    while (index != ring.producer) {
        if (index == failed || segment == head) return segment;
        const uint32_t size = wqe_segments(ring, index);
        if (sends_nothing(ring, index)) {
            ++index;
            continue;
        }
        const uint32_t mbufs = ring.opcode(index) == mlx5::WqeOpcode::enhanced_mpw
                                   ? packets_of(ring, index, size)
                                   : segments_of(*ring.mbufs.slot(segment));
        const auto noted = static_cast<uint16_t>(head - segment);
        segment = static_cast<uint16_t>(segment + RTE_MIN(mbufs, uint32_t{noted}));
        index = static_cast<uint16_t>(index + (size + 3) / 4);
    }
    return ring.mbufs.tail();
}

tl::unexpected<Error> no_memory(const TxSpec& spec) {
    return fail(ENOMEM, "port {} Tx queue {}: no DPDK memory for a ring of {}", spec.port_id,
                spec.queue_id, spec.descriptors);
}

uint32_t page_size() { return static_cast<uint32_t>(sysconf(_SC_PAGESIZE)); }

Result<MlxTxRing*> map_rings(const TxSpec& spec, SocketPtr<MlxTxRing> ring) {
    const std::string what = fmt::format("port {} Tx queue {}", spec.port_id, spec.queue_id);
    auto cq = map_cq(*spec.api, spec.cq, tx_cq_depth(spec.descriptors, spec.offloads), what);
    if (!cq) return tl::unexpected(cq.error());
    ring->cq = *cq;

    mlx5dv_qp qp{};
    qp.comp_mask = MLX5DV_QP_MASK_UAR_MMAP_OFFSET;
    mlx5dv_obj object{};
    object.qp.in = spec.qp;
    object.qp.out = &qp;
    if (const int error = spec.api->mlx5_init_obj(&object, MLX5DV_OBJ_QP))
        return fail(error, "{}: libmlx5 does not map its SQ ({})", what, strerror(error));
    if (qp.sq.stride != mlx5::kWqebb || qp.sq.wqe_cnt < spec.descriptors ||
        !rte_is_power_of_2(qp.sq.wqe_cnt))
        return fail(EINVAL, "{}: its SQ has {} blocks of {} bytes, at least {} of {} are needed",
                    what, qp.sq.wqe_cnt, qp.sq.stride, spec.descriptors, mlx5::kWqebb);
    ring->mark_memory = socket_array<TxMark>(qp.sq.wqe_cnt, spec.socket);
    if (!ring->mark_memory) return no_memory(spec);
    ring->marks = ring->mark_memory.get();
    ring->sq = static_cast<uint8_t*>(qp.sq.buf);
    ring->wqebb_mask = qp.sq.wqe_cnt - 1;
    ring->sqn_shifted = spec.qp->qp_num << 8;
    ring->doorbell = &reinterpret_cast<mlx5::QueueDoorbell*>(qp.dbrec)->send;
    ring->uar = {.slot = register_slot(spec.port_id, spec.queue_id), .size = qp.bf.size};
    tx_registers[ring->uar.slot] = static_cast<uint8_t*>(qp.bf.reg);
    ring->register_page = static_cast<uint64_t>(qp.uar_mmap_offset);
    ring->register_offset = reinterpret_cast<uintptr_t>(qp.bf.reg) % page_size();
    if (spec.blue_flame && spec.own_register) ring->uar.blue_flame = qp.bf.size;
    return ring.release();
}

} // namespace

uint32_t wqe_segments(const MlxTxRing& ring, uint16_t index) {
    return control_at(ring, index).qpn_ds & mlx5::kMaxWqeSegments;
}
bool asks_for_completion(const MlxTxRing& ring, uint16_t index) {
    return (control_at(ring, index).fm_ce_se & mlx5::kCqUpdateMask) != 0;
}

void ask(MlxTxRing& ring) {
    if (ring.asked == ring.mbufs.head() || ring.free_wqebbs() == 0) return;
    mlx5::WqeCtrlSeg* const wqe =
        write_control(ring, ring.wqebb(ring.producer), mlx5::WqeOpcode::nop, 1);
    ring.producer = static_cast<uint16_t>(ring.producer + 1);
    ring.ask_by(wqe, std::exchange(ring.unasked_pool, nullptr));
    wqes_before_record();
    store_record(*ring.doorbell, ring.producer);
    ring.uar.ring(wqe);
}

Result<void> tx_map(const TxRing& base, int fd) {
    const auto& ring = static_cast<const MlxTxRing&>(base);
    void* const page = mmap(nullptr, page_size(), PROT_WRITE, MAP_SHARED, fd,
                            static_cast<off_t>(ring.register_page));
    if (page == MAP_FAILED) {
        const int error = errno;
        return fail(error, "port {} Tx queue {}: cannot map its doorbell register: {}",
                    base.port_id, base.queue_id, strerror(error));
    }
    tx_registers[ring.uar.slot] = static_cast<uint8_t*>(page) + ring.register_offset;
    return {};
}

void tx_unmap(uint16_t port_id, uint16_t queue_id) {
    // The ring may be gone.
    uint8_t*& mapped = tx_registers[register_slot(port_id, queue_id)];
    if (mapped == nullptr) return;
    munmap(mapped - reinterpret_cast<uintptr_t>(mapped) % page_size(), page_size());
    mapped = nullptr;
}

void tx_settle(TxSpec& spec) {
    if (spec.settled) return;
    const TxAbilities device = tx_abilities(*spec.api, spec.context, spec.vendor_part_id);
    spec.multi_packet = spec.multi_packet && device.multi_packet;
    if (spec.min_inline == InlineMode::automatic)
        spec.min_inline = device.needs_inline_header ? InlineMode::l2 : InlineMode::none;
    spec.settled = true;
}

uint16_t min_inline_bytes(const TxSpec& spec) {
    switch (spec.min_inline) {
    case InlineMode::automatic: {
        TxSpec settled = spec;
        tx_settle(settled);
        return min_inline_bytes(settled);
    }
    case InlineMode::none: return 0;
    case InlineMode::l2: return kInlineHeader;
    case InlineMode::ip: return kInlineIp;
    case InlineMode::tcp: return kInlineTcp;
    }
    return 0;
}

TxQpNeeds tx_needs(const TxSpec& spec) {
    // WQEBBs for each descriptor, so that descriptors run out before WQEBBs do.
    uint32_t wqebbs = (spec.offloads & kLongHeaders) != 0 ? 2 : 1;
    const uint32_t min_inline = min_inline_bytes(spec);
    if (spec.inline_bytes != 0 || min_inline > kInlineHeader) {
        const uint32_t whole = kHeadSegments + inline_segments(spec.inline_bytes);
        const uint32_t header = Inlined{.bytes = min_inline}.head_segments() + 1;
        wqebbs = std::max(wqebbs, (std::max(whole, header) + 3) / 4);
    }
    if ((spec.offloads & RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP) != 0) ++wqebbs; // for the wait
    TxQpNeeds needs;
    // libmlx5 reckons one WQEBB per WQE of one segment.
    needs.cap.max_send_wr =
        std::min<uint32_t>(spec.descriptors * std::bit_ceil(wqebbs), kMaxDescriptors);
    needs.cap.max_send_sge = 1;
    needs.thread_domain = spec.blue_flame;
    return needs;
}

Result<TxRing*> tx_create(const TxSpec& spec) {
    if (auto sound = check_tx_spec(spec); !sound) return tl::unexpected(sound.error());
    SocketPtr<MlxTxRing> ring(create_on_socket<MlxTxRing>(spec.socket));
    if (!ring || !init_tx_ring(*ring, spec)) return no_memory(spec);
    ring->inline_bytes = spec.inline_bytes;
    ring->min_inline = min_inline_bytes(spec);
    ring->times.mask = spec.time_mask;
    ring->times.clock_per_tsc = spec.clock_khz * 1000.0 / static_cast<double>(rte_get_tsc_hz());
    return map_rings(spec, std::move(ring));
}

namespace {

/// Finds where mbufs have times, if the queue is to look for them.
void find_times(MlxTxRing& ring) {
    ring.times.flag = ring.times.next_look = 0;
    if ((ring.offloads & RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP) == 0) return;
    const int bit = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_TX_TIMESTAMP_NAME, nullptr);
    const int offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, nullptr);
    if (bit < 0 || offset < 0) return; // nobody can have set any
    ring.times.flag = uint64_t{1} << bit;
    ring.times.offset = static_cast<uint16_t>(offset);
    look_at_clock(ring, rte_rdtsc()); // the base to go on from if later reads fail
}

} // namespace

void look_at_clock(MlxTxRing& ring, uint64_t tsc) {
    constexpr uint64_t kLooksPerSecond = 10;
    TxTimes& times = ring.times;
    times.next_look = tsc + rte_get_tsc_hz() / kLooksPerSecond;
    uint64_t clock = 0;
    if (ring_host(ring.port_id).read_clock(clock) != 0) return;
    times.clock = clock;
    times.clock_tsc = tsc;
}

void tx_start(TxRing& base) {
    rawqp::tx_start<MlxTxRing>(base);
    auto& ring = static_cast<MlxTxRing&>(base);
    ring.no_inline_flag = no_inline_flag();
    find_times(ring);
    if (rte_flow_dynf_metadata_avail() == 0) return;
    ring.metadata_offset = static_cast<uint16_t>(rte_flow_dynf_metadata_offs);
    ring.metadata_flag = rte_flow_dynf_metadata_mask;
}

namespace {
/// After a reset, when no mbuf is held: WQEs begin at 0 again, while mbuf positions go on.
void begin_anew(MlxTxRing& ring) {
    ring.asked = ring.mbufs.head();
    ring.unasked_pool = nullptr;
    ring.producer = ring.completed = 0;
    ring.ask_every = std::min<uint16_t>(kAskEvery, ring.mbufs.size() / 4);
    ring.faulty = false;
    ring.stamp_due = false; // WQEs start over: another one would complete with that index
}
} // namespace

void rewind(MlxTxRing& ring) {
    ring.mbufs.rewind();
    ring.done = 0;
    begin_anew(ring);
}

void take_sent(MlxTxRing& ring) {
    const Cq& cq = ring.cq;
    const auto is_good = [&] {
        const uint8_t op_own = load_op_own(cq.at(cq.consumer)) & Cq::kOpcodeAndOwner;
        return op_own == cq.expected(CqeOpcode::req, cq.consumer);
    };
    constexpr uint32_t kOne = 0; // segments wanted: stops after the first CQE
    while (is_good())
        (void)take_completions(ring, kOne);
    free_done(ring);
}

void drain(MlxTxRing& ring) { ring.cq.drain(); }
void forget_keys(MlxTxRing& ring) {
    ring.mrs.clear();
    ring.pools.clear();
}

bool recover(MlxTxRing& ring) {
    const auto& cqe = reinterpret_cast<const ErrorCqe&>(ring.cq.at(ring.cq.consumer));
    owner_before_content();
    if (!ring.faulty) {
        count_lost(ring, ring.mbufs, find_packet(ring, cqe.wqe_counter));
        rte_compiler_barrier();
        ring.faulty = true;
    }
    // Everything is completed, stored in this order: another process may go on from here with
    // free_done().
    ring.done_pool = nullptr;
    rte_compiler_barrier();
    ring.done = ring.mbufs.head();
    rte_compiler_barrier();
    ring.mbufs.free_all();
    if (!ring.retry.try_pass() || ring_host(ring.port_id).reset(ring) != 0) return false;
    log_recovery(ring, status_of(cqe), cqe.vendor_syndrome);
    forget_keys(ring); // a stale lkey may be what broke the queue
    begin_anew(ring);
    // Last: if this process is killed before, the error still leads another one here.
    rte_compiler_barrier();
    ring.cq.drain();
    return true;
}

} // namespace rawqp::mlx5rings
