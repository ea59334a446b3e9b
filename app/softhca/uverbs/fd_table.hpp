// SPDX-License-Identifier: BSD-3-Clause
// Which file descriptors of the process the front plays the kernel for.
#pragma once

#include <cstdint>
#include <memory>

namespace softhca::uverbs {

/// What an open file description of a uverbs device or of an event queue is to the kernel. Lives
/// until its last descriptor is closed and the last call on it has returned.
class OpenFile {
  public:
    virtual ~OpenFile() = default;
};

/// A file that a command of one context has made. As in the kernel, commands of other contexts may
/// not name it.
class ContextFile : public OpenFile {
  public:
    explicit ContextFile(uint64_t context) : context_(context) {}
    /// The context's serial number.
    [[nodiscard]] uint64_t context() const { return context_; }

  private:
    uint64_t context_;
};

/// All functions are thread-safe. A child process starts with an empty table: the devices belong to
/// the process that opened them (a child of vfork(2), which shares memory, is told apart by its
/// pid).
namespace fd_table {

/// False: this descriptor is certainly not one of ours. One memory access, no lock; safe in signal
/// handlers and before main.
[[nodiscard]] bool may_hold(int fd);

/// Takes the place of what was there. Returns false when descriptors of this number cannot be held
/// (too large).
[[nodiscard]] bool insert(int fd, std::shared_ptr<OpenFile> file);
[[nodiscard]] std::shared_ptr<OpenFile> find(int fd);
/// Forgets the descriptor, because the program closes it or puts another file there.
void release(int fd);
/// `to` is a duplicate of `from` now, after dup(2) and its kind, and what it was before is closed.
/// False as from insert().
[[nodiscard]] bool duplicated(int from, int to);
/// Forgets all of first..last.
void release_range(unsigned first, unsigned last);
/// In a forked child: forgets everything and destroys nothing.
void forget_all();

template <class T> [[nodiscard]] std::shared_ptr<T> find_as(int fd) {
    return std::dynamic_pointer_cast<T>(find(fd));
}
/// Null also when it is another context's.
template <class T> [[nodiscard]] std::shared_ptr<T> find_of(uint64_t context, int fd) {
    const auto file = find_as<T>(fd);
    return file && file->context() == context ? file : nullptr;
}

} // namespace fd_table
} // namespace softhca::uverbs
