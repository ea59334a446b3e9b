// SPDX-License-Identifier: BSD-3-Clause
// What the run-time loader reports on a machine without rdma-core, or with an old one.
#include "common/verbs/api.hpp"

#include <cerrno>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbs {
namespace {

using testing::HasSubstr;

TEST(Loader, MissingLibraryNamesThePackage) {
    const Result<Api> api = load_from({.ibverbs = "libno-such-verbs.so.1", .mlx5 = "libmlx5.so.1"});
    ASSERT_FALSE(api);
    EXPECT_EQ(api.error().code, ENOENT);
    EXPECT_THAT(api.error().what, HasSubstr("libno-such-verbs.so.1 cannot be loaded"));
    EXPECT_THAT(api.error().what, HasSubstr("libibverbs1"));
    EXPECT_THAT(api.error().what, HasSubstr("ibverbs-providers"));
}

TEST(Loader, OldLibraryNamesTheFunction) {
    // Any library without verbs functions can represent one that is too old.
    const Result<Api> api = load_from({.ibverbs = "libm.so.6", .mlx5 = "libmlx5.so.1"});
    ASSERT_FALSE(api);
    EXPECT_EQ(api.error().code, ENOSYS);
    EXPECT_THAT(api.error().what, HasSubstr("has no function ibv_get_device_list"));
}

TEST(Loader, MissingProviderIsNoError) {
    const Result<Api> api =
        load_from({.ibverbs = "libibverbs.so.1", .mlx5 = "libno-such-provider.so.1"});
    ASSERT_TRUE(api) << api.error().what;
    EXPECT_NE(api->create_qp, nullptr);
    EXPECT_EQ(api->mlx5_is_supported, nullptr);
    EXPECT_EQ(api->mlx5_init_obj, nullptr);
}

TEST(Loader, LoadsOnce) {
    const Result<const Api*> first = load();
    ASSERT_TRUE(first) << first.error().what;
    EXPECT_EQ(*first, load().value());
    EXPECT_NE((*first)->mlx5_init_obj, nullptr);
}

} // namespace
} // namespace verbs
