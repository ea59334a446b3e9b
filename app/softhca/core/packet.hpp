// SPDX-License-Identifier: BSD-3-Clause
// One packet: its bytes, its headers, and the results of steering and checksum verification.
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

/// Bytes, and the positions of the headers among them. Valid as long as the pieces are.
class Frame {
  public:
    /// One piece with known headers and, unless null, a known verdict on them.
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
    [[nodiscard]] std::span<const std::byte> view() const { return {head_, head_bytes_}; }
    [[nodiscard]] const net::Headers& headers() const { return headers_; }
    /// Headers of the tunnel's payload; requires headers().inner != 0.
    [[nodiscard]] net::Headers inner_headers() const;

    /// Verifies what `headers` (the packet's outer or inner ones) describe.
    [[nodiscard]] ChecksumVerdict verify(const net::Headers& headers) const;

  protected:
    /// The derived class sets the header positions.
    Frame(std::span<const iovec> pieces, uint32_t bytes);

    const ChecksumVerdict* verdict_ = nullptr; ///< of headers_, if it is known
    std::span<const iovec> pieces_;
    uint32_t bytes_;
    uint32_t head_bytes_;
    const std::byte* head_;
    net::Headers headers_;
};

/// Like Frame::verify(), for a packet of one piece with plain headers (FlowShape), whose IP packet
/// of `ip_bytes` bytes begins at `ip`.
template <bool kIpv6, bool kTcp>
[[nodiscard, gnu::always_inline]] inline ChecksumVerdict verify_plain(const std::byte* ip,
                                                                      uint32_t ip_bytes) {
    constexpr uint32_t kHeader = kIpv6 ? 40 : 20, kAddresses = kIpv6 ? 8 : 12;
    constexpr uint8_t kProto = kTcp ? net::kProtoTcp : net::kProtoUdp;
    const std::byte* const l4 = ip + kHeader;
    const uint32_t l4_bytes = ip_bytes - kHeader;
    const uint32_t covered = kTcp ? l4_bytes : net::udp_bytes(l4, l4_bytes);

    const uint64_t header = net::sum_bytes(ip, kHeader);
    const uint64_t addresses = net::sum_bytes(ip + kAddresses, kHeader - kAddresses);
    const uint64_t packet = net::sum_bytes(l4, covered);
    const uint64_t pseudo =
        net::add_sums(addresses, net::to_be(static_cast<uint16_t>(covered + kProto))); // below 2^16
    uint64_t all = net::add_sums(header, packet);
    if (!kTcp && covered != l4_bytes) { // the UDP length is shorter than the packet
        const uint64_t rest = net::sum_bytes(l4 + covered, l4_bytes - covered);
        all = net::add_sums(all, covered & 1 ? net::byteswap(net::fold_sum(rest)) : rest);
    }
    constexpr uint16_t kSound = 0xffff;
    const bool unsummed = !kIpv6 && !kTcp && net::load_be<uint16_t>(l4 + 6) == 0;
    return {.l3_ok = kIpv6 || net::fold_sum(header) == kSound,
            .l4_ok = covered != 0 &&
                     (unsummed || net::fold_sum(net::add_sums(pseudo, packet)) == kSound),
            .l3_sum = net::to_be(net::fold_sum(all))};
}

/// A frame with everything that rules may match. Parses on construction.
class Packet final : public Frame {
  public:
    /// The frame must have at least an Ethernet header. `vxlan` outlives the packet.
    Packet(std::span<const iovec> pieces, uint32_t bytes, const MetaKey& meta = {},
           const net::VxlanPorts& vxlan = net::kStandardVxlan);

    [[nodiscard]] const net::VxlanPorts& vxlan_ports() const { return *vxlan_; }

    /// Without the integrity of its layers.
    [[nodiscard]] const FlowKey& key() const { return key_; }
    /// With it, which requires reading the whole packet.
    [[nodiscard]] const FlowKey& verified_key() const;
    /// Whether verified_key() was called.
    [[nodiscard]] bool is_verified() const { return verified_; }
    /// For any tunnel that rules look into; headers().inner covers only those of offloads.
    [[nodiscard]] Inner inner() const { return inner_; }

  private:
    [[nodiscard]] uint8_t integrity_of(const net::Headers& headers) const;

    mutable FlowKey key_;
    mutable bool verified_ = false; ///< its integrity is in the key
    Inner inner_;
    const net::VxlanPorts* vxlan_;
    std::array<std::byte, net::kParseBytes> copied_head_; // used when the first piece is short
};

} // namespace softhca::core
