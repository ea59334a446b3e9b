// SPDX-License-Identifier: BSD-3-Clause
// Building the device's flow key from either way that programs describe packets.
#pragma once

#include "app/softhca/core/flow_key.hpp"
#include "app/softhca/uverbs/buffers.hpp"

#include <cstdint>
#include <rdma/ib_user_verbs.h>
#include <span>

namespace softhca::uverbs {

/// What packets must look like: bits of `value` count where `mask` has them set.
struct Match {
    core::FlowKey value;
    core::FlowKey mask;
};

/// Adds one ibv_flow_spec in the layout of the uverbs ABI (struct ib_uverbs_flow_spec_*): Ethernet,
/// IPv4, IPv6, TCP, UDP, VXLAN. EINVAL: contradicts the specs before it, or unknown. EOPNOTSUPP:
/// asks for a field that mlx5_ib cannot match.
[[nodiscard]] Errno add_flow_spec(std::span<const std::byte> spec, Match& match);

/// The mask of a DV matcher. Flow keys have one pair of ports, the PRM one for TCP and one for UDP:
/// `l4` says which of them the mask is about (0: no ports).
struct PrmMask {
    core::FlowKey mask;
    uint8_t l4 = 0;
};

/// Reads the PRM's fte_match_param, of which the device knows the outer headers and the IPv6 flow
/// label and VXLAN VNI of the misc parameters. EOPNOTSUPP: the mask has a bit that it does not
/// know.
[[nodiscard]] Errno read_match_mask(std::span<const std::byte> prm, PrmMask& out);
/// The values that belong to a mask so read.
[[nodiscard]] core::FlowKey read_match_value(std::span<const std::byte> prm, const PrmMask& mask);

} // namespace softhca::uverbs
