// SPDX-License-Identifier: BSD-3-Clause
// DevX: firmware commands from programs, under the kernel's rules. Implemented in devx/, which is
// built where the commands' layouts are known; elsewhere devx_absent.cpp reports that this kernel
// has no DevX.
#pragma once

#include "app/softhca/prm/objects.hpp"
#include "app/softhca/uverbs/objects.hpp"

namespace softhca::uverbs {

class Context;
struct Method;

/// A DevX context as seen by the firmware: a user, whose commands may refer to its verbs objects.
/// The user ends with this object, after everything that it created.
class DevxUser : public DeviceNumbers {
  public:
    /// A number, for use in commands, for a doorbell page with these registers; 0: none left.
    [[nodiscard]] virtual core::Number
    new_uar_number(std::shared_ptr<core::SendRegisters> registers) = 0;
    /// Domain of the context's queues and TIRs.
    [[nodiscard]] virtual core::Number transport_domain() const = 0;
    /// A TIS in that domain, for a sending QP; 0: none left. Destroyed when it is forgotten.
    [[nodiscard]] virtual core::Number make_tis() = 0;
};

/// An object that a program created by a command.
struct DevxObject : Object {
    /// The roles in which flows may refer to it.
    enum class Role : uint8_t { other, tir, flow_table, flow_counters };
    core::Number number = 0;
    Role role = Role::other;
    uint32_t count = 0; ///< of a bulk of counters, which begins with `number`; 0: a single one
};

/// Makes a context a user of the firmware. EOPNOTSUPP: there is no firmware.
[[nodiscard]] Errno open_devx(Context& context);
/// The methods of the ioctl ABI that DevX has.
[[nodiscard]] std::span<const Method> devx_methods();

} // namespace softhca::uverbs
