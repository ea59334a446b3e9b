// SPDX-License-Identifier: BSD-3-Clause
// Packet memory that is added, grows and is removed while the port runs.
#include "tests/functional/ethdev/traffic.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <span>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace test {
namespace {

constexpr size_t kPage = 4096;
constexpr unsigned kMbufs = 256;

/// Waits until the port has returned all mbufs: the last ones sent are freed only with later
/// packets, or on request.
void take_back_mbufs(const rte_mempool* pool) {
    for (int patience = 0; patience < 2000; ++patience) {
        EXPECT_GE(rte_eth_tx_done_cleanup(kPort, 0, 0), 0);
        if (rte_mempool_avail_count(pool) == pool->populated_size) return;
        usleep(1000);
    }
    ADD_FAILURE() << rte_mempool_avail_count(pool) << " mbufs are back, of "
                  << pool->populated_size;
}

struct FreePool {
    void operator()(rte_mempool* pool) const {
        take_back_mbufs(pool);
        rte_mempool_free(pool);
    }
};
using Pool = std::unique_ptr<rte_mempool, FreePool>;

/// Pages unknown to DPDK.
class Pages {
  public:
    explicit Pages(size_t bytes)
        : size_(RTE_ALIGN_CEIL(bytes, kPage)),
          data_(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
    ~Pages() { munmap(data_, size_); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    /// Replaces this memory by other memory at the same address.
    void renew() {
        EXPECT_EQ(mmap(data_, size_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  data_);
    }
    [[nodiscard]] char* data() const { return static_cast<char*>(data_); }
    [[nodiscard]] size_t size() const { return size_; }

  private:
    size_t size_;
    void* data_;
};

/// A pool for mbufs, still without memory.
rte_mempool* make_empty_pool(unsigned count) {
    constexpr unsigned kElement = sizeof(rte_mbuf) + RTE_MBUF_DEFAULT_BUF_SIZE;
    rte_mempool* const pool =
        rte_mempool_create_empty(unique_name().c_str(), count, kElement, 0,
                                 sizeof(rte_pktmbuf_pool_private), SOCKET_ID_ANY, 0);
    if (pool == nullptr) return nullptr;
    rte_pktmbuf_pool_private properties{};
    properties.mbuf_data_room_size = RTE_MBUF_DEFAULT_BUF_SIZE;
    rte_pktmbuf_pool_init(pool, &properties);
    return pool;
}

/// Adds the pages to the pool as one more chunk; returns how many mbufs that made.
unsigned grow(rte_mempool* pool, const Pages& pages) {
    const int count =
        rte_mempool_populate_iova(pool, pages.data(), RTE_BAD_IOVA, pages.size(), nullptr, nullptr);
    if (count <= 0) return 0;
    rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
    return static_cast<unsigned>(count);
}

class Memory : public PortTest {
  protected:
    void TearDown() override {
        EXPECT_EQ(stats().oerrors, 0u);
        PortTest::TearDown();
    }
    /// The number of the port's memory regions.
    [[nodiscard]] static unsigned regions() {
        const std::string text = dump();
        const size_t at = text.find("  memory    ");
        EXPECT_NE(at, std::string::npos) << text;
        return static_cast<unsigned>(std::stoul(text.substr(at + 12)));
    }
    static void expect_attached_round_trips(rte_mempool* pool, std::span<char> memory,
                                            uint8_t seed);
    /// Allocates mbufs from the pool.
    [[nodiscard]] static std::vector<rte_mbuf*> take(rte_mempool* pool, unsigned count) {
        std::vector<rte_mbuf*> taken(count);
        EXPECT_EQ(rte_pktmbuf_alloc_bulk(pool, taken.data(), count), 0);
        return taken;
    }
};

TEST_F(Memory, APoolMadeWhileThePortRuns) {
    const Pool pool(make_pool(kMbufs));
    ASSERT_TRUE(pool);
    expect_round_trips(pool.get(), 100);
}

TEST_F(Memory, PoolsThatComeAndGo) {
    for (int round = 0; round < 20; ++round) {
        const Pool pool(make_pool(kMbufs)); // often at the same address as the previous one
        ASSERT_TRUE(pool);
        expect_round_trips(pool.get(), 20);
    }
}

TEST_F(Memory, APoolThatGrowsIsSentFrom) {
    const Pages first(1 << 20), second(1 << 20);
    const Pool pool(make_empty_pool(8192));
    ASSERT_TRUE(pool);
    const unsigned count = grow(pool.get(), first);
    ASSERT_GT(count, 100u);
    ASSERT_NO_FATAL_FAILURE(expect_round_trips(pool.get(), 100));
    take_back_mbufs(pool.get());
    std::vector<rte_mbuf*> old = take(pool.get(), count);
    ASSERT_GT(grow(pool.get(), second), 100u);
    expect_round_trips(pool.get(), 100); // from the second chunk: nothing else is free
    rte_pktmbuf_free_bulk(old.data(), count);
}

TEST_F(Memory, APoolThatGrowsIsReceivedInto) {
    const Pages first(2 * kQueues * kDescriptors * kPage), second(1 << 20);
    const Pool pool(make_empty_pool(8192));
    ASSERT_TRUE(pool);
    ASSERT_GT(grow(pool.get(), first), unsigned{kQueues} * kDescriptors);
    ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
    ASSERT_NO_FATAL_FAILURE(start(pool.get()));
    const unsigned rest = rte_mempool_avail_count(pool.get());
    std::vector<rte_mbuf*> old = take(pool.get(), rest);
    ASSERT_GT(grow(pool.get(), second), 100u);
    expect_round_trips(rx_pool(), 3 * kDescriptors);
    rte_pktmbuf_free_bulk(old.data(), rest);
    ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
    ASSERT_NO_FATAL_FAILURE(start(rx_pool())); // the queues release the pool
}

/// A pool whose buffers are in these pages.
rte_mempool* make_pinned_pool(const Pages& pages, unsigned count) {
    rte_pktmbuf_extmem area{};
    area.buf_ptr = pages.data();
    area.buf_iova = RTE_BAD_IOVA;
    area.buf_len = pages.size();
    area.elt_size = RTE_MBUF_DEFAULT_BUF_SIZE;
    return rte_pktmbuf_pool_create_extbuf(unique_name().c_str(), count, 0, 0,
                                          RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY, &area, 1);
}

TEST_F(Memory, ExternalMemoryRegisteredWhileThePortRuns) {
    const Pages pages(1 << 20);
    ASSERT_EQ(rte_extmem_register(pages.data(), pages.size(), nullptr, 0, kPage), 0)
        << rte_strerror(rte_errno);
    {
        const Pool pool(make_pinned_pool(pages, kMbufs));
        ASSERT_TRUE(pool) << rte_strerror(rte_errno);
        expect_round_trips(pool.get(), 100);
    }
    EXPECT_EQ(rte_extmem_unregister(pages.data(), pages.size()), 0);
}

TEST_F(Memory, PinnedBuffersAreReceivedInto) {
    constexpr unsigned kCount = 2 * kQueues * kDescriptors;
    const unsigned before = regions();
    Pages pages(kCount * RTE_MBUF_DEFAULT_BUF_SIZE); // unknown to DPDK
    for (int life = 0; life < 2; ++life) {
        const Pool pool(make_pinned_pool(pages, kCount));
        ASSERT_TRUE(pool) << rte_strerror(rte_errno);
        ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
        ASSERT_NO_FATAL_FAILURE(start(pool.get()));
        EXPECT_EQ(regions(), before + 1);
        expect_round_trips(rx_pool(), kCount);
        expect_round_trips(pool.get(), 10);
        ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
        ASSERT_NO_FATAL_FAILURE(start(rx_pool())); // the queues release the pool
        pages.renew();                             // the next life must not see the old memory
    }
    EXPECT_EQ(regions(), before);
}

/// Packets from all over the memory, attached to mbufs of `pool`, come back unchanged.
void Memory::expect_attached_round_trips(rte_mempool* pool, std::span<char> memory, uint8_t seed) {
    constexpr size_t kStep = 1024;
    rte_mbuf_ext_shared_info shared{};
    shared.free_cb = [](void*, void*) {};
    for (size_t at = 0; at + kStep <= memory.size(); at += memory.size() / 50) {
        const Frame content = frame(seed, 1000);
        std::copy(content.begin(), content.end(), &memory[at]);
        rte_mbuf* const packet = rte_pktmbuf_alloc(pool);
        ASSERT_NE(packet, nullptr);
        rte_mbuf_ext_refcnt_set(&shared, 1);
        rte_pktmbuf_attach_extbuf(packet, &memory[at], RTE_BAD_IOVA, kStep, &shared);
        ASSERT_NE(rte_pktmbuf_append(packet, static_cast<uint16_t>(content.size())), nullptr);
        ASSERT_TRUE(send(packet));
        rte_mbuf* const back = receive();
        ASSERT_NE(back, nullptr) << "from " << at;
        EXPECT_EQ(content_of(back), content);
        rte_pktmbuf_free(back);
    }
    take_back_mbufs(pool);
}

TEST_F(Memory, ExternalMemoryIsMappedAndUnmapped) {
    rte_eth_dev_info info;
    ASSERT_EQ(rte_eth_dev_info_get(kPort, &info), 0);
    const Pool pool(make_pool(kMbufs));
    ASSERT_TRUE(pool);
    Pages pages(1 << 20);
    const unsigned before = regions();
    for (uint8_t life = 0; life < 3; ++life, pages.renew()) {
        ASSERT_EQ(rte_extmem_register(pages.data(), pages.size(), nullptr, 0, kPage), 0);
        ASSERT_EQ(rte_dev_dma_map(info.device, pages.data(), 0, pages.size()), 0);
        EXPECT_EQ(rte_dev_dma_map(info.device, pages.data(), 0, kPage), 0) << "a part of it";
        EXPECT_EQ(regions(), before + 1);
        ASSERT_NO_FATAL_FAILURE(
            expect_attached_round_trips(pool.get(), {pages.data(), pages.size()}, life));
        EXPECT_EQ(rte_dev_dma_unmap(info.device, pages.data(), 0, pages.size()), 0);
        EXPECT_EQ(regions(), before);
        ASSERT_EQ(rte_extmem_unregister(pages.data(), pages.size()), 0);
    }
}

TEST_F(Memory, WhatIsNotThereIsNotMapped) {
    rte_eth_dev_info info;
    ASSERT_EQ(rte_eth_dev_info_get(kPort, &info), 0);
    const Pages pages(1 << 20);
    ASSERT_EQ(munmap(pages.data() + kPage, kPage), 0);
    ASSERT_EQ(rte_extmem_register(pages.data(), pages.size(), nullptr, 0, kPage), 0);
    const unsigned before = regions();
    EXPECT_EQ(rte_dev_dma_map(info.device, pages.data(), 0, pages.size()), -1);
    EXPECT_TRUE(rte_errno == EFAULT || rte_errno == ENOMEM) << rte_errno; // libibverbs' own check
    EXPECT_EQ(regions(), before);
    EXPECT_EQ(rte_extmem_unregister(pages.data(), pages.size()), 0);
}

TEST_F(Memory, ComesAndGoesUnderTraffic) {
    constexpr unsigned kMany = 16384; // more than EAL has at the start: see TheHeapGrows
    const unsigned before = regions();
    const Pool steady(make_pool(kMbufs));
    ASSERT_TRUE(steady);
    {
        Traffic traffic(steady.get(), frame(1, 1000));
        for (int round = 0; round < 5; ++round) {
            rte_mempool* const pool = make_pool(kMany);
            ASSERT_NE(pool, nullptr) << rte_strerror(rte_errno);
            traffic.take_from(pool, 300);
            traffic.take_from(steady.get(), 300);
            ASSERT_TRUE(wait(10000, [&] { return rte_mempool_avail_count(pool) == kMany; }));
            rte_mempool_free(pool);
        }
    }
    EXPECT_EQ(regions(), before + 1) << "that of the steady pool";
}

TEST_F(Memory, TheHeapGrows) {
    // Larger than what EAL has at the start: with hugepages, DPDK takes new ones, at any address.
    constexpr unsigned kMany = 16384;
    const Pool pool(make_pool(kMany));
    ASSERT_TRUE(pool) << rte_strerror(rte_errno);
    std::vector<rte_mbuf*> all = take(pool.get(), kMany);
    for (unsigned i = 0; i < kMany; i += 97) {
        const Frame content = frame(static_cast<uint8_t>(i));
        rte_mbuf* const packet = all[i];
        std::memcpy(rte_pktmbuf_append(packet, static_cast<uint16_t>(content.size())),
                    content.data(), content.size());
        all[i] = nullptr;
        ASSERT_TRUE(send(packet));
        rte_mbuf* const back = receive();
        ASSERT_NE(back, nullptr) << "mbuf " << i;
        EXPECT_EQ(content_of(back), content);
        rte_pktmbuf_free(back);
    }
    std::erase(all, nullptr);
    rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
}

/// In the heap, which takes pages for them and returns these where it can.
TEST_F(Memory, PacketsInTheHeap) {
    const Pool pool(make_pool(kMbufs));
    ASSERT_TRUE(pool);
    const unsigned before = regions();
    for (uint8_t round = 0; round < 4; ++round) {
        constexpr size_t kBytes = 16 << 20;
        const std::unique_ptr<void, void (*)(void*)> heap(rte_malloc(nullptr, kBytes, kPage),
                                                          rte_free);
        ASSERT_TRUE(heap);
        ASSERT_NO_FATAL_FAILURE(expect_attached_round_trips(
            pool.get(), {static_cast<char*>(heap.get()), kBytes}, round));
        EXPECT_LE(regions(), before + 2); // around the pool, in memory that does not shrink
    }
}

class Million : public Memory {};

TEST_F(Million, MbufsAreInOneRegion) {
    constexpr unsigned kCount = 1 << 20;
    constexpr uint16_t kBytes = 60;
    const unsigned before = regions();
    const Pool pool(rte_pktmbuf_pool_create(unique_name().c_str(), kCount, 0, 0,
                                            RTE_PKTMBUF_HEADROOM + kBytes, SOCKET_ID_ANY));
    ASSERT_TRUE(pool) << rte_strerror(rte_errno);
    EXPECT_EQ(regions(), before + 1);
    std::vector<rte_mbuf*> all = take(pool.get(), kCount);
    for (unsigned i = 0; i < kCount; i += kCount / 64) {
        const Frame content = frame(static_cast<uint8_t>(i), kBytes);
        char* const to = rte_pktmbuf_append(all[i], kBytes);
        std::copy(content.begin(), content.end(), to);
        ASSERT_TRUE(send(std::exchange(all[i], nullptr)));
        rte_mbuf* const back = receive();
        ASSERT_NE(back, nullptr) << "mbuf " << i;
        EXPECT_EQ(content_of(back), content);
        rte_pktmbuf_free(back);
    }
    EXPECT_EQ(regions(), before + 1);
    std::erase(all, nullptr);
    rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
}

class UnknownMemory : public PortTest {};

TEST_F(UnknownMemory, IsDroppedAndCounted) {
    const Pages pages(kPage); // unknown to DPDK
    const Pool pool(make_pool(kMbufs));
    ASSERT_TRUE(pool);
    rte_mbuf_ext_shared_info shared{};
    shared.free_cb = [](void*, void*) {};
    for (int i = 0; i < 5; ++i) {
        rte_mbuf* const packet = rte_pktmbuf_alloc(pool.get());
        ASSERT_NE(packet, nullptr);
        rte_mbuf_ext_refcnt_set(&shared, 1);
        rte_pktmbuf_attach_extbuf(packet, pages.data(), RTE_BAD_IOVA, kPage, &shared);
        ASSERT_NE(rte_pktmbuf_append(packet, 100), nullptr);
        ASSERT_TRUE(send(packet));
    }
    EXPECT_EQ(stats().oerrors, 5u);
    take_back_mbufs(pool.get()); // dropped packets are freed
    expect_round_trips(pool.get(), 10);
}

} // namespace
} // namespace test
