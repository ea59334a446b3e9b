// SPDX-License-Identifier: BSD-3-Clause
// One packet: its bytes, its headers, what steering and checksum verification make of it.
#pragma once

#include "app/softhca/core/flow_key.hpp"
#include "common/net/l4.hpp"
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

/// Allowed over IPv4 only (RFC 8200).
[[nodiscard]] inline bool udp_without_checksum(const net::Headers& headers, const std::byte* head) {
    return headers.ip_version == 4 && headers.ip_proto == net::kProtoUdp &&
           net::load_be<uint16_t>(head + headers.l4 + 6) == 0;
}

/// Bytes, and where the headers are among them. Valid as long as the pieces.
class Frame {
  public:
    /// Of one piece, whose headers are known, and whether they are right, too (null: not yet).
    Frame(const iovec& whole, const net::Headers& headers, const ChecksumVerdict* verdict)
        : verdict_(verdict), pieces_(&whole, 1), bytes_(static_cast<uint32_t>(whole.iov_len)),
          head_bytes_(bytes_), head_(static_cast<const std::byte*>(whole.iov_base)),
          headers_(headers) {}
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

    const ChecksumVerdict* verdict_ = nullptr; ///< of headers_, if it is known
    std::span<const iovec> pieces_;
    uint32_t bytes_;
    uint32_t head_bytes_;
    const std::byte* head_;
    net::Headers headers_;
};

/// As Frame::verify(), of a packet of one piece whose headers are plain: IPv4 without options or
/// IPv6 without extensions, no fragment, TCP or UDP.
[[nodiscard]] inline ChecksumVerdict verify_plain(const std::byte* head,
                                                  const net::Headers& headers) {
    const bool ipv4 = headers.ip_version == 4;
    const std::byte* const ip = head + headers.l3;
    const std::byte* const l4 = head + headers.l4;
    const uint32_t l4_bytes = headers.l3 + headers.ip_bytes - headers.l4;
    const uint32_t covered = net::l4_bytes(headers, head);

    const uint64_t header = ipv4 ? net::sum_bytes(ip, 20) : net::sum_bytes(ip, 40);
    const uint64_t addresses = ipv4 ? net::sum_bytes(ip + 12, 8) : net::sum_bytes(ip + 8, 32);
    const uint64_t packet = net::sum_bytes(l4, covered);
    const uint64_t pseudo = net::add_sums(
        addresses, net::to_be(static_cast<uint16_t>(covered + headers.ip_proto))); // below 2^16
    uint64_t all = net::add_sums(header, packet);
    if (covered != l4_bytes) { // UDP that is shorter than the packet
        const uint64_t rest = net::sum_bytes(l4 + covered, l4_bytes - covered);
        all = net::add_sums(all, covered & 1 ? net::byteswap(net::fold_sum(rest)) : rest);
    }
    constexpr uint16_t kSound = 0xffff;
    return {.l3_ok = !ipv4 || net::fold_sum(header) == kSound,
            .l4_ok = covered != 0 && (udp_without_checksum(headers, head) ||
                                      net::fold_sum(net::add_sums(pseudo, packet)) == kSound),
            .l3_sum = net::to_be(net::fold_sum(all))};
}

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
