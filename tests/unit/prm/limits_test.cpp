// SPDX-License-Identifier: BSD-3-Clause
// What is too large, too many or in use, and what does not exist.
#include "tests/unit/prm/flow_requests.hpp"
#include "tests/unit/prm/users.hpp"

namespace prm_test {
namespace {

Request with_number(uint16_t opcode, Number number) { return Request(opcode, 64).number(number); }

class LimitsTest : public UsersTest {
  protected:
    LimitsTest()
        : cq(made(by(mine, cq_request(umem)))),
          domain(made(by(mine, REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain)))) {}

    [[nodiscard]] FwStatus asked(const Request& request) { return status(by(mine, request)); }
    [[nodiscard]] Number created(const Request& request) { return made(by(mine, request)); }

    Request tis_request() const {
        constexpr Field kContext = PRM(create_tis_in, ctx);
        return REQUEST(CREATE_TIS, create_tis)
            .set(inside(kContext, PRM(tisc, transport_domain)), domain);
    }
    Request sq_with_tis(Number tis) {
        constexpr Field kContext = PRM(create_sq_in, ctx);
        return sq_request(cq)
            .set(inside(kContext, PRM(sqc, tis_lst_sz)), 1)
            .set(inside(kContext, PRM(sqc, tis_num_0)), tis);
    }
    Request tir_request(Number rqn) const {
        constexpr Field kContext = PRM(create_tir_in, ctx);
        return REQUEST(CREATE_TIR, create_tir)
            .set(inside(kContext, PRM(tirc, inline_rqn)), rqn)
            .set(inside(kContext, PRM(tirc, transport_domain)), domain);
    }
    /// Each entry is this queue.
    static Request rqt_request(Number rqn, size_t entries) {
        constexpr Field kContext = PRM(create_rqt_in, rqt_context);
        Request request = REQUEST(CREATE_RQT, create_rqt)
                              .set(inside(kContext, PRM(rqtc, rqt_max_size)), entries)
                              .set(inside(kContext, PRM(rqtc, rqt_actual_size)), entries);
        const size_t first = request.in.size();
        request.in.resize(first + entries * sizeof(uint32_t));
        for (size_t at = first; at < request.in.size(); at += sizeof(uint32_t))
            net::store_be<uint32_t>(&request.in[at], rqn);
        return request;
    }

