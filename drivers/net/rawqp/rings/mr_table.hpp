// SPDX-License-Identifier: BSD-3-Clause
// Address -> lkey for the data path: a sorted table of the port's memory regions, and a small cache
// per queue in front of it. Both are plain data in memory that several processes share.
#pragma once

#include "drivers/net/rawqp/rings/ring_host.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace rawqp {

/// Sorted by start, disjoint. The control path of the primary process writes it, one thread at a
/// time; any thread of any process reads it, without a lock and without waiting for a writer that
/// died.
class MrTable {
  public:
    explicit MrTable(uint16_t port_id = 0) : port_id_(port_id) {}
    ~MrTable();
    MrTable(const MrTable&) = delete;
    MrTable& operator=(const MrTable&) = delete;

    /// The entry that contains the address. Nothing may also mean that a writer kept changing the
    /// table.
    [[nodiscard]] std::optional<MrEntry> find(uintptr_t address) const;

    /// Grows each time memory is unregistered or a mempool destroyed: what was copied from the
    /// table, or remembered about a pool, before then may be stale.
    [[nodiscard]] uint32_t generation() const {
        return __atomic_load_n(&generation_, __ATOMIC_ACQUIRE);
    }
    void next_generation() { __atomic_add_fetch(&generation_, 1, __ATOMIC_RELEASE); }

    struct Block;
    struct FreeBlock {
        void operator()(Block* block) const;
    };
    using Room = std::unique_ptr<Block, FreeBlock>;
    /// Room for this many entries, or null. Separate from move_to(), as a writer may hold locks
    /// under which it must not allocate.
    [[nodiscard]] static Room allocate(size_t entries);
    /// Takes over the room if it is larger than the present one. For the writer.
    void move_to(Room& room);
    [[nodiscard]] size_t capacity() const { return __atomic_load_n(&capacity_, __ATOMIC_RELAXED); }
    /// Replaces all entries, by capacity() at most.
    void publish(std::span<const MrEntry> entries);
    [[nodiscard]] size_t size() const { return __atomic_load_n(&count_, __ATOMIC_RELAXED); }

    [[nodiscard]] uint16_t port_id() const { return port_id_; }

  private:
    uint32_t generation_ = 0;
    uint32_t version_ = 0; ///< odd while a writer is at work
    uint32_t count_ = 0;
    uint32_t capacity_ = 0;
    uint16_t port_id_;
    Block* block_ = nullptr; ///< owned
};

/// Per-queue cache: nearly every packet is in the same region as the one before it. Where packets
/// of two regions alternate, as the copied and attached ones of striding queues do, no entry moves.
class MrCache {
  public:
    explicit MrCache(MrTable* table = nullptr) : table_(table) {}

    /// Entry of the memory at `address`, or nullptr when it cannot be registered.
    [[nodiscard]] const MrEntry* find(uintptr_t address) {
        if (holds(first_, address)) [[likely]]
            return &first_;
        return find_farther(address);
    }
    /// The entry looked at first, for loops that keep one in registers; it may be empty.
    [[nodiscard]] const MrEntry& first() const { return first_; }
    /// Forgets what it holds (memory was unregistered).
    void clear() {
        first_ = {};
        others_ = {};
    }
    [[nodiscard]] const MrTable& table() const { return *table_; }

    /// Once per burst, before find: forgets what it holds if memory was unregistered meanwhile. An
    /// address freed and used again would otherwise keep its old lkey. True: it forgot.
    bool sync() {
        const uint32_t now = table_->generation();
        if (now == generation_) [[likely]]
            return false;
        clear();
        // If this process is killed here, another one forgets once more.
        std::atomic_signal_fence(std::memory_order_release);
        generation_ = now;
        return true;
    }

    /// Lives while entries, or conclusions drawn from them, change. Should this process be killed
    /// meanwhile, the one that carries on forgets everything in sync().
    class Change {
      public:
        explicit Change(MrCache& cache) : cache_(cache), generation_(cache.generation_) {
            cache_.generation_ = generation_ - 1; // the table's only grows
            std::atomic_signal_fence(std::memory_order_seq_cst);
        }
        ~Change() {
            std::atomic_signal_fence(std::memory_order_seq_cst);
            cache_.generation_ = generation_;
        }
        Change(const Change&) = delete;
        Change& operator=(const Change&) = delete;

      private:
        MrCache& cache_;
        uint32_t generation_;
    };

  private:
    [[nodiscard]] static bool holds(const MrEntry& entry, uintptr_t address) {
        return address - entry.start < entry.end - entry.start;
    }
    /// Looks in the other entries, the last of which becomes the first, or in the table.
    [[gnu::noinline]] const MrEntry* find_farther(uintptr_t address);
    [[gnu::noinline, gnu::cold]] const MrEntry* miss(uintptr_t address);

    MrEntry first_;
    MrTable* table_;
    uint32_t generation_ = 0;
    std::array<MrEntry, 2> others_;

  public:
    /// What most packets need lies at its beginning.
    // NOLINTNEXTLINE(bugprone-sizeof-expression): of the pointer itself
    static constexpr size_t kHotBytes = sizeof(first_) + sizeof(table_) + sizeof(generation_);
};

} // namespace rawqp
