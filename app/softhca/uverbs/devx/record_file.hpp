// SPDX-License-Identifier: BSD-3-Clause
// A file from which a program reads records of varying length, one per read(2).
#pragma once

#include "app/softhca/uverbs/fd_table.hpp"
#include "common/fd.hpp"
#include "common/result.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

namespace softhca::uverbs::devx {

/// Event files and files with answers to asynchronous commands. The program may close its
/// descriptor at any time; the object lives as long as the descriptor does.
class RecordFile final : public ContextFile {
  public:
    enum class Kind { events, answers };

    /// The new file, and in `user_fd` the descriptor for the program (close-on-exec, blocking).
    [[nodiscard]] static Result<std::shared_ptr<RecordFile>> create(Kind kind, uint64_t context,
                                                                    bool without_data, Fd& user_fd);
    [[nodiscard]] Kind kind() const { return kind_; }
    /// Only the cookies of events are wanted.
    [[nodiscard]] bool without_data() const { return without_data_; }
    /// Never waits for the program. False: too much is unread already, or nobody reads any more.
    [[nodiscard]] bool post(std::span<const std::byte> record);

    /// Waits as the descriptor says. A record that does not fit stays, and is an error.
    [[nodiscard]] std::optional<ReadResult> on_read(int fd, void* data, size_t room) override;

    struct Backlog; ///< for its own file only

  private:
    RecordFile(Kind kind, uint64_t context, bool without_data, Fd write_end);

    Kind kind_;
    bool without_data_;
    std::mutex read_mutex_; ///< between the look at a record and its reading
    std::shared_ptr<Backlog> backlog_;
};

} // namespace softhca::uverbs::devx
