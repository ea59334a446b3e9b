// SPDX-License-Identifier: BSD-3-Clause
// What an errno of a verbs call most likely means, for messages.
#pragma once

#include <cstdint>
#include <string>

namespace verbs {

/// The attempt that failed with the errno.
enum class Attempt : uint8_t {
    open_device = 1,
    create_queue = 2,   ///< its CQ or WQ
    create_raw_qp = 4,  ///< a RAW_PACKET QP of any size
    create_send_qp = 8, ///< that of a Tx queue
    register_memory = 16,
    steer = 32, ///< rules, hash QPs and their tables
};

/// "Operation not permitted".
[[nodiscard]] std::string errno_text(int error);

/// Texts that live for ever; empty where nothing is known.
struct Reason {
    const char* cause = "";
    const char* remedy = "";
};
[[nodiscard]] Reason reason_of(int error, Attempt attempt);

/// "Operation not permitted: CAP_NET_RAW is needed …": the errno's text and, where one is known,
/// the likely cause and the remedy.
[[nodiscard]] std::string errno_text(int error, Attempt attempt);

} // namespace verbs
