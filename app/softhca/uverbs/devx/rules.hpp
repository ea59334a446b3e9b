// SPDX-License-Identifier: BSD-3-Clause
// Which firmware commands the kernel lets programs run, and what it knows about their objects.
#pragma once

#include "app/softhca/prm/fields.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace softhca::uverbs::devx {

/// How objects of one kind are created and destroyed.
struct ObjectRule {
    uint16_t create;
    bool by_input;    ///< the number is in the creating command, not in its answer
    prm::Field id;    ///< the number, there …
    uint16_t destroy; ///< … and in the command that destroys it,
    prm::Field destroy_id;
    size_t destroy_bytes = 16;
    /// which also contains these bytes of the creating command.
    size_t copied_from = 0, copied_to = 0;
};

/// How a command creates an object; null: DevX has no such command.
[[nodiscard]] const ObjectRule* create_rule(std::span<const uint8_t> command);
[[nodiscard]] bool is_modify(std::span<const uint8_t> command);
[[nodiscard]] bool is_query(std::span<const uint8_t> command);
/// Commands about the device as a whole.
[[nodiscard]] bool is_general(std::span<const uint8_t> command);
/// Commands that need no DevX context.
[[nodiscard]] bool is_for_everyone(std::span<const uint8_t> command);

/// Identifies an object by the command that creates it (with its type, for general objects) and its
/// number. For a command of modify or query kind, the object concerned; 0: none that is known.
[[nodiscard]] constexpr uint64_t object_id(uint32_t create, uint32_t number) {
    return uint64_t{create} << 32 | number;
}
[[nodiscard]] uint64_t object_of(std::span<const uint8_t> command);
/// The command that created the object: an opcode, and for general objects the type in the upper
/// half.
[[nodiscard]] uint32_t maker_of(std::span<const uint8_t> create_command);

/// The command that destroys what `command`, with its answer, has created.
[[nodiscard]] std::vector<uint8_t>
destroy_command(const ObjectRule& rule, std::span<const uint8_t> command, uint32_t number);

/// Marks rings, records and regions of the command as being in umems, whatever it says itself: no
/// program uses bus addresses.
void force_umems(std::span<uint8_t> command);

[[nodiscard]] constexpr bool contains(std::span<const uint16_t> list, uint16_t value) {
    return std::ranges::find(list, value) != list.end();
}
[[nodiscard]] uint16_t opcode_of(std::span<const uint8_t> command);
[[nodiscard]] uint64_t get(std::span<const uint8_t> bytes, prm::Field field);
void set(std::span<uint8_t> bytes, prm::Field field, uint64_t value);

} // namespace softhca::uverbs::devx
