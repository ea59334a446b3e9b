// SPDX-License-Identifier: BSD-3-Clause
// What is known about one link of the chain from a NIC to a port of the driver.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace diagnosis {

enum class State : uint8_t {
    ok,
    warning, ///< a port works, but less well or less safely than it could
    broken,
    unknown, ///< it cannot be seen from here
    skipped, ///< a link that it depends on is broken
};

[[nodiscard]] const char* name_of(State state);

/// What a check has found.
struct Verdict {
    State state = State::unknown;
    std::string evidence; ///< what was seen
    std::string cause;    ///< broken or warning: what that means. skipped: because of which link
    std::string remedy;   ///< the command that fixes it, or what to do

    [[nodiscard]] static Verdict ok(std::string evidence) {
        return {State::ok, std::move(evidence), {}, {}};
    }
    [[nodiscard]] static Verdict unknown(std::string evidence) {
        return {State::unknown, std::move(evidence), {}, {}};
    }
    [[nodiscard]] static Verdict broken(std::string evidence, std::string cause,
                                        std::string remedy) {
        return {State::broken, std::move(evidence), std::move(cause), std::move(remedy)};
    }
    [[nodiscard]] static Verdict warning(std::string evidence, std::string cause,
                                         std::string remedy) {
        return {State::warning, std::move(evidence), std::move(cause), std::move(remedy)};
    }
    /// "cause (evidence): remedy", for a log.
    [[nodiscard]] std::string sentence() const;
};

struct Finding {
    std::string_view id;    ///< "uverbs-node": stays the same from release to release
    std::string_view about; ///< "device node and its permissions"
    Verdict verdict;
};

} // namespace diagnosis
