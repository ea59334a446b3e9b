// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/socket_file.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <unistd.h>

namespace softhca::pci {
namespace {

/// What the signal handler removes.
std::array<std::atomic<const char*>, SocketFile::kMost> g_paths{};
static_assert(std::atomic<const char*>::is_always_lock_free, "a signal handler reads them");

/// Its signal has the default action again, which is carried out when the handler returns.
void remove_and_end(int signal) {
    for (const auto& path : g_paths)
        if (const char* const name = path.load()) unlink(name);
    raise(signal);
}

void handle_ends() {
    for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
        struct sigaction action {};
        if (sigaction(signal, nullptr, &action) < 0 || action.sa_handler != SIG_DFL) continue;
        action.sa_handler = remove_and_end;
        action.sa_flags = static_cast<int>(SA_RESETHAND);
        sigaction(signal, &action, nullptr);
    }
}

} // namespace

SocketFile::SocketFile(const std::string& path) : path_(path) {
    for (auto& place : g_paths)
        if (const char* none = nullptr; place.compare_exchange_strong(none, path_.c_str())) break;
    handle_ends();
}

SocketFile::~SocketFile() {
    unlink(path_.c_str());
    for (auto& place : g_paths)
        if (const char* mine = path_.c_str(); place.compare_exchange_strong(mine, nullptr)) break;
}

} // namespace softhca::pci
