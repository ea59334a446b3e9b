// SPDX-License-Identifier: BSD-3-Clause
// Arbitrary CQEs for the Rx readers of the mlx5 rings, cyclic and striding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fuzz {

/// Plays the device that the input describes against a receive ring, and checks what a reader must
/// never do whatever a completion says: hand out an mbuf twice or one that is not its own, lose
/// one, post an address outside of the packet memory. What it must not read is a sanitizer's to
/// find. Returns what went wrong; empty: nothing. EAL must run; one thread.
///
/// Input: a byte each for reader, offloads and layout, then steps: an opcode byte, and for those
/// that write a CQE its 64 bytes.
[[nodiscard]] std::string play_cqes(std::span<const uint8_t> input);
/// Vector width of the reader that the input asks for. Where the CPU lacks it, a smaller one plays.
[[nodiscard]] unsigned reader_bits(std::span<const uint8_t> input);

} // namespace fuzz
