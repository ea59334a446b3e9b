// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/process.hpp"

#include "common/fd.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
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

int exit_status(int wait_status) {
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/// The program's first process, and those that it did not wait for. Without /proc: the first.
std::vector<pid_t> children(pid_t first) {
    std::ifstream list(fmt::format("/proc/self/task/{}/children", getpid()));
    if (!list) return {first};
    return {std::istream_iterator<pid_t>(list), {}};
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

int SignalForwarding::wait_for_all(pid_t first) const {
    int first_status = 0, last_status = 0;
    for (;;) {
        int status = 0;
        while (const pid_t ended = waitpid(-1, &status, WNOHANG)) {
            if (ended < 0) return first_status ? first_status : last_status; // nobody is left
            last_status = exit_status(status);
            if (ended == first) first_status = last_status;
        }
        siginfo_t info{};
        const int signal = sigwaitinfo(&held_, &info);
        if (signal <= 0 || signal == SIGCHLD) continue;
        for (const pid_t child : children(first)) {
            // Signals from the terminal (Ctrl-C) have reached every process of our group already.
            const bool has_it = info.si_code == SI_KERNEL && getpgid(child) == getpgrp();
            if (!has_it) kill(child, signal);
        }
    }
}

Result<pid_t> spawn(const std::vector<std::string>& program, const SignalForwarding& signals) {
    // Closed by a successful exec; carries errno otherwise.
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return fail(errno, "pipe: {}", std::strerror(errno));
    Fd from_child(ends[0]), to_parent(ends[1]);

    prctl(PR_SET_CHILD_SUBREAPER, 1);
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

Result<std::filesystem::path> own_folder() {
    std::error_code error;
    const auto file = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error)
        return fail(error.value(), "cannot read /proc/self/exe ({}): is /proc mounted?",
                    error.message());
    return file.parent_path();
}

} // namespace softhca::launcher
