// SPDX-License-Identifier: BSD-3-Clause
// Files of answers and events that a program reads late.
#include "tests/functional/uverbs/devx_queues.hpp"

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

TEST_F(DevxQueueTest, EventsWaitUntilTheyAreRead) {
    mlx5dv_devx_event_channel* const channel = mlx5dv_devx_create_event_channel(
        context.get(), static_cast<mlx5dv_devx_create_event_channel_flags>(0));
    ASSERT_TRUE(channel) << std::strerror(errno);
    uint16_t completion = 0;
    for (uint64_t cookie = 0; cookie < kMany; cookie++)
        ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, receive_cq.get(), sizeof completion,
                                                   &completion, cookie),
                  0);
    lead_to_tir();
    post_receive();
    arm(receive_cqn);
    send(UdpFrame{}.bytes());
    ASSERT_TRUE(wait_cqe(kReceiveCq));
    std::vector<bool> seen(kMany);
    for (uint64_t i = 0; i < kMany; i++) {
        ASSERT_TRUE(is_readable(channel->fd)) << i << " of " << kMany;
        std::array<uint64_t, 16> room{};
        auto* const event = reinterpret_cast<mlx5dv_devx_async_event_hdr*>(room.data());
        ASSERT_GT(mlx5dv_devx_get_event(channel, event, sizeof room), 0) << std::strerror(errno);
        ASSERT_LT(event->cookie, kMany);
        EXPECT_FALSE(seen[event->cookie]) << event->cookie;
        seen[event->cookie] = true;
    }
    mlx5dv_devx_destroy_event_channel(channel);
}

} // namespace
} // namespace test
