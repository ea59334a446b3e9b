// SPDX-License-Identifier: BSD-3-Clause
// What a rule changes in its packets. Pure values.
#pragma once

#include "drivers/net/rawqp/ethdev/ref.hpp"
#include "drivers/net/rawqp/ethdev/steering/protocol.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rawqp {

/// A field of an outermost header, or some bits of metadata, that gets another value.
struct Rewrite {
    Protocol protocol = Protocol::eth;
    uint16_t bit = 0, bits = 0;      ///< of the layer; a row of the table of fields to rewrite
    bool add = false;                ///< the value is added rather than set
    std::array<uint8_t, 16> value{}; ///< the first bits of it, as on the wire

    struct Source {
        Protocol protocol = Protocol::eth;
        uint16_t bit = 0;
        auto operator<=>(const Source&) const = default;
    };
    std::optional<Source> from{}; ///< this many bits are copied from there; none: the value counts

    auto operator<=>(const Rewrite&) const = default;
};

/// What is removed from and added to the front of a packet.
enum class Reformat : uint8_t {
    none,
    strip_tunnel,       ///< up to the inner Ethernet header
    wrap,               ///< the header goes before the packet
    strip_tunnel_to_l3, ///< up to the inner IP header, before which the header (Ethernet) goes
    wrap_l3,            ///< the header replaces Ethernet's
};

/// In the order in which the device works: tunnels are stripped, fields change, tunnels are added.
struct Edits {
    std::vector<Rewrite> rewrites{};
    Reformat reformat = Reformat::none;
    std::vector<uint8_t> header{};       ///< of `reformat`
    bool pop_vlan = false;               ///< before fields change
    std::optional<uint32_t> push_vlan{}; ///< TPID and TCI of a tag that is pushed after that

    [[nodiscard]] bool empty() const {
        return rewrites.empty() && reformat == Reformat::none && !changes_tags();
    }
    [[nodiscard]] bool sets(Protocol protocol) const {
        return std::ranges::find(rewrites, protocol, &Rewrite::protocol) != rewrites.end();
    }
    [[nodiscard]] bool changes_tags() const { return pop_vlan || push_vlan; }
    [[nodiscard]] bool strips_tunnel() const {
        return reformat == Reformat::strip_tunnel || reformat == Reformat::strip_tunnel_to_l3;
    }
    /// For rte_flow_dev_dump(): ", ipv4 ttl set to 0x9", and so on in the device's order.
    [[nodiscard]] std::string text() const;
    auto operator<=>(const Edits&) const = default;
};
using SharedEdits = Ref<const Edits>;

/// What the device's fields have room for: 10 bits for the bytes of a header, 8 for the number of
/// commands, of which a mark takes one. A larger number would be truncated.
inline constexpr size_t kMostHeaderBytes = (1u << 10) - 1, kMostRewriteCommands = (1u << 8) - 2;

/// set_action_in, add_action_in and copy_action_in of the PRM, eight bytes each, in big-endian
/// order.
[[nodiscard]] std::vector<uint64_t> rewrite_commands(std::span<const Rewrite> rewrites);

} // namespace rawqp
