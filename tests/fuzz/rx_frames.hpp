// SPDX-License-Identifier: BSD-3-Clause
// Arbitrary frames for the Rx reader of the verbs rings, which parses them and checks checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fuzz {

/// Plays the wire and the provider that the input describes: arbitrary frames, error completions,
/// refused receive requests. Frames must come out as they went in, and for mbufs the same holds as
/// in play_cqes. With AddressSanitizer, what follows a frame in its buffers must not be read.
/// Returns what went wrong; empty: nothing. EAL must run; single-threaded.
///
/// Input: a byte each for offloads and layout, then steps: an opcode byte, followed for a frame by
/// two bytes for its length and the frame.
[[nodiscard]] std::string play_frames(std::span<const uint8_t> input);

} // namespace fuzz
