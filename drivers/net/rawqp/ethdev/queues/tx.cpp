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
#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/rings/tx_common.hpp"

#include <algorithm>
#include <bit>

namespace rawqp {
namespace {

/// Longer chains make every WQE of the ring longer, and device limits are in bytes.
constexpr uint16_t kTxSegments = 16;
constexpr uint16_t kTxDescriptors = 4096;
constexpr uint64_t kDrainMicroseconds = 200'000;

Result<void> create_tx_cq(TxQueue& queue) {
    ibv_cq_init_attr_ex attributes{};
    const CqOwner owner = CqOwner::make(CqOwner::Side::tx, queue.spec.queue_id);
    queue.cq_serial = owner.serial;
    attributes.cq_context = owner.context();
    attributes.cqe = tx_cq_depth(queue.spec.descriptors, queue.spec.offloads);
    attributes.comp_vector =
        queue.spec.queue_id %
        static_cast<unsigned>(std::max(1, queue.spec.context->num_comp_vectors));
    queue.port.ring_memory->set_domain(attributes);
    ibv_cq_ex* cq = create_single_threaded_cq(queue.spec.context, attributes);
    if (cq == nullptr) {
        const int error = errno;
        return fail(error, "Tx queue {}: cannot create a CQ of {} entries: {}", queue.spec.queue_id,
                    attributes.cqe, verbs::errno_text(error, verbs::Attempt::create_queue));
    }
    queue.cq = verbs::CqEx(cq, {queue.port.api->destroy_cq});
    queue.spec.cq = cq;
    return {};
}

/// The queue is used by one thread at a time. If the provider cannot make use of that, or is out of
/// registers, the QP is in the port's own domain.
void create_thread_domain(TxQueue& queue) {
    ibv_context* const context = queue.spec.context;
    ibv_td_init_attr td_attributes{};
    ibv_td* const td = ibv_alloc_td(context, &td_attributes);
    if (td == nullptr) return;
    verbs::Td thread_domain(td, {ibv_dealloc_td, "thread domain"});
    verbs::Pd parent = queue.port.ring_memory->make_domain(td);
    if (!parent) return;
    queue.thread_domain = std::move(thread_domain);
    queue.parent_domain = std::move(parent);
    queue.spec.own_register = true;
}

/// Uses the extended call only where the plain one, which every provider has, is not enough.
ibv_qp* create_qp_object(const TxQueue& queue, const TxQpNeeds& needs, uint64_t send_ops) {
    const Port& port = queue.port;
    ibv_pd* const pd = queue.parent_domain ? queue.parent_domain.get() : port.ring_memory->domain();
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = IBV_QPT_RAW_PACKET;
    wanted.send_cq = wanted.recv_cq = ibv_cq_ex_to_cq(queue.cq.get());
    wanted.cap = needs.cap;
    wanted.pd = pd;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (needs.max_tso_header != 0) wanted.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    if (send_ops != 0) wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.max_tso_header = needs.max_tso_header;
    wanted.send_ops_flags = send_ops;
    if (wanted.comp_mask != IBV_QP_INIT_ATTR_PD)
        return verbs::create_qp_ex(port.context.get(), wanted);
    ibv_qp_init_attr plain{};
    plain.qp_type = wanted.qp_type;
    plain.send_cq = plain.recv_cq = wanted.send_cq;
    plain.cap = wanted.cap;
    return port.api->create_qp(pd, &plain);
}

Result<void> create_qp(TxQueue& queue) {
    const TxQpNeeds needs = queue.port.format->tx_needs(queue.spec);
    if (needs.thread_domain) create_thread_domain(queue);
    ibv_qp* qp = nullptr;
    if (needs.send_ops != 0) {
        qp = create_qp_object(queue, needs, needs.send_ops);
        if (qp != nullptr) queue.spec.qp_ex = queue.port.api->qp_to_qp_ex(qp);
        queue.spec.work_requests = queue.spec.qp_ex != nullptr;
    }
    if (qp == nullptr && (needs.send_ops == 0 || is_unsupported(errno)))
        qp = create_qp_object(queue, needs, 0);
    if (qp == nullptr) {
        const int error = errno;
        return fail(error, "Tx queue {}: cannot create a QP of {} WQEs of {} segments: {}",
                    queue.spec.queue_id, queue.spec.descriptors, queue.spec.max_segments,
                    verbs::errno_text(error, verbs::Attempt::create_send_qp));
    }
    queue.qp = verbs::Qp(qp, {queue.port.api->destroy_qp, "QP"});
    queue.spec.qp = qp;
    return {};
}

int modify_qp(TxQueue& queue, ibv_qp_state state, int mask = 0) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    attributes.port_num = queue.port.ib_port;
    return queue.port.api->modify_qp(queue.qp.get(), &attributes, IBV_QP_STATE | mask);
}

/// For formats whose bursts call the provider. libmlx5 learns what its port can compute when the QP
/// is given one (INIT); before that, a burst that requests it on a queue not yet started would
/// crash there.
Result<void> introduce_port(TxQueue& queue) {
    if (queue.port.format->tx_needs(queue.spec).send_ops == 0) return {};
    int error = modify_qp(queue, IBV_QPS_INIT, IBV_QP_PORT);
    if (error == 0) error = modify_qp(queue, IBV_QPS_RESET);
    if (error == 0) return {};
    return fail(error, "Tx queue {}: cannot give the QP its port: {}", queue.spec.queue_id,
                rte_strerror(error));
}

/// Packet pacing of a QP in RTS.
int pace(TxQueue& queue, uint32_t kbps) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.rate_limit = kbps;
    return queue.port.api->modify_qp(queue.qp.get(), &attributes, IBV_QP_STATE | IBV_QP_RATE_LIMIT);
}

