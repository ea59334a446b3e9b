// SPDX-License-Identifier: BSD-3-Clause
// Arbitrary frames for the Rx reader of the verbs rings, which parses them and sums them up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fuzz {

/// Plays the wire and the provider that the input describes: frames of any bytes, error
/// completions, receive requests that are refused. The frames must come out as they went in, and
/// for mbufs holds what play_cqes says. With AddressSanitizer what follows a frame in its
/// buffers must not be read. Returns what went wrong; empty: nothing. EAL must run; one thread.
///
/// Input: a byte each for offloads and layout, then steps: an opcode byte, and for a frame two
/// bytes for its length and the frame.
[[nodiscard]] std::string play_frames(std::span<const uint8_t> input);

} // namespace fuzz
