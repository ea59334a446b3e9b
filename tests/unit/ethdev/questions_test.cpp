// SPDX-License-Identifier: BSD-3-Clause
// Answers from the primary: EAL may deliver an older one.
#include "drivers/net/rawqp/ethdev/process/questions.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace rawqp::test {
namespace {

/// With both ends of a pipe attached.
rte_mp_msg answer_to(uint32_t number) {
    AnswerMessage answer;
    answer.number = number;
    answer.packets = 7;
    rte_mp_msg reply{};
    memcpy(reply.param, &answer, sizeof answer);
    reply.len_param = sizeof answer;
    EXPECT_EQ(pipe(reply.fds), 0);
    reply.num_fds = 2;
    return reply;
}
bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(Questions, AreAnsweredByTheirNumber) {
    const rte_mp_msg reply = answer_to(5);
    const Answered got = take_answer(reply, 5);
    EXPECT_EQ(got.answer.error, 0);
    EXPECT_EQ(got.answer.packets, 7u);
    EXPECT_EQ(got.fds[0].get(), reply.fds[0]);
    EXPECT_TRUE(is_open(reply.fds[1]));
}

TEST(Questions, AnAnswerToAnEarlierOneIsNone) {
    const rte_mp_msg reply = answer_to(4);
    const Answered got = take_answer(reply, 5);
    EXPECT_EQ(got.answer.error, ETIMEDOUT);
    EXPECT_FALSE(is_open(reply.fds[0]) || is_open(reply.fds[1])) << "nobody else will close them";
}

} // namespace
} // namespace rawqp::test
