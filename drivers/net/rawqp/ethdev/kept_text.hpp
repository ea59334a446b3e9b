// SPDX-License-Identifier: BSD-3-Clause
// Error texts, to which rte_flow_error and rte_mtr_error only hold a pointer.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace rawqp {

/// Valid until the same thread has been given several more errors: before an application shows the
/// first one, it may call again to undo what it has done.
inline const char* keep_text(std::string text) {
    thread_local std::array<std::string, 16> texts;
    thread_local size_t next = 0;
    std::string& kept = texts[next++ % texts.size()];
    kept = std::move(text);
    return kept.c_str();
}

} // namespace rawqp
