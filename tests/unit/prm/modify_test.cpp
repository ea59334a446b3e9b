// SPDX-License-Identifier: BSD-3-Clause
// What commands that modify an object change, and what they leave as it is.
#include "tests/unit/prm/users.hpp"

#include <nlohmann/json.hpp>

namespace prm_test {
namespace {

class ModifyTest : public UsersTest {};

TEST_P(ModifyTest, OfACqWhatIsSelected) {
    constexpr Field kSelect = PRM(modify_cq_in, modify_field_select_resize_field_select);
    constexpr Field kContext = PRM(modify_cq_in, cq_context);
    constexpr uint64_t kPeriod = 1, kMaxCount = 2, kOverrun = 4;
    const Number cq = made(by(mine, cq_request(umem)));
    const auto modify = [&](uint64_t fields, uint64_t period, uint64_t count, uint64_t ignore) {
        return status(by(mine, REQUEST(MODIFY_CQ, modify_cq)
                                   .number(cq)
                                   .set(kSelect, fields)
                                   .set(inside(kContext, PRM(cqc, cq_period)), period)
                                   .set(inside(kContext, PRM(cqc, cq_max_count)), count)
                                   .set(inside(kContext, PRM(cqc, oi)), ignore)));
    };
    const auto expect = [&](uint32_t period, uint32_t count, uint32_t ignore) {
        const Answer query = run(by(mine, REQUEST(QUERY_CQ, query_cq).number(cq)));
        const auto has = [&](Field field) {
            return query.get(inside(PRM(query_cq_out, cq_context), field));
        };
        EXPECT_EQ(has(PRM(cqc, cq_period)), period);
        EXPECT_EQ(has(PRM(cqc, cq_max_count)), count);
        EXPECT_EQ(has(PRM(cqc, oi)), ignore);
    };
    EXPECT_EQ(modify(kPeriod | kMaxCount, 7, 9, 1), FwStatus::ok);
    expect(7, 9, 0);
    EXPECT_EQ(modify(0, 1, 1, 1), FwStatus::ok);
    expect(7, 9, 0);
    EXPECT_EQ(modify(kOverrun, 1, 1, 1), FwStatus::ok);
    expect(7, 9, 1);
    for (const uint64_t unknown : {0x8u, 0x10u, 0x80000000u})
        EXPECT_EQ(modify(kPeriod | unknown, 1, 1, 0), FwStatus::bad_parameter) << unknown;
    expect(7, 9, 1);
}

TEST_P(ModifyTest, ACqThatCompressesKeepsItsSizeOfEntries) {
    constexpr Field kContext = PRM(modify_cq_in, cq_context);
    constexpr uint64_t k64 = 0, k128 = 1;
    const Field compresses = inside(PRM(create_cq_in, cq_context), PRM(cqc, cqe_comp_en));
    const auto resize = [&](Number cq, uint64_t size) {
        return status(by(mine, REQUEST(MODIFY_CQ, modify_cq, 1)
                                   .number(cq)
                                   .set(inside(kContext, PRM(cqc, log_cq_size)), 5)
                                   .set(inside(kContext, PRM(cqc, cqe_sz)), size)
                                   .set(PRM(modify_cq_in, cq_umem_valid), 1)
                                   .set({0x2c0, 32}, umem)
                                   .set({0x280, 64}, 2 * kPage)));
    };
    const Number plain = made(by(mine, cq_request(umem)));
    EXPECT_EQ(resize(plain, k128), FwStatus::ok);
    const Number compressing = made(by(mine, cq_request(umem).set(compresses, 1)));
    EXPECT_EQ(resize(compressing, k128), FwStatus::bad_parameter);
    EXPECT_EQ(resize(compressing, k64), FwStatus::ok);
}

TEST_P(ModifyTest, OfAnRqWhatIsSelectedAndNothingUnknown) {
    constexpr Field kContext = PRM(modify_rq_in, ctx);
    constexpr uint64_t kLimitWatermark = 1, kScatterFcs = 4;
    const Number rq = made(by(mine, rq_request(made(by(mine, cq_request(umem))))));
    const auto modify = [&](uint64_t fields, uint64_t scatters) {
        return status(by(mine, REQUEST(MODIFY_RQ, modify_rq)
                                   .number(rq)
                                   .set(PRM(modify_rq_in, modify_bitmask), fields)
                                   .set(inside(kContext, PRM(rqc, scatter_fcs)), scatters)));
    };
    const auto expect = [&](bool scatters) {
        EXPECT_EQ(transport->device().dump().at("rqs").back().at("scatter_fcs"), scatters);
        const Answer query = run(by(mine, REQUEST(QUERY_RQ, query_rq).number(rq)));
        EXPECT_EQ(query.get(inside(PRM(query_rq_out, rq_context), PRM(rqc, scatter_fcs))),
                  uint32_t{scatters});
    };
    EXPECT_EQ(modify(0, 1), FwStatus::ok);
    expect(false);
    EXPECT_EQ(modify(kScatterFcs, 1), FwStatus::ok);
    expect(true);
    for (const uint64_t unknown : {kLimitWatermark, uint64_t{0x10}, uint64_t{1} << 63})
        EXPECT_EQ(modify(kScatterFcs | unknown, 0), FwStatus::bad_parameter) << unknown;
    expect(true);
    EXPECT_EQ(modify(kScatterFcs, 0), FwStatus::ok);
    expect(false);
}

TEST_P(ModifyTest, OfATisWhatIsSelected) {
    constexpr Field kContext = PRM(modify_tis_in, ctx), kMask = PRM(modify_tis_in, bitmask);
    const Number domain = made(by(mine, REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain)));
    const Number tis = made(
        by(mine, REQUEST(CREATE_TIS, create_tis)
                     .set(inside(PRM(create_tis_in, ctx), PRM(tisc, transport_domain)), domain)));
    const auto modify = [&] {
        return by(mine, REQUEST(MODIFY_TIS, modify_tis)
                            .number(tis)
                            .set(inside(kContext, PRM(tisc, prio)), 6)
                            .set(inside(kContext, PRM(tisc, lag_tx_port_affinity)), 2)
                            .set(inside(kContext, PRM(tisc, transport_domain)), domain + 1));
    };
    const auto expect = [&](uint32_t priority, uint32_t port) {
        const Answer query = run(by(mine, REQUEST(QUERY_TIS, query_tis).number(tis)));
        const auto has = [&](Field field) {
            return query.get(inside(PRM(query_tis_out, tis_context), field));
        };
        EXPECT_EQ(has(PRM(tisc, prio)), priority);
        EXPECT_EQ(has(PRM(tisc, lag_tx_port_affinity)), port);
        EXPECT_EQ(has(PRM(tisc, transport_domain)), domain);
    };
    EXPECT_EQ(status(modify()), FwStatus::ok);
    expect(0, 0);
    EXPECT_EQ(status(modify().set(inside(kMask, PRM(modify_tis_bitmask, prio)), 1)), FwStatus::ok);
    expect(6, 0);
    EXPECT_EQ(status(modify().set(inside(kMask, PRM(modify_tis_bitmask, lag_tx_port_affinity)), 1)),
              FwStatus::ok);
    expect(6, 2);
}

class QueueStatesTest : public UsersTest {
  protected:
    static constexpr uint8_t kReset = 0, kReady = 1, kError = 3;
    static constexpr Field kSqContext = PRM(modify_sq_in, ctx), kRqContext = PRM(modify_rq_in, ctx);

