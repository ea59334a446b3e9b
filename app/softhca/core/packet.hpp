// SPDX-License-Identifier: BSD-3-Clause
// One packet: its bytes, its headers, what steering and checksum verification make of it.
#pragma once

#include "app/softhca/core/flow_key.hpp"
#include "common/net/parse.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <sys/uio.h>

namespace softhca::core {

/// What checksum verification found.
struct ChecksumVerdict {
    bool l3_ok = false;  ///< IPv4 header checksum right; IPv6: header valid
    bool l4_ok = false;  ///< TCP/UDP checksum right, or UDP over IPv4 without one
    uint16_t l3_sum = 0; ///< one's complement sum of all bytes after the L2 header
};

/// Bytes, and where the headers are among them. Valid as long as the pieces.
class Frame {
  public:
    /// Of one piece, whose headers are known but for the IP length.
    Frame(const iovec& whole, const net::Headers& headers, uint32_t ip_bytes)
        : pieces_(&whole, 1), bytes_(static_cast<uint32_t>(whole.iov_len)), head_bytes_(bytes_),
          head_(static_cast<const std::byte*>(whole.iov_base)), headers_(headers) {
        headers_.ip_bytes = ip_bytes;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;
    ~Frame() = default;

    [[nodiscard]] std::span<const iovec> pieces() const { return pieces_; }
    [[nodiscard]] uint32_t bytes() const { return bytes_; }
    /// The contiguous beginning of the frame: all of it or at least kParseBytes.
    [[nodiscard]] const std::byte* head() const { return head_; }
    [[nodiscard]] const net::Headers& headers() const { return headers_; }
    /// Of what a tunnel carries; requires headers().inner != 0.
    [[nodiscard]] net::Headers inner_headers() const;

    /// Verifies what `headers` (the packet's own or its inner ones) describe.
    [[nodiscard]] ChecksumVerdict verify(const net::Headers& headers) const;

  protected:
    /// The derived class says where the headers are.
    Frame(std::span<const iovec> pieces, uint32_t bytes);
    [[nodiscard]] std::span<const std::byte> view() const { return {head_, head_bytes_}; }

    std::span<const iovec> pieces_;
    uint32_t bytes_;
    uint32_t head_bytes_;
    const std::byte* head_;
    net::Headers headers_;
};

/// A frame with all that rules may match. Parses on construction.
class Packet final : public Frame {
  public:
    /// The frame has at least an Ethernet header.
    Packet(std::span<const iovec> pieces, uint32_t bytes, const MetaKey& meta = {});

    /// Without the integrity of its layers.
    [[nodiscard]] const FlowKey& key() const { return key_; }
    /// With it, which takes reading the whole packet.
    [[nodiscard]] const FlowKey& verified_key() const;
    /// Whether somebody wanted to know it.
    [[nodiscard]] bool is_verified() const { return verified_; }
    /// Of any tunnel that rules look into; headers().inner knows those of offloads only.
    [[nodiscard]] Inner inner() const { return inner_; }

  private:
    [[nodiscard]] uint8_t integrity_of(const net::Headers& headers) const;

    mutable FlowKey key_;
    mutable bool verified_ = false; ///< its integrity is in the key
    Inner inner_;
    std::array<std::byte, net::kParseBytes> copied_head_; // used when the first piece is short
};

} // namespace softhca::core
