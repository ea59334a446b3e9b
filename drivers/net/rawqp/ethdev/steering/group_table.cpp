// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/group_table.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace rawqp {
namespace {

/// fs_flow_table_type of Linux, at its place in commands.
constexpr uint32_t table_type(bool sends) { return (sends ? 1u : 0u) << 24; }

} // namespace

void GroupTable::Entry::release() {
    object = {};
    range->table->give_back(*this);
}

GroupTable::Entry& GroupTable::Range::take() {
    Entry* entry = nullptr;
    if (free.empty()) {
        entry = &entries[next++ - first];
        entry->range = this;
    } else {
        entry = free.back();
        free.pop_back();
    }
    return *entry;
}

std::unique_ptr<GroupTable> GroupTable::make(Devx& devx, bool sends, uint8_t level,
                                             uint8_t log_entries) {
    std::unique_ptr<GroupTable> made(new GroupTable(devx, sends, 1u << log_entries));
    prm::CreateFlowTableIn in{};
    in.table_type = table_type(sends);
    const uint32_t reformats = prm::kReformatEnabled | (sends ? 0 : prm::kDecapEnabled);
    for (const uint32_t flags : {reformats, 0u}) { // older devices cannot change packets
        in.context = flags | uint32_t{level} << 16 | log_entries;
        made->table_ = devx.make(in, "flow table");
        if (made->table_) return made;
        if (errno != EINVAL) break;
    }
    return nullptr;
}

/// Half is divided evenly; of the rest, place n has the part 1 / ((n + 1) (n + 2)).
uint32_t GroupTable::share(uint32_t place) const {
    if (place > kLastPlace) return size_;
    const uint64_t half = size_ / 2;
    return static_cast<uint32_t>(half / kPlaces * place + half * place / (place + 1));
}

GroupTable::Range* GroupTable::open_range(std::map<MaskKey, Ranges>::iterator owner) {
    const auto& [key, siblings] = *owner;
    const uint32_t start = share(key.place);
    const uint32_t end = share(key.place + 1);
    uint32_t wanted = std::clamp((end - start) / 16, 1u, 64u);
    for (const Range* const range : siblings)
        wanted = std::max(wanted, 2 * (range->end - range->first));
    // The first gap that is large enough, or the largest one.
    uint32_t at = start, best = start, best_size = 0;
    for (auto next = ranges_.lower_bound(start); best_size < wanted; ++next) {
        const bool last = next == ranges_.end() || next->first >= end;
        const uint32_t gap = (last ? end : next->first) - at;
        if (gap > best_size) best = at, best_size = std::min(gap, wanted);
        if (last) break;
        at = next->second.end;
    }
    if (best_size == 0) {
        errno = ENOSPC;
        return nullptr;
    }
    prm::CreateFlowGroupIn in{};
    in.table_type = table_type(sends_);
    in.table = table_.number;
    in.first = best;
    in.last = best + best_size - 1;
    in.criteria = key.criteria;
    std::ranges::copy(key.mask, in.mask);
    DevxObject group = devx_.make(in, "flow group");
    if (!group) return nullptr;
    Range& range =
        ranges_.emplace(best, Range{this, best, best + best_size, std::move(group), owner})
            .first->second;
    range.free.reserve(best_size);
    owner->second.push_back(&range);
    return &range;
}

void GroupTable::close(Range& range) {
    const auto owner = range.owner;
    std::erase(owner->second, &range);
    if (owner->second.empty()) by_mask_.erase(owner);
    ranges_.erase(range.first);
}

void GroupTable::give_back(Entry& entry) {
    Range& range = *entry.range;
    range.free.push_back(&entry);
    if (range.empty()) close(range);
}

PartRef GroupTable::add(uint32_t place, const Mlx5Match& match, const EntryActions& actions) {
    const auto owner = by_mask_.try_emplace({place, match.criteria, match.mask}).first;
    const auto open = std::ranges::find_if(owner->second, [](Range* r) { return !r->full(); });
    Range* const range = open != owner->second.end() ? *open : open_range(owner);
    if (range == nullptr) {
        const int error = errno;
        if (owner->second.empty()) by_mask_.erase(owner);
        errno = error;
        return nullptr;
    }
    Entry& entry = range->take();

    prm::SetFteIn in{};
    in.table_type = table_type(sends_);
    in.table = table_.number;
    in.index = range->index_of(entry);
    in.group = range->group.number;
    in.tag = actions.tag;
    std::ranges::copy(match.value, in.value);
    uint32_t bits = 0;
    size_t listed = 0;
    const auto with = [&](uint32_t bit, const std::optional<uint32_t>& number, net::be32& field) {
        if (!number) return;
        bits |= bit;
        field = *number;
    };
    const auto lead = [&](uint32_t type, const std::optional<uint32_t>& number) {
        if (!number) return;
        bits |= prm::kForward;
        in.destination_count = 1;
        in.list[listed++].word = type << 24 | *number;
    };
    lead(prm::kToTable, actions.table);
    lead(prm::kToTir, actions.tir);
    lead(prm::kToSampler, actions.sampler);
    if (actions.drop)
        bits |= prm::kDrop;
    else if (listed == 0)
        bits |= sends_ ? prm::kAllow : prm::kDrop;
    if (actions.counter) {
        bits |= prm::kCount;
        in.counter_count = 1;
        in.list[listed++].word = *actions.counter;
    }
    if (actions.decap) bits |= prm::kDecap;
    if (actions.pop_vlan) bits |= prm::kPopVlan;
    with(prm::kPushVlan, actions.push_vlan, in.push_vlan);
    with(prm::kModifyHeader, actions.rewriting, in.modify_header);
    with(prm::kReformat, actions.reformatting, in.reformat);
    if (actions.meter != nullptr) {
        bits |= prm::kExecuteAso;
        in.aso[0].object = prm::kAsoValid | actions.meter->object;
        in.aso[0].control =
            uint32_t{kColorRegister} << 28 | prm::kAsoMeter | prm::kAsoGreen | actions.meter->place;
    }
    if (actions.any_level) in.flags = prm::kAnyLevel;
    in.actions = bits;

    in.head.opcode = static_cast<uint16_t>(prm::SetFteIn::kOpcode);
    const size_t bytes = offsetof(prm::SetFteIn, list) + listed * sizeof(prm::SetFteIn::Listed);
    entry.object =
        devx_.make_raw({reinterpret_cast<const uint8_t*>(&in), bytes}, "flow table entry");
    if (!entry.object) {
        const int error = errno;
        give_back(entry);
        errno = error;
        return nullptr;
    }
    return PartRef(&entry);
}

Leaf Leaf::make(Devx& devx, bool sends, const EntryActions& actions) {
    constexpr uint8_t kSmallest = 2; // has an entry for the first place
    Leaf leaf{GroupTable::make(devx, sends, kLastLevel, kSmallest), nullptr};
    if (leaf.table) leaf.entry = leaf.table->add(0, {}, actions);
    return leaf;
}

} // namespace rawqp
