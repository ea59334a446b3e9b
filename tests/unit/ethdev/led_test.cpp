// SPDX-License-Identifier: BSD-3-Clause
// The thread that blinks an LED: it continues while it can, and turning on reports when it cannot.
#include "drivers/net/rawqp/ethdev/netdev/led.hpp"
#include "tests/unit/eal.hpp"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

namespace rawqp::test {
namespace {

/// Seconds pass instantly here; each call returns `error`.
class LedTest : public test_eal::EalTest {
  protected:
    /// Waits until the kernel was called that many more times.
    void wait_for_calls(unsigned more) {
        for (const unsigned end = calls + more; calls < end;)
            std::this_thread::yield();
    }

    std::atomic<int> error = 0;
    std::atomic<unsigned> calls = 0;
    Led led{[this]() -> Result<void> {
        ++calls;
        std::this_thread::yield();
        if (const int now = error) return fail(now, "the cable is gone");
        return {};
    }};
};

TEST_F(LedTest, BlinksUntilTurnedOff) {
    ASSERT_TRUE(led.on());
    EXPECT_TRUE(led.on()) << "on already";
    wait_for_calls(3);
    error = EBUSY; // somebody else uses it for a moment
    wait_for_calls(2);
    error = 0;
    wait_for_calls(3);
    led.off();
    const unsigned before = calls;
    led.off();
    EXPECT_EQ(calls, before);
    ASSERT_TRUE(led.on());
    EXPECT_GT(calls, before);
}

TEST_F(LedTest, TurningOnTellsOfAThreadThatStopped) {
    ASSERT_TRUE(led.on());
    testing::internal::CaptureStderr();
    error = ENODEV;
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    Result<void> again;
    while (again && std::chrono::steady_clock::now() < patience) // until the thread has noticed
        again = led.on();
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, ENODEV);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("blinks no more: the cable is gone"),
              std::string::npos);
    EXPECT_FALSE(led.on()) << "still so";
    error = 0;
    ASSERT_TRUE(led.on());
    wait_for_calls(3);
}

} // namespace
} // namespace rawqp::test