/// To RESET from whatever state the QP is in; by way of ERR when the short way is refused.
int reset_from_any_state(TxQueue& queue) {
    if (modify_qp(queue, IBV_QPS_RESET) == 0) return 0;
    (void)modify_qp(queue, IBV_QPS_ERR);
    return modify_qp(queue, IBV_QPS_RESET);
}

/// RESET -> INIT -> RTR -> RTS; a raw packet QP needs nothing but its port on the way.
int make_ready(TxQueue& queue) {
    int error = modify_qp(queue, IBV_QPS_INIT, IBV_QP_PORT);
    if (error == 0) error = modify_qp(queue, IBV_QPS_RTR);
    if (error == 0) error = modify_qp(queue, IBV_QPS_RTS);
    if (error == 0 && queue.rate_kbps != 0) error = pace(queue, queue.rate_kbps);
    return error;
}

Result<std::unique_ptr<TxQueue>> create_tx_queue(Port& port, const TxSpec& wanted) {
    auto queue = std::make_unique<TxQueue>(port, wanted.queue_id);
    TxSpec& spec = queue->spec;
    spec = wanted;
    spec.api = port.api;
    spec.context = port.context.get();
    spec.port_id = port.dev->data->port_id;
    spec.mrs = &port.memory->table();
    spec.max_tso = max_tso(port.attributes);
    spec.vendor_part_id = port.attributes.orig_attr.vendor_part_id;
    spec.multi_packet = port.devargs.tx_multi_packet;
    spec.min_inline = port.devargs.tx_min_inline;
    spec.blue_flame = port.devargs.tx_blue_flame;
    spec.inline_bytes = port.devargs.tx_inline_bytes;
    spec.active_simd_bits = rte_vect_get_max_simd_bitwidth();
    spec.time_mask = port.send_clock.mask;
    spec.clock_khz = port.send_clock.khz;
    if ((spec.offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0)
        spec.max_segments =
            std::min<uint16_t>(max_tx_segments(port), static_cast<uint16_t>(spec.descriptors / 2));

    if (port.format->tx_settle != nullptr) port.format->tx_settle(spec);
    port.ring_memory->use_socket(spec.socket);
    Result<void> done = create_tx_cq(*queue);
    if (done) done = create_qp(*queue);
    if (done) done = introduce_port(*queue);
    if (!done) return tl::unexpected(std::move(done.error()));
    Result<TxRing*> ring = port.format->tx_create(spec);
    if (!ring) return tl::unexpected(std::move(ring.error()));
    queue->ring = *ring;
    queue->ring->stamps = port.timesync;
    return queue;
}

/// For a QP that the device is done with.
void take_mbufs_back(TxQueue& queue) {
    count_up(queue.port.totals.unsent, queue.port.format->tx_stop(*queue.ring));
    queue.reset_failed = false;
}

/// Whether the device still has packets to send. Frees those that were sent.
bool holds_packets(const TxQueue& queue) {
    const auto newest = static_cast<uint16_t>(queue.spec.descriptors - 1);
    return queue.port.format->tx_descriptor_status(queue.ring, newest) == RTE_ETH_TX_DESC_FULL;
}

/// Gives the device time to send what the application handed over before the stop: it sends from
/// all queues at the same time.
void drain(const std::vector<TxQueue*>& queues) {
    const uint64_t deadline =
        rte_get_timer_cycles() + rte_get_timer_hz() / 1'000'000 * kDrainMicroseconds;
    const auto held = [](const TxQueue* queue) { return holds_packets(*queue); };
    // Each of them is looked at, which requests the completion of its last packets.
    while (std::ranges::count_if(queues, held) > 0 && rte_get_timer_cycles() < deadline)
        rte_delay_us_sleep(20);
}

} // namespace

