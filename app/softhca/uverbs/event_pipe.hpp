// SPDX-License-Identifier: BSD-3-Clause
// A queue of event records that the program reads from a file descriptor.
#pragma once

#include "app/softhca/uverbs/fd_table.hpp"
#include "common/fd.hpp"
#include "common/result.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>

namespace softhca::uverbs {

/// Completion channels and async event files are pipes: read(2) and poll(2) on them need no
/// emulation. Records have one fixed size. The program owns the descriptor it reads from and may
/// close it at any time; anything posted afterwards is lost.
class EventPipe final : public ContextFile {
  public:
    enum class Kind { completions, async };

    /// The new pipe, and in `user_fd` the descriptor for the program (close-on-exec, blocking).
    [[nodiscard]] static Result<std::shared_ptr<EventPipe>> create(Kind kind, uint64_t context,
                                                                   Fd& user_fd);

    [[nodiscard]] Kind kind() const { return kind_; }

    /// Never blocks and takes no lock: device threads call it. A full pipe grows, up to 131072
    /// unread completion events; if it cannot, the record is lost. Returns whether the record was
    /// written.
    bool post(std::span<const std::byte> record);

    /// Removes the unread records that `match` selects and returns their number. With the number
    /// posted, this gives exactly how many the program has read: a concurrent reader either gets a
    /// record before this does, or never.
    size_t withdraw(const std::function<bool(std::span<const std::byte>)>& match);

  private:
    EventPipe(Kind kind, uint64_t context, Fd write_end, Fd read_end)
        : ContextFile(context), kind_(kind), write_end_(std::move(write_end)),
          read_end_(std::move(read_end)) {}
    [[nodiscard]] size_t record_size() const;
    [[nodiscard]] bool grow() const;

    Kind kind_;
    Fd write_end_; ///< non-blocking
    Fd read_end_;  ///< an open file description of its own, non-blocking: the program's is not
                   ///< touched
    std::mutex withdraw_mutex_;
};

} // namespace softhca::uverbs
