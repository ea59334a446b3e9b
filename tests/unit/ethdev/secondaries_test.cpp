// SPDX-License-Identifier: BSD-3-Clause
// What the primary tells secondary processes, and which ones it waits for.
#include "common/fd.hpp"
#include "drivers/net/rawqp/ethdev/process/secondaries.hpp"
#include "tests/unit/ethdev/port_fixture.hpp"

#include <chrono>
#include <filesystem>
#include <future>
#include <optional>
#include <sys/socket.h>

namespace rawqp::test {
namespace {

class SecondariesTest : public PortTest {
  protected:
    Secondaries& secondaries() { return *Port::of(dev).secondaries; }
    /// Receives as the process at that end.
    static std::optional<EventMessage> hear(const Fd& end, int flags = MSG_DONTWAIT) {
        EventMessage event;
        if (recv(end.get(), &event, sizeof event, flags) != sizeof event) return {};
        return event;
    }
    static void say(const Fd& end, const EventMessage& message) {
        EXPECT_EQ(send(end.get(), &message, sizeof message, MSG_NOSIGNAL), ssize_t{sizeof message});
    }
    static double seconds(const auto& call) {
        const auto before = std::chrono::steady_clock::now();
        call();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    }
};

TEST_F(SecondariesTest, OneThatIsHereIsWaitedFor) {
    bring_up();
    const Fd end = secondaries().admit().value();
    say(end, {});
    std::atomic<bool> answered = false;
    const auto answers = std::async(std::launch::async, [&] {
        const auto event = hear(end, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        answered = true;
        say(end, event.value_or(EventMessage{}));
    });
    secondaries().tell(Event::changed);
    EXPECT_TRUE(answered);
}

/// Otherwise each start of the port would wait for it.
TEST_F(SecondariesTest, OneThatAnswersAgainIsMuteNoMore) {
    bring_up();
    const Fd end = secondaries().admit().value();
    say(end, {});
    secondaries().tell(Event::changed);
    EXPECT_TRUE(hear(end)) << "and it does not answer";
    const auto answers =
        std::async(std::launch::async, [&] { say(end, hear(end, 0).value_or(EventMessage{})); });
    secondaries().wait_for_mute();
    answers.wait();
    secondaries().wait_for_mute();
    EXPECT_FALSE(hear(end)) << "it was asked again";
}

/// Its answer to `attach` was late or lost: it does not know of the channel.
TEST_F(SecondariesTest, OneThatHasNotComeYetIsNotWaitedFor) {
    bring_up();
    const Fd end = secondaries().admit().value();
    EXPECT_LT(seconds([&] { secondaries().tell(Event::changed); }), kLetGoMilliseconds / 2000.0);
    EXPECT_TRUE(hear(end)) << "it is told all the same";
}

/// This needs no message to anybody: a tool that comes and goes leaves no descriptors behind.
TEST_F(SecondariesTest, OnesThatHaveGoneAreForgottenWhenTheNextOneComes) {
    bring_up();
    const auto descriptors = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    };
    (void)secondaries().admit();
    const auto before = descriptors();
    for (int i = 0; i < 5; ++i)
        (void)secondaries().admit();
    EXPECT_EQ(descriptors(), before);
}

/// It may be in the middle of a burst, and is told again when it continues.
TEST_F(SecondariesTest, OneThatLeavesNoRoomForMessagesIsNotForgotten) {
    bring_up();
    const Fd end = secondaries().admit().value();
    constexpr int kMessages = 4096;
    for (int i = 0; i < kMessages; ++i)
        secondaries().tell(Event::changed);
    int heard = 0;
    while (hear(end))
        ++heard;
    ASSERT_LT(heard, kMessages);
    secondaries().tell(Event::changed);
    EXPECT_TRUE(hear(end));
}

} // namespace
} // namespace rawqp::test
