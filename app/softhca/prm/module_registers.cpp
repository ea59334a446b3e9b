// SPDX-License-Identifier: BSD-3-Clause
// Registers of the cable's plug: PMLP and MCIA. The plug is the port's only one, number 0.
#include "app/softhca/core/phy.hpp"
#include "app/softhca/prm/registers.hpp"

namespace softhca::prm {
namespace {

/// The result of an access. Source: Linux, mlxsw/reg.h (the same register).
enum class ModuleStatus : uint8_t { good = 0, no_response = 1, not_connected = 3 };

} // namespace

FwStatus module_lanes(Firmware& firmware, bool write, Fields reg) {
    if (write) return FwStatus::bad_parameter; // a port cannot be split
    constexpr Field kFirst = PRM(pmlp_reg, lane0_module_mapping);
    const uint32_t width = core::plug(firmware.speed_mbps).lanes;
    reg.set(PRM(pmlp_reg, width), width);
    for (uint32_t lane = 0; lane < width; lane++) {
        Fields mapping = reg.at({kFirst.offset + size_t{lane} * kFirst.width, kFirst.width});
        mapping.set(PRM(lane_2_module_mapping, module), 0);
        mapping.set(PRM(lane_2_module_mapping, rx_lane), lane);
        mapping.set(PRM(lane_2_module_mapping, tx_lane), lane);
    }
    return FwStatus::ok;
}

FwStatus module_memory(Firmware& firmware, bool write, Fields reg) {
    constexpr Field kData{PRM(mcia_reg, size).offset + PRM(mcia_reg, size).width + 32, 8};
    constexpr uint64_t kMaxBytes = 48; // at once; a device may announce that it can do more
    constexpr uint64_t kMemory = 0x50; // address on the plug's bus; diagnostics would be at 0x51
    const uint64_t from = reg.get(PRM(mcia_reg, device_address)),
                   bytes = reg.get(PRM(mcia_reg, size));
    const bool inside = from < core::kPlugBytes && bytes <= core::kPlugBytes - from;
    if (write || reg.get(PRM(mcia_reg, module)) != 0 || bytes > kMaxBytes || !inside)
        return FwStatus::bad_parameter;
    const auto tell = [&](ModuleStatus status) {
        reg.set(PRM(mcia_reg, status), static_cast<uint64_t>(status));
        return FwStatus::ok;
    };
    if (!firmware.cable()) return tell(ModuleStatus::not_connected);
    if (reg.get(PRM(mcia_reg, i2c_device_address)) != kMemory)
        return tell(ModuleStatus::no_response);
    // Flat memory is the same whatever page is selected.
    const auto memory =
        core::plug_memory(core::plug(firmware.speed_mbps), firmware.device.config().mac);
    Fields data = reg.at(kData);
    for (uint64_t i = 0; i < bytes; i++)
        data.set({8 * i, 8}, memory[from + i]);
    return tell(ModuleStatus::good);
}

} // namespace softhca::prm
