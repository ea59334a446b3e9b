// SPDX-License-Identifier: BSD-3-Clause
// From a TIR and a packet to the receive queue: hash and indirection table.
#pragma once

#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/packet.hpp"

namespace softhca::core {

/// What was hashed: bits of Target::hash_type.
inline constexpr uint8_t kHashSrcIp = 1u << 0, kHashDstIp = 1u << 1, kHashSrcPort = 1u << 2,
                         kHashDstPort = 1u << 3;
inline constexpr uint8_t kHashIpv6 = 1u << 4; ///< the addresses are of IPv6, not of IPv4
inline constexpr uint8_t kHashUdp = 1u << 5;  ///< the ports are of UDP, not of TCP
inline constexpr uint8_t kHashSpi = 1u << 6;

/// The RQ that gets the packet, and the hash that its completion reports.
struct Target {
    Rq* rq = nullptr;
    uint32_t hash = 0;
    uint8_t hash_type = 0; ///< kHash… of what was hashed; 0: nothing
    bool inner = false;    ///< the completion is to describe what the tunnel carries
};

/// The indirection table entry that a hash selects.
[[nodiscard]] inline size_t entry_of(const Rqt& rqt, uint32_t hash) {
    return hash & (rqt.entries.size() - 1);
}

[[nodiscard]] Target select_target(const Tir& tir, const Frame& frame);

} // namespace softhca::core
