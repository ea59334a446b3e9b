// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/fd_table.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace softhca::uverbs {
namespace {

struct Probe final : OpenFile {
    explicit Probe(int& destroyed) : count(destroyed) {}
    ~Probe() override { count++; }
    int& count;
};

// Numbers far above what the test program itself opens.
constexpr int kFd = 70001;

TEST(FdTable, HoldsUntilReleased) {
    int destroyed = 0;
    EXPECT_FALSE(fd_table::may_hold(kFd));
    ASSERT_TRUE(fd_table::insert(kFd, std::make_shared<Probe>(destroyed)));
    EXPECT_TRUE(fd_table::may_hold(kFd));
    EXPECT_FALSE(fd_table::may_hold(kFd + 1));
    EXPECT_TRUE(fd_table::find_as<Probe>(kFd));
    fd_table::release(kFd);
    EXPECT_EQ(destroyed, 1);
    EXPECT_FALSE(fd_table::may_hold(kFd));
    fd_table::release(kFd);
    EXPECT_EQ(destroyed, 1);
}

TEST(FdTable, ACallInProgressKeepsTheFile) {
    int destroyed = 0;
    ASSERT_TRUE(fd_table::insert(kFd, std::make_shared<Probe>(destroyed)));
    auto in_use = fd_table::find(kFd);
    fd_table::release(kFd);
    EXPECT_EQ(destroyed, 0);
    in_use.reset();
    EXPECT_EQ(destroyed, 1);
}

TEST(FdTable, ImpossibleNumbers) {
    int destroyed = 0;
    for (const int fd : {-1, 1 << 20, 1 << 30}) {
        EXPECT_FALSE(fd_table::may_hold(fd));
        EXPECT_FALSE(fd_table::insert(fd, std::make_shared<Probe>(destroyed)));
        EXPECT_FALSE(fd_table::find(fd));
        fd_table::release(fd);
    }
}

TEST(FdTable, AnotherProcessNeitherFindsNorReleases) {
    int destroyed = 0;
    ASSERT_TRUE(fd_table::insert(kFd, std::make_shared<Probe>(destroyed)));
    const pid_t child = fork();
    if (child == 0) {
        const bool found = fd_table::find(kFd) != nullptr;
        fd_table::release(kFd);
        const bool destroyed_there = destroyed != 0;
        fd_table::forget_all();
        _exit(found || destroyed_there || fd_table::may_hold(kFd) ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(fd_table::find(kFd));
    fd_table::release(kFd);
}

} // namespace
} // namespace softhca::uverbs
