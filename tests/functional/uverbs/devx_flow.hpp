// SPDX-License-Identifier: BSD-3-Clause
// Flow tables, their entries and counters, created by firmware commands.
#pragma once

#include "tests/functional/uverbs/devx_queues.hpp"

namespace test {

inline constexpr uint32_t kForward = MLX5_FLOW_CONTEXT_ACTION_FWD_DEST,
                          kCount = MLX5_FLOW_CONTEXT_ACTION_COUNT,
                          kAllow = MLX5_FLOW_CONTEXT_ACTION_ALLOW;
inline constexpr uint64_t kTable = 1, kTir = 2; // MLX5_FLOW_DESTINATION_TYPE_*
inline constexpr uint64_t kReceiveTables = 0, kSendTables = 1;

class DevxFlowTest : public DevxQueueTest {
  protected:
    /// A table with one group, in which everything matches. Its level is one that drivers use,
    /// above all those of the kernel's own tables.
    struct TestTable {
        DevxHandle table, group;
        uint32_t number = 0, group_number = 0;
    };
    TestTable make_table(uint64_t level, uint64_t type = kReceiveTables) {
        constexpr Field kContext = PRM(create_flow_table_in, flow_table_context);
        TestTable made_table;
        made_table.table =
            made(make(REQUEST(CREATE_FLOW_TABLE, create_flow_table)
                          .set(PRM(create_flow_table_in, table_type), type)
                          .set(inside(kContext, PRM(flow_table_context, level)), level)
                          .set(inside(kContext, PRM(flow_table_context, log_size)), 2)));
        made_table.number = last.number();
        made_table.group =
            made(make(REQUEST(CREATE_FLOW_GROUP, create_flow_group)
                          .set(PRM(create_flow_group_in, table_type), type)
                          .set(PRM(create_flow_group_in, table_id), made_table.number)
                          .set(PRM(create_flow_group_in, end_flow_index), 3)));
        made_table.group_number = last.number();
        return made_table;
    }
    /// An entry that sends everything to a destination (type and number), if there is one.
    Request entry_request(const TestTable& table, uint32_t actions, uint64_t destination,
                          uint32_t counter = 0, uint64_t type = kReceiveTables) {
        constexpr Field kContext = PRM(set_fte_in, flow_context);
        Request request =
            REQUEST(SET_FLOW_TABLE_ENTRY, set_fte)
                .set(PRM(set_fte_in, table_type), type)
                .set(PRM(set_fte_in, table_id), table.number)
                .set(inside(kContext, PRM(flow_context, group_id)), table.group_number)
                .set(inside(kContext, PRM(flow_context, action)), actions)
                .set(inside(kContext, PRM(flow_context, destination_list_size)), destination != 0)
                .set(inside(kContext, PRM(flow_context, flow_counter_list_size)), counter != 0);
        if (destination) request.page(destination);
        if (counter) request.page(uint64_t{counter} << 32);
        return request;
    }
    [[nodiscard]] static uint64_t to(uint64_t type, uint64_t number) {
        return type << 56 | number << 32;
    }
    DevxHandle make_counters(uint64_t bulk = 0) {
        DevxHandle counters =
            made(make(REQUEST(ALLOC_FLOW_COUNTER, alloc_flow_counter)
                          .set(PRM(alloc_flow_counter_in, flow_counter_bulk), bulk)));
        counter = last.answer.get(PRM(alloc_flow_counter_out, flow_counter_id));
        return counters;
    }
    /// The packets that the counter at this offset in the bulk has seen.
    uint64_t count(mlx5dv_devx_obj* counters, uint32_t offset = 0) {
        constexpr size_t kHead = PRM_BYTES(query_flow_counter_out);
        EXPECT_EQ(query(counters, REQUEST(QUERY_FLOW_COUNTER, query_flow_counter)
                                      .set(PRM(query_flow_counter_in, flow_counter_id), counter)
                                      .set(PRM(query_flow_counter_in, num_of_counters), offset + 1))
                      .error,
                  0);
        return last.answer.get(inside({(kHead + offset * PRM_BYTES(traffic_counter)) * 8, 0},
                                      {PRM(traffic_counter, packets).offset + 32, 32}));
    }
    void expect_passage() {
        post_receive();
        const Frame frame = UdpFrame{.size = 150, .seed = 3}.bytes();
        send(frame);
        ASSERT_TRUE(wait_cqe(kReceiveCq));
        EXPECT_EQ(Frame(buffer.begin() + 2048, buffer.begin() + 2048 + 150), frame);
    }
    uint32_t counter = 0; ///< the last one created
};

} // namespace test
