// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mr_table.hpp"

#include "drivers/net/rawqp/dpdk.hpp"

#include <algorithm>
#include <utility>

namespace rawqp {
namespace {

/// A reader retries when a writer was at work, but not for ever: the writer may have died.
constexpr unsigned kMaxReads = 1000;

// Entries are read while they may be written; what was read then is thrown away. Acquire and
// release keep the accesses between the two reads of the version.
template <class T> T load(const T& field) { return __atomic_load_n(&field, __ATOMIC_ACQUIRE); }
template <class T> void store(T& field, T value) {
    __atomic_store_n(&field, value, __ATOMIC_RELEASE);
}

MrEntry load_entry(const MrEntry& entry) {
    return {.start = load(entry.start),
            .end = load(entry.end),
            .lkey = load(entry.lkey),
            .lkey_be = load(entry.lkey_be)};
}

void store_entry(MrEntry& entry, const MrEntry& value) {
    store(entry.start, value.start);
    store(entry.end, value.end);
    store(entry.lkey, value.lkey);
    store(entry.lkey_be, value.lkey_be);
}

std::optional<MrEntry> search(const MrEntry* entries, size_t count, uintptr_t address) {
    const MrEntry* const after =
        std::upper_bound(entries, entries + count, address,
                         [](uintptr_t a, const MrEntry& entry) { return a < load(entry.start); });
    if (after == entries) return {};
    const MrEntry entry = load_entry(after[-1]);
    if (address >= entry.end) return {};
    return entry;
}

} // namespace

/// An array of entries. Readers may still be in one that was outgrown: it stays.
struct MrTable::Block {
    Block* outgrown;
    uint32_t capacity;
    MrEntry entries[1];
};

void MrTable::FreeBlock::operator()(Block* block) const { rte_free(block); }

MrTable::~MrTable() {
    while (block_ != nullptr)
        rte_free(std::exchange(block_, block_->outgrown));
}

MrTable::Room MrTable::allocate(size_t entries) {
    void* const memory =
        rte_zmalloc("rawqp_mrs", sizeof(Block) + entries * sizeof(MrEntry), RTE_CACHE_LINE_SIZE);
    if (memory == nullptr) return {};
    return Room(new (memory) Block{
        .outgrown = nullptr, .capacity = static_cast<uint32_t>(entries), .entries = {}});
}

std::optional<MrEntry> MrTable::find(uintptr_t address) const {
    for (unsigned i = 0; i < kMaxReads; ++i, rte_pause()) {
        const uint32_t version = load(version_);
        if ((version & 1) != 0) continue;
        const uint32_t count = load(count_);
        const Block* const block = load(block_); // never smaller than the count before it
        if (block == nullptr) return {};
        const std::optional<MrEntry> found = search(block->entries, count, address);
        if (__atomic_load_n(&version_, __ATOMIC_RELAXED) == version) return found;
    }
    return {};
}

void MrTable::move_to(Room& room) {
    if (room->capacity <= capacity_) return;
    for (size_t i = 0; i < count_; ++i)
        room->entries[i] = block_->entries[i];
    Block* const larger = room.release();
    larger->outgrown = block_;
    store(block_, larger);
    __atomic_store_n(&capacity_, larger->capacity, __ATOMIC_RELAXED);
}

void MrTable::publish(std::span<const MrEntry> entries) {
    __atomic_store_n(&version_, version_ + 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < entries.size(); ++i)
        store_entry(block_->entries[i], entries[i]);
    store(count_, static_cast<uint32_t>(entries.size()));
    store(version_, version_ + 1);
}

const MrEntry* MrCache::find_farther(uintptr_t address) {
    if (holds(others_[0], address)) return &others_[0];
    const Change change(*this);
    if (!holds(others_[1], address)) return miss(address);
    std::swap(others_[1], first_);
    return &first_;
}

const MrEntry* MrCache::miss(uintptr_t address) {
    if (const std::optional<MrEntry> entry = table_->find(address)) {
        others_ = {first_, others_[0]};
        first_ = *entry;
        return &first_;
    }
    others_ = {}; // a new region may absorb others, whose lkeys end
    return ring_host(table_->port_id()).register_address(address, first_) ? &first_ : nullptr;
}

} // namespace rawqp
