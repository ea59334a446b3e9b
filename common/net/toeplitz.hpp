// SPDX-License-Identifier: BSD-3-Clause
// The Toeplitz hash of receive side scaling (RSS).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace net {

inline constexpr size_t kRssKeyBytes = 40;
inline constexpr size_t kRssMaxInput = kRssKeyBytes - 4; ///< two IPv6 addresses and two ports
using RssKey = std::array<uint8_t, kRssKeyBytes>;

/// Hash by the definition, bit by bit: slow, obviously right. `input` up to kRssMaxInput bytes.
[[nodiscard]] uint32_t toeplitz_reference(const RssKey& key, std::span<const uint8_t> input);

/// One key, prepared: a table lookup per input byte. About 36 KiB; immutable, share it.
class Toeplitz {
  public:
    explicit Toeplitz(const RssKey& key);

    /// `input`: addresses and ports as in the packet, in the order source address, destination
    /// address, source port, destination port; absent fields are left out.
    [[nodiscard]] uint32_t hash(std::span<const uint8_t> input) const {
        uint32_t hash = 0;
        for (size_t i = 0; i < input.size(); i++)
            hash ^= table_[i][input[i]];
        return hash;
    }

  private:
    std::array<std::array<uint32_t, 256>, kRssMaxInput> table_;
};

} // namespace net
