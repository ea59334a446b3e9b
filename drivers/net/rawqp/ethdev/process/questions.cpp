// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/process/questions.hpp"

#include <mutex>

namespace rawqp {
namespace {

/// Bursts would crawl if they kept asking.
constexpr unsigned kSilenceMilliseconds = 1000;

/// EAL allows one pending request per name.
constinit std::mutex question_mutex;
constinit uint32_t questions = 0;    ///< asked so far
constinit uint64_t silent_until = 0; ///< timer cycles

} // namespace

Answered take_answer(const rte_mp_msg& reply, uint32_t number) {
    Answered result;
    for (int i = 0; i < reply.num_fds; ++i) {
        Fd fd(reply.fds[i]); // belongs to this process from now on, in any case
        if (i < 2) result.fds[i] = std::move(fd);
    }
    if (reply.len_param == sizeof result.answer)
        memcpy(&result.answer, reply.param, sizeof result.answer);
    if (result.answer.number == number) return result;
    Answered none;
    none.answer.error = ETIMEDOUT;
    return none;
}

Answered ask_primary(QuestionMessage question, unsigned milliseconds) {
    Answered result;
    const std::lock_guard lock(question_mutex);
    result.answer.error = ETIMEDOUT;
    if (question.what != Question::attach && rte_get_timer_cycles() < silent_until) return result;
    question.number = ++questions;
    rte_mp_msg request{};
    rte_strscpy(request.name, kActionName, sizeof request.name);
    memcpy(request.param, &question, sizeof question);
    request.len_param = sizeof question;
    struct rte_mp_reply replies {};
    const timespec patience{milliseconds / 1000, long{milliseconds % 1000} * 1'000'000};
    if (rte_mp_request_sync(&request, &replies, &patience) == 0 && replies.nb_received == 1)
        result = take_answer(replies.msgs[0], question.number);
    free(replies.msgs);
    const bool answered = result.answer.number == question.number;
    silent_until =
        answered ? 0 : rte_get_timer_cycles() + rte_get_timer_hz() / 1000 * kSilenceMilliseconds;
    return result;
}

} // namespace rawqp
