// SPDX-License-Identifier: BSD-3-Clause
// What commands find when they ask for objects of verbs: what the kernel's driver made them as.
#include "tests/functional/uverbs/devx.hpp"

#include <bit>

namespace test {
namespace {

constexpr uint64_t kInPage = 4095;

/// `ask` is mlx5dv_devx_qp_query or its like.
template <class Object>
Answer asked(int (*ask)(Object*, const void*, size_t, void*, size_t), Object* object,
             const Request& request) {
    Answer answer;
    answer.out.assign(1024, 0);
    EXPECT_EQ(
        ask(object, request.in.data(), request.in.size(), answer.out.data(), answer.out.size()), 0)
        << std::strerror(errno);
    return answer;
}
Answer query_sq(ibv_qp* qp) {
    return asked(mlx5dv_devx_qp_query, qp, REQUEST(QUERY_SQ, query_sq).number(rings_of(qp).sqn));
}
Answer query_rq(ibv_qp* qp) {
    return asked(mlx5dv_devx_qp_query, qp, REQUEST(QUERY_RQ, query_rq).number(rings_of(qp).rqn));
}
Answer query_rq(ibv_wq* wq) {
    return asked(mlx5dv_devx_wq_query, wq, REQUEST(QUERY_RQ, query_rq).number(wq->wq_num));
}

mlx5dv_cq rings_of(ibv_cq* cq) {
    mlx5dv_cq rings{};
    mlx5dv_obj object{};
    object.cq = {cq, &rings};
    EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
    return rings;
}
Answer query_cq(ibv_cq* cq) {
    return asked(mlx5dv_devx_cq_query, cq, REQUEST(QUERY_CQ, query_cq).number(rings_of(cq).cqn));
}

constexpr Field of_sq(Field field) { return inside(PRM(query_sq_out, sq_context), field); }
constexpr Field of_rq(Field field) { return inside(PRM(query_rq_out, rq_context), field); }
constexpr Field of_cq(Field field) { return inside(PRM(query_cq_out, cq_context), field); }
constexpr Field sq_wq(Field field) { return of_sq(inside(PRM(sqc, wq), field)); }
constexpr Field rq_wq(Field field) { return of_rq(inside(PRM(rqc, wq), field)); }

uint64_t log_of(uint64_t power) { return static_cast<uint64_t>(std::countr_zero(power)); }

TEST_F(DevxTest, SendQueuesOfVerbsAreWhatTheyWereMadeAs) {
    const Endpoint endpoint(context.get(), pd.get());
    ibv_qp* const qp = endpoint.qp.get();
    const mlx5dv_qp rings = test::rings_of(qp);
    const auto state = [&] { return query_sq(qp).get(of_sq(PRM(sqc, state))); };
    const Answer sq = query_sq(qp);
    EXPECT_EQ(sq.get(of_sq(PRM(sqc, cqn))), rings_of(endpoint.send_cq.get()).cqn);
    EXPECT_EQ(sq.get(of_sq(PRM(sqc, flush_in_error_en))), 1u);
    EXPECT_EQ(sq.get(of_sq(PRM(sqc, allow_multi_pkt_send_wqe))), 1u);
    EXPECT_EQ(sq.get(of_sq(PRM(sqc, tis_lst_sz))), 1u);
    EXPECT_EQ(sq.get(of_sq(PRM(sqc, tis_num_0))), rings.tisn);
    EXPECT_EQ(sq.get(sq_wq(PRM(wq, wq_type))), 1u) << "cyclic";
    EXPECT_EQ(sq.get(sq_wq(PRM(wq, pd))), pdn);
    EXPECT_NE(sq.get(sq_wq(PRM(wq, uar_page))), 0u);
    EXPECT_EQ(sq.get(sq_wq(PRM(wq, log_wq_stride))), 6u);
    EXPECT_EQ(sq.get(sq_wq(PRM(wq, log_wq_sz))), log_of(rings.sq.wqe_cnt));
    EXPECT_EQ(sq.get(sq_wq(PRM(wq, dbr_addr))) & kInPage,
              reinterpret_cast<uintptr_t>(rings.dbrec) & kInPage);
    EXPECT_EQ(state(), 0u);
    for (const ibv_qp_state next : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(qp, next);
    EXPECT_EQ(state(), 1u);
    EXPECT_EQ(query_sq(qp).get(of_sq(PRM(sqc, cqn))), rings_of(endpoint.send_cq.get()).cqn);

    const Answer tis =
        asked(mlx5dv_devx_qp_query, qp, REQUEST(QUERY_TIS, query_tis).number(rings.tisn));
    const Answer tir =
        asked(mlx5dv_devx_qp_query, qp, REQUEST(QUERY_TIR, query_tir).number(rings.tirn));
    const uint32_t own_domain =
        tis.get(inside(PRM(query_tis_out, tis_context), PRM(tisc, transport_domain)));
    EXPECT_NE(own_domain, 0u);
    EXPECT_EQ(tir.get(inside(PRM(query_tir_out, tir_context), PRM(tirc, transport_domain))),
              own_domain);
}

TEST_F(DevxTest, ReceiveQueuesOfVerbsAreWhatTheyWereMadeAs) {
    const Endpoint endpoint(context.get(), pd.get());
    ibv_qp* const qp = endpoint.qp.get();
    const mlx5dv_qp rings = test::rings_of(qp);
    const Answer rq = query_rq(qp);
    EXPECT_EQ(rq.get(of_rq(PRM(rqc, state))), 0u);
    EXPECT_EQ(rq.get(of_rq(PRM(rqc, cqn))), rings_of(endpoint.receive_cq.get()).cqn);
    EXPECT_EQ(rq.get(of_rq(PRM(rqc, vsd))), 1u) << "tags stay";
    EXPECT_EQ(rq.get(of_rq(PRM(rqc, scatter_fcs))), 0u);
    EXPECT_EQ(rq.get(of_rq(PRM(rqc, flush_in_error_en))), 1u);
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, wq_type))), 1u) << "cyclic";
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, pd))), pdn);
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, end_padding_mode))), 0u);
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, log_wq_stride))), log_of(rings.rq.stride));
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, log_wq_sz))), log_of(rings.rq.wqe_cnt));
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, dbr_addr))) & kInPage,
              reinterpret_cast<uintptr_t>(rings.dbrec) & kInPage);
}