TxQueue::TxQueue(Port& owner, uint16_t id) : port(owner), shared(owner.shared.tx[id]) {}

void TxQueue::publish(bool deferred) {
    shared.deferred = deferred;
    shared.descriptors = spec.descriptors;
    shared.offloads = spec.offloads;
    store(shared.base, {});
    port.dev->data->tx_queues[spec.queue_id] = ring;
    ++shared.set_ups;
    advance(shared.state, QueueState::set_up);
}

TxQueue::~TxQueue() {
    if (ring == nullptr) return;
    // Once the QP is gone, the device cannot read either.
    if (reset_failed && verbs::destroy(qp) == 0) take_mbufs_back(*this);
    port.format->tx_destroy(ring);
}

uint16_t max_tx_descriptors(const Port& port) {
    const auto device = static_cast<unsigned>(std::max(port.attributes.orig_attr.max_qp_wr, 1));
    return static_cast<uint16_t>(
        std::bit_floor(std::min<unsigned>({device, kMaxDescriptors, kTxDescriptors})));
}

uint16_t max_tx_segments(const Port& port) {
    const auto device = static_cast<unsigned>(std::max(port.attributes.orig_attr.max_sge, 1));
    return static_cast<uint16_t>(std::min<unsigned>({device, kMaxTxSegments, kTxSegments}));
}

TxSpec combined_tx_spec(const Port& port, TxSpec spec) {
    // Fast free is a promise about every packet of a queue: all must have made it.
    for (const auto& queue : port.tx_queues) {
        if (!queue) continue;
        const uint64_t both = spec.offloads & queue->spec.offloads;
        spec.offloads |= queue->spec.offloads;
        if ((both & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) == 0)
            spec.offloads &= ~RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
        spec.max_segments = std::max(spec.max_segments, queue->spec.max_segments);
    }
    // A field that the application registers later takes effect at the next start.
    spec.metadata =
        port.started() ? port.shared.bursts.metadata : rte_flow_dynf_metadata_avail() != 0;
    return spec;
}

int tx_queue_setup(rte_eth_dev* dev, uint16_t id, uint16_t descriptors, unsigned socket,
                   const rte_eth_txconf* conf) noexcept {
    Port& port = Port::of(dev);
    TxSpec wanted;
    wanted.queue_id = id;
    wanted.descriptors = std::bit_ceil(std::max(descriptors, kMinDescriptors));
    // ethdev omits from `conf` what is enabled for the whole port.
    wanted.offloads = conf->offloads | dev->data->dev_conf.txmode.offloads;
    wanted.socket = static_cast<int>(socket);
    Result<std::unique_ptr<TxQueue>> queue = create_tx_queue(port, wanted);
    if (!queue) return report(port.name, queue.error());
    const TxSpec combined = combined_tx_spec(port, (*queue)->spec);
    if (port.started() && port.format->tx_burst(combined).function != port.tx_burst)
        return report(port.name,
                      {EBUSY, fmt::format("Tx queue {}: its offloads need another burst "
                                          "function than the port runs with: stop the port "
                                          "first",
                                          id)});
    (*queue)->publish(conf->tx_deferred_start != 0);
    port.tx_queues[id] = std::move(*queue);
    return 0;
}

void tx_queue_release(rte_eth_dev* dev, uint16_t id) noexcept {
    Port& port = Port::of(dev);
    if (id >= port.tx_queues.size() || !port.tx_queues[id]) return;
    TxQueue& queue = *port.tx_queues[id];
    stop_tx_queues({&queue});
    add(port.totals.tx, since_reset(*queue.ring, queue.shared.base));
    dev->data->tx_queues[id] = nullptr;
    advance(queue.shared.state, QueueState::absent);
    port.tx_queues[id].reset();
}

int tx_queue_start(rte_eth_dev* dev, uint16_t id) noexcept {
    Port& port = Port::of(dev);
    port.secondaries->wait_for_mute();
    if (const Result<void> done = start_tx_queue(*port.tx_queues[id]); !done)
        return report(port.name, done.error());
    dev->data->tx_queue_state[id] = RTE_ETH_QUEUE_STATE_STARTED;
    port.secondaries->tell(Event::changed);
    return 0;
}

