// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/ste/walker.hpp"

#include "app/softhca/core/flow_tables.hpp"
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/watch.hpp"

namespace softhca::core::ste {
namespace {

/// Entries that do not hash form a list, which may be long; one that leads back to itself must not
/// keep the device for ever.
constexpr uint32_t kMaxSteps = 1u << 16;

Tag masked(const Tag& tag, const Tag& mask) {
    Tag result;
    for (size_t i = 0; i < kTagBytes; i++)
        result[i] = tag[i] & mask[i];
    return result;
}

Reformat empty_l2(bool vlan) {
    Reformat reformat;
    reformat.kind = ReformatKind::l3_tunnel_to_l2;
    reformat.headers.resize(net::kEthernetBytes + (vlan ? net::kVlanBytes : 0));
    constexpr size_t kTypeAt = 12;
    if (vlan) net::store_be(reformat.headers.data() + kTypeAt, net::kEtherVlan);
    return reformat;
}

} // namespace

Walker::Walker(const Format& format, const Icm& icm, const ObjectTable<Tir>& tirs,
               FlowTables& tables)
    : format_(format), icm_(icm), tirs_(tirs), tables_(tables), empty_l2_(empty_l2(false)),
      empty_vlan_l2_(empty_l2(true)) {}

uint64_t Walker::place_of(const Next& next, const Packet& packet) const {
    if (next.entries <= 1) return next.address;
    Tag tag{};
    if (!format_.look_up(next.lookup, packet, tag)) tag = {};
    for (size_t i = 0; i < kTagBytes; i++)
        if (!(next.hashed >> (kTagBytes - 1 - i) & 1)) tag[i] = {};
    return next.address + (format_.hash(tag) & (next.entries - 1)) * kEntryBytes;
}

bool Walker::read_edits(const Entry& entry) {
    edits_.edits.clear();
    const uint64_t bytes = uint64_t{entry.edits} * kEditBytes;
    const uint64_t first =
        kIcmRanges[static_cast<size_t>(IcmKind::header_edits)].first + entry.edits_from;
    const std::byte* const list = icm_.at(IcmKind::header_edits, first, bytes);
    if (!list) return false;
    for (uint64_t at = 0; at < bytes; at += kEditBytes)
        format_.read_edit(RawEdit(list + at, kEditBytes), edits_.edits);
    return true;
}

/// Null: the packet cannot be changed as the entry wants it, and is lost.
const Packet* Walker::change(const Entry& entry, const Packet& packet, FlowPath& path) {
    Rewrite rewrite;
    switch (entry.change) {
    case Change::none: break;
    case Change::decap: rewrite.decap = true; break;
    case Change::decap_l3: rewrite.reformat = entry.vlan_l2 ? &empty_vlan_l2_ : &empty_l2_; break;
    case Change::pop_vlan: rewrite.pop_vlans = 1; break;
    case Change::push_vlan:
        rewrite.push_vlans = 1;
        rewrite.vlans[0] = entry.vlan;
        break;
    case Change::reformat: rewrite.reformat = tables_.find_reformat(entry.reformat); break;
    }
    if (entry.edits != 0) rewrite.edits = &edits_;
    const bool names_nothing = (entry.change == Change::reformat && !rewrite.reformat) ||
                               (entry.edits != 0 && !read_edits(entry));
    if (!names_nothing)
        return rewrite.any() ? path.rewrite(packet, rewrite, packet.key().meta) : &packet;
    path.misfits++;
    return nullptr;
}

template <class W>
void Walker::walk(uint64_t address, const Packet& start, uint32_t tag, FlowPath& path, W watch) {
    const Packet* packet = &start;
    Entry entry;
    Tag seen;
    for (uint32_t steps = 0; steps < kMaxSteps; steps++) {
        const std::byte* const raw = icm_.at(IcmKind::steering, address, kEntryBytes);
        if (!raw) return finish(address, *packet, tag, path, watch);
        if (!format_.read(RawEntry(raw, kEntryBytes), entry) ||
            !format_.look_up(entry.lookup, *packet, seen)) {
            watch.no_entry(address);
            path.dropped = true;
            return;
        }
        const bool hit = masked(seen, entry.mask) == entry.tag;
        watch.compared(address, entry, seen, hit);
        if (!hit) {
            address = entry.miss;
            continue;
        }
        if (entry.counter != 0)
            if (FlowCounter* const counter = tables_.find_counter(entry.counter))
                path.counts.push_back({counter, packet->bytes()});
        if (entry.flow_tag) tag = *entry.flow_tag;
        const Packet* const changed = change(entry, *packet, path);
        if (!changed) return;
        if (changed != packet) watch.changed(*changed);
        packet = changed;
        address = place_of(entry.hit, *packet);
    }
    watch.visited_too_many();
    path.dropped = true;
}

template <class W>
void Walker::finish(uint64_t address, const Packet& packet, uint32_t tag, FlowPath& path, W watch) {
    const Destination to = destination_of(address);
    watch.arrived(to);
    if (to.place == Place::flow_table) {
        if (const FlowTable* const table = tables_.find_table(to.number))
            return FlowTables::visit(*table, packet, tag, path, watch);
    } else if (to.place == Place::tir && !path.sending) {
        if (Tir* const tir = tirs_.find(to.number)) {
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
