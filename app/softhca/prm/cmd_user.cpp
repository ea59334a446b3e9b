// SPDX-License-Identifier: BSD-3-Clause
// Users of the firmware besides its driver, and the memory that they register.
#include "app/softhca/prm/command_tools.hpp"

namespace softhca::prm {
namespace {

FwStatus create_uctx(Firmware& firmware, Command& command) {
    if (command.uid != 0) return FwStatus::bad_operation;
    const core::Number uid = firmware.objects.new_number(Kind::uctx, 1, kSharedUid - 1);
    if (uid == 0) return FwStatus::exceeded_limit;
    const Fields context = command.input().at(PRM(create_uctx_in, uctx));
    firmware.objects.add(Kind::uctx, uid,
                         {.detail = static_cast<uint32_t>(context.get(PRM(uctx, cap)))});
    command.output().set(PRM(create_uctx_out, uid), uid);
    return FwStatus::ok;
}

FwStatus destroy_uctx(Firmware& firmware, Command& command) {
    if (command.uid != 0) return FwStatus::bad_operation;
    const auto uid = static_cast<core::Number>(command.input().get(PRM(destroy_uctx_in, uid)));
    const bool has_rate = std::ranges::any_of(
        firmware.rates, [&](const PacingRate& row) { return row.rate != 0 && row.uid == uid; });
    if (has_rate || firmware.objects.has_owner(static_cast<uint16_t>(uid)))
        return FwStatus::resource_busy; // or the next user of this number would have them
    return forget_object(firmware, Kind::uctx, uid);
}

/// The pages of a umem; nothing says how much of the last one was registered.
FwStatus create_umem(Firmware& firmware, Command& command) {
    constexpr Field kUmem = PRM(create_umem_in, umem);
    constexpr uint8_t kLogPage = 12, kMaxLogPage = 40;
    constexpr uint64_t kWritable = 2, kMostPages = uint64_t{1} << 28;
    const Fields umem = command.input().at(kUmem);
    const auto shift = static_cast<uint8_t>(kLogPage + umem.get(PRM(umem, log_page_size)));
    const uint64_t offset = umem.get(PRM(umem, page_offset));
    const uint64_t count = umem.get(PRM(umem, num_of_mtt));
    const auto pages =
        command.pages((kUmem.offset + PRM(umem, mtt[0]).offset) / 8, std::min(count, kMostPages));
    if (shift > kMaxLogPage || count == 0 || offset >> shift != 0) return FwStatus::bad_parameter;
    if (pages.size() != count) return FwStatus::bad_input_length;
    auto memory = firmware.memory.area(pages, shift, offset, (count << shift) - offset);
    if (!memory) return FwStatus::bad_parameter;
    const core::Number number = firmware.objects.new_number(Kind::umem, 1, 0xffffff);
    if (number == 0) return FwStatus::exceeded_limit;
    const bool writable =
        std::ranges::all_of(pages, [](uint64_t page) { return (page & kWritable) != 0; });
    firmware.umems[number] = {std::move(*memory), writable};
    return add_object(firmware, command, Kind::umem, number, {});
}

FwStatus destroy_umem(Firmware& firmware, Command& command) {
    const core::Number number = object_number(command);
    const FwStatus status = forget_object(firmware, Kind::umem, number);
    if (status == FwStatus::ok) firmware.umems.erase(number);
    return status;
}

} // namespace

void add_user_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(CREATE_UCTX, create_uctx, create_uctx),
        PRM_COMMAND(DESTROY_UCTX, destroy_uctx, destroy_uctx),
        PRM_COMMAND(CREATE_UMEM, create_umem, create_umem),
        PRM_COMMAND(DESTROY_UMEM, destroy_umem, destroy_umem),
    });
}

} // namespace softhca::prm
