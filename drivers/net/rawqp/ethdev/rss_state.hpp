// SPDX-License-Identifier: BSD-3-Clause
// What spreads packets over the Rx queues, as configured: plain data, which processes share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rawqp {

inline constexpr size_t kRssKeyBytes = 40;
using RssKey = std::array<uint8_t, kRssKeyBytes>;

/// The key of Microsoft's RSS verification suite, for which hash values are published.
inline constexpr RssKey kDefaultRssKey = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

/// With a key that repeats its first two bytes, both directions of a connection have the same hash,
/// that of source xor destination, as addresses and ports are multiples of two bytes.
inline constexpr RssKey kSymmetricRssKey = [] {
    RssKey key{};
    for (size_t i = 0; i < key.size(); ++i)
        key[i] = kDefaultRssKey[i % 2];
    return key;
}();

/// Most entries of the port's redirection table, a power of two.
inline constexpr uint16_t kRetaMax = 512;

/// Queue per entry of the redirection table.
class RetaTable {
  public:
    [[nodiscard]] size_t size() const { return size_; }
    [[nodiscard]] uint16_t* begin() { return entries_.data(); }
    [[nodiscard]] uint16_t* end() { return begin() + size_; }
    [[nodiscard]] const uint16_t* begin() const { return entries_.data(); }
    [[nodiscard]] const uint16_t* end() const { return begin() + size_; }
    [[nodiscard]] uint16_t& operator[](size_t i) { return entries_[i]; }
    [[nodiscard]] uint16_t operator[](size_t i) const { return entries_[i]; }
    void resize(size_t size) { size_ = static_cast<uint16_t>(size); } ///< kRetaMax at most

  private:
    uint16_t size_ = 0;
    std::array<uint16_t, kRetaMax> entries_{};
};

/// Valid from dev_configure on.
struct RssState {
    RssKey key = kDefaultRssKey;
    bool symmetric = false; ///< requested as such
    uint64_t types = 0;     ///< RTE_ETH_RSS_*; 0: everything to reta[0]
    RetaTable reta;         ///< of power-of-two length
};

} // namespace rawqp
