// SPDX-License-Identifier: BSD-3-Clause
// The fields that actions change, and what those actions have in common.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/steering/edits.hpp"
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

#include <span>

namespace rawqp {

/// A field of a header.
struct EditTarget {
    Protocol protocol = Protocol::eth;
    uint16_t bit = 0, bits = 0;
};
namespace edit_target {
inline constexpr EditTarget kMacDst{Protocol::eth, 0, 48}, kMacSrc{Protocol::eth, 48, 48},
    kVid{Protocol::vlan, kVlanId, kVlanIdBits}, kDscp4{Protocol::ipv4, 8, 6},
    kEcn4{Protocol::ipv4, 14, 2}, kEcn6{Protocol::ipv6, 10, 2}, kTcpFlags{Protocol::tcp, 103, 9},
    kTtl{Protocol::ipv4, 64, 8}, kSrc4{Protocol::ipv4, 96, 32}, kDst4{Protocol::ipv4, 128, 32},
    kDscp6{Protocol::ipv6, 4, 6}, kHop{Protocol::ipv6, 56, 8}, kSrc6{Protocol::ipv6, 64, 128},
    kDst6{Protocol::ipv6, 192, 128}, kTcpSrc{Protocol::tcp, 0, 16}, kTcpDst{Protocol::tcp, 16, 16},
    kSeq{Protocol::tcp, 32, 32}, kAck{Protocol::tcp, 64, 32}, kUdpSrc{Protocol::udp, 0, 16},
    kUdpDst{Protocol::udp, 16, 16}, kMeta{Protocol::meta, 0, 32}, kTag{Protocol::tag, 0, kTagBits},
    kMark{Protocol::mark, 8, 24};
} // namespace edit_target

enum class Change : uint8_t { set, add, subtract };

/// The headers of a packet at the point where an action meets it.
struct HeadersNow {
    const Pattern& pattern;
    uint8_t depth = 0; ///< of the outermost ones; 1: a tunnel has been taken off
};

/// The target whose header is among the outermost. `changes`: it is written, not only read.
[[nodiscard]] FlowResult<EditTarget> target_of(const HeadersNow& headers,
                                               std::span<const EditTarget> targets,
                                               const rte_flow_action& action, bool changes = true);
/// Rewrites with the last bits of a number in network byte order, in front of those `below`. A
/// subtraction adds the complement.
[[nodiscard]] Rewrite rewrite_of(const EditTarget& target, std::span<const uint8_t> number,
                                 Change change, size_t below = 0);
/// The register of metadata, which differs for received packets.
[[nodiscard]] inline Protocol meta_of(bool egress) {
    return egress ? Protocol::sent_meta : Protocol::meta;
}
/// Refuses metadata that the device has no register for.
[[nodiscard]] FlowResult<void> check_metadata(const rte_flow_action& action, Protocol protocol,
                                              size_t index);
/// What an action modify_field does; for a mark, its id is the value.
[[nodiscard]] FlowResult<Rewrite> read_modify(const HeadersNow& headers,
                                              const rte_flow_action& action, bool egress);
/// A value that the configuration points to becomes part of it.
void take_value(rte_flow_action_modify_field& conf);

} // namespace rawqp
