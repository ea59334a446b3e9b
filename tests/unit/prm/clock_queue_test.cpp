// SPDX-License-Identifier: BSD-3-Clause
// What drivers request in order to send by time: clock queues, WQE rates, and the clock of CQE
// timestamps. Fields that the kernel's header does not name are at their offsets in DPDK's
// mlx5_prm.h.
#include "tests/unit/prm/users.hpp"

#include <nlohmann/json.hpp>

namespace prm_test {
namespace {

constexpr Field kWaitOnTime{0x68c, 1}, kWqeIndexIgnore{0x99, 1}, kNonWireSq{0x120, 1},
    kLogMaxStaticSqWq{0x133, 5}, kAccessRegisterUserCap{0xd2, 1}, kWqeRatePp{0x20, 1};
constexpr Field kNonWire{0xf, 1}, kStatic{0x10, 1}, kRateMode{0x4c, 4};

class ClockQueueTest : public UsersTest {
  protected:
    ClockQueueTest() { cq = made(by(mine, cq_request(umem))); }

    Request rate(uint64_t row, uint64_t rate_of_row, uint64_t mode) {
        constexpr Field kContext = PRM(set_pp_rate_limit_in, ctx);
        return by(mine, REQUEST(SET_PP_RATE_LIMIT, set_pp_rate_limit)
                            .set(PRM(set_pp_rate_limit_in, rate_limit_index), row)
                            .set(inside(kContext, PRM(set_pp_rate_limit_context, rate_limit)),
                                 rate_of_row)
                            .set(inside(kContext, kRateMode), mode));
    }
    Answer read_register(uint16_t opcode, uint16_t id, uint16_t op_mod = 1) {
        Request request(opcode, 16 + PRM_BYTES(mtutc_reg), op_mod);
        return run(by(mine, request.set(PRM(access_register_in, register_id), id)
                                .set({16 * 8, 2}, 1))); // the answer must not be what was sent
    }
    [[nodiscard]] nlohmann::json dumped(Number sqn) {
        const nlohmann::json dump = transport->device().dump();
        for (const auto& row : dump["sqs"])
            if (row["number"] == sqn) return row;
        return {};
    }
    Number cq = 0;
};

TEST_P(ClockQueueTest, IsMade) {
    constexpr Field kContext = PRM(create_sq_in, ctx), kWq = inside(kContext, PRM(sqc, wq));
    ASSERT_EQ(status(rate(1, 2'000'000, 1)), FwStatus::ok);
    const Number sqn =
        made(by(mine, sq_request(cq)
                          .set(inside(kContext, kNonWire), 1)
                          .set(inside(kContext, kStatic), 1)
                          .set(inside(kWq, PRM(wq, cd_slave)), 1)
                          .set(inside(kContext, PRM(sqc, packet_pacing_rate_limit_index)), 1)));
    EXPECT_EQ(dumped(sqn)["requests_per_second"], 2'000'000);
    EXPECT_EQ(dumped(sqn)["rate_kbps"], 0);
    EXPECT_EQ(dumped(sqn)["enabled"], 0);
    ASSERT_EQ(status(rate(1, 5000, 0)), FwStatus::ok) << "queues follow their row";
    EXPECT_EQ(dumped(sqn)["requests_per_second"], 0);
    EXPECT_EQ(dumped(sqn)["rate_kbps"], 5000);
    const Number rearm =
        made(by(mine, sq_request(cq).set(inside(kContext, PRM(sqc, cd_master)), 1)));
    EXPECT_FALSE(dumped(rearm).contains("enabled"));
}

TEST_P(ClockQueueTest, RatesOfWqes) {
    EXPECT_EQ(status(rate(1, 1000, 2)), FwStatus::bad_parameter) << "neither bits nor WQEs";
    EXPECT_EQ(status(rate(1, core::Limits::kMaxRequestRate + 1, 1)), FwStatus::bad_parameter);
    ASSERT_EQ(status(rate(1, 1000, 1)), FwStatus::ok);
    Request query(MLX5_CMD_OP_QUERY_RATE_LIMIT, PRM_BYTES(set_pp_rate_limit_in));
    const Answer answer = run(by(mine, query.set(PRM(set_pp_rate_limit_in, rate_limit_index), 1)));
    constexpr Field kContext = PRM(set_pp_rate_limit_in, ctx);
    EXPECT_EQ(answer.get(inside(kContext, PRM(set_pp_rate_limit_context, rate_limit))), 1000u);
    EXPECT_EQ(answer.get(inside(kContext, kRateMode)), 1u);
}

TEST_P(ClockQueueTest, ReceiveQueuesDoNotWait) {
    constexpr Field kWq = inside(PRM(create_rq_in, ctx), PRM(rqc, wq));
    EXPECT_EQ(status(by(mine, rq_request(cq).set(inside(kWq, PRM(wq, cd_slave)), 1))),
              FwStatus::bad_parameter);
}

TEST_P(ClockQueueTest, TheClockRunsFreely) {
    constexpr uint16_t kAccessRegisterUser = 0xb0c, kMtutc = 0x9055, kPtys = 0x5004;
    const Answer mtutc = read_register(kAccessRegisterUser, kMtutc);
    EXPECT_EQ(mtutc.status(), FwStatus::ok);
    EXPECT_EQ(mtutc.get({16 * 8, 2}), 0u) << "time_stamp_mode";
    EXPECT_EQ(read_register(kAccessRegisterUser, kMtutc, 0).status(), FwStatus::bad_parameter);
    EXPECT_EQ(read_register(kAccessRegisterUser, kPtys).status(), FwStatus::bad_parameter)
        << "for the driver only";
}

TEST_P(ClockQueueTest, CapabilitiesSaySo) {
    const auto get = [&](uint16_t kind, Field field) {
        const Answer answer = run(
            by(mine, REQUEST(QUERY_HCA_CAP, query_hca_cap, static_cast<uint16_t>(kind << 1 | 1))));
        return answer.get(inside(PRM(query_hca_cap_out, capability), field));
    };
    constexpr uint16_t kGeneral = 0, kQos = 0xc;
    EXPECT_EQ(get(kGeneral, kWqeIndexIgnore), 0u) << "doorbells are records";
    for (const Field one : {kWaitOnTime, kNonWireSq, kAccessRegisterUserCap, PRM(cmd_hca_cap, cd)})
        EXPECT_EQ(get(kGeneral, one), 1u) << one.offset;
    EXPECT_EQ(get(kGeneral, kLogMaxStaticSqWq), core::Limits::kLogMaxWqebbs);
    EXPECT_EQ(get(kQos, kWqeRatePp), 1u);
}

INSTANTIATE_TEST_SUITE_P(Transports, ClockQueueTest, transports(), name_of);

} // namespace
} // namespace prm_test
