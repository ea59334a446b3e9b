// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/command_tools.hpp"

namespace softhca::prm {
namespace {

constexpr uint16_t kResize = 1; // op_mod of MODIFY_CQ

/// The ring that a CQ context and the page list after it describe.
std::optional<core::DmaArea> cq_ring(const Firmware& firmware, const Command& command,
                                     const Fields& context, Field pages, const core::CqAttr& attr) {
    return ring_area(firmware, command, pages.offset / 8,
                     static_cast<uint8_t>(context.get(PRM(cqc, log_page_size))),
                     context.get(PRM(cqc, page_offset)),
                     uint64_t{attr.cqe_size} << attr.log_entries);
}

/// What a CQ's mini CQEs are to hold: MLX5_CQE_FORMAT_* of the kernel. Null: not among these.
std::optional<core::MiniFormat> mini_format(uint64_t prm) {
    switch (prm) {
    case 0: return core::MiniFormat::hash;
    case 1: return core::MiniFormat::checksum;
    case 3: return core::MiniFormat::checksum_stride;
    default: return {};
    }
}

/// Sizes only: of a CQ that is created, or is to get another ring.
core::CqAttr read_sizes(const Fields& context) {
    core::CqAttr attr;
    attr.log_entries = static_cast<uint8_t>(context.get(PRM(cqc, log_cq_size)));
    attr.cqe_size = context.get(PRM(cqc, cqe_sz)) ? 128 : 64;
    return attr;
}

FwStatus create_cq(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_cq_in, cq_context));
    const auto eqn = static_cast<core::Number>(context.get(PRM(cqc, c_eqn_or_apu_element)));
    const std::vector<Ref> uses = {
        {Kind::eq, eqn}, {Kind::uar, static_cast<core::Number>(context.get(PRM(cqc, uar_page)))}};
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;

    core::CqAttr attr = read_sizes(context);
    if (attr.log_entries > core::Limits::kLogMaxCqEntries) return FwStatus::exceeded_limit;
    auto ring = cq_ring(firmware, command, context, PRM(create_cq_in, pas[0]), attr);
    const uint64_t doorbell = context.get(PRM(cqc, dbr_addr));
    std::byte* const record = firmware.memory.translate(doorbell, sizeof(mlx5::CqDoorbell));
    if (!ring || !record || doorbell % sizeof(mlx5::CqDoorbell) != 0)
        return FwStatus::bad_parameter;
    attr.ring = std::move(*ring);
    attr.doorbell = reinterpret_cast<mlx5::CqDoorbell*>(record);
    attr.listener = firmware.listener();
    attr.cookie = eqn;
    attr.events = true;
    if (context.get(PRM(cqc, cqe_comp_en)) != 0) {
        attr.compress = mini_format(context.get(PRM(cqc, mini_cqe_res_format)));
        if (!attr.compress || attr.cqe_size != sizeof(mlx5::Cqe)) return FwStatus::bad_parameter;
    }
    const auto cqn = firmware.device.create_cq(attr);
    if (!cqn) return to_firmware(cqn.error());
    return add_object(firmware, command, Kind::cq, *cqn,
                      {.context = context.copy(PRM_BYTES(cqc)), .uses = uses});
}

FwStatus destroy_cq(Firmware& firmware, Command& command) {
    return destroy_object(firmware, Kind::cq, object_number(command),
                          [&](core::Number cqn) { return firmware.device.destroy_cq(cqn); });
}

FwStatus query_cq(Firmware& firmware, Command& command) {
    return answer_context(command, firmware.objects.find(Kind::cq, object_number(command)),
                          PRM(query_cq_out, cq_context));
}

FwStatus resize_cq(Firmware& firmware, Command& command, Object& cq) {
    const Fields given = command.input().at(PRM(modify_cq_in, cq_context));
    const core::CqAttr attr = read_sizes(given);
    if (attr.log_entries > core::Limits::kLogMaxCqEntries) return FwStatus::exceeded_limit;
    auto ring = cq_ring(firmware, command, given, PRM(modify_cq_in, pas[0]), attr);
    if (!ring) return FwStatus::bad_parameter;
    const auto resized = firmware.device.resize_cq(object_number(command), std::move(*ring),
                                                   attr.log_entries, attr.cqe_size);
    if (!resized) return to_firmware(resized.error());
    Fields context(cq.context.data(), cq.context.size());
    for (const Field field :
         {PRM(cqc, log_cq_size), PRM(cqc, cqe_sz), PRM(cqc, log_page_size), PRM(cqc, page_offset)})
        context.set(field, given.get(field));
    return FwStatus::ok;
}

/// Event moderation is kept and changes nothing: we report each completion at once.
FwStatus modify_cq(Firmware& firmware, Command& command) {
    Object* const cq = firmware.objects.find(Kind::cq, object_number(command));
    if (!cq) return FwStatus::bad_resource;
    if (command.op_mod == kResize) return resize_cq(firmware, command, *cq);
    const Fields given = command.input().at(PRM(modify_cq_in, cq_context));
    Fields context(cq->context.data(), cq->context.size());
    for (const Field field : {PRM(cqc, cq_period), PRM(cqc, cq_max_count)})
        context.set(field, given.get(field));
    return FwStatus::ok;
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

} // namespace softhca::prm
