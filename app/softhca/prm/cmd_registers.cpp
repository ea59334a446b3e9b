// SPDX-License-Identifier: BSD-3-Clause
// ACCESS_REG: port registers.
#include "app/softhca/prm/command_tools.hpp"

#include <algorithm>
#include <array>

namespace softhca::prm {
namespace {

constexpr uint16_t kWrite = 0, kQuery = 1; // op_mod
constexpr size_t kDataAt = 16;

constexpr uint64_t kAdminUp = 1, kAdminDown = 2;
constexpr uint16_t kMaxMtu = 9978;

/// Speeds that the port type register has a bit for (Linux: enum mlx5e_link_mode).
uint32_t speed_bit(uint32_t mbps) {
    switch (mbps) {
    case 10000: return 1u << 12; // 10GBASE-CR
    case 25000: return 1u << 27; // 25GBASE-CR
    case 40000: return 1u << 6;  // 40GBASE-CR4
    case 50000: return 1u << 30; // 50GBASE-CR2
    default: return 1u << 20;    // 100GBASE-CR4
    }
}

FwStatus port_type(Firmware& firmware, bool, Fields reg) {
    const uint32_t speed = speed_bit(firmware.speed_mbps);
    reg.set(PRM(ptys_reg, eth_proto_capability), speed);
    reg.set(PRM(ptys_reg, eth_proto_admin), speed);
    reg.set(PRM(ptys_reg, eth_proto_oper), firmware.device.link_up() ? speed : 0);
    return FwStatus::ok;
}

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

/// PFCC. The port pauses in both directions or in none, and not by priority.
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

// ---------------------------------------------------------------- PPCNT

/// What a group of port counters is filled from, and into.
struct PortCounts {
    core::GroupCounters groups;
    core::PortCounters counters;
    Fields set;

    void put_802_3();
    void put_2863();
    void put_2819();
    void put_priority(uint64_t priority);

  private:
    /// A counter has two fields, of which this is the first one.
    void put(Field high, uint64_t value) { set.set({high.offset, 64}, value); }
};

void PortCounts::put_802_3() {
    put(PRM(eth_802_3_cntrs_grp_data_layout, a_frames_transmitted_ok_high),
        counters.wire_tx_packets);
    put(PRM(eth_802_3_cntrs_grp_data_layout, a_frames_received_ok_high), counters.wire_rx_packets);
    put(PRM(eth_802_3_cntrs_grp_data_layout, a_octets_transmitted_ok_high), counters.wire_tx_bytes);
    put(PRM(eth_802_3_cntrs_grp_data_layout, a_octets_received_ok_high), counters.wire_rx_bytes);
    put(PRM(eth_802_3_cntrs_grp_data_layout, a_multicast_frames_xmitted_ok_high),
        groups.tx_multicast.packets);
    put(PRM(eth_802_3_cntrs_grp_data_layout, a_broadcast_frames_xmitted_ok_high),
        groups.tx_broadcast.packets);
    put(PRM(eth_802_3_cntrs_grp_data_layout, a_multicast_frames_received_ok_high),
        groups.rx_multicast.packets);
    put(PRM(eth_802_3_cntrs_grp_data_layout, a_broadcast_frames_received_ok_high),
        groups.rx_broadcast.packets);
    put(PRM(eth_802_3_cntrs_grp_data_layout, a_frame_too_long_errors_high), counters.drop_oversize);
}

/// RFC 2863, of the interface.
void PortCounts::put_2863() {
    const auto unicast = [](uint64_t all, const core::FlowCounts& multicast,
                            const core::FlowCounts& broadcast) {
        return all - multicast.packets - broadcast.packets;
    };
    put(PRM(eth_2863_cntrs_grp_data_layout, if_in_octets_high), counters.wire_rx_bytes);
    put(PRM(eth_2863_cntrs_grp_data_layout, if_in_ucast_pkts_high),
        unicast(counters.wire_rx_packets, groups.rx_multicast, groups.rx_broadcast));
    put(PRM(eth_2863_cntrs_grp_data_layout, if_in_multicast_pkts_high),
        groups.rx_multicast.packets);
    put(PRM(eth_2863_cntrs_grp_data_layout, if_in_broadcast_pkts_high),
        groups.rx_broadcast.packets);
    put(PRM(eth_2863_cntrs_grp_data_layout, if_in_errors_high),
        counters.drop_oversize + counters.drop_undersize);
    put(PRM(eth_2863_cntrs_grp_data_layout, if_out_octets_high), counters.wire_tx_bytes);
    put(PRM(eth_2863_cntrs_grp_data_layout, if_out_ucast_pkts_high),
        unicast(counters.wire_tx_packets, groups.tx_multicast, groups.tx_broadcast));
    put(PRM(eth_2863_cntrs_grp_data_layout, if_out_multicast_pkts_high),
        groups.tx_multicast.packets);
    put(PRM(eth_2863_cntrs_grp_data_layout, if_out_broadcast_pkts_high),
        groups.tx_broadcast.packets);
    put(PRM(eth_2863_cntrs_grp_data_layout, if_out_discards_high), counters.drop_tx_wire);
    put(PRM(eth_2863_cntrs_grp_data_layout, if_out_errors_high), counters.tx_error_wqes);
}

/// RFC 2819, of what is received. Frames are not counted by their size.
void PortCounts::put_2819() {
    put(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_octets_high), counters.wire_rx_bytes);
    put(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_pkts_high), counters.wire_rx_packets);
    put(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_broadcast_pkts_high),
        groups.rx_broadcast.packets);
    put(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_multicast_pkts_high),
        groups.rx_multicast.packets);
    put(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_undersize_pkts_high),
        counters.drop_undersize);
    put(PRM(eth_2819_cntrs_grp_data_layout, ether_stats_oversize_pkts_high),
        counters.drop_oversize);
}

