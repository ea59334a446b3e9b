// SPDX-License-Identifier: BSD-3-Clause
// Which path names refer to the devices' files, and where those really are.
#pragma once

#include <climits>
#include <cstddef>

namespace softhca::uverbs {

/// A path name as given by the program, redirected to the tree of device files if it is there.
/// Created for each interposed call: no allocation, no lock, safe in a signal handler. Names that
/// do not start with /sys/ or /dev/infiniband cost one comparison.
class RedirectedPath {
  public:
    explicit RedirectedPath(const char* path) : path_(path) {
        if (path && path[0] == '/' && (path[1] == 's' || path[1] == 'd' || path[1] == '/'))
            redirect(path);
    }
    RedirectedPath(const RedirectedPath&) = delete;
    RedirectedPath& operator=(const RedirectedPath&) = delete;

    /// The path for the real function.
    [[nodiscard]] const char* get() const { return path_; }
    [[nodiscard]] bool redirected() const { return path_ == buffer_; }
    [[nodiscard]] bool is_empty() const { return path_ && !*path_; }
    /// Number of the device when this names a /dev/infiniband/uverbsN, else -1.
    [[nodiscard]] int uverbs() const { return uverbs_; }

  private:
    void redirect(const char* path);

    const char* path_;
    int uverbs_ = -1;
    char buffer_[PATH_MAX];
};

/// Strips the tree's own location from a resolved name, in place: what realpath(3) must return.
/// False: the name is elsewhere and unchanged.
bool strip_root(char* path);

/// True once this process may have open folders of the tree, or one as its current folder: a
/// relative name may refer to a device file.
[[nodiscard]] bool tree_is_in_use();

/// Reads the tree's location from the environment. Called from the library's constructor; before
/// that, no path is redirected.
void init_paths();

/// Folder of the configuration file, which also holds sockets and the device tree. Empty outside
/// softhca.
[[nodiscard]] const char* runtime_folder();

} // namespace softhca::uverbs
