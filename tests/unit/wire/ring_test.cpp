// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/wire/ring.hpp"

#include "tests/unit/wire/traffic.hpp"

#include <random>
#include <set>
#include <vector>

namespace {

using namespace softhca::wire;
using wire_test::numbered;

class RingTest : public testing::Test {
  protected:
    static constexpr uint64_t kBytes = 16384;

    RingView ring() { return {&indices_, data_.data(), kBytes}; }

    SendResult put(RingWriter& writer, std::span<const std::byte> frame) {
        const iovec piece{const_cast<std::byte*>(frame.data()), frame.size()};
        return writer.put({{&piece, 1}, uint32_t(frame.size())});
    }

    RingIndices indices_{};
    alignas(64) std::array<std::byte, kBytes> data_{};
};

TEST_F(RingTest, FramesOfEverySizeWrapAround) {
    RingWriter writer(ring());
    RingReader reader(ring());
    for (uint64_t number = 0; number < 20000; ++number) {
        const auto frame = numbered(number);
        ASSERT_EQ(put(writer, frame), SendResult::sent);
        writer.publish();
        const auto got = reader.peek();
        ASSERT_EQ(got.size(), frame.size()) << number;
        ASSERT_EQ(std::memcmp(got.data(), frame.data(), frame.size()), 0) << number;
        reader.pop();
    }
    EXPECT_TRUE(reader.peek().empty());
}

TEST_F(RingTest, FullIsBusyAndGoesOnAfterwards) {
    RingWriter writer(ring());
    RingReader reader(ring());
    uint64_t sent = 0, received = 0;
    for (int round = 0; round < 100; ++round) {
        while (put(writer, numbered(sent)) == SendResult::sent)
            ++sent;
        EXPECT_EQ(put(writer, numbered(sent)), SendResult::busy);
        while (!reader.peek().empty()) {
            ASSERT_EQ(reader.peek().size(), numbered(received).size());
            reader.pop();
            ++received;
        }
        EXPECT_EQ(received, sent);
    }
    EXPECT_GT(sent, 100 * kBytes / 2000);
}

TEST_F(RingTest, BatchesCarryTheSameFrames) {
    RingWriter writer(ring());
    RingReader reader(ring());
    std::mt19937 random(1);
    uint64_t sent = 0, received = 0;
    for (int round = 0; round < 20000; ++round) {
        std::vector<std::vector<std::byte>> data;
        std::vector<iovec> frames;
        const size_t offered = random() % 40;
        for (size_t i = 0; i < offered; ++i)
            data.push_back(numbered(sent + i));
        frames.reserve(data.size());
        for (auto& frame : data)
            frames.push_back({frame.data(), frame.size()});
        size_t done = 0;
        const SendResult result = writer.put_batch(frames, done);
        ASSERT_EQ(result, done == frames.size() ? SendResult::sent : SendResult::busy);
        sent += done;
        if (random() % 2) writer.publish();

        std::array<iovec, 40> seen;
        const size_t count = reader.peek_batch(std::span(seen).first(random() % 41));
        for (size_t i = 0; i < count; ++i) {
            const auto expected = numbered(received + i);
            ASSERT_EQ(seen[i].iov_len, expected.size()) << received + i;
            ASSERT_EQ(std::memcmp(seen[i].iov_base, expected.data(), expected.size()), 0);
        }
        const size_t popped = random() % (count + 1); // the others come again
        reader.pop_batch(popped);
        received += popped;
    }
    EXPECT_GT(received, 50000u);
    EXPECT_LE(received, sent);
}

TEST_F(RingTest, ABatchEndsAtAFrameThatIsTooLong) {
    RingWriter writer(ring());
    std::vector<std::byte> data(kMaxFrame + 1);
    const std::array<iovec, 3> frames{
        iovec{data.data(), 60}, {data.data(), kMaxFrame + 1}, {data.data(), 60}};
    size_t sent = 0;
    EXPECT_EQ(writer.put_batch(frames, sent), SendResult::lost);
    EXPECT_EQ(sent, 1u);
}

TEST_F(RingTest, GarbageBehindAFrameIsSkippedAfterIt) {
    RingWriter writer(ring());
    RingReader reader(ring());
    ASSERT_EQ(put(writer, numbered(1)), SendResult::sent);
    ASSERT_EQ(put(writer, numbered(2)), SendResult::sent);
    writer.publish();
    const auto second = record_bytes(static_cast<uint32_t>(numbered(1).size()));
    const uint32_t length = kMaxFrame + 1;
    std::memcpy(&data_[second], &length, sizeof length);
    std::array<iovec, 4> seen;
    ASSERT_EQ(reader.peek_batch(seen), 1u);
    EXPECT_EQ(seen[0].iov_len, numbered(1).size());
    reader.pop_batch(1);
    EXPECT_EQ(reader.peek_batch(seen), 0u);
    ASSERT_EQ(put(writer, numbered(3)), SendResult::sent);
    writer.publish();
    ASSERT_EQ(reader.peek_batch(seen), 1u);
    EXPECT_EQ(seen[0].iov_len, numbered(3).size());
}

TEST_F(RingTest, UnpublishedFramesAreNotSeen) {
    RingWriter writer(ring());
    RingReader reader(ring());
    ASSERT_EQ(put(writer, numbered(0)), SendResult::sent);
    EXPECT_TRUE(reader.peek().empty());
    writer.publish();
    EXPECT_FALSE(reader.peek().empty());
}

TEST_F(RingTest, ShortFramesArePaddedWithZeros) {
    data_.fill(std::byte{0xee});
    RingWriter writer(ring());
    RingReader reader(ring());
    const std::vector<std::byte> frame(14, std::byte{7});
    ASSERT_EQ(put(writer, frame), SendResult::sent);
    writer.publish();
    const auto got = reader.peek();
    ASSERT_EQ(got.size(), 60u);
    EXPECT_EQ(got[13], std::byte{7});
    for (size_t i = 14; i < 60; ++i)
        ASSERT_EQ(got[i], std::byte{0});
}

TEST_F(RingTest, TooLongIsLostNotBusy) {
    RingWriter writer(ring());
    EXPECT_EQ(put(writer, std::vector<std::byte>(kMaxFrame + 1)), SendResult::lost);
    EXPECT_EQ(put(writer, std::vector<std::byte>(kMaxFrame)), SendResult::sent);
}

TEST_F(RingTest, SuccessorsGoOnWhereTheOthersStopped) {
    {
        RingWriter writer(ring());
        ASSERT_EQ(put(writer, numbered(1)), SendResult::sent);
        writer.publish();
        ASSERT_EQ(put(writer, numbered(2)), SendResult::sent); // dies before publishing
    }
    RingWriter writer(ring());
    ASSERT_EQ(put(writer, numbered(3)), SendResult::sent);
    writer.publish();
    RingReader reader(ring());
    EXPECT_EQ(reader.peek().size(), numbered(1).size());
    reader.pop();
    EXPECT_EQ(reader.peek().size(), numbered(3).size());
    reader.pop();
    EXPECT_TRUE(reader.peek().empty());
}

// The other process may write anything: the reader stays inside the ring and goes on afterwards.
TEST_F(RingTest, GarbageNeverLeadsOutOfTheRing) {
    std::mt19937_64 random(1);
    RingReader reader(ring());
    for (int round = 0; round < 20000; ++round) {
        for (size_t at = 0; at + 8 <= kBytes; at += 8) {
            if (random() % 16) continue;
            const uint64_t value = random() % 2 ? random() : random() % 12000;
            std::memcpy(&data_[at], &value, sizeof value);
        }
        indices_.written.store(random() % 2 ? random() : indices_.read.load() + random() % 20000);
        for (int i = 0; i < 8; ++i) {
            std::array<iovec, 3> frames;
            const size_t count = reader.peek_batch(frames);
            for (const iovec& frame : std::span(frames).first(count)) {
                const auto* const begin = static_cast<const std::byte*>(frame.iov_base);
                ASSERT_GE(begin, data_.data());
                ASSERT_LE(begin + frame.iov_len, data_.data() + kBytes);
            }
            reader.pop_batch(random() % (count + 1));
        }
    }
    reader.skip_all();
    indices_.written.store(indices_.read.load());
    RingWriter writer(ring());
    ASSERT_EQ(put(writer, numbered(5)), SendResult::sent);
    writer.publish();
    EXPECT_EQ(reader.peek().size(), numbered(5).size());
}

TEST_F(RingTest, AWriterThatTakesOverGarbageStaysInTheRing) {
    struct {
        alignas(64) std::array<std::byte, kBytes> data{};
        std::array<std::byte, 64> behind{};
    } memory;
    for (uint64_t written = kBytes - 16; written <= kBytes; ++written) {
        indices_.written.store(written);
        indices_.read.store(written);
        RingWriter writer({&indices_, memory.data.data(), kBytes});
        (void)put(writer, numbered(1));
        writer.publish();
        for (const std::byte byte : memory.behind)
            ASSERT_EQ(byte, std::byte{0}) << written;
    }
}

/// Long enough for the writer to return to the beginning before it reaches the end.
class LongRingTest : public RingTest {
  protected:
    LongRingTest() : bytes_(65536) {}
    RingView long_ring() { return {&indices_, bytes_.data(), bytes_.size()}; }

