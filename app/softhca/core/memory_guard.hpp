// SPDX-License-Identifier: BSD-3-Clause
// Access to memory that other code owns and that may disappear at any time: a program can unmap
// what it registered. For a real device the kernel pins such pages; a device in user space gets a
// fault, which must end the WQE and not the program.
#pragma once

#include <type_traits>

namespace softhca::core {

/// The owner of the memory that a guard protects.
class GuardedMemory {
  public:
    /// Whether the address belongs to it. Called from a signal handler.
    [[nodiscard]] virtual bool covers(const void* address) const = 0;

  protected:
    ~GuardedMemory() = default;
};

/// Runs work(argument). Returns null when it completed; otherwise the inaccessible address, which
/// is in `memory` or in that of an enclosing guard. In that case the work was abandoned on the
/// spot, so it must not own anything that has a destructor.
/// Needs a handler of SIGSEGV and SIGBUS that calls leave_guarded(). Costs a few instructions.
[[nodiscard]] const void* run_guarded(const GuardedMemory& memory, void (*work)(void*),
                                      void* argument);
template <class Work>
[[nodiscard]] const void* run_guarded(const GuardedMemory& memory, Work&& work) {
    using Function = std::remove_reference_t<Work>;
    return run_guarded(
        memory, [](void* argument) { (*static_cast<Function*>(argument))(); }, &work);
}

/// For the signal handler: jumps back into the innermost run_guarded() of this thread, if it or an
/// enclosing one covers the address; returns otherwise.
void leave_guarded(const void* address);

} // namespace softhca::core
