// SPDX-License-Identifier: BSD-3-Clause
// A meter's buckets: colors by RFC 2697, 2698 and 4115, calculated by hand.
#include "app/softhca/core/meter.hpp"
#include "app/softhca/core/packet.hpp"
#include "tests/unit/net/frames.hpp"

#include <gtest/gtest.h>
#include <sys/uio.h>

namespace {

using frames::Bytes;
using frames::Spec;
using namespace softhca::core;
using enum Color;

/// A frame and the packet in it.
class Frame {
  public:
    explicit Frame(Bytes bytes) : bytes_(std::move(bytes)), piece_{bytes_.data(), bytes_.size()} {}
    explicit Frame(size_t bytes) : Frame(frames::build({.ip = 0, .payload = Bytes(bytes - 14)})) {}
    [[nodiscard]] const Packet& packet() const { return packet_; }

  private:
    Bytes bytes_;
    iovec piece_;
    Packet packet_{{&piece_, 1}, static_cast<uint32_t>(bytes_.size())};
};

/// A bucket that gets rate / 2^exponent tokens per nanosecond and holds `size`, even, at most 510.
BucketAttr bucket(uint8_t rate, uint32_t size, uint8_t exponent = 0) {
    return {rate, exponent, static_cast<uint8_t>(size / 2), 1};
}

class MeterTest : public testing::Test {
  protected:
    void set(MeterAttr attr) {
        attr.valid = true;
        attr.mode = MeterMode::l2_bytes;
        meter.set(attr, now);
    }
    Color run(Color before = green) { return meter.run(hundred.packet(), before, now); }
    std::vector<Color> run_many(size_t count) {
        std::vector<Color> colors;
        while (count-- != 0)
            colors.push_back(run());
        return colors;
    }
    using Colors = std::vector<Color>;

