// SPDX-License-Identifier: BSD-3-Clause
// Steering rules of one mask in a hash table, so that lookup cost does not depend on their number.
#pragma once

#include "app/softhca/core/flow_key.hpp"
#include "app/softhca/core/flow_path.hpp"
#include "app/softhca/core/packet.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

namespace softhca::core {

/// One rule as a front requested it.
struct Flow : FlowActions {
    Number number = 0;
    FlowDomain domain = FlowDomain::bypass;
    uint16_t priority = 0;
    FlowKey value; ///< bits outside mask are zero
    FlowKey mask;
};

/// What the device does with packets of one match: all flows with an equal match, combined.
struct Rule : FlowActions {
    FlowKey value;
    std::vector<const Flow*> flows;
    const FlowActions* entry = nullptr; ///< of a flow table: it says what to do, not the rule
};

/// The mask of rules that match every bit of a packet.
[[nodiscard]] inline FlowKey every_bit() {
    FlowKey ones;
    std::memset(reinterpret_cast<std::byte*>(&ones), 0xff, sizeof ones);
    return ones;
}

/// A mask, reduced to the 64-bit words of a FlowKey that it touches.
class KeyMask {
  public:
    static constexpr uint8_t kWords = sizeof(FlowKey) / sizeof(uint64_t);

    explicit KeyMask(const FlowKey& mask)
        : asks_integrity_((mask.outer.integrity | mask.inner.integrity) != 0),
          asks_numbers_((mask.outer.tcp_sequence | mask.outer.tcp_ack) != 0) {
        for (uint8_t i = 0; i < kWords; i++) {
            if (word(mask, i) == 0) continue;
            index_[used_] = i;
            mask_[used_++] = word(mask, i);
        }
    }
    [[nodiscard]] bool asks_integrity() const { return asks_integrity_; }
    [[nodiscard]] bool asks_numbers() const { return asks_numbers_; }
    /// Whether it may tell this packet from others of its flow (FlowShape) by their numbers.
    [[nodiscard]] bool asks_numbers_of(const Packet& packet) const {
        return asks_numbers_ && packet.key().outer.l4 == net::kProtoTcp;
    }
    /// The packet's key, with as much as the mask needs.
    [[nodiscard]] const FlowKey& key_of(const Packet& packet) const {
        return asks_integrity_ ? packet.verified_key() : packet.key();
    }
    [[nodiscard]] uint64_t hash(const FlowKey& key) const {
        uint64_t hash = 0;
        for (size_t i = 0; i < used_; i++) {
            // A product's high bits depend on all bits of the word: here they become the low ones.
            const uint64_t masked = word(key, index_[i]) & mask_[i];
            hash = net::byteswap((hash ^ masked) * 0x9e3779b97f4a7c15u);
        }
        return hash;
    }
    /// Whether `key` and `value` agree under the mask.
    [[nodiscard]] bool match(const FlowKey& key, const FlowKey& value) const {
        uint64_t difference = 0;
        for (size_t i = 0; i < used_; i++)
            difference |= (word(key, index_[i]) ^ word(value, index_[i])) & mask_[i];
        return difference == 0;
    }
    [[nodiscard]] FlowKey apply(const FlowKey& key) const {
        FlowKey masked;
        for (size_t i = 0; i < used_; i++) {
            const uint64_t bits = word(key, index_[i]) & mask_[i];
            std::memcpy(reinterpret_cast<std::byte*>(&masked) + 8 * index_[i], &bits, sizeof bits);
        }
        return masked;
    }
    /// The mask itself.
    [[nodiscard]] FlowKey as_key() const { return apply(every_bit()); }
    /// The number of bits in which `key` and `value` differ under the mask.
    [[nodiscard]] size_t differing_bits(const FlowKey& key, const FlowKey& value) const {
        size_t bits = 0;
        for (size_t i = 0; i < used_; i++)
            bits += static_cast<size_t>(
                std::popcount((word(key, index_[i]) ^ word(value, index_[i])) & mask_[i]));
        return bits;
    }
    bool operator==(const KeyMask&) const = default;

  private:
    // Word by word, never the whole key at once: its fields may have just been written.
    [[nodiscard]] static uint64_t word(const FlowKey& key, size_t index) {
        uint64_t word;
        std::memcpy(&word, reinterpret_cast<const std::byte*>(&key) + 8 * index, sizeof word);
        return word;
    }

    size_t used_ = 0;
    std::array<uint8_t, kWords> index_{};
    std::array<uint64_t, kWords> mask_{};
    bool asks_integrity_;
    bool asks_numbers_;
};

/// The cost of finding rules.
struct LookupCounts {
    uint64_t lookups = 0; ///< lookups in hash tables, of one mask each
    uint64_t probes = 0;  ///< slots probed
    LookupCounts& operator+=(const LookupCounts& more) {
        lookups += more.lookups;
        probes += more.probes;
        return *this;
    }
};

/// All rules of one domain, priority and mask. Open addressing with linear probing.
class RuleTable {
  public:
    RuleTable(uint16_t priority, const FlowKey& mask)
        : slots_(8), mask_(mask), priority_(priority) {}

    [[nodiscard]] uint16_t priority() const { return priority_; }
    [[nodiscard]] const KeyMask& mask() const { return mask_; }
    [[nodiscard]] bool empty() const { return used_ == 0; }
    [[nodiscard]] const LookupCounts& counts() const { return counts_; }

    /// The rule that matches, or null.
    [[nodiscard]] Rule* find(const FlowKey& key) const {
        const uint64_t hash = mask_.hash(key);
        counts_.lookups++;
        for (size_t at = hash & last();; at = (at + 1) & last()) {
            const Slot& slot = slots_[at];
            counts_.probes++;
            if (!slot.rule) return nullptr;
            if (slot.hash == hash && mask_.match(key, slot.rule->value)) return slot.rule.get();
        }
    }
    /// Calls `use(const Rule&)` for each rule, in no particular order.
    template <class Use> void for_each(Use&& use) const {
        for (const Slot& slot : slots_)
            if (slot.rule) use(*slot.rule);
    }
    /// Adds an empty rule; none may have this value yet.
    Rule& insert(const FlowKey& value);
    /// Removes the rule of this value.
    void erase(const FlowKey& value);

  private:
    struct Slot {
        uint64_t hash = 0;
        std::unique_ptr<Rule> rule;
    };
    [[nodiscard]] size_t last() const { return slots_.size() - 1; }
    void place(Slot slot);

    std::vector<Slot> slots_; ///< a power of two; at most half full, so probing ends
    KeyMask mask_;
    size_t used_ = 0;
    mutable LookupCounts counts_;
    uint16_t priority_;
};

} // namespace softhca::core
