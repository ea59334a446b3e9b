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

/// Waits for the answer for so long, and behind other questions of this process. After one without
/// an answer all but `attach` are not asked for a second.
[[nodiscard]] Answered ask_primary(QuestionMessage question, unsigned milliseconds);

/// What came, if it answers the question of this number. EAL has no such numbers: once nobody waits
/// for an answer any more, it takes it for that to the next question of the process.
[[nodiscard]] Answered take_answer(const rte_mp_msg& reply, uint32_t number);

} // namespace rawqp
