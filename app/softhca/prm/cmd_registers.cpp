// SPDX-License-Identifier: BSD-3-Clause
// ACCESS_REG: port registers.
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/registers.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace softhca::prm {
namespace {

constexpr uint16_t kWrite = 0, kQuery = 1; // op_mod
constexpr size_t kDataAt = 16;

constexpr uint64_t kAdminUp = 1, kAdminDown = 2;
constexpr uint16_t kMaxMtu = 9978 + kFrameOverhead; ///< the register counts whole frames

FwStatus port_mtu(Firmware& firmware, bool write, Fields reg) {
    if (write) {
        const auto mtu = static_cast<uint16_t>(reg.get(PRM(pmtu_reg, admin_mtu)));
        if (mtu > kMaxMtu || mtu <= kFrameOverhead) return FwStatus::bad_parameter;
        firmware.device.set_mtu(static_cast<uint16_t>(mtu - kFrameOverhead));
    }
    const uint64_t mtu = firmware.device.mtu() + kFrameOverhead;
    reg.set(PRM(pmtu_reg, max_mtu), kMaxMtu);
    reg.set(PRM(pmtu_reg, admin_mtu), mtu);
    reg.set(PRM(pmtu_reg, oper_mtu), mtu);
    return FwStatus::ok;
}

/// PFCC. The port pauses in both directions or in neither, and not by priority.
FwStatus port_flow_control(Firmware& firmware, bool write, Fields reg) {
    constexpr Field kSends = PRM(pfcc_reg, pptx), kHeeds = PRM(pfcc_reg, pprx);
    if (write) {
        const bool by_priority =
            reg.get(PRM(pfcc_reg, pfctx)) != 0 || reg.get(PRM(pfcc_reg, pfcrx)) != 0;
        if (by_priority || reg.get(kSends) != reg.get(kHeeds)) return FwStatus::bad_parameter;
        firmware.device.set_pause(reg.get(kSends) != 0);
    }
    reg.set(kSends, firmware.device.pause());
    reg.set(kHeeds, firmware.device.pause());
    return FwStatus::ok;
}

FwStatus port_state(Firmware& firmware, bool write, Fields reg) {
    if (write) {
        const uint64_t admin = reg.get(PRM(paos_reg, admin_status));
        firmware.set_admin_up(admin != kAdminDown);
    }
    reg.set(PRM(paos_reg, admin_status), firmware.admin_up() ? kAdminUp : kAdminDown);
    reg.set(PRM(paos_reg, oper_status), firmware.device.link_up() ? kAdminUp : kAdminDown);
    return FwStatus::ok;
}

/// PDDR: why there is no link, as its troubleshooting page reports it.
FwStatus port_diagnosis(Firmware& firmware, bool write, Fields reg) {
    if (write) return FwStatus::bad_parameter;
    // Source: Linux, mlx5e_link_ext_state_opcode_map of mlx5e; closed by command is not in it.
    enum class Monitor : uint16_t { no_issue = 0, closed = 1, no_partner = 2, no_cable = 1024 };
    constexpr uint64_t kMonitor = MLX5_PDDR_REG_TRBLSH_GROUP_OPCODE_MONITOR;
    if (reg.get(PRM(pddr_reg, page_select)) != MLX5_PDDR_REG_PAGE_SELECT_TROUBLESHOOTING_INFO_PAGE)
        return FwStatus::bad_parameter;
    const Monitor why = firmware.device.link_up() ? Monitor::no_issue
                        : !firmware.cable()       ? Monitor::no_cable
                        : !firmware.admin_up()    ? Monitor::closed
                                                  : Monitor::no_partner;
    const Fields page = reg.at(PRM(pddr_reg, page_data));
    if (page.get(PRM(pddr_troubleshooting_page, group_opcode)) != kMonitor)
        return FwStatus::bad_parameter;
    Fields(page).set(PRM(pddr_troubleshooting_page, status_opcode), static_cast<uint64_t>(why));
    return FwStatus::ok;
}

/// The node description, which the InfiniBand subnet manager would query.
FwStatus node_description(Firmware& firmware, bool write, Fields reg) {
    if (write) firmware.node_description = reg.copy(firmware.node_description.size());
    reg.write(firmware.node_description);
    return FwStatus::ok;
}

/// How the host writes what the device reads.
FwStatus host_endianness(Firmware&, bool write, Fields reg) {
    constexpr Field kEndianness{0, 8}; // Source: Linux, struct mlx5_reg_host_endianness
    constexpr uint64_t kLittle = 0;
    if (write && reg.get(kEndianness) != kLittle) return FwStatus::bad_parameter;
    reg.set(kEndianness, kLittle);
    return FwStatus::ok;
}

/// MTUTC: the source of CQE timestamps. A free-running clock, although its tick is a nanosecond: a
/// program that cannot query this treats such a device's timestamps as seconds and nanoseconds
/// (net_mlx5).
constexpr uint16_t kMtutc = 0x9055;
FwStatus clock_mode(Firmware&, bool write, Fields reg) {
    constexpr Field kTimeStampMode{0, 2}; // Source: mlx5_prm.h of DPDK
    constexpr uint64_t kInternalTimer = 0;
    if (write) return FwStatus::bad_parameter; // nothing of it can be set
    reg.set(kTimeStampMode, kInternalTimer);
    return FwStatus::ok;
}

/// MLCR: the LED blinks for that many seconds.
FwStatus beacon(Firmware& firmware, bool write, Fields reg) {
    using Clock = std::chrono::steady_clock;
    using Seconds = std::chrono::seconds;
    constexpr Field kDuration = PRM(mlcr_reg, beacon_duration);
    constexpr uint64_t kForEver = 0xffff;
    const Clock::time_point now = Clock::now();
    if (write) {
        const uint64_t duration = reg.get(kDuration);
        firmware.beacon_end =
            duration == kForEver ? Clock::time_point::max() : now + Seconds(duration);
    }
    const bool ends = firmware.beacon_end != Clock::time_point::max();
    const Clock::duration left = std::max(firmware.beacon_end - now, Clock::duration{});
    reg.set(PRM(mlcr_reg, beacon_remain),
            ends ? static_cast<uint64_t>(std::chrono::ceil<Seconds>(left).count()) : kForEver);
    return FwStatus::ok;
}

/// PCAM and MCAM: which port registers, and which management registers, exist.
FwStatus port_capabilities(Firmware& firmware, bool write, Fields reg);
FwStatus management_capabilities(Firmware& firmware, bool write, Fields reg);

/// Numbers: Linux, MLX5_REG_* of <linux/mlx5/driver.h>. Others are refused, as by a device without
/// the feature in question: the driver uses them where capabilities announce them, or on
/// InfiniBand.
const std::map<uint16_t, Register> kRegisters = {
    {0x5002, module_lanes},            // PMLP
    {0x5003, port_mtu},                // PMTU
    {0x5004, port_type},               // PTYS
    {0x5006, port_state},              // PAOS
    {0x5007, port_flow_control},       // PFCC
    {0x5008, port_counters},           // PPCNT
    {0x5023, port_fec},                // PPLM
    {0x5031, port_diagnosis},          // PDDR
    {0x507f, port_capabilities},       // PCAM
    {0x6001, node_description},        // NODE_DESC
    {0x7004, host_endianness},         // HOST_ENDIANNESS
    {0x9014, module_memory},           // MCIA
    {0x9028, firmware_reset},          // MFRL
    {0x902b, beacon},                  // MLCR
    {kMtutc, clock_mode},              // MTUTC
    {0x9060, firmware_component},      // MCQS
    {0x9061, firmware_version},        // MCQI
    {0x907f, management_capabilities}, // MCAM
};

/// Sets the bits of the registers that exist from `first` on. The first register is the last bit of
/// its mask.
void announce_registers(Fields reg, Field mask, uint16_t first) {
    for (const auto& [id, access] : kRegisters)
        if (id >= first && size_t{id} < first + mask.width)
            reg.set({mask.offset + mask.width - 1 - (id - first), 1}, 1);
}

FwStatus port_capabilities(Firmware&, bool write, Fields reg) {
    // The only group of registers, and of features.
    constexpr uint16_t kFirst = 0x5000;
    if (write || reg.get(PRM(pcam_reg, access_reg_group)) != 0 ||
        reg.get(PRM(pcam_reg, feature_group)) != 0)
        return FwStatus::bad_parameter;
    announce_registers(reg, PRM(pcam_reg, port_access_reg_cap_mask), kFirst);
    Fields features = reg.at(PRM(pcam_reg, feature_cap_mask));
    features.set(PRM(pcam_enhanced_features, fec_50G_per_lane_in_pplm), 1);
    return FwStatus::ok;
}

FwStatus management_capabilities(Firmware&, bool write, Fields reg) {
    // Groups of 128 registers, of which all but the first are empty, and the only group of
    // features, none of which exists.
    constexpr uint16_t kFirst = 0x9000, kGroup = 0x80, kGroups = 4;
    const uint64_t group = reg.get(PRM(mcam_reg, access_reg_group));
    if (write || group >= kGroups || reg.get(PRM(mcam_reg, feature_group)) != 0)
        return FwStatus::bad_parameter;
    announce_registers(reg, PRM(mcam_reg, mng_access_reg_cap_mask),
                       static_cast<uint16_t>(kFirst + group * kGroup));
    return FwStatus::ok;
}

/// Those that users may read.
constexpr std::array kOfUsers = {kMtutc};

FwStatus access_register(Firmware& firmware, Command& command) {
    const auto id =
        static_cast<uint16_t>(command.input().get(PRM(access_register_in, register_id)));
    const auto found = kRegisters.find(id);
    if (found == kRegisters.end() || command.op_mod > kQuery) return FwStatus::bad_parameter;
    const size_t bytes = std::min(command.in.size(), command.out.size()) - kDataAt;
    std::copy_n(command.in.begin() + kDataAt, bytes, command.out.begin() + kDataAt);
    return found->second(firmware, command.op_mod == kWrite,
                         {command.out.data() + kDataAt, command.out.size() - kDataAt});
}

/// ACCESS_REGISTER_USER: laid out like ACCESS_REG.
FwStatus access_register_user(Firmware& firmware, Command& command) {
    const auto id =
        static_cast<uint16_t>(command.input().get(PRM(access_register_in, register_id)));
    if (std::ranges::find(kOfUsers, id) == kOfUsers.end() || command.op_mod != kQuery)
        return FwStatus::bad_parameter;
    return access_register(firmware, command);
}

} // namespace

void add_register_commands(CommandTable& table) {
    constexpr uint16_t kAccessRegisterUser = 0xb0c; // Source: mlx5_prm.h of DPDK
    table.insert({
        {MLX5_CMD_OP_ACCESS_REG, {"ACCESS_REG", kDataAt, access_register}},
        {kAccessRegisterUser, {"ACCESS_REGISTER_USER", kDataAt, access_register_user}},
    });
}

} // namespace softhca::prm
