// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/memory/memory.hpp"

#include "common/diagnosis/refusals.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>

namespace rawqp {
namespace {

/// Relaxed ordering lets packet data overtake other packet data on PCIe; the CQE, written without
/// it, still comes after all data. Providers and kernels that do not know the flag ignore it.
constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;

bool is_pinned(rte_mempool* pool) {
    return pool->private_data_size >= sizeof(rte_pktmbuf_pool_private) && // else not of mbufs
           (rte_pktmbuf_priv_flags(pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) != 0;
}

/// Where the external buffers of a pool are. Those of neighbouring mbufs follow each other, some
/// with a gap in between: if smaller than a page, it lies within their pages.
std::vector<AddressRange> pinned_ranges(rte_mempool* pool) {
    std::vector<AddressRange> ranges;
    rte_mempool_obj_iter(
        pool,
        [](rte_mempool* pool, void* opaque, void* object, unsigned) {
            constexpr uintptr_t kPage = 4096;
            auto& ranges = *static_cast<std::vector<AddressRange>*>(opaque);
            const auto& mbuf = *static_cast<const rte_mbuf*>(object);
            if (mbuf.pool != pool) return; // not initialised yet
            const AddressRange buffer = range_of(mbuf.buf_addr, mbuf.buf_len);
            if (!ranges.empty() && buffer.start - ranges.back().end < kPage)
                ranges.back().end = buffer.end;
            else
                ranges.push_back(buffer);
        },
        &ranges);
    return merge_ranges(std::move(ranges));
}

/// Where packets of the pool can lie.
std::vector<AddressRange> pool_ranges(rte_mempool* pool) {
    if (is_pinned(pool)) return pinned_ranges(pool);
    std::vector<AddressRange> ranges;
    rte_mempool_mem_iter(
        pool,
        [](rte_mempool*, void* opaque, rte_mempool_memhdr* chunk, unsigned) {
            static_cast<std::vector<AddressRange>*>(opaque)->push_back(
                range_of(chunk->addr, chunk->len));
        },
        &ranges);
    return merge_ranges(std::move(ranges));
}

/// A lookup of the range that holds `address`, passed through DPDK's walk functions.
struct Search {
    uintptr_t address;
    AddressRange found;
    void offer(const AddressRange& range) {
        if (range.start <= address && address < range.end) found = range;
    }
};

AddressRange find_in_mempools(uintptr_t address) {
    Search search{address, {}};
    rte_mempool_walk(
        [](rte_mempool* pool, void* opaque) {
            for (const AddressRange& range : pool_ranges(pool))
                static_cast<Search*>(opaque)->offer(range);
        },
        &search);
    return search.found;
}

/// DPDK heap: the run of pages in use around the address. External memory: the whole area. The
/// caller holds DPDK's memory lock.
AddressRange find_in_dpdk_memory(uintptr_t address) {
    const rte_memseg_list* list = rte_mem_virt2memseg_list(reinterpret_cast<void*>(address));
    if (list == nullptr) return {};
    if (list->external != 0) return range_of(list->base_va, list->len);
    Search search{address, {}};
    rte_memseg_contig_walk_thread_unsafe(
        [](const rte_memseg_list*, const rte_memseg* first, size_t length, void* opaque) {
            auto* search = static_cast<Search*>(opaque);
            search->offer(range_of(first->addr, length));
            return search->found.empty() ? 0 : 1; // 1 ends the walk
        },
        &search);
    return search.found;
}

/// Memory cannot vanish while one of these lives.
class MemoryReadLock {
  public:
    MemoryReadLock() { rte_mcfg_mem_read_lock(); }
    ~MemoryReadLock() { rte_mcfg_mem_read_unlock(); }
    MemoryReadLock(const MemoryReadLock&) = delete;
    MemoryReadLock& operator=(const MemoryReadLock&) = delete;
};

} // namespace

std::vector<AddressRange> merge_ranges(std::vector<AddressRange> ranges) {
    std::erase_if(ranges, [](const AddressRange& range) { return range.empty(); });
    std::sort(ranges.begin(), ranges.end(),
              [](const AddressRange& a, const AddressRange& b) { return a.start < b.start; });
    std::vector<AddressRange> merged;
    for (const AddressRange& range : ranges) {
        if (!merged.empty() && range.start <= merged.back().end)
            merged.back().end = std::max(merged.back().end, range.end);
        else
            merged.push_back(range);
    }
    return merged;
}

Memory::Memory(const verbs::Api& api, ibv_pd* pd, std::string port_name, uint16_t port_id)
    : api_(api), pd_(pd), port_name_(std::move(port_name)),
      table_(create_on_socket<MrTable>(SOCKET_ID_ANY, port_id)) {}

Memory::~Memory() {
    if (follows_pools_) rte_mempool_event_callback_unregister(on_mempool_event, this);
    if (follows_heap_) rte_mem_event_callback_unregister(event_name().c_str(), this);
}

std::string Memory::event_name() const { return fmt::format("net_rawqp {}", fmt::ptr(this)); }

Result<void> Memory::follow() {
    if (!table_) return fail(ENOMEM, "no DPDK memory for its table of MRs");
    if (rte_mempool_event_callback_register(on_mempool_event, this) != 0)
        return fail(rte_errno, "cannot follow mempools: {}", rte_strerror(rte_errno));
    follows_pools_ = true;

    if (rte_mem_event_callback_register(event_name().c_str(), on_memory_event, this) == 0)
        follows_heap_ = true;
    else if (rte_errno != ENOTSUP) // ENOTSUP: memory that never shrinks (--no-huge, --legacy-mem)
        return fail(rte_errno, "cannot follow DPDK's memory: {}", rte_strerror(rte_errno));

    // Collected first: registering within the walk would hold DPDK's mempool lock.
    std::vector<rte_mempool*> pools;
    rte_mempool_walk(
        [](rte_mempool* pool, void* opaque) {
            static_cast<std::vector<rte_mempool*>*>(opaque)->push_back(pool);
        },
        &pools);
    for (rte_mempool* pool : pools)
        on_mempool_event(RTE_MEMPOOL_EVENT_READY, pool, this);
    return {};
}

Result<void> Memory::add_pool(rte_mempool* pool) {
    for (const AddressRange& range : pool_ranges(pool))
        if (Result<void> done = map(range); !done) {
            done.error().what = fmt::format("mempool {}: {}", pool->name, done.error().what);
            return done;
        }
    return {};
}

Result<void> Memory::map(const AddressRange& range) {
    return make_room().and_then([&] { return add_range(range); }).map([](const MrEntry&) {});
}

bool Memory::register_address(uintptr_t address, MrEntry& entry) {
    Result<MrEntry> added =
        fail(EFAULT,
             "no mempool, DPDK heap or rte_extmem area holds the packet memory at {:#x}: "
             "register external buffers with rte_extmem_register",
             address);
    if (Result<void> room = make_room(); !room) {
        added = tl::unexpected(std::move(room.error()));
    } else if (const AddressRange chunk = find_in_mempools(address); !chunk.empty()) {
        added = add_range(chunk);
    } else {
        const MemoryReadLock lock;
        if (const AddressRange area = find_in_dpdk_memory(address); !area.empty())
            added = add_gap(area, address);
    }
    if (!added) {
        log_failure(added.error());
        return false;
    }
    entry = *added;
    return true;
}

Result<void> Memory::make_room() {
    // That many threads may be between here and their registration, which may split an entry.
    const size_t wanted = table_->size() + size_t{2} * RTE_MAX_LCORE;
    if (wanted <= table_->capacity()) return {};
    MrTable::Room room = MrTable::allocate(2 * wanted);
    if (!room) return fail(ENOMEM, "no DPDK memory for a table of {} MRs", 2 * wanted);
    const std::lock_guard lock(mutex_);
    table_->move_to(room);
    return {};
}

Result<MrEntry> Memory::add_range(const AddressRange& range) {
    const std::lock_guard lock(mutex_);
    const auto known = table().find(range.start);
    return known && range.end <= known->end ? *known : add_locked(range);
}

Result<MrEntry> Memory::add_gap(AddressRange range, uintptr_t address) {
    const std::lock_guard lock(mutex_);
    for (const MrEntry& entry : entries_) {
        if (entry.start > address)
            range.end = std::min(range.end, entry.start);
        else if (entry.end <= address)
            range.start = std::max(range.start, entry.end);
        else
            return entry;
    }
    return add_locked(range);
}

Result<MrEntry> Memory::add_locked(const AddressRange& range) {
    if (entries_.size() + 2 > table_->capacity())
        return fail(ENOMEM, "no room for another MR among {}", entries_.size());
    auto* const start = reinterpret_cast<void*>(range.start); // NOLINT(performance-no-int-to-ptr)
    const size_t bytes = range.end - range.start;
    ibv_mr* mr = api_.reg_mr_iova2(pd_, start, bytes, range.start, kAccess);
    if (mr == nullptr) {
        const int error = errno;
        const std::string what = fmt::format("cannot register {} bytes at {}", bytes, start);
        return fail(error, "{}",
                    diagnosis::not_registered(diagnosis::Host(), bytes, error, what).sentence());
    }
    RAWQP_LOG(DEBUG, "%s: registered %zu bytes at %p, lkey %#x", port_name_.c_str(), bytes, start,
              mr->lkey);

    registrations_.push_back({verbs::Mr(mr, {api_.dereg_mr, "MR"}), {range}});
    const MrEntry entry{range.start, range.end, mr->lkey, rte_cpu_to_be_32(mr->lkey)};
    entries_ = without(entries_, range);
    entries_.insert(std::ranges::upper_bound(entries_, entry.start, {}, &MrEntry::start), entry);
    table_->publish(entries_);
    return entry;
}

void Memory::remove(const AddressRange& range, Extent extent) {
    const std::lock_guard lock(mutex_);
    bool changed = false;
    for (Registration& each : registrations_) {
        std::vector<AddressRange> left = without(each.left, range);
        if (left == each.left || (extent == Extent::inside && !left.empty())) continue;
        if (left.empty())
            std::erase_if(entries_,
                          [&](const MrEntry& entry) { return entry.lkey == each.mr->lkey; });
        each.left = std::move(left);
        changed = true;
    }
    if (!changed) return;
    if (extent == Extent::touching) entries_ = without(entries_, range);
    // A hole makes two entries of one, and no larger table can be allocated under the caller's
    // locks: what finds no room is registered again when a queue meets it.
    if (entries_.size() > table_->capacity()) entries_.resize(table_->capacity());
    table_->publish(entries_);
    table_->next_generation();
    // Only now, when no queue finds them any more.
    std::erase_if(registrations_, [](const Registration& each) { return each.left.empty(); });
}

std::vector<MrEntry> Memory::regions() const {
    const std::lock_guard lock(mutex_);
    return entries_;
}

size_t Memory::registrations() const {
    const std::lock_guard lock(mutex_);
    return registrations_.size();
}

size_t Memory::retired() const {
    const std::lock_guard lock(mutex_);
    std::set<uint32_t> in_table; // a registration with a hole has several entries
    for (const MrEntry& entry : entries_)
        in_table.insert(entry.lkey);
    return registrations_.size() - in_table.size();
}

void Memory::log_failure(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (logged_.insert(error.code).second)
        RAWQP_LOG(ERR, "%s: packets are dropped: %s (logged once per cause)", port_name_.c_str(),
                  error.what.c_str());
}

void Memory::on_mempool_event(rte_mempool_event event, rte_mempool* pool, void* self) {
    auto& memory = *static_cast<Memory*>(self);
    if (event == RTE_MEMPOOL_EVENT_DESTROY) {
        for (const AddressRange& range : pool_ranges(pool))
            memory.remove(range, Extent::inside);
        // Rings remember pools by address, and the next pool may get this one.
        memory.table_->next_generation();
        return;
    }
    if ((pool->flags & RTE_MEMPOOL_F_NON_IO) != 0) return;
    if (is_pinned(pool)) return; // its mbufs get their buffers later
    if (const Result<void> added = memory.add_pool(pool); !added)
        RAWQP_LOG(WARNING, "%s: %s", memory.port_name_.c_str(), added.error().what.c_str());
}

void Memory::on_memory_event(rte_mem_event event, const void* address, size_t length, void* self) {
    if (event == RTE_MEM_EVENT_FREE)
        static_cast<Memory*>(self)->remove(range_of(address, length), Extent::touching);
}

} // namespace rawqp
