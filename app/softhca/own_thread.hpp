// SPDX-License-Identifier: BSD-3-Clause
// Threads of softhca's own inside the program that it is loaded into.
#pragma once

#include <csignal>
#include <initializer_list>
#include <pthread.h>
#include <thread>
#include <utility>

namespace softhca {

/// What keeps a program from starting another thread.
inline constexpr const char* kThreadLimits =
    "raise ulimit -u or -v, or the container's limit of processes (--pids-limit)";

/// Starts a thread with all signals blocked but these: signals belong to the program and its own
/// threads. Throws std::system_error if there are too many threads.
template <class Body>
[[nodiscard]] std::thread own_thread(Body&& body, std::initializer_list<int> let_in = {}) {
    struct Blocked {
        explicit Blocked(std::initializer_list<int> let_in) {
            sigset_t others;
            sigfillset(&others);
            for (const int signal : let_in)
                sigdelset(&others, signal);
            pthread_sigmask(SIG_SETMASK, &others, &before);
        }
        ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
        Blocked(const Blocked&) = delete;
        Blocked& operator=(const Blocked&) = delete;
        sigset_t before;
    };
    const Blocked meanwhile(let_in); // a thread inherits the mask
    return std::thread(std::forward<Body>(body));
}

} // namespace softhca
