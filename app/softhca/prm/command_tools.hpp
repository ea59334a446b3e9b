// SPDX-License-Identifier: BSD-3-Clause
// What most commands do: read the number of their object, answer with the number of a new one.
#pragma once

#include "app/softhca/prm/firmware.hpp"

namespace softhca::prm {

/// What the driver includes in an MTU and the core does not: Ethernet header, VLAN tag, FCS.
inline constexpr uint16_t kFrameOverhead = 22;

/// Commands that refer to an object have its number in the low 24 bits of this word; answers to
/// commands that create one have it in the same place.
inline constexpr size_t kNumberAt = 8;

[[nodiscard]] inline core::Number object_number(const Command& command) {
    return net::load_be<uint32_t>(command.in.data() + kNumberAt) & 0xffffff;
}
inline void answer_number(Command& command, core::Number number) {
    net::store_be<uint32_t>(command.out.data() + kNumberAt, number);
}

/// A field that holds an object number.
[[nodiscard]] inline core::Number number(const Fields& fields, Field field) {
    return static_cast<core::Number>(fields.get(field));
}

/// Types of flow tables for received and for sent packets (Linux: enum fs_flow_table_type).
inline constexpr uint8_t kNicReceive = 0, kNicTransmit = 1;

/// The end of CREATE_*: records the new object and answers with its number.
[[nodiscard]] inline FwStatus add_object(Firmware& firmware, Command& command, Kind kind,
                                         core::Number number, Object object) {
    firmware.objects.add(kind, number, std::move(object));
    answer_number(command, number);
    return FwStatus::ok;
}

/// Creates an object that is only a number, from first..last.
[[nodiscard]] inline FwStatus alloc_number(Firmware& firmware, Command& command, Kind kind,
                                           core::Number first, core::Number last) {
    const core::Number number = firmware.objects.new_number(kind, first, last);
    if (number == 0) return FwStatus::exceeded_limit;
    return add_object(firmware, command, kind, number, {});
}

/// Destroys an object: refused while it has users, then destroyed in the core by `destroy`, then
/// forgotten.
template <class Destroy>
[[nodiscard]] FwStatus destroy_object(Firmware& firmware, Kind kind, core::Number number,
                                      Destroy&& destroy) {
    if (const FwStatus status = firmware.objects.can_remove(kind, number); status != FwStatus::ok)
        return status;
    if (const core::Outcome<void> gone = destroy(number); !gone) return to_firmware(gone.error());
    firmware.objects.remove(kind, number);
    return FwStatus::ok;
}
/// Likewise for objects that the core does not know.
[[nodiscard]] inline FwStatus forget_object(Firmware& firmware, Kind kind, core::Number number) {
    return destroy_object(firmware, kind, number,
                          [](core::Number) { return core::Outcome<void>{}; });
}

/// Requests may have changed keys since: makes the objects of keys say, and use, what these do now
/// (cmd_mkey.cpp).
void refresh_keys(Firmware& firmware);

/// The ICM object that contains an address, if the user of the command sees it (cmd_steering.cpp).
[[nodiscard]] std::optional<core::Number> icm_of(Firmware& firmware, uint64_t address);

/// Makes the SQ keep to the rate in that row of the table; row 0: as fast as it can
/// (cmd_pacing.cpp).
[[nodiscard]] FwStatus pace_sq(Firmware& firmware, core::Number sqn, uint64_t index);

/// Answers QUERY_*: puts the object's context at its place in the answer.
[[nodiscard]] inline FwStatus answer_context(Command& command, const Object* object, Field at) {
    if (!object) return FwStatus::bad_resource;
    command.output().at(at).write(object->context);
    return FwStatus::ok;
}

} // namespace softhca::prm
