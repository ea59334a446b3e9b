// SPDX-License-Identifier: BSD-3-Clause
// General objects: four commands for all of them, with a type that says what an object is.
#pragma once

#include "app/softhca/prm/command_tools.hpp"

namespace softhca::prm {

/// Handlers of the commands for objects of one type.
struct GeneralObject {
    FwStatus (*create)(Firmware&, Command&);
    FwStatus (*query)(Firmware&, Command&);
    FwStatus (*destroy)(Firmware&, Command&);
    FwStatus (*modify)(Firmware&, Command&) = nullptr; ///< null: they cannot be modified
};

/// Where the object is in the answer to a query.
inline constexpr Field kGeneralObject{8 * PRM_BYTES(general_obj_out_cmd_hdr), 0};

/// How many objects a command creates, for types that come in ranges. Newer headers have it in a
/// union (general_obj_create_param).
inline constexpr Field kLogObjectRange{0x63, 5};
/// Not in the kernel's header. Source: rdma-core, providers/mlx5/mlx5_ifc.h.
inline constexpr uint64_t kModifyArgumentType = 0x23; // MLX5_OBJ_TYPE_HEADER_MODIFY_ARGUMENT

// General objects of virtio emulation. Source: mlx5_prm.h of DPDK.
inline constexpr uint64_t kVirtioNetQType = 0x0d, kVirtioQCountersType = 0x1c;

[[nodiscard]] inline core::Number general_object_number(Command& command) {
    return number(command.input(), PRM(general_obj_in_cmd_hdr, obj_id));
}

/// The query of objects that cannot be modified.
template <Kind K> FwStatus query_made(Firmware& firmware, Command& command) {
    return answer_context(command, firmware.objects.find(K, general_object_number(command)),
                          kGeneralObject);
}

[[nodiscard]] const GeneralObject& icm_objects();
[[nodiscard]] const GeneralObject& sampler_objects();
[[nodiscard]] const GeneralObject& meter_objects();
[[nodiscard]] const GeneralObject& definer_objects();
[[nodiscard]] const GeneralObject& argument_objects();
[[nodiscard]] const GeneralObject& virtq_objects();
[[nodiscard]] const GeneralObject& virtq_counter_objects();

} // namespace softhca::prm
