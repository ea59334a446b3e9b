// SPDX-License-Identifier: BSD-3-Clause
// Which kind of tunnel the packets of an Rx queue are in. Devices report that there is one but not
// its kind; the rules that lead to the queue may tell.
#pragma once

#include <array>
#include <cstdint>

namespace rawqp {

class Pattern;

/// A tunnel with a name, or one of these.
using TunnelKind = uint8_t;
inline constexpr TunnelKind kNamedTunnels = 8, kAnyTunnel = 8, kNoTunnel = 9;

/// The tunnels that packets of the pattern may be in.
[[nodiscard]] TunnelKind tunnels_of(const Pattern& pattern);

/// Counts by kind of tunnel, except none.
class TunnelCounts {
  public:
    /// True if it is the first one, or was the last one.
    bool add(TunnelKind kind) { return counts_[kind]++ == 0; }
    bool remove(TunnelKind kind) { return --counts_[kind] == 0; }
    /// RTE_PTYPE_TUNNEL_*, if all counted ones have the same name; else 0.
    [[nodiscard]] uint32_t type() const;

  private:
    std::array<uint32_t, kNamedTunnels + 1> counts_{};
};

} // namespace rawqp
