// SPDX-License-Identifier: BSD-3-Clause
// Arguments of header edits (MODIFY_HEADER_ARGUMENT), created in ranges. RC QPs write them. Source:
// rdma-core, providers/mlx5/mlx5_ifc.h, create_modify_header_arg_in.
#include "app/softhca/prm/general_objects.hpp"

namespace softhca::prm {
namespace {

constexpr size_t kObjectBytes = 20; // of modify_header_arg
constexpr Field kObject{8 * PRM_BYTES(general_obj_in_cmd_hdr), 8 * kObjectBytes};
constexpr Field kAccessPd{0x88, 24};

FwStatus create(Firmware& firmware, Command& command) {
    const Fields in = command.input();
    if (in.size() < kObject.offset / 8 + kObjectBytes) return FwStatus::bad_input_length;
    const Fields object = in.at(kObject);
    const Ref pd{Kind::pd, number(object, kAccessPd)};
    if (!firmware.objects.exist({pd})) return FwStatus::bad_resource;
    const auto made =
        firmware.device.create_edit_arguments(pd.number, 1u << in.get(kLogObjectRange));
    if (!made) return to_firmware(made.error());
    return add_object(firmware, command, Kind::edit_arguments, *made,
                      {.context = object.copy(kObjectBytes), .uses = {pd}});
}

FwStatus destroy(Firmware& firmware, Command& command) {
    return destroy_object(
        firmware, Kind::edit_arguments, general_object_number(command),
        [&](core::Number first) { return firmware.device.destroy_edit_arguments(first); });
}

} // namespace

const GeneralObject& argument_objects() {
    static constexpr GeneralObject kHandlers{create, query_made<Kind::edit_arguments>, destroy};
    return kHandlers;
}

} // namespace softhca::prm
