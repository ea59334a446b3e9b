// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/flow_tables.hpp"

#include "app/softhca/core/device.hpp"
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/ste/walker.hpp"
#include "app/softhca/core/watch.hpp"

#include <algorithm>

namespace softhca::core {
namespace {

/// A packet that is copied to many tables, which copy it again, must not keep the device busy for
/// ever.
constexpr uint32_t kMaxVisits = 128;

/// Limit on groups, which have no other, and everything else, so that a number is always left.
constexpr size_t kMostNumbers = 1u << 22;

/// Whether packets may go from one table to the other.
bool leads_on(const FlowTable& from, const FlowTable& to, bool any_level = false) {
    return (any_level || to.level > from.level) && to.sends == from.sends;
}

} // namespace

FlowTables::FlowTables() : FlowTables(Limits::kMaxFlowEntries) {}

FlowTable* FlowTables::find_table(Number number) const {
    const auto found = tables_.find(number);
    return found == tables_.end() ? nullptr : found->second.get();
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
    if (attr.icm_root && !walker_) return refuse(Status::unsupported);
    auto table = std::make_unique<FlowTable>();
    table->number = numbers_.take();
    table->level = attr.level;
    table->size = 1u << attr.log_size;
    table->sends = attr.sends;
    table->walker = attr.icm_root ? walker_ : nullptr;
    table->icm_root = attr.icm_root.value_or(0);
    const Number number = table->number;
    tables_[number] = std::move(table);
    if (attr.miss == 0) return number;
    if (const auto set = set_miss(number, attr.miss); !set) {
        tables_.erase(number);
        numbers_.give_back(number);
        return refuse(set.error());
    }
    return number;
}

Outcome<void> FlowTables::set_miss(Number number, Number miss) {
    FlowTable* const table = find_table(number);
    FlowTable* const next = miss != 0 ? find_table(miss) : nullptr;
    if (!table || (miss != 0 && !next)) return refuse(Status::bad_resource);
    if (next && !leads_on(*table, *next)) return refuse(Status::bad_parameter);
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
    numbers_.give_back(number);
    return {};
}

Outcome<void> FlowTables::set_root(FlowRoot which, Number number) {
    FlowTable*& root = roots_[static_cast<size_t>(which)];
    FlowTable* const table = number != 0 ? find_table(number) : nullptr;
    if (number != 0 && !table) return refuse(Status::bad_resource);
    if (table && table->sends != (which == FlowRoot::transmit))
        return refuse(Status::bad_parameter);
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
    if (numbers_.taken() >= kMostNumbers) return refuse(Status::limit);
    const Number created = numbers_.take();
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
    numbers_.give_back(group);
    return {};
}

/// The first of the entries that match the same as the rule.
static FlowEntry& entry_of(const FlowGroup& group, const Rule& rule) {
    return *group.entries.at(static_cast<const FlowEntry*>(rule.entry)->index);
}

Outcome<void> FlowTables::set_entry(Number number, uint32_t index, const FlowEntryAttr& attr,
                                    std::vector<Tir*> tirs, std::vector<Metering> metering) {
    FlowTable* const table = find_table(number);
    FlowGroup* const group = table ? group_of(*table, index) : nullptr;
    if (!group || group->number != attr.group) return refuse(Status::bad_resource);
    if (table->sends ? !tirs.empty() : attr.send) return refuse(Status::bad_parameter);
    if (entries_ >= max_entries_ && !group->entries.contains(index)) return refuse(Status::limit);
    auto entry = std::make_unique<FlowEntry>();
    entry->index = index;
    entry->value = KeyMask(group->mask).apply(attr.value);
    entry->drop = attr.drop;
    entry->send = attr.send;
    entry->tag = attr.tag;
    entry->tirs = std::move(tirs);
    entry->metering = std::move(metering);
    for (const Number next : attr.tables) {
        entry->tables.push_back(find_table(next));
        if (!entry->tables.back()) return refuse(Status::bad_resource);
        if (!leads_on(*table, *entry->tables.back(), attr.any_level))
            return refuse(Status::bad_parameter);
    }
    for (const Number number_of_sampler : attr.samplers) {
        const auto sampler = find_sampler(*table, number_of_sampler, attr.any_level);
        if (!sampler) return refuse(sampler.error());
        entry->samplers.push_back(*sampler);
    }
    for (const Number counter : attr.counters) {
        entry->counters.push_back(find_counter(counter));
        if (!entry->counters.back()) return refuse(Status::bad_resource);
    }
    const auto rewrite = find_rewrite(attr.rewrite, table->sends);
    if (!rewrite) return refuse(rewrite.error());
    entry->rewrite = *rewrite;
    entry->hold();
    release(*group, index);
    FlowEntry& added = *(group->entries[index] = std::move(entry));
    entries_++;
    Rule* const equal = group->rules.find(added.value);
    if (!equal) {
        group->rules.insert(added.value).entry = &added;
        return {};
    }
    FlowEntry& first = entry_of(*group, *equal);
    if (first.index < index) {
        first.alike.insert(index);
        return {};
    }
    added.alike = std::move(first.alike);
    added.alike.insert(first.index);
    equal->entry = &added;
    return {};
}

/// Removes the entry at this index, if there is one.
void FlowTables::release(FlowGroup& group, uint32_t index) {
    const auto found = group.entries.find(index);
    if (found == group.entries.end()) return;
    const std::unique_ptr<FlowEntry> entry = std::move(found->second);
    group.entries.erase(found);
    entries_--;
    entry->release();
    Rule& rule = *group.rules.find(entry->value);
    if (rule.entry != entry.get()) {
        entry_of(group, rule).alike.erase(index);
        return;
    }
    if (entry->alike.empty()) return group.rules.erase(entry->value);
    FlowEntry& next = *group.entries.at(*entry->alike.begin());
    next.alike = std::move(entry->alike);
    next.alike.erase(next.index);
    rule.entry = &next;
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
    edits_.clear();
    reformats_.clear();
    samplers_.clear();
    numbers_.clear();
}

LookupCounts FlowTables::counts() const {
    LookupCounts all;
    for (const auto& [number, table] : tables_)
        for (const auto& group : table->groups)
            all += group->rules.counts();
    return all;
}

Outcome<Number> FlowTables::create_counters(uint32_t count) {
    if (count == 0) return refuse(Status::bad_parameter);
    if (count > Limits::kMaxFlowCounters - counters_.size()) return refuse(Status::limit);
    const auto [first, range] = counters_.add(count);
    for (Number number = first; FlowCounter & counter : range)
        counter.number = number++;
    return first;
}

Outcome<void> FlowTables::destroy_counters(Number first) {
    const auto* const range = counters_.find_range(first);
    if (!range) return refuse(Status::bad_resource);
    if (std::ranges::any_of(*range, [](const FlowCounter& one) { return one.users != 0; }))
        return refuse(Status::busy);
    counters_.erase(first);
    return {};
}

// ---------------------------------------------------------------- changes of packets

Outcome<Number> FlowTables::create_edits(std::vector<HeaderEdit> edits) {
    if (edits_.size() >= Limits::kMaxHeaderEdits || edits.size() > Limits::kMaxEditsOfRule)
        return refuse(Status::limit);
    const Number number = numbers_.take();
    edits_[number] = std::make_unique<HeaderEdits>();
    edits_[number]->number = number;
    edits_[number]->edits = std::move(edits);
    return number;
}

Outcome<void> FlowTables::destroy_edits(Number number) {
    const auto found = edits_.find(number);
    if (found == edits_.end()) return refuse(Status::bad_resource);
    if (found->second->users != 0) return refuse(Status::busy);
    edits_.erase(found);
    numbers_.give_back(number);
    return {};
}

Outcome<Number> FlowTables::create_reformat(ReformatKind kind, std::span<const std::byte> headers) {
    if (reformats_.size() >= Limits::kMaxReformats) return refuse(Status::limit);
    if (headers.size() < net::kEthernetBytes || headers.size() > Limits::kMaxReformatBytes)
        return refuse(Status::bad_parameter);
    const Number number = numbers_.take();
    reformats_[number] = std::make_unique<Reformat>();
    reformats_[number]->number = number;
    reformats_[number]->kind = kind;
    reformats_[number]->headers.assign(headers.begin(), headers.end());
    return number;
}

Outcome<void> FlowTables::destroy_reformat(Number number) {
    const auto found = reformats_.find(number);
    if (found == reformats_.end()) return refuse(Status::bad_resource);
    if (found->second->users != 0) return refuse(Status::busy);
    reformats_.erase(found);
    numbers_.give_back(number);
    return {};
}

Reformat* FlowTables::find_reformat(Number number) const {
    const auto found = reformats_.find(number);
    return found == reformats_.end() ? nullptr : found->second.get();
}

Outcome<Rewrite> FlowTables::find_rewrite(const RewriteAttr& attr, bool sends) const {
    if (attr.pop_vlans > Rewrite::kMaxVlans || attr.push_vlans.size() > Rewrite::kMaxVlans)
        return refuse(Status::bad_parameter);
    Rewrite rewrite;
    rewrite.decap = attr.decap;
    rewrite.pop_vlans = attr.pop_vlans;
    rewrite.push_vlans = static_cast<uint8_t>(attr.push_vlans.size());
    std::ranges::copy(attr.push_vlans, rewrite.vlans.begin());
    if (attr.edits != 0) {
        const auto found = edits_.find(attr.edits);
        if (found == edits_.end()) return refuse(Status::bad_resource);
        rewrite.edits = found->second.get();
    }
    if (attr.reformat != 0) {
        rewrite.reformat = find_reformat(attr.reformat);
        if (!rewrite.reformat) return refuse(Status::bad_resource);
    }
    // Tunnels end where packets arrive and begin where they are sent.
    const bool ends = rewrite.decap ||
                      (rewrite.reformat && rewrite.reformat->kind == ReformatKind::l3_tunnel_to_l2);
    const bool begins = rewrite.reformat && rewrite.reformat->kind != ReformatKind::l3_tunnel_to_l2;
    if (sends ? ends : begins) return refuse(Status::bad_parameter);
    if (rewrite.decap && rewrite.reformat) return refuse(Status::bad_parameter);
    return rewrite;
}

// ---------------------------------------------------------------- packets

/// The packet's registers, including the colors that the rule's meters determine.
template <class W>
static MetaKey run_meters(const FlowActions& rule, const Packet& packet, FlowPath& path, W watch) {
    MetaKey meta = packet.key().meta;
    for (const Metering& metering : rule.metering) {
        const Color color = path.meter(metering, packet);
        metering.tell(color, meta);
        watch.metered(metering, color);
    }
    return meta;
}

template <class W>
uint32_t FlowTables::follow(const FlowActions& rule, const Packet& packet, uint32_t tag,
                            FlowPath& path, W watch) {
    watch.follows(rule);
    if (rule.tag.value_or(0) != 0) tag = *rule.tag;
    path.dropped |= rule.drop;
    for (FlowCounter* const counter : rule.counters)
        path.counts.push_back({counter, packet.bytes()});
    std::optional<MetaKey> metered;
    if (!rule.metering.empty()) metered = run_meters(rule, packet, path, watch);
    if (rule.drop) return tag;
    const Packet* changed = &packet;
    if (metered || rule.rewrite.any()) {
        changed = path.rewrite(packet, rule.rewrite, metered ? *metered : packet.key().meta);
        if (!changed) return tag;
        watch.changed(*changed);
    }
    for (Tir* const tir : rule.tirs)
        path.stops.push_back({tir, tag, changed});
    if (rule.send) path.sent.push_back(changed);
    for (const FlowTable* const table : rule.tables)
        visit(*table, *changed, tag, path, watch);
    for (Sampler* const sampler : rule.samplers)
        sample(*sampler, *changed, tag, path, watch);
    return tag;
}

template <class W>
void FlowTables::sample(Sampler& sampler, const Packet& packet, uint32_t tag, FlowPath& path,
                        W watch) {
    path.repeats = false;
    const bool copies = sampler.takes(path.serial);
    watch.sampled(sampler, copies);
    if (copies) visit(*sampler.copies, packet, tag, path, watch);
    visit(*sampler.all, packet, tag, path, watch);
}
template void FlowTables::sample(Sampler&, const Packet&, uint32_t, FlowPath&, NoWatch);
template void FlowTables::sample(Sampler&, const Packet&, uint32_t, FlowPath&, Watch);

/// Recursion is at most as deep as there are levels or, where entries or samplers have none,
/// visits.
template <class W>
void FlowTables::visit(const FlowTable& start, const Packet& packet, uint32_t tag, FlowPath& path,
                       W watch) {
    for (const FlowTable* table = &start; table; table = table->miss) {
        if (path.visits == kMaxVisits) {
            path.endless++;
            return watch.visited_too_many();
        }
        path.visits++;
        if (table->walker) {
            watch.walks(*table);
            return table->walker->walk(table->icm_root, packet, tag, path, watch);
        }
        for (const auto& group : table->groups) {
            const KeyMask& mask = group->rules.mask();
            const FlowKey& key = mask.key_of(packet);
            path.repeats &= !mask.asks_numbers_of(packet);
            const Rule* const rule = group->rules.find(key);
            watch.asked(*table, *group, key, rule);
            if (!rule) continue;
            follow(*rule->entry, packet, tag, path, watch);
            return;
        }
        watch.missed(*table);
    }
    if (path.sending) path.sent.push_back(&packet);
}

template uint32_t FlowTables::follow(const FlowActions&, const Packet&, uint32_t, FlowPath&,
                                     NoWatch);
template uint32_t FlowTables::follow(const FlowActions&, const Packet&, uint32_t, FlowPath&, Watch);
template void FlowTables::visit(const FlowTable&, const Packet&, uint32_t, FlowPath&, NoWatch);
template void FlowTables::visit(const FlowTable&, const Packet&, uint32_t, FlowPath&, Watch);

} // namespace softhca::core
