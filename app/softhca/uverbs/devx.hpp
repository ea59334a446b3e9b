// SPDX-License-Identifier: BSD-3-Clause
// DevX: firmware commands from programs, by the kernel's rules. In devx/, which is built where the
// commands' layouts are known; elsewhere devx_absent.cpp says that this kernel has no DevX.
#pragma once

#include "app/softhca/prm/objects.hpp"
#include "app/softhca/uverbs/objects.hpp"

namespace softhca::uverbs {

class Context;
struct Method;

/// What a DevX context is to the firmware: a user, whose verbs objects commands may name. Ends as a
/// user with this object; all that it has made is gone by then.
class DevxUser : public DeviceNumbers {
  public:
    /// A number for a doorbell page with these registers, as commands have it; 0: none left.
    [[nodiscard]] virtual core::Number
    new_uar_number(std::shared_ptr<core::SendRegisters> registers) = 0;
    /// Of the context's queues and TIRs.
    [[nodiscard]] virtual core::Number transport_domain() const = 0;
    /// A TIS in that domain, for a QP that sends; 0: none left. Goes when it is forgotten.
    [[nodiscard]] virtual core::Number make_tis() = 0;
};

/// An object that a program has made by a command.
struct DevxObject : Object {
    /// What flows may name it as.
    enum class Role : uint8_t { other, tir, flow_table, flow_counters };
    core::Number number = 0;
    Role role = Role::other;
    uint32_t count = 0; ///< of a bulk of counters, which begins with `number`; 0: it is one
};

/// Makes a context a user of the firmware. EOPNOTSUPP: there is none.
[[nodiscard]] Errno open_devx(Context& context);
/// The methods of the ioctl ABI that DevX has.
[[nodiscard]] std::span<const Method> devx_methods();

} // namespace softhca::uverbs
