// SPDX-License-Identifier: BSD-3-Clause
// The Ethernet port: the wire, the kernel netdev alongside it, link state and counters.
#pragma once

#include "app/softhca/core/device.hpp"
#include "app/softhca/core/frame_kinds.hpp"
#include "common/net/endian.hpp"
#include "common/net/parse.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace softhca::core {

/// Used with the device locked.
class Port {
  public:
    Port(const DeviceConfig& config, std::unique_ptr<wire::Wire> wire,
         std::unique_ptr<wire::Wire> kernel);

    /// Sends a frame to the wire: pads it, applies the port's limits. True when the frame is done
    /// (sent, or dropped and counted); false when the wire is busy: offer it again later.
    [[nodiscard]] bool transmit(std::span<const iovec> pieces, uint32_t bytes);
    /// Likewise for frames of one piece each, in order. Returns how many are done.
    [[nodiscard]] size_t transmit_batch(std::span<const iovec> frames);
    /// After a fault interrupted transmit_batch(): counts the frames that were sent. Returns how
    /// many.
    size_t end_batch();
    /// Wakes the peer after a batch of transmit().
    void flush();

    /// Received frames now have a destination. Wires that generate frames start once this has not
    /// been called for a while: a program sets up several rules, and frames that came between two
    /// of them would be lost. A program that never pauses is not waited for forever.
    void start() {
        read_clock();
        if (start_by_ == 0) start_by_ = now_ + kMaxStartDelayNs;
        start_at_ = std::min(now_ + kStartDelayNs, start_by_);
    }
    /// They have none any more: programs try rules long before they set themselves up.
    void put_off_start() { start_at_ = start_by_ = 0; }
    [[nodiscard]] bool start_is_due() const { return start_at_ != 0 && now_ >= start_at_; }
    void start_wire() {
        start_at_ = 0;
        wire_->start();
    }
    /// The port's share of one poll round: link state.
    void poll_link();
    /// The kernel netdev, or null.
    [[nodiscard]] wire::Wire* kernel() const { return kernel_.get(); }
    /// True when the kernel netdev would accept a frame to this MAC.
    [[nodiscard]] bool kernel_accepts(const std::byte* dst_mac) const;
    /// Hands a frame to the kernel netdev; a refusal is counted.
    void to_kernel(std::span<const iovec> pieces, uint32_t bytes);

    void set_link(bool up) { switch_link(up, cable_); }
    void set_cable(bool plugged_in) { switch_link(admin_up_, plugged_in); }
    [[nodiscard]] bool link_up() const { return up_; }
    void set_mtu(uint16_t mtu) { mtu_ = mtu; }
    [[nodiscard]] uint16_t mtu() const { return mtu_; }
    /// The longest frame, without FCS: an MTU of payload plus one VLAN tag.
    [[nodiscard]] uint32_t max_frame() const { return mtu_ + 18u; }
    /// See DeviceConfig.
    void set_pause(bool on) { pause_ = on; }
    [[nodiscard]] bool pause() const { return pause_; }
    void set_mac(const std::array<uint8_t, 6>& mac) { mac_ = mac; }
    [[nodiscard]] const std::array<uint8_t, 6>& mac() const { return mac_; }
    /// See Device.
    void set_loopback(Loopback loopback) {
        loopback_ = loopback;
        loops_ = loopback.any();
    }
    void set_vxlan_ports(const net::VxlanPorts& ports) { vxlan_ports_ = ports; }
    [[nodiscard]] const net::VxlanPorts& vxlan_ports() const { return vxlan_ports_; }
    void set_other_addresses(std::vector<std::array<uint8_t, 6>> addresses) {
        other_addresses_ = std::move(addresses);
    }
    /// Where a sent frame goes.
    enum class Route : uint8_t { wire, loopback, both };
    [[nodiscard]] bool loops() const { return loops_; }
    [[nodiscard]] Route route(std::span<const iovec> pieces, uint32_t bytes) const;
    void set_kernel_promiscuous(bool on) { kernel_promiscuous_ = on; }

    void add_listener(Listener* listener) { listeners_.push_back(listener); }
    void remove_listener(Listener* listener) { std::erase(listeners_, listener); }
    void tell_listeners(AsyncEvent event);

