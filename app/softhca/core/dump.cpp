// SPDX-License-Identifier: BSD-3-Clause
// The JSON view of a device that `softhca dump` shows: its objects, rings, rules and flow tables.
#include "app/softhca/core/describe.hpp"
#include "app/softhca/core/device_state.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace softhca::core {
namespace {

using nlohmann::json;

/// Number of oldest requests shown for each ring.
constexpr size_t kPostedShown = 4;

json number_or_null(Number number) { return number != 0 ? json(number) : json(); }

template <class T> json numbers(const std::vector<T*>& objects) {
    json list = json::array();
    for (const T* const object : objects)
        list.push_back(object->number);
    return list;
}

json to_json(const FieldTexts& fields) {
    json object = json::object();
    for (const auto& [name, value] : fields)
        object[name] = value;
    return object;
}

json match_of(const FlowKey& value, const KeyMask& mask) {
    return to_json(describe_fields(value, mask.as_key()));
}

/// Into a row of rules or entries.
void add_actions(json& row, const FlowActions& actions) {
    row["drop"] = actions.drop;
    row["pass_on"] = actions.pass_on;
    row["default_miss"] = actions.default_miss;
    row["send"] = actions.send;
    row["tag"] = actions.tag ? json(*actions.tag) : json();
    row["to_tirs"] = numbers(actions.tirs);
    row["to_tables"] = numbers(actions.tables);
    row["to_samplers"] = numbers(actions.samplers);
    row["counters"] = numbers(actions.counters);
    row["metering"] = json::array();
    for (const Metering& one : actions.metering)
        row["metering"].push_back(describe_metering(one));
    row["changes"] = describe_rewrite(actions.rewrite);
}

json row_of(const Mkey& key) {
    json parts = json::array();
    for (const KeyPart& part : key.parts)
        parts.push_back(fmt::format("{:#x}:{:#x}+{}", part.lkey, part.address, part.bytes));
    return {{"number", key.own_lkey >> 8},
            {"lkey", fmt::format("{:#x}", key.own_lkey)},
            {"free", key.is_free()},
            {"pd", key.pd},
            {"iova", fmt::format("{:#x}", key.iova)},
            {"bytes", key.length},
            {"local_write", key.local_write},
            {"any_pd", key.any_pd},
            {"parts", std::move(parts)}};
}

json row_of(const Device::State& device, const Cq& cq) {
    CqView view;
    const bool gone = run_guarded(device, [&] { cq.look(view); }) != nullptr;
    json row = {{"number", cq.number()},         {"users", cq.users},
                {"failed", cq.failed()},         {"events", cq.has_events()},
                {"compresses", cq.compresses()}, {"memory_gone", gone}};
    if (!gone)
        row.update({{"entries", view.entries},
                    {"entry_bytes", view.entry_bytes},
                    {"producer", view.producer},
                    {"consumer", view.consumer},
                    {"armed", view.armed}});
    return row;
}

json row_of(const Queue& queue) {
    return {{"number", queue.number},
            {"state", text_of(queue.state)},
            {"cq", number_or_null(queue.cq ? queue.cq->number() : 0)},
            {"pd", number_or_null(queue.pd)},
            {"entries", queue.entries()},
            {"producer", queue.producer},
            {"consumer", queue.consumer},
            {"user_index", queue.user_index}};
}

/// What a hairpin queue may hold, and the peer that it names.
void add_hairpin(json& row, const HairpinSize& size, const HairpinEnd& peer) {
    row.update({{"hairpin_packets", 1u << size.log_packets},
                {"hairpin_bytes", 1u << size.log_bytes},
                {"hairpin_peer", number_or_null(peer.number)},
                {"hairpin_peer_device", peer ? json(*peer.device) : json()}});
}

/// How far its driver's chains have been served, and why no further.
void add_virtq(json& row, const Virtq& virtq) {
    const VirtqStatus status = virtq.status();
    row.update({{"virtq_state", text_of(status.state)},
                {"virtq_fault", text_of(status.fault)},
                {"virtq_next_available", status.next_available},
                {"virtq_next_used", status.next_used},
                {"virtq_key", fmt::format("{:#x}", virtq.attr().lkey)},
                {"virtq_events", number_or_null(virtq.attr().events)}});
}

json row_of(const Sq& sq) {
    json row = row_of(static_cast<const Queue&>(sq));
    row.update({{"transport_domain", sq.transport_domain},
                {"rate_kbps", sq.rate_kbps},
                {"requests_per_second", sq.pace.per_second()},
                {"rc", sq.rc},
                {"changes_keys", sq.changes_keys}});
    if (sq.managed) row["enabled"] = sq.enabled;
    if (sq.hairpin) add_hairpin(row, *sq.hairpin, peer_of(sq));
    if (sq.virtq) add_virtq(row, *sq.virtq);
    return row;
}

json row_of(const Rq& rq) {
    json row = row_of(static_cast<const Queue&>(rq));
    row.update({{"wqe_bytes", 1u << rq.log_wqe_bytes},
                {"sq", number_or_null(rq.partner ? rq.partner->number : 0)},
                {"vlan_strip", rq.vlan_strip},
                {"scatter_fcs", rq.scatter_fcs},
                {"delay_drop", rq.hold_when_empty},
                {"holds_the_wire", rq.held_since != 0}});
    if (rq.striding)
        row.update({{"strides", 1u << rq.strides.log_strides},
                    {"stride_bytes", 1u << rq.strides.log_stride_bytes},
                    {"next_stride", rq.next_stride}});
    if (rq.hairpin) {
        add_hairpin(row, rq.hairpin->size(), peer_of(rq));
        row["held"] = rq.hairpin->packets();
    }
    if (rq.virtq) add_virtq(row, *rq.virtq);
    return row;
}

json row_of(const Rqt& rqt) {
    return {{"number", rqt.number}, {"users", rqt.users}, {"rqs", numbers(rqt.entries)}};
}

json row_of(const Tir& tir) {
    json hashed = json::array();
    const HashFields& fields = tir.fields;
    const std::pair<bool, const char*> known[] = {{fields.src_ip, "src_ip"},
                                                  {fields.dst_ip, "dst_ip"},
                                                  {fields.src_port, "src_port"},
                                                  {fields.dst_port, "dst_port"},
                                                  {fields.spi, "spi"}};
    for (const auto& [used, name] : known)
        if (used) hashed.emplace_back(name);
    return {{"number", tir.number},
            {"rq", number_or_null(tir.rq ? tir.rq->number : 0)},
            {"rqt", number_or_null(tir.rqt ? tir.rqt->number : 0)},
            {"hashes", std::move(hashed)},
            {"hashes_ip_version", fields.ip_version},
            {"hashes_l4", fields.l4},
            {"tunnels", tir.tunnels},
            {"hash_inner", tir.hash_inner},
            {"symmetric", tir.symmetric},
            {"transport_domain", tir.transport_domain},
            {"hears_own_unicast", tir.self_loopback.unicast},
            {"hears_own_multicast", tir.self_loopback.multicast},
            {"lro_ipv4", tir.lro.ipv4},
            {"lro_ipv6", tir.lro.ipv6},
            {"lro_timeout_ns", tir.lro.timeout_ns},
            {"lro_max_bytes", tir.lro.max_bytes},
            {"users", tir.users}};
}

json row_of(const Flow& flow) {
    json row = {{"number", flow.number},
                {"domain", text_of(flow.domain)},
                {"priority", flow.priority},
                {"match", match_of(flow.value, KeyMask(flow.mask))}};
    add_actions(row, flow);
    return row;
}

json row_of(const PostedRequest& posted, Number queue) {
    json segments = json::array();
    for (size_t i = 0; i < std::min<size_t>(posted.segments_in_all, posted.segments.size()); i++) {
        const Segment& one = posted.segments[i];
        segments.push_back(fmt::format("{:#x}:{:#x}+{}", one.lkey, one.address, one.bytes));
    }
    return {{"queue", queue},
            {"index", posted.index},
            {"kind", posted.kind},
            {"steps", posted.steps},
            {"inlined", posted.inlined},
            {"segments", posted.segments_in_all},
            {"memory", std::move(segments)},
            {"will_fail", posted.fault ? json(posted.fault) : json()}};
}

/// The oldest requests of each queue.
template <class Q>
void add_posted(const Device::State& device, const ObjectTable<Q>& queues, json& rows) {
    for (const auto& [number, queue] : queues) {
        std::array<PostedRequest, kPostedShown> posted;
        Q copy = *queue;
        size_t count = 0;
        const void* const missing =
            run_guarded(device, [&] { count = device.rings.read_posted(copy, posted); });
        if (missing) {
            rows.push_back({{"queue", number}, {"will_fail", "the ring's memory is gone"}});
            continue;
        }
        for (size_t i = 0; i < count; i++)
            rows.push_back(row_of(posted[i], number));
    }
}

template <class T> json rows_of(const ObjectTable<T>& objects) {
    json rows = json::array();
    for (const auto& [number, object] : objects)
        rows.push_back(row_of(*object));
    return rows;
}

json roots_of(const FlowTables& all, const FlowTable& table) {
    json roots = json::array();
    for (const FlowRoot root :
         {FlowRoot::receive, FlowRoot::transmit, FlowRoot::sniff_received, FlowRoot::sniff_sent})
        if (all.root(root) == &table) roots.emplace_back(text_of(root));
    return roots;
}

void add_flow_tables(const FlowTables& all, json& device) {
    json tables = json::array(), groups = json::array(), entries = json::array();
    for (const auto& [number, table] : all.tables()) {
        tables.push_back(
            {{"number", number},
             {"level", table->level},
             {"size", table->size},
             {"sends", table->sends},
             {"icm_root", table->walker ? json(fmt::format("{:#x}", table->icm_root)) : json()},
             {"root_of", roots_of(all, *table)},
             {"miss_to", number_or_null(table->miss ? table->miss->number : 0)}});
        for (const auto& group : table->groups) {
            json fields = json::array();
            for (const auto& [name, value] : describe_fields({}, group->mask))
                fields.push_back(name);
            groups.push_back({{"number", group->number},
                              {"table", number},
                              {"first", group->first},
                              {"last", group->last},
                              {"fields", std::move(fields)},
                              {"used", group->entries.size()}});
            for (const auto& [index, entry] : group->entries) {
                json row = {{"table", number},
                            {"group", group->number},
                            {"index", index},
                            {"match", match_of(entry->value, group->rules.mask())}};
                add_actions(row, *entry);
                entries.push_back(std::move(row));
            }
        }
    }
    device["flow_tables"] = std::move(tables);
    device["flow_groups"] = std::move(groups);
    device["flow_entries"] = std::move(entries);
}

void add_flow_objects(const FlowTables& all, json& device) {
    json counters = json::array(), edits = json::array(), reformats = json::array();
    for (const auto& [first, bulk] : all.counters())
        for (const FlowCounter& one : bulk)
            if (one.users != 0 || bulk.size() == 1) // of a bulk: those in use
                counters.push_back({{"number", one.number},
                                    {"packets", one.counts.packets},
                                    {"bytes", one.counts.bytes},
                                    {"users", one.users}});
    for (const auto& [number, object] : all.edits()) {
        json steps = json::array();
        for (const HeaderEdit& edit : object->edits)
            steps.push_back(describe_edit(edit));
        edits.push_back(
            {{"number", number}, {"edits", std::move(steps)}, {"users", object->users}});
    }
    for (const auto& [number, object] : all.reformats())
        reformats.push_back({{"number", number},
                             {"kind", text_of(object->kind)},
                             {"bytes", object->headers.size()},
                             {"users", object->users}});
    json samplers = json::array();
    for (const auto& [number, sampler] : all.samplers())
        samplers.push_back({{"number", number},
                            {"level", sampler->level},
                            {"ratio", sampler->ratio},
                            {"copies_to_table", sampler->copies->number},
                            {"all_to_table", sampler->all->number},
                            {"users", sampler->users}});
    device["flow_counters"] = std::move(counters);
    device["header_edits"] = std::move(edits);
    device["reformats"] = std::move(reformats);
    device["samplers"] = std::move(samplers);
}

/// Tokens per second, and tokens.
json row_of(const BucketAttr& bucket, uint32_t tokens) {
    return fmt::format("{}/s, {} of {}",
                       (uint64_t{bucket.rate_mantissa} * 1'000'000'000) >> bucket.rate_exponent,
                       tokens, uint64_t{bucket.size_mantissa} << bucket.size_exponent);
}

/// Those that have been written.
json rows_of(const Meters& all) {
    json rows = json::array();
    for (const auto& [first, range] : all.ranges())
        for (const MeterPair& pair : range)
            for (size_t i = 0; i < pair.meters.size(); i++) {
                const Meter& meter = pair.meters[i];
                if (!meter.attr().valid) continue;
                rows.push_back(
                    {{"pair", pair.number},
                     {"meter", i},
                     {"pd", pair.pd},
                     {"mode", text_of(meter.attr().mode)},
                     {"start", text_of(meter.attr().start)},
                     {"overflow", meter.attr().overflow},
                     {"both_on_green", meter.attr().both_on_green},
                     {"committed", row_of(meter.attr().committed, meter.committed_tokens())},
                     {"excess", row_of(meter.attr().excess, meter.excess_tokens())},
                     {"users", pair.users}});
            }
    return rows;
}

json rows_of(const ste::Definers& all) {
    json rows = json::array();
    for (Number number = ste::Definers::kFirst; number < ste::Definers::kEnd; number++)
        if (const ste::Definer* const definer = all.find(number)) {
            rows.push_back(
                {{"number", number}, {"layout", definer->layout}, {"mask", hex(definer->mask)}});
        }
    return rows;
}

/// Those that have been written.
json rows_of(const EditArguments& all) {
    json rows = json::array();
    for (const auto& [first, range] : all.ranges())
        for (size_t i = 0; i < range.size(); i++) {
            const EditArgument& argument = range[i];
            if (argument.data == EditArgument{}.data) continue;
            rows.push_back(
                {{"number", first + i}, {"pd", argument.pd}, {"data", hex(argument.data)}});
        }
    return rows;
}

} // namespace

json Device::dump() const {
    const ControlLock lock(*state_);
    const State& state = *state_;
    json device = {{"device", state.config.name},
                   {"mac", fmt::format("{:02x}", fmt::join(state.port.mac(), ":"))},
                   {"mtu", state.port.mtu()},
                   {"link_up", state.port.link_up()},
                   {"pause", state.port.pause()},
                   {"dead", state.dead}};
    json pds = json::array(), mkeys = json::array(), cqs = json::array(), posted = json::array();
    for (const auto& [number, pd] : state.pds)
        pds.push_back({{"number", number}, {"users", pd->users}});
    state.mkeys.for_each([&](const Mkey& key) { mkeys.push_back(row_of(key)); });
    for (const auto& [number, cq] : state.cqs)
        cqs.push_back(row_of(state, *cq));
    add_posted(state, state.sqs, posted);
    add_posted(state, state.rqs, posted);
    device.update({{"pds", std::move(pds)},
                   {"mkeys", std::move(mkeys)},
                   {"cqs", std::move(cqs)},
                   {"sqs", rows_of(state.sqs)},
                   {"rqs", rows_of(state.rqs)},
                   {"posted", std::move(posted)},
                   {"rqts", rows_of(state.rqts)},
                   {"tirs", rows_of(state.tirs)},
                   {"rules", rows_of(state.flows)}});
    add_flow_tables(state.flow_tables, device);
    add_flow_objects(state.flow_tables, device);
    device["meters"] = rows_of(state.meters);
    device["definers"] = rows_of(state.definers);
    device["edit_arguments"] = rows_of(state.edit_arguments);
    return device;
}

} // namespace softhca::core
