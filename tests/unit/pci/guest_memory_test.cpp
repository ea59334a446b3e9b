// SPDX-License-Identifier: BSD-3-Clause
// The memory map of a guest, as reported by QEMU: regions are added, removed in part and adjacent.
#include "app/softhca/pci/guest_memory.hpp"
#include "common/fd.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace softhca::pci {
namespace {

constexpr uint64_t kPage = 4096, kStart = 1u << 20;

struct GuestMemoryTest : testing::Test {
    GuestMemoryTest() { EXPECT_EQ(ftruncate(file.get(), 16 * kPage), 0); }
    /// Adds `pages` pages of the file, from page `from` on, at the guest's page `at`.
    void add(uint64_t from, uint64_t at, uint64_t pages) {
        EXPECT_TRUE(memory.add(file.get(), from * kPage, kStart + at * kPage, pages * kPage));
    }
    std::byte* pages(uint64_t at, uint64_t count = 1) {
        return memory.translate(kStart + at * kPage, count * kPage);
    }
    Fd file{memfd_create("guest", MFD_CLOEXEC)};
    GuestMemory memory;
};

TEST_F(GuestMemoryTest, WhatIsLeftOfARegionStaysWhereItWas) {
    add(0, 0, 4);
    std::byte* const first = pages(0, 4);
    ASSERT_TRUE(first);
    memory.remove(kStart + kPage, kPage);
    EXPECT_EQ(pages(0), first);
    EXPECT_EQ(pages(1), nullptr);
    EXPECT_EQ(pages(2, 2), first + 2 * kPage);
}

TEST_F(GuestMemoryTest, NeighboursAreOneIfTheirMemoryIs) {
    add(0, 0, 1);
    add(8, 1, 1);
    add(9, 2, 1);
    EXPECT_EQ(pages(0, 2), nullptr);
    EXPECT_EQ(pages(1, 2), pages(1));
    EXPECT_NE(pages(2), nullptr);
}

/// Firmware may put the BAR of another device, which is memory to QEMU, as high as the guest's CPU
/// has addresses. A table of all pages up to there would not fit into this process.
TEST_F(GuestMemoryTest, WhatLiesFarBehindTheRamIsNotPartOfEverything) {
    add(0, 0, 4);
    ASSERT_TRUE(memory.add(file.get(), 8 * kPage, uint64_t{0x38} << 40, 8 * kPage));
    constexpr uint64_t kLargePage = 1u << 16;
    EXPECT_EQ(memory.everything().length(), kStart + kLargePage);
    EXPECT_NE(memory.translate(uint64_t{0x38} << 40, kPage), nullptr);
}

} // namespace
} // namespace softhca::pci
