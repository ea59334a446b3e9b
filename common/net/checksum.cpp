// SPDX-License-Identifier: BSD-3-Clause
#include "common/net/checksum.hpp"

#include <array>
#include <iterator>

namespace net {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
        table[byte] = crc;
    }
    return table;
}
constexpr auto kCrcTable = make_crc_table();

/// Sums 32-bit words in 64-bit lanes, which cannot overflow below 16 GiB. Several independent sums
/// do not wait for each other.
constexpr size_t kBlock = 128; // bytes that are summed at a time
[[gnu::always_inline]] inline uint64_t sum_lanes(const std::byte* bytes, size_t blocks) {
    using Lanes [[gnu::vector_size(32)]] = uint64_t;
    Lanes sums[kBlock / sizeof(Lanes)]{};
    for (; blocks != 0; blocks--, bytes += kBlock)
        for (size_t i = 0; i < std::size(sums); i++) {
            Lanes words;
            std::memcpy(&words, bytes + i * sizeof words, sizeof words);
            sums[i] += (words & 0xffffffff) + (words >> 32);
        }
    const Lanes all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return all[0] + all[1] + all[2] + all[3];
}

#ifdef __x86_64__
[[gnu::target("avx2")]] uint64_t sum_lanes_avx2(const std::byte* bytes, size_t blocks) {
    return sum_lanes(bytes, blocks);
}
uint64_t sum_blocks(const std::byte* bytes, size_t blocks) {
    static const bool has_avx2 = __builtin_cpu_supports("avx2");
    return has_avx2 ? sum_lanes_avx2(bytes, blocks) : sum_lanes(bytes, blocks);
}
#else
uint64_t sum_blocks(const std::byte* bytes, size_t blocks) { return sum_lanes(bytes, blocks); }
#endif

} // namespace

uint64_t detail::sum_long(const std::byte* bytes, size_t length) {
    const size_t blocks = length / kBlock, done = blocks * kBlock;
    return add_sums(sum_blocks(bytes, blocks), sum_bytes(bytes + done, length - done));
}

uint32_t crc32(uint32_t crc, const void* data, size_t length) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    crc = ~crc;
    for (size_t i = 0; i < length; i++)
        crc = (crc >> 8) ^ kCrcTable[(crc ^ bytes[i]) & 0xff];
    return ~crc;
}

} // namespace net
