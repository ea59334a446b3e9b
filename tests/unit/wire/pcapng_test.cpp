// SPDX-License-Identifier: BSD-3-Clause
// The bytes of capture files; tests/functional/test_softhca_look.py reads them with Scapy.
#include "app/softhca/launcher/pcapng.hpp"

#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <sstream>

namespace {

using namespace softhca::launcher;

/// The blocks of a file, whose lengths at both ends must agree.
std::vector<std::string> blocks_of(const std::string& file) {
    std::vector<std::string> blocks;
    for (size_t at = 0; at < file.size();) {
        uint32_t first = 0, last = 0;
        std::memcpy(&first, &file[at + 4], 4);
        if (first < 12 || first % 4 != 0 || at + first > file.size()) {
            ADD_FAILURE() << "block of " << first << " bytes at " << at;
            break;
        }
        std::memcpy(&last, &file[at + first - 4], 4);
        EXPECT_EQ(first, last);
        blocks.push_back(file.substr(at, first));
        at += first;
    }
    return blocks;
}

template <class T> T at(const std::string& block, size_t offset) {
    T value{};
    std::memcpy(&value, &block.at(offset), sizeof value);
    return value;
}

/// The comment of a file's only packet, which has no bytes.
std::string comment_as_written(std::string_view comment) {
    std::ostringstream out;
    CapturedPacket packet;
    packet.comment = comment;
    PcapngWriter(out, "mlx5_0", "softhca").write(packet);
    const auto blocks = blocks_of(out.str());
    constexpr size_t kOption = 36; // after the flags
    if (blocks.size() != 3) return "not three blocks";
    EXPECT_EQ(at<uint16_t>(blocks[2], kOption), 1) << "a comment";
    const auto length = at<uint16_t>(blocks[2], kOption + 2);
    const size_t padded = (length + size_t{3}) / 4 * 4;
    EXPECT_EQ(blocks[2].size(), kOption + 4 + padded + 8) << "the end of options, the length";
    return blocks[2].substr(kOption + 4, length);
}

TEST(Pcapng, LongCommentsAreCutBetweenCharacters) {
    constexpr size_t kMost = 65534; // besides the line's end
    const std::string fits(kMost, 'a'), longer(kMost + 1, 'a');
    EXPECT_EQ(comment_as_written(fits), fits + "\n");
    EXPECT_EQ(comment_as_written(longer), std::string(kMost - 3, 'a') + "…\n");
    std::string arrows = "a"; // three bytes each
    while (arrows.size() < 3 * kMost)
        arrows += "→";
    const std::string cut = comment_as_written(arrows);
    EXPECT_EQ(cut, arrows.substr(0, 1 + (kMost - 4) / 3 * 3) + "…\n");
    EXPECT_LE(cut.size(), kMost + 1);
}

TEST(Pcapng, BlocksOfAFile) {
    std::ostringstream out;
    PcapngWriter writer(out, "mlx5_0", "softhca");
    constexpr std::array<uint8_t, 5> kFrame = {1, 2, 3, 4, 5};
    writer.write(
        {.time = 0x1'2345'6789, .sent = true, .queue = 66, .frame = kFrame, .comment = "sent"});
    writer.write_statistics(7, 3, 2);
    const auto blocks = blocks_of(out.str());
    ASSERT_EQ(blocks.size(), 4u);

    EXPECT_EQ(at<uint32_t>(blocks[0], 0), 0x0a0d0d0au);
    EXPECT_EQ(at<uint32_t>(blocks[0], 8), 0x1a2b3c4du);
    EXPECT_EQ(at<uint16_t>(blocks[1], 8), 1) << "Ethernet";
    EXPECT_NE(blocks[1].find("mlx5_0"), std::string::npos);

    const std::string& packet = blocks[2];
    EXPECT_EQ(at<uint32_t>(packet, 0), 6u);
    EXPECT_EQ(at<uint32_t>(packet, 12), 1u) << "upper half of the time";
    EXPECT_EQ(at<uint32_t>(packet, 16), 0x23456789u);
    EXPECT_EQ(at<uint32_t>(packet, 20), 5u);
    EXPECT_EQ(at<uint32_t>(packet, 24), 5u);
    EXPECT_EQ(packet.substr(28, 8), std::string("\x01\x02\x03\x04\x05\0\0\0", 8));
    EXPECT_EQ(packet.substr(36, 8), std::string("\x02\0\x04\0\x02\0\0\0", 8)) << "outbound";
    EXPECT_EQ(packet.substr(44, 8), std::string("\x06\0\x04\0\x42\0\0\0", 8)) << "queue";
    EXPECT_EQ(packet.substr(52, 16), std::string("\x01\0\x05\0sent\n\0\0\0\0\0\0\0", 16))
        << "comment, end";

    EXPECT_EQ(at<uint32_t>(blocks[3], 0), 5u);
    EXPECT_EQ(at<uint64_t>(blocks[3], 24), 3u);
    EXPECT_EQ(at<uint64_t>(blocks[3], 36), 2u);
}

} // namespace