/// All packets are of priority 0, as on a port that trusts no tag.
void PortCounts::put_priority(uint64_t priority) {
    if (priority != 0) return;
    put(PRM(eth_per_prio_grp_data_layout, rx_octets_high), counters.wire_rx_bytes);
    put(PRM(eth_per_prio_grp_data_layout, rx_frames_high), counters.wire_rx_packets);
    put(PRM(eth_per_prio_grp_data_layout, tx_octets_high), counters.wire_tx_bytes);
    put(PRM(eth_per_prio_grp_data_layout, tx_frames_high), counters.wire_tx_packets);
}

/// The groups that are not here count what this port has not: symbol and lane errors, pause frames,
/// congestion.
enum class CounterGroup : uint8_t { // Linux: MLX5_*_COUNTERS_GROUP of <linux/mlx5/device.h>
    ieee_802_3 = 0x00,
    rfc_2863 = 0x01,
    rfc_2819 = 0x02,
    priority = 0x10,
};
FwStatus port_counters(Firmware& firmware, bool, Fields reg) {
    PortCounts port{.groups = firmware.device.group_counters(),
                    .counters = firmware.device.counters(),
                    .set = reg.at(PRM(ppcnt_reg, counter_set))};
    switch (static_cast<CounterGroup>(reg.get(PRM(ppcnt_reg, grp)))) {
    case CounterGroup::ieee_802_3: port.put_802_3(); break;
    case CounterGroup::rfc_2863: port.put_2863(); break;
    case CounterGroup::rfc_2819: port.put_2819(); break;
    case CounterGroup::priority: port.put_priority(reg.get(PRM(ppcnt_reg, prio_tc))); break;
    default: break;
    }
    return FwStatus::ok;
}

/// Registers that drivers write and read and that change nothing here: the answer is what came.
FwStatus keep(Firmware&, bool, Fields) { return FwStatus::ok; }

/// MTUTC: what CQEs are stamped by. A clock that runs freely, though a tick of it is a nanosecond:
/// a program that cannot ask takes such a device's stamps for seconds and nanoseconds (net_mlx5).
constexpr uint16_t kMtutc = 0x9055;
FwStatus clock_mode(Firmware&, bool write, Fields reg) {
    constexpr Field kTimeStampMode{0, 2}; // Source: mlx5_prm.h of DPDK
    constexpr uint64_t kInternalTimer = 0;
    if (write) return FwStatus::bad_parameter; // nothing of it can be set
    reg.set(kTimeStampMode, kInternalTimer);
    return FwStatus::ok;
}

using Register = FwStatus (*)(Firmware&, bool write, Fields reg);
/// Numbers: Linux, MLX5_REG_* of <linux/mlx5/driver.h>.
const std::map<uint16_t, Register> kRegisters = {
    {0x5001, keep}, // PCAP
    {0x5002, keep}, // PMLP
    {0x5003, port_mtu},      {0x5004, port_type}, {0x5006, port_state}, {0x5007, port_flow_control},
    {0x5008, port_counters}, {0x5009, keep}, // PUDE
    {0x500b, keep},                          // PPTB
    {0x500c, keep},                          // PBMC
    {0x500e, keep},                          // PELC
    {0x500f, keep},                          // PVLC
    {0x5010, keep},                          // PMPE
    {0x5012, keep},                          // PMAOS
    {0x5023, keep},                          // PPLM: FEC
    {0x5031, keep},                          // PDDR
    {0x5041, keep},                          // PCMR: port check mode
    {0x507f, keep},                          // PCAM
    {0x6001, keep},                          // node description
    {0x7004, keep},                          // host endianness
    {0x902b, keep},                          // MLCR: port LED
    {kMtutc, clock_mode},    {0x907f, keep}, // MCAM
};
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
