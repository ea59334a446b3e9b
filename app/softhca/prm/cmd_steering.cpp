// SPDX-License-Identifier: BSD-3-Clause
// Software steering: ICM for the entries that programs write, and the firmware's part in it. The
// caller that allocates ICM chooses the address: the kernel's driver, for its programs
// (mlx5dv_alloc_dm).
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/general_objects.hpp"

namespace softhca::prm {
namespace {

FwStatus create_icm(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    if (in.size() < PRM_BYTES(create_sw_icm_in)) return FwStatus::bad_input_length;
    const Fields object = in.at(PRM(create_sw_icm_in, sw_icm));
    const uint64_t address = object.get(PRM(sw_icm, sw_icm_start_addr));
    const uint64_t log_bytes = object.get(PRM(sw_icm, log_sw_icm_size));
    if (log_bytes > core::kIcmRanges.front().log_bytes) return FwStatus::bad_parameter;
    if (const auto taken = firmware.device.take_icm(address, uint64_t{1} << log_bytes); !taken)
        return to_firmware(taken.error());
    return add_object(
        firmware, command, Kind::sw_icm, icm_number(address),
        {.context = object.copy(PRM_BYTES(sw_icm)), .detail = static_cast<uint32_t>(log_bytes)});
}

FwStatus destroy_icm(Firmware& firmware, Command& command) {
    return destroy_object(
        firmware, Kind::sw_icm, general_object_number(command),
        [&](core::Number icm) { return firmware.device.free_icm(icm_address(icm)); });
}

/// The device caches no entries, so there is nothing to wait for.
FwStatus sync_steering(Firmware&, Command&) { return FwStatus::ok; }

} // namespace

const GeneralObject& icm_objects() {
    static constexpr GeneralObject kHandlers{create_icm, query_made<Kind::sw_icm>, destroy_icm};
    return kHandlers;
}

std::optional<core::Number> icm_of(Firmware& firmware, uint64_t address) {
    for (uint8_t log_bytes = core::kLogIcmBlock; log_bytes <= core::kIcmRanges.front().log_bytes;
         log_bytes++) {
        const core::Number number = icm_number(address >> log_bytes << log_bytes);
        const Object* const icm = firmware.objects.find(Kind::sw_icm, number);
        if (icm && log_bytes <= icm->detail) return number;
    }
    return {};
}

void add_steering_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(SYNC_STEERING, sync_steering, sync_steering),
    });
}

} // namespace softhca::prm
