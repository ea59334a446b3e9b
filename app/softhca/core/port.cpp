// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/port.hpp"

#include "app/softhca/clock.hpp"
#include "app/softhca/core/gather.hpp"

#include <array>
#include <cstring>
#include <utility>

namespace softhca::core {
namespace {

constexpr uint32_t kMinFrame = 60; // without FCS
constexpr std::byte kPadding[kMinFrame]{};

} // namespace

Port::Port(const DeviceConfig& config, std::unique_ptr<wire::Wire> wire,
           std::unique_ptr<wire::Wire> kernel)
    : wire_(std::move(wire)), kernel_(std::move(kernel)), carrier_always_(config.carrier_always),
      kernel_promiscuous_(config.kernel_promiscuous), pause_(config.pause), mtu_(config.mtu),
      mac_(config.mac) {
    // An earlier process may have left either interface without a carrier.
    on_ = is_switched_on();
    wire_->set_carrier(on_);
    up_ = has_link();
    if (!kernel_) return;
    kernel_->set_carrier(up_);
    wire_->start();
}

bool Port::transmit(std::span<const iovec> pieces, uint32_t bytes) {
    if (!up_) {
        counters.drop_link_down++;
        return true;
    }
    if (bytes > max_frame()) {
        counters.drop_tx_oversize++;
        return true;
    }
    wire::SendResult result;
    if (bytes >= kMinFrame) {
        result = wire_->send({pieces, bytes});
    } else {
        std::byte padded[kMinFrame];
        copy_front(pieces, padded, bytes);
        std::memcpy(padded + bytes, kPadding, kMinFrame - bytes);
        const iovec piece{padded, kMinFrame};
        bytes = kMinFrame;
        result = wire_->send({{&piece, 1}, bytes});
    }
    if (result == wire::SendResult::busy) return false;
    sent_ = true;
    if (result == wire::SendResult::lost) {
        counters.drop_tx_wire++;
        return true;
    }
    counters.wire_tx_packets++;
    counters.wire_tx_bytes += bytes;
    if (may_be_rare(pieces)) count_rare(pieces, bytes, tx_kinds());
    return true;
}

/// False: some of the frames cannot go to the wire unchanged.
bool Port::takes_whole(std::span<const iovec> frames) const {
    return up_ && std::ranges::all_of(frames, [this](const iovec& frame) {
               return frame.iov_len >= kMinFrame && frame.iov_len <= max_frame();
           });
}

size_t Port::transmit_batch(std::span<const iovec> frames) {
    size_t done = 0;
    if (takes_whole(frames)) {
        batch_ = {frames, 0};
        const wire::SendResult result = wire_->send_batch(frames, batch_.sent);
        done = end_batch();
        if (result != wire::SendResult::lost) return done;
    }
    // One by one: each may have its own reason for not being sent.
    for (; done < frames.size(); done++)
        if (!transmit(frames.subspan(done, 1), static_cast<uint32_t>(frames[done].iov_len))) break;
    return done;
}

size_t Port::end_batch() {
    const Batch batch = std::exchange(batch_, {});
    const std::span<const iovec> sent = batch.frames.first(batch.sent);
    sent_ |= !sent.empty();
    for (const iovec& frame : sent)
        counters.wire_tx_bytes += frame.iov_len;
    counters.wire_tx_packets += sent.size();
    for (const iovec& frame : sent)
        if (may_be_rare(frame.iov_base))
            count_rare({&frame, 1}, static_cast<uint32_t>(frame.iov_len), tx_kinds());
    return sent.size();
}

FrameCounters Port::frame_counters() const {
    return {
        .rx_sizes = rx_sizes_.counts(),
        .rx_priorities = by_priority(rx_tagged_, counters.wire_rx_packets, counters.wire_rx_bytes),
        .tx_priorities = by_priority(tx_tagged_, counters.wire_tx_packets, counters.wire_tx_bytes),
    };
}

void Port::flush() {
    if (sent_) wire_->flush();
    if (kernel_sent_) kernel_->flush();
    sent_ = kernel_sent_ = false;
    const wire::WireReport report = wire_->take_report();
    counters.wire_rx_split += report.split;
    counters.wire_tx_merged += report.merged;
    counters.wire_tx_packets -= report.lost;
    counters.wire_tx_bytes -= report.lost_bytes;
    counters.drop_tx_wire += report.lost;
    if (!kernel_) return;
    const uint64_t lost = kernel_->take_report().lost;
    counters.kernel_rx_packets -= lost;
    counters.drop_kernel += lost;
}

void Port::poll_link() {
    if (const bool on = is_switched_on(); on != on_) {
        on_ = on;
        wire_->set_carrier(on);
    }
    const bool up = has_link();
    if (up == up_) return;
    up_ = up;
    if (kernel_) kernel_->set_carrier(up);
    counters.link_downs += up ? 0 : 1;
    tell_listeners(up ? AsyncEvent::port_active : AsyncEvent::port_error);
}

void Port::tell_listeners(AsyncEvent event) {
    for (Listener* const listener : listeners_)
        listener->on_async(event, 0, 0);
}

void Port::switch_link(bool admin_up, bool cable) {
    admin_up_ = admin_up;
    cable_ = cable;
    if (kernel_) kernel_->look_at_carrier();
    poll_link();
}

Port::Route Port::route(std::span<const iovec> pieces, uint32_t bytes) const {
    std::array<uint8_t, 6> to{};
    if (bytes < to.size()) return Route::wire;
    if (is_group(pieces)) return loopback_.multicast ? Route::both : Route::wire;
    if (!loopback_.unicast) return Route::wire;
    copy_front(pieces, reinterpret_cast<std::byte*>(to.data()), to.size());
    const bool own =
        to == mac_ || std::ranges::find(other_addresses_, to) != other_addresses_.end();
    return own ? Route::loopback : Route::wire;
}

bool Port::kernel_accepts(const std::byte* dst_mac) const {
    if (!kernel_) return false;
    const bool group = (dst_mac[0] & std::byte{1}) != std::byte{0};
    return kernel_promiscuous_ || group || std::memcmp(dst_mac, mac_.data(), mac_.size()) == 0;
}

void Port::to_kernel(std::span<const iovec> pieces, uint32_t bytes) {
    // A netdev never holds the wire: frames that find no room are dropped, as by a full backlog.
    if (kernel_->send({pieces, bytes}) == wire::SendResult::sent) {
        counters.kernel_rx_packets++;
        kernel_sent_ = true;
    } else {
        counters.drop_kernel++;
    }
}

void Port::read_clock() {
    now_ = clock_ns();
    if (!clock_register_) return;
    // A control call at another port may have written a later time meanwhile.
    uint64_t& shown = clock_register_->raw;
    uint64_t known = __atomic_load_n(&shown, __ATOMIC_RELAXED);
    while (net::to_be(known) < now_ &&
           !__atomic_compare_exchange_n(&shown, &known, net::to_be(now_), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
}

std::array<int, 2> Port::wait_fds() const {
    return {wire_->wait_fd(), kernel_ ? kernel_->wait_fd() : -1};
}

} // namespace softhca::core
