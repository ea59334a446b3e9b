// SPDX-License-Identifier: BSD-3-Clause
// The file descriptors of the process for which the front acts as the kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace softhca::uverbs {

/// The kernel's view of an open file description of a uverbs device or an event queue. Lives until
/// its last descriptor is closed and the last call on it has returned.
class OpenFile {
  public:
    virtual ~OpenFile() = default;

    struct ReadResult {
        size_t bytes = 0;
        int error = 0; ///< errno; 0: none
    };
    /// read(2) on its descriptor `fd`; empty: as the kernel reads the file that stands for it.
    [[nodiscard]] virtual std::optional<ReadResult> on_read(int, void*, size_t) { return {}; }
    /// Likewise write(2), which takes everything or fails with this errno.
    [[nodiscard]] virtual std::optional<int> on_write(const void*, size_t) { return {}; }
};

/// A file created by a command of one context. As in the kernel, commands of other contexts may not
/// refer to it.
class ContextFile : public OpenFile {
  public:
    explicit ContextFile(uint64_t context) : context_(context) {}
    /// The context's serial number.
    [[nodiscard]] uint64_t context() const { return context_; }

  private:
    uint64_t context_;
};

/// All functions are thread-safe. A child process starts with an empty table: the devices belong to
/// the process that opened them (a child of vfork(2), which shares memory, is recognised by its
/// pid).
namespace fd_table {

/// False: this descriptor is certainly not in the table. One memory access, no lock; safe in signal
/// handlers and before main.
[[nodiscard]] bool may_hold(int fd);

/// Replaces any previous file. Returns false when the descriptor number is too large for the table.
[[nodiscard]] bool insert(int fd, std::shared_ptr<OpenFile> file);
[[nodiscard]] std::shared_ptr<OpenFile> find(int fd);
/// Forgets the descriptor, because the program closes it or replaces the file.
void release(int fd);
/// `to` is now a duplicate of `from`, after dup(2) and similar calls, and its previous file is
/// closed. False as from insert().
[[nodiscard]] bool duplicated(int from, int to);
/// Forgets all of first..last.
void release_range(unsigned first, unsigned last);
/// In a forked child: forgets everything and destroys nothing.
void forget_all();

template <class T> [[nodiscard]] std::shared_ptr<T> find_as(int fd) {
    return std::dynamic_pointer_cast<T>(find(fd));
}
/// Null also when it belongs to another context.
template <class T> [[nodiscard]] std::shared_ptr<T> find_of(uint64_t context, int fd) {
    const auto file = find_as<T>(fd);
    return file && file->context() == context ? file : nullptr;
}

} // namespace fd_table
} // namespace softhca::uverbs
