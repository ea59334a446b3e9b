// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/offloads.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace perf {

Offloads Offloads::of(const std::vector<std::string>& names) {
    const auto has = [&names](const char* name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    return {
        .checksum = has("checksum"), .rss = has("rss"), .vlan = has("vlan"), .mark = has("mark")};
}

uint64_t Offloads::rx() const {
    return (checksum ? RTE_ETH_RX_OFFLOAD_CHECKSUM : 0) | (rss ? RTE_ETH_RX_OFFLOAD_RSS_HASH : 0) |
           (vlan ? RTE_ETH_RX_OFFLOAD_VLAN_STRIP : 0);
}

uint64_t Offloads::flags() const {
    return (checksum ? RTE_MBUF_F_RX_IP_CKSUM_GOOD : 0) | (rss ? RTE_MBUF_F_RX_RSS_HASH : 0) |
           (vlan ? RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED : 0) |
           (mark ? RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID : 0);
}

void mark_all(uint16_t port, uint64_t hash_types) {
    const rte_flow_attr attributes{
        .group = 0, .priority = 0, .ingress = 1, .egress = 0, .transfer = 0, .reserved = 0};
    const rte_flow_item pattern[] = {{RTE_FLOW_ITEM_TYPE_ETH, nullptr, nullptr, nullptr},
                                     {RTE_FLOW_ITEM_TYPE_IPV4, nullptr, nullptr, nullptr},
                                     {RTE_FLOW_ITEM_TYPE_UDP, nullptr, nullptr, nullptr},
                                     {RTE_FLOW_ITEM_TYPE_END, nullptr, nullptr, nullptr}};
    const rte_flow_action_mark mark{.id = 0x1234};
    const rte_flow_action_queue queue{.index = 0};
    const uint16_t queues[] = {0};
    rte_flow_action_rss rss{};
    rss.types = hash_types;
    rss.queue_num = 1;
    rss.queue = queues;
    rte_flow_action to{RTE_FLOW_ACTION_TYPE_QUEUE, &queue};
    if (hash_types != 0) to = {RTE_FLOW_ACTION_TYPE_RSS, &rss};
    const rte_flow_action actions[] = {
        {RTE_FLOW_ACTION_TYPE_MARK, &mark}, to, {RTE_FLOW_ACTION_TYPE_END, nullptr}};
    rte_flow_error error{};
    if (rte_flow_create(port, &attributes, pattern, actions, &error) == nullptr)
        throw std::runtime_error(fmt::format("port {}: a rule that marks all is refused: {}", port,
                                             error.message ? error.message : "no reason"));
}

} // namespace perf
