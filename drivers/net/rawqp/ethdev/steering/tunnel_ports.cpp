// SPDX-License-Identifier: BSD-3-Clause
// Applications tell drivers which UDP ports tunnels use. Devices know the registered ones by
// themselves; other ones are the kernel driver's to set, if anybody's.
#include "drivers/net/rawqp/ethdev/steering/ops.hpp"

#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/ethdev/steering/protocol.hpp"

#include <optional>

namespace rawqp {
namespace {

std::optional<Protocol> protocol_of(uint8_t tunnel_type) {
    switch (tunnel_type) {
    case RTE_ETH_TUNNEL_TYPE_VXLAN: return Protocol::vxlan;
    case RTE_ETH_TUNNEL_TYPE_VXLAN_GPE: return Protocol::vxlan_gpe;
    case RTE_ETH_TUNNEL_TYPE_GENEVE: return Protocol::geneve;
    default: return std::nullopt;
    }
}

Result<void> check(const rte_eth_udp_tunnel& tunnel) {
    const std::optional<Protocol> protocol = protocol_of(tunnel.prot_type);
    for (const Binding& binding : bindings_of(Protocol::udp)) {
        if (binding.upper != protocol) continue;
        if (binding.value == tunnel.udp_port) return {};
        return fail(ENOTSUP,
                    "UDP port {} for tunnels of {}: the device knows these by port {} only",
                    tunnel.udp_port, traits_of(binding.upper).name, binding.value);
    }
    return fail(ENOTSUP,
                "UDP port {} for tunnels of rte_eth_tunnel_type {}: ports are known for "
                "those of vxlan, vxlan-gpe and geneve only",
                tunnel.udp_port, tunnel.prot_type);
}

} // namespace

int udp_tunnel_port_add(rte_eth_dev* dev, rte_eth_udp_tunnel* tunnel) noexcept {
    return report(Port::of(dev).name, check(*tunnel));
}

} // namespace rawqp
