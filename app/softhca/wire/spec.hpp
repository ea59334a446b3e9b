// SPDX-License-Identifier: BSD-3-Clause
// Wire specifications: the text of `wire=` taken apart and checked.
#pragma once

#include "common/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace softhca::wire {

struct TapSpec {
    std::string name;
    bool plain = false; ///< each packet by itself, with its checksums
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
    std::string out; ///< records what is sent; empty: not recorded
};
struct LoopSpec {};
struct SinkSpec {};
struct GenSpec {
    uint64_t count = 0; ///< frames in all; 0: without end
    uint32_t size = 60; ///< bytes of a frame without FCS
    uint32_t flows = 1; ///< different pairs of source address and source port
    uint64_t rate = 0;  ///< frames a second; 0: as fast as the device takes them
};
using WireSpec =
    std::variant<LoopSpec, TapSpec, SocketSpec, LinkSpec, PairSpec, PcapSpec, GenSpec, SinkSpec>;

/// Checks what is written there; nothing is opened. Errors say what is wrong and how to write it.
[[nodiscard]] Result<WireSpec> parse_wire_spec(std::string_view text);

/// Whether a well-formed one is a PairSpec.
[[nodiscard]] inline bool is_pair(std::string_view text) { return text.starts_with("pair:"); }

/// A well-formed one, with the files that it names where they are from here: who opens it may be
/// in another folder by then. Where that cannot be written, the text as it is.
[[nodiscard]] std::string with_absolute_paths(std::string_view text);

} // namespace softhca::wire
