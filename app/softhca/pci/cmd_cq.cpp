// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/command_tools.hpp"

namespace softhca::pci {
namespace {

constexpr uint16_t kResize = 1; // op_mod of MODIFY_CQ

FwStatus create_cq(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_cq_in, cq_context));
    const auto eqn = static_cast<core::Number>(context.get(PRM(cqc, c_eqn_or_apu_element)));
    const std::vector<Ref> uses = {
        {Kind::eq, eqn}, {Kind::uar, static_cast<core::Number>(context.get(PRM(cqc, uar_page)))}};
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;

    core::CqAttr attr;
    attr.log_entries = static_cast<uint8_t>(context.get(PRM(cqc, log_cq_size)));
    attr.cqe_size = context.get(PRM(cqc, cqe_sz)) ? 128 : 64;
    if (attr.log_entries > core::Limits::kLogMaxCqEntries) return FwStatus::exceeded_limit;
    auto ring =
        ring_area(firmware, command, PRM(create_cq_in, pas[0]).offset / 8,
                  static_cast<uint8_t>(context.get(PRM(cqc, log_page_size))),
                  context.get(PRM(cqc, page_offset)), uint64_t{attr.cqe_size} << attr.log_entries);
    const uint64_t doorbell = context.get(PRM(cqc, dbr_addr));
    std::byte* const record = firmware.memory.translate(doorbell, sizeof(mlx5::CqDoorbell));
    if (!ring || !record || doorbell % sizeof(mlx5::CqDoorbell) != 0)
        return FwStatus::bad_parameter;
    attr.ring = std::move(*ring);
    attr.doorbell = reinterpret_cast<mlx5::CqDoorbell*>(record);
    attr.listener = firmware.listener();
    attr.cookie = eqn;
    attr.events = true;
    const auto cqn = firmware.device.create_cq(std::move(attr));
    if (!cqn) return to_firmware(cqn.error());
    firmware.objects.add(Kind::cq, *cqn, {.context = context.copy(PRM_BYTES(cqc)), .uses = uses});
    answer_number(command, *cqn);
    return FwStatus::ok;
}

FwStatus destroy_cq(Firmware& firmware, Command& command) {
    return destroy_object(firmware, Kind::cq, object_number(command),
                          [&](core::Number cqn) { return firmware.device.destroy_cq(cqn); });
}

FwStatus query_cq(Firmware& firmware, Command& command) {
    return answer_context(command, firmware.objects.find(Kind::cq, object_number(command)),
                          PRM(query_cq_out, cq_context));
}

/// Event moderation may be ignored: we report each completion at once. Resizing is not supported.
FwStatus modify_cq(Firmware& firmware, Command& command) {
    Object* const cq = firmware.objects.find(Kind::cq, object_number(command));
    if (!cq) return FwStatus::bad_resource;
    return command.op_mod == kResize ? FwStatus::bad_parameter : FwStatus::ok;
}

} // namespace

void add_cq_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(CREATE_CQ, create_cq, create_cq),
        PRM_COMMAND(DESTROY_CQ, destroy_cq, destroy_cq),
        PRM_COMMAND(QUERY_CQ, query_cq, query_cq),
        PRM_COMMAND(MODIFY_CQ, modify_cq, modify_cq),
    });
}

} // namespace softhca::pci
