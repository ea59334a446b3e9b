// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/doorbells.hpp"
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/ring_memory.hpp"

namespace softhca::prm {
namespace {

constexpr uint16_t kResize = 1; // op_mod of MODIFY_CQ

/// CREATE_CQ and MODIFY_CQ have the same fields in the same places.
UmemPlace ring_umem(Command& command) {
    static_assert(PRM(create_cq_in, cq_umem_valid).offset ==
                  PRM(modify_cq_in, cq_umem_valid).offset);
    const Fields in = command.input();
    return {.valid = in.get(PRM(create_cq_in, cq_umem_valid)) != 0,
            .id = static_cast<core::Number>(in.get(kCqUmem)),
            .offset = in.get(kCqUmemOffset)};
}

/// The ring described by a CQ context and what follows it.
std::optional<core::DmaArea> cq_ring(const Firmware& firmware, Command& command,
                                     const Fields& context, Field pages, const core::CqAttr& attr) {
    return ring_area(firmware, command, ring_umem(command),
                     {.at = pages.offset / 8,
                      .log_page = static_cast<uint8_t>(context.get(PRM(cqc, log_page_size))),
                      .page_offset = context.get(PRM(cqc, page_offset))},
                     uint64_t{attr.cqe_size} << attr.log_entries, true);
}

/// The contents of a CQ's mini CQEs: MLX5_CQE_FORMAT_* of the kernel. Null: not one of these.
std::optional<core::MiniFormat> mini_format(uint64_t prm) {
    switch (prm) {
    case 0: return core::MiniFormat::hash;
    case 1: return core::MiniFormat::checksum;
    case 3: return core::MiniFormat::checksum_stride;
    default: return {};
    }
}

/// Sizes only: of a CQ that is being created, or that gets another ring.
core::CqAttr read_sizes(const Fields& context) {
    core::CqAttr attr;
    attr.log_entries = static_cast<uint8_t>(context.get(PRM(cqc, log_cq_size)));
    attr.cqe_size = context.get(PRM(cqc, cqe_sz)) ? 128 : 64;
    return attr;
}

FwStatus create_cq(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_cq_in, cq_context));
    const auto eqn = static_cast<core::Number>(context.get(PRM(cqc, c_eqn_or_apu_element)));
    const UmemPlace record{.valid = context.get(PRM(cqc, dbr_umem_valid)) != 0,
                           .id = static_cast<core::Number>(context.get(kCqRecordUmem)),
                           .offset = context.get(PRM(cqc, dbr_addr))};
    std::vector<Ref> uses = {
        {Kind::eq, eqn}, {Kind::uar, static_cast<core::Number>(context.get(PRM(cqc, uar_page)))}};
    add_use(uses, record);
    add_use(uses, ring_umem(command));
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;

    core::CqAttr attr = read_sizes(context);
    if (attr.log_entries > core::Limits::kLogMaxCqEntries) return FwStatus::exceeded_limit;
    auto ring = cq_ring(firmware, command, context, PRM(create_cq_in, pas[0]), attr);
    attr.doorbell =
        core::mlx5_rings::cq_doorbell(doorbell_record<mlx5::CqDoorbell>(firmware, record, true));
    if (!ring || !attr.doorbell) return FwStatus::bad_parameter;
    attr.ring = std::move(*ring);
    attr.listener = firmware.listener();
    attr.cookie = eqn;
    attr.events = true;
    attr.ignore_overrun = context.get(PRM(cqc, oi)) != 0;
    attr.collapsed = context.get(PRM(cqc, cc)) != 0;
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
    std::vector<Ref> uses = {};
    add_use(uses, ring_umem(command));
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    auto ring = cq_ring(firmware, command, given, PRM(modify_cq_in, pas[0]), attr);
    if (!ring) return FwStatus::bad_parameter;
    const auto resized = firmware.device.resize_cq(object_number(command), std::move(*ring),
                                                   attr.log_entries, attr.cqe_size);
    if (!resized) return to_firmware(resized.error());
    // The umem of the former ring is still read: it contains the CQE that ends that ring.
    uses.insert(uses.end(), cq.uses.begin(), cq.uses.end());
    firmware.objects.set_uses(cq, std::move(uses));
    Fields context(cq.context.data(), cq.context.size());
    for (const Field field :
         {PRM(cqc, log_cq_size), PRM(cqc, cqe_sz), PRM(cqc, log_page_size), PRM(cqc, page_offset)})
        context.set(field, given.get(field));
    return FwStatus::ok;
}

/// Event moderation is stored without effect: every completion is reported at once.
FwStatus modify_cq(Firmware& firmware, Command& command) {
    // Linux: MLX5_CQ_MODIFY_* of <linux/mlx5/cq.h>
    constexpr uint64_t kPeriod = 1u << 0, kMaxCount = 1u << 1, kOverrun = 1u << 2;
    Object* const cq = firmware.objects.find(Kind::cq, object_number(command));
    if (!cq) return FwStatus::bad_resource;
    if (command.op_mod == kResize) return resize_cq(firmware, command, *cq);
    const uint64_t fields =
        command.input().get(PRM(modify_cq_in, modify_field_select_resize_field_select));
    if (fields & ~(kPeriod | kMaxCount | kOverrun)) return FwStatus::bad_parameter;
    const Fields given = command.input().at(PRM(modify_cq_in, cq_context));
    Fields context(cq->context.data(), cq->context.size());
    const auto take = [&](Field field) { context.set(field, given.get(field)); };
    if (fields & kPeriod) take(PRM(cqc, cq_period));
    if (fields & kMaxCount) take(PRM(cqc, cq_max_count));
    if (fields & kOverrun) {
        take(PRM(cqc, oi));
        (void)firmware.device.ignore_cq_overrun(object_number(command),
                                                given.get(PRM(cqc, oi)) != 0);
    }
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
