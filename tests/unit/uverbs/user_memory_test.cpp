// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/user_memory.hpp"

#include "common/mlx5/formats.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace softhca::uverbs {
namespace {

constexpr uint64_t kPage = 4096;

/// Four pages: writable, read-only, inaccessible, unmapped.
class UserMemory : public testing::Test {
  protected:
    void SetUp() override {
        base = mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(base, MAP_FAILED);
        start = reinterpret_cast<uint64_t>(base);
        ASSERT_EQ(mprotect(at(kPage), kPage, PROT_READ), 0);
        ASSERT_EQ(mprotect(at(2 * kPage), kPage, PROT_NONE), 0);
        ASSERT_EQ(munmap(at(3 * kPage), kPage), 0);
    }
    void TearDown() override { munmap(base, 3 * kPage); }
    [[nodiscard]] void* at(uint64_t offset) const { return static_cast<char*>(base) + offset; }

    void* base = nullptr;
    uint64_t start = 0;
};

TEST_F(UserMemory, MappedUpToTheLastByte) {
    EXPECT_TRUE(is_mapped(base, 2 * kPage));
    EXPECT_FALSE(is_mapped(base, 2 * kPage + 1)) << "there, but not to be touched";
    EXPECT_TRUE(is_mapped(base, kPage, true));
    EXPECT_FALSE(is_mapped(base, kPage + 1, true)) << "to be read only";
    EXPECT_FALSE(is_mapped(at(3 * kPage), 1));
    EXPECT_TRUE(is_mapped(nullptr, 0));
    EXPECT_FALSE(is_mapped(nullptr, 1));
    EXPECT_FALSE(is_mapped(at(8), SIZE_MAX)) << "wraps around";
}

TEST_F(UserMemory, ACallRemembersWhatItHasFound) {
    CallMemory memory;
    EXPECT_TRUE(memory.has(at(10), 20));
    EXPECT_TRUE(memory.has(at(kPage), kPage));
    EXPECT_FALSE(memory.has(at(kPage), 1, true)) << "known, but to be read only";
    EXPECT_FALSE(memory.has(at(kPage + 8), kPage)) << "known in part";
    EXPECT_FALSE(memory.has(at(8), SIZE_MAX)) << "wraps around";
    EXPECT_FALSE(memory.has(at(3 * kPage), 1));
    EXPECT_TRUE(memory.has(at(30), 40, true));
    ASSERT_EQ(mprotect(base, kPage, PROT_NONE), 0);
    EXPECT_TRUE(memory.has(at(kPage - 8), 8, true)) << "the kernel is not asked again";
    EXPECT_FALSE(memory.has(at(kPage - 8), 16, true));
    EXPECT_FALSE(CallMemory().has(base, 1)) << "by another call it is";
}

TEST_F(UserMemory, AccessibleAsTheProgramItselfMay) {
    EXPECT_TRUE(is_accessible(start, kPage, true));
    EXPECT_TRUE(is_accessible(start, 2 * kPage, false)) << "two mappings side by side";
    EXPECT_FALSE(is_accessible(start, 2 * kPage, true));
    EXPECT_FALSE(is_accessible(start + kPage, kPage + 1, false));
    EXPECT_FALSE(is_accessible(start + 3 * kPage, 1, false));
    EXPECT_FALSE(is_accessible(0, 1, false));
    EXPECT_FALSE(is_accessible(start, ~uint64_t{0}, false));
}

TEST_F(UserMemory, AreasAndDoorbells) {
    const auto area = user_area(start + 100, 200, true);
    ASSERT_TRUE(area);
    EXPECT_EQ(area->length(), 200u);
    EXPECT_EQ(static_cast<void*>(area->at(0)), at(100));
    EXPECT_FALSE(user_area(start + kPage, 10, true));
    EXPECT_FALSE(user_area(start, 0, false));
    EXPECT_EQ(static_cast<void*>(user_doorbell<mlx5::QueueDoorbell>(start + 64)), at(64));
    EXPECT_TRUE(is_doorbell_address(start + 64));
    EXPECT_FALSE(is_doorbell_address(start + 68));
    EXPECT_EQ(user_doorbell<mlx5::QueueDoorbell>(start + kPage), nullptr) << "read-only";
}

} // namespace
} // namespace softhca::uverbs
