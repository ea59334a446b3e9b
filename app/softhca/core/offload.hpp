// SPDX-License-Identifier: BSD-3-Clause
// What the send side does to headers: checksums, VLAN insertion, TCP segmentation.
#pragma once

#include "app/softhca/core/gather.hpp"
#include "common/net/parse.hpp"
#include "common/net/tso.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace softhca::core {

/// The header bytes of a frame in memory that may be changed, with room for a VLAN tag in front.
struct HeaderBuffer {
    static constexpr uint32_t kHeadroom = net::kVlanBytes;
    static constexpr uint32_t kCapacity = 1024; ///< at least kParseBytes and any inline header

    alignas(64) std::array<std::byte, kHeadroom + kCapacity> bytes;
    [[nodiscard]] std::byte* data() { return bytes.data() + kHeadroom; }
};

/// The offloads that a send request asks for.
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
void apply_offloads(Gather& frame, HeaderBuffer& header, const SendOffloads& offloads,
                    const net::VxlanPorts& vxlan);

/// The headers of a TSO request, which apply_offloads() completes in each segment. Empty unless
/// they are exactly those of a TCP packet, plain or in a tunnel. Their IP lengths may be those of
/// the whole message, or meaningless.
[[nodiscard]] std::optional<net::TsoHeader> tso_header(std::span<const std::byte> header,
                                                       const net::VxlanPorts& vxlan);

} // namespace softhca::core
