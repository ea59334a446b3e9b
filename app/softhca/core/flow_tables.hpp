// SPDX-License-Identifier: BSD-3-Clause
// Flow tables as the device's PRM has them: groups of one mask, entries, goto, miss, counters.
#pragma once

#include "app/softhca/core/rule_table.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace softhca::core {

struct FlowTable;
struct FlowGroup;

/// Packets and bytes of the entries that name it.
struct FlowCounter {
    FlowCounts counts;
    uint32_t users = 0;
};

/// One flow table entry.
struct FlowEntry {
    FlowKey value; ///< bits outside the group's mask are zero
    bool drop = false;
    std::optional<uint32_t> tag;
    std::vector<Tir*> tirs;
    std::vector<FlowTable*> tables; ///< all of a higher level
    std::vector<FlowCounter*> counters;
};

/// Entries first..last of a table; all match with one mask.
struct FlowGroup {
    Number number;
    uint32_t first, last;
    FlowKey mask;
    RuleTable rules;
    std::map<uint32_t, std::unique_ptr<FlowEntry>> entries;
};

/// The group with the lowest indices that has a matching entry decides.
struct FlowTable {
    Number number = 0;
    uint8_t level = 0;
    uint32_t size = 0;
    FlowTable* miss = nullptr; ///< where packets go that no entry takes; null: dropped
    uint32_t users = 0;        ///< entries and tables that lead here, and the root
    std::vector<std::unique_ptr<FlowGroup>> groups; ///< by index range
};

/// Where one packet goes. Reused from packet to packet, so that it allocates at first only.
struct FlowPath {
    struct Stop {
        Tir* tir;
        uint32_t tag;
    };
    std::vector<Stop> stops;
    std::vector<FlowCounter*> counters;
    bool dropped = false; ///< an entry said so
};

/// All tables of one device. Tables lead to tables of a higher level only, so a walk ends. Used
/// with the device locked.
class FlowTables {
  public:
    [[nodiscard]] Outcome<Number> create_table(const FlowTableAttr& attr);
    [[nodiscard]] Outcome<void> set_miss(Number table, Number miss);
    [[nodiscard]] Outcome<void> destroy_table(Number table);
    [[nodiscard]] Outcome<void> set_root(FlowRoot root, Number table);
    [[nodiscard]] Outcome<Number> create_group(Number table, const FlowGroupAttr& attr);
    [[nodiscard]] Outcome<void> destroy_group(Number table, Number group);
    /// Replaces the entry at that index if there is one. `tirs` are those of the attributes.
    [[nodiscard]] Outcome<void> set_entry(Number table, uint32_t index, const FlowEntryAttr& attr,
                                          std::vector<Tir*> tirs);
    [[nodiscard]] Outcome<void> erase_entry(Number table, uint32_t index);

    void clear();

    [[nodiscard]] Outcome<Number> create_counter();
    [[nodiscard]] Outcome<void> destroy_counter(Number counter);
    [[nodiscard]] FlowCounter* find_counter(Number counter) const;

    [[nodiscard]] bool active(FlowRoot root) const {
        return roots_[static_cast<size_t>(root)] != nullptr;
    }
    /// Where a packet goes from the root on, which must be active. Valid until the next call.
    [[nodiscard]] const FlowPath& walk(FlowRoot root, const FlowKey& key);

  private:
    template <class T> using Numbered = std::map<Number, std::unique_ptr<T>>;

    [[nodiscard]] FlowTable* find_table(Number number) const;
    [[nodiscard]] static FlowGroup* group_of(const FlowTable& table, uint32_t index);
    void release(FlowGroup& group, uint32_t index);
    void visit(const FlowTable& table, const FlowKey& key, uint32_t tag);

    Numbered<FlowTable> tables_;
    Numbered<FlowCounter> counters_;
    std::array<FlowTable*, 3> roots_{}; ///< by FlowRoot
    Number last_number_ = 0;
    FlowPath path_;
    uint32_t visits_ = 0;
};

} // namespace softhca::core
