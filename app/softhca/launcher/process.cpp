// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/process.hpp"

#include "app/softhca/fd.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace softhca::launcher {
namespace {

constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// In the child. Returns only if the program cannot be run.
void execute(const std::vector<std::string>& program, pid_t launcher) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(0); // it died before the line above
    std::vector<char*> arguments;
    arguments.reserve(program.size() + 1);
    for (const std::string& argument : program)
        arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
}

} // namespace

SignalForwarding::SignalForwarding() {
    std::signal(SIGCHLD, SIG_DFL); // an inherited SIG_IGN would throw the exit status away
    sigemptyset(&held_);
    for (const int signal : kForwarded)
        sigaddset(&held_, signal);
    sigaddset(&held_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &held_, &before_);
}

SignalForwarding::~SignalForwarding() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

void SignalForwarding::restore_in_child() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

int SignalForwarding::wait_for(pid_t child) const {
    for (;;) {
        siginfo_t info{};
        const int signal = sigwaitinfo(&held_, &info);
        if (signal == SIGCHLD) {
            int status = 0;
            if (waitpid(child, &status, WNOHANG) != child) continue;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        // What the terminal sent (Ctrl-C), the program has got as well: it is in our group.
        if (signal > 0 && info.si_code != SI_KERNEL) kill(child, signal);
    }
}

Result<pid_t> spawn(const std::vector<std::string>& program, const SignalForwarding& signals) {
    // Closed by a successful exec; carries errno otherwise.
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return fail(errno, "pipe: {}", std::strerror(errno));
    Fd from_child(ends[0]), to_parent(ends[1]);

    const pid_t launcher = getpid();
    const pid_t child = fork();
    if (child < 0) return fail(errno, "cannot start a process ({})", std::strerror(errno));
    if (child == 0) {
        signals.restore_in_child();
        execute(program, launcher);
        const int error = errno;
        (void)!write(to_parent.get(), &error, sizeof error);
        _exit(127);
    }
    to_parent.reset();
    int error = 0;
    ssize_t got;
    do
        got = read(from_child.get(), &error, sizeof error);
    while (got < 0 && errno == EINTR);
    if (got != sizeof error) return child;
    waitpid(child, nullptr, 0);
    return fail(error, "cannot run {} ({}); is it installed, and is its folder in PATH?",
                program.front(), std::strerror(error));
}

} // namespace softhca::launcher
