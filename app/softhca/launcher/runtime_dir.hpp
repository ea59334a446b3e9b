// SPDX-License-Identifier: BSD-3-Clause
// The folder of one run: configuration, device files, control sockets.
#pragma once

#include "common/fd.hpp"
#include "common/result.hpp"

#include <string>
#include <vector>

namespace softhca::launcher {

/// Created with mode 0700, locked while this process lives, removed with everything in it by the
/// destructor. The FIFO kAliveFile in it loses its writer when the process dies, for whatever
/// reason.
class RuntimeDir {
  public:
    /// Also removes the folders that killed launchers of this user left behind.
    [[nodiscard]] static Result<RuntimeDir> create();
    ~RuntimeDir();
    RuntimeDir(RuntimeDir&& other) noexcept;
    RuntimeDir& operator=(RuntimeDir&&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    RuntimeDir(std::string path, Fd lock, Fd alive)
        : path_(std::move(path)), lock_(std::move(lock)), alive_(std::move(alive)) {}

    std::string path_;
    Fd lock_;
    Fd alive_;
};

/// The runtime folders of this user's runs: in XDG_RUNTIME_DIR if that is set, else in /dev/shm, or
/// in /tmp where that has too little room.
[[nodiscard]] std::vector<std::string> find_runtime_dirs();

} // namespace softhca::launcher
