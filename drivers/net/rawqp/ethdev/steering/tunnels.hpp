// SPDX-License-Identifier: BSD-3-Clause
// Which kind of tunnel the packets of an Rx queue are in. Devices tell that there is one, and not
// of which kind; the rules that lead to the queue may.
#pragma once

#include <array>
#include <cstdint>

namespace rawqp {

class Pattern;

/// One that has a name, or one of these.
using TunnelKind = uint8_t;
inline constexpr TunnelKind kNamedTunnels = 8, kAnyTunnel = 8, kNoTunnel = 9;

/// The tunnels that packets of the pattern may be in.
[[nodiscard]] TunnelKind tunnels_of(const Pattern& pattern);

/// How many of something there are of each kind, but of none.
class TunnelCounts {
  public:
    /// True if it is the first one, or was the last one.
    bool add(TunnelKind kind) { return counts_[kind]++ == 0; }
    bool remove(TunnelKind kind) { return --counts_[kind] == 0; }
    /// RTE_PTYPE_TUNNEL_*, if all that there are have one name; else 0.
    [[nodiscard]] uint32_t type() const;

  private:
    std::array<uint32_t, kNamedTunnels + 1> counts_{};
};

} // namespace rawqp
