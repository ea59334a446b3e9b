// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/flow_tables.hpp"

#include "app/softhca/core/device.hpp"
#include "app/softhca/core/objects.hpp"

#include <algorithm>

namespace softhca::core {
namespace {

[[nodiscard]] tl::unexpected<Status> refuse(Status status) { return tl::unexpected(status); }

/// A packet that is copied to many tables, which copy it again, must not keep the device for ever.
constexpr uint32_t kMaxVisits = 128;

} // namespace

FlowTable* FlowTables::find_table(Number number) const {
    const auto found = tables_.find(number);
    return found == tables_.end() ? nullptr : found->second.get();
}

FlowCounter* FlowTables::find_counter(Number number) const {
    const auto found = counters_.find(number);
    return found == counters_.end() ? nullptr : found->second.get();
}

FlowGroup* FlowTables::group_of(const FlowTable& table, uint32_t index) {
    for (const auto& group : table.groups)
        if (group->first <= index && index <= group->last) return group.get();
    return nullptr;
}

Outcome<Number> FlowTables::create_table(const FlowTableAttr& attr) {
    if (tables_.size() >= Limits::kMaxFlowTables || attr.log_size > Limits::kLogMaxFlowTableSize)
        return refuse(Status::limit);
    if (attr.level >= Limits::kMaxFlowTableLevels) return refuse(Status::bad_parameter);
    auto table = std::make_unique<FlowTable>();
    table->number = ++last_number_;
    table->level = attr.level;
    table->size = 1u << attr.log_size;
    const Number number = table->number;
    tables_[number] = std::move(table);
    if (attr.miss == 0) return number;
    if (const auto set = set_miss(number, attr.miss); !set) {
        tables_.erase(number);
        return refuse(set.error());
    }
    return number;
}

Outcome<void> FlowTables::set_miss(Number number, Number miss) {
    FlowTable* const table = find_table(number);
    FlowTable* const next = miss != 0 ? find_table(miss) : nullptr;
    if (!table || (miss != 0 && !next)) return refuse(Status::bad_resource);
    if (next && next->level <= table->level) return refuse(Status::bad_parameter);
    if (next) next->users++;
    if (table->miss) table->miss->users--;
    table->miss = next;
    return {};
}

Outcome<void> FlowTables::destroy_table(Number number) {
    FlowTable* const table = find_table(number);
    if (!table) return refuse(Status::bad_resource);
    const auto as_root = std::ranges::count(roots_, table);
    if (table->users != static_cast<uint32_t>(as_root) || !table->groups.empty())
        return refuse(Status::busy);
    // Drivers destroy the last table without taking it from the root.
    for (FlowTable*& root : roots_)
        if (root == table) root = nullptr;
    if (table->miss) table->miss->users--;
    tables_.erase(number);
    return {};
}

Outcome<void> FlowTables::set_root(FlowRoot which, Number number) {
    FlowTable*& root = roots_[static_cast<size_t>(which)];
    FlowTable* const table = number != 0 ? find_table(number) : nullptr;
    if (number != 0 && !table) return refuse(Status::bad_resource);
    if (table) table->users++;
    if (root) root->users--;
    root = table;
    return {};
}

Outcome<Number> FlowTables::create_group(Number number, const FlowGroupAttr& attr) {
    FlowTable* const table = find_table(number);
    if (!table) return refuse(Status::bad_resource);
    const bool overlaps = std::ranges::any_of(table->groups, [&](const auto& other) {
        return attr.first <= other->last && other->first <= attr.last;
    });
    if (attr.first > attr.last || attr.last >= table->size || overlaps)
        return refuse(Status::bad_parameter);
    const auto place = std::ranges::upper_bound(table->groups, attr.first, {},
                                                [](const auto& other) { return other->first; });
    const Number created = ++last_number_;
    table->groups.insert(
        // NOLINTNEXTLINE(modernize-make-unique): clang 14 makes no aggregates that way
        place, std::unique_ptr<FlowGroup>(new FlowGroup{
                   created, attr.first, attr.last, attr.mask, RuleTable(0, attr.mask), {}}));
    return created;
}

Outcome<void> FlowTables::destroy_group(Number number, Number group) {
    FlowTable* const table = find_table(number);
    if (!table) return refuse(Status::bad_resource);
    const auto found =
        std::ranges::find(table->groups, group, [](const auto& other) { return other->number; });
    if (found == table->groups.end()) return refuse(Status::bad_resource);
    if (!(*found)->entries.empty()) return refuse(Status::busy);
    table->groups.erase(found);
    return {};
}

Outcome<void> FlowTables::set_entry(Number number, uint32_t index, const FlowEntryAttr& attr,
                                    std::vector<Tir*> tirs) {
    FlowTable* const table = find_table(number);
    FlowGroup* const group = table ? group_of(*table, index) : nullptr;
    if (!group || group->number != attr.group) return refuse(Status::bad_resource);
    auto entry = std::make_unique<FlowEntry>();
    entry->value = KeyMask(group->mask).apply(attr.value);
    entry->drop = attr.drop;
    entry->tag = attr.tag;
    entry->tirs = std::move(tirs);
    for (const Number next : attr.tables) {
        entry->tables.push_back(find_table(next));
        if (!entry->tables.back()) return refuse(Status::bad_resource);
        if (entry->tables.back()->level <= table->level) return refuse(Status::bad_parameter);
    }
    for (const Number counter : attr.counters) {
        entry->counters.push_back(find_counter(counter));
        if (!entry->counters.back()) return refuse(Status::bad_resource);
    }
    // Two entries of one group that match the same packets: only one of them can be meant.
    const Rule* const equal = group->rules.find(entry->value);
    const auto old = group->entries.find(index);
    if (equal && (old == group->entries.end() || equal->entry != old->second.get()))
        return refuse(Status::busy);

    for (FlowTable* const next : entry->tables)
        next->users++;
    for (FlowCounter* const counter : entry->counters)
        counter->users++;
    for (Tir* const tir : entry->tirs)
        tir->users++;
    release(*group, index);
    group->rules.insert(entry->value).entry = entry.get();
    group->entries[index] = std::move(entry);
    return {};
}

/// Takes out the entry at this index, if there is one.
void FlowTables::release(FlowGroup& group, uint32_t index) {
    const auto found = group.entries.find(index);
    if (found == group.entries.end()) return;
    FlowEntry& entry = *found->second;
    for (FlowTable* const next : entry.tables)
        next->users--;
    for (FlowCounter* const counter : entry.counters)
        counter->users--;
    for (Tir* const tir : entry.tirs)
        tir->users--;
    group.rules.erase(entry.value);
    group.entries.erase(found);
}

Outcome<void> FlowTables::erase_entry(Number number, uint32_t index) {
    const FlowTable* const table = find_table(number);
    FlowGroup* const group = table ? group_of(*table, index) : nullptr;
    if (!group || !group->entries.contains(index)) return refuse(Status::bad_resource);
    release(*group, index);
    return {};
}

void FlowTables::clear() {
    for (const auto& [number, table] : tables_)
        for (const auto& group : table->groups)
            while (!group->entries.empty())
                release(*group, group->entries.begin()->first);
    roots_ = {};
    tables_.clear();
    counters_.clear();
}

Outcome<Number> FlowTables::create_counter() {
    if (counters_.size() >= Limits::kMaxFlowCounters) return refuse(Status::limit);
    const Number number = ++last_number_;
    counters_[number] = std::make_unique<FlowCounter>();
    return number;
}

Outcome<void> FlowTables::destroy_counter(Number number) {
    const FlowCounter* const counter = find_counter(number);
    if (!counter) return refuse(Status::bad_resource);
    if (counter->users != 0) return refuse(Status::busy);
    counters_.erase(number);
    return {};
}

const FlowPath& FlowTables::walk(FlowRoot root, const FlowKey& key) {
    path_.stops.clear();
    path_.counters.clear();
    path_.dropped = false;
    visits_ = 0;
    visit(*roots_[static_cast<size_t>(root)], key, 0);
    return path_;
}

/// Recursion is as deep as there are levels at most.
void FlowTables::visit(const FlowTable& start, const FlowKey& key, uint32_t tag) {
    for (const FlowTable* table = &start; table; table = table->miss) {
        if (visits_ == kMaxVisits) return;
        visits_++;
        const FlowEntry* hit = nullptr;
        for (const auto& group : table->groups) {
            const Rule* const rule = group->rules.find(key);
            if (!rule) continue;
            hit = rule->entry;
            break;
        }
        if (!hit) continue;
        if (hit->tag) tag = *hit->tag;
        path_.dropped |= hit->drop;
        path_.counters.insert(path_.counters.end(), hit->counters.begin(), hit->counters.end());
        for (Tir* const tir : hit->tirs)
            path_.stops.push_back({tir, tag});
        for (const FlowTable* const next : hit->tables)
            visit(*next, key, tag);
        return;
    }
}

} // namespace softhca::core
