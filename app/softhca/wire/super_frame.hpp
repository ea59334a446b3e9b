// SPDX-License-Identifier: BSD-3-Clause
// TCP packets that a kernel passes through a TAP as one: a super-frame, with a header in front
// that says of how many bytes each packet is (Linux: Documentation/networking/tuntap.rst,
// virtio 1.2, 5.1.6.2). Of plain IPv4 and IPv6, in VLANs or not.
#pragma once

#include "app/softhca/wire/wire.hpp"
#include "common/net/tso.hpp"
#include "common/net/virtio.hpp"

#include <array>

namespace softhca::wire {

using net::virtio::NetHeader;

/// With the largest IP packet, two VLAN tags and some room.
inline constexpr uint32_t kMaxSuperFrame = 65536 + 64;

/// Fills in the checksum that the header leaves to the device. False: it is not in the frame.
[[nodiscard]] bool complete_checksum(const NetHeader& offload, std::span<std::byte> frame);

/// Makes the packets of a super-frame, one after the other.
class Splitter {
  public:
    /// False when the frame is not what `offload` says. It must stay until the last packet is made.
    [[nodiscard]] bool begin(const NetHeader& offload, std::span<const std::byte> frame);
    [[nodiscard]] bool done() const { return at_ == payload_.size(); }
    [[nodiscard]] size_t packets_made() const { return index_; }
    /// Bytes of the next packet.
    [[nodiscard]] size_t next_bytes() const;
    /// Writes the next packet, whole, with its checksums.
    void write_next(std::byte* to);

  private:
    net::TsoHeader header_;
    std::span<const std::byte> payload_;
    uint32_t at_ = 0, index_ = 0; ///< of the next packet, as TsoHeader::write() has them
    uint16_t packet_bytes_ = 0;   ///< of payload
};

/// Makes super-frames of packets that follow one another in a TCP connection, as a NIC with LRO
/// does: what a receiver sees of them does not change. Packets with flags but ACK and PSH, with
/// wrong checksums or with anything in their headers that would get lost are not for it.
class Merger {
  public:
    /// Takes a copy of the frame if it is one that others may follow, or that follows what is held.
    /// False: it is neither, or there is no room: flush, then try again or send it by itself.
    [[nodiscard]] bool take(const OutFrame& frame);
    /// Nothing can follow what is held.
    [[nodiscard]] bool complete() const { return complete_; }
    [[nodiscard]] size_t packets() const { return packets_; }
    /// Of all packets that are held, as they were taken.
    [[nodiscard]] size_t packet_bytes() const { return packet_bytes_; }

    /// What is held, header and frame, both valid until clear().
    [[nodiscard]] std::array<iovec, 2> finish();
    void clear();

  private:
    [[nodiscard]] bool hold(const OutFrame& frame, const net::Headers& headers);
    [[nodiscard]] bool append(const OutFrame& frame, const net::Headers& headers,
                              const std::byte* head);
    [[nodiscard]] bool follows(const net::Headers& headers, const std::byte* head) const;

    NetHeader offload_;
    net::Headers headers_; ///< of the first packet
    uint32_t bytes_ = 0;   ///< of frame_
    uint32_t payload_of_first_ = 0;
    size_t packets_ = 0, packet_bytes_ = 0;
    bool complete_ = false;
    std::array<std::byte, kMaxSuperFrame> frame_;
};

} // namespace softhca::wire
