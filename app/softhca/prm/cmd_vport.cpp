// SPDX-License-Identifier: BSD-3-Clause
// The function's virtual port: link, addresses, MTU, counters.
#include "app/softhca/prm/command_tools.hpp"
#include "common/net/parse.hpp"

#include <algorithm>

namespace softhca::prm {
namespace {

constexpr uint8_t kUp = 1;
constexpr size_t kListEntry = 8;
constexpr uint8_t kUnicastList = 0; // MLX5_NVPRT_LIST_TYPE_UC

FwStatus query_vport_state(Firmware& firmware, Command& command) {
    Fields out = command.output();
    out.set(PRM(query_vport_state_out, admin_state), kUp);
    out.set(PRM(query_vport_state_out, state), firmware.device.link_up() ? kUp : 0);
    return FwStatus::ok;
}

FwStatus modify_vport_state(Firmware&, Command&) { return FwStatus::ok; }

/// Modified EUI-64 of the MAC address, as interface identifiers are made.
uint64_t guid_of(const std::array<uint8_t, 6>& mac) {
    constexpr uint8_t kLocal = 2;
    const std::array<uint8_t, 8> eui = {
        static_cast<uint8_t>(mac[0] ^ kLocal), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
    return net::load_be<uint64_t>(eui.data());
}

FwStatus query_nic_vport_context(Firmware& firmware, Command& command) {
    Fields context = command.output().at(PRM(query_nic_vport_context_out, nic_vport_context));
    const auto list = static_cast<uint8_t>(
        command.input().get(PRM(query_nic_vport_context_in, allowed_list_type)));
    context.write(firmware.vport_context);
    for (const Field guid : {PRM(nic_vport_context, system_image_guid),
                             PRM(nic_vport_context, port_guid), PRM(nic_vport_context, node_guid)})
        context.set(guid, guid_of(firmware.device.config().mac));
    context.set(PRM(nic_vport_context, mtu), firmware.device.mtu() + kFrameOverhead);
    Fields address = context.at(PRM(nic_vport_context, permanent_address));
    uint64_t mac = 0;
    for (const uint8_t byte : firmware.mac)
        mac = mac << 8 | byte;
    address.set(PRM(mac_address_layout, mac_addr_47_32), mac >> 32);
    address.set(PRM(mac_address_layout, mac_addr_31_0), mac & 0xffffffff);
    const auto& entries = firmware.vport_lists[list];
    context.set(PRM(nic_vport_context, allowed_list_type), list);
    context.set(PRM(nic_vport_context, allowed_list_size), entries.size() / kListEntry);
    context.at(PRM(nic_vport_context, current_uc_mac_address[0])).write(entries);
    return FwStatus::ok;
}

std::vector<std::array<uint8_t, 6>> addresses_of(const std::vector<uint8_t>& list) {
    std::vector<std::array<uint8_t, 6>> addresses(list.size() / kListEntry);
    for (size_t i = 0; i < addresses.size(); i++)
        std::copy_n(&list[i * kListEntry + 2], addresses[i].size(), addresses[i].begin());
    return addresses;
}

FwStatus modify_nic_vport_context(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const Fields select = in.at(PRM(modify_nic_vport_context_in, field_select));
    const Fields given = in.at(PRM(modify_nic_vport_context_in, nic_vport_context));
    const auto chosen = [&](Field field) { return select.get(field) != 0; };
    firmware.vport_context.resize(PRM_BYTES(nic_vport_context));
    Fields kept(firmware.vport_context.data(), firmware.vport_context.size());
    const auto keep = [&](Field field) { kept.set(field, given.get(field)); };
    if (chosen(PRM(modify_nic_vport_field_select, addresses_list))) {
        const auto size = given.get(PRM(nic_vport_context, allowed_list_size));
        const Fields list = given.at(PRM(nic_vport_context, current_uc_mac_address[0]));
        if (list.size() < size * kListEntry) return FwStatus::bad_input_length;
        const auto type =
            static_cast<uint8_t>(given.get(PRM(nic_vport_context, allowed_list_type)));
        firmware.vport_lists[type] = list.copy(size * kListEntry);
        if (type == kUnicastList)
            firmware.device.set_other_addresses(addresses_of(firmware.vport_lists[type]));
    }
    if (chosen(PRM(modify_nic_vport_field_select, promisc)))
        for (const Field field :
             {PRM(nic_vport_context, promisc_uc), PRM(nic_vport_context, promisc_mc),
              PRM(nic_vport_context, promisc_all)})
            keep(field);
    if (chosen(PRM(modify_nic_vport_field_select, min_inline)))
        keep(PRM(nic_vport_context, min_wqe_inline_mode));
    if (chosen(PRM(modify_nic_vport_field_select, disable_uc_local_lb)))
        keep(PRM(nic_vport_context, disable_uc_local_lb));
    if (chosen(PRM(modify_nic_vport_field_select, disable_mc_local_lb)))
        keep(PRM(nic_vport_context, disable_mc_local_lb));
    firmware.device.set_loopback(
        {.unicast = kept.get(PRM(nic_vport_context, disable_uc_local_lb)) == 0,
         .multicast = kept.get(PRM(nic_vport_context, disable_mc_local_lb)) == 0});
    if (chosen(PRM(modify_nic_vport_field_select, permanent_address))) {
        const Fields address = given.at(PRM(nic_vport_context, permanent_address));
        const auto bytes = address.copy(8);
        std::copy_n(bytes.begin() + 2, firmware.mac.size(), firmware.mac.begin());
    }
    return FwStatus::ok;
}

core::FlowCounts plus(core::FlowCounts one, const core::FlowCounts& other) {
    return {one.packets + other.packets, one.bytes + other.bytes};
}
core::FlowCounts minus(core::FlowCounts one, const core::FlowCounts& other) {
    return {one.packets - other.packets, one.bytes - other.bytes};
}

VportCounts count_traffic(const core::Device& device) {
    const auto [port, groups] = device.traffic_counters();
    const auto unicast = [](const core::FlowCounts& all, const core::FlowCounts& multicast,
                            const core::FlowCounts& broadcast) {
        return minus(minus(all, multicast), broadcast);
    };
    // A vport received what it sent to itself, too, and sent the part of that which took no wire.
    const core::FlowCounts looped{port.loopback_packets, port.loopback_bytes};
    const core::FlowCounts turned =
        unicast(looped, groups.loopback_multicast, groups.loopback_broadcast);
    const core::FlowCounts received = plus({port.wire_rx_packets, port.wire_rx_bytes}, looped),
                           sent = plus({port.wire_tx_packets, port.wire_tx_bytes}, turned),
                           multicast = plus(groups.rx_multicast, groups.loopback_multicast),
                           broadcast = plus(groups.rx_broadcast, groups.loopback_broadcast);
    return {unicast(received, multicast, broadcast),
            multicast,
            broadcast,
            unicast(sent, groups.tx_multicast, groups.tx_broadcast),
            groups.tx_multicast,
            groups.tx_broadcast};
}

FwStatus query_vport_counter(Firmware& firmware, Command& command) {
    constexpr std::array kPlaces = {PRM(query_vport_counter_out, received_eth_unicast),
                                    PRM(query_vport_counter_out, received_eth_multicast),
                                    PRM(query_vport_counter_out, received_eth_broadcast),
                                    PRM(query_vport_counter_out, transmitted_eth_unicast),
                                    PRM(query_vport_counter_out, transmitted_eth_multicast),
                                    PRM(query_vport_counter_out, transmitted_eth_broadcast)};
    const VportCounts now = count_traffic(firmware.device);
    for (size_t i = 0; i < kPlaces.size(); i++) {
        const core::FlowCounts since = minus(now[i], firmware.cleared_counts[i]);
        Fields counter = command.output().at(kPlaces[i]);
        counter.set(PRM(traffic_counter, packets), since.packets);
        counter.set(PRM(traffic_counter, octets), since.bytes);
    }
    if (command.input().get(PRM(query_vport_counter_in, clear))) firmware.cleared_counts = now;
    return FwStatus::ok;
}

/// Puts `to` in the place of `from`. Either may be 0, which stands for a free place.
bool exchange_vxlan_port(Firmware& firmware, uint16_t from, uint16_t to) {
    net::VxlanPorts vxlan = firmware.device.vxlan_ports();
    const auto place = std::ranges::find(vxlan.ports, from);
    if (place == vxlan.ports.end()) return false;
    *place = to;
    firmware.device.set_vxlan_ports(vxlan);
    return true;
}

/// Adding a port again changes nothing: the standard one is there before anybody has added it.
FwStatus add_vxlan_port(Firmware& firmware, Command& command) {
    const auto port =
        static_cast<uint16_t>(command.input().get(PRM(add_vxlan_udp_dport_in, vxlan_udp_port)));
    if (port == 0) return FwStatus::bad_parameter;
    if (firmware.device.vxlan_ports().contain(port)) return FwStatus::ok;
    return exchange_vxlan_port(firmware, 0, port) ? FwStatus::ok : FwStatus::no_resources;
}

FwStatus delete_vxlan_port(Firmware& firmware, Command& command) {
    const auto port =
        static_cast<uint16_t>(command.input().get(PRM(delete_vxlan_udp_dport_in, vxlan_udp_port)));
    if (port == 0 || !exchange_vxlan_port(firmware, port, 0)) return FwStatus::bad_parameter;
    return FwStatus::ok;
}

/// InfiniBand tables, which are empty on an Ethernet port.
FwStatus answer_zeros(Firmware&, Command&) { return FwStatus::ok; }

} // namespace

void add_vport_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(QUERY_VPORT_STATE, query_vport_state, query_vport_state),
        PRM_COMMAND(MODIFY_VPORT_STATE, modify_vport_state, modify_vport_state),
        PRM_COMMAND(QUERY_NIC_VPORT_CONTEXT, query_nic_vport_context, query_nic_vport_context),
        {MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT,
         {"MODIFY_NIC_VPORT_CONTEXT", 16, modify_nic_vport_context}},
        PRM_COMMAND(QUERY_VPORT_COUNTER, query_vport_counter, query_vport_counter),
        PRM_COMMAND(ADD_VXLAN_UDP_DPORT, add_vxlan_udp_dport, add_vxlan_port),
        PRM_COMMAND(DELETE_VXLAN_UDP_DPORT, delete_vxlan_udp_dport, delete_vxlan_port),
        PRM_COMMAND(QUERY_HCA_VPORT_CONTEXT, query_hca_vport_context, answer_zeros),
        PRM_COMMAND(QUERY_HCA_VPORT_PKEY, query_hca_vport_pkey, answer_zeros),
        PRM_COMMAND(QUERY_HCA_VPORT_GID, query_hca_vport_gid, answer_zeros),
    });
}

} // namespace softhca::prm
