// SPDX-License-Identifier: BSD-3-Clause
// TCP packets that a kernel passes through a TAP as one: a super-frame, with a header in front that
// gives the size of each packet (Linux: Documentation/networking/tuntap.rst, virtio 1.2, 5.1.6.2).
// For plain IPv4 and IPv6, with or without VLAN tags.
#pragma once

#include "app/softhca/wire/wire.hpp"
#include "common/net/tso.hpp"
#include "common/net/virtio.hpp"

#include <array>

namespace softhca::wire {

using net::virtio::NetHeader;

/// Fits the largest IP packet, two VLAN tags and some room.
inline constexpr uint32_t kMaxSuperFrame = 65536 + 64;

/// Fills in the checksum that the header leaves to the device. False: its field is not in the
/// frame.
[[nodiscard]] bool complete_checksum(const NetHeader& offload, std::span<std::byte> frame);

/// Produces the packets of a super-frame, one after the other.
class Splitter {
  public:
    /// False when the frame does not match `offload`. It must stay valid until the last packet is
    /// made.
    [[nodiscard]] bool begin(const NetHeader& offload, std::span<const std::byte> frame);
    [[nodiscard]] bool done() const { return at_ == payload_.size(); }
    [[nodiscard]] size_t packets_made() const { return index_; }
    /// Size of the next packet.
    [[nodiscard]] size_t next_bytes() const;
    /// Writes the complete next packet, with its checksums.
    void write_next(std::byte* to);

  private:
    net::TsoHeader header_;
    std::span<const std::byte> payload_;
    uint32_t at_ = 0, index_ = 0; ///< of the next packet, as TsoHeader::write() has them
    uint16_t packet_bytes_ = 0;   ///< of payload
};

/// Builds super-frames from consecutive packets of a TCP connection, as a NIC with LRO does: a
/// receiver sees the same data. Not for packets with flags other than ACK and PSH, with wrong
/// checksums or with header contents that would get lost.
class Merger {
  public:
    /// Copies the frame if others may follow it, or if it follows what is held. False: neither, or
    /// no room: flush, then try again or send the frame separately.
    [[nodiscard]] bool take(const OutFrame& frame);
    /// Nothing can follow what is held.
    [[nodiscard]] bool complete() const { return complete_; }
    [[nodiscard]] size_t packets() const { return packets_; }
    /// Total size of the held packets, as they were taken.
    [[nodiscard]] size_t packet_bytes() const { return packet_bytes_; }

    /// The held super-frame, header and frame, both valid until clear().
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
