// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/ste/walker.hpp"

#include "app/softhca/core/edit_arguments.hpp"
#include "app/softhca/core/flow_tables.hpp"
#include "app/softhca/core/meters.hpp"
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/watch.hpp"

#include <cstring>

namespace softhca::core::ste {
namespace {

/// For one packet, through entries and their edits. Entries that do not hash form a list, which may
/// be long; one that loops must not keep the device busy for ever.
constexpr uint32_t kMaxSteps = 1u << 16;

} // namespace

uint64_t Walker::place_of(const Next& next, const Packet& packet) const {
    if (next.entries <= 1) return next.address;
    Tag tag{};
    if (!world_.format.look_up(next.lookup, world_.definers, packet, tag)) tag = {};
    return next.address + (world_.format.hash(next, tag) & (next.entries - 1)) * kEntryBytes;
}

/// Adds what the pattern's edit of this index lacks and has zeros for. False: there is no argument.
bool Walker::fill_in(Edit& edit, Number arguments, uint32_t index) const {
    constexpr uint32_t kEdits = sizeof(EditArgument::data) / kEditBytes;
    const EditArgument* const argument = world_.arguments.find(arguments + index / kEdits);
    if (!argument) return false;
    const std::byte* const data = &argument->data[index % kEdits * kEditBytes];
    for (size_t i = 0; i < edit.size(); i++)
        edit[i] |= data[i];
    return true;
}

bool Walker::add_edits(const Action& action, FlowPath& path) {
    if (action.count > kMaxSteps - path.steps) return false;
    path.steps += action.count;
    const bool is_pattern = action.kind == Action::Kind::pattern;
    const IcmKind kind = is_pattern ? IcmKind::edit_patterns : IcmKind::header_edits;
    const uint64_t first = kIcmRanges[static_cast<size_t>(kind)].first + action.edits_from;
    const std::byte* list = world_.icm.at(kind, first, uint64_t{action.count} * kEditBytes);
    if (!list) return false;
    for (uint32_t i = 0; i < action.count; i++, list += kEditBytes) {
        Edit edit;
        std::memcpy(edit.data(), list, edit.size());
        if (is_pattern && !fill_in(edit, action.number, i)) return false;
        if (!world_.format.read_edit(edit, steps_)) return false;
    }
    return true;
}

/// False: it refers to nothing, or there are too many steps.
bool Walker::add_steps(const Action& action, FlowPath& path) {
    if (action.kind == Action::Kind::edits || action.kind == Action::Kind::pattern)
        return add_edits(action, path);
    if (action.kind == Action::Kind::edit) return world_.format.read_edit(action.edit, steps_);
    steps_.push_back(action.step);
    if (action.kind != Action::Kind::encap) return true;
    steps_.back().reformat = world_.tables.find_reformat(action.number);
    return steps_.back().reformat != nullptr;
}

template <class W> const Packet* Walker::take_steps(const Packet& packet, FlowPath& path, W watch) {
    if (steps_.empty()) return &packet;
    const Packet* const changed =
        path.rewrite(packet, std::span<const HeaderStep>(steps_), packet.key().meta);
    steps_.clear();
    if (changed) watch.changed(*changed);
    return changed;
}

template <class W>
const Packet* Walker::meter(const Action& action, const Packet& packet, FlowPath& path, W watch) {
    MeterPair* const pair = world_.meters.find(action.number);
    if (!pair) {
        path.misfits++;
        return nullptr;
    }
    const Metering metering{pair, action.meter, action.reg_c, action.before};
    const Color color = path.meter(metering, packet);
    watch.metered(metering, color);
    MetaKey meta = packet.key().meta;
    metering.tell(color, meta);
    return path.rewrite(packet, Rewrite{}, meta);
}

/// Null: the packet cannot be changed as the entry requests, and is lost.
template <class W>
const Packet* Walker::act(const Entry& entry, const Packet& start, FlowPath& path, W watch) {
    const Packet* packet = &start;
    steps_.clear();
    for (const Action& action : entry.actions()) {
        if (action.kind == Action::Kind::meter) {
            packet = take_steps(*packet, path, watch);
            if (packet) packet = meter(action, *packet, path, watch);
            if (!packet) return nullptr;
        } else if (!add_steps(action, path)) {
            path.misfits++;
            return nullptr;
        }
    }
    return take_steps(*packet, path, watch);
}

template <class W>
void Walker::walk(uint64_t address, const Packet& start, uint32_t tag, FlowPath& path, W watch) {
    path.repeats = false; // entries may compare any bytes
    const Packet* packet = &start;
    Entry entry;
    Tag seen;
    while (path.steps < kMaxSteps) {
        path.steps++;
        const std::byte* const raw = world_.icm.at(IcmKind::steering, address, kEntryBytes);
        if (!raw) return finish(address, *packet, tag, path, watch);
        if (!world_.format.read(RawEntry(raw, kEntryBytes), entry) ||
            !world_.format.look_up(entry.lookup, world_.definers, *packet, seen)) {
            watch.no_entry(address);
            path.dropped = true;
            return;
        }
        const bool hit = masked(seen, entry.mask) == entry.tag;
        watch.compared(address, entry, std::span(seen).first(entry.tag_bytes), hit);
        if (!hit) {
            address = entry.miss;
            continue;
        }
        if (entry.counter != 0)
            if (FlowCounter* const counter = world_.tables.find_counter(entry.counter))
                path.counts.push_back({counter, packet->bytes()});
        if (entry.flow_tag) tag = *entry.flow_tag;
        packet = act(entry, *packet, path, watch);
        if (!packet) return;
        address = place_of(entry.hit, *packet);
    }
    watch.visited_too_many();
    path.endless++;
}

template <class W>
void Walker::finish(uint64_t address, const Packet& packet, uint32_t tag, FlowPath& path, W watch) {
    const Destination to = destination_of(address);
    watch.arrived(to);
    if (to.place == Place::flow_table) {
        const FlowTable* const table = world_.tables.find_table(to.number);
        if (table && table->sends == path.sending)
            return FlowTables::visit(*table, packet, tag, path, watch);
    } else if (to.place == Place::sampler) {
        Sampler* const sampler = world_.tables.find_sampler(to.number);
        if (sampler && sampler->all->sends == path.sending)
            return FlowTables::sample(*sampler, packet, tag, path, watch);
    } else if (to.place == Place::tir && !path.sending) {
        if (Tir* const tir = world_.tirs.find(to.number)) {
            path.stops.push_back({tir, tag, &packet});
            return;
        }
    } else if (to.place == Place::send && path.sending) {
        path.sent.push_back(&packet);
        return;
    }
    path.dropped = true;
}

template void Walker::walk(uint64_t, const Packet&, uint32_t, FlowPath&, NoWatch);
template void Walker::walk(uint64_t, const Packet&, uint32_t, FlowPath&, Watch);

} // namespace softhca::core::ste