int tx_queue_stop(rte_eth_dev* dev, uint16_t id) noexcept {
    stop_tx_queues({Port::of(dev).tx_queues[id].get()});
    dev->data->tx_queue_state[id] = RTE_ETH_QUEUE_STATE_STOPPED;
    return 0;
}

int recover(TxQueue& queue) {
    int error = reset_from_any_state(queue);
    if (error == 0) error = make_ready(queue);
    note_recovery(queue, "Tx", error);
    return -error;
}

int tx_done_cleanup(void* ring, uint32_t count) noexcept {
    if (ring == nullptr) return -EINVAL; // ethdev does not check whether the queue is set up
    const uint16_t port_id = static_cast<TxRing*>(ring)->port_id;
    return Port::of(&rte_eth_devices[port_id]).format->tx_done_cleanup(ring, count);
}

int set_queue_rate_limit(rte_eth_dev* dev, uint16_t id, uint32_t rate) noexcept {
    Port& port = Port::of(dev);
    const ibv_packet_pacing_caps& device = port.attributes.packet_pacing_caps;
    if ((device.supported_qpts & (1u << IBV_QPT_RAW_PACKET)) == 0)
        return report(port.name, {ENOTSUP, fmt::format("Tx queue {}: {} does not pace packets", id,
                                                       port.device)});
    // ethdev has checked the number against the device's limit only.
    if (id >= port.tx_queues.size() || !port.tx_queues[id])
        return report(port.name, {EINVAL, fmt::format("there is no Tx queue {} to pace", id)});
    const uint64_t kbps = uint64_t{rate} * 1000;
    if (kbps != 0 && (kbps < device.qp_rate_limit_min || kbps > device.qp_rate_limit_max))
        return report(port.name,
                      {EINVAL, fmt::format("Tx queue {}: {} Mbit/s asked for, {} paces from "
                                           "{} to {} kbit/s",
                                           id, rate, port.device, device.qp_rate_limit_min,
                                           device.qp_rate_limit_max)});
    TxQueue& queue = *port.tx_queues[id];
    if (queue.running())
        if (const int error = pace(queue, static_cast<uint32_t>(kbps)))
            return report(port.name, {error, fmt::format("Tx queue {}: cannot pace it: {}", id,
                                                         rte_strerror(error))});
    queue.rate_kbps = static_cast<uint32_t>(kbps);
    return 0;
}

Result<void> start_tx_queue(TxQueue& queue) {
    if (queue.running()) return {};
    if (queue.lost())
        return fail(EIO, "Tx queue {}: its CQ failed: set the queue up again", queue.spec.queue_id);
    // Also for a QP that is in RESET: bursts put packets into the ring of a stopped queue, too, and
    // the device would send them. They are lost, and their mbufs are freed.
    if (const int error = reset_from_any_state(queue))
        return fail(error, "Tx queue {}: the QP cannot be reset: {}; set the queue up again",
                    queue.spec.queue_id, rte_strerror(error));
    if (queue.reset_failed) take_mbufs_back(queue);
    queue.port.format->tx_start(*queue.ring);
    if (const int error = make_ready(queue)) {
        (void)reset_from_any_state(queue);
        return fail(error, "Tx queue {}: cannot bring the QP to RTS: {}", queue.spec.queue_id,
                    rte_strerror(error));
    }
    advance(queue.shared.state, QueueState::running);
    return {};
}

namespace {
/// For a queue that secondaries have let go of and whose packets have had time to leave.
void end_stop(TxQueue& queue) {
    if (const int error = reset_from_any_state(queue)) {
        RAWQP_LOG(ERR,
                  "%s: Tx queue %u cannot be stopped: %s; its mbufs stay with it until it is "
                  "started, set up again or released",
                  queue.port.name.c_str(), queue.spec.queue_id, rte_strerror(error));
        queue.reset_failed = true;
    } else {
        take_mbufs_back(queue);
    }
    advance(queue.shared.state, QueueState::set_up);
}
} // namespace

void stop_tx_queues(const std::vector<TxQueue*>& queues) {
    std::vector<TxQueue*> stopping;
    for (TxQueue* const queue : queues) {
        if (queue->running()) {
            let_go(queue->port, queue->shared.state);
            stopping.push_back(queue);
        } else if (!queue->reset_failed) {
            take_mbufs_back(*queue); // see start_tx_queue
        }
    }
    drain(stopping);
    for (TxQueue* const queue : stopping)
        end_stop(*queue);
}

} // namespace rawqp
