// SPDX-License-Identifier: BSD-3-Clause
// Samplers, which copy some of the packets that entries send to them.
#include "app/softhca/core/ste/entry.hpp"
#include "app/softhca/prm/general_objects.hpp"

namespace softhca::prm {
namespace {

/// libmlx5 omits the reserved part at its end (flow_sampler of its mlx5_ifc.h).
constexpr size_t kGivenBytes = PRM(create_sampler_obj_in, sampler_object).offset / 8 +
                               (PRM(sampler_obj, sw_steering_icm_address_tx).offset + 64) / 8;

FwStatus create(Firmware& firmware, Command& command) {
    if (command.in.size() < kGivenBytes) return FwStatus::bad_input_length;
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
    std::vector<uint8_t> context = object.copy(PRM_BYTES(sampler_obj));
    // The address by which a program's own entries lead to it.
    Fields(context.data(), context.size())
        .set(type == kNicReceive ? PRM(sampler_obj, sw_steering_icm_address_rx)
                                 : PRM(sampler_obj, sw_steering_icm_address_tx),
             core::ste::address_of(core::ste::Place::sampler, *sampler));
    return add_object(firmware, command, Kind::sampler, *sampler,
                      {.context = std::move(context), .uses = tables});
}

FwStatus destroy(Firmware& firmware, Command& command) {
    return destroy_object(
        firmware, Kind::sampler, general_object_number(command),
        [&](core::Number sampler) { return firmware.device.destroy_sampler(sampler); });
}

} // namespace

const GeneralObject& sampler_objects() {
    static constexpr GeneralObject kHandlers{create, query_made<Kind::sampler>, destroy};
    return kHandlers;
}

} // namespace softhca::prm
