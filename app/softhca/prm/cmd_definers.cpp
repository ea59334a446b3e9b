// SPDX-License-Identifier: BSD-3-Clause
// Match definers: what full-size steering entries match on.
#include "app/softhca/core/ste/entry.hpp"
#include "app/softhca/prm/general_objects.hpp"

#include <cstring>

namespace softhca::prm {
namespace {

/// The mask has more words than a tag; the tag's are the last ones.
constexpr size_t kTagBits = 8 * core::ste::kTagBytes;
constexpr Field kMask{8 * PRM_BYTES(match_definer) - kTagBits, kTagBits};

FwStatus create(Firmware& firmware, Command& command) {
    if (command.in.size() < PRM_BYTES(create_match_definer_in)) return FwStatus::bad_input_length;
    const Fields object = command.input().at(PRM(create_match_definer_in, obj_context));
    core::ste::Definer definer{
        .layout = static_cast<uint16_t>(object.get(PRM(match_definer, format_id)))};
    std::memcpy(definer.mask.data(), object.at(kMask).data(), definer.mask.size());
    const auto made = firmware.device.create_definer(definer);
    if (!made) return to_firmware(made.error());
    return add_object(firmware, command, Kind::definer, *made,
                      {.context = object.copy(PRM_BYTES(match_definer))});
}

FwStatus destroy(Firmware& firmware, Command& command) {
    return destroy_object(
        firmware, Kind::definer, general_object_number(command),
        [&](core::Number definer) { return firmware.device.destroy_definer(definer); });
}

} // namespace

const GeneralObject& definer_objects() {
    static constexpr GeneralObject kHandlers{create, query_made<Kind::definer>, destroy};
    return kHandlers;
}

} // namespace softhca::prm