/// As DPDK finds one for its queues where it may not create its own.
TEST_F(DevxTest, ReceiveQueuesOfCommandsCountWhereThoseOfVerbsDo) {
    const CqHandle cq(ibv_create_cq(context.get(), 64, nullptr, nullptr, 0));
    const QpHandle qp = make_qp(pd.get(), cq.get(), cq.get(), 64);
    ASSERT_TRUE(qp);
    const auto counter = [&] { return query_rq(qp.get()).get(of_rq(PRM(rqc, counter_set_id))); };
    EXPECT_EQ(counter(), 0u) << "none before it is ready";
    to_state(qp.get(), IBV_QPS_INIT);
    ASSERT_NE(counter(), 0u);
    const DevxHandle own_cq = make(cq_request(0, 1));
    ASSERT_TRUE(own_cq);
    const uint32_t cqn = last.number();
    const auto rq_counting_in = [&](uint32_t number) {
        return make(rq_request(cqn, 2, 3).set(
            inside(PRM(create_rq_in, ctx), PRM(rqc, counter_set_id)), number));
    };
    EXPECT_TRUE(rq_counting_in(counter())) << "status " << static_cast<int>(last.status());
    EXPECT_FALSE(rq_counting_in(counter() + 100)) << "there is none";
}

TEST_F(DevxTest, StridingWqsOfVerbsAreKnownAndChange) {
    const CqHandle cq(ibv_create_cq(context.get(), 64, nullptr, nullptr, 0));
    ASSERT_TRUE(cq);
    ibv_wq_init_attr attributes = wq_attributes(pd.get(), cq.get(), 4);
    attributes.create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_PCI_WRITE_END_PADDING;
    attributes.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
    mlx5dv_wq_init_attr driver{};
    driver.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
    driver.striding_rq_attrs = {.single_stride_log_num_of_bytes = 7,
                                .single_wqe_log_num_of_strides = 10,
                                .two_byte_shift_en = 1};
    const WqHandle wq(mlx5dv_create_wq(context.get(), &attributes, &driver));
    ASSERT_TRUE(wq) << std::strerror(errno);
    const Answer rq = query_rq(wq.get());
    EXPECT_EQ(rq.get(of_rq(PRM(rqc, cqn))), rings_of(cq.get()).cqn);
    EXPECT_EQ(rq.get(of_rq(PRM(rqc, vsd))), 0u) << "tags are stripped";
    EXPECT_EQ(rq.get(of_rq(PRM(rqc, counter_set_id))), 0u);
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, wq_type))), 3u) << "cyclic, striding";
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, pd))), pdn);
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, end_padding_mode))), 1u) << "writes may be padded";
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, log_wqe_stride_size))), 7u - 6);
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, log_wqe_num_of_strides))), 10u - 9);
    EXPECT_EQ(rq.get(rq_wq(PRM(wq, two_byte_shift_en))), 1u);

    // The same WQ changed by a command, then by verbs, which keep what the command did.
    const Request with_fcs =
        REQUEST(MODIFY_RQ, modify_rq)
            .number(wq->wq_num)
            .set(PRM(modify_rq_in, modify_bitmask), MLX5_MODIFY_RQ_IN_MODIFY_BITMASK_SCATTER_FCS)
            .set(inside(PRM(modify_rq_in, ctx), PRM(rqc, scatter_fcs)), 1);
    std::array<uint8_t, 16> answer{};
    EXPECT_EQ(mlx5dv_devx_wq_modify(wq.get(), with_fcs.in.data(), with_fcs.in.size(), answer.data(),
                                    answer.size()),
              0);
    ibv_wq_attr change{};
    change.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_FLAGS;
    change.wq_state = IBV_WQS_RDY;
    change.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
    ASSERT_EQ(ibv_modify_wq(wq.get(), &change), 0);
    const Answer changed = query_rq(wq.get());
    EXPECT_EQ(changed.get(of_rq(PRM(rqc, state))), 1u);
    EXPECT_EQ(changed.get(of_rq(PRM(rqc, vsd))), 0u) << "a WQ that starts keeps this";
    EXPECT_EQ(changed.get(of_rq(PRM(rqc, scatter_fcs))), 1u);
    EXPECT_NE(changed.get(of_rq(PRM(rqc, counter_set_id))), 0u);
    EXPECT_EQ(changed.get(rq_wq(PRM(wq, wq_type))), 3u);
    change.attr_mask = IBV_WQ_ATTR_FLAGS;
    ASSERT_EQ(ibv_modify_wq(wq.get(), &change), 0);
    EXPECT_EQ(query_rq(wq.get()).get(of_rq(PRM(rqc, vsd))), 1u);
    EXPECT_EQ(query_rq(wq.get()).get(of_rq(PRM(rqc, scatter_fcs))), 1u);
}

