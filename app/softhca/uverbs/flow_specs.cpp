// SPDX-License-Identifier: BSD-3-Clause
// ibv_flow_spec_* to flow keys.
#include "app/softhca/uverbs/flow_match.hpp"

#include <algorithm>
#include <cerrno>
#include <infiniband/verbs.h>
#include <linux/if_ether.h>
#include <netinet/in.h>

namespace softhca::uverbs {
namespace {

/// Value and mask of one spec, as long as this front knows them.
template <class Filter> struct Filters { Filter value{}, mask{}; };

/// Both halves of the spec after its header. Shorter ones are of older programs; in longer ones
/// the rest must be zero.
template <class Filter> Errno split(std::span<const std::byte> spec, Filters<Filter>& out) {
    const auto body = spec.subspan(sizeof(ib_uverbs_flow_spec_hdr));
    const InBuffer value(body.data(), body.size() / 2);
    const InBuffer mask(body.data() + value.size(), value.size());
    constexpr size_t kAlignment = 4;
    if (value.size() == 0 || value.size() % kAlignment) return EINVAL;
    if (mask.has_more_than(sizeof(Filter))) return EINVAL;
    out = {value.as<Filter>(), mask.as<Filter>()};
    return 0;
}

bool is_zero(std::span<const std::byte> bytes) {
    return !InBuffer(bytes.data(), bytes.size()).has_more_than(0);
}
template <class T> std::span<const std::byte> bytes_of(const T& filter) {
    return std::as_bytes(std::span(&filter, 1));
}

template <class T> net::Be<T> big_endian(T raw) {
    net::Be<T> field;
    field.raw = raw;
    return field;
}

Errno set_protocol(uint8_t value, uint8_t mask, Match& match) {
    if (mask == 0) return 0;
    const bool set = match.mask.ip_proto != 0;
    if (set && (match.mask.ip_proto != mask || match.value.ip_proto != value)) return EINVAL;
    match.mask.ip_proto = mask;
    match.value.ip_proto = value;
    return 0;
}

/// Whether a rule may ask for this EtherType and for an IP header, too: MPLS may carry one.
bool types_agree(uint16_t asked, uint16_t mask, uint16_t of_version) {
    return mask == 0xffff &&
           (asked == of_version || asked == ETH_P_MPLS_UC || asked == ETH_P_MPLS_MC);
}

/// A rule names one IP version at most, and an EtherType that goes with it.
Errno set_version(uint8_t version, uint16_t ether_type, Match& match) {
    if (match.mask.ip_version && match.value.ip_version != version) return EINVAL;
    if (match.mask.ether_type &&
        !types_agree(match.value.ether_type, match.mask.ether_type, ether_type))
        return EINVAL;
    match.mask.ip_version = 0xff;
    match.value.ip_version = version;
    return 0;
}

Errno add_ethernet(std::span<const std::byte> spec, Match& match) {
    Filters<ib_uverbs_flow_eth_filter> f;
    if (const Errno error = split(spec, f)) return error;
    const auto ether_type = big_endian(f.value.ether_type),
               type_mask = big_endian(f.mask.ether_type);
    if (type_mask && match.mask.ip_version) {
        const uint16_t wanted = match.value.ip_version == 4 ? ETH_P_IP : ETH_P_IPV6;
        if (!types_agree(ether_type, type_mask, wanted)) return EINVAL;
    }
    std::copy_n(f.value.dst_mac, 6, match.value.dst_mac.begin());
    std::copy_n(f.mask.dst_mac, 6, match.mask.dst_mac.begin());
    std::copy_n(f.value.src_mac, 6, match.value.src_mac.begin());
    std::copy_n(f.mask.src_mac, 6, match.mask.src_mac.begin());
    match.value.ether_type = ether_type;
    match.mask.ether_type = type_mask;
    if (f.mask.vlan_tag) { // then the packet must have an 802.1Q tag at all
        match.value.cvlan = match.mask.cvlan = 1;
        match.value.vlan_tci = big_endian(f.value.vlan_tag);
        match.mask.vlan_tci = big_endian(f.mask.vlan_tag);
    }
    return 0;
}

Errno add_ipv4(std::span<const std::byte> spec, Match& match) {
    Filters<ib_uverbs_flow_ipv4_filter> f;
    if (const Errno error = split(spec, f)) return error;
    if (f.mask.ttl || f.mask.flags) return EOPNOTSUPP;
    if (const Errno error = set_version(4, ETH_P_IP, match)) return error;
    constexpr size_t kLast = 12; // an IPv4 address stands in the last four of sixteen bytes
    std::memcpy(match.value.src_ip.data() + kLast, &f.value.src_ip, 4);
    std::memcpy(match.mask.src_ip.data() + kLast, &f.mask.src_ip, 4);
    std::memcpy(match.value.dst_ip.data() + kLast, &f.value.dst_ip, 4);
    std::memcpy(match.mask.dst_ip.data() + kLast, &f.mask.dst_ip, 4);
    match.value.tos = f.value.tos;
    match.mask.tos = f.mask.tos;
    return set_protocol(f.value.proto, f.mask.proto, match);
}

Errno add_ipv6(std::span<const std::byte> spec, Match& match) {
    Filters<ib_uverbs_flow_ipv6_filter> f;
    if (const Errno error = split(spec, f)) return error;
    if (f.mask.hop_limit || f.mask.reserved) return EOPNOTSUPP;
    if (const Errno error = set_version(6, ETH_P_IPV6, match)) return error;
    std::copy_n(f.value.src_ip, 16, match.value.src_ip.begin());
    std::copy_n(f.mask.src_ip, 16, match.mask.src_ip.begin());
    std::copy_n(f.value.dst_ip, 16, match.value.dst_ip.begin());
    std::copy_n(f.mask.dst_ip, 16, match.mask.dst_ip.begin());
    constexpr uint32_t kLabelBits = 0xfffff;
    if ((big_endian(f.value.flow_label) | big_endian(f.mask.flow_label)) & ~kLabelBits)
        return EINVAL;
    match.value.flow_label = big_endian(f.value.flow_label);
    match.mask.flow_label = big_endian(f.mask.flow_label);
    match.value.tos = f.value.traffic_class;
    match.mask.tos = f.mask.traffic_class;
    return set_protocol(f.value.next_hdr, f.mask.next_hdr, match);
}

Errno add_l4(std::span<const std::byte> spec, uint8_t protocol, Match& match) {
    Filters<ib_uverbs_flow_tcp_udp_filter> f;
    if (const Errno error = split(spec, f)) return error;
    if (const Errno error = set_protocol(protocol, 0xff, match)) return error;
    if (f.mask.src_port || f.mask.dst_port) { // later fragments have no ports
        match.value.l4 = protocol;
        match.mask.l4 = 0xff;
    }
    match.value.src_port = big_endian(f.value.src_port);
    match.mask.src_port = big_endian(f.mask.src_port);
    match.value.dst_port = big_endian(f.value.dst_port);
    match.mask.dst_port = big_endian(f.mask.dst_port);
    return 0;
}

Errno add_vxlan(std::span<const std::byte> spec, Match& match) {
    Filters<ib_uverbs_flow_tunnel_filter> f;
    if (const Errno error = split(spec, f)) return error;
    constexpr uint32_t kVniBits = 0xffffff;
    if ((big_endian(f.value.tunnel_id) | big_endian(f.mask.tunnel_id)) & ~kVniBits) return EINVAL;
    match.value.vxlan_vni = big_endian(f.value.tunnel_id);
    match.mask.vxlan_vni = big_endian(f.mask.tunnel_id);
    return 0;
}

/// A spec of a header that this device does not look into: with an empty mask it says nothing, else
/// the driver asks the device for it, which refuses.
template <class Filter> Errno add_empty(std::span<const std::byte> spec) {
    Filters<Filter> f;
    if (const Errno error = split(spec, f)) return error;
    return is_zero(bytes_of(f.value)) && is_zero(bytes_of(f.mask)) ? 0 : EINVAL;
}

Errno add_gre(std::span<const std::byte> spec, Match& match) {
    Filters<ib_uverbs_flow_gre_filter> f;
    if (const Errno error = split(spec, f)) return error;
    if (f.mask.c_ks_res0_ver) return EOPNOTSUPP;
    if (const Errno error = set_protocol(IPPROTO_GRE, 0xff, match)) return error;
    return f.mask.protocol || f.mask.key || f.value.protocol || f.value.key ? EINVAL : 0;
}

Errno add_esp(std::span<const std::byte> spec) {
    Filters<ib_uverbs_flow_spec_esp_filter> f;
    if (const Errno error = split(spec, f)) return error;
    return f.mask.seq ? EOPNOTSUPP : f.mask.spi || f.value.spi ? EINVAL : 0;
}

Errno add_mpls(std::span<const std::byte> spec) {
    Filters<ib_uverbs_flow_mpls_filter> f;
    if (const Errno error = split(spec, f)) return error;
    return f.mask.label ? EOPNOTSUPP : f.value.label ? EINVAL : 0;
}

} // namespace

Errno add_flow_spec(std::span<const std::byte> spec, Match& match) {
    switch (InBuffer(spec.data(), spec.size()).as<ib_uverbs_flow_spec_hdr>().type) {
    case IBV_FLOW_SPEC_ETH: return add_ethernet(spec, match);
    case IBV_FLOW_SPEC_IPV4: return add_ipv4(spec, match);
    case IBV_FLOW_SPEC_IPV6: return add_ipv6(spec, match);
    case IBV_FLOW_SPEC_TCP: return add_l4(spec, IPPROTO_TCP, match);
    case IBV_FLOW_SPEC_UDP: return add_l4(spec, IPPROTO_UDP, match);
    case IBV_FLOW_SPEC_VXLAN_TUNNEL: return add_vxlan(spec, match);
    case IBV_FLOW_SPEC_GRE: return add_gre(spec, match);
    case IBV_FLOW_SPEC_MPLS:
    case IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_MPLS: return add_mpls(spec);
    case IBV_FLOW_SPEC_ESP:
    case IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_ESP: return add_esp(spec);
    case IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_ETH: return add_empty<ib_uverbs_flow_eth_filter>(spec);
    // Unknown ones, actions and counters that were never made, and inner headers whose mere
    // presence is a match.
    default: return EINVAL;
    }
}

} // namespace softhca::uverbs
