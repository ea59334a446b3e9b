// SPDX-License-Identifier: BSD-3-Clause
// Where the next packets of an RQ go, looked up for several requests at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace softhca::core {

/// The first buffer of a posted receive request, in host memory.
struct PostedBuffer {
    std::byte* to = nullptr;
    uint32_t bytes = 0; ///< contiguous there; 0: the key does not allow it, or not contiguous
};

/// Requests that were read before their packets arrive, as hardware does. Positions count the
/// requests of the RQ since its creation, and do not wrap around. Entries are valid until the next
/// control call, which may change keys, rings and queues.
class PostedBuffers {
  public:
    static constexpr uint32_t kMost = 32;

    [[nodiscard]] bool knows(uint64_t position, uint64_t control_calls) const {
        return position < end_ && control_calls == control_calls_;
    }
    /// The position after the last known one, at least `position`.
    [[nodiscard]] uint64_t end(uint64_t position, uint64_t control_calls) const {
        return knows(position, control_calls) ? end_ : position;
    }
    /// For a known position.
    [[nodiscard]] const PostedBuffer& at(uint64_t position) const {
        return buffers_[position % kMost];
    }
    /// For the position `end`, which becomes known by keep_until().
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
