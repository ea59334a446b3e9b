// SPDX-License-Identifier: BSD-3-Clause
// The device's work loop body, and the calls about the port and its counters.
#include "app/softhca/core/device_state.hpp"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

namespace softhca::core {
namespace {

// A round is short enough that a control call, or another queue, waits only for microseconds.
constexpr size_t kSendBudget = 128; // packets per SQ
constexpr size_t kKernelBudget = 32;
constexpr size_t kHairpinBudget = 2 * Device::State::kReceiveBudget; // more than may come meanwhile

} // namespace

bool Device::State::port_has_destination() const {
    return flow_tables.active(FlowRoot::receive) || steering.has(FlowDomain::bypass) ||
           steering.has(FlowDomain::leftovers) || steering.has(FlowDomain::sniffer);
}

void Device::State::start_wire() {
    const std::span<const std::byte> first = port.wire().preview();
    const iovec piece{const_cast<std::byte*>(first.data()), first.size()};
    if (first.empty() || data_path->is_expected({&piece, 1}, static_cast<uint32_t>(first.size())))
        port.start_wire();
}

size_t Device::State::poll_round(bool rested) {
    const size_t looks = looks_of_round(rested, work_of_round);
    doing = DataPath::Work::sending;
    port.read_clock();
    port.poll_link();
    if (port.start_is_due()) start_wire();
    size_t work = execute_entry_writes(looks);
    work += send_schedule.round(looks, [&](Sq& sq) { return data_path->send(sq, kSendBudget); });
    work += send_hairpins(kHairpinBudget);
    work += send_chains(looks);
    work += data_path->send_kernel(kKernelBudget);
    doing = DataPath::Work::receiving;
    work += data_path->receive(frames_left);
    frames_left = kReceiveBudget;
    for (Rq* const rq : failed_rqs)
        work += data_path->flush(*rq);
    tell_of_used_chains();
    cq_visits.end_round(looks);
    port.flush();
    return work_of_round = work;
}

size_t Device::State::execute_entry_writes(size_t looks) {
    const DataPath::Work was_doing = std::exchange(doing, DataPath::Work::sending);
    const auto execute = [this](Sq& sq) { return data_path->send(sq, kSendBudget); };
    const size_t work = rc_schedule.round(looks, execute);
    if (work != 0) awaited = true;
    doing = was_doing;
    return work;
}

void Device::State::execute_entry_writes() {
    (void)execute_entry_writes(std::numeric_limits<size_t>::max());
}

size_t Device::poll(bool rested) {
    State& state = *state_;
    state.awaited = false;
    if (state.control_waiting.load(std::memory_order_relaxed) != 0) {
        std::this_thread::yield();
        return 0;
    }
    const std::lock_guard lock(state.mutex);
    if (state.dead) return 0;
    if (const auto self = std::this_thread::get_id();
        state.polled_by.load(std::memory_order_relaxed) != self)
        state.polled_by.store(self, std::memory_order_relaxed);
    size_t work = 1; // of a round that is not finished
    state.end_left_work(run_guarded(state, [&] { work = state.poll_round(rested); }));
    return work;
}

bool Device::was_awaited() const { return state_->awaited; }

/// Reporting it also needs memory, which may be gone as well.
void Device::State::end_left_work(const void* missing) {
    while (missing)
        missing = run_guarded(*this, [this, at = missing] { lose_memory(at); });
}

size_t Device::State::take(std::span<const iovec> frames) {
    // Another thread has the device in its caches, and would have to wait.
    if (polled_by.load(std::memory_order_relaxed) != std::this_thread::get_id()) return 0;
    if (control_waiting.load(std::memory_order_relaxed) != 0) return 0;
    const std::unique_lock lock(mutex, std::try_to_lock);
    if (!lock || dead) return 0;
    port.read_clock();
    doing = DataPath::Work::taking;
    frames = frames.first(std::min(frames.size(), frames_left));
    const void* const missing = run_guarded(*this, [&] { data_path->take(frames); });
    const auto is_sent_from = [&](const iovec& frame) {
        return DmaArea::contiguous(frame.iov_base, frame.iov_len).contains(missing);
    };
    // Both devices may know the memory: whether it is part of a frame tells whose loss it is.
    if (missing && std::ranges::any_of(frames, is_sent_from))
        data_path->lose_frame();
    else
        end_left_work(missing);
    const size_t taken = data_path->taken();
    frames_left -= taken;
    return taken;
}

Outcome<QueueCounters> Device::sq_counters(Number sqn) const {
    const ControlLock lock(*state_);
    const Sq* const sq = state_->sqs.find(sqn);
    if (!sq) return tl::unexpected(Status::bad_resource);
    return sq->counters;
}

Outcome<QueueCounters> Device::rq_counters(Number rqn) const {
    const ControlLock lock(*state_);
    const Rq* const rq = state_->rqs.find(rqn);
    if (!rq) return tl::unexpected(Status::bad_resource);
    return rq->counters;
}

PortCounters Device::counters() const {
    const ControlLock lock(*state_);
    return state_->port.counters;
}

GroupCounters Device::group_counters() const {
    const ControlLock lock(*state_);
    return state_->port.group_counters;
}

std::pair<PortCounters, GroupCounters> Device::traffic_counters() const {
    const ControlLock lock(*state_);
    return {state_->port.counters, state_->port.group_counters};
}

FrameCounters Device::frame_counters() const {
    const ControlLock lock(*state_);
    return state_->port.frame_counters();
}

void Device::set_mtu(uint16_t mtu) {
    const ControlLock lock(*state_);
    state_->port.set_mtu(mtu);
}

void Device::set_pause(bool on) {
    const ControlLock lock(*state_);
    state_->port.set_pause(on);
}

bool Device::pause() const {
    const ControlLock lock(*state_);
    return state_->port.pause();
}

uint16_t Device::mtu() const {
    const ControlLock lock(*state_);
    return state_->port.mtu();
}

void Device::set_delay_drop(uint64_t timeout_ns, uint64_t rearm_ns) {
    const ControlLock lock(*state_);
    DelayDrop& delay_drop = state_->delay_drop;
    delay_drop = {.rqs = delay_drop.rqs, .timeout_ns = timeout_ns, .rearm_ns = rearm_ns};
}

void Device::set_mac(const std::array<uint8_t, 6>& mac) {
    const ControlLock lock(*state_);
    state_->port.set_mac(mac);
}

void Device::set_kernel_promiscuous(bool on) {
    const ControlLock lock(*state_);
    state_->port.set_kernel_promiscuous(on);
}

void Device::set_loopback(Loopback loopback) {
    const ControlLock lock(*state_);
    state_->port.set_loopback(loopback);
}

void Device::set_vxlan_ports(const net::VxlanPorts& ports) {
    const ControlLock lock(*state_);
    state_->port.set_vxlan_ports(ports);
}

net::VxlanPorts Device::vxlan_ports() const {
    const ControlLock lock(*state_);
    return state_->port.vxlan_ports();
}

void Device::set_other_addresses(std::vector<std::array<uint8_t, 6>> addresses) {
    const ControlLock lock(*state_);
    state_->port.set_other_addresses(std::move(addresses));
}

void Device::show_clock(net::be64* where) {
    const ControlLock lock(*state_);
    state_->port.show_clock(where);
}

void Device::set_link(bool up) {
    const ControlLock lock(*state_);
    state_->port.set_link(up);
}

void Device::set_cable(bool plugged_in) {
    const ControlLock lock(*state_);
    state_->port.set_cable(plugged_in);
}

bool Device::link_up() const {
    const ControlLock lock(*state_);
    return state_->port.link_up();
}

void Device::add_listener(Listener* listener) {
    const ControlLock lock(*state_);
    state_->port.add_listener(listener);
}

void Device::remove_listener(Listener* listener) {
    const ControlLock lock(*state_);
    state_->port.remove_listener(listener);
}

const DeviceConfig& Device::config() const { return state_->config; }

std::array<int, 2> Device::wait_fds() const { return state_->port.wait_fds(); }

} // namespace softhca::core
