// SPDX-License-Identifier: BSD-3-Clause
// Memory registration of one port: mempools as they come and go, and on demand whatever else holds
// a packet.
#pragma once

#include "common/result.hpp"
#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/mr_table.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"

#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace rawqp {

struct AddressRange {
    uintptr_t start = 0;
    uintptr_t end = 0; ///< one past the last byte
    [[nodiscard]] bool empty() const { return start >= end; }
    [[nodiscard]] bool contains(const AddressRange& other) const {
        return start <= other.start && other.end <= end;
    }
    [[nodiscard]] bool overlaps(const AddressRange& other) const {
        return start < other.end && other.start < end;
    }
    bool operator==(const AddressRange&) const = default;
};

/// Sorted, with overlapping and touching ranges made one; empty ranges vanish.
[[nodiscard]] std::vector<AddressRange> merge_ranges(std::vector<AddressRange> ranges);

/// Follows DPDK's memory: a mempool is registered when it is ready and unregistered before it is
/// destroyed; hugepages that DPDK gives back are unregistered; an address that no entry holds is
/// looked up (mempool chunk, DPDK heap, rte_extmem) and registered when a queue first meets it.
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

    /// Registers the mempools there are and starts to follow events. A mempool that cannot be
    /// registered is no error here: it may never be used with this port. ENOMEM: no DPDK memory for
    /// the table, and the object is of no use.
    [[nodiscard]] Result<void> follow();

    /// Registers all of a mempool; nothing to do when it is registered. ENOMEM often means
    /// RLIMIT_MEMLOCK.
    [[nodiscard]] Result<void> add_pool(rte_mempool* pool);

    /// RingHost::register_address
    bool register_address(uintptr_t address, MrEntry& entry);

    /// What rings look up, in DPDK memory.
    [[nodiscard]] MrTable& table() const { return *table_; }

    /// Which registrations a removal concerns: those inside the range (a mempool goes; the heap
    /// pages below it may stay), or all that touch it (pages are unmapped).
    enum class Extent { inside, touching };

    /// The memory at `range` goes away. Registrations inside it are released at once; one that
    /// reaches beyond it may still carry packets: no new packet uses it, and it is released when
    /// the port is closed.
    void remove(const AddressRange& range, Extent extent);

    /// What the table holds, in order of addresses.
    [[nodiscard]] std::vector<MrEntry> regions() const;
    /// Live plus retired registrations.
    [[nodiscard]] size_t registrations() const;

  private:
    struct Registration {
        AddressRange range;
        verbs::Mr mr;
    };

    /// Enlarges the table when it is nearly full. Allocates, so the caller holds no lock.
    Result<void> make_room();
    Result<MrEntry> add_range(AddressRange range);
    [[nodiscard]] std::vector<MrEntry> entries() const; ///< of live_; mutex_ is held
    void publish();
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
    std::vector<Registration> live_;    ///< disjoint, sorted by start
    std::vector<Registration> retired_; ///< in no table, perhaps in a posted WQE
    SocketPtr<MrTable> table_;
    std::set<int> logged_; ///< errno values already logged
};

} // namespace rawqp
