// SPDX-License-Identifier: BSD-3-Clause
// The commands of general objects: which type has which handlers.
#include "app/softhca/prm/general_objects.hpp"

namespace softhca::prm {
namespace {

const GeneralObject* handlers_of(uint64_t type) {
    switch (type) {
    case MLX5_OBJ_TYPE_SW_ICM: return &icm_objects();
    case MLX5_GENERAL_OBJECT_TYPES_SAMPLER: return &sampler_objects();
    case MLX5_GENERAL_OBJECT_TYPES_FLOW_METER_ASO: return &meter_objects();
    case MLX5_OBJ_TYPE_MATCH_DEFINER: return &definer_objects();
    case kModifyArgumentType: return &argument_objects();
    case kVirtioNetQType: return &virtq_objects();
    case kVirtioQCountersType: return &virtq_counter_objects();
    default: return nullptr;
    }
}

/// The command, for whatever type it names.
template <auto GeneralObject::*kHandler> FwStatus run(Firmware& firmware, Command& command) {
    const GeneralObject* const handlers =
        handlers_of(command.input().get(PRM(general_obj_in_cmd_hdr, obj_type)));
    return handlers && handlers->*kHandler ? (handlers->*kHandler)(firmware, command)
                                           : FwStatus::bad_parameter;
}

} // namespace

void add_general_commands(CommandTable& table) {
    constexpr size_t kInput = PRM_BYTES(general_obj_in_cmd_hdr);
    table.insert({
        {MLX5_CMD_OP_CREATE_GENERAL_OBJECT,
         {"CREATE_GENERAL_OBJECT", kInput, run<&GeneralObject::create>}},
        {MLX5_CMD_OP_MODIFY_GENERAL_OBJECT,
         {"MODIFY_GENERAL_OBJECT", kInput, run<&GeneralObject::modify>}},
        {MLX5_CMD_OP_QUERY_GENERAL_OBJECT,
         {"QUERY_GENERAL_OBJECT", kInput, run<&GeneralObject::query>}},
        {MLX5_CMD_OP_DESTROY_GENERAL_OBJECT,
         {"DESTROY_GENERAL_OBJECT", kInput, run<&GeneralObject::destroy>}},
    });
}

} // namespace softhca::prm