    Meter meter;
    uint64_t now = 1000;
    Frame hundred{100};
};

TEST_F(MeterTest, SingleRate) {
    set({.overflow = true, .committed = bucket(1, 200), .excess = bucket(0, 300)});
    EXPECT_EQ(run_many(6), (Colors{green, green, yellow, yellow, yellow, red}));
    now += 99;
    EXPECT_EQ(run(), red);
    now += 1;
    EXPECT_EQ(run_many(2), (Colors{green, red}));
    now += 300; // 200 of these fit into the committed bucket
    EXPECT_EQ(run_many(4), (Colors{green, green, yellow, red}));
    now += 10000;
    EXPECT_EQ(run_many(6), (Colors{green, green, yellow, yellow, yellow, red}));
}

TEST_F(MeterTest, WithoutOverflowTheExcessBucketHasItsOwnRateOnly) {
    set({.committed = bucket(1, 200), .excess = bucket(0, 100)});
    EXPECT_EQ(run_many(4), (Colors{green, green, yellow, red}));
    now += 10000;
    EXPECT_EQ(run_many(3), (Colors{green, green, red}));
}

TEST_F(MeterTest, TwoRatesWithAPeak) {
    set({.both_on_green = true, .committed = bucket(1, 100), .excess = bucket(2, 300)});
    EXPECT_EQ(run_many(4), (Colors{green, yellow, yellow, red}));
    now += 50; // committed 50, peak 100
    EXPECT_EQ(run_many(2), (Colors{yellow, red}));
    now += 50; // committed 100, peak 100
    EXPECT_EQ(run_many(2), (Colors{green, red}));
    set({.both_on_green = true, .committed = bucket(0, 200), .excess = bucket(0, 100)});
    EXPECT_EQ(run_many(2), (Colors{green, red})) << "beyond the peak, whatever is committed";
}

TEST_F(MeterTest, TwoRatesOfTheirOwn) {
    set({.overflow = true, .committed = bucket(1, 100), .excess = bucket(1, 200, 1)});
    EXPECT_EQ(run_many(4), (Colors{green, yellow, yellow, red}));
    now += 200; // committed 100, with an overflow of 100; excess 100 of its own
    EXPECT_EQ(run_many(4), (Colors{green, yellow, yellow, red}));
    set({.committed = bucket(1, 100), .excess = bucket(1, 200, 1)});
    EXPECT_EQ(run_many(4), (Colors{green, yellow, yellow, red}));
    now += 200;
    EXPECT_EQ(run_many(3), (Colors{green, yellow, red})) << "without what is too much";
}

TEST_F(MeterTest, PacketsKeepTheirColorAtBest) {
    set({.committed = bucket(0, 100), .excess = bucket(0, 200)});
    EXPECT_EQ(run(red), red);
    EXPECT_EQ(run(yellow), yellow);
    EXPECT_EQ(run(undefined), green) << "is taken for green";
    EXPECT_EQ(run(yellow), yellow);
    EXPECT_EQ(run(yellow), red);
    set({.both_on_green = true, .committed = bucket(0, 200), .excess = bucket(0, 200)});
    EXPECT_EQ(run(yellow), yellow);
    EXPECT_EQ(meter.committed_tokens(), 200u);
    EXPECT_EQ(meter.excess_tokens(), 100u);
}

TEST_F(MeterTest, ColorBlindMetersStartWithAColor) {
    set({.start = green, .committed = bucket(0, 100)});
    EXPECT_EQ(run(red), green);
    set({.start = yellow, .committed = bucket(0, 100), .excess = bucket(0, 100)});
    EXPECT_EQ(run(green), yellow);
    set({.start = red, .committed = bucket(0, 100)});
    EXPECT_EQ(run(green), red);
}

TEST_F(MeterTest, WhatIsNotValidMetersNothing) {
    meter.set({.committed = bucket(0, 0)}, now);
    EXPECT_EQ(run(yellow), yellow);
    EXPECT_EQ(run(undefined), green);
}

TEST_F(MeterTest, WhatAPacketCountsAs) {
    const auto tokens = [](MeterMode mode, const Bytes& frame) {
        Meter one;
        one.set({.valid = true, .mode = mode, .committed = {0, 0, 250, 2}}, 0);
        EXPECT_EQ(one.run(Frame(frame).packet(), green, 0), green);
        return 1000 - one.committed_tokens();
    };
    // IPv4 and UDP headers and 4 bytes of payload, in the shortest possible frame
    const Bytes ipv4 = frames::padded(frames::build({.tags = {{0x8100, 5}}, .payload = Bytes(4)}));
    EXPECT_EQ(tokens(MeterMode::ip_bytes, ipv4), 20u + 8 + 4);
    EXPECT_EQ(tokens(MeterMode::l2_bytes, ipv4), 60u);
    EXPECT_EQ(tokens(MeterMode::wire_bytes, ipv4), 84u);
    EXPECT_EQ(tokens(MeterMode::packets, ipv4), 128u);
    Spec ipv6 = frames::ipv6_spec();
    ipv6.payload = Bytes(100);
    EXPECT_EQ(tokens(MeterMode::ip_bytes, frames::build(ipv6)), 40u + 8 + 100);
    EXPECT_EQ(tokens(MeterMode::ip_bytes,
                     frames::build({.tags = {{0x8100, 5}}, .ip = 0, .payload = Bytes(200)})),
              200u);
}

TEST_F(MeterTest, NothingIsRoundedAway) {
    set({.committed = {3, 31, 200, 0}});
    EXPECT_EQ(run_many(3), (Colors{green, green, red}));
    constexpr uint64_t kStep = uint64_t{1} << 27; // gives three sixteenths of a token
    for (int i = 0; i < 16; i++) {
        now += kStep;
        EXPECT_EQ(run(), red);
    }
    EXPECT_EQ(meter.committed_tokens(), 3u);
}

TEST_F(MeterTest, LongTimesAndLargeBuckets) {
    set({.overflow = true, .committed = {255, 0, 255, 31}, .excess = {255, 0, 255, 31}});
    EXPECT_EQ(meter.committed_tokens(), Meter::kMaxTokens);
    EXPECT_EQ(run(), green);
    EXPECT_EQ(meter.committed_tokens(), Meter::kMaxTokens - 100);
    now = UINT64_MAX;
    EXPECT_EQ(run(red), red);
    EXPECT_EQ(meter.committed_tokens(), Meter::kMaxTokens);
    EXPECT_EQ(meter.excess_tokens(), Meter::kMaxTokens);
    now = 0;
    set({.committed = {128, 0, 255, 31}});
    EXPECT_EQ(run(), green);
    now += uint64_t{1} << 25; // more than 64 bits can hold in units of 2^-32
    EXPECT_EQ(run(red), red);
    EXPECT_EQ(meter.committed_tokens(), Meter::kMaxTokens);
}

} // namespace
