// SPDX-License-Identifier: BSD-3-Clause
// What commands that modify an object change, and what they leave as it is.
#include "tests/unit/prm/users.hpp"

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

INSTANTIATE_TEST_SUITE_P(Transports, ModifyTest, transports(), name_of);

} // namespace
} // namespace prm_test
