// SPDX-License-Identifier: BSD-3-Clause
// Files of answers and events that a program reads late.
#include "tests/functional/uverbs/devx_queues.hpp"

#include <fcntl.h>
#include <poll.h>

namespace test {
namespace {

/// More than a socket takes.
constexpr uint64_t kMany = 3000;

[[nodiscard]] bool is_readable(int fd) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, 10000) == 1;
}

TEST_F(DevxTest, AnswersWaitUntilTheyAreRead) {
    mlx5dv_devx_cmd_comp* const file = mlx5dv_devx_create_cmd_comp(context.get());
    ASSERT_TRUE(file) << std::strerror(errno);
    const DevxHandle tis = make_tis();
    const Request request = REQUEST(QUERY_TIS, query_tis).number(last.number());
    constexpr size_t kOut = 16; // the head of the answer
    for (uint64_t id = 0; id < kMany; id++)
        ASSERT_EQ(mlx5dv_devx_obj_query_async(tis.get(), request.in.data(), request.in.size(), kOut,
                                              id, file),
                  0)
            << id;
    for (uint64_t id = 0; id < kMany; id++) {
        ASSERT_TRUE(is_readable(file->fd)) << id;
        std::array<uint64_t, 8> room{};
        auto* const answer = reinterpret_cast<mlx5dv_devx_async_cmd_hdr*>(room.data());
        ASSERT_EQ(mlx5dv_devx_get_async_cmd_comp(file, answer, sizeof room), 0);
        ASSERT_EQ(answer->wr_id, id);
    }
    mlx5dv_devx_destroy_cmd_comp(file);
}

TEST_F(DevxTest, AnAnswerWithoutRoomStays) {
    mlx5dv_devx_cmd_comp* const file = mlx5dv_devx_create_cmd_comp(context.get());
    ASSERT_TRUE(file) << std::strerror(errno);
    const DevxHandle tis = make_tis();
    const Request request = REQUEST(QUERY_TIS, query_tis).number(last.number());
    constexpr size_t kOut = 16;
    ASSERT_EQ(
        mlx5dv_devx_obj_query_async(tis.get(), request.in.data(), request.in.size(), kOut, 7, file),
        0);
    ASSERT_TRUE(is_readable(file->fd));
    ASSERT_EQ(fcntl(file->fd, F_SETFL, O_NONBLOCK), 0);
    std::array<uint64_t, 3> room{}; // for the head and the answer
    auto* const answer = reinterpret_cast<mlx5dv_devx_async_cmd_hdr*>(room.data());
    EXPECT_EQ(mlx5dv_devx_get_async_cmd_comp(file, answer, sizeof room - 1), ENOSPC);
    EXPECT_EQ(room[0], 0u) << "not even a part of it";
    EXPECT_EQ(mlx5dv_devx_get_async_cmd_comp(file, answer, sizeof room), 0);
    EXPECT_EQ(answer->wr_id, 7u);
    EXPECT_EQ(mlx5dv_devx_get_async_cmd_comp(file, answer, sizeof room), EAGAIN);
    mlx5dv_devx_destroy_cmd_comp(file);
}

TEST_F(DevxQueueTest, AnEventWithoutRoomStays) {
    ASSERT_NO_FATAL_FAILURE(complete_for(0xc0ffee, 1));
    ASSERT_TRUE(is_readable(channel->fd));
    ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    constexpr size_t kEvent = sizeof(uint64_t) + 64;
    std::array<uint64_t, kEvent / 8> room{};
    auto* const event = reinterpret_cast<mlx5dv_devx_async_event_hdr*>(room.data());
    EXPECT_EQ(mlx5dv_devx_get_event(channel.get(), event, kEvent - 1), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(mlx5dv_devx_get_event(channel.get(), event, kEvent), ssize_t{kEvent});
    EXPECT_EQ(event->cookie, 0xc0ffeeu);
    EXPECT_EQ(mlx5dv_devx_get_event(channel.get(), event, kEvent), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(DevxQueueTest, EventsWaitUntilTheyAreRead) {
    ASSERT_NO_FATAL_FAILURE(complete_for(0, kMany));
    std::vector<bool> seen(kMany);
    for (uint64_t i = 0; i < kMany; i++) {
        ASSERT_TRUE(is_readable(channel->fd)) << i << " of " << kMany;
        std::array<uint64_t, 16> room{};
        auto* const event = reinterpret_cast<mlx5dv_devx_async_event_hdr*>(room.data());
        ASSERT_GT(mlx5dv_devx_get_event(channel.get(), event, sizeof room), 0)
            << std::strerror(errno);
        ASSERT_LT(event->cookie, kMany);
        EXPECT_FALSE(seen[event->cookie]) << event->cookie;
        seen[event->cookie] = true;
    }
}

} // namespace
} // namespace test
