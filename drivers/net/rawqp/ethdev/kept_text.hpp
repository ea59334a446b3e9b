// SPDX-License-Identifier: BSD-3-Clause
// Texts of errors, of which rte_flow_error and rte_mtr_error hold no more than a pointer.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace rawqp {

/// Valid until the same thread has been told several errors more: an application may call again
/// before it shows the first one, to take back what it has done.
inline const char* keep_text(std::string text) {
    thread_local std::array<std::string, 16> texts;
    thread_local size_t next = 0;
    std::string& kept = texts[next++ % texts.size()];
    kept = std::move(text);
    return kept.c_str();
}

} // namespace rawqp
