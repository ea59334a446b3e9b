// SPDX-License-Identifier: BSD-3-Clause
// General objects, each with a type that says what it is: samplers.
#include "app/softhca/prm/command_tools.hpp"

namespace softhca::prm {
namespace {

constexpr Field kId = PRM(general_obj_in_cmd_hdr, obj_id);

bool is_sampler(Command& command) {
    return command.input().get(PRM(general_obj_in_cmd_hdr, obj_type)) ==
           MLX5_GENERAL_OBJECT_TYPES_SAMPLER;
}

FwStatus create_sampler(Firmware& firmware, Command& command) {
    if (command.in.size() < PRM_BYTES(create_sampler_obj_in)) return FwStatus::bad_input_length;
    const Fields object = command.input().at(PRM(create_sampler_obj_in, sampler_object));
    const uint64_t type = object.get(PRM(sampler_obj, table_type));
    if (type != kNicReceive && type != kNicTransmit) return FwStatus::bad_parameter;
    const core::Number copies = number(object, PRM(sampler_obj, sample_table_id));
    const core::Number all = number(object, PRM(sampler_obj, default_table_id));
    const std::vector<Ref> tables{{Kind::flow_table, copies}, {Kind::flow_table, all}};
    if (!firmware.objects.exist(tables)) return FwStatus::bad_resource;
    for (const Ref& table : tables)
        if (firmware.objects.find(table.kind, table.number)->detail != type)
            return FwStatus::bad_parameter;
    const auto sampler = firmware.device.create_sampler(
        {.level = static_cast<uint8_t>(object.get(PRM(sampler_obj, level))),
         .ratio = number(object, PRM(sampler_obj, sample_ratio)),
         .copies = copies,
         .all = all,
         .any_level = object.get(PRM(sampler_obj, ignore_flow_level)) != 0,
         .sends = type == kNicTransmit});
    if (!sampler) return to_firmware(sampler.error());
    return add_object(firmware, command, Kind::sampler, *sampler,
                      {.context = object.copy(PRM_BYTES(sampler_obj)), .uses = tables});
}

FwStatus create_general_object(Firmware& firmware, Command& command) {
    return is_sampler(command) ? create_sampler(firmware, command) : FwStatus::bad_parameter;
}

FwStatus query_general_object(Firmware& firmware, Command& command) {
    if (!is_sampler(command)) return FwStatus::bad_parameter;
    constexpr Field kObject{8 * PRM_BYTES(general_obj_out_cmd_hdr), 8 * PRM_BYTES(sampler_obj)};
    return answer_context(
        command, firmware.objects.find(Kind::sampler, number(command.input(), kId)), kObject);
}

FwStatus destroy_general_object(Firmware& firmware, Command& command) {
    if (!is_sampler(command)) return FwStatus::bad_parameter;
    return destroy_object(
        firmware, Kind::sampler, number(command.input(), kId),
        [&](core::Number sampler) { return firmware.device.destroy_sampler(sampler); });
}

} // namespace

void add_general_commands(CommandTable& table) {
    constexpr size_t kInput = PRM_BYTES(general_obj_in_cmd_hdr);
    table.insert({
        {MLX5_CMD_OP_CREATE_GENERAL_OBJECT,
         {"CREATE_GENERAL_OBJECT", kInput, create_general_object}},
        {MLX5_CMD_OP_QUERY_GENERAL_OBJECT, {"QUERY_GENERAL_OBJECT", kInput, query_general_object}},
        {MLX5_CMD_OP_DESTROY_GENERAL_OBJECT,
         {"DESTROY_GENERAL_OBJECT", kInput, destroy_general_object}},
    });
}

} // namespace softhca::prm