    QueueStatesTest() : cq(made(by(mine, cq_request(umem)))) {}
    Request move_sq(Number sq, uint8_t from, uint8_t to) const {
        return by(mine, REQUEST(MODIFY_SQ, modify_sq)
                            .number(sq)
                            .set(PRM(modify_sq_in, sq_state), from)
                            .set(inside(kSqContext, PRM(sqc, state)), to));
    }
    Request move_rq(Number rq, uint8_t from, uint8_t to) const {
        return by(mine, REQUEST(MODIFY_RQ, modify_rq)
                            .number(rq)
                            .set(PRM(modify_rq_in, rq_state), from)
                            .set(inside(kRqContext, PRM(rqc, state)), to));
    }

    Number cq;
};

TEST_P(QueueStatesTest, ARefusedModificationLeavesAQueueAsItIs) {
    constexpr Field kRate = PRM(sqc, packet_pacing_rate_limit_index);
    const Number rq = made(by(mine, rq_request(cq))), sq = made(by(mine, sq_request(cq)));
    for (const uint64_t row : {1, 2}) {
        constexpr Field kKbps =
            inside(PRM(set_pp_rate_limit_in, ctx), PRM(set_pp_rate_limit_context, rate_limit));
        ASSERT_EQ(status(by(mine, REQUEST(SET_PP_RATE_LIMIT, set_pp_rate_limit)
                                      .set(PRM(set_pp_rate_limit_in, rate_limit_index), row)
                                      .set(kKbps, 5000))),
                  FwStatus::ok);
    }
    const auto pace = [&](uint8_t from, uint8_t to, uint64_t row) {
        return status(move_sq(sq, from, to)
                          .set(PRM(modify_sq_in, modify_bitmask), 1)
                          .set(inside(kSqContext, kRate), row));
    };
    const auto strip = [&](uint8_t from, uint8_t to, uint64_t vsd) {
        return status(
            move_rq(rq, from, to)
                .set(PRM(modify_rq_in, modify_bitmask), MLX5_MODIFY_RQ_IN_MODIFY_BITMASK_VSD)
                .set(inside(kRqContext, PRM(rqc, vsd)), vsd));
    };
    const auto row = [&] {
        return run(by(mine, REQUEST(QUERY_SQ, query_sq).number(sq)))
            .get(inside(PRM(query_sq_out, sq_context), kRate));
    };
    const auto vsd = [&] {
        return run(by(mine, REQUEST(QUERY_RQ, query_rq).number(rq)))
            .get(inside(PRM(query_rq_out, rq_context), PRM(rqc, vsd)));
    };
    EXPECT_EQ(pace(kReset, kError, 1), FwStatus::ok);
    EXPECT_EQ(pace(kError, kReady, 2), FwStatus::bad_resource_state);
    EXPECT_EQ(row(), 1u);
    EXPECT_EQ(strip(kReset, kError, 0), FwStatus::ok);
    EXPECT_EQ(strip(kError, kReady, 1), FwStatus::bad_resource_state);
    EXPECT_EQ(vsd(), 0u);
}

TEST_P(QueueStatesTest, QueuesChangeStateFromTheStateTheyAreIn) {
    const Number rq = made(by(mine, rq_request(cq)));
    EXPECT_EQ(status(move_rq(rq, kReady, kError)), FwStatus::bad_resource_state);
    EXPECT_EQ(status(move_rq(rq, kReset, kReady)), FwStatus::ok);
    EXPECT_EQ(status(move_rq(rq, kReset, kReady)), FwStatus::bad_resource_state);
    EXPECT_EQ(status(move_rq(rq, kReady, 2)), FwStatus::bad_parameter);
    const Answer answer = run(by(mine, REQUEST(QUERY_RQ, query_rq).number(rq)));
    EXPECT_EQ(answer.get(inside(PRM(query_rq_out, rq_context), PRM(rqc, state))), kReady);
    EXPECT_EQ(answer.get(inside(PRM(query_rq_out, rq_context), PRM(rqc, cqn))), cq);
}

INSTANTIATE_TEST_SUITE_P(Transports, QueueStatesTest, transports(), name_of);
INSTANTIATE_TEST_SUITE_P(Transports, ModifyTest, transports(), name_of);

} // namespace
} // namespace prm_test
