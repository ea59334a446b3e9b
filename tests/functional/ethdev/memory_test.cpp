// SPDX-License-Identifier: BSD-3-Clause
// Packet memory that comes, grows and goes while the port runs.
#include "tests/functional/ethdev/port.hpp"

#include <cstring>
#include <memory>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <sys/mman.h>
#include <unistd.h>

namespace test {
namespace {

constexpr size_t kPage = 4096;
constexpr unsigned kMbufs = 256;

/// Waits until the port has given back all mbufs: those sent last are freed with later packets
/// only, or when asked.
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

/// Pages that DPDK does not know of.
class Pages {
  public:
    explicit Pages(size_t bytes)
        : size_(RTE_ALIGN_CEIL(bytes, kPage)),
          data_(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
    ~Pages() { munmap(data_, size_); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    [[nodiscard]] char* data() const { return static_cast<char*>(data_); }
    [[nodiscard]] size_t size() const { return size_; }

  private:
    size_t size_;
    void* data_;
};

/// A pool for mbufs without any memory yet.
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

/// Gives the pool the pages as one more chunk; returns how many mbufs that made.
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
    /// Takes mbufs out of the pool.
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
        const Pool pool(make_pool(kMbufs)); // often at the address of the one before
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
    expect_round_trips(pool.get(), 100); // from the second chunk: nothing else is there
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
    ASSERT_NO_FATAL_FAILURE(start(rx_pool())); // the queues let go of the pool
}

TEST_F(Memory, ExternalMemoryRegisteredWhileThePortRuns) {
    const Pages pages(1 << 20);
    ASSERT_EQ(rte_extmem_register(pages.data(), pages.size(), nullptr, 0, kPage), 0)
        << rte_strerror(rte_errno);
    {
        rte_pktmbuf_extmem area{};
        area.buf_ptr = pages.data();
        area.buf_iova = RTE_BAD_IOVA;
        area.buf_len = pages.size();
        area.elt_size = RTE_MBUF_DEFAULT_BUF_SIZE;
        const Pool pool(rte_pktmbuf_pool_create_extbuf(unique_name().c_str(), kMbufs, 0, 0,
                                                       RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY,
                                                       &area, 1));
        ASSERT_TRUE(pool) << rte_strerror(rte_errno);
        expect_round_trips(pool.get(), 100);
    }
    EXPECT_EQ(rte_extmem_unregister(pages.data(), pages.size()), 0);
}

TEST_F(Memory, TheHeapGrows) {
    // Larger than what EAL has at its start: with hugepages DPDK takes new ones, at any address.
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

class UnknownMemory : public PortTest {};

TEST_F(UnknownMemory, IsDroppedAndCounted) {
    const Pages pages(kPage); // nobody told DPDK about it
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
