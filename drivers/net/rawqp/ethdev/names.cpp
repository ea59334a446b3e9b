// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/names.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cctype>
#include <span>

namespace rawqp {
namespace {

/// DPDK's own name, in lower case.
std::string dpdk_name(rte_flow_conv_op op, int type) {
    const char* name = nullptr;
    const auto number = static_cast<uintptr_t>(static_cast<unsigned>(type));
    rte_flow_error error;
    if (rte_flow_conv(op, &name, sizeof name, reinterpret_cast<const void*>(number), &error) < 0 ||
        name == nullptr)
        return "of a kind that this DPDK has no name for";
    std::string text = name;
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

struct NamedBits {
    uint64_t bits;
    const char* name;
};

/// The names of the set bits, separated by commas.
std::string names_of(uint64_t bits, std::span<const NamedBits> names) {
    std::string text;
    const auto add = [&](const char* name) {
        text += (text.empty() ? "" : ", ") + std::string(name);
    };
    for (const NamedBits& each : names)
        if ((bits & each.bits) != 0) {
            add(each.name);
            bits &= ~each.bits;
        }
    if (bits != 0) add("others");
    return text.empty() ? "none" : text;
}

constexpr NamedBits kRssTypes[] = {
    {RTE_ETH_RSS_IPV4, "ipv4"},
    {RTE_ETH_RSS_FRAG_IPV4, "ipv4-frag"},
    {RTE_ETH_RSS_NONFRAG_IPV4_TCP, "ipv4-tcp"},
    {RTE_ETH_RSS_NONFRAG_IPV4_UDP, "ipv4-udp"},
    {RTE_ETH_RSS_NONFRAG_IPV4_SCTP, "ipv4-sctp"},
    {RTE_ETH_RSS_NONFRAG_IPV4_OTHER, "ipv4-other"},
    {RTE_ETH_RSS_IPV6, "ipv6"},
    {RTE_ETH_RSS_FRAG_IPV6, "ipv6-frag"},
    {RTE_ETH_RSS_NONFRAG_IPV6_TCP, "ipv6-tcp"},
    {RTE_ETH_RSS_NONFRAG_IPV6_UDP, "ipv6-udp"},
    {RTE_ETH_RSS_NONFRAG_IPV6_SCTP, "ipv6-sctp"},
    {RTE_ETH_RSS_NONFRAG_IPV6_OTHER, "ipv6-other"},
    {RTE_ETH_RSS_L2_PAYLOAD, "l2-payload"},
    {RTE_ETH_RSS_IPV6_EX, "ipv6-ex"},
    {RTE_ETH_RSS_IPV6_TCP_EX, "ipv6-tcp-ex"},
    {RTE_ETH_RSS_IPV6_UDP_EX, "ipv6-udp-ex"},
    {RTE_ETH_RSS_PORT, "port"},
    {RTE_ETH_RSS_VXLAN, "vxlan"},
    {RTE_ETH_RSS_GENEVE, "geneve"},
    {RTE_ETH_RSS_NVGRE, "nvgre"},
    {RTE_ETH_RSS_GTPU, "gtpu"},
    {RTE_ETH_RSS_ETH, "eth"},
    {RTE_ETH_RSS_S_VLAN, "s-vlan"},
    {RTE_ETH_RSS_C_VLAN, "c-vlan"},
    {RTE_ETH_RSS_ESP, "esp"},
    {RTE_ETH_RSS_AH, "ah"},
    {RTE_ETH_RSS_L2TPV3, "l2tpv3"},
    {RTE_ETH_RSS_PFCP, "pfcp"},
    {RTE_ETH_RSS_PPPOE, "pppoe"},
    {RTE_ETH_RSS_ECPRI, "ecpri"},
    {RTE_ETH_RSS_MPLS, "mpls"},
    {RTE_ETH_RSS_IPV4_CHKSUM, "ipv4-chksum"},
    {RTE_ETH_RSS_L4_CHKSUM, "l4-chksum"},
    {RTE_ETH_RSS_L2TPV2, "l2tpv2"},
    {RTE_ETH_RSS_LEVEL_OUTERMOST, "level outermost"},
    {RTE_ETH_RSS_LEVEL_INNERMOST, "level innermost"},
    {RTE_ETH_RSS_L3_PRE32 | RTE_ETH_RSS_L3_PRE40 | RTE_ETH_RSS_L3_PRE48 | RTE_ETH_RSS_L3_PRE56 |
         RTE_ETH_RSS_L3_PRE64 | RTE_ETH_RSS_L3_PRE96,
     "prefixes of addresses"},
    {RTE_ETH_RSS_L2_SRC_ONLY, "l2-src-only"},
    {RTE_ETH_RSS_L2_DST_ONLY, "l2-dst-only"},
    {RTE_ETH_RSS_L3_SRC_ONLY, "l3-src-only"},
    {RTE_ETH_RSS_L3_DST_ONLY, "l3-dst-only"},
    {RTE_ETH_RSS_L4_SRC_ONLY, "l4-src-only"},
    {RTE_ETH_RSS_L4_DST_ONLY, "l4-dst-only"},
};

constexpr NamedBits kHashFields[] = {
    {IBV_RX_HASH_SRC_IPV4, "IPv4 source"},
    {IBV_RX_HASH_DST_IPV4, "IPv4 destination"},
    {IBV_RX_HASH_SRC_IPV6, "IPv6 source"},
    {IBV_RX_HASH_DST_IPV6, "IPv6 destination"},
    {IBV_RX_HASH_SRC_PORT_TCP, "TCP source port"},
    {IBV_RX_HASH_DST_PORT_TCP, "TCP destination port"},
    {IBV_RX_HASH_SRC_PORT_UDP, "UDP source port"},
    {IBV_RX_HASH_DST_PORT_UDP, "UDP destination port"},
};

constexpr NamedBits kMqModes[] = {{RTE_ETH_MQ_RX_RSS_FLAG, "rss"},
                                  {RTE_ETH_MQ_RX_DCB_FLAG, "dcb"},
                                  {RTE_ETH_MQ_RX_VMDQ_FLAG, "vmdq"}};

} // namespace

std::string item_name(rte_flow_item_type type) {
    return dpdk_name(RTE_FLOW_CONV_OP_ITEM_NAME_PTR, type);
}

std::string action_name(rte_flow_action_type type) {
    return dpdk_name(RTE_FLOW_CONV_OP_ACTION_NAME_PTR, type);
}

const char* hash_function_name(rte_eth_hash_function function) {
    switch (function) {
    case RTE_ETH_HASH_FUNCTION_DEFAULT: return "default";
    case RTE_ETH_HASH_FUNCTION_TOEPLITZ: return "toeplitz";
    case RTE_ETH_HASH_FUNCTION_SIMPLE_XOR: return "simple_xor";
    case RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ: return "symmetric_toeplitz";
    default: return "of an unknown kind";
    }
}

std::string rss_type_names(uint64_t types) { return names_of(types, kRssTypes); }
std::string hash_field_names(uint64_t fields) {
    constexpr uint64_t kInner = IBV_RX_HASH_INNER;
    return names_of(fields & ~kInner, kHashFields) +
           ((fields & kInner) != 0 ? " inside the tunnel" : "");
}
std::string mq_mode_names(uint64_t modes) { return names_of(modes, kMqModes); }

} // namespace rawqp
