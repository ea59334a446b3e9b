// SPDX-License-Identifier: BSD-3-Clause
// The secondary's side: questions to the primary, and their answers.
#pragma once

#include "common/fd.hpp"
#include "drivers/net/rawqp/ethdev/process/protocol.hpp"

namespace rawqp {

struct Answered {
    AnswerMessage answer; ///< its error is ETIMEDOUT if none came
    Fd fds[2];            ///< that came with it
};

/// Waits this long for the answer, after waiting for other questions of this process. For a second
/// after an unanswered question, only `attach` is asked.
[[nodiscard]] Answered ask_primary(QuestionMessage question, unsigned milliseconds);

/// The reply, if it answers the question with this number. EAL has no such numbers: it mistakes an
/// answer for which nobody waits any more for that to the process's next question.
[[nodiscard]] Answered take_answer(const rte_mp_msg& reply, uint32_t number);

} // namespace rawqp
