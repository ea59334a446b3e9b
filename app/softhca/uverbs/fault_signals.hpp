// SPDX-License-Identifier: BSD-3-Clause
// SIGSEGV and SIGBUS: a device thread that hits memory which the program has unmapped continues;
// all other faults go to the program, as if nothing else handled them.
#pragma once

#include <csignal>

namespace softhca::uverbs::fault_signals {

/// Starts handling. The program's handlers are kept and called. No effect the second time.
void take_over();

/// In a child of fork(2), which has its parent's handlers.
void after_fork_in_child();

/// Whether exchange() must handle the program's sigaction(2) for this signal.
[[nodiscard]] bool is_taken(int signal);
/// Acts like sigaction(2) on the handlers that are called for the program's signals.
void exchange(int signal, const struct sigaction* action, struct sigaction* old);

} // namespace softhca::uverbs::fault_signals
