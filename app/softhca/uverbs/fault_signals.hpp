// SPDX-License-Identifier: BSD-3-Clause
// SIGSEGV and SIGBUS: a device thread that meets memory which the program has unmapped goes on; all
// others are for the program, as if nobody else had asked for them.
#pragma once

#include <csignal>

namespace softhca::uverbs::fault_signals {

/// From now on. The program's handlers are kept and called. Does nothing the second time.
void take_over();

/// In a child of fork(2), which has its parent's handlers.
void after_fork_in_child();

/// Whether the program's sigaction(2) for this signal is to be answered by exchange().
[[nodiscard]] bool is_taken(int signal);
/// What sigaction(2) does, to what is called for signals that are the program's.
void exchange(int signal, const struct sigaction* action, struct sigaction* old);

} // namespace softhca::uverbs::fault_signals
