// SPDX-License-Identifier: BSD-3-Clause
// What flow table entries do to headers: modify header and packet reformat contexts.
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/edits.hpp"

#include <optional>

namespace softhca::prm {
namespace {

FwStatus alloc_modify_header(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    const uint64_t count = in.get(PRM(alloc_modify_header_context_in, num_of_actions));
    const size_t at = PRM(alloc_modify_header_context_in, actions[0]).offset / 8;
    if (at + count * kEditBytes > command.in.size()) return FwStatus::bad_input_length;
    auto edits =
        read_header_edits(std::as_bytes(std::span(command.in)).subspan(at, count * kEditBytes));
    if (!edits) return FwStatus::bad_parameter;
    const auto number = firmware.device.create_header_edits(std::move(*edits));
    if (!number) return to_firmware(number.error());
    firmware.objects.add(Kind::modify_header, *number, {});
    command.output().set(PRM(alloc_modify_header_context_out, modify_header_id), *number);
    return FwStatus::ok;
}

FwStatus dealloc_modify_header(Firmware& firmware, Command& command) {
    const auto id = static_cast<core::Number>(
        command.input().get(PRM(dealloc_modify_header_context_in, modify_header_id)));
    return destroy_object(firmware, Kind::modify_header, id, [&](core::Number number) {
        return firmware.device.destroy_header_edits(number);
    });
}

std::optional<core::ReformatKind> kind_of(uint64_t type) {
    switch (type) {
    case MLX5_REFORMAT_TYPE_L2_TO_VXLAN:
    case MLX5_REFORMAT_TYPE_L2_TO_NVGRE:
    case MLX5_REFORMAT_TYPE_L2_TO_L2_TUNNEL: return core::ReformatKind::l2_to_l2_tunnel;
    case MLX5_REFORMAT_TYPE_L3_TUNNEL_TO_L2: return core::ReformatKind::l3_tunnel_to_l2;
    case MLX5_REFORMAT_TYPE_L2_TO_L3_TUNNEL: return core::ReformatKind::l2_to_l3_tunnel;
    default: return {};
    }
}

FwStatus alloc_packet_reformat(Firmware& firmware, Command& command) {
    constexpr Field kContext = PRM(alloc_packet_reformat_context_in, packet_reformat_context);
    const Fields context = command.input().at(kContext);
    const auto kind = kind_of(context.get(PRM(packet_reformat_context_in, reformat_type)));
    const uint64_t bytes = context.get(PRM(packet_reformat_context_in, reformat_data_size));
    const size_t at = (kContext.offset + PRM(packet_reformat_context_in, reformat_data).offset) / 8;
    if (!kind) return FwStatus::bad_parameter;
    if (at + bytes > command.in.size()) return FwStatus::bad_input_length;
    const auto number = firmware.device.create_reformat(
        *kind, std::as_bytes(std::span(command.in)).subspan(at, bytes));
    if (!number) return to_firmware(number.error());
    firmware.objects.add(Kind::reformat, *number, {});
    command.output().set(PRM(alloc_packet_reformat_context_out, packet_reformat_id), *number);
    return FwStatus::ok;
}

FwStatus dealloc_packet_reformat(Firmware& firmware, Command& command) {
    const auto id = static_cast<core::Number>(
        command.input().get(PRM(dealloc_packet_reformat_context_in, packet_reformat_id)));
    return destroy_object(firmware, Kind::reformat, id, [&](core::Number number) {
        return firmware.device.destroy_reformat(number);
    });
}

} // namespace

void add_rewrite_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(ALLOC_MODIFY_HEADER_CONTEXT, alloc_modify_header_context, alloc_modify_header),
        PRM_COMMAND(DEALLOC_MODIFY_HEADER_CONTEXT, dealloc_modify_header_context,
                    dealloc_modify_header),
        PRM_COMMAND(ALLOC_PACKET_REFORMAT_CONTEXT, alloc_packet_reformat_context,
                    alloc_packet_reformat),
        PRM_COMMAND(DEALLOC_PACKET_REFORMAT_CONTEXT, dealloc_packet_reformat_context,
                    dealloc_packet_reformat),
    });
}

} // namespace softhca::prm