  private:
    std::vector<std::byte> bytes_;
};

TEST_F(LongRingTest, AReaderThatKeepsUpGetsTheSameLinesAgain) {
    RingWriter writer(long_ring());
    RingReader reader(long_ring());
    std::set<const std::byte*> seen;
    for (int i = 0; i < 10000; ++i) {
        ASSERT_EQ(put(writer, std::array<std::byte, 60>{}), SendResult::sent);
        writer.publish();
        seen.insert(reader.peek().data());
        reader.pop();
        ASSERT_TRUE(reader.peek().empty()); // which tells the writer
    }
    EXPECT_LE(seen.size(), 16384 / record_bytes(60) + 1);
}

TEST_F(LongRingTest, NothingIsLostWhereverTheReaderIs) {
    std::mt19937_64 random(1);
    RingWriter writer(long_ring());
    RingReader reader(long_ring());
    uint64_t sent = 0, received = 0;
    while (received < 50000) {
        for (uint64_t most = random() % 100; most != 0; --most) {
            if (put(writer, numbered(sent)) != SendResult::sent) break;
            ++sent;
        }
        writer.publish();
        for (uint64_t most = random() % 100; most != 0; --most) {
            const auto got = reader.peek();
            if (got.empty()) break;
            const auto frame = numbered(received);
            ASSERT_EQ(got.size(), frame.size()) << received;
            ASSERT_EQ(std::memcmp(got.data(), frame.data(), frame.size()), 0) << received;
            reader.pop();
            ++received;
        }
        ASSERT_TRUE(received < sent || reader.peek().empty());
    }
}

} // namespace
