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

INSTANTIATE_TEST_SUITE_P(Transports, ModifyTest, transports(), name_of);

} // namespace
} // namespace prm_test
