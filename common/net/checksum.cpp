// SPDX-License-Identifier: BSD-3-Clause
#include "common/net/checksum.hpp"

#include <array>

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

// 32-bit words in 64-bit lanes: compilers make vector code of it, and lanes cannot overflow below
// 16 GiB.
[[gnu::always_inline]] inline uint64_t sum_lanes(const std::byte* bytes, size_t words) {
    uint64_t sum = 0;
    for (size_t i = 0; i < words; i++) {
        uint32_t word;
        std::memcpy(&word, bytes + i * sizeof word, sizeof word);
        sum += word;
    }
    return sum;
}

#ifdef __x86_64__
[[gnu::target("avx2")]] uint64_t sum_lanes_avx2(const std::byte* bytes, size_t words) {
    return sum_lanes(bytes, words);
}
uint64_t sum_words(const std::byte* bytes, size_t words) {
    static const bool has_avx2 = __builtin_cpu_supports("avx2");
    return has_avx2 ? sum_lanes_avx2(bytes, words) : sum_lanes(bytes, words);
}
#else
uint64_t sum_words(const std::byte* bytes, size_t words) { return sum_lanes(bytes, words); }
#endif

} // namespace

uint64_t detail::sum_long(const std::byte* bytes, size_t length) {
    const size_t words = length / sizeof(uint32_t);
    const size_t done = words * sizeof(uint32_t);
    return add_sums(sum_words(bytes, words), sum_bytes(bytes + done, length - done));
}

uint32_t crc32(uint32_t crc, const void* data, size_t length) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    crc = ~crc;
    for (size_t i = 0; i < length; i++)
        crc = (crc >> 8) ^ kCrcTable[(crc ^ bytes[i]) & 0xff];
    return ~crc;
}

} // namespace net
