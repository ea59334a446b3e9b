// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/command_tools.hpp"
#include "app/softhca/prm/ring_memory.hpp"

namespace softhca::prm {
namespace {

enum class AccessMode : uint8_t { physical = 0, mtt = 1, klm = 2, ksm = 3, sw_icm = 4 };
constexpr uint64_t kPagesPerOctword = 2;
constexpr uint64_t kMaxRegion = uint64_t{1} << 40;
constexpr uint8_t kMaxLogPart = 40;

UmemPlace key_umem(Command& command) {
    const Fields in = command.input();
    return {.valid = in.get(PRM(create_mkey_in, mkey_umem_valid)) != 0,
            .id = static_cast<core::Number>(in.get(kMkeyUmem)),
            .offset = in.get(kMkeyUmemOffset)};
}

/// The memory behind a key; empty when the command names memory that does not exist.
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
    // The list is padded to whole octwords: only pages within the region must exist.
    const uint64_t needed = (offset + length + (uint64_t{1} << shift) - 1) >> shift;
    if (needed > pages.size()) return {};
    return firmware.memory.area(std::span(pages).first(needed), shift, offset, length);
}

// An entry of that list; the kernel's header has none. Source: mlx5_prm.h of DPDK.
constexpr size_t kKlmBytes = 16;
constexpr Field kKlmCount{0, 32}, kKlmKey{0x20, 32}, kKlmAddress{0x40, 64};

/// The keys that an indirect key consists of; `log_bytes`: the size of each, otherwise each states
/// its own. The list is padded with empty ones.
std::vector<core::KeyPart> key_parts(Command& command, std::optional<uint8_t> log_bytes) {
    constexpr size_t kFirst = PRM(create_mkey_in, klm_pas_mtt[0]).offset;
    const Fields in = command.input();
    const uint64_t count =
        std::min<uint64_t>(in.get(PRM(create_mkey_in, translations_octword_actual_size)),
                           (in.size() - std::min(in.size(), kFirst / 8)) / kKlmBytes);
    std::vector<core::KeyPart> parts;
    for (uint64_t i = 0; i < count; i++) {
        const Fields klm = in.at({kFirst + i * kKlmBytes * 8, 0});
        const auto lkey = static_cast<uint32_t>(klm.get(kKlmKey));
        const uint64_t bytes = log_bytes ? uint64_t{1} << *log_bytes : klm.get(kKlmCount);
        if (lkey != 0) parts.push_back({lkey, klm.get(kKlmAddress), bytes});
    }
    return parts;
}

/// Memory, or parts, of a key that has them from creation on.
FwStatus fill_key(Firmware& firmware, Command& command, const Fields& context, AccessMode mode,
                  core::MkeyAttr& attr) {
    attr.iova = context.get(PRM(mkc, start_addr));
    attr.length = context.get(PRM(mkc, len));
    if (context.get(PRM(mkc, length64)) || attr.length > kMaxRegion) return FwStatus::bad_parameter;
    if (mode == AccessMode::mtt) {
        auto memory = key_memory(firmware, command, context, attr);
        if (!memory) return FwStatus::bad_parameter;
        attr.memory = std::move(*memory);
        return FwStatus::ok;
    }
    std::optional<uint8_t> log_bytes;
    if (mode == AccessMode::ksm)
        log_bytes = static_cast<uint8_t>(context.get(PRM(mkc, log_page_size)));
    if (log_bytes.value_or(0) > kMaxLogPart) return FwStatus::bad_parameter;
    attr.parts = key_parts(command, log_bytes);
    return FwStatus::ok;
}

/// A part of ICM that programs write; addresses in the key start at its beginning.
FwStatus fill_icm_key(Firmware& firmware, const Fields& context, core::MkeyAttr& attr,
                      std::vector<Ref>& uses) {
    const uint64_t start = context.get(PRM(mkc, start_addr));
    attr.length = context.get(PRM(mkc, len));
    const auto icm = icm_of(firmware, start);
    auto memory = firmware.device.icm_area(start, attr.length);
    if (!icm || !memory) return FwStatus::bad_resource;
    attr.memory = std::move(*memory);
    uses.push_back({Kind::sw_icm, *icm});
    return FwStatus::ok;
}

FwStatus create_mkey(Firmware& firmware, Command& command) {
    const Fields context = command.input().at(PRM(create_mkey_in, memory_key_mkey_entry));
    core::MkeyAttr attr;
    attr.pd = static_cast<core::Number>(context.get(PRM(mkc, pd)));
    attr.local_write = context.get(PRM(mkc, lw)) != 0;
    attr.remote_read = context.get(PRM(mkc, rr)) != 0;
    attr.remote_write = context.get(PRM(mkc, rw)) != 0;
    attr.free = context.get(PRM(mkc, free)) != 0;
    attr.variant = static_cast<uint8_t>(context.get(PRM(mkc, mkey_7_0)));
    std::vector<Ref> uses = {{Kind::pd, attr.pd}};
    const auto mode = static_cast<AccessMode>(context.get(PRM(mkc, access_mode_1_0)) |
                                              context.get(PRM(mkc, access_mode_4_2)) << 2);
    const bool listed =
        command.input().get(PRM(create_mkey_in, translations_octword_actual_size)) != 0;
    const bool whole_space = context.get(PRM(mkc, length64)) != 0;
    if (mode == AccessMode::mtt) add_use(uses, key_umem(command));
    if (!firmware.objects.exist(uses)) return FwStatus::bad_resource;
    if (mode == AccessMode::physical && command.uid != 0) return FwStatus::bad_parameter;
    if (mode == AccessMode::physical) {
        firmware.make_reserved_lkey();
        attr.memory = firmware.all_memory;
        attr.length = whole_space ? attr.memory.length() : context.get(PRM(mkc, len));
        if (!whole_space) attr.iova = 0;
    } else if (mode > AccessMode::sw_icm) {
        return FwStatus::bad_parameter;
    } else if (mode == AccessMode::sw_icm) {
        if (const FwStatus status = fill_icm_key(firmware, context, attr, uses);
            status != FwStatus::ok)
            return status;
    } else if (!context.get(PRM(mkc, free)) && (mode == AccessMode::mtt || listed)) {
        if (const FwStatus status = fill_key(firmware, command, context, mode, attr);
            status != FwStatus::ok)
            return status;
    } else {
        attr.length = 0; // a key without memory, which requests do not give it here either
    }
    const auto lkey = firmware.device.create_mkey(std::move(attr));
    if (!lkey) return to_firmware(lkey.error());
    const core::Number index = *lkey >> 8;
    return add_object(firmware, command, Kind::mkey, index,
                      {.context = context.copy(PRM_BYTES(mkc)), .uses = uses, .detail = *lkey});
}

/// Makes the object of a key say what the key is now.
void refresh_key(Firmware& firmware, core::Number index, Object& object) {
    const auto now = firmware.device.query_mkey(index);
    if (!now) return;
    object.detail = now->lkey;
    Fields context(object.context.data(), object.context.size());
    context.set(PRM(mkc, mkey_7_0), now->lkey & 0xff);
    context.set(PRM(mkc, free), now->free);
    context.set(PRM(mkc, lw), now->local_write);
    context.set(PRM(mkc, rr), now->remote_read);
    context.set(PRM(mkc, rw), now->remote_write);
    if (context.get(PRM(mkc, pd)) == now->pd) return;
    context.set(PRM(mkc, pd), now->pd);
    std::vector<Ref> uses = object.uses;
    std::erase_if(uses, [](const Ref& ref) { return ref.kind == Kind::pd; });
    // The firmware's own PD is no object.
    if (firmware.objects.look_up(Kind::pd, now->pd)) uses.push_back({Kind::pd, now->pd});
    firmware.objects.set_uses(object, std::move(uses));
}

/// The object of the key that the command is about, as the key is now; null if there is none.
Object* current_key(Firmware& firmware, const Command& command) {
    Object* const object = firmware.objects.find(Kind::mkey, object_number(command));
    if (object) refresh_key(firmware, object_number(command), *object);
    return object;
}

FwStatus destroy_mkey(Firmware& firmware, Command& command) {
    const Object* const key = current_key(firmware, command);
    return destroy_object(firmware, Kind::mkey, object_number(command),
                          [&](core::Number) { return firmware.device.destroy_mkey(key->detail); });
}

FwStatus query_mkey(Firmware& firmware, Command& command) {
    return answer_context(command, current_key(firmware, command),
                          PRM(query_mkey_out, memory_key_mkey_entry));
}

} // namespace

void refresh_keys(Firmware& firmware) {
    for (const core::Number index : firmware.objects.numbers(Kind::mkey))
        refresh_key(firmware, index, *firmware.objects.look_up(Kind::mkey, index));
}

void add_mkey_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(CREATE_MKEY, create_mkey, create_mkey),
        PRM_COMMAND(DESTROY_MKEY, destroy_mkey, destroy_mkey),
        PRM_COMMAND(QUERY_MKEY, query_mkey, query_mkey),
    });
}

} // namespace softhca::prm
