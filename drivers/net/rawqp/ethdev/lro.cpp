// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/lro.hpp"

#include "common/verbs/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/devx/devx.hpp"
#include "drivers/net/rawqp/ethdev/devx/lro.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>
#include <string>

namespace rawqp {

static_assert(kMaxLroPacket == prm::kLroMaxUnits * prm::kLroUnit);

std::optional<LroCap> find_lro(Devx& devx) {
    prm::QueryCapIn in{};
    in.head.op_mod = prm::kEthernetCap;
    prm::QueryEthernetCapOut device{};
    std::string reason = "it does not put segments together";
    if (const int error = devx.ask(in, device)) {
        reason = verbs::errno_text(error); // no DevX
    } else if ((device.offloads & prm::kLroCap) != 0) {
        const uint32_t mode = device.offloads & prm::kLroSizeMode;
        reason = "it counts the size of packets in a way that is not known";
        if (mode == 0 || mode == prm::kLroSizeFromL2) {
            LroCap cap{.size_from_l2 = mode != 0,
                       .tunnels = (device.offloads & prm::kTunnelStateless) != 0};
            std::ranges::copy(device.lro_periods, cap.periods.begin());
            reason = "the kernel lets the process make no objects of the device";
            if (devx.available()) return cap;
        }
    }
    RAWQP_LOG(DEBUG, "the device offers no LRO: %s", reason.c_str());
    return std::nullopt;
}

LroTerms lro_terms(const LroCap& cap, uint32_t bytes, uint32_t period) {
    constexpr uint32_t kBeforeTcp =
        sizeof(rte_ether_hdr) + 2 * sizeof(rte_vlan_hdr) + sizeof(rte_ipv6_hdr);
    const uint32_t uncounted = cap.size_from_l2 ? 0 : kBeforeTcp;
    const uint32_t units = (std::max(bytes, uncounted) - uncounted) / prm::kLroUnit;
    uint32_t chosen = cap.periods[0];
    for (const uint32_t supported : cap.periods)
        if (supported <= period) chosen = std::max(chosen, supported);
    return {.period = static_cast<uint16_t>(std::min<uint32_t>(chosen, UINT16_MAX)),
            // Devices may interpret 0 in any way; no two segments fit in 1 either.
            .units = static_cast<uint8_t>(std::clamp(units, 1u, prm::kLroMaxUnits)),
            .tunnels = cap.tunnels};
}

Result<void> check_lro(uint64_t rx_offloads) {
    if ((rx_offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO) == 0) return {};
    if ((rx_offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC) != 0)
        return fail(ENOTSUP, "LRO does not go with RTE_ETH_RX_OFFLOAD_KEEP_CRC: a packet made of "
                             "segments has no FCS: leave one of them out");
    if ((rx_offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0)
        return fail(ENOTSUP, "LRO does not go with RTE_ETH_RX_OFFLOAD_TIMESTAMP: a packet made of "
                             "segments has come at several times: leave one of them out");
    if ((rx_offloads & RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT) != 0)
        return fail(ENOTSUP, "LRO does not go with RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT: the headers, "
                             "which the driver completes, have to lie in one mbuf: leave one of "
                             "them out");
    return {};
}

} // namespace rawqp
