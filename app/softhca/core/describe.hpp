// SPDX-License-Identifier: BSD-3-Clause
// Describes in words what rules match and do.
#pragma once

#include "app/softhca/core/flow_path.hpp"
#include "app/softhca/core/types.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace softhca::core {

/// Names and values of header fields, in the order of FlowKey. Fields inside a tunnel begin with
/// "inner.".
using FieldTexts = std::vector<std::pair<std::string, std::string>>;

/// The fields that `mask` touches: `value`, and the mask where it does not cover the whole field.
/// For addresses, the mask is given as a prefix length if possible.
[[nodiscard]] FieldTexts describe_fields(const FlowKey& value, const FlowKey& mask);

/// In one line, such as "ethertype=0x800 ttl=64".
[[nodiscard]] std::string joined(const FieldTexts& fields);
/// All header fields of a packet except those that are zero, in one line.
[[nodiscard]] std::string describe_packet(const FlowKey& key);

/// What is wrong with the packet's lengths and checksums, such as "IPv4 checksum, UDP checksum in
/// the tunnel"; empty: nothing.
[[nodiscard]] std::string describe_wrong(const Packet& packet);

[[nodiscard]] std::string hex(std::span<const std::byte> bytes);

[[nodiscard]] const char* text_of(FlowDomain domain);
[[nodiscard]] const char* text_of(FlowRoot root);
[[nodiscard]] const char* text_of(QueueState state);
[[nodiscard]] const char* text_of(VirtqState state);
[[nodiscard]] const char* text_of(VirtqFault fault);
[[nodiscard]] const char* text_of(ReformatKind kind);
[[nodiscard]] const char* text_of(Color color);
[[nodiscard]] const char* text_of(MeterMode mode);

/// A port's counter.
struct CounterName {
    const char* name;
    uint64_t PortCounters::*counter;
    const char* loss = nullptr; ///< what it means, if it counts lost packets
};
[[nodiscard]] std::span<const CounterName> port_counters();

/// What a rule does to packets before they go to their destinations, in order; empty: nothing.
[[nodiscard]] std::string describe_rewrite(const Rewrite& rewrite);
/// For example "meter 1 of pair 5, color into reg_c3".
[[nodiscard]] std::string describe_metering(const Metering& metering);
/// For example "set dst_ipv4 = 0xa000001".
[[nodiscard]] std::string describe_edit(const HeaderEdit& edit);

} // namespace softhca::core
