// SPDX-License-Identifier: BSD-3-Clause
// Steering entries of ConnectX-5 (steering_format_version 0). Source: rdma-core,
// providers/mlx5/dr_ste_v0.c and mlx5_ifc.h.
#pragma once

#include "app/softhca/core/ste/format.hpp"

namespace softhca::core::mlx5_rings {

[[nodiscard]] const ste::Format& ste_format();

/// Parsers that find fields for the flex parser lookups, as capabilities tell their numbers: four
/// in each of the two lookups.
enum class FlexParser : uint8_t {
    icmp_dw0,
    icmp_dw1,
    icmpv6_dw0,
    icmpv6_dw1,
    mpls_over_gre,
    mpls_over_udp
};

// The parts of the format, see ste::Format.
[[nodiscard]] bool look_up(uint16_t lookup, const Packet& packet, ste::Tag& tag); // tags.cpp
void read_edit(ste::RawEdit raw, std::vector<HeaderEdit>& edits); // header_edits.cpp

} // namespace softhca::core::mlx5_rings
