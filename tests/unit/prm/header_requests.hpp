// SPDX-License-Identifier: BSD-3-Clause
// Commands that make changes of headers, for rules that refer to them.
#pragma once

#include "tests/unit/prm/request.hpp"

namespace prm_test {

/// The action that sets the TTL of IPv4, for Request::page().
constexpr uint64_t set_ttl(uint8_t ttl) {
    return uint64_t{1u << 28 | MLX5_ACTION_IN_FIELD_OUT_IP_TTL << 16 | 8} << 32 | ttl;
}

/// One action, which is to be appended.
inline Request edits_request() {
    return REQUEST(ALLOC_MODIFY_HEADER_CONTEXT, alloc_modify_header_context)
        .set(PRM(alloc_modify_header_context_in, num_of_actions), 1);
}

/// An L2 tunnel whose header has 50 bytes; all but the first two are to be appended.
inline Request reformat_request() {
    constexpr Field kContext = PRM(alloc_packet_reformat_context_in, packet_reformat_context);
    return REQUEST(ALLOC_PACKET_REFORMAT_CONTEXT, alloc_packet_reformat_context)
        .set(inside(kContext, PRM(packet_reformat_context_in, reformat_type)),
             MLX5_REFORMAT_TYPE_L2_TO_L2_TUNNEL)
        .set(inside(kContext, PRM(packet_reformat_context_in, reformat_data_size)), 50);
}

} // namespace prm_test
