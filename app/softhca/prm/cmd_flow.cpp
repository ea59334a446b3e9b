// SPDX-License-Identifier: BSD-3-Clause
// Flow tables, groups, entries and counters: for received packets, and for sniffers.
#include "app/softhca/core/ste/entry.hpp"
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/match.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace softhca::prm {
namespace {

// More table types.
constexpr uint8_t kSnifferReceive = 5, kSnifferTransmit = 6;
constexpr uint16_t kResetRoot = 1; // 0 sets it
constexpr uint8_t kMissToTable = 1;
/// sw_owner_icm_root_0 of a flow_table_context, which newer headers have in a union.
constexpr Field kIcmRoot{0x100, 0x40};

template <class T> FwStatus status_of(const core::Outcome<T>& outcome) {
    return outcome ? FwStatus::ok : to_firmware(outcome.error());
}

std::span<const std::byte> match_bytes(const Fields& match) {
    return {reinterpret_cast<const std::byte*>(match.data()),
            std::min(match.size(), PRM_BYTES(fte_match_param))};
}

// ---------------------------------------------------------------- tables

core::Number miss_of(const Fields& context) {
    return context.get(PRM(flow_table_context, table_miss_action)) == kMissToTable
               ? number(context, PRM(flow_table_context, table_miss_id))
               : 0;
}

/// Where the entries are in a table that the program writes itself.
std::optional<uint64_t> icm_root_of(const Fields& context) {
    if (!context.get(PRM(flow_table_context, sw_owner))) return {};
    return context.get(kIcmRoot);
}

/// The root for tables of this type; empty for unsupported types.
std::optional<core::FlowRoot> root_of(uint64_t table_type) {
    switch (table_type) {
    case kNicReceive: return core::FlowRoot::receive;
    case kNicTransmit: return core::FlowRoot::transmit;
    case kSnifferReceive: return core::FlowRoot::sniff_received;
    case kSnifferTransmit: return core::FlowRoot::sniff_sent;
    default: return {};
    }
}

FwStatus create_flow_table(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const Fields context = in.at(PRM(create_flow_table_in, flow_table_context));
    const auto type = static_cast<uint8_t>(in.get(PRM(create_flow_table_in, table_type)));
    if (!root_of(type)) return FwStatus::bad_parameter;
    const core::Number miss = miss_of(context);
    if (miss != 0 && !firmware.objects.exist({{Kind::flow_table, miss}}))
        return FwStatus::bad_resource;
    const std::optional<uint64_t> icm_root = icm_root_of(context);
    const auto table = firmware.device.create_flow_table(
        {.level = static_cast<uint8_t>(context.get(PRM(flow_table_context, level))),
         .log_size = static_cast<uint8_t>(context.get(PRM(flow_table_context, log_size))),
         .miss = miss,
         .sends = type == kNicTransmit,
         .icm_root = icm_root});
    if (!table) return status_of(table);
    std::vector<uint8_t> kept = context.copy(PRM_BYTES(flow_table_context));
    // Entries in ICM may lead to any table, by this address.
    if (!icm_root)
        Fields(kept.data(), kept.size())
            .set(kIcmRoot, core::ste::address_of(core::ste::Place::flow_table, *table));
    return add_object(firmware, command, Kind::flow_table, *table,
                      {.context = std::move(kept), .detail = type});
}

FwStatus modify_flow_table(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const Fields given = in.at(PRM(modify_flow_table_in, flow_table_context));
    const core::Number table = number(in, PRM(modify_flow_table_in, table_id));
    constexpr uint64_t kMissTable = MLX5_MODIFY_FLOW_TABLE_MISS_TABLE_ID;
    if (in.get(PRM(modify_flow_table_in, modify_field_select)) != kMissTable)
        return FwStatus::bad_parameter;
    const core::Number miss = miss_of(given);
    Object* const object = firmware.objects.find(Kind::flow_table, table);
    if (!object || (miss != 0 && !firmware.objects.exist({{Kind::flow_table, miss}})))
        return FwStatus::bad_resource;
    const auto set = firmware.device.set_flow_table_miss(table, miss);
    if (!set) return status_of(set);
    auto& bytes = object->context;
    Fields context(bytes.data(), bytes.size());
    for (const Field field :
         {PRM(flow_table_context, table_miss_action), PRM(flow_table_context, table_miss_id)})
        context.set(field, given.get(field));
    return FwStatus::ok;
}

FwStatus query_flow_table(Firmware& firmware, Command& command) {
    const core::Number table = number(command.input(), PRM(query_flow_table_in, table_id));
    return answer_context(command, firmware.objects.find(Kind::flow_table, table),
                          PRM(query_flow_table_out, flow_table_context));
}

FwStatus destroy_flow_table(Firmware& firmware, Command& command) {
    const core::Number table = number(command.input(), PRM(destroy_flow_table_in, table_id));
    return destroy_object(firmware, Kind::flow_table, table, [&](core::Number number) {
        return firmware.device.destroy_flow_table(number);
    });
}

FwStatus set_flow_table_root(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const uint64_t type = in.get(PRM(set_flow_table_root_in, table_type));
    const auto root = root_of(type);
    if (!root || command.op_mod > kResetRoot) return FwStatus::bad_parameter;
    if (command.op_mod == kResetRoot)
        return status_of(firmware.device.set_flow_table_root(0, *root));
    const core::Number table = number(in, PRM(set_flow_table_root_in, table_id));
    const Object* const found = firmware.objects.find(Kind::flow_table, table);
    if (!found) return FwStatus::bad_resource;
    if (found->detail != type) return FwStatus::bad_parameter;
    return status_of(firmware.device.set_flow_table_root(table, *root));
}

// ---------------------------------------------------------------- groups

FwStatus create_flow_group(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const auto mask =
        read_match_mask(match_bytes(in.at(PRM(create_flow_group_in, match_criteria))));
    if (!mask) return FwStatus::bad_parameter;
    const core::Number table = number(in, PRM(create_flow_group_in, table_id));
    const Ref in_table{Kind::flow_table, table};
    if (!firmware.objects.exist({in_table})) return FwStatus::bad_resource;
    const auto group = firmware.device.create_flow_group(
        table, {.first = number(in, PRM(create_flow_group_in, start_flow_index)),
                .last = number(in, PRM(create_flow_group_in, end_flow_index)),
                .mask = mask->mask});
    if (!group) return status_of(group);
    firmware.flows.masks[*group] = *mask;
    return add_object(
        firmware, command, Kind::flow_group, *group,
        {.context = in.copy(PRM_BYTES(create_flow_group_in)), .uses = {in_table}, .detail = table});
}

FwStatus query_flow_group(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    Object* const found =
        firmware.objects.find(Kind::flow_group, number(in, PRM(query_flow_group_in, group_id)));
    if (!found || found->detail != number(in, PRM(query_flow_group_in, table_id)))
        return FwStatus::bad_resource;
    auto& made_by = found->context;
    const Fields given(made_by.data(), made_by.size());
    Fields out = command.output();
    out.set(PRM(query_flow_group_out, start_flow_index),
            given.get(PRM(create_flow_group_in, start_flow_index)));
    out.set(PRM(query_flow_group_out, end_flow_index),
            given.get(PRM(create_flow_group_in, end_flow_index)));
    out.set(PRM(query_flow_group_out, match_criteria_enable),
            given.get(PRM(create_flow_group_in, match_criteria_enable)));
    out.at(PRM(query_flow_group_out, match_criteria))
        .write(
            given.at(PRM(create_flow_group_in, match_criteria)).copy(PRM_BYTES(fte_match_param)));
    return FwStatus::ok;
}

FwStatus destroy_flow_group(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const core::Number group = number(in, PRM(destroy_flow_group_in, group_id));
    const core::Number table = number(in, PRM(destroy_flow_group_in, table_id));
    const FwStatus status =
        destroy_object(firmware, Kind::flow_group, group, [&](core::Number number) {
            return firmware.device.destroy_flow_group(table, number);
        });
    if (status == FwStatus::ok) firmware.flows.masks.erase(group);
    return status;
}

// ---------------------------------------------------------------- entries

constexpr uint64_t kAllow = MLX5_FLOW_CONTEXT_ACTION_ALLOW;
constexpr uint64_t kDrop = MLX5_FLOW_CONTEXT_ACTION_DROP;
constexpr uint64_t kForward = MLX5_FLOW_CONTEXT_ACTION_FWD_DEST;
constexpr uint64_t kCount = MLX5_FLOW_CONTEXT_ACTION_COUNT;
constexpr uint64_t kReformat = MLX5_FLOW_CONTEXT_ACTION_PACKET_REFORMAT;
constexpr uint64_t kDecap = MLX5_FLOW_CONTEXT_ACTION_DECAP;
constexpr uint64_t kModify = MLX5_FLOW_CONTEXT_ACTION_MOD_HDR;
constexpr uint64_t kPop = MLX5_FLOW_CONTEXT_ACTION_VLAN_POP;
constexpr uint64_t kPop2 = MLX5_FLOW_CONTEXT_ACTION_VLAN_POP_2;
constexpr uint64_t kPush = MLX5_FLOW_CONTEXT_ACTION_VLAN_PUSH;
constexpr uint64_t kPush2 = MLX5_FLOW_CONTEXT_ACTION_VLAN_PUSH_2;
constexpr uint64_t kExecuteAso = MLX5_FLOW_CONTEXT_ACTION_EXECUTE_ASO;
constexpr uint64_t kDestinations = kAllow | kDrop | kForward;
constexpr uint64_t kChanges = kReformat | kDecap | kModify | kPop | kPop2 | kPush | kPush2;
constexpr uint8_t kToTable = 1, kToTir = 2, kToSampler = 6; // MLX5_FLOW_DESTINATION_TYPE_*
constexpr size_t kListEntry = 8;
constexpr size_t kMaxContext = PRM_BYTES(flow_context) + (kListEntry << (kLogMaxDestinations + 1));

/// Destinations come first in the list, then counters.
FwStatus read_lists(Command& command, const Fields& context, uint64_t actions,
                    core::FlowEntryAttr& attr) {
    const size_t first =
        (PRM(set_fte_in, flow_context).offset + PRM(flow_context, destination[0]).offset) / 8;
    const auto destinations = context.get(PRM(flow_context, destination_list_size));
    const auto counters = context.get(PRM(flow_context, flow_counter_list_size));
    if (std::max(destinations, counters) > 1u << kLogMaxDestinations)
        return FwStatus::exceeded_limit;
    if (first + (destinations + counters) * kListEntry > command.in.size())
        return FwStatus::bad_input_length;
    for (uint64_t i = 0; i < destinations + counters; i++) {
        const auto word = net::load_be<uint32_t>(command.in.data() + first + i * kListEntry);
        if (i >= destinations) {
            if (actions & kCount) attr.counters.push_back(word);
            continue;
        }
        if (!(actions & kForward)) continue;
        const auto type = word >> 24;
        const core::Number id = word & 0xffffff;
        if (type == kToTir)
            attr.tirs.push_back(id);
        else if (type == kToTable)
            attr.tables.push_back(id);
        else if (type == kToSampler)
            attr.samplers.push_back(id);
        else
            return FwStatus::bad_parameter;
    }
    return FwStatus::ok;
}

core::RewriteAttr read_rewrite(const Fields& context, uint64_t actions) {
    core::RewriteAttr rewrite;
    rewrite.decap = (actions & kDecap) != 0;
    rewrite.pop_vlans = static_cast<uint8_t>(((actions & kPop) != 0) + ((actions & kPop2) != 0));
    if (actions & kModify) rewrite.edits = number(context, PRM(flow_context, modify_header_id));
    if (actions & kReformat)
        rewrite.reformat = number(context, PRM(flow_context, packet_reformat_id));
    const auto push = [&](Field tag) {
        const uint64_t word = context.get(tag);
        rewrite.push_vlans.push_back(
            {static_cast<uint16_t>(word >> 16), static_cast<uint16_t>(word)});
    };
    if (actions & kPush) push(PRM(flow_context, push_vlan));
    if (actions & kPush2) push(PRM(flow_context, push_vlan_2));
    return rewrite;
}

/// The meters of an entry; ASO objects of other types do not exist.
FwStatus read_metering(const Fields& context, core::FlowEntryAttr& attr) {
    constexpr Field kFirst = PRM(flow_context, execute_aso[0]);
    constexpr Field kControl = PRM(execute_aso, exe_aso_ctrl);
    for (size_t i = 0; i < std::extent_v<decltype(mlx5_ifc_flow_context_bits::execute_aso)>; i++) {
        const Fields aso = context.at({kFirst.offset + i * kFirst.width, kFirst.width});
        if (!aso.get(PRM(execute_aso, valid))) continue;
        const Fields control = aso.at(kControl);
        if (control.get(PRM(exe_aso_ctrl_flow_meter, aso_type)) != MLX5_EXE_ASO_FLOW_METER)
            return FwStatus::bad_parameter;
        const auto byte = [&](Field field) { return static_cast<uint8_t>(control.get(field)); };
        attr.metering.push_back(
            {.pair = number(aso, PRM(execute_aso, aso_object_id)),
             .meter = byte(PRM(exe_aso_ctrl_flow_meter, meter_id)),
             .reg_c = byte(PRM(exe_aso_ctrl_flow_meter, return_reg_id)),
             .before = static_cast<core::Color>(byte(PRM(exe_aso_ctrl_flow_meter, init_color)))});
    }
    return attr.metering.empty() ? FwStatus::bad_parameter : FwStatus::ok;
}

/// Whether everything that the entry names exists for the user of this command.
bool exists(Objects& objects, core::Number table, uint64_t actions,
            const core::FlowEntryAttr& attr) {
    std::vector<Ref> named{{Kind::flow_table, table}, {Kind::flow_group, attr.group}};
    for (const core::Number tir : attr.tirs)
        named.push_back({Kind::tir, tir});
    for (const core::Number next : attr.tables)
        named.push_back({Kind::flow_table, next});
    for (const core::Number sampler : attr.samplers)
        named.push_back({Kind::sampler, sampler});
    if (actions & kModify) named.push_back({Kind::modify_header, attr.rewrite.edits});
    if (actions & kReformat) named.push_back({Kind::reformat, attr.rewrite.reformat});
    return objects.exist(named) &&
           std::ranges::all_of(attr.counters,
                               [&](core::Number counter) {
                                   return objects.run_from(Kind::flow_counters, counter) != 0;
                               }) &&
           std::ranges::all_of(attr.metering, [&](const core::MeteringAttr& metering) {
               return objects.run_from(Kind::meters, metering.pair) != 0;
           });
}

FwStatus set_fte(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const Fields context = in.at(PRM(set_fte_in, flow_context));
    const uint64_t actions = context.get(PRM(flow_context, action));
    if ((actions & ~(kDestinations | kCount | kChanges | kExecuteAso)) ||
        !(actions & kDestinations))
        return FwStatus::bad_parameter;
    core::FlowEntryAttr attr;
    attr.group = number(context, PRM(flow_context, group_id));
    attr.drop = (actions & kDrop) != 0;
    attr.send = (actions & kAllow) != 0;
    attr.any_level = in.get(PRM(set_fte_in, ignore_flow_level)) != 0;
    attr.rewrite = read_rewrite(context, actions);
    if (const auto tag = context.get(PRM(flow_context, flow_tag)); tag != 0)
        attr.tag = static_cast<uint32_t>(tag);
    if (const FwStatus status = read_lists(command, context, actions, attr); status != FwStatus::ok)
        return status;
    if (actions & kExecuteAso)
        if (const FwStatus status = read_metering(context, attr); status != FwStatus::ok)
            return status;
    if (!attr.drop && !attr.send && attr.tirs.empty() && attr.tables.empty() &&
        attr.samplers.empty())
        return FwStatus::bad_parameter;
    const core::Number table = number(in, PRM(set_fte_in, table_id));
    const core::Number index = number(in, PRM(set_fte_in, flow_index));
    if (!exists(firmware.objects, table, actions, attr)) return FwStatus::bad_resource;
    const uint32_t type = firmware.objects.find(Kind::flow_table, table)->detail;
    if (!attr.metering.empty() && type != kNicReceive && type != kNicTransmit)
        return FwStatus::bad_parameter;
    attr.value = read_match_value(match_bytes(context.at(PRM(flow_context, match_value))),
                                  firmware.flows.masks.at(attr.group));
    const auto set = firmware.device.set_flow_entry(table, index, attr);
    if (set)
        firmware.flows.entries[{table, index}] =
            context.copy(std::min(context.size(), kMaxContext));
    return status_of(set);
}

FwStatus query_fte(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const core::Number table = number(in, PRM(query_fte_in, table_id));
    const auto entry =
        firmware.flows.entries.find({table, number(in, PRM(query_fte_in, flow_index))});
    if (!firmware.objects.exist({{Kind::flow_table, table}}) ||
        entry == firmware.flows.entries.end())
        return FwStatus::bad_resource;
    command.output().at(PRM(query_fte_out, flow_context)).write(entry->second);
    return FwStatus::ok;
}

FwStatus delete_fte(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const core::Number table = number(in, PRM(delete_fte_in, table_id));
    const core::Number index = number(in, PRM(delete_fte_in, flow_index));
    if (!firmware.objects.exist({{Kind::flow_table, table}})) return FwStatus::bad_resource;
    const auto deleted = firmware.device.delete_flow_entry(table, index);
    if (deleted) firmware.flows.entries.erase({table, index});
    return status_of(deleted);
}

// ---------------------------------------------------------------- counters

/// One counter, or a bulk of them.
FwStatus alloc_flow_counter(Firmware& firmware, Command& command) {
    const uint64_t bulk = command.input().get(PRM(alloc_flow_counter_in, flow_counter_bulk));
    if (bulk & ~uint64_t{kCounterBulks}) return FwStatus::bad_parameter;
    const uint32_t count = bulk ? static_cast<uint32_t>(bulk) * kCounterBulk : 1;
    const auto first = firmware.device.create_flow_counters(count);
    if (!first) return status_of(first);
    firmware.objects.add(Kind::flow_counters, *first, {.detail = count});
    command.output().set(PRM(alloc_flow_counter_out, flow_counter_id), *first);
    return FwStatus::ok;
}

FwStatus dealloc_flow_counter(Firmware& firmware, Command& command) {
    return destroy_object(
        firmware, Kind::flow_counters,
        number(command.input(), PRM(dealloc_flow_counter_in, flow_counter_id)),
        [&](core::Number first) { return firmware.device.destroy_flow_counters(first); });
}

// Fields of a query that writes to memory, which are reserved bits in the kernel's header. Source:
// mlx5_prm.h of DPDK.
constexpr Field kDumpKey{0x60, 32}, kDumpAddress{0x80, 64}, kDump{0xc1, 1},
    kDumpedCounters{0xc2, 30};
constexpr uint64_t kMostQueried = uint64_t{1} << kLogMaxQueriedCounters;

/// The counts of a run of counters. Numbers without a counter, or with another user's, have none.
std::vector<core::FlowCounts> read_counters(Firmware& firmware, core::Number first, size_t count,
                                            bool clear) {
    std::vector<core::FlowCounts> counts(count);
    for (size_t done = 0; done < count;) {
        const core::Number number = first + static_cast<core::Number>(done);
        const size_t run =
            std::min<size_t>(firmware.objects.run_from(Kind::flow_counters, number), count - done);
        if (run != 0)
            firmware.device.query_flow_counters(number, std::span(counts).subspan(done, run),
                                                clear);
        done += std::max<size_t>(run, 1);
    }
    return counts;
}

/// In the format of answers.
std::vector<std::byte> values_of(std::span<const core::FlowCounts> counts) {
    std::vector<std::byte> values(counts.size() * PRM_BYTES(traffic_counter));
    std::byte* to = values.data();
    for (const core::FlowCounts& one : counts) {
        net::store_be(to + PRM(traffic_counter, packets).offset / 8, one.packets);
        net::store_be(to + PRM(traffic_counter, octets).offset / 8, one.bytes);
        to += PRM_BYTES(traffic_counter);
    }
    return values;
}

/// Writes counts to memory. Those that cannot be written are not cleared: they would be lost.
FwStatus dump_counters(Firmware& firmware, Fields in, core::Number first, size_t count,
                       bool clear) {
    const auto key = static_cast<uint32_t>(in.get(kDumpKey));
    if (!firmware.objects.exist({{Kind::mkey, key >> 8}})) return FwStatus::bad_resource;
    const auto counts = read_counters(firmware, first, count, false);
    const auto written = firmware.device.write_memory(key, in.get(kDumpAddress), values_of(counts));
    // Others' counters are not among the counts, so nothing is taken off them.
    if (written && clear) firmware.device.deduct_flow_counts(first, counts);
    return status_of(written);
}

/// One counter, or a run of them, whose values may go to memory instead of the answer.
FwStatus query_flow_counter(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const core::Number first = number(in, PRM(query_flow_counter_in, flow_counter_id));
    const uint64_t asked = in.get(kDumpedCounters);
    if (asked == 0 && firmware.objects.run_from(Kind::flow_counters, first) == 0)
        return FwStatus::bad_resource;
    if (asked > kMostQueried) return FwStatus::exceeded_limit;
    const size_t count = std::max<uint64_t>(asked, 1);
    const bool clears = in.get(PRM(query_flow_counter_in, clear)) != 0;
    if (in.get(kDump) != 0) return dump_counters(firmware, in, first, count, clears);
    const auto values = values_of(read_counters(firmware, first, count, clears));
    constexpr size_t kHead = PRM_BYTES(query_flow_counter_out);
    const size_t room = std::max(command.out.size(), kHead) - kHead;
    std::memcpy(command.out.data() + kHead, values.data(), std::min(room, values.size()));
    return FwStatus::ok;
}

} // namespace

void add_flow_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(CREATE_FLOW_TABLE, create_flow_table, create_flow_table),
        PRM_COMMAND(MODIFY_FLOW_TABLE, modify_flow_table, modify_flow_table),
        PRM_COMMAND(DESTROY_FLOW_TABLE, destroy_flow_table, destroy_flow_table),
        PRM_COMMAND(SET_FLOW_TABLE_ROOT, set_flow_table_root, set_flow_table_root),
        PRM_COMMAND(QUERY_FLOW_TABLE, query_flow_table, query_flow_table),
        PRM_COMMAND(CREATE_FLOW_GROUP, create_flow_group, create_flow_group),
        PRM_COMMAND(QUERY_FLOW_GROUP, query_flow_group, query_flow_group),
        PRM_COMMAND(DESTROY_FLOW_GROUP, destroy_flow_group, destroy_flow_group),
        PRM_COMMAND(SET_FLOW_TABLE_ENTRY, set_fte, set_fte),
        PRM_COMMAND(QUERY_FLOW_TABLE_ENTRY, query_fte, query_fte),
        PRM_COMMAND(DELETE_FLOW_TABLE_ENTRY, delete_fte, delete_fte),
        PRM_COMMAND(ALLOC_FLOW_COUNTER, alloc_flow_counter, alloc_flow_counter),
        PRM_COMMAND(DEALLOC_FLOW_COUNTER, dealloc_flow_counter, dealloc_flow_counter),
        PRM_COMMAND(QUERY_FLOW_COUNTER, query_flow_counter, query_flow_counter),
    });
}

} // namespace softhca::prm
