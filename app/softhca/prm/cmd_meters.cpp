// SPDX-License-Identifier: BSD-3-Clause
// Flow meters: ASO objects of two meters each, created in ranges. Send queues write them.
#include "app/softhca/core/rings/mlx5/meters.hpp"
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/general_objects.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::prm {
namespace {

// In the command's head: which object of a range a query refers to. Newer headers have it in a
// union (general_obj_query_param).
constexpr Field kOffset{0x61, 31};
constexpr Field kMeters{PRM(flow_meter_aso_obj, flow_meter_parameters[0]).offset,
                        8 * mlx5::kAsoDataBytes};
static_assert(kMeters.offset + kMeters.width == 8 * PRM_BYTES(flow_meter_aso_obj));

FwStatus create(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    if (in.size() < PRM_BYTES(create_flow_meter_aso_obj_in)) return FwStatus::bad_input_length;
    const Fields object = in.at(PRM(create_flow_meter_aso_obj_in, flow_meter_aso_obj));
    const Ref pd{Kind::pd, number(object, PRM(flow_meter_aso_obj, meter_aso_access_pd))};
    if (!firmware.objects.exist({pd})) return FwStatus::bad_resource;
    const uint32_t pairs = 1u << in.get(kLogObjectRange);
    const auto parameters = object.at(kMeters).copy(mlx5::kAsoDataBytes);
    const auto meters = firmware.device.create_meters(
        {.pd = pd.number,
         .pairs = pairs,
         .meters = core::mlx5_rings::read_meters(std::as_bytes(std::span(parameters)))});
    if (!meters) return to_firmware(meters.error());
    return add_object(firmware, command, Kind::meters, *meters, {.uses = {pd}, .detail = pairs});
}

/// For one pair, in its present state.
FwStatus query(Firmware& firmware, Command& command) {
    const core::Number first = general_object_number(command);
    const core::Number offset = number(command.input(), kOffset);
    const Object* const range = firmware.objects.find(Kind::meters, first);
    if (!range || offset >= range->detail) return FwStatus::bad_resource;
    const auto meters = firmware.device.query_meters(first + offset);
    if (!meters) return to_firmware(meters.error());
    const auto bytes = core::mlx5_rings::write_meters(*meters);
    Fields answer = command.output().at(kGeneralObject).at(kMeters);
    std::memcpy(answer.data(), bytes.data(), std::min(answer.size(), bytes.size()));
    return FwStatus::ok;
}

FwStatus destroy(Firmware& firmware, Command& command) {
    return destroy_object(
        firmware, Kind::meters, general_object_number(command),
        [&](core::Number first) { return firmware.device.destroy_meters(first); });
}

} // namespace

const GeneralObject& meter_objects() {
    static constexpr GeneralObject kHandlers{create, query, destroy};
    return kHandlers;
}

} // namespace softhca::prm
