// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/fault_signals.hpp"

#include "app/softhca/core/memory_guard.hpp"
#include "app/softhca/uverbs/original.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <sys/syscall.h>
#include <unistd.h>

namespace softhca::uverbs::fault_signals {
namespace {

constinit Original<int(int, const struct sigaction*, struct sigaction*)> set_action{"sigaction"};

/// The action that the program requested.
struct Kept {
    int signal;
    struct sigaction action;
};
constinit std::array<Kept, 2> kept{Kept{SIGSEGV, {}}, Kept{SIGBUS, {}}};
constinit std::atomic<pid_t> owner{0}; ///< process; 0: not taken over yet
constinit std::atomic_flag busy;

/// Protects `kept`. A handler may interrupt the holder: signals are blocked meanwhile.
class Lock {
  public:
    Lock() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before_);
        while (busy.test_and_set(std::memory_order_acquire)) {
        }
    }
    ~Lock() {
        busy.clear(std::memory_order_release);
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

  private:
    sigset_t before_;
};

Kept* find(int signal) {
    for (Kept& one : kept)
        if (one.signal == signal) return &one;
    return nullptr;
}

/// The program's action, which may be for a single call only.
struct sigaction take_action(int signal) {
    const Lock lock;
    struct sigaction& action = find(signal)->action;
    const struct sigaction taken = action;
    if (taken.sa_flags & static_cast<int>(SA_RESETHAND)) action.sa_handler = SIG_DFL;
    return taken;
}

/// As if the signal had come without this handler: a fault recurs when the instruction is retried.
void die_of(int signal, bool fault) {
    struct sigaction fallback {};
    fallback.sa_handler = SIG_DFL;
    set_action(signal, &fallback, static_cast<struct sigaction*>(nullptr));
    if (!fault) syscall(SYS_tgkill, getpid(), gettid(), signal);
}

void on_signal(int signal, siginfo_t* info, void* context) {
    const int before = errno;
    const bool fault = info->si_code > 0; // not somebody's kill(2)
    if (fault) core::leave_guarded(info->si_addr);

    const struct sigaction action = take_action(signal);
    if (action.sa_handler == SIG_DFL || (action.sa_handler == SIG_IGN && fault)) {
        die_of(signal, fault);
    } else if (action.sa_handler != SIG_IGN) {
        sigset_t mask = action.sa_mask, outside;
        if (!(action.sa_flags & SA_NODEFER)) sigaddset(&mask, signal);
        pthread_sigmask(SIG_BLOCK, &mask, &outside);
        errno = before;
        if (action.sa_flags & SA_SIGINFO)
            action.sa_sigaction(signal, info, context);
        else
            action.sa_handler(signal);
        pthread_sigmask(SIG_SETMASK, &outside, nullptr);
    }
    errno = before;
}

} // namespace

void take_over() {
    const Lock lock;
    if (owner.load() != 0) return;
    struct sigaction ours {};
    ours.sa_sigaction = on_signal;
    // NODEFER: a handler that is left by a jump does not restore the mask. ONSTACK: as the
    // program's own handler may require it.
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    for (Kept& one : kept)
        set_action(one.signal, &ours, &one.action);
    owner.store(getpid());
}

void after_fork_in_child() {
    busy.clear(); // another thread of the parent may have held it
    if (owner.load() != 0) owner.store(getpid());
}

bool is_taken(int signal) {
    // A child of vfork(2) sets its own, which its parent does not share.
    return find(signal) && owner.load() == getpid();
}

void exchange(int signal, const struct sigaction* action, struct sigaction* old) {
    struct sigaction wanted {};
    if (action) wanted = *action; // may be no memory: not while the lock is held
    struct sigaction before {};
    {
        const Lock lock;
        struct sigaction& kept_action = find(signal)->action;
        before = kept_action;
        if (action) kept_action = wanted;
    }
    if (old) *old = before;
}

} // namespace softhca::uverbs::fault_signals
