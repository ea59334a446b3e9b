// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/secondary/secondary.hpp"

#include "drivers/net/rawqp/ethdev/port/ops.hpp"
#include "drivers/net/rawqp/ethdev/process/questions.hpp"
#include "drivers/net/rawqp/ethdev/secondary/refusal.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <memory>
#include <sys/socket.h>

namespace rawqp {
namespace {

/// How long a running burst may take to end.
constexpr unsigned kLeaveMilliseconds = kLetGoMilliseconds / 2;
constexpr unsigned kAttachAttempts = 200; ///< 10 ms apart
constexpr unsigned kAskAgainMicroseconds = 5000;

uint64_t cycles(unsigned milliseconds) { return rte_get_timer_hz() / 1000 * milliseconds; }

LastEvent read_events(int channel) {
    LastEvent last;
    EventMessage event;
    ssize_t got;
    while ((got = recv(channel, &event, sizeof event, MSG_DONTWAIT)) == sizeof event)
        last.event = event;
    last.over = got >= 0 || (errno != EAGAIN && errno != EINTR);
    return last;
}

void answer_event(int channel, const EventMessage& event) {
    (void)send(channel, &event, sizeof event, MSG_NOSIGNAL | MSG_DONTWAIT);
}

} // namespace

SecondaryPort::SecondaryPort(rte_eth_dev* ethdev, SharedPort& shared_part, RingFormats formats)
    : ProcessPort(ethdev, shared_part), port_id_(ethdev->data->port_id), formats_(formats),
      guards_(PortGuards::of(port_id_)) {}

SecondaryPort::~SecondaryPort() {
    rte_mempool_event_callback_unregister(on_mempool_event, this);
    unwatch_channel();
    leave(nullptr);
    set_ring_host(port_id_, nullptr);
}

/// 0 or an errno value; EAGAIN and ENODEV: the primary may be working on the port.
int SecondaryPort::enter(LastEvent& missed) {
    Answered reply =
        ask_primary({.what = Question::attach, .port_id = port_id_}, kAttachMilliseconds);
    if (reply.answer.error != 0) return reply.answer.error;
    device_ = std::move(reply.fds[0]);
    channel_ = std::move(reply.fds[1]);
    answer_event(channel_.get(), {}); // from now on the primary waits for answers
    missed = read_events(channel_.get());
    return missed.is_end() ? EAGAIN : 0;
}

Result<void> SecondaryPort::connect() {
    LastEvent missed;
    int error = enter(missed);
    for (unsigned i = 1; i < kAttachAttempts && (error == EAGAIN || error == ENODEV); ++i) {
        rte_delay_us_sleep(10'000);
        error = enter(missed);
    }
    if (error != 0)
        return fail(error,
                    "{}: the primary process does not let this one in: {}: is it running, with the "
                    "same version of this driver?",
                    name, rte_strerror(error));
    read_shared();
    if (shared.not_shareable[0] != 0)
        RAWQP_LOG(NOTICE,
                  "%s: this secondary process sees statistics and state, but cannot send or "
                  "receive: %s",
                  name.c_str(), shared.not_shareable.data());
    if (Result<void> done = watch_channel(); !done) return done;
    follow();
    if (missed.event) answer_event(channel_.get(), *missed.event);
    return {};
}

/// Not before the primary has answered: until then it may be working on the port.
void SecondaryPort::read_shared() {
    sysfs = netdev::Sysfs(shared.sysfs.data());
    if (shared.netdev[0] != 0) netdev = netdev::Netdev(shared.netdev.data());
    format = &shared.ring_format(formats_);
    set_ring_host(port_id_, this);
    // The primary does not see the end of mempools that this process frees, and rings remember
    // pools by address.
    rte_mempool_event_callback_register(on_mempool_event, this);
}

void SecondaryPort::install() {
    guards_.install(*dev, *format);
    struct rte_eth_fp_ops& fast = rte_eth_fp_ops[port_id_];
    // Pollers find guards as queues before they find the functions that expect guards.
    fast.rxq.data = guards_.rx_data.data();
    fast.txq.data = guards_.tx_data.data();
    std::atomic_thread_fence(std::memory_order_release);
    fast.rx_pkt_burst = dev->rx_pkt_burst;
    fast.tx_pkt_burst = dev->tx_pkt_burst;
    fast.tx_pkt_prepare = dev->tx_pkt_prepare;
    fast.rx_queue_count = dev->rx_queue_count;
    fast.rx_descriptor_status = dev->rx_descriptor_status;
    fast.tx_descriptor_status = dev->tx_descriptor_status;
}

Result<void> SecondaryPort::watch_channel() {
    handle_ = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
    if (handle_ == nullptr || rte_intr_fd_set(handle_, channel_.get()) != 0 ||
        rte_intr_type_set(handle_, RTE_INTR_HANDLE_EXT) != 0)
        return fail(ENOMEM, "{}: cannot allocate an interrupt handle", name);
    if (const int error = -rte_intr_callback_register(handle_, on_channel, this); error > 0)
        return fail(error, "{}: cannot follow the primary process: {}", name, rte_strerror(error));
    watching_ = true;
    return {};
}

void SecondaryPort::unwatch_channel() {
    if (std::exchange(watching_, false))
        rte_intr_callback_unregister_sync(handle_, on_channel, this);
    rte_intr_instance_free(std::exchange(handle_, nullptr));
}

void SecondaryPort::on_mempool_event(rte_mempool_event event, rte_mempool*, void* self) {
    if (event != RTE_MEMPOOL_EVENT_DESTROY) return;
    auto& port = *static_cast<SecondaryPort*>(self);
    if (const Visit visit(port); visit) port.shared.mrs->next_generation();
}

void SecondaryPort::on_channel(void* self) { static_cast<SecondaryPort*>(self)->read_event(); }

void SecondaryPort::read_event() {
    const LastEvent last = read_events(channel_.get());
    const auto& event = last.event;
    if (!last.is_end()) {
        if (!event) return;
        follow();
        answer_event(channel_.get(), *event);
        return;
    }
    const bool closed = last.is_closed();
    const rte_eth_link none{};
    if (!closed) rte_eth_linkstatus_set(dev, &none); // the port's data stay as they are now
    leave(closed ? "the primary process closes the port" : "the primary process is gone");
    if (closed) {
        wait_for_visitors();
        dev->data = &data_of_closed(); // both stay readable for whoever is in ethdev just now
        answer_event(channel_.get(), *event);
    }
    // Nothing more comes, but the descriptor stays readable.
    rte_intr_callback_unregister_pending(handle_, on_channel, this, nullptr);
}

void SecondaryPort::open_queues() {
    const rte_eth_dev_data& data = *dev->data;
    const SharedBursts& bursts = shared.bursts;
    const eth_rx_burst_t rx_function = format->rx_burst(bursts.rx_spec()).function;
    const eth_tx_burst_t tx_function = format->tx_burst(bursts.tx_spec()).function;
    for (uint16_t i = 0; i < data.nb_rx_queues; ++i)
        if (!guards_.rx[i].is_open() && load_state(shared.rx[i].state) == QueueState::running)
            guards_.rx[i].open(data.rx_queues[i], rx_function, shared.rx[i].set_ups);
    for (uint16_t i = 0; i < data.nb_tx_queues; ++i) {
        if (guards_.tx[i].is_open() || load_state(shared.tx[i].state) != QueueState::running)
            continue;
        auto* const ring = static_cast<TxRing*>(data.tx_queues[i]);
        if (const Result<void> done = format->tx_map(*ring, device_.get()); !done)
            RAWQP_LOG(ERR, "%s: %s: this process cannot use the queue", name.c_str(),
                      done.error().what.c_str());
        else
            guards_.tx[i].open(ring, tx_function, shared.tx[i].set_ups);
    }
}

void SecondaryPort::follow() {
    const std::lock_guard lock(queues_mutex_);
    const bool runs = alive() && shared.is_running() && shared.not_shareable[0] == 0;
    // A process that hung may have missed the end of a queue and its restart.
    const auto stays = [&](const auto& guard, const auto& queue) {
        return runs && load_state(queue.state) == QueueState::running &&
               guard.set_up == queue.set_ups;
    };
    std::vector<uint16_t> closed_tx;
    for (size_t i = 0; i < guards_.rx.size(); ++i)
        if (guards_.rx[i].is_open() && !stays(guards_.rx[i], shared.rx[i])) guards_.rx[i].close();
    for (size_t i = 0; i < guards_.tx.size(); ++i) {
        if (!guards_.tx[i].is_open() || stays(guards_.tx[i], shared.tx[i])) continue;
        guards_.tx[i].close();
        closed_tx.push_back(static_cast<uint16_t>(i));
    }
    if (!guards_.wait_until_left(kLeaveMilliseconds)) {
        RAWQP_LOG(WARNING, "%s: a burst of this process does not end", name.c_str());
        closed_tx.clear(); // it may be about to ring its doorbell
    }
    for (const uint16_t queue : closed_tx)
        format->tx_unmap(port_id_, queue);
    if (runs) open_queues();
}

void SecondaryPort::leave(const char* why) {
    if (gone_.exchange(true)) return;
    follow();
    device_.reset(); // what keeps the device open
    if (why != nullptr)
        RAWQP_LOG(WARNING, "%s: %s: nothing is sent or received by this one any more", name.c_str(),
                  why);
}

void SecondaryPort::wait_for_visitors() const {
    const uint64_t deadline = rte_get_timer_cycles() + cycles(kLeaveMilliseconds);
    while (visitors_ != 0 && rte_get_timer_cycles() < deadline)
        rte_delay_us_sleep(20);
    if (visitors_ != 0)
        RAWQP_LOG(WARNING, "%s: a call of this process does not end, whose port is closed",
                  name.c_str());
}

AnswerMessage SecondaryPort::ask(QuestionMessage question) {
    question.port_id = port_id_;
    if (alive()) return ask_primary(question, kAnswerMilliseconds).answer;
    AnswerMessage none;
    none.error = EIO;
    return none;
}

AnswerMessage SecondaryPort::ask_patiently(const QuestionMessage& question) {
    const uint64_t deadline = rte_get_timer_cycles() + cycles(kBusyMilliseconds);
    for (;;) {
        AnswerMessage answer = ask(question);
        // The primary may be waiting for what only the interrupt thread can tell it.
        const bool over = rte_thread_is_intr() != 0 || rte_get_timer_cycles() > deadline;
        if (answer.error != EAGAIN || over) return answer;
        rte_delay_us_sleep(kAskAgainMicroseconds);
    }
}

bool SecondaryPort::register_address(uintptr_t address, MrEntry& entry) {
    const AnswerMessage answer = ask({.what = Question::register_address, .address = address});
    entry = answer.entry;
    return answer.error == 0;
}

template <class Ring> int SecondaryPort::ask_reset(Question what, const Ring& ring) {
    return -ask({.what = what,
                 .queue_id = ring.queue_id,
                 .address = reinterpret_cast<uintptr_t>(&ring)})
                .error;
}
int SecondaryPort::reset(RxRing& ring) { return ask_reset(Question::reset_rx, ring); }
int SecondaryPort::reset(TxRing& ring) { return ask_reset(Question::reset_tx, ring); }

int SecondaryPort::read_clock(mlx5dv_clock_info& info) {
    // Each queue's bursts want it a hundred times a second, too often to ask another process each
    // time.
    const std::lock_guard lock(clock_mutex_);
    const uint64_t now = rte_get_timer_cycles();
    if (now >= next_clock_) {
        next_clock_ = now + rte_get_timer_hz();
        clock_ = ask({.what = Question::read_clock});
    }
    info = clock_.clock;
    return clock_.error;
}

int SecondaryPort::read_clock(uint64_t& ticks) { return device_clock(ticks); }

void SecondaryPort::read_missed() {
    // Counters of queues are objects of the primary, and sysfs may show the device to it alone.
    (void)ask_patiently({.what = Question::read_missed});
}

rte_eth_dev_data& SecondaryPort::data_of_closed() {
    guards_.closed.port_id = port_id_;
    guards_.closed.rx_queues = guards_.closed.tx_queues = guards_.no_rings.data();
    guards_.closed.mac_addrs = &guards_.no_address;
    return guards_.closed;
}

int SecondaryPort::read_link() { return ask({.what = Question::read_link}).error; }

int SecondaryPort::device_clock(uint64_t& time) {
    const AnswerMessage answer = ask({.what = Question::device_clock});
    time = answer.time;
    return answer.error;
}

int SecondaryPort::query_flow(const rte_flow* flow, rte_flow_query_count& count) {
    const AnswerMessage answer = ask_patiently({.what = Question::query_flow,
                                                .address = reinterpret_cast<uintptr_t>(flow),
                                                .reset_counters = count.reset != 0});
    count.hits_set = count.bytes_set = 1;
    count.hits = answer.packets;
    count.bytes = answer.bytes;
    return answer.error;
}

Result<void> attach_secondary(rte_vdev_device* vdev, RingFormats formats) {
    rte_eth_dev* const dev = rte_eth_dev_attach_secondary(rte_vdev_device_name(vdev));
    if (dev == nullptr || dev->data->dev_private == nullptr)
        return fail(ENODEV, "the primary process has no such port");
    dev->device = &vdev->device;
    dev->dev_ops = &kSecondaryOps;
    secondary::set_flow_queue_ops(*dev);
    auto port = std::make_unique<SecondaryPort>(dev, SharedPort::of(dev), formats);
    dev->process_private = port.get();
    dev->rx_pkt_burst = rte_eth_pkt_burst_dummy; // until install(), also for callbacks of the event
    dev->tx_pkt_burst = rte_eth_pkt_burst_dummy; // of a new port
    if (Result<void> done = port->connect(); !done) {
        dev->process_private = nullptr;
        port.reset();
        rte_eth_dev_release_port(dev);
        return done;
    }
    rte_eth_dev_probing_finish(dev);
    port.release()->install(); // dev_close owns it
    return {};
}

} // namespace rawqp
