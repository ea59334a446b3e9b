// SPDX-License-Identifier: BSD-3-Clause
// PPCNT: the counters of the port.
#include "app/softhca/prm/registers.hpp"

namespace softhca::prm {
namespace {

/// The source and destination of a group of port counters.
struct PortCounts {
    core::GroupCounters groups;
    core::PortCounters counters;
    core::FrameCounters frames;
    Fields set;

    void put_802_3();
    void put_2863();
    void put_2819();
    FwStatus put_priority(uint64_t priority);
    void put_physical_layer();

  private:
    /// A counter has two fields, of which this is the first.
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

/// RFC 2819, for received frames.
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
    // One after the other, of 64 bits each.
    Field size = PRM(eth_2819_cntrs_grp_data_layout, ether_stats_pkts64octets_high);
    for (const uint64_t packets : frames.rx_sizes) {
        put(size, packets);
        size.offset += 64;
    }
}

FwStatus PortCounts::put_priority(uint64_t priority) {
    // The register's field is wider in newer headers of the kernel.
    if (priority >= core::kPriorities) return FwStatus::bad_parameter;
    const core::FlowCounts &rx = frames.rx_priorities[priority],
                           &tx = frames.tx_priorities[priority];
    put(PRM(eth_per_prio_grp_data_layout, rx_octets_high), rx.bytes);
    put(PRM(eth_per_prio_grp_data_layout, rx_frames_high), rx.packets);
    put(PRM(eth_per_prio_grp_data_layout, tx_octets_high), tx.bytes);
    put(PRM(eth_per_prio_grp_data_layout, tx_frames_high), tx.packets);
    return FwStatus::ok;
}

/// Symbols and lanes have no errors here.
void PortCounts::put_physical_layer() {
    set.set(PRM(phys_layer_cntrs, link_down_events), counters.link_downs);
}

/// The missing groups count what this port does not have: errors of lanes, pause frames,
/// congestion.
enum class CounterGroup : uint8_t { // Linux: MLX5_*_COUNTERS_GROUP of <linux/mlx5/device.h>
    ieee_802_3 = 0x00,
    rfc_2863 = 0x01,
    rfc_2819 = 0x02,
    priority = 0x10,
    physical_layer = 0x12,
};

} // namespace

FwStatus port_counters(Firmware& firmware, bool, Fields reg) {
    PortCounts port{.groups = firmware.device.group_counters(),
                    .counters = firmware.device.counters(),
                    .frames = firmware.device.frame_counters(),
                    .set = reg.at(PRM(ppcnt_reg, counter_set))};
    switch (static_cast<CounterGroup>(reg.get(PRM(ppcnt_reg, grp)))) {
    case CounterGroup::ieee_802_3: port.put_802_3(); break;
    case CounterGroup::rfc_2863: port.put_2863(); break;
    case CounterGroup::rfc_2819: port.put_2819(); break;
    case CounterGroup::priority: return port.put_priority(reg.get(PRM(ppcnt_reg, prio_tc)));
    case CounterGroup::physical_layer: port.put_physical_layer(); break;
    default: break;
    }
    return FwStatus::ok;
}

} // namespace softhca::prm
