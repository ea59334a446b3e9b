// SPDX-License-Identifier: BSD-3-Clause
// Registers about the firmware itself: MCQS, MCQI and MFRL. It has one component, which nothing
// can replace, because no register for flashing exists.
#include "app/softhca/identity.hpp"
#include "app/softhca/prm/registers.hpp"

namespace softhca::prm {
namespace {

constexpr uint64_t kImage = 0; // index of the only component

} // namespace

FwStatus firmware_component(Firmware&, bool write, Fields reg) {
    constexpr uint64_t kBootImage = 1; // Source: Linux, MCQS_IDENTIFIER_BOOT_IMG of mlx5's fw.c
    if (write || reg.get(PRM(mcqs_reg, component_index)) != kImage) return FwStatus::bad_parameter;
    reg.set(PRM(mcqs_reg, last_index_flag), 1);
    reg.set(PRM(mcqs_reg, identifier), kBootImage);
    return FwStatus::ok; // component_update_state 0: idle, nothing is pending
}

FwStatus firmware_version(Firmware&, bool write, Fields reg) {
    constexpr uint64_t kVersion = 1; // info_type. Source: the same file, MCQI_INFO_TYPE_VERSION
    if (write || reg.get(PRM(mcqi_reg, component_index)) != kImage ||
        reg.get(PRM(mcqi_reg, read_pending_component)) != 0 ||
        reg.get(PRM(mcqi_reg, info_type)) != kVersion)
        return FwStatus::bad_parameter;
    reg.set(PRM(mcqi_reg, info_size), PRM_BYTES(mcqi_version));
    Fields version = reg.at({PRM_BYTES(mcqi_reg) * 8, 0});
    version.set(PRM(mcqi_version, version),
                kFirmwareMajor << 24 | kFirmwareMinor << 16 | kFirmwareSubminor);
    return FwStatus::ok;
}

/// Nothing but a restart of the machine would do: firmware here is the program that plays the
/// device.
FwStatus firmware_reset(Firmware&, bool write, Fields reg) {
    constexpr uint64_t kWarmReboot = 1u << 6; // Source: Linux, MLX5_MFRL_REG_RESET_LEVEL6
    if (write) return FwStatus::bad_parameter;
    reg.set(PRM(mfrl_reg, reset_level), kWarmReboot);
    return FwStatus::ok;
}

} // namespace softhca::prm
