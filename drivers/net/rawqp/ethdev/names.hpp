// SPDX-License-Identifier: BSD-3-Clause
// Names for the numbers of DPDK and verbs, in the words of their documentation, for messages.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <string>

namespace rawqp {

/// "vxlan", as testpmd writes it.
[[nodiscard]] std::string item_name(rte_flow_item_type type);
[[nodiscard]] std::string action_name(rte_flow_action_type type);
/// "simple_xor".
[[nodiscard]] const char* hash_function_name(rte_eth_hash_function function);
/// "ipv4-sctp, l2-payload": of RTE_ETH_RSS_*.
[[nodiscard]] std::string rss_type_names(uint64_t types);
/// "IPv4 source, IPv4 destination": of IBV_RX_HASH_*; "none".
[[nodiscard]] std::string hash_field_names(uint64_t fields);
/// "dcb, vmdq": of RTE_ETH_MQ_RX_*_FLAG.
[[nodiscard]] std::string mq_mode_names(uint64_t modes);

} // namespace rawqp
