// SPDX-License-Identifier: BSD-3-Clause
// sigaction(2) and its predecessors, for the two signals that device threads need (see
// fault_signals.hpp).
#include "app/softhca/uverbs/fault_signals.hpp"
#include "app/softhca/uverbs/original.hpp"

namespace {

using namespace softhca::uverbs;
using Handler = void (*)(int);

namespace original {
constinit Original<int(int, const struct sigaction*, struct sigaction*)> sigaction{"sigaction"};
constinit Original<Handler(int, Handler)> signal{"signal"};
constinit Original<Handler(int, Handler)> sysv_signal{"__sysv_signal"};
} // namespace original

__attribute__((constructor)) void prepare() {
    (void)original::sigaction.get();
    (void)original::signal.get();
    (void)original::sysv_signal.get();
}

Handler exchange(int signal, Handler handler, int flags) {
    struct sigaction action {
    }, old;
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    fault_signals::exchange(signal, &action, &old);
    return old.sa_handler;
}

} // namespace

extern "C" {

SOFTHCA_EXPORT int sigaction(int signal, const struct sigaction* action,
                             struct sigaction* old) noexcept {
    if (!fault_signals::is_taken(signal)) return original::sigaction(signal, action, old);
    fault_signals::exchange(signal, action, old);
    return 0;
}

SOFTHCA_EXPORT Handler signal(int signal, Handler handler) noexcept {
    return fault_signals::is_taken(signal) ? exchange(signal, handler, SA_RESTART)
                                           : original::signal(signal, handler);
}
SOFTHCA_EXPORT Handler __sysv_signal(int signal, Handler handler) noexcept {
    return fault_signals::is_taken(signal)
               ? exchange(signal, handler, static_cast<int>(SA_RESETHAND) | SA_NODEFER)
               : original::sysv_signal(signal, handler);
}

} // extern "C"
