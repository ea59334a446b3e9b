// SPDX-License-Identifier: BSD-3-Clause
// Steering entries of the mlx5 family, by steering_format_version: 0 is that of ConnectX-5, 1 that
// of ConnectX-6 Dx. Source: rdma-core, providers/mlx5/dr_ste_v0.c, dr_ste_v1.c and mlx5_ifc.h.
#pragma once

#include "app/softhca/core/ste/format.hpp"

namespace softhca::core::mlx5_rings {

[[nodiscard]] const ste::Format& ste_format(uint8_t version);

/// Parsers that find fields for the flex parser lookups; capabilities report their numbers. Each of
/// the two lookups has four.
enum class FlexParser : uint8_t {
    icmp_dw0,
    icmp_dw1,
    icmpv6_dw0,
    icmpv6_dw1,
    mpls_over_gre,
    mpls_over_udp
};

/// Layouts that definers of format 1 may have, one bit each, as a capability reports them.
[[nodiscard]] uint64_t definer_layouts();

// The formats. ste_format() selects among them.
[[nodiscard]] const ste::Format& ste_format_0(); // v0/format.cpp
[[nodiscard]] const ste::Format& ste_format_1(); // v1/format.cpp

} // namespace softhca::core::mlx5_rings
