// SPDX-License-Identifier: BSD-3-Clause
// Arbitrary input for whatever reads what users, programs and other processes have written.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fuzz {

// Each plays one input and returns what went wrong; empty: nothing. Sanitizers tell the rest. One
// thread.

/// Device arguments of the driver, and softhca's port options, configuration files, wires and
/// faults; the first byte says which. What is accepted is written again and must be read as the
/// same; what is refused has a reason. EAL must run.
[[nodiscard]] std::string play_texts(std::span<const uint8_t> input);

/// Lines on the control socket: each is answered by one, and the server goes on.
[[nodiscard]] std::string play_control(std::span<const uint8_t> input);

/// Capture files for the wire pcap:.
[[nodiscard]] std::string play_captures(std::span<const uint8_t> input);

/// What a process at the other end of a link may write into the memory of the cable.
[[nodiscard]] std::string play_cables(std::span<const uint8_t> input);

/// A frame and rules: the parser, and the look-up against one rule after the other.
[[nodiscard]] std::string play_rules(std::span<const uint8_t> input);

/// rte_flow rules that stand beside each other: found good and made, or neither, with a reason.
/// Input: a byte for the engine; then for each rule, its attributes, items and actions.
[[nodiscard]] std::string play_flows(std::span<const uint8_t> input);

/// Firmware commands of a process, and what they lead the device to. Input: for each command, a
/// byte that chooses it, one for its length, and its bytes. Only where there are kernel headers.
[[nodiscard]] std::string play_commands(std::span<const uint8_t> input);

/// The same of a guest, by its command queue, whose slots and mailboxes have any bytes, too: the
/// device gives each slot back. Input: a byte that chooses among commands, slots and work of the
/// device; then a command as above, or a byte that says what of the slot's bytes is made plausible,
/// and these.
[[nodiscard]] std::string play_mailboxes(std::span<const uint8_t> input);

/// Calls of a program on an open uverbs device, and what its rings and the wire lead the device to.
/// Nothing is left of it on the device. Input: a byte for the context; then for each command, a
/// byte that chooses its kind, its number, and its structs, each after its length.
[[nodiscard]] std::string play_uverbs(std::span<const uint8_t> input);

} // namespace fuzz
