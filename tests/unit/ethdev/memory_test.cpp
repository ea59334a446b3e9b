// SPDX-License-Identifier: BSD-3-Clause
// The memory table: merging, lookup, changes that come with mempools.
#include "drivers/net/rawqp/ethdev/memory/memory.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/verbs/fake_rdma.hpp"

#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <thread>

namespace rawqp::test {
namespace {

using test_eal::Pool;
using Ranges = std::vector<AddressRange>;

TEST(MergeRanges, SortsAndJoins) {
    EXPECT_EQ(merge_ranges({}), Ranges{});
    EXPECT_EQ(merge_ranges({{10, 20}}), (Ranges{{10, 20}}));
    EXPECT_EQ(merge_ranges({{20, 30}, {10, 20}}), (Ranges{{10, 30}}));           // touching
    EXPECT_EQ(merge_ranges({{10, 20}, {21, 30}}), (Ranges{{10, 20}, {21, 30}})); // a hole
    EXPECT_EQ(merge_ranges({{10, 40}, {15, 20}, {35, 50}}), (Ranges{{10, 50}}));
    EXPECT_EQ(merge_ranges({{10, 10}, {30, 20}}), Ranges{}); // empty ranges vanish
}

TEST(Without, CutsRanges) {
    const Ranges two{{10, 20}, {30, 40}};
    EXPECT_EQ(without(two, {20, 30}), two);
    EXPECT_EQ(without(two, {15, 35}), (Ranges{{10, 15}, {35, 40}}));
    EXPECT_EQ(without(two, {32, 34}), (Ranges{{10, 20}, {30, 32}, {34, 40}}));
    EXPECT_EQ(without(two, {5, 40}), Ranges{});
}

class MrTableTest : public test_eal::EalTest {
  protected:
    void publish(std::vector<MrEntry> entries) {
        if (entries.size() > table.capacity()) {
            MrTable::Room room = MrTable::allocate(entries.size());
            table.move_to(room);
        }
        table.publish(entries);
    }

