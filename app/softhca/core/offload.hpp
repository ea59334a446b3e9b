// SPDX-License-Identifier: BSD-3-Clause
// What the send side does to headers: checksums, VLAN insertion, TCP segmentation.
#pragma once

#include "app/softhca/core/gather.hpp"
#include "common/net/parse.hpp"

#include <array>
#include <cstdint>

namespace softhca::core {

/// The header bytes of a frame in memory that may be changed, with room for a VLAN tag in front.
struct HeaderBuffer {
    static constexpr uint32_t kHeadroom = net::kVlanBytes;
    static constexpr uint32_t kCapacity = 1024; ///< at least kParseBytes and any inline header

    alignas(64) std::array<std::byte, kHeadroom + kCapacity> bytes;
    [[nodiscard]] std::byte* data() { return bytes.data() + kHeadroom; }
};

/// What a send request wants to have done to its frames.
struct SendOffloads {
    /// Checksums to be computed: bits of `checksums`. L3 is IPv4's, L4 TCP's or UDP's.
    static constexpr uint8_t kL3Inner = 1u << 4, kL4Inner = 1u << 5, kL3 = 1u << 6, kL4 = 1u << 7,
                             kChecksums = kL3Inner | kL4Inner | kL3 | kL4;

    uint8_t checksums = 0;
    bool insert_vlan = false;
    bool svlan = false;
    uint16_t tci = 0;

    [[nodiscard]] bool any() const { return insert_vlan || checksums != 0; }
};

/// Applies the offloads: the frame's first bytes move into `header`, which becomes its first piece.
void apply_offloads(Gather& frame, HeaderBuffer& header, const SendOffloads& offloads);

/// One TSO request: a header template and how the segments differ from it.
class TsoHeader {
  public:
    /// False when the template is not a TCP packet (plain or in a tunnel) of `bytes` header bytes.
    [[nodiscard]] bool prepare(std::span<const std::byte> header);

    /// Writes the header of one segment: `index` of the segment, `offset` of its payload in the
    /// whole payload, `bytes` of payload, `last` of its request. Checksums are left to
    /// apply_offloads().
    void write(std::byte* to, uint32_t index, uint32_t offset, uint32_t bytes, bool last) const;

  private:
    void write_ip(std::byte* to, const net::Headers& headers, uint32_t index, uint32_t end) const;

    std::span<const std::byte> header_;
    net::Headers outer_;
    net::Headers
        tcp_; ///< of the frame that holds the TCP header: outer_, or the tunnel's inner one
};

} // namespace softhca::core
