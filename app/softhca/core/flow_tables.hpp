// SPDX-License-Identifier: BSD-3-Clause
// Flow tables as in the device's PRM: groups of one mask, entries, goto, miss, counters.
#pragma once

#include "app/softhca/core/no_watch.hpp"
#include "app/softhca/core/numbers.hpp"
#include "app/softhca/core/object_ranges.hpp"
#include "app/softhca/core/rule_table.hpp"
#include "app/softhca/core/sampler.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

namespace softhca::core::ste {
class Walker;
}

namespace softhca::core {

/// One flow table entry.
struct FlowEntry : FlowActions {
    uint32_t index = 0; ///< in its table
    FlowKey value;      ///< bits outside the group's mask are zero
    /// Other entries of its group that match the same packets, by index. Only the first entry of
    /// them, which decides, holds this list.
    std::set<uint32_t> alike;
};

/// Entries first..last of a table; all match with one mask.
struct FlowGroup {
    Number number;
    uint32_t first, last;
    FlowKey mask;
    RuleTable rules;
    std::map<uint32_t, std::unique_ptr<FlowEntry>> entries;
};

/// The group with the lowest indices that has a matching entry decides, unless the program's own
/// entries do.
struct FlowTable {
    Number number = 0;
    uint8_t level = 0;
    uint32_t size = 0;
    bool sends = false;
    ste::Walker* walker = nullptr; ///< null: its entries are in groups …
    uint64_t icm_root = 0;         ///< … else in ICM, from this address on
    FlowTable* miss = nullptr;     ///< where packets go that no entry takes; null: dropped, or sent
    uint32_t users = 0;            ///< entries and tables that lead here, and the root
    std::vector<std::unique_ptr<FlowGroup>> groups; ///< by index range
};

/// All tables of one device. Tables lead to tables of a higher level only, so a walk ends. Used
/// with the device locked.
class FlowTables {
  public:
    FlowTables(); ///< with room for as many entries as Limits say
    /// There may be no more than `max_entries` in all tables together.
    explicit FlowTables(size_t max_entries) : max_entries_(max_entries) {}
    /// The walker executes entries in ICM.
    void set_walker(ste::Walker& walker) { walker_ = &walker; }
    [[nodiscard]] Outcome<Number> create_table(const FlowTableAttr& attr);
    [[nodiscard]] Outcome<void> set_miss(Number table, Number miss);
    [[nodiscard]] Outcome<void> destroy_table(Number table);
    [[nodiscard]] Outcome<void> set_root(FlowRoot root, Number table);
    [[nodiscard]] Outcome<Number> create_group(Number table, const FlowGroupAttr& attr);
    [[nodiscard]] Outcome<void> destroy_group(Number table, Number group);
    /// Replaces the entry at that index if there is one. TIRs and meters are those named by the
    /// attributes.
    [[nodiscard]] Outcome<void> set_entry(Number table, uint32_t index, const FlowEntryAttr& attr,
                                          std::vector<Tir*> tirs, std::vector<Metering> metering);
    [[nodiscard]] Outcome<void> erase_entry(Number table, uint32_t index);

    // samplers.cpp
    [[nodiscard]] Outcome<Number> create_sampler(const SamplerAttr& attr);
    [[nodiscard]] Outcome<void> destroy_sampler(Number number);
    [[nodiscard]] Sampler* find_sampler(Number number) const; ///< null: there is none

    void clear();
    /// Counts all lookups in the existing groups.
    [[nodiscard]] LookupCounts counts() const;

    [[nodiscard]] Outcome<Number> create_counters(uint32_t count);
    [[nodiscard]] Outcome<void> destroy_counters(Number first);
    [[nodiscard]] FlowCounter* find_counter(Number number) { return counters_.find(number); }
    [[nodiscard]] FlowTable* find_table(Number number) const;

    [[nodiscard]] Outcome<Number> create_edits(std::vector<HeaderEdit> edits);
    [[nodiscard]] Outcome<void> destroy_edits(Number number);
    [[nodiscard]] Outcome<Number> create_reformat(ReformatKind kind,
                                                  std::span<const std::byte> headers);
    [[nodiscard]] Outcome<void> destroy_reformat(Number number);
    [[nodiscard]] Reformat* find_reformat(Number number) const;
    /// What a rule for received packets, or for sent ones, may do to them.
    [[nodiscard]] Outcome<Rewrite> find_rewrite(const RewriteAttr& attr, bool sends) const;

    // All objects, for observers.
    [[nodiscard]] const auto& tables() const { return tables_; }
    [[nodiscard]] const auto& counters() const { return counters_; }
    [[nodiscard]] const auto& edits() const { return edits_; }
    [[nodiscard]] const auto& reformats() const { return reformats_; }
    [[nodiscard]] const auto& samplers() const { return samplers_; }
    [[nodiscard]] const Numbers& numbers() const { return numbers_; } ///< that these have
    [[nodiscard]] const FlowTable* root(FlowRoot root) const {
        return roots_[static_cast<size_t>(root)];
    }

    [[nodiscard]] bool active(FlowRoot root) const {
        return roots_[static_cast<size_t>(root)] != nullptr;
    }
    /// The path of a packet from the root on, which must be active.
    template <class W = NoWatch>
    void walk(FlowRoot root, const Packet& packet, FlowPath& path, W watch = {}) const {
        visit(*roots_[static_cast<size_t>(root)], packet, 0, path, watch);
    }
    /// Follows a rule along the path. `tag`: from earlier rules. Returns the tag from here on.
    template <class W = NoWatch>
    static uint32_t follow(const FlowActions& rule, const Packet& packet, uint32_t tag,
                           FlowPath& path, W watch = {});
    /// Continues in a table.
    template <class W>
    static void visit(const FlowTable& start, const Packet& packet, uint32_t tag, FlowPath& path,
                      W watch);
    /// Continues from a sampler.
    template <class W>
    static void sample(Sampler& sampler, const Packet& packet, uint32_t tag, FlowPath& path,
                       W watch);

  private:
    template <class T> using Numbered = std::map<Number, std::unique_ptr<T>>;

    [[nodiscard]] static FlowGroup* group_of(const FlowTable& table, uint32_t index);
    /// A sampler that entries of the table may lead to.
    [[nodiscard]] Outcome<Sampler*> find_sampler(const FlowTable& from, Number number,
                                                 bool any_level) const;
    void release(FlowGroup& group, uint32_t index);

    ste::Walker* walker_ = nullptr;
    const size_t max_entries_;
    size_t entries_ = 0; ///< in groups, of all tables
    Numbered<FlowTable> tables_;
    ObjectRanges<FlowCounter> counters_;
    Numbered<HeaderEdits> edits_;
    Numbered<Reformat> reformats_;
    Numbered<Sampler> samplers_;
    std::array<FlowTable*, 4> roots_{}; ///< by FlowRoot
    /// For all of these except counters, and for groups: commands have 24 bits for a table's
    /// number.
    Numbers numbers_{0xffffff};
};

} // namespace softhca::core
