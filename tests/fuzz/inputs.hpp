// SPDX-License-Identifier: BSD-3-Clause
// Arbitrary input for code that reads what users, programs and other processes have written.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

namespace fuzz {

// Each plays one input and returns what went wrong; empty: nothing. Sanitizers find the rest.
// Single-threaded.

/// Device arguments of the driver, and softhca's port options, configuration files, wires and
/// faults; the first byte selects which. Accepted input is written out and must read back the same;
/// a refusal has a reason. EAL must run.
[[nodiscard]] std::string play_texts(std::span<const uint8_t> input);

/// Lines on the control socket: each gets one line in answer, and the server continues.
[[nodiscard]] std::string play_control(std::span<const uint8_t> input);

/// Capture files for the wire pcap:.
[[nodiscard]] std::string play_captures(std::span<const uint8_t> input);

/// What a process at the other end of a link may write into the cable's memory.
[[nodiscard]] std::string play_cables(std::span<const uint8_t> input);

/// A frame and rules: the parser, and the lookup compared with trying rule after rule.
[[nodiscard]] std::string play_rules(std::span<const uint8_t> input);

/// rte_flow rules next to each other: validate and create both accept each, or both refuse it with
/// a reason. Input: a byte for the engine; then for each rule, its attributes, items and actions.
[[nodiscard]] std::string play_flows(std::span<const uint8_t> input);

/// Firmware commands of a process, and what they make the device do. Input: a byte for the format
/// of steering entries; for each command, its opcode (low byte first), a byte that says what is put
/// into it, one each for its modifier and its length, its bytes, and what is put where; after every
/// eighth, a page and what is written there. Only where there are kernel headers.
[[nodiscard]] std::string play_commands(std::span<const uint8_t> input);
/// Plays it, and returns the opcodes of the commands that succeeded.
[[nodiscard]] std::set<uint16_t> commands_done(std::span<const uint8_t> input);

/// The same from a guest, through its command queue, whose slots and mailboxes also contain
/// arbitrary bytes: the device gives each slot back. Input: a byte for the format of steering
/// entries; then one that selects a command, a slot or work of the device; then a command as above,
/// or a byte that says which of the slot's bytes are made plausible, and these bytes.
[[nodiscard]] std::string play_mailboxes(std::span<const uint8_t> input);

/// Calls of a program on an open uverbs device, and what its rings and the wire make the device do.
/// Nothing of the program is left on the device. Input: a byte for the context; then for each
/// command, a byte that selects its kind, its number, and its structs, each after its length.
[[nodiscard]] std::string play_uverbs(std::span<const uint8_t> input);

} // namespace fuzz
