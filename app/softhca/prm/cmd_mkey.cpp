// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/ring_memory.hpp"

namespace softhca::prm {
namespace {

enum class AccessMode : uint8_t { physical = 0, mtt = 1, klm = 2 };
constexpr uint64_t kPagesPerOctword = 2;
constexpr uint64_t kMaxRegion = uint64_t{1} << 40;

UmemPlace key_umem(Command& command) {
    const Fields in = command.input();
    return {.valid = in.get(PRM(create_mkey_in, mkey_umem_valid)) != 0,
            .id = static_cast<core::Number>(in.get(kMkeyUmem)),
            .offset = in.get(kMkeyUmemOffset)};
}

/// The memory behind a key, or nothing when the command names memory that is not there.
std::optional<core::DmaArea> key_memory(Firmware& firmware, Command& command, const Fields& context,
                                        const core::MkeyAttr& attr) {
    const uint64_t start = attr.iova, length = attr.length;
    if (const UmemPlace umem = key_umem(command); umem.valid)
        return umem_part(firmware, umem, length, attr.local_write);
    const auto shift = static_cast<uint8_t>(context.get(PRM(mkc, log_page_size)));
    const uint64_t octwords =
        command.input().get(PRM(create_mkey_in, translations_octword_actual_size));
    constexpr uint8_t kMinShift = 12;
    if (shift < kMinShift || shift > 40) return {};
    const uint64_t offset = start & ((uint64_t{1} << shift) - 1);
    const auto pages =
        command.pages(PRM(create_mkey_in, klm_pas_mtt[0]).offset / 8, octwords * kPagesPerOctword);
    // The list is padded to whole octwords: only pages that the region reaches must exist.
    const uint64_t needed = (offset + length + (uint64_t{1} << shift) - 1) >> shift;
    if (needed > pages.size()) return {};
    return firmware.memory.area(std::span(pages).first(needed), shift, offset, length);
}

FwStatus create_mkey(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_mkey_in, memory_key_mkey_entry));
    core::MkeyAttr attr;
    attr.pd = static_cast<core::Number>(context.get(PRM(mkc, pd)));
    attr.local_write = context.get(PRM(mkc, lw)) != 0;
    attr.variant = static_cast<uint8_t>(context.get(PRM(mkc, mkey_7_0)));
    std::vector<Ref> uses = {{Kind::pd, attr.pd}};
    const auto mode = static_cast<AccessMode>(context.get(PRM(mkc, access_mode_1_0)) |
                                              context.get(PRM(mkc, access_mode_4_2)) << 2);
    const bool whole_space = context.get(PRM(mkc, length64)) != 0;
    if (mode == AccessMode::mtt) add_use(uses, key_umem(command));
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    if (mode == AccessMode::physical && command.uid != 0) return FwStatus::bad_parameter;
    if (mode == AccessMode::physical) {
        firmware.make_reserved_lkey();
        attr.memory = firmware.all_memory;
        attr.length = whole_space ? attr.memory.length() : context.get(PRM(mkc, len));
        if (!whole_space) attr.iova = 0;
    } else if (mode == AccessMode::mtt && !context.get(PRM(mkc, free))) {
        attr.iova = context.get(PRM(mkc, start_addr));
        attr.length = context.get(PRM(mkc, len));
        if (whole_space || attr.length > kMaxRegion) return FwStatus::bad_parameter;
        auto memory = key_memory(firmware, command, context, attr);
        if (!memory) return FwStatus::bad_parameter;
        attr.memory = std::move(*memory);
    } else if (mode == AccessMode::mtt || mode == AccessMode::klm) {
        attr.length = 0; // a key without memory, to be filled by UMR, which we do not have
    } else {
        return FwStatus::bad_parameter;
    }
    const auto lkey = firmware.device.create_mkey(std::move(attr));
    if (!lkey) return to_firmware(lkey.error());
    const core::Number index = *lkey >> 8;
    return add_object(firmware, command, Kind::mkey, index,
                      {.context = context.copy(PRM_BYTES(mkc)), .uses = uses, .detail = *lkey});
}

FwStatus destroy_mkey(Firmware& firmware, Command& command) {
    return destroy_object(firmware, Kind::mkey, object_number(command), [&](core::Number index) {
        return firmware.device.destroy_mkey(firmware.objects.find(Kind::mkey, index)->detail);
    });
}

FwStatus query_mkey(Firmware& firmware, Command& command) {
    return answer_context(command, firmware.objects.find(Kind::mkey, object_number(command)),
                          PRM(query_mkey_out, memory_key_mkey_entry));
}

} // namespace

void add_mkey_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(CREATE_MKEY, create_mkey, create_mkey),
        PRM_COMMAND(DESTROY_MKEY, destroy_mkey, destroy_mkey),
        PRM_COMMAND(QUERY_MKEY, query_mkey, query_mkey),
    });
}

} // namespace softhca::prm
