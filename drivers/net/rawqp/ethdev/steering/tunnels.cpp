// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/tunnels.hpp"

#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

#include <algorithm>
#include <vector>

namespace rawqp {
namespace {

using enum Protocol;

struct NamedTunnel {
    Protocol protocol;
    uint32_t type;
};
constexpr NamedTunnel kTunnels[] = {
    {vxlan, RTE_PTYPE_TUNNEL_VXLAN},
    {vxlan_gpe, RTE_PTYPE_TUNNEL_VXLAN_GPE},
    {geneve, RTE_PTYPE_TUNNEL_GENEVE},
    {gre, RTE_PTYPE_TUNNEL_GRE},
    {nvgre, RTE_PTYPE_TUNNEL_NVGRE},
    {gtp, RTE_PTYPE_TUNNEL_GTPU},
    {mpls_in_udp, RTE_PTYPE_TUNNEL_MPLS_IN_UDP},
    {mpls_in_gre, RTE_PTYPE_TUNNEL_MPLS_IN_GRE},
};
static_assert(std::size(kTunnels) == kNamedTunnels);

TunnelKind kind_of(Protocol protocol) {
    const auto* const found = std::ranges::find(kTunnels, protocol, &NamedTunnel::protocol);
    return static_cast<TunnelKind>(found - std::begin(kTunnels)); // kAnyTunnel: it has no name
}

constexpr uint16_t kUdpPort = 16, kUdpPortBits = 16;

/// What a UDP destination port says about what follows.
struct TunnelPort {
    uint16_t number;
    TunnelKind kind;
};
std::vector<TunnelPort> tunnel_ports() {
    std::vector<TunnelPort> ports;
    for (const Binding& binding : bindings_of(udp))
        if (traits_of(binding.upper).tunnel)
            ports.push_back({binding.value, kind_of(binding.upper)});
    return ports;
}

/// A UDP port says which tunnel it is, or that there is none.
TunnelKind tunnels_in(const Layer& of_udp) {
    static const std::vector<TunnelPort> kPorts = tunnel_ports();
    const uint64_t port = of_udp.get(kUdpPort, kUdpPortBits);
    const uint64_t asked = get_bits(of_udp.mask, kUdpPort, kUdpPortBits);
    for (const auto& [number, kind] : kPorts) {
        if (((port ^ number) & asked) != 0) continue;
        return asked == 0xffff ? kind : kAnyTunnel; // a partly masked port may be that of a tunnel
    }
    return kNoTunnel;
}

} // namespace

TunnelKind tunnels_of(const Pattern& pattern) {
    TunnelKind kind = kAnyTunnel;
    for (const Layer& layer : pattern.layers()) {
        if (layer.depth != 0 || is_metadata(layer.protocol)) break;
        switch (layer.protocol) {
        case tcp:
        case icmp:
        case icmp6:
        case igmp:
        case arp:
        case ah:
        case esp: kind = kNoTunnel; break;
        case udp: kind = tunnels_in(layer); break;
        default:
            if (traits_of(layer.protocol).tunnel && layer.protocol != gre_key)
                kind = kind_of(layer.protocol);
        }
    }
    return kind;
}

uint32_t TunnelCounts::type() const {
    const auto some = [](uint32_t count) { return count != 0; };
    if (std::ranges::count_if(counts_, some) != 1) return 0;
    const auto which = std::ranges::find_if(counts_, some) - counts_.begin();
    return which < kNamedTunnels ? kTunnels[which].type : 0;
}

} // namespace rawqp
