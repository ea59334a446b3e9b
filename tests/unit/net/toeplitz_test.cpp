// SPDX-License-Identifier: BSD-3-Clause
// The RSS verification suite that Microsoft publishes with the NDIS documentation.
#include "common/net/toeplitz.hpp"
#include "tests/unit/net/frames.hpp"
#include "tests/unit/net/softrss.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <random>

namespace {

using frames::Bytes;

constexpr net::RssKey kKey = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                              0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                              0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                              0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

struct Vector {
    const char *src, *dst;
    uint16_t src_port, dst_port;
    uint32_t addresses_only, with_ports;
};

constexpr Vector kIpv4[] = {
    {"66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178},
    {"199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea},
    {"24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
    {"38.27.205.30", "209.142.163.6", 48228, 2217, 0x82989176, 0xafc7327f},
    {"153.39.163.191", "202.188.127.2", 44251, 1303, 0x5d1809c5, 0x10e828a2},
};
constexpr Vector kIpv6[] = {
    {"3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5, 0x40207d3d},
    {"3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0x0f0c461c, 0xdde51bbf},
    {"3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024, 0x4b61e985,
     0x02d1feef},
};

Bytes input_of(int family, const Vector& vector, bool ports) {
    const size_t bytes = family == AF_INET ? 4 : 16;
    Bytes input(2 * bytes);
    EXPECT_EQ(inet_pton(family, vector.src, input.data()), 1);
    EXPECT_EQ(inet_pton(family, vector.dst, input.data() + bytes), 1);
    if (ports) {
        input.resize(2 * bytes + 4);
        frames::put16(input, 2 * bytes, vector.src_port);
        frames::put16(input, 2 * bytes + 2, vector.dst_port);
    }
    return input;
}

void expect_hash(const Bytes& input, uint32_t hash) {
    EXPECT_EQ(net::toeplitz_reference(kKey, input), hash);
    EXPECT_EQ(net::Toeplitz(kKey).hash(input), hash);
}

TEST(Toeplitz, PublishedIpv4Vectors) {
    for (const Vector& vector : kIpv4) {
        expect_hash(input_of(AF_INET, vector, false), vector.addresses_only);
        expect_hash(input_of(AF_INET, vector, true), vector.with_ports);
    }
}

TEST(Toeplitz, PublishedIpv6Vectors) {
    for (const Vector& vector : kIpv6) {
        expect_hash(input_of(AF_INET6, vector, false), vector.addresses_only);
        expect_hash(input_of(AF_INET6, vector, true), vector.with_ports);
    }
}

TEST(Toeplitz, TableAgreesWithTheDefinitionForEachByteValue) {
    const net::Toeplitz toeplitz(kKey);
    for (size_t at = 0; at < net::kRssMaxInput; at++)
        for (unsigned value = 0; value < 256; value++) {
            Bytes input(net::kRssMaxInput, 0);
            input[at] = static_cast<uint8_t>(value);
            ASSERT_EQ(toeplitz.hash(input), net::toeplitz_reference(kKey, input));
        }
}

/// rte_softrss takes words in host byte order.
TEST(Toeplitz, IsThatOfSoftrss) {
    std::mt19937 random(7);
    for (int round = 0; round < 100; ++round) {
        net::RssKey key;
        std::ranges::generate(key, [&] { return static_cast<uint8_t>(random()); });
        for (const size_t words : {2u, 3u, 8u, 9u}) { // IPv4 and IPv6, without and with ports
            std::array<uint32_t, 9> tuple;
            std::ranges::generate(tuple, random);
            Bytes input;
            for (size_t i = 0; i < words; ++i) {
                input.resize(input.size() + 4);
                frames::put16(input, 4 * i, static_cast<uint16_t>(tuple[i] >> 16));
                frames::put16(input, 4 * i + 2, static_cast<uint16_t>(tuple[i]));
            }
            EXPECT_EQ(net::Toeplitz(key).hash(input),
                      rte_softrss(tuple.data(), static_cast<uint32_t>(words), key.data()));
        }
    }
}

} // namespace
