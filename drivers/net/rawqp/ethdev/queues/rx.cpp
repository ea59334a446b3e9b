// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/queues/queues.hpp"

#include "common/verbs/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/memory/memory.hpp"
#include "drivers/net/rawqp/ethdev/memory/ring_memory.hpp"
#include "drivers/net/rawqp/ethdev/process/secondaries.hpp"
#include "drivers/net/rawqp/ethdev/queues/counters.hpp"
#include "drivers/net/rawqp/ethdev/queues/cq.hpp"
#include "drivers/net/rawqp/ethdev/queues/ops.hpp"
#include "drivers/net/rawqp/ethdev/queues/recovery.hpp"
#include "drivers/net/rawqp/ethdev/queues/rx_interrupts.hpp"
#include "drivers/net/rawqp/ethdev/queues/vlan_strip.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/rings/rx_common.hpp"

#include <algorithm>
#include <bit>

namespace rawqp {
namespace {

bool wants_compressed_cqes(const RxQueue& queue) {
    const Devargs& devargs = queue.port.devargs;
    // A compressed block has one time stamp for all of its packets, and says nothing about LRO.
    constexpr uint64_t kOfEach = RTE_ETH_RX_OFFLOAD_TIMESTAMP | RTE_ETH_RX_OFFLOAD_TCP_LRO;
    if ((queue.spec.offloads & kOfEach) != 0) return false;
    if (devargs.cqe_comp == CqeCompression::automatic) return devargs.multi_packet_rx;
    return devargs.cqe_comp == CqeCompression::on;
}

Result<void> create_rx_cq(RxQueue& queue) {
    const RingFormat& format = *queue.port.format;
    ibv_cq_init_attr_ex attributes{};
    const CqOwner owner = CqOwner::make(CqOwner::Side::rx, queue.spec.queue_id);
    queue.cq_serial = owner.serial;
    attributes.cq_context = owner.context();
    attributes.channel = queue.channel.get();
    attributes.cqe = format.rx_cq_depth(queue.spec);
    attributes.comp_vector =
        queue.spec.queue_id %
        static_cast<unsigned>(std::max(1, queue.spec.context->num_comp_vectors));
    attributes.wc_flags = format.rx_wc_flags(queue.spec);
    queue.port.ring_memory->set_domain(attributes);
    ibv_cq_ex* cq = nullptr;
    if (wants_compressed_cqes(queue) && format.rx_compressed_cq != nullptr) {
        ibv_cq_init_attr_ex compressed = attributes;
        cq = format.rx_compressed_cq(queue.spec, compressed);
    }
    queue.spec.compressed = cq != nullptr;
    if (cq == nullptr) cq = create_single_threaded_cq(queue.spec.context, attributes);
    if (cq == nullptr && attributes.wc_flags != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
        // mlx4 knows no flow tags in CQEs: without them only rte_flow marks are lost.
        attributes.wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
        cq = create_single_threaded_cq(queue.spec.context, attributes);
    }
    if (cq == nullptr) {
        const int error = errno;
        return fail(error, "Rx queue {}: cannot create a CQ of {} entries: {}", queue.spec.queue_id,
                    attributes.cqe, verbs::errno_text(error, verbs::Attempt::create_queue));
    }
    queue.cq = verbs::CqEx(cq, {queue.port.api->destroy_cq});
    queue.spec.cq = cq;
    return {};
}

Result<void> create_wq(RxQueue& queue) {
    ibv_wq_init_attr attributes{};
    attributes.wq_type = IBV_WQT_RQ;
    attributes.max_wr = rx_wqes(queue.spec);
    attributes.max_sge = queue.spec.segments;
    attributes.pd = queue.port.ring_memory->domain();
    attributes.cq = ibv_cq_ex_to_cq(queue.cq.get());
    queue.wq_strips = wants_wq_strip(queue);
    if (queue.wq_strips) attributes.create_flags |= IBV_WQ_FLAGS_CVLAN_STRIPPING;
    if ((queue.spec.offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC) != 0)
        attributes.create_flags |= IBV_WQ_FLAGS_SCATTER_FCS;
    if (attributes.create_flags != 0) attributes.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
    const auto create = queue.port.format->rx_wq;
    ibv_wq* wq = create != nullptr ? create(queue.spec, attributes)
                                   : ibv_create_wq(queue.spec.context, &attributes);
    if (wq == nullptr) {
        const int error = errno;
        return fail(error, "Rx queue {}: cannot create a WQ of {} WQEs of {} segments: {}",
                    queue.spec.queue_id, attributes.max_wr, attributes.max_sge,
                    verbs::errno_text(error, verbs::Attempt::create_queue));
    }
    queue.wq = verbs::Wq(wq, {ibv_destroy_wq, "WQ"});
    queue.spec.wq = wq;
    return {};
}

int modify_wq(ibv_wq* wq, ibv_wq_state state) {
    ibv_wq_attr attributes{};
    attributes.attr_mask = IBV_WQ_ATTR_STATE;
    attributes.wq_state = state;
    return ibv_modify_wq(wq, &attributes);
}

/// To RESET from whatever state the WQ is in. The kernel does not learn that the device moved a WQ
/// to the error state, and the device refuses a transition from a state that the WQ is not in.
int reset_wq_from_any_state(ibv_wq* wq) {
    if (modify_wq(wq, IBV_WQS_RESET) == 0) return 0;
    ibv_wq_attr attributes{};
    attributes.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
    attributes.curr_wq_state = IBV_WQS_ERR;
    attributes.wq_state = IBV_WQS_RESET;
    return ibv_modify_wq(wq, &attributes);
}

/// A WQ that cannot be counted separately is counted with all others of the RDMA port.
int make_ready(RxQueue& queue) {
    if (const int error = modify_wq(queue.wq.get(), IBV_WQS_RDY)) return error;
    const int error = queue.q_counter ? queue.q_counter.bind(queue.wq.get()) : EOPNOTSUPP;
    const bool counted = error == 0;
    if (counted == queue.shared.counts_missed) return 0;
    queue.shared.counts_missed = counted;
    if (!counted)
        RAWQP_LOG(WARNING,
                  "%s: Rx queue %u: cannot bind a Q counter to the WQ: %s: what it misses is "
                  "counted for the RDMA port only",
                  queue.port.name.c_str(), queue.spec.queue_id, rte_strerror(error));
    return 0;
}

/// For a WQ that the device is done with.
void take_mbufs_back(RxQueue& queue) {
    count_up(queue.port.totals.unread, queue.port.format->rx_stop(*queue.ring));
    queue.reset_failed = false;
}

/// The number of mbufs of `pool` that a frame of `frame` bytes needs, a power of two. EINVAL when
/// that is more than the device takes, or more than one without RTE_ETH_RX_OFFLOAD_SCATTER.
Result<uint8_t> rx_segments(const Port& port, rte_mempool* pool, uint32_t frame,
                            uint64_t offloads) {
    // The headroom is kept in the first mbuf only.
    const uint32_t room = rte_pktmbuf_data_room_size(pool);
    if (room <= RTE_PKTMBUF_HEADROOM)
        return fail(EINVAL, "mempool {}: mbufs of {} bytes have no room for packets", pool->name,
                    room);
    const uint32_t needed = std::bit_ceil((frame + RTE_PKTMBUF_HEADROOM + room - 1) / room);
    if (needed > 1 && (offloads & RTE_ETH_RX_OFFLOAD_SCATTER) == 0)
        return fail(
            EINVAL,
            "mempool {}: a frame of {} bytes does not fit in one mbuf ({} bytes of room): use "
            "larger mbufs, a smaller MTU, or enable RTE_ETH_RX_OFFLOAD_SCATTER",
            pool->name, frame, room - RTE_PKTMBUF_HEADROOM);
    if (needed > max_rx_segments(port))
        return fail(EINVAL,
                    "mempool {}: a frame of {} bytes needs {} mbufs, and the device takes {}: use "
                    "larger mbufs, a smaller MTU or, with LRO, a smaller max_lro_pkt_size",
                    pool->name, frame, needed, max_rx_segments(port));
    return static_cast<uint8_t>(needed);
}

/// Segment `number` of a split as ethdev defines it: beyond the application's segments, each is a
/// whole mbuf of the last one's pool.
rte_eth_rxseg_split split_segment(const RxSpec& spec, size_t number) {
    if (number < spec.split_wanted.size()) return spec.split_wanted[number];
    rte_eth_rxseg_split further{};
    further.mp = spec.split_wanted.back().mp;
    return further;
}

/// Buffer split: the application's segments, and as many more as a frame needs.
Result<void> lay_out_split(const Port& port, RxSpec& spec, uint32_t frame) {
    spec.split.clear();
    uint32_t room = 0;
    while (room < frame || !std::has_single_bit(spec.split.size())) {
        const size_t number = spec.split.size();
        if (number == max_rx_segments(port))
            return fail(EINVAL, "buffer split: a frame of {} bytes needs more than {} segments",
                        frame, number);
        const rte_eth_rxseg_split wanted = split_segment(spec, number);
        const uint32_t offset = wanted.offset + (number == 0 ? RTE_PKTMBUF_HEADROOM : 0u);
        const uint32_t buffer = rte_pktmbuf_data_room_size(wanted.mp);
        if (wanted.proto_hdr != 0)
            return fail(ENOTSUP, "buffer split: by length only, not by protocol header");
        if ((rte_pktmbuf_priv_flags(wanted.mp) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) != 0)
            return fail(ENOTSUP, "buffer split: mempool {} has pinned external buffers",
                        wanted.mp->name);
        if (offset >= buffer || wanted.length > buffer - offset)
            return fail(
                EINVAL,
                "buffer split: segment {}: {} bytes at offset {} do not fit in the mbufs of "
                "mempool {} ({} bytes)",
                number, wanted.length, offset, wanted.mp->name, buffer);
        const uint32_t length = wanted.length != 0 ? wanted.length : buffer - offset;
        spec.split.push_back(
            {wanted.mp, static_cast<uint16_t>(offset), static_cast<uint16_t>(length)});
        room += length;
    }
    spec.segments = static_cast<uint8_t>(spec.split.size());
    spec.pool = spec.split[0].pool;
    return {};
}

/// The application may have registered its field since.
void place_metadata(RxRing& ring) {
    if (rte_flow_dynf_metadata_avail() == 0) return;
    ring.metadata_offset = static_cast<uint8_t>(rte_flow_dynf_metadata_offs);
    __atomic_store_n(&ring.metadata_flag, rte_flow_dynf_metadata_mask, __ATOMIC_RELEASE);
}

} // namespace

RxQueue::RxQueue(Port& owner, uint16_t id)
    : port(owner), shared(owner.shared.rx[id]), q_counter(*owner.api, owner.context.get()) {}

void RxQueue::publish(bool deferred) {
    shared.deferred = deferred;
    shared.segments = spec.segments;
    shared.descriptors = spec.descriptors;
    shared.offloads = spec.offloads;
    shared.pool = spec.pool;
    shared.buffer_bytes = rx_buffers(spec).first_room;
    shared.split = split.get();
    shared.split_segments = static_cast<uint16_t>(spec.split_wanted.size());
    shared.counts_missed = bool(q_counter);
    port.dev->data->rx_queues[spec.queue_id] = ring;
    ++shared.set_ups;
    advance(shared.state, QueueState::set_up);
}

void RxQueue::count_missed() {
    const uint32_t more = q_counter.take();
    count_up(shared.missed, more);
    count_up(port.totals.missed, more);
}

RxQueue::~RxQueue() {
    count_missed();
    if (ring == nullptr) return;
    // Once the WQ is gone, the device cannot write either.
    if (reset_failed && verbs::destroy(wq) == 0) take_mbufs_back(*this);
    port.format->rx_destroy(ring);
}

uint16_t max_rx_descriptors(const Port& port) {
    const auto device = static_cast<unsigned>(std::max(port.attributes.orig_attr.max_qp_wr, 1));
    return static_cast<uint16_t>(std::bit_floor(std::min<unsigned>(device, kMaxDescriptors)));
}

uint16_t max_rx_segments(const Port& port) {
    const auto device = static_cast<unsigned>(std::max(port.attributes.orig_attr.max_sge, 1));
    return static_cast<uint16_t>(std::bit_floor(std::min<unsigned>(device, kMaxRxSegments)));
}

Result<void> fit_segments(const Port& port, RxSpec& spec, uint32_t frame) {
    if ((spec.offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC) != 0) frame += RTE_ETHER_CRC_LEN;
    if (!spec.split_wanted.empty()) return lay_out_split(port, spec, frame);
    const Result<uint8_t> segments = rx_segments(port, spec.pool, frame, spec.offloads);
    if (!segments) return tl::unexpected(segments.error());
    spec.segments = *segments;
    return {};
}

Result<std::unique_ptr<RxQueue>> create_rx_queue(Port& port, const RxSpec& wanted) {
    auto queue = std::make_unique<RxQueue>(port, wanted.queue_id);
    RxSpec& spec = queue->spec;
    spec = wanted;
    spec.api = port.api;
    spec.context = port.context.get();
    spec.port_id = port.dev->data->port_id;
    spec.max_frame = port.longest_packet(port.dev->data->mtu);
    spec.mrs = &port.memory->table();
    spec.active_simd_bits = rte_vect_get_max_simd_bitwidth();
    if (Result<void> done = fit_segments(port, spec, spec.max_frame); !done)
        return tl::unexpected(std::move(done.error()));
    spec.striding = port.devargs.striding;
    spec.real_time = port.devargs.real_time;
    if (port.format->rx_adjust != nullptr)
        if (Result<void> done = port.format->rx_adjust(spec); !done)
            return tl::unexpected(std::move(done.error()));

    port.ring_memory->use_socket(spec.socket);
    Result<void> done = port.memory->add_pool(spec.pool);
    for (const RxSegment& segment : spec.split)
        if (done) done = port.memory->add_pool(segment.pool);
    if (done) done = create_rx_channel(*queue);
    if (done) done = create_rx_cq(*queue);
    if (done) done = create_wq(*queue);
    if (!done) return tl::unexpected(std::move(done.error()));
    Result<RxRing*> ring = port.format->rx_create(spec);
    if (!ring) return tl::unexpected(std::move(ring.error()));
    queue->ring = *ring;
    report_as_others(port, *queue->ring);
    if (port.shared.shared && port.format->rx_share != nullptr) port.format->rx_share(*queue->ring);
    return queue;
}

RxSpec combined_rx_spec(const Port& port, RxSpec spec) {
    for (const auto& queue : port.rx_queues) {
        if (!queue) continue;
        spec.segments = std::max(spec.segments, queue->spec.segments);
        spec.offloads |= queue->spec.offloads;
    }
    return spec;
}

void rx_queue_release(rte_eth_dev* dev, uint16_t id) noexcept {
    Port& port = Port::of(dev);
    if (id >= port.rx_queues.size() || !port.rx_queues[id]) return;
    RxQueue& queue = *port.rx_queues[id];
    stop_rx_queue(queue);
    if (!queue.released()) {
        add(port.totals.rx, since_reset(*queue.ring, queue.shared.base));
        dev->data->rx_queues[id] = nullptr; // later, ethdev may have freed the array
    }
    queue.count_missed();
    queue.shared.counts_missed = false;
    advance(queue.shared.state, QueueState::released);
    if (port.started()) return;
    advance(queue.shared.state, QueueState::absent);
    port.rx_queues[id].reset();
}

int rx_queue_start(rte_eth_dev* dev, uint16_t id) noexcept {
    Port& port = Port::of(dev);
    port.secondaries->wait_for_mute();
    if (const Result<void> done = start_rx_queue(*port.rx_queues[id]); !done)
        return report(port.name, done.error());
    dev->data->rx_queue_state[id] = RTE_ETH_QUEUE_STATE_STARTED;
    port.secondaries->tell(Event::changed);
    return 0;
}

int rx_queue_stop(rte_eth_dev* dev, uint16_t id) noexcept {
    stop_rx_queue(*Port::of(dev).rx_queues[id]);
    dev->data->rx_queue_state[id] = RTE_ETH_QUEUE_STATE_STOPPED;
    return 0;
}

int recover(RxQueue& queue) {
    int error = reset_wq_from_any_state(queue.wq.get());
    if (error == 0) error = make_ready(queue);
    note_recovery(queue, "Rx", error);
    return -error;
}

int get_monitor_addr(void* ring, rte_power_monitor_cond* condition) noexcept {
    if (ring == nullptr) return -EINVAL; // of a queue that is not set up
    const uint16_t port_id = static_cast<RxRing*>(ring)->port_id;
    const auto get = Port::of(&rte_eth_devices[port_id]).format->rx_monitor_addr;
    return get != nullptr ? get(ring, condition) : -ENOTSUP;
}

void report_as_others(const Port& port, RxRing& ring) {
    ring.tell_all = port.marks || port.timesync;
    ring.tell_ptp = port.timesync;
    if (port.metadata) place_metadata(ring);
}

void use_metadata(Port& port) {
    port.metadata = true;
    for (const std::unique_ptr<RxQueue>& queue : port.rx_queues)
        if (queue) place_metadata(*queue->ring);
    use_marks(port);
}

void use_marks(Port& port) {
    port.marks = true;
    for (const std::unique_ptr<RxQueue>& queue : port.rx_queues)
        if (queue) __atomic_store_n(&queue->ring->tell_all, true, __ATOMIC_RELEASE);
}

Result<void> refit_rx_queues(Port& port) {
    for (std::unique_ptr<RxQueue>& queue : port.rx_queues) {
        if (!queue || queue->spec.max_frame == port.longest_packet(port.dev->data->mtu)) continue;
        Result<std::unique_ptr<RxQueue>> fitted = create_rx_queue(port, queue->spec);
        if (!fitted)
            return fail(fitted.error().code, "Rx queue {} cannot take the port's MTU of {}: {}",
                        queue->spec.queue_id, port.dev->data->mtu, fitted.error().what);
        (*fitted)->ring->counters = queue->ring->counters;
        (*fitted)->split = std::move(queue->split);
        (*fitted)->publish(queue->shared.deferred);
        queue = std::move(*fitted);
    }
    return {};
}

Result<void> start_rx_queue(RxQueue& queue) {
    if (queue.running()) return {};
    if (queue.lost())
        return fail(EIO, "Rx queue {}: its CQ failed: set the queue up again", queue.spec.queue_id);
    if (queue.reset_failed) {
        if (const int error = reset_wq_from_any_state(queue.wq.get()))
            return fail(error,
                        "Rx queue {}: the WQ still cannot be reset: {}; set the queue up again",
                        queue.spec.queue_id, rte_strerror(error));
        take_mbufs_back(queue);
    }
    if (const int error = make_ready(queue))
        return fail(error, "Rx queue {}: cannot make the WQ ready: {}", queue.spec.queue_id,
                    rte_strerror(error));
    Result<void> done = update_wq_strip(queue);
    if (done) done = queue.port.format->rx_start(*queue.ring);
    if (!done) {
        (void)reset_wq_from_any_state(queue.wq.get());
        return done;
    }
    advance(queue.shared.state, QueueState::running);
    return {};
}

void stop_rx_queue(RxQueue& queue) {
    if (!queue.running()) return;
    let_go(queue.port, queue.shared.state);
    if (const int error = reset_wq_from_any_state(queue.wq.get())) {
        RAWQP_LOG(ERR,
                  "%s: Rx queue %u cannot be stopped: %s; its mbufs stay with it until it is "
                  "started, set up again or released",
                  queue.port.name.c_str(), queue.spec.queue_id, rte_strerror(error));
        queue.reset_failed = true;
    } else {
        take_mbufs_back(queue);
    }
    advance(queue.shared.state, QueueState::set_up);
}

} // namespace rawqp
