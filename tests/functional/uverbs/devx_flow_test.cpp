// SPDX-License-Identifier: BSD-3-Clause
// Flows that lead to flow tables, and count in counters, created by firmware commands.
#include "tests/functional/uverbs/devx_flow.hpp"

#include <utility>

namespace test {
namespace {

TEST_F(DevxFlowTest, FlowsLeadFromTableToTable) {
    const TestTable first = make_table(64), second = make_table(65);
    const DevxHandle counters = make_counters();
    const DevxHandle jump = made(make(entry_request(first, kForward, to(kTable, second.number))));
    const DevxHandle arrival =
        made(make(entry_request(second, kForward | kCount, to(kTir, tirn), counter)));
    EXPECT_FALSE(make(entry_request(second, kForward, to(kTable, first.number))));
    EXPECT_EQ(last.status(), FwStatus::bad_parameter) << "back";
    lead_to(first.table.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    expect_passage();
    EXPECT_EQ(count(counters.get()), 1u);
    EXPECT_NE(mlx5dv_devx_obj_destroy(second.table.get()), 0);
    flow.reset();
}

TEST_F(DevxFlowTest, FlowsCountInCountersOfCommands) {
    const DevxHandle counters = make_counters();
    make_flow({devx_action(MLX5DV_FLOW_ACTION_COUNTERS_DEVX, counters.get()),
               devx_action(MLX5DV_FLOW_ACTION_DEST_DEVX, tir.get())});
    ASSERT_TRUE(flow) << std::strerror(errno);
    expect_passage();
    EXPECT_EQ(count(counters.get()), 1u);
    EXPECT_NE(mlx5dv_devx_obj_destroy(counters.get()), 0);
    flow.reset();
}

/// As drivers read many of them.
TEST_F(DevxFlowTest, CountersAreWrittenToMemory) {
    const TestTable table = make_table(64);
    const DevxHandle counters = make_counters(1);
    const DevxHandle entry =
        made(make(entry_request(table, kForward | kCount, to(kTir, tirn), counter + 3)));
    lead_to(table.table.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    expect_passage();
    const auto dump = [&](uint32_t key, uint64_t address) {
        return query(counters.get(), REQUEST(QUERY_FLOW_COUNTER, query_flow_counter)
                                         .set(PRM(query_flow_counter_in, flow_counter_id), counter)
                                         .set({0x60, 32}, key)
                                         .set({0x80, 64}, address)
                                         .set({0xc1, 1}, 1)
                                         .set({0xc2, 30}, 4))
            .error;
    };
    constexpr size_t kAt = 1024, kValues = 4 * PRM_BYTES(traffic_counter);
    std::fill_n(buffer.begin() + kAt, kValues, 0xff);
    const DevxHandle key = make_indirect_key({{kAt, kValues}});
    ASSERT_EQ(dump(indirect_key, 0), 0);
    EXPECT_EQ(net::load_be<uint64_t>(&buffer[kAt]), 0u);
    EXPECT_EQ(net::load_be<uint64_t>(&buffer[kAt + 48]), 1u);
    EXPECT_EQ(net::load_be<uint64_t>(&buffer[kAt + 56]), 150u);
    EXPECT_EQ(dump(indirect_key, 1), EREMOTEIO) << "the last one ends outside";
    EXPECT_EQ(dump(0x123400, 0), EREMOTEIO) << "no such key";
    flow.reset();
}

TEST_F(DevxFlowTest, WhatIsSentGoesThroughTables) {
    const TestTable table = make_table(64, kSendTables);
    const DevxHandle counters = make_counters();
    const DevxHandle entry =
        made(make(entry_request(table, kAllow | kCount, 0, counter, kSendTables)));
    make_flow({devx_action(MLX5DV_FLOW_ACTION_DEST_DEVX, tir.get())}, true);
    EXPECT_FALSE(flow) << "a TIR does not send";
    EXPECT_EQ(errno, EINVAL);
    make_flow({devx_action(MLX5DV_FLOW_ACTION_DEST_DEVX, table.table.get())}, true);
    ASSERT_TRUE(flow) << std::strerror(errno);
    const auto sent = std::move(matcher);
    const auto sending = std::move(flow);
    lead_to_tir();
    expect_passage();
    EXPECT_EQ(count(counters.get()), 1u);
}

TEST_F(DevxFlowTest, OnlyTirsAndTablesAreDestinations) {
    const DevxHandle counters = make_counters();
    const TestTable lowest = make_table(0), sends = make_table(64, kSendTables);
    for (mlx5dv_devx_obj* const wrong :
         {counters.get(), rq.get(), lowest.group.get(), lowest.table.get(), sends.table.get()}) {
        lead_to(wrong);
        EXPECT_FALSE(flow);
        EXPECT_EQ(errno, EINVAL);
    }
    make_flow({devx_action(MLX5DV_FLOW_ACTION_COUNTERS_DEVX, rq.get()),
               devx_action(MLX5DV_FLOW_ACTION_DEST_DEVX, tir.get())});
    EXPECT_FALSE(flow) << "no counter";
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(DevxFlowTest, EntriesLeadToQpsOfVerbs) {
    const auto endpoint = make_endpoint(context.get(), pd.get());
    const mlx5dv_qp qp = rings_of(endpoint->qp.get());
    const TestTable table = make_table(64);
    const DevxHandle entry = made(make(entry_request(table, kForward, to(kTir, qp.tirn))));
    lead_to(table.table.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    const Frame frame = UdpFrame{}.bytes();
    ASSERT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint->receive(), frame);
    flow.reset();
}

TEST_F(DevxFlowTest, TirsOfVerbsQpsAreKnownAndChange) {
    const auto endpoint = make_endpoint(context.get(), pd.get());
    const mlx5dv_qp qp = rings_of(endpoint->qp.get());
    const auto ask = [&](Field field) {
        const Request request = REQUEST(QUERY_TIR, query_tir).number(qp.tirn);
        Answer answer;
        answer.out.assign(PRM_BYTES(query_tir_out), 0);
        EXPECT_EQ(mlx5dv_devx_qp_query(endpoint->qp.get(), request.in.data(), request.in.size(),
                                       answer.out.data(), answer.out.size()),
                  0);
        return answer.get(inside(PRM(query_tir_out, tir_context), field));
    };
    EXPECT_EQ(ask(PRM(tirc, disp_type)), 0u) << "direct";
    EXPECT_EQ(ask(PRM(tirc, inline_rqn)), qp.rqn);
    EXPECT_NE(ask(PRM(tirc, transport_domain)), 0u);
    EXPECT_EQ(ask(PRM(tirc, self_lb_block)), 0u);

    constexpr uint64_t kOfMulticast = 2;
    const Request request =
        REQUEST(MODIFY_TIR, modify_tir)
            .number(qp.tirn)
            .set(inside(PRM(modify_tir_in, bitmask), PRM(modify_tir_bitmask, self_lb_en)), 1)
            .set(inside(PRM(modify_tir_in, ctx), PRM(tirc, self_lb_block)), kOfMulticast);
    std::array<uint8_t, 16> answer{};
    EXPECT_EQ(mlx5dv_devx_qp_modify(endpoint->qp.get(), request.in.data(), request.in.size(),
                                    answer.data(), answer.size()),
              0);
    EXPECT_EQ(ask(PRM(tirc, self_lb_block)), kOfMulticast);
    EXPECT_EQ(ask(PRM(tirc, inline_rqn)), qp.rqn);
}

TEST_F(DevxFlowTest, IndirectionTablesOfVerbsAreKnownAndChange) {
    const CqHandle cq(ibv_create_cq(context.get(), 64, nullptr, nullptr, 0));
    ASSERT_TRUE(cq);
    ibv_wq_init_attr attributes = wq_attributes(pd.get(), cq.get(), 4);
    const WqHandle first(ibv_create_wq(context.get(), &attributes)),
        second(ibv_create_wq(context.get(), &attributes));
    ASSERT_TRUE(first && second) << std::strerror(errno);
    std::array<ibv_wq*, 2> entries = {first.get(), second.get()};
    ibv_rwq_ind_table_init_attr table_attributes{};
    table_attributes.log_ind_tbl_size = 1;
    table_attributes.ind_tbl = entries.data();
    const TableHandle table(ibv_create_rwq_ind_table(context.get(), &table_attributes));
    ASSERT_TRUE(table) << std::strerror(errno);
    const auto expect_entries = [&](std::vector<uint32_t> wanted) {
        constexpr Field kContext = PRM(query_rqt_out, rqt_context);
        const Request request = REQUEST(QUERY_RQT, query_rqt).number(table->ind_tbl_num);
        Answer answer;
        answer.out.assign(PRM_BYTES(query_rqt_out) + 2 * sizeof(uint32_t), 0);
        ASSERT_EQ(mlx5dv_devx_ind_tbl_query(table.get(), request.in.data(), request.in.size(),
                                            answer.out.data(), answer.out.size()),
                  0);
        EXPECT_EQ(answer.get(inside(kContext, PRM(rqtc, rqt_max_size))), 2u);
        EXPECT_EQ(answer.get(inside(kContext, PRM(rqtc, rqt_actual_size))), 2u);
        for (size_t i = 0; i < wanted.size(); i++) {
            const size_t at = kContext.offset + PRM(rqtc, rq_num[0]).offset + 32 * i;
            EXPECT_EQ(answer.get({at, 32}), wanted[i]) << i;
        }
    };
    const auto fill = [&](const std::vector<uint32_t>& rqns) {
        constexpr Field kContext = PRM(modify_rqt_in, ctx);
        constexpr size_t kFirst = (kContext.offset + PRM(rqtc, rq_num[0]).offset) / 8;
        Request request = REQUEST(MODIFY_RQT, modify_rqt).number(table->ind_tbl_num);
        request.in.resize(kFirst + rqns.size() * sizeof(uint32_t));
        for (size_t i = 0; i < rqns.size(); i++)
            request.set({kFirst * 8 + 32 * i, 32}, rqns[i]);
        request.set(PRM(modify_rqt_in, bitmask), 1)
            .set(inside(kContext, PRM(rqtc, rqt_actual_size)), rqns.size());
        std::array<uint8_t, 16> answer{};
        return mlx5dv_devx_ind_tbl_modify(table.get(), request.in.data(), request.in.size(),
                                          answer.data(), answer.size());
    };
    const uint32_t one = first->wq_num, other = second->wq_num;
    expect_entries({one, other});
    EXPECT_EQ(fill({other, one}), 0);
    expect_entries({other, one});
    EXPECT_NE(fill({one, one, one, one}), 0) << "it was created for two";
}

/// In software steering's root table, whose rules are kernel flows: mlx5dv_create_flow cannot pass
/// offsets.
TEST_F(DevxFlowTest, ACounterOfABulkIsNamedByItsOffset) {
    constexpr uint32_t kSize = 128;
    const DevxHandle counters = make_counters(kSize / 128);
    const uint32_t first = counter;
    const DevxHandle others = make_counters(kSize / 128);
    ASSERT_EQ(std::exchange(counter, first), first + kSize) << "an offset too high leads there";
    using Domain = Handle<mlx5dv_dr_domain, mlx5dv_dr_domain_destroy>;
    using Table = Handle<mlx5dv_dr_table, mlx5dv_dr_table_destroy>;
    using Matcher = Handle<mlx5dv_dr_matcher, mlx5dv_dr_matcher_destroy>;
    using Action = Handle<mlx5dv_dr_action, mlx5dv_dr_action_destroy>;
    using Rule = Handle<mlx5dv_dr_rule, mlx5dv_dr_rule_destroy>;
    const Domain domain(mlx5dv_dr_domain_create(context.get(), MLX5DV_DR_DOMAIN_TYPE_NIC_RX));
    ASSERT_TRUE(domain) << std::strerror(errno);
    const Table root(mlx5dv_dr_table_create(domain.get(), 0));
    ASSERT_TRUE(root) << std::strerror(errno);
    std::array<uint64_t, 9> everything{64};
    auto* const match = reinterpret_cast<mlx5dv_flow_match_parameters*>(everything.data());
    const Matcher all(mlx5dv_dr_matcher_create(root.get(), 0, 0, match));
    ASSERT_TRUE(all) << std::strerror(errno);
    const Action to_tir(mlx5dv_dr_action_create_dest_devx_tir(tir.get()));
    const auto at = [&](uint32_t offset) {
        return Action(mlx5dv_dr_action_create_flow_counter(counters.get(), offset));
    };
    const auto rule = [&](const Action& counted) {
        std::array<mlx5dv_dr_action*, 2> actions = {counted.get(), to_tir.get()};
        errno = 0;
        return Rule(mlx5dv_dr_rule_create(all.get(), match, actions.size(), actions.data()));
    };
    const Action none = at(kSize), last_one = at(kSize - 1);
    EXPECT_FALSE(rule(none)) << "there are so many";
    EXPECT_EQ(errno, EINVAL);
    const Rule counting = rule(last_one);
    ASSERT_TRUE(counting) << std::strerror(errno);
    expect_passage();
    EXPECT_EQ(count(counters.get()), 0u);
    EXPECT_EQ(count(counters.get(), kSize - 2), 0u);
    EXPECT_EQ(count(counters.get(), kSize - 1), 1u);
}

} // namespace
} // namespace test
