// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/event_pipe.hpp"

#include "app/softhca/core/device.hpp"

#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

namespace softhca::uverbs {
namespace {

std::span<const std::byte> bytes_of(const uint64_t& value) {
    return std::as_bytes(std::span(&value, 1));
}

uint64_t value_of(std::span<const std::byte> bytes) {
    uint64_t value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

class EventPipeTest : public testing::Test {
  protected:
    void SetUp() override {
        auto created = EventPipe::create(EventPipe::Kind::completions, 1, user);
        ASSERT_TRUE(created) << created.error().what;
        pipe = *created;
    }
    [[nodiscard]] uint64_t read_one() {
        uint64_t value = 0;
        EXPECT_EQ(read(user.get(), &value, sizeof value), ssize_t(sizeof value));
        return value;
    }

    Fd user;
    std::shared_ptr<EventPipe> pipe;
};

TEST_F(EventPipeTest, RecordsComeInOrder) {
    for (const uint64_t value : {1, 2, 3})
        EXPECT_TRUE(pipe->post(bytes_of(value)));
    for (const uint64_t value : {1, 2, 3})
        EXPECT_EQ(read_one(), value);
}

TEST_F(EventPipeTest, AnEventOfEachCqHasRoom) {
    constexpr uint64_t kCqs = uint64_t{1} << core::Limits::kLogMaxCqs;
    for (uint64_t value = 0; value < kCqs; value++)
        ASSERT_TRUE(pipe->post(bytes_of(value))) << value;
    for (uint64_t value = 0; value < kCqs; value++)
        ASSERT_EQ(read_one(), value);
}

TEST_F(EventPipeTest, WithdrawTakesOnlyWhatMatches) {
    for (const uint64_t value : {1, 2, 1, 3})
        EXPECT_TRUE(pipe->post(bytes_of(value)));
    EXPECT_EQ(pipe->withdraw([](auto bytes) { return value_of(bytes) == 1; }), 2u);
    EXPECT_EQ(read_one(), 2u);
    EXPECT_EQ(read_one(), 3u);
    EXPECT_EQ(pipe->withdraw([](auto) { return true; }), 0u);
}

TEST_F(EventPipeTest, TheReadersFileKeepsItsMode) {
    EXPECT_EQ(pipe->withdraw([](auto) { return true; }), 0u);
    EXPECT_FALSE(fcntl(user.get(), F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(fcntl(user.get(), F_GETFD) & FD_CLOEXEC);
}

TEST_F(EventPipeTest, PostingAfterTheReaderHasGoneDoesNoHarm) {
    user.reset();
    const uint64_t value = 1;
    pipe->post(bytes_of(value));
}

/// Each record is counted once, as either read by the program or withdrawn.
TEST_F(EventPipeTest, NothingIsLostBetweenReaderAndWithdraw) {
    constexpr uint64_t kRecords = 4000, kLast = ~uint64_t{0};
    std::atomic<uint64_t> seen{0};
    std::thread reader([&] {
        while (read_one() != kLast)
            seen++;
    });
    size_t withdrawn = 0;
    for (uint64_t value = 1; value <= kRecords; value++) {
        while (!pipe->post(bytes_of(value)))
            std::this_thread::yield();
        if (value % 16 == 0)
            withdrawn += pipe->withdraw([](auto bytes) { return value_of(bytes) % 3 == 0; });
    }
    while (!pipe->post(bytes_of(kLast)))
        std::this_thread::yield();
    reader.join();
    EXPECT_EQ(seen + withdrawn, kRecords);
}

} // namespace
} // namespace softhca::uverbs
