// SPDX-License-Identifier: BSD-3-Clause
// Address -> lkey for the data path: an immutable sorted table, published by the control path, and
// a small cache per queue in front of it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

struct rte_mempool;

namespace rawqp {

struct MrEntry {
    uintptr_t start = 0;
    uintptr_t end = 0;    ///< one past the last byte
    uint32_t lkey = 0;    ///< host order
    uint32_t lkey_be = 0; ///< as WQEs hold it
};

/// Sorted by start, disjoint. Never changed after publication.
struct MrTable {
    std::vector<MrEntry> entries;
    [[nodiscard]] const MrEntry* find(uintptr_t address) const {
        auto after = std::upper_bound(entries.begin(), entries.end(), address,
                                      [](uintptr_t a, const MrEntry& e) { return a < e.start; });
        if (after == entries.begin()) return nullptr;
        const MrEntry& entry = *--after;
        return address < entry.end ? &entry : nullptr;
    }
};

/// Implemented by ethdev/memory/memory.cpp, one per port.
class MrSource {
  public:
    /// The current table; the pointer stays valid until the port is closed.
    [[nodiscard]] const MrTable& table() const { return *table_.load(std::memory_order_acquire); }

    /// Cold path: `address` is not in the table. Registers the memory that holds it (a mempool
    /// chunk or DPDK heap memory that appeared at run time) and returns its entry by value; false
    /// when the memory cannot be registered (logged once per cause). Thread-safe.
    virtual bool register_address(uintptr_t address, MrEntry& entry) = 0;

    /// Grows each time that memory is unregistered or a mempool destroyed: what was copied from the
    /// table, or remembered of a pool, before may be void.
    [[nodiscard]] uint32_t generation() const {
        return generation_.load(std::memory_order_acquire);
    }

    /// Bytes from each mbuf of the pool to its buffer, when they are the same for all and none has
    /// an external buffer; else 0. Walks such a pool once, however many queues it has, and again
    /// when it has grown. Thread-safe.
    [[nodiscard]] uint32_t buffer_offset(rte_mempool* pool);

  protected:
    ~MrSource() = default;
    std::atomic<const MrTable*> table_{nullptr};
    std::atomic<uint32_t> generation_{0};

  private:
    struct Layout {
        const rte_mempool* pool = nullptr;
        uint32_t size = 0; ///< mbufs that it had
        uint32_t generation = 0;
        uint32_t buffer_offset = 0;
    };
    std::mutex layouts_mutex_;
    std::array<Layout, 8> layouts_; ///< of the pools walked last
    uint8_t next_layout_ = 0;       ///< of layouts_, to overwrite
};

/// Per-queue cache: nearly every packet hits the entry used last.
class MrCache {
  public:
    explicit MrCache(MrSource* source = nullptr) : source_(source) {}

    /// Entry of the memory at `address`, or nullptr when it cannot be registered.
    [[nodiscard]] const MrEntry* find(uintptr_t address) {
        if (address - last_.start < last_.end - last_.start) [[likely]]
            return &last_;
        return miss(address);
    }
    /// The entry found last, for loops that keep it in registers; empty when there is none.
    [[nodiscard]] const MrEntry& last() const { return last_; }
    /// Forgets what it holds (memory was unregistered).
    void clear() { last_ = {}; }
    [[nodiscard]] MrSource& source() { return *source_; }

    /// Once per burst, before find: forgets what it holds if memory was unregistered meanwhile. An
    /// address freed and used again would otherwise keep its old lkey. True: it forgot.
    bool sync() {
        const uint32_t now = source_->generation();
        if (now == generation_) [[likely]]
            return false;
        generation_ = now;
        clear();
        return true;
    }

  private:
    [[gnu::noinline, gnu::cold]] const MrEntry* miss(uintptr_t address) {
        if (const MrEntry* entry = source_->table().find(address)) {
            last_ = *entry;
            return &last_;
        }
        return source_->register_address(address, last_) ? &last_ : nullptr;
    }

    MrEntry last_;
    MrSource* source_;
    uint32_t generation_ = 0;
};

} // namespace rawqp
