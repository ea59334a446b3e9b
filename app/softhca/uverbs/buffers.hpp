// SPDX-License-Identifier: BSD-3-Clause
// The input and output structs of a command, as passed through the ioctl.
#pragma once

#include "app/softhca/uverbs/user_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

namespace softhca::uverbs {

/// 0, or a positive errno value: what the system call returns.
using Errno = int;

/// A struct that the program passes in. The memory is known to be mapped.
class InBuffer {
  public:
    InBuffer() = default;
    InBuffer(const void* data, size_t size) : bytes_(static_cast<const std::byte*>(data), size) {}

    [[nodiscard]] size_t size() const { return bytes_.size(); }
    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

    /// The request at the beginning. A program built with an older header passes fewer bytes:
    /// fields unknown to it are zero.
    template <class T> [[nodiscard]] T as() const {
        static_assert(std::is_trivially_copyable_v<T>);
        T value; // not {}: some kernel structs end in an array of length 0, which clang refuses
        std::memset(static_cast<void*>(&value), 0, sizeof value);
        const size_t common = std::min(sizeof value, size());
        if (common) std::memcpy(static_cast<void*>(&value), bytes_.data(), common);
        return value;
    }
    /// True when bytes after the first `known` are set: a newer program requests something
    /// unsupported.
    [[nodiscard]] bool has_more_than(size_t known) const {
        return size() > known &&
               std::any_of(bytes_.begin() + static_cast<ptrdiff_t>(known), bytes_.end(),
                           [](std::byte b) { return b != std::byte{}; });
    }

  private:
    std::span<const std::byte> bytes_;
};

/// A struct that the program wants filled. The memory is known to be mapped.
class OutBuffer {
  public:
    OutBuffer() = default;
    OutBuffer(void* data, size_t size) : bytes_(static_cast<std::byte*>(data), size) {}

    [[nodiscard]] size_t size() const { return bytes_.size(); }
    [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

    /// Writes as much of the answer as the program has room for; room beyond it is zeroed. An
    /// extended answer reports in response_length how much was filled.
    template <class T> void put(T answer) const {
        static_assert(std::is_trivially_copyable_v<T>);
        const size_t common = std::min(sizeof answer, size());
        if constexpr (requires { answer.response_length; })
            answer.response_length = static_cast<uint32_t>(common);
        if (common) std::memcpy(bytes_.data(), &answer, common);
        std::fill(bytes_.begin() + static_cast<ptrdiff_t>(common), bytes_.end(), std::byte{});
    }

  private:
    std::span<std::byte> bytes_;
};

class EventPipe;

/// One command of the classic ABI, however it was passed: the core's structs and the driver's.
struct WriteCommand {
    InBuffer in;
    OutBuffer out;
    InBuffer driver_in;
    OutBuffer driver_out;
    std::shared_ptr<EventPipe> async; ///< receives asynchronous events of what the command creates
    std::optional<uint32_t> uar{};    ///< of a CQ, named by an attribute of its method
};

} // namespace softhca::uverbs