    Number cq, domain;
};

TEST_P(LimitsTest, WhatDoesNotExistIsABadResource) {
    constexpr Number kNobodys = 0xabcde;
    for (const int opcode : {MLX5_CMD_OP_DESTROY_CQ,     MLX5_CMD_OP_QUERY_CQ,
                             MLX5_CMD_OP_DESTROY_SQ,     MLX5_CMD_OP_QUERY_SQ,
                             MLX5_CMD_OP_DESTROY_RQ,     MLX5_CMD_OP_QUERY_RQ,
                             MLX5_CMD_OP_DESTROY_RMP,    MLX5_CMD_OP_QUERY_RMP,
                             MLX5_CMD_OP_DESTROY_RQT,    MLX5_CMD_OP_QUERY_RQT,
                             MLX5_CMD_OP_DESTROY_TIR,    MLX5_CMD_OP_QUERY_TIR,
                             MLX5_CMD_OP_DESTROY_TIS,    MLX5_CMD_OP_QUERY_TIS,
                             MLX5_CMD_OP_DESTROY_MKEY,   MLX5_CMD_OP_QUERY_MKEY,
                             MLX5_CMD_OP_DESTROY_QP,     MLX5_CMD_OP_QUERY_QP,
                             MLX5_CMD_OP_2ERR_QP,        MLX5_CMD_OP_DEALLOC_PD,
                             MLX5_CMD_OP_DEALLOC_XRCD,   MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN,
                             MLX5_CMD_OP_DESTROY_XRC_SRQ})
        EXPECT_EQ(asked(Request(static_cast<uint16_t>(opcode), 256).number(kNobodys)),
                  FwStatus::bad_resource)
            << std::hex << opcode;
    EXPECT_EQ(asked(rq_request(kNobodys)), FwStatus::bad_resource);
    EXPECT_EQ(asked(sq_request(kNobodys)), FwStatus::bad_resource);
    EXPECT_EQ(asked(sq_with_tis(kNobodys)), FwStatus::bad_resource);
    EXPECT_EQ(asked(tir_request(kNobodys)), FwStatus::bad_resource);
    EXPECT_EQ(asked(rqt_request(kNobodys, 1)), FwStatus::bad_resource);
    EXPECT_EQ(asked(group_request(kNobodys)), FwStatus::bad_resource);
    EXPECT_EQ(asked(root_request(kNobodys)), FwStatus::bad_resource);
}

TEST_P(LimitsTest, WhatIsUsedIsBusyUntilItsUsersAreGone) {
    const Number tis = created(tis_request()), sq = created(sq_with_tis(tis));
    const Number rq = created(rq_request(cq)), rqt = created(rqt_request(rq, 2));
    const Number tir = created(tir_request(rq)), key = created(mkey_request(1));
    const Number table = created(table_request(0));
    ASSERT_EQ(asked(root_request(table)), FwStatus::ok);
    const Number group = created(group_request(table));
    ASSERT_EQ(asked(tir_entry_request(table, group, tir)), FwStatus::ok);

    struct Step {
        const char* what;
        Request destroys;
        bool held; ///< by one before it in this list
    };
    const Step in_order[] = {
        {"entry",
         REQUEST(DELETE_FLOW_TABLE_ENTRY, delete_fte).set(PRM(delete_fte_in, table_id), table),
         false},
        {"group",
         REQUEST(DESTROY_FLOW_GROUP, destroy_flow_group)
             .set(PRM(destroy_flow_group_in, table_id), table)
             .set(PRM(destroy_flow_group_in, group_id), group),
         true},
        {"table",
         REQUEST(DESTROY_FLOW_TABLE, destroy_flow_table)
             .set(PRM(destroy_flow_table_in, table_id), table),
         true},
        {"TIR", with_number(MLX5_CMD_OP_DESTROY_TIR, tir), true},
        {"RQT", with_number(MLX5_CMD_OP_DESTROY_RQT, rqt), false},
        {"RQ", with_number(MLX5_CMD_OP_DESTROY_RQ, rq), true},
        {"SQ", with_number(MLX5_CMD_OP_DESTROY_SQ, sq), false},
        {"TIS", with_number(MLX5_CMD_OP_DESTROY_TIS, tis), true},
        {"domain", with_number(MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN, domain), true},
        {"CQ", with_number(MLX5_CMD_OP_DESTROY_CQ, cq), true},
        {"key", with_number(MLX5_CMD_OP_DESTROY_MKEY, key), false},
        {"PD", with_number(MLX5_CMD_OP_DEALLOC_PD, pd), true},
        {"umem", with_number(MLX5_CMD_OP_DESTROY_UMEM, umem), true},
    };
    for (const Step& step : in_order) {
        if (step.held) {
            EXPECT_EQ(asked(step.destroys), FwStatus::resource_busy) << step.what;
        }
    }
    for (const Step& step : in_order)
        EXPECT_EQ(asked(step.destroys), FwStatus::ok) << step.what;
    for (const Step& step : in_order)
        EXPECT_EQ(asked(step.destroys), FwStatus::bad_resource) << step.what;
}

TEST_P(LimitsTest, SizesBeyondTheLimitsAreRefused) {
    const Field cqes = inside(PRM(create_cq_in, cq_context), PRM(cqc, log_cq_size));
    EXPECT_EQ(asked(cq_request(umem).set(cqes, core::Limits::kLogMaxCqEntries + 1)),
              FwStatus::exceeded_limit);
    constexpr uint64_t kLogTooMany = 10; // the umem has 32 KiB
    EXPECT_EQ(asked(cq_request(umem).set(cqes, kLogTooMany)), FwStatus::bad_parameter);
    const Field wqes = inside(inside(PRM(create_sq_in, ctx), PRM(sqc, wq)), PRM(wq, log_wq_sz));
    EXPECT_EQ(asked(sq_request(cq).set(wqes, kLogTooMany)), FwStatus::bad_parameter);
    const Number rq = created(rq_request(cq));
    EXPECT_EQ(asked(rqt_request(rq, core::Limits::kMaxRqtSize + 1)), FwStatus::exceeded_limit);
    EXPECT_EQ(asked(rqt_request(rq, core::Limits::kMaxRqtSize)), FwStatus::ok);
    const Field entries =
        inside(PRM(create_flow_table_in, flow_table_context), PRM(flow_table_context, log_size));
    EXPECT_EQ(asked(table_request(1).set(entries, core::Limits::kLogMaxFlowTableSize + 1)),
              FwStatus::exceeded_limit);
    EXPECT_EQ(asked(table_request(core::Limits::kMaxFlowTableLevels)), FwStatus::bad_parameter);
}

TEST_P(LimitsTest, ThereAreNoMoreObjectsThanTheCapabilitiesSay) {
    constexpr uint32_t kLimit = 1u << log_limit(Kind::transport_domain);
    const Request alloc = REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain);
    uint32_t more = 0;
    FwStatus said = FwStatus::ok;
    for (; said == FwStatus::ok && more <= kLimit; more++)
        said = asked(alloc);
    EXPECT_EQ(said, FwStatus::exceeded_limit);
    EXPECT_GE(more + 2, kLimit); // one is ours, and one the guest's driver's
    ASSERT_EQ(asked(with_number(MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN, domain)), FwStatus::ok);
    EXPECT_EQ(asked(alloc), FwStatus::ok);
    EXPECT_EQ(asked(alloc), FwStatus::exceeded_limit);
}

