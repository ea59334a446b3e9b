// SPDX-License-Identifier: BSD-3-Clause
// Where the next packets of an RQ go, found out for several requests at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace softhca::core {

/// The first buffer of a posted receive request, in host memory.
struct PostedBuffer {
    std::byte* to = nullptr;
    uint32_t bytes = 0; ///< that lie together there; 0: the key does not allow it, or not in a row
};

/// Requests that were read ahead of the packets for them, as hardware does. Positions count
/// requests of the RQ since it was made, and do not wrap around. What is known holds until the
/// next control call, after which keys, rings and queues may be others.
class PostedBuffers {
  public:
    static constexpr uint32_t kMost = 32;

    [[nodiscard]] bool knows(uint64_t position, uint64_t control_calls) const {
        return position < end_ && control_calls == control_calls_;
    }
    /// The position after the last one that is known, `position` at least.
    [[nodiscard]] uint64_t end(uint64_t position, uint64_t control_calls) const {
        return knows(position, control_calls) ? end_ : position;
    }
    /// Of a position that is known.
    [[nodiscard]] const PostedBuffer& at(uint64_t position) const {
        return buffers_[position % kMost];
    }
    /// For the one at `end`, which becomes known by keep_until().
    void set(uint64_t position, const PostedBuffer& buffer) { buffers_[position % kMost] = buffer; }
    void keep_until(uint64_t end, uint64_t control_calls) {
        end_ = end;
        control_calls_ = control_calls;
    }

  private:
    uint64_t end_ = 0;
    uint64_t control_calls_ = 0;
    std::array<PostedBuffer, kMost> buffers_;
};

} // namespace softhca::core
