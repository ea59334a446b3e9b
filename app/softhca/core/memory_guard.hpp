// SPDX-License-Identifier: BSD-3-Clause
// Work on memory that is not ours and may go at any time: a program can unmap what it registered.
// The kernel pins such pages for a device; a device in user space gets a fault, which must end the
// WQE and not the program.
#pragma once

#include <type_traits>

namespace softhca::core {

/// Whose memory a guard looks after.
class GuardedMemory {
  public:
    /// Whether the address belongs to it. Called in a signal handler.
    [[nodiscard]] virtual bool covers(const void* address) const = 0;

  protected:
    ~GuardedMemory() = default;
};

/// Runs work(argument). Null when it came to its end; else the address in `memory` that was not
/// accessible, or in that of a guard around this one: the work was left there and then, so it must
/// own nothing that has a destructor.
/// Needs a handler of SIGSEGV and SIGBUS that calls leave_guarded(). Costs a few instructions.
[[nodiscard]] const void* run_guarded(const GuardedMemory& memory, void (*work)(void*),
                                      void* argument);
template <class Work>
[[nodiscard]] const void* run_guarded(const GuardedMemory& memory, Work&& work) {
    using Function = std::remove_reference_t<Work>;
    return run_guarded(
        memory, [](void* argument) { (*static_cast<Function*>(argument))(); }, &work);
}

/// For the signal handler: goes back into the innermost run_guarded() of this thread, if that or
/// one around it covers the address; returns otherwise.
void leave_guarded(const void* address);

} // namespace softhca::core
