// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/match.hpp"

#include "common/net/endian.hpp"

#include <algorithm>
#include <netinet/in.h>

namespace rawqp {

namespace {

struct ClassTraits {
    TrafficClass traffic;
    TrafficClass parent; ///< the class that its packets belong to without it
    uint16_t depth;
    bool (*narrow)(FlowMatch& match); ///< from the parent's match
};

bool narrow_to_tcp(FlowMatch& match) { return add_l4(match, IBV_FLOW_SPEC_TCP); }
bool narrow_to_udp(FlowMatch& match) { return add_l4(match, IBV_FLOW_SPEC_UDP); }

// Indexed by TrafficClass.
using enum TrafficClass;
constexpr std::array<ClassTraits, kTrafficClasses.size()> kClasses{{
    {other, other, 2, nullptr},
    {ipv4, other, 1, add_ipv4},
    {ipv6, other, 1, add_ipv6},
    {ipv4_tcp, ipv4, 0, narrow_to_tcp},
    {ipv4_udp, ipv4, 0, narrow_to_udp},
    {ipv6_tcp, ipv6, 0, narrow_to_tcp},
    {ipv6_udp, ipv6, 0, narrow_to_udp},
}};

const ClassTraits& traits_of(TrafficClass traffic) {
    return kClasses[static_cast<size_t>(traffic)];
}

/// The field is known to hold `implied`: drops its condition, or says that it contradicts.
template <class T> bool imply(T& value, T& mask, T implied) {
    if ((value ^ implied) & mask) return false;
    value = mask = 0;
    return true;
}

bool imply_ether_type(FlowMatch& match, uint16_t ether_type) {
    return imply(match.eth.val.ether_type, match.eth.mask.ether_type, net::to_be(ether_type));
}

/// `match` narrowed from class `from` to its descendant `to`.
std::optional<FlowMatch> narrow(FlowMatch match, TrafficClass from, TrafficClass to) {
    if (to == from) return match;
    if (to == other) return std::nullopt; // not a descendant
    const ClassTraits& traits = traits_of(to);
    auto narrowed = narrow(match, from, traits.parent);
    if (!narrowed || !traits.narrow(*narrowed)) return std::nullopt;
    return narrowed;
}

} // namespace

bool add_ipv4(FlowMatch& match) {
    match.ipv4 = make_spec<ibv_flow_spec_ipv4_ext>(IBV_FLOW_SPEC_IPV4_EXT);
    return imply_ether_type(match, RTE_ETHER_TYPE_IPV4);
}

bool add_ipv6(FlowMatch& match) {
    match.ipv6 = make_spec<ibv_flow_spec_ipv6>(IBV_FLOW_SPEC_IPV6);
    return imply_ether_type(match, RTE_ETHER_TYPE_IPV6);
}

bool add_l4(FlowMatch& match, ibv_flow_spec_type type) {
    match.l4 = make_spec<ibv_flow_spec_tcp_udp>(type);
    const uint8_t proto = type == IBV_FLOW_SPEC_TCP ? IPPROTO_TCP : IPPROTO_UDP;
    if (match.ipv4) return imply(match.ipv4->val.proto, match.ipv4->mask.proto, proto);
    if (match.ipv6) return imply(match.ipv6->val.next_hdr, match.ipv6->mask.next_hdr, proto);
    return true;
}

TrafficClass class_of(const FlowMatch& match) {
    const bool tcp = match.l4 && match.l4->type == IBV_FLOW_SPEC_TCP;
    if (match.ipv4) return !match.l4 ? ipv4 : tcp ? ipv4_tcp : ipv4_udp;
    if (match.ipv6) return !match.l4 ? ipv6 : tcp ? ipv6_tcp : ipv6_udp;
    return other;
}

uint16_t depth_of(TrafficClass traffic) { return traits_of(traffic).depth; }

std::vector<ClassRule> split_by_class(const FlowMatch& match, uint64_t rte_rss_types) {
    const TrafficClass base = class_of(match);
    std::vector<ClassRule> rules;
    for (auto it = kTrafficClasses.rbegin(); it != kTrafficClasses.rend(); ++it) {
        const TrafficClass traffic = *it;
        const uint64_t fields = hash_fields_of(traffic, rte_rss_types);
        if (traffic != base && fields == hash_fields_of(traits_of(traffic).parent, rte_rss_types))
            continue; // hashed like its parent class
        if (auto narrowed = narrow(match, base, traffic))
            rules.push_back({traffic, *narrowed, fields});
    }
    return rules;
}

RssDestination destination_of(const std::vector<uint16_t>& table, const RssKey& key,
                              uint64_t hash_fields) {
    if (hash_fields == 0) return {.queues = {table.front()}};
    return {.queues = table, .key = key, .hash_fields = hash_fields};
}

void FlowMatch::append_to(std::vector<uint8_t>& out) const {
    append_spec(out, eth, eth.val, eth.mask);
    if (ipv4) append_spec(out, *ipv4, ipv4->val, ipv4->mask);
    if (ipv6) {
        // The one filter that ends in padding.
        const auto &v = ipv6->val, &m = ipv6->mask;
        append_spec(out, *ipv6, v.src_ip, v.dst_ip, v.flow_label, v.next_hdr, v.traffic_class,
                    v.hop_limit, m.src_ip, m.dst_ip, m.flow_label, m.next_hdr, m.traffic_class,
                    m.hop_limit);
    }
    if (l4) append_spec(out, *l4, l4->val, l4->mask);
}

std::vector<uint8_t> FlowMatch::bytes() const {
    std::vector<uint8_t> out;
    append_to(out);
    return out;
}

uint8_t FlowMatch::spec_count() const {
    return static_cast<uint8_t>(1 + ipv4.has_value() + ipv6.has_value() + l4.has_value());
}

size_t FlowMatch::byte_count() const {
    return sizeof eth + (ipv4 ? sizeof *ipv4 : 0) + (ipv6 ? sizeof *ipv6 : 0) +
           (l4 ? sizeof *l4 : 0);
}

std::string FlowMatch::layers() const {
    std::string text = "eth";
    if (eth.mask.vlan_tag) text += "/vlan";
    if (ipv4) text += "/ipv4";
    if (ipv6) text += "/ipv6";
    if (l4) text += l4->type == IBV_FLOW_SPEC_TCP ? "/tcp" : "/udp";
    return text;
}

} // namespace rawqp