TEST_F(DevxTest, CqsOfVerbsAreKnownAndChange) {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = 100;
    mlx5dv_cq_init_attr driver{};
    driver.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
    driver.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_CSUM;
    ibv_cq_ex* const extended = mlx5dv_create_cq(context.get(), &attributes, &driver);
    ASSERT_TRUE(extended) << std::strerror(errno);
    const CqHandle compressed(ibv_cq_ex_to_cq(extended));
    const Answer made = query_cq(compressed.get());
    EXPECT_EQ(made.get(of_cq(PRM(cqc, cqe_comp_en))), 1u);
    EXPECT_EQ(made.get(of_cq(PRM(cqc, mini_cqe_res_format))), 1u);

    const CqHandle cq(ibv_create_cq(context.get(), 100, nullptr, nullptr, 0));
    const auto expect_size = [&](const Answer& answer) {
        const mlx5dv_cq rings = rings_of(cq.get());
        EXPECT_EQ(answer.get(of_cq(PRM(cqc, log_cq_size))), log_of(rings.cqe_cnt));
        EXPECT_EQ(answer.get(of_cq(PRM(cqc, cqe_sz))), rings.cqe_size == 128 ? 1u : 0u);
        EXPECT_EQ(answer.get(of_cq(PRM(cqc, dbr_addr))) & kInPage,
                  reinterpret_cast<uintptr_t>(rings.dbrec) & kInPage);
        EXPECT_EQ(answer.get(of_cq(PRM(cqc, c_eqn_or_apu_element))), eqn);
        EXPECT_EQ(answer.get(of_cq(PRM(cqc, cqe_comp_en))), 0u);
        EXPECT_EQ(answer.get(of_cq(PRM(cqc, oi))), 0u);
    };
    EXPECT_NE(query_cq(cq.get()).get(of_cq(PRM(cqc, uar_page))), 0u);
    expect_size(query_cq(cq.get()));

    ibv_modify_cq_attr moderation{};
    moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
    moderation.moderate = {.cq_count = 9, .cq_period = 33};
    ASSERT_EQ(ibv_modify_cq(cq.get(), &moderation), 0);
    ASSERT_EQ(ibv_resize_cq(cq.get(), 1000), 0);
    EXPECT_EQ(rings_of(cq.get()).cqe_cnt, 1024u);
    const Answer changed = query_cq(cq.get());
    expect_size(changed);
    EXPECT_EQ(changed.get(of_cq(PRM(cqc, cq_max_count))), 9u);
    EXPECT_EQ(changed.get(of_cq(PRM(cqc, cq_period))), 33u);
}

} // namespace
} // namespace test
