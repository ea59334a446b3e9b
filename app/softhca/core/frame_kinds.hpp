// SPDX-License-Identifier: BSD-3-Clause
// The categories by which a port counts the frames of its wire: size, group address, 802.1Q
// priority.
#pragma once

#include "app/softhca/core/gather.hpp"
#include "app/softhca/core/types.hpp"
#include "common/net/endian.hpp"
#include "common/net/parse.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca::core {

/// Frames by size. The size class is looked up by length: this takes fewer instructions than
/// computing it, and similar frames use few lines of the table.
class SizeCounts {
  public:
    /// `bytes` without FCS, as everywhere here; the size classes include it.
    void count(uint32_t bytes) { counts_[kSizeOf[std::min(bytes, kLongest + 1)]]++; }
    /// As FrameCounters has them.
    [[nodiscard]] std::array<uint64_t, kFrameSizeEnds.size()> counts() const {
        std::array<uint64_t, kFrameSizeEnds.size()> counts;
        std::copy_n(counts_.begin(), counts.size(), counts.begin());
        return counts;
    }

  private:
    static constexpr uint32_t kFcsBytes = 4, kShortest = kFrameSizeEnds.front() - kFcsBytes,
                              kLongest = kFrameSizeEnds.back() - kFcsBytes;
    static constexpr uint8_t kNone = kFrameSizeEnds.size(); ///< shorter or longer than all sizes
    static constexpr auto kSizeOf = [] {
        std::array<uint8_t, kLongest + 2> sizes{};
        std::fill_n(sizes.begin(), kShortest, kNone);
        for (uint32_t bytes = kShortest, size = 0; bytes <= kLongest; bytes++) {
            sizes[bytes] = static_cast<uint8_t>(size);
            if (bytes + kFcsBytes == kFrameSizeEnds[size]) size++;
        }
        sizes.back() = kNone;
        return sizes;
    }();

    std::array<uint64_t, kFrameSizeEnds.size() + 1> counts_{};
};

/// Frames with an 802.1Q tag, by its priority.
using PriorityCounts = std::array<FlowCounts, kPriorities>;

/// Includes the untagged frames, whose priority is 0. Frames that a wire lost after all are in
/// neither `packets` nor `bytes`, but their tags are not known.
inline PriorityCounts by_priority(PriorityCounts tagged, uint64_t packets, uint64_t bytes) {
    FlowCounts others;
    for (size_t priority = 1; priority < tagged.size(); priority++) {
        others.packets += tagged[priority].packets;
        others.bytes += tagged[priority].bytes;
    }
    tagged[0] = {packets - std::min(packets, others.packets),
                 bytes - std::min(bytes, others.bytes)};
    return tagged;
}

/// Where the less common frames of a direction are counted. Null: not by priority.
struct RareKinds {
    FlowCounts &multicast, &broadcast;
    PriorityCounts* tagged;
};

/// False: the frame neither goes to a group address nor has an 802.1Q tag. `head` is at least its
/// first 13 bytes. The first byte of the EtherType is odd for such a tag and for hardly any other
/// type, so one branch covers both.
inline bool may_be_rare(const void* head) {
    constexpr size_t kTypeAt = net::kEthernetBytes - 2;
    static_assert((net::kEtherVlan >> 8 & 1) == 1);
    const auto* const bytes = static_cast<const uint8_t*>(head);
    return ((bytes[0] | bytes[kTypeAt]) & 1) != 0;
}
/// Likewise for a frame of any length in pieces.
inline bool may_be_rare(std::span<const iovec> pieces) {
    const iovec& front = pieces.front();
    return front.iov_len < net::kEthernetBytes || may_be_rare(front.iov_base);
}

/// Counts the frame where it belongs, if it does.
void count_rare(std::span<const iovec> pieces, uint32_t bytes, const RareKinds& kinds);

} // namespace softhca::core
