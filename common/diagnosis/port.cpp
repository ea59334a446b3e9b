// SPDX-License-Identifier: BSD-3-Clause
// The RDMA port and its network interface: kind, link, speed, MTU.
#include "common/diagnosis/links.hpp"
#include "common/diagnosis/refusals.hpp"

#include <net/if.h>

namespace diagnosis::links {
namespace {

Verdict link_of(const Case& subject, const ::netdev::Netdev& netdev) {
    const Result<unsigned> flags = netdev.flags();
    const Result<::netdev::Link> link = netdev.link();
    if (!flags || !link) return Verdict::unknown((flags ? link.error() : flags.error()).what);
    const std::string mtu = netdev.mtu()
                                .map([](uint32_t bytes) { return fmt::format("MTU {}", bytes); })
                                .value_or("MTU unknown");
    if ((*flags & IFF_UP) == 0)
        return Verdict::broken(fmt::format("{} is administratively down, {}", subject.netdev, mtu),
                               "the port is down: no packet comes in",
                               fmt::format("ip link set {} up", subject.netdev));
    if (!link->up)
        return Verdict::broken(
            fmt::format("{} is up, but has no carrier", subject.netdev),
            "the cable is unplugged, the peer is down, or the two do not agree on speed or FEC",
            fmt::format("ethtool {}; ethtool --show-fec {}; ip link set up at the peer",
                        subject.netdev, subject.netdev));
    const std::string speed =
        link->speed_mbps != 0 ? fmt::format("{} Mbit/s", link->speed_mbps) : "speed unknown";
    return Verdict::ok(fmt::format("Ethernet, {} up, {}, {}", subject.netdev, speed, mtu));
}

} // namespace

Verdict port(Case& subject) {
    const unsigned ports = subject.trial.attributes.orig_attr.phys_port_cnt;
    if (subject.port > ports) return no_such_port(subject.device, subject.port, ports);
    ibv_port_attr attributes{};
    if (const int error =
            verbs::query_port(*subject.api, subject.trial.context.get(), subject.port, attributes))
        return refused("ibv_query_port", error, verbs::Attempt::open_device,
                       fmt::format("{} port {} does not answer", subject.device, subject.port));
    if (attributes.link_layer != IBV_LINK_LAYER_ETHERNET)
        return not_ethernet(subject.device, subject.port);
    if (!subject.netdev.empty()) return link_of(subject, ::netdev::Netdev(subject.netdev));
    if (attributes.state != IBV_PORT_ACTIVE)
        return Verdict::broken("Ethernet, the RDMA port is not active",
                               "the port is down: no packet comes in",
                               "ip link set DEV up where its interface is; check cable and peer");
    return Verdict::ok("Ethernet, active");
}

} // namespace diagnosis::links