    MrTable table;
};

TEST_F(MrTableTest, FindsByHalfOpenRange) {
    EXPECT_FALSE(table.find(100)) << "the table has no memory yet";
    publish({{100, 200, 1, 0}, {200, 250, 2, 0}, {300, 400, 3, 0}});
    EXPECT_FALSE(table.find(99));
    EXPECT_EQ(table.find(100)->lkey, 1u);
    EXPECT_EQ(table.find(199)->lkey, 1u);
    EXPECT_EQ(table.find(200)->lkey, 2u);
    EXPECT_FALSE(table.find(250));
    EXPECT_EQ(table.find(399)->lkey, 3u);
    EXPECT_FALSE(table.find(400));
}

TEST_F(MrTableTest, AnEntryCanSayAllMemory) {
    publish({{0, UINTPTR_MAX, 7, 8}});
    MrCache cache(&table);
    for (const uintptr_t address : {uintptr_t{0}, uintptr_t{4096}, UINTPTR_MAX - 1}) {
        EXPECT_EQ(table.find(address)->lkey, 7u);
        EXPECT_EQ(cache.find(address)->lkey_be, 8u);
    }
}

TEST_F(MrTableTest, GrowsAndShrinks) {
    publish({{100, 200, 1, 2}});
    publish({{100, 200, 1, 2}, {300, 400, 3, 4}});
    EXPECT_EQ(table.find(100)->lkey_be, 2u);
    EXPECT_EQ(table.find(399)->lkey_be, 4u);
    EXPECT_EQ(table.capacity(), 2u);
    MrTable::Room room = MrTable::allocate(8);
    table.move_to(room);
    EXPECT_EQ(table.capacity(), 8u);
    EXPECT_EQ(table.find(399)->lkey_be, 4u) << "what there was moves along";
    publish({{300, 400, 5, 6}});
    EXPECT_FALSE(table.find(100));
    EXPECT_EQ(table.find(300)->lkey, 5u);
}

TEST_F(MrTableTest, CachesRegionsThatAlternate) {
    publish({{100, 200, 1, 1}, {200, 300, 2, 2}, {300, 400, 3, 3}});
    MrCache cache(&table);
    for (const uintptr_t address : {150, 250, 350})
        ASSERT_NE(cache.find(address), nullptr);

    publish({}); // without a new generation: now only the cache has them
    for (const uintptr_t address : {150, 350, 250, 250, 150})
        EXPECT_EQ(cache.find(address)->lkey, address / 100) << address;
    table.next_generation();
    EXPECT_TRUE(cache.sync());
    publish({{100, 200, 4, 4}, {200, 300, 5, 5}, {300, 400, 6, 6}});
    for (const uintptr_t address : {150, 250, 350})
        EXPECT_EQ(cache.find(address)->lkey, address / 100 + 3) << "of the old generation";
}

/// Alternates between two states; what a reader finds belongs to one of them.
TEST_F(MrTableTest, IsReadWhileItIsWritten) {
    const std::vector<MrEntry> states[] = {{{100, 200, 1, 1}, {200, 300, 2, 2}, {300, 400, 3, 3}},
                                           {{50, 150, 11, 11}, {200, 300, 12, 12}}};
    publish(states[0]);
    std::atomic<bool> done = false;
    std::thread writer([&] {
        for (int i = 0; i < 20'000; ++i)
            publish(states[i % 2]);
        done = true;
    });
    while (!done) {
        const auto entry = table.find(120);
        if (!entry) continue; // the writer kept interfering
        ASSERT_EQ(entry->lkey, entry->lkey_be);
        ASSERT_TRUE((entry->lkey == 1 && entry->start == 100 && entry->end == 200) ||
                    (entry->lkey == 11 && entry->start == 50 && entry->end == 150));
    }
    writer.join();
}

/// A Memory on the fake device, and mempools.
class MemoryTest : public test_eal::EalTest {
  protected:
    static Pool make_pool() { return test_eal::make_pool(63, 512); }
    static uintptr_t packet_in(const Pool& pool) {
        rte_mbuf* mbuf = rte_pktmbuf_alloc(pool.get());
        const auto address = reinterpret_cast<uintptr_t>(mbuf->buf_addr);
        rte_pktmbuf_free(mbuf);
        return address;
    }

    verbs_test::FakeRdma rdma;
    ibv_pd pd{};
};

TEST_F(MemoryTest, PoolOnceHoweverOftenAdded) {
    Pool pool = make_pool();
    {
        Memory memory(rdma.api(), &pd, "test", 0);
        ASSERT_TRUE(memory.add_pool(pool.get()));
        ASSERT_TRUE(memory.add_pool(pool.get()));
        EXPECT_EQ(rdma.calls("reg_mr"), 1u);
        EXPECT_EQ(rdma.mr_access, unsigned{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING});
        const auto entry = memory.table().find(packet_in(pool));
        ASSERT_TRUE(entry);
        EXPECT_EQ(entry->lkey_be, rte_cpu_to_be_32(entry->lkey));
        EXPECT_EQ(rdma.alive("MR"), 1);
    }
    EXPECT_EQ(rdma.alive(), "");
}

TEST_F(MemoryTest, FollowsPoolsThatComeAndGo) {
    Pool before = make_pool();
    Memory memory(rdma.api(), &pd, "test", 0);
    ASSERT_TRUE(memory.follow());
    EXPECT_TRUE(memory.table().find(packet_in(before)));

    Pool during = make_pool();
    const uintptr_t address = packet_in(during);
    ASSERT_TRUE(memory.table().find(address));
    const uint32_t generation = memory.table().generation();
    const int alive = rdma.alive("MR");
    during.reset();
    EXPECT_FALSE(memory.table().find(address));
    EXPECT_EQ(rdma.alive("MR"), alive - 1);
    EXPECT_NE(memory.table().generation(), generation);
    EXPECT_TRUE(memory.table().find(packet_in(before)));
}

/// Rings remember pools by address, which the next pool may get.
TEST_F(MemoryTest, AGenerationEndsWithAPoolWhoseMemoryStays) {
    Pool pool = make_pool();
    Memory memory(rdma.api(), &pd, "test", 0);
    const uintptr_t address = packet_in(pool);
    constexpr uintptr_t kAround = 1 << 20;
    ASSERT_TRUE(memory.map({address - kAround, address + kAround}));
    ASSERT_TRUE(memory.follow());
    ASSERT_EQ(memory.registrations(), 1u);
    const uint32_t generation = memory.table().generation();
    pool.reset();
    EXPECT_TRUE(memory.table().find(address));
    EXPECT_NE(memory.table().generation(), generation);
}

TEST_F(MemoryTest, CacheForgetsFreedMemory) {
    Memory memory(rdma.api(), &pd, "test", 0);
    ASSERT_TRUE(memory.follow());
    Pool pool = make_pool();
    const uintptr_t address = packet_in(pool);
    MrCache cache(&memory.table());
    const MrEntry* entry = cache.find(address);
    ASSERT_NE(entry, nullptr);
    const uint32_t old_lkey = entry->lkey;

    pool.reset();
    pool = make_pool(); // the heap returns the same place
    ASSERT_EQ(packet_in(pool), address);
    cache.sync();
    entry = cache.find(address);
    ASSERT_NE(entry, nullptr);
    EXPECT_NE(entry->lkey, old_lkey);
}

TEST_F(MemoryTest, HeapMemoryOnDemand) {
    Memory memory(rdma.api(), &pd, "test", 0);
    void* heap = rte_malloc("test", 4096, 64);
    const auto address = reinterpret_cast<uintptr_t>(heap);
    EXPECT_FALSE(memory.table().find(address));
    MrEntry entry;
    ASSERT_TRUE(memory.register_address(address, entry));
    EXPECT_LE(entry.start, address);
    EXPECT_GE(entry.end, address + 4096);
    EXPECT_TRUE(memory.table().find(address + 4095));
    rte_free(heap);
}

TEST_F(MemoryTest, HeapMemoryLeavesPoolsTheirKeys) {
    Memory memory(rdma.api(), &pd, "test", 0);
    Pool pool = make_pool();
    ASSERT_TRUE(memory.add_pool(pool.get()));
    const MrEntry chunk = *memory.table().find(packet_in(pool));
    void* heap = rte_malloc("test", 64, 64);
    const auto address = reinterpret_cast<uintptr_t>(heap);
    MrEntry found;
    ASSERT_TRUE(memory.register_address(address, found));
    EXPECT_TRUE(found.end <= chunk.start || chunk.end <= found.start);
    EXPECT_TRUE(found.start <= address && address + 64 <= found.end);
    EXPECT_EQ(memory.table().find(packet_in(pool))->lkey, chunk.lkey);
    EXPECT_EQ(memory.table().size(), 2u);
    rte_free(heap);
}

/// Heap pages are freed one by one, and reused in between.
TEST_F(MemoryTest, HeapMemoryIsReleasedWithItsLastPage) {
    constexpr uintptr_t kPage = 4096;
    Memory memory(rdma.api(), &pd, "test", 0);
    void* heap = rte_malloc("test", 64, 64);
    MrEntry run;
    ASSERT_TRUE(memory.register_address(reinterpret_cast<uintptr_t>(heap), run));
    const uintptr_t page = (run.start / 2 + run.end / 2) & ~(kPage - 1);

    const uint32_t generation = memory.table().generation();
    memory.remove({page, page + kPage}, Memory::Extent::touching);
    EXPECT_NE(memory.table().generation(), generation);
    EXPECT_FALSE(memory.table().find(page));
    for (const uintptr_t rest : {page - 1, page + kPage})
        EXPECT_EQ(memory.table().find(rest)->lkey, run.lkey) << "it stays in use";
    EXPECT_EQ(rdma.alive("MR"), 1);

    MrEntry again;
    ASSERT_TRUE(memory.register_address(page, again));
    EXPECT_NE(again.lkey, run.lkey) << "other pages are there now";
    EXPECT_EQ(rdma.alive("MR"), 2);
    memory.remove({page, page + kPage}, Memory::Extent::touching);
    EXPECT_EQ(rdma.alive("MR"), 1) << "the second region had no other page";

    memory.remove({run.start, page}, Memory::Extent::touching);
    memory.remove({page + kPage, run.end}, Memory::Extent::touching);
    EXPECT_EQ(memory.table().size(), 0u);
    EXPECT_EQ(rdma.alive("MR"), 0);
    rte_free(heap);
}

/// Pages unknown to DPDK.
struct Pages {
    static constexpr size_t kBytes = 1 << 18;
    Pages()
        : data(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
    ~Pages() { munmap(data, kBytes); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    [[nodiscard]] uintptr_t address() const { return reinterpret_cast<uintptr_t>(data); }

    void* data;
};

TEST_F(MemoryTest, PinnedBuffersRatherThanTheirMbufs) {
    const Pages pages;
    rte_pktmbuf_extmem area{};
    area.buf_ptr = pages.data;
    area.buf_len = Pages::kBytes;
    area.elt_size = 2560; // larger than the buffers
    Memory memory(rdma.api(), &pd, "test", 0);
    ASSERT_TRUE(memory.follow());
    const size_t before = memory.table().size();
    Pool pool(rte_pktmbuf_pool_create_extbuf("pinned", 63, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                             SOCKET_ID_ANY, &area, 1));
    ASSERT_TRUE(pool);
    EXPECT_EQ(memory.table().size(), before) << "there were no buffers yet";
    MrEntry entry;
    ASSERT_TRUE(memory.register_address(packet_in(pool), entry));
    EXPECT_EQ(entry.start, pages.address());
    EXPECT_EQ(entry.end, pages.address() + 62 * 2560 + RTE_MBUF_DEFAULT_BUF_SIZE);
    ASSERT_TRUE(memory.add_pool(pool.get()));
    EXPECT_EQ(memory.table().size(), before + 1);
    pool.reset();
    EXPECT_FALSE(memory.table().find(pages.address()));
    EXPECT_EQ(memory.registrations(), before);
}

TEST_F(MemoryTest, PinnedBuffersInAreasThatDescend) {
    constexpr uint16_t kBuffer = 2048;
    constexpr size_t kArea = 16 * size_t{kBuffer};
    const Pages pages;
    rte_pktmbuf_extmem areas[2]{};
    for (size_t i = 0; i < 2; ++i) {
        areas[i].buf_ptr = static_cast<uint8_t*>(pages.data) + (1 - i) * (Pages::kBytes - kArea);
        areas[i].buf_len = kArea;
        areas[i].elt_size = kBuffer;
    }
    Memory memory(rdma.api(), &pd, "test", 0);
    Pool pool(
        rte_pktmbuf_pool_create_extbuf("descending", 32, 0, 0, kBuffer, SOCKET_ID_ANY, areas, 2));
    ASSERT_TRUE(pool);
    ASSERT_TRUE(memory.add_pool(pool.get()));
    const uintptr_t start = pages.address(), end = start + Pages::kBytes;
    for (const uintptr_t address : {start, start + kArea - 1, end - kArea, end - 1})
        EXPECT_TRUE(memory.table().find(address)) << address - start;
    EXPECT_FALSE(memory.table().find(start + kArea)) << "between them";
}

TEST_F(MemoryTest, MapsExternalMemory) {
    const Pages pages;
    const AddressRange all = range_of(pages.data, Pages::kBytes);
    const AddressRange half{all.start, all.start + Pages::kBytes / 2};
    Memory memory(rdma.api(), &pd, "test", 0);
    ASSERT_TRUE(memory.map(all));
    ASSERT_TRUE(memory.map(half));
    EXPECT_EQ(rdma.alive("MR"), 1);
    memory.remove(half, Memory::Extent::touching);
    EXPECT_FALSE(memory.table().find(all.start));
    EXPECT_TRUE(memory.table().find(half.end));
    EXPECT_EQ(memory.retired(), 0u);
    ASSERT_TRUE(memory.map(all)); // with a single key
    EXPECT_EQ(memory.table().size(), 1u);
    EXPECT_EQ(memory.retired(), 1u) << "what is left of the first one may be on its way";
    memory.remove(all, Memory::Extent::touching);
    EXPECT_EQ(rdma.alive("MR"), 0);

    rdma.fail_call(1, EFAULT);
    const Result<void> mapped = memory.map(all);
    ASSERT_FALSE(mapped);
    EXPECT_EQ(mapped.error().code, EFAULT);
}

TEST_F(MemoryTest, AHoleLeavesOneRegistration) {
    const Pages pages;
    const AddressRange all = range_of(pages.data, Pages::kBytes);
    const size_t quarter = Pages::kBytes / 4;
    Memory memory(rdma.api(), &pd, "test", 0);
    ASSERT_TRUE(memory.map(all));
    memory.remove({all.start + quarter, all.end - quarter}, Memory::Extent::touching);
    EXPECT_EQ(memory.table().size(), 2u);
    EXPECT_EQ(memory.registrations(), 1u);
    EXPECT_EQ(memory.retired(), 0u);
}

/// Memory is freed where nothing can be allocated: the table must not need more than it has.
TEST_F(MemoryTest, HolesDoNotOverfillTheTable) {
    Memory memory(rdma.api(), &pd, "test", 0);
    constexpr uintptr_t kFirst = 1 << 30, kPage = 4096;
    const auto page = [&](uintptr_t number) {
        return AddressRange{kFirst + number * kPage, kFirst + (number + 1) * kPage};
    };
    ASSERT_TRUE(memory.map({kFirst, kFirst + 10'000 * kPage}));
    const size_t room = memory.table().capacity();
    uintptr_t holes = 0;
    for (; holes < 2 * room; ++holes) {
        memory.remove(page(2 * holes + 1), Memory::Extent::touching);
        ASSERT_LE(memory.regions().size(), room);
    }
    EXPECT_EQ(memory.table().size(), room);
    EXPECT_TRUE(memory.table().find(kFirst));
    ASSERT_TRUE(memory.map(page(2 * holes))) << "what had no room can come back";
    EXPECT_TRUE(memory.table().find(page(2 * holes).start));
}

TEST_F(MemoryTest, UnknownMemoryAndFailures) {
    Memory memory(rdma.api(), &pd, "test", 0);
    int on_the_stack = 0;
    MrEntry entry;
    EXPECT_FALSE(memory.register_address(reinterpret_cast<uintptr_t>(&on_the_stack), entry));

    Pool pool = make_pool();
    rdma.fail_call(1, ENOMEM);
    const Result<void> added = memory.add_pool(pool.get());
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, ENOMEM);
    EXPECT_TRUE(added.error().what.starts_with(std::string("mempool ") + pool->name))
        << added.error().what << ": whoever reports it names the port";
    EXPECT_NE(added.error().what.find("RLIMIT_MEMLOCK"), std::string::npos);
    EXPECT_TRUE(memory.add_pool(pool.get())); // the failure does not persist
}

} // namespace
} // namespace rawqp::test