TEST_P(LimitsTest, TheCoresLimitsReachTheDriver) {
    constexpr uint32_t kLimit = 1u << log_limit(Kind::pd);
    uint32_t more = 0;
    FwStatus said = FwStatus::ok;
    for (; said == FwStatus::ok && more <= kLimit; more++)
        said = asked(REQUEST(ALLOC_PD, alloc_pd));
    EXPECT_EQ(said, FwStatus::exceeded_limit);
    EXPECT_GE(more, kLimit / 2); // drivers and the firmware itself have some
}

TEST_P(LimitsTest, PacingKeepsToTheTableOfRates) {
    constexpr Field kRow = PRM(set_pp_rate_limit_in, rate_limit_index),
                    kSettings = PRM(set_pp_rate_limit_in, ctx),
                    kRate = inside(kSettings, PRM(set_pp_rate_limit_context, rate_limit));
    const auto set_rate = [&](uint64_t index, uint64_t kbps) {
        return asked(
            REQUEST(SET_PP_RATE_LIMIT, set_pp_rate_limit).set(kRow, index).set(kRate, kbps));
    };
    EXPECT_EQ(set_rate(0, 5000), FwStatus::bad_resource) << "row 0 stands for no limit";
    EXPECT_EQ(set_rate(kPacingRates, 5000), FwStatus::bad_resource);
    EXPECT_EQ(set_rate(1, core::Limits::kMinRateKbps), FwStatus::ok);
    EXPECT_EQ(set_rate(1, core::Limits::kMaxRateKbps + 1), FwStatus::bad_parameter);
    for (const Field unkept : {PRM(set_pp_rate_limit_context, burst_upper_bound),
                               PRM(set_pp_rate_limit_context, typical_packet_size)})
        EXPECT_EQ(asked(REQUEST(SET_PP_RATE_LIMIT, set_pp_rate_limit)
                            .set(kRow, 1)
                            .set(inside(kSettings, unkept), 100)),
                  FwStatus::bad_parameter);
    EXPECT_EQ(set_rate(1, 5000), FwStatus::ok);
    EXPECT_EQ(set_rate(2, 6000), FwStatus::ok);
    const Answer row = run(by(mine, REQUEST(QUERY_RATE_LIMIT, set_pp_rate_limit).set(kRow, 1)));
    EXPECT_EQ(row.get(kRate), 5000u);

    constexpr Field kIndex = PRM(sqc, packet_pacing_rate_limit_index);
    const auto paced = [&](uint64_t index) {
        return sq_with_tis(created(tis_request()))
            .set(inside(PRM(create_sq_in, ctx), kIndex), index);
    };
    EXPECT_EQ(asked(paced(kPacingRates)), FwStatus::bad_resource);
    const Number sq = created(paced(1));
    const auto modify = [&](uint64_t index) {
        return asked(REQUEST(MODIFY_SQ, modify_sq)
                         .number(sq)
                         .set(PRM(modify_sq_in, modify_bitmask), 1)
                         .set(inside(PRM(modify_sq_in, ctx), kIndex), index));
    };
    EXPECT_EQ(modify(2), FwStatus::ok);
    EXPECT_EQ(modify(kPacingRates), FwStatus::bad_resource);
}

INSTANTIATE_TEST_SUITE_P(Transports, LimitsTest, transports(), name_of);

} // namespace
} // namespace prm_test
