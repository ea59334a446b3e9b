// SPDX-License-Identifier: BSD-3-Clause
// Wire specifications: parses and checks the text of `wire=`.
#pragma once

#include "common/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace softhca::wire {

struct TapSpec {
    std::string name;
    bool plain = false; ///< each packet separately, with its checksums
};
struct SocketSpec {
    std::string path;
};
struct LinkSpec {
    std::string name;
};
struct PairSpec {
    std::string name;
};
struct PcapSpec {
    std::string in;  ///< played once; empty: nothing is received
    std::string out; ///< records sent frames; empty: no recording
};
struct LoopSpec {};
struct SinkSpec {};
struct GenSpec {
    uint64_t count = 0; ///< total frames; 0: unlimited
    uint32_t size = 60; ///< bytes of a frame without FCS
    uint32_t flows = 1; ///< number of distinct pairs of source address and source port
    uint64_t rate = 0;  ///< frames per second; 0: as fast as the device takes them
};
using WireSpec =
    std::variant<LoopSpec, TapSpec, SocketSpec, LinkSpec, PairSpec, PcapSpec, GenSpec, SinkSpec>;

/// Checks a specification without opening anything. Errors say what is wrong and how to write it.
[[nodiscard]] Result<WireSpec> parse_wire_spec(std::string_view text);

/// Whether a well-formed specification is a PairSpec.
[[nodiscard]] inline bool is_pair(std::string_view text) { return text.starts_with("pair:"); }

/// A well-formed specification with absolute file names, as it may be opened from another folder.
/// If the result cannot be expressed, the text is unchanged.
[[nodiscard]] std::string with_absolute_paths(std::string_view text);

} // namespace softhca::wire
