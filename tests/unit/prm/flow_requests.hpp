// SPDX-License-Identifier: BSD-3-Clause
// Commands that make flow tables and what is in them.
#pragma once

#include "tests/unit/prm/request.hpp"

namespace prm_test {

/// Four entries, of received packets.
inline Request table_request(uint64_t level) {
    constexpr Field kContext = PRM(create_flow_table_in, flow_table_context);
    return REQUEST(CREATE_FLOW_TABLE, create_flow_table)
        .set(inside(kContext, PRM(flow_table_context, level)), level)
        .set(inside(kContext, PRM(flow_table_context, log_size)), 2);
}

/// All entries of such a table.
inline Request group_request(Number table) {
    return REQUEST(CREATE_FLOW_GROUP, create_flow_group)
        .set(PRM(create_flow_group_in, table_id), table)
        .set(PRM(create_flow_group_in, end_flow_index), 3);
}

/// An entry that leads to another table, and counts if there is a counter.
inline Request entry_request(Number table, Number group, Number to, Number counter = 0) {
    constexpr uint32_t kForward = MLX5_FLOW_CONTEXT_ACTION_FWD_DEST,
                       kCount = MLX5_FLOW_CONTEXT_ACTION_COUNT;
    constexpr Field kContext = PRM(set_fte_in, flow_context);
    Request request =
        REQUEST(SET_FLOW_TABLE_ENTRY, set_fte)
            .set(PRM(set_fte_in, table_id), table)
            .set(inside(kContext, PRM(flow_context, group_id)), group)
            .set(inside(kContext, PRM(flow_context, action)), kForward | (counter ? kCount : 0))
            .set(inside(kContext, PRM(flow_context, destination_list_size)), 1)
            .set(inside(kContext, PRM(flow_context, flow_counter_list_size)), counter != 0)
            .page(uint64_t{1} << 56 | uint64_t{to} << 32);
    if (counter) request.page(uint64_t{counter} << 32);
    return request;
}

/// The first entry of a table, which leads to a TIR.
inline Request tir_entry_request(Number table, Number group, Number tir) {
    constexpr Field kContext = PRM(set_fte_in, flow_context);
    return REQUEST(SET_FLOW_TABLE_ENTRY, set_fte)
        .set(PRM(set_fte_in, table_id), table)
        .set(inside(kContext, PRM(flow_context, group_id)), group)
        .set(inside(kContext, PRM(flow_context, action)), MLX5_FLOW_CONTEXT_ACTION_FWD_DEST)
        .set(inside(kContext, PRM(flow_context, destination_list_size)), 1)
        .page(uint64_t{2u << 24 | tir} << 32);
}

/// Makes a table that of the packets that arrive.
inline Request root_request(Number table) {
    return REQUEST(SET_FLOW_TABLE_ROOT, set_flow_table_root)
        .set(PRM(set_flow_table_root_in, table_id), table);
}

} // namespace prm_test
