// SPDX-License-Identifier: BSD-3-Clause
// What programs may pass about counters when they create a flow (struct mlx5_ib_create_flow),
// well-formed or not. libmlx5 gets it right; see tests/functional/uverbs/counters_test.cpp for what
// is counted.
#include "app/softhca/uverbs/commands.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <cerrno>

namespace softhca::uverbs {
namespace {

/// struct mlx5_ib_create_flow with what follows it.
struct Request {
    uint32_t ncounters_data = 0;
    uint32_t reserved = 0;
    mlx5_ib_flow_counters_data data{};
    uint64_t beyond = 0;

    [[nodiscard]] InBuffer bytes(size_t size) const { return {this, size}; }
    [[nodiscard]] InBuffer all() const { return bytes(offsetof(Request, beyond)); }
};
static_assert(offsetof(Request, data) == sizeof(mlx5_ib_create_flow));

class CountersTest : public testbed::Testbed {
  protected:
    [[nodiscard]] Request describing(std::initializer_list<mlx5_ib_flow_counters_desc> what) {
        points.assign(what);
        Request request;
        request.ncounters_data = 1;
        request.data.counters_data = reinterpret_cast<uintptr_t>(points.data());
        request.data.ncounters = static_cast<uint32_t>(points.size());
        return request;
    }
    [[nodiscard]] Errno bind(const Request& request) {
        return bind_counters(counters, request.all(), *device);
    }

    std::vector<mlx5_ib_flow_counters_desc> points;
    Counters counters;
};

TEST_F(CountersTest, SizesOfTheRequest) {
    Request request = describing({{0, 0}});
    EXPECT_EQ(check_counters_data({}), 0) << "most flows say nothing";
    EXPECT_EQ(check_counters_data(request.bytes(4)), EOPNOTSUPP);
    EXPECT_EQ(check_counters_data(request.bytes(sizeof(mlx5_ib_create_flow))), EFAULT);
    EXPECT_EQ(check_counters_data(request.all()), 0);
    EXPECT_EQ(check_counters_data(request.bytes(sizeof request)), 0) << "zeros of a newer program";
    request.beyond = 1;
    EXPECT_EQ(check_counters_data(request.bytes(sizeof request)), EOPNOTSUPP);
    request.ncounters_data = 2;
    EXPECT_EQ(check_counters_data(request.all()), EINVAL);
}

TEST_F(CountersTest, TheFirstFlowDescribesThem) {
    EXPECT_EQ(bind({}), EINVAL) << "nobody has";
    EXPECT_EQ(counters.number, 0u);
    ASSERT_EQ(bind(describing({{0, 1}, {1, 4}})), 0);
    EXPECT_EQ(counters.room, 5u);
    const core::Number number = counters.number;
    EXPECT_NE(number, 0u);
    EXPECT_EQ(bind(describing({{0, 1}})), EINVAL) << "once is enough";
    EXPECT_EQ(bind({}), 0);
    EXPECT_EQ(counters.number, number);
    EXPECT_EQ(counters.destroy(*device), 0);
}

TEST_F(CountersTest, FaultyDescriptionsLeaveNothing) {
    EXPECT_EQ(bind(describing({{2, 0}})), EINVAL) << "there are packets and bytes only";
    Request request = describing({{0, 0}});
    request.data.ncounters = 0x2000;
    EXPECT_EQ(bind(request), EINVAL);
    request.data.ncounters = 1;
    request.data.counters_data = 8;
    EXPECT_EQ(bind(request), EFAULT);
    EXPECT_EQ(counters.number, 0u);
    EXPECT_EQ(counters.room, 0u);
    ASSERT_EQ(bind(describing({{1, ~0u}})), 0); // useless: no reader has room for that
    EXPECT_EQ(counters.room, uint64_t{1} << 32);
}

} // namespace
} // namespace softhca::uverbs
