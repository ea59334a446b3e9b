// SPDX-License-Identifier: BSD-3-Clause
// Memory registration of one port: mempools as they come and go and, on demand, whatever else holds
// a packet.
#pragma once

#include "common/result.hpp"
#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/mr_table.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace rawqp {

struct AddressRange {
    uintptr_t start = 0;
    uintptr_t end = 0; ///< one past the last byte
    [[nodiscard]] bool empty() const { return start >= end; }
    bool operator==(const AddressRange&) const = default;
};

[[nodiscard]] inline AddressRange range_of(const void* address, size_t length) {
    const auto start = reinterpret_cast<uintptr_t>(address);
    return {start, start + length};
}

/// Sorts the ranges, merges overlapping and touching ones and drops empty ones.
[[nodiscard]] std::vector<AddressRange> merge_ranges(std::vector<AddressRange> ranges);
/// What is left of sorted, disjoint ranges (or of anything with their two members) without `gone`.
template <class Range>
[[nodiscard]] std::vector<Range> without(const std::vector<Range>& ranges,
                                         const AddressRange& gone) {
    std::vector<Range> left;
    for (const Range& range : ranges) {
        Range before = range, after = range;
        before.end = std::min(range.end, gone.start);
        after.start = std::max(range.start, gone.end);
        if (before.start < before.end) left.push_back(before);
        if (after.start < after.end) left.push_back(after);
    }
    return left;
}

/// Follows DPDK's memory: a mempool is registered when it is ready and unregistered before it is
/// destroyed; hugepages that DPDK gives back are unregistered; an address in no entry is looked up
/// (mempool, DPDK heap, rte_extmem) and registered when a queue first meets it. External memory
/// comes and goes without an event: applications map and unmap it (rte_dev_dma_map).
///
/// Registrations may overlap; the table has the latest for each address. One ends when all of its
/// memory is gone, as packets in the rest may still be in flight with its lkey.
///
/// Thread-safe. Lock order: DPDK's memory lock, then mutex_; never DPDK's mempool lock within
/// either.
class Memory {
  public:
    /// `port_name` is for messages. The PD outlives this object.
    Memory(const verbs::Api& api, ibv_pd* pd, std::string port_name, uint16_t port_id);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    /// Registers the existing mempools and starts following events. A mempool that cannot be
    /// registered is no error here: it may never be used with this port. ENOMEM: no DPDK memory for
    /// the table, and the object is useless.
    [[nodiscard]] Result<void> follow();

    /// Registers all memory that a mempool's packets can lie in: its chunks, or the external
    /// buffers that its mbufs are pinned to. Does nothing if that is registered.
    [[nodiscard]] Result<void> add_pool(rte_mempool* pool);

    /// rte_dev_dma_map: registers memory before the first packet comes from there. Does nothing if
    /// it is registered. rte_dev_dma_unmap is remove(range, Extent::touching).
    [[nodiscard]] Result<void> map(const AddressRange& range);

    /// RingHost::register_address
    bool register_address(uintptr_t address, MrEntry& entry);

    /// What rings look up, in DPDK memory.
    [[nodiscard]] MrTable& table() const { return *table_; }

    /// Which registrations a removal concerns: those inside the range (a mempool is destroyed; its
    /// heap pages may stay), or all that touch it (pages are unmapped).
    enum class Extent { inside, touching };

    /// The memory at `range` goes away: no new packet lies in it.
    void remove(const AddressRange& range, Extent extent);

    /// The table's content, in order of addresses.
    [[nodiscard]] std::vector<MrEntry> regions() const;
    [[nodiscard]] size_t registrations() const;
    /// Registrations that no longer appear in the table, as later ones have replaced them.
    [[nodiscard]] size_t retired() const;

  private:
    struct Registration {
        verbs::Mr mr;
        std::vector<AddressRange> left; ///< of its memory: what is not gone
    };

    /// Enlarges the table when it is nearly full. Allocates, so the caller holds no lock.
    Result<void> make_room();
    Result<MrEntry> add_range(const AddressRange& range);
    /// Registers the part of the range around the address that is in no entry: so pools keep their
    /// lkeys, and what the heap gains later is released separately.
    Result<MrEntry> add_gap(AddressRange range, uintptr_t address);
    Result<MrEntry> add_locked(const AddressRange& range);
    void log_failure(const Error& error);
    static void on_mempool_event(rte_mempool_event event, rte_mempool* pool, void* self);
    static void on_memory_event(rte_mem_event event, const void* address, size_t length,
                                void* self);
    [[nodiscard]] std::string event_name() const;

    const verbs::Api& api_;
    ibv_pd* pd_;
    std::string port_name_;
    bool follows_pools_ = false;
    bool follows_heap_ = false;

    mutable std::mutex mutex_;
    std::vector<Registration> registrations_;
    std::vector<MrEntry> entries_; ///< of the table: disjoint, sorted
    SocketPtr<MrTable> table_;
    std::set<int> logged_; ///< errno values already logged
};

} // namespace rawqp
