// SPDX-License-Identifier: BSD-3-Clause
#include "common/net/checksum.hpp"
#include "tests/unit/net/frames.hpp"

#include <gtest/gtest.h>

namespace {

using frames::Bytes;

TEST(Checksum, Rfc1071Example) {
    const Bytes data = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
    net::ChecksumSum sum;
    sum.add(frames::view(data));
    EXPECT_EQ(sum.fold(), 0xddf2);
    EXPECT_EQ(sum.checksum(), 0x220d);
}

TEST(Checksum, KnownIpv4Header) {
    const Bytes header = {0x45, 0, 0,    0x73, 0, 0, 0x40, 0,    0x40, 0x11,
                          0,    0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,    0xc7};
    EXPECT_EQ(net::checksum(header.data(), header.size()), 0xb861);
}

TEST(Checksum, EveryLengthAndOffsetAgreesWithTheDefinition) {
    const Bytes data = frames::pattern(600, 3);
    for (size_t from = 0; from < 9; from++)
        for (size_t to = from; to < data.size(); to++) {
            const Bytes part(data.begin() + static_cast<ptrdiff_t>(from),
                             data.begin() + static_cast<ptrdiff_t>(to));
            ASSERT_EQ(net::checksum(data.data() + from, to - from), frames::slow_checksum(part));
        }
}

TEST(Checksum, PiecesOfOddLengthsAddUp) {
    const Bytes data = frames::pattern(61, 9);
    for (size_t cut = 0; cut <= data.size(); cut++)
        for (size_t second = cut; second <= data.size(); second += 3) {
            net::ChecksumSum sum;
            sum.add(data.data(), cut);
            sum.add(data.data() + cut, second - cut);
            sum.add(data.data() + second, data.size() - second);
            ASSERT_EQ(sum.checksum(), frames::slow_checksum(data)) << cut << " " << second;
        }
}

TEST(Checksum, CarriesOfLargeBlocksAreFolded) {
    const Bytes ones(256 * 1024, 0xff);
    net::ChecksumSum sum;
    for (int i = 0; i < 100; i++)
        sum.add(frames::view(ones));
    EXPECT_EQ(sum.fold(), 0xffff);
}

TEST(Crc32, CheckValueAndChaining) {
    const std::string text = "123456789"; // the check value of CRC-32/ISO-HDLC
    EXPECT_EQ(net::crc32(0, text.data(), text.size()), 0xcbf43926u);
    EXPECT_EQ(net::crc32(net::crc32(0, text.data(), 4), text.data() + 4, 5), 0xcbf43926u);
    EXPECT_EQ(net::crc32(0, nullptr, 0), 0u);
}

} // namespace
