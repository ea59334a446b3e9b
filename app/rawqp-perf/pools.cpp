// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/pools.hpp"

#include "app/rawqp-perf/pages.hpp"

#include <cstring>
#include <fmt/format.h>
#include <map>
#include <stdexcept>
#include <sys/mman.h>

namespace perf {
namespace {

constexpr size_t kHuge = 2u << 20;

struct Region {
    char* start;
    size_t bytes;
};
std::map<std::string, std::vector<Region>> heaps; ///< the regions of each
std::vector<Region> unused; ///< of pools that are gone: the next one need not fault it in
std::vector<MemorySpan> mapped;

/// At least `bytes`, on the chosen pages; always whole huge ones, which is how EAL is told about
/// it. Throws std::bad_alloc.
Region map_region(size_t bytes) {
    bytes = (bytes + kHuge - 1) / kHuge * kHuge;
    char* const raw = static_cast<char*>(
        mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (raw == MAP_FAILED) throw std::bad_alloc();
    char* const start = raw + (kHuge - reinterpret_cast<uintptr_t>(raw) % kHuge) % kHuge;
    // If refused, on small pages, as memory_of_pools() shows.
    madvise(start, bytes, chosen_pages() == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(start, 0, bytes);
    mapped.push_back({start, bytes});
    return {start, bytes};
}

/// Addresses of the region's pages, as EAL requires: without hugepages devices use virtual
/// addresses.
std::vector<rte_iova_t> pages_of(const Region& region) {
    std::vector<rte_iova_t> addresses;
    for (size_t at = 0; at < region.bytes; at += kHuge)
        addresses.push_back(reinterpret_cast<rte_iova_t>(region.start + at));
    return addresses;
}

Region take_region(size_t bytes) {
    for (Region& region : unused) {
        if (region.bytes < bytes) continue;
        std::swap(region, unused.back());
        const Region found = unused.back();
        unused.pop_back();
        return found;
    }
    const Region region = map_region(bytes);
    // Drivers look up in EAL's tables what they have to register.
    auto pages = pages_of(region);
    if (rte_extmem_register(region.start, region.bytes, pages.data(),
                            static_cast<unsigned>(pages.size()), kHuge) != 0)
        throw std::bad_alloc();
    return region;
}

void give_back(rte_mempool_memhdr* chunk, void*) {
    unused.push_back({static_cast<char*>(chunk->addr), chunk->len});
}

/// Socket of a heap on huge pages with a free piece of `needed` bytes. Throws std::bad_alloc.
int heap_socket(const std::string& heap, size_t needed) {
    const char* const name = heap.c_str();
    if (rte_malloc_heap_get_socket(name) < 0 && rte_malloc_heap_create(name) != 0)
        throw std::bad_alloc();
    const int socket = rte_malloc_heap_get_socket(name);
    rte_malloc_socket_stats stats{};
    if (rte_malloc_get_socket_stats(socket, &stats) == 0 && stats.greatest_free_size >= needed)
        return socket;
    const Region region = map_region(needed + kHuge); // the heap's own data take some
    auto pages = pages_of(region);
    if (rte_malloc_heap_memory_add(name, region.start, region.bytes, pages.data(),
                                   static_cast<unsigned>(pages.size()), kHuge) != 0)
        throw std::bad_alloc();
    heaps[heap].push_back(region);
    return socket;
}

/// For the description of a pool: on EAL's own heap each mbuf would be kept within a page of 4 KiB.
int pool_socket() { return heap_socket("rawqp-perf", 2 * kHuge); }

/// A pool in its own memory, which begins and ends with a huge page. libibverbs asks the kernel for
/// other properties of registered memory; where that begins within a huge page, the kernel splits
/// the page, and the number of packets on small pages would be a matter of luck.
Pool make_pool_on_region(const std::string& name, unsigned count) {
    Pool pool(rte_mempool_create_empty(name.c_str(), count,
                                       sizeof(rte_mbuf) + RTE_MBUF_DEFAULT_BUF_SIZE, kPoolCache,
                                       sizeof(rte_pktmbuf_pool_private), pool_socket(), 0));
    if (!pool) return nullptr;
    rte_pktmbuf_pool_private layout{};
    layout.mbuf_data_room_size = RTE_MBUF_DEFAULT_BUF_SIZE;
    if (rte_mempool_set_ops_byname(pool.get(), rte_mbuf_best_mempool_ops(), nullptr) != 0)
        return nullptr;
    rte_pktmbuf_pool_init(pool.get(), &layout);
    const size_t each = pool->header_size + pool->elt_size + pool->trailer_size;
    const Region region = take_region(count * each + kHuge);
    const int populated = rte_mempool_populate_iova(pool.get(), region.start,
                                                    reinterpret_cast<rte_iova_t>(region.start),
                                                    region.bytes, give_back, nullptr);
    if (populated < static_cast<int>(count)) {
        rte_errno = populated < 0 ? -populated : ENOMEM;
        return nullptr;
    }
    rte_mempool_obj_iter(pool.get(), rte_pktmbuf_init, nullptr);
    return pool;
}

} // namespace

int ring_socket(unsigned queues, unsigned descriptors, const std::string& heap) {
    if (heap.empty() && rte_eal_has_hugepages()) return SOCKET_ID_ANY;
    // CQEs, WQEs and pointers in both directions; several strides of 2 KiB for striding queues.
    constexpr size_t kPerDescriptor = 8192;
    constexpr size_t kPerQueue = 64u << 10;
    return heap_socket(heap.empty() ? "rawqp-perf rings" : heap,
                       queues * (kPerQueue + descriptors * kPerDescriptor));
}

std::vector<MemorySpan> memory_of_pools() {
    return rte_eal_has_hugepages() != 0 ? memory_of_eal() : mapped;
}

std::vector<MemorySpan> memory_of_heap(const std::string& heap) {
    std::vector<MemorySpan> spans;
    for (const Region& region : heaps[heap])
        spans.push_back({region.start, region.bytes});
    return spans;
}

std::vector<MemorySpan> memory_of_mbufs(rte_mempool* pool, size_t bytes) {
    struct Wanted {
        std::vector<MemorySpan> spans;
        size_t bytes;
    } wanted{{}, bytes};
    rte_mempool_obj_iter(
        pool,
        [](rte_mempool*, void* out, void* object, unsigned) {
            auto& all = *static_cast<Wanted*>(out);
            const auto* const mbuf = static_cast<const rte_mbuf*>(object);
            all.spans.push_back({mbuf, sizeof *mbuf});
            all.spans.push_back(
                {static_cast<const char*>(mbuf->buf_addr) + RTE_PKTMBUF_HEADROOM, all.bytes});
        },
        &wanted);
    return std::move(wanted.spans);
}

Pool make_pool(const std::string& name, unsigned count) {
    Pool pool = rte_eal_has_hugepages()
                    ? Pool(rte_pktmbuf_pool_create(name.c_str(), count, kPoolCache, 0,
                                                   RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY))
                    : make_pool_on_region(name, count);
    if (!pool)
        throw std::runtime_error(
            fmt::format("pool {}: no memory for {} mbufs: {}", name, count, strerror(rte_errno)));
    return pool;
}

} // namespace perf
