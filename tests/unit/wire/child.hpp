// SPDX-License-Identifier: BSD-3-Clause
// A forked child that runs one function, for tests that need a second process.
#pragma once

#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace wire_test {

/// The function's result is the exit status. Killed if the test ends first.
class Child {
  public:
    template <class Function> explicit Child(Function function) : pid_(fork()) {
        if (pid_ != 0) return;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(function());
    }
    ~Child() {
        if (pid_ > 0) end(SIGKILL);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    /// Exit status, or 128 + the signal that killed it.
    int wait() {
        int status = 0;
        waitpid(pid_, &status, 0);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    int end(int signal) {
        kill(pid_, signal);
        return wait();
    }

  private:
    pid_t pid_;
};

/// Runs a process that opens a wire, forks and is killed; its child lives on until this one ends.
template <class Open> bool leaves_an_orphan(Open open) {
    static int until_we_end[2], orphan_lives[2];
    if (pipe(until_we_end) < 0 || pipe(orphan_lives) < 0) return false;
    Child parent([&] {
        const auto wire = open();
        if (fork() == 0) {
            close(until_we_end[1]);
            char nothing = 0;
            if (write(orphan_lives[1], &nothing, 1) != 1) _exit(2);
            _exit(read(until_we_end[0], &nothing, 1) == 0 ? 0 : 1);
        }
        char sign; // fork() may return here before it has returned there
        return wire && read(orphan_lives[0], &sign, 1) == 1 && raise(SIGKILL) == 0 ? 1 : 2;
    });
    return parent.wait() == 128 + SIGKILL;
}

} // namespace wire_test
