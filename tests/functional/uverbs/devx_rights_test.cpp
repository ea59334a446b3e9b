// SPDX-License-Identifier: BSD-3-Clause
// What a kernel demands of programs that run firmware commands. On softhca, with --enforce.
#include "tests/functional/uverbs/devx.hpp"
#include "tests/functional/uverbs/rights.hpp"

namespace test {
namespace {

using DevxRightsTest = DevxTest;

/// The kernel tells the firmware what a user may when its context is opened.
TEST_F(DevxRightsTest, SqsNeedAContextThatWasOpenedWithCapNetRaw) {
    const DevxHandle cq = make(cq_request(0, 1));
    ASSERT_TRUE(cq);
    const uint32_t cqn = last.number();
    const DevxHandle tis = make_tis();
    ASSERT_TRUE(tis);
    const Request request = sq_request(cqn, last.number(), 2, 3);
    const bool may = has(CAP_NET_RAW);
    const Without raw(CAP_NET_RAW);
    EXPECT_EQ(make(request) != nullptr, may);
    const ContextHandle other = open_devx();
    ASSERT_TRUE(other) << std::strerror(errno);
    EXPECT_FALSE(make(request, other.get()));
    EXPECT_EQ(last.error, EREMOTEIO);
    EXPECT_EQ(last.status(), FwStatus::bad_parameter) << "not for the objects, which are others'";
}

} // namespace
} // namespace test
