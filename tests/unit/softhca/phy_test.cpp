// SPDX-License-Identifier: BSD-3-Clause
// The memory of a cable's plug for each speed. Offsets: SFF-8472 and SFF-8636.
#include "app/softhca/core/phy.hpp"

#include <gtest/gtest.h>
#include <numeric>
#include <string>

namespace softhca::core {
namespace {

class PlugTest : public testing::Test {
  protected:
    void read(uint32_t speed_mbps) {
        memory = plug_memory(plug(speed_mbps), {2, 0, 0, 0, 0xab, 1});
    }
    [[nodiscard]] std::string text(size_t at, size_t bytes) const {
        const std::string padded(reinterpret_cast<const char*>(memory.data()) + at, bytes);
        return padded.substr(0, padded.find_last_not_of(' ') + 1);
    }
    [[nodiscard]] bool sums_up(size_t first, size_t at) const {
        return memory[at] == std::accumulate(memory.begin() + first, memory.begin() + at, 0) % 256;
    }
    std::array<uint8_t, kPlugBytes> memory{};
};

TEST_F(PlugTest, OfUpTo25GbitIsAnSfp) {
    struct Row {
        uint32_t mbps;
        const char* name;
        uint8_t ethernet, extended, baud_rate, higher_rate;
    };
    for (const Row& row : {Row{1000, "1G-CX", 0x04, 0, 13, 0}, Row{10000, "10G-CR", 0, 0, 103, 0},
                           Row{25000, "25G-CR", 0, 0x0b, 0xff, 103}}) {
        SCOPED_TRACE(row.mbps);
        read(row.mbps);
        EXPECT_EQ(plug(row.mbps).kind, PlugKind::sfp);
        EXPECT_EQ(plug(row.mbps).lanes, 1);
        EXPECT_EQ(memory[0], 0x03) << "SFP, SFP+ or SFP28";
        EXPECT_EQ(memory[2], 0x23) << "no connector that separates";
        EXPECT_EQ(memory[6], row.ethernet);
        EXPECT_EQ(memory[8], 0x04) << "passive cable";
        EXPECT_EQ(memory[12], row.baud_rate) << "x 100 MBd";
        EXPECT_EQ(memory[66], row.higher_rate) << "x 250 MBd";
        EXPECT_EQ(memory[36], row.extended);
        EXPECT_EQ(text(40, 16), row.name);
        EXPECT_EQ(text(68, 16), "02000000ab01");
        EXPECT_TRUE(sums_up(0, 63));
        EXPECT_TRUE(sums_up(64, 95));
    }
}

TEST_F(PlugTest, OfMoreIsAQsfp) {
    struct Row {
        uint32_t mbps;
        const char* name;
        uint8_t identifier, lanes, ethernet, extended, baud_rate, higher_rate;
    };
    for (const Row& row : {Row{40000, "40G-CR4", 0x0d, 4, 0x08, 0, 103, 0},
                           Row{50000, "50G-CR2", 0x11, 2, 0x80, 0x0b, 0xff, 103},
                           Row{100000, "100G-CR4", 0x11, 4, 0x80, 0x0b, 0xff, 103},
                           Row{200000, "200G-CR4", 0x11, 4, 0x80, 0x40, 0xff, 106},
                           Row{400000, "400G-CR4", 0x11, 4, 0x80, 0x3f, 0xff, 213}}) {
        SCOPED_TRACE(row.mbps);
        read(row.mbps);
        EXPECT_EQ(plug(row.mbps).kind, PlugKind::qsfp);
        EXPECT_EQ(plug(row.mbps).lanes, row.lanes);
        EXPECT_EQ(memory[0], row.identifier);
        EXPECT_EQ(memory[128], row.identifier);
        EXPECT_EQ(memory[113] & 0xf, row.lanes == 4 ? 0 : 0xc) << "lanes that are not there";
        EXPECT_EQ(memory[130], 0x23) << "no connector that separates";
        EXPECT_EQ(memory[131], row.ethernet);
        EXPECT_EQ(memory[140], row.baud_rate) << "x 100 MBd";
        EXPECT_EQ(memory[222], row.higher_rate) << "x 250 MBd";
        EXPECT_EQ(memory[192], row.extended);
        EXPECT_EQ(text(168, 16), row.name);
        EXPECT_EQ(text(196, 16), "02000000ab01");
        EXPECT_TRUE(sums_up(128, 191));
        EXPECT_TRUE(sums_up(192, 223));
    }
}

} // namespace
} // namespace softhca::core
