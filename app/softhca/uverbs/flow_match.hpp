// SPDX-License-Identifier: BSD-3-Clause
// Builds the device's flow key from both ways in which programs describe packets.
#pragma once

#include "app/softhca/core/flow_key.hpp"
#include "app/softhca/uverbs/buffers.hpp"

#include <cstdint>
#include <rdma/ib_user_verbs.h>
#include <span>

namespace softhca::uverbs {

/// Packets to match: bits of `value` count where `mask` has them set.
struct Match {
    core::FlowKey value;
    core::FlowKey mask;
    uint32_t last_spec = 0; ///< type of the spec that was added last
};

/// mlx5_core refuses values with bits outside the mask.
[[nodiscard]] inline bool lies_within(std::span<const std::byte> value,
                                      std::span<const std::byte> mask) {
    for (size_t i = 0; i < value.size(); i++)
        if ((value[i] & ~(i < mask.size() ? mask[i] : std::byte{})) != std::byte{}) return false;
    return true;
}

/// Adds one ibv_flow_spec in the layout of the uverbs ABI (struct ib_uverbs_flow_spec_*): Ethernet,
/// IPv4, IPv6, TCP, UDP, VXLAN, GRE, MPLS, ESP, each also with IBV_FLOW_SPEC_INNER. EINVAL:
/// malformed, unknown, or contradicts the specs before it. EOPNOTSUPP: asks for a field that
/// mlx5_ib cannot match.
[[nodiscard]] Errno add_flow_spec(std::span<const std::byte> spec, Match& match);

} // namespace softhca::uverbs
