// SPDX-License-Identifier: BSD-3-Clause
// Arbitrary CQEs for the Rx readers of the mlx5 rings, cyclic and striding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fuzz {

/// Plays the device that the input describes against a receive ring, and checks what a reader must
/// never do whatever a completion says: return an mbuf twice or one that is not its own, lose one,
/// post an address outside of the packet memory. Forbidden reads are left to sanitizers. Returns
/// what went wrong; empty: nothing. EAL must run; single-threaded.
///
/// Input: a byte each for reader, offloads and layout, then steps: an opcode byte, followed by the
/// 64 bytes of a CQE where one is written.
[[nodiscard]] std::string play_cqes(std::span<const uint8_t> input);
/// The vector width of the reader that the input selects; a smaller one plays if the CPU lacks it.
[[nodiscard]] unsigned reader_bits(std::span<const uint8_t> input);

} // namespace fuzz