    [[nodiscard]] wire::Wire& wire() { return *wire_; }
    [[nodiscard]] std::array<int, 2> wait_fds() const;

    /// The device clock (CQE timestamps), read once per poll round.
    [[nodiscard]] uint64_t now() const { return now_; }
    void read_clock();
    /// Also writes the clock there, for programs to read, unless another port has written a later
    /// time; `where` must outlive the port.
    void show_clock(net::be64* where) {
        clock_register_ = where;
        read_clock(); // a program may read it before the next poll round
    }

    /// Counts a frame that the wire brought.
    void count_received(std::span<const iovec> pieces, uint32_t bytes) {
        count_received(1, bytes);
        rx_sizes_.count(bytes);
        if (may_be_rare(pieces)) count_rare(pieces, bytes, rx_kinds());
    }
    /// Likewise in two steps, for several frames at once: first the kind of each, which must have
    /// its complete headers in one piece, and then their number.
    void count_received_kind(const iovec& frame) {
        const auto bytes = static_cast<uint32_t>(frame.iov_len);
        rx_sizes_.count(bytes);
        if (may_be_rare(frame.iov_base)) count_rare({&frame, 1}, bytes, rx_kinds());
    }
    void count_received(uint64_t packets, uint64_t bytes) {
        counters.wire_rx_packets += packets;
        counters.wire_rx_bytes += bytes;
    }
    /// Likewise for a frame that the port sent to itself.
    void count_looped(std::span<const iovec> pieces, uint32_t bytes) {
        counters.loopback_packets++;
        counters.loopback_bytes += bytes;
        if (may_be_rare(pieces))
            count_rare(
                pieces, bytes,
                {group_counters.loopback_multicast, group_counters.loopback_broadcast, nullptr});
    }
    [[nodiscard]] FrameCounters frame_counters() const;

    PortCounters counters;
    GroupCounters group_counters;

  private:
    [[nodiscard]] static bool is_group(std::span<const iovec> pieces) {
        return (*static_cast<const uint8_t*>(pieces.front().iov_base) & 1) != 0;
    }
    [[nodiscard]] RareKinds rx_kinds() {
        return {group_counters.rx_multicast, group_counters.rx_broadcast, &rx_tagged_};
    }
    [[nodiscard]] RareKinds tx_kinds() {
        return {group_counters.tx_multicast, group_counters.tx_broadcast, &tx_tagged_};
    }

    /// Progress of transmit_batch().
    struct Batch {
        std::span<const iovec> frames;
        size_t sent = 0;
    };
    [[nodiscard]] bool takes_whole(std::span<const iovec> frames) const;
    /// As in mlx5_core, a netdev that goes down takes the port's link down.
    [[nodiscard]] bool is_switched_on() const {
        return admin_up_ && cable_ && (!kernel_ || kernel_->carrier());
    }
    [[nodiscard]] bool has_link() const { return on_ && (carrier_always_ || wire_->carrier()); }
    void switch_link(bool admin_up, bool cable);

    SizeCounts rx_sizes_;
    PriorityCounts rx_tagged_{}, tx_tagged_{};
    net::be64* clock_register_ = nullptr;
    Batch batch_;
    std::unique_ptr<wire::Wire> wire_;
    std::unique_ptr<wire::Wire> kernel_;
    bool admin_up_ = true;
    bool cable_ = true; ///< false: pulled on request, whatever the wire has at its other end
    bool on_;           ///< as the wire was told
    bool carrier_always_;
    bool up_;
    bool sent_ = false; ///< since the last flush()
    bool kernel_sent_ = false;
    bool kernel_promiscuous_;
    bool pause_;
    uint16_t mtu_;
    static constexpr uint64_t kStartDelayNs = 100'000'000;
    static constexpr uint64_t kMaxStartDelayNs = 1'000'000'000; // from the first rule
    uint64_t start_at_ = 0;                                     ///< 0: not due
    uint64_t start_by_ = 0;
    uint64_t now_ = 0;
    std::array<uint8_t, 6> mac_;
    Loopback loopback_;
    bool loops_ = false;
    std::vector<std::array<uint8_t, 6>> other_addresses_;
    net::VxlanPorts vxlan_ports_;
    std::vector<Listener*> listeners_;
};

} // namespace softhca::core
