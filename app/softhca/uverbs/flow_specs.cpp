// SPDX-License-Identifier: BSD-3-Clause
// Translates ibv_flow_spec_* to flow keys.
#include "app/softhca/uverbs/flow_match.hpp"

#include <algorithm>
#include <cerrno>
#include <infiniband/verbs.h>
#include <linux/if_ether.h>
#include <netinet/in.h>

namespace softhca::uverbs {
namespace {

/// Value and mask of one spec, up to the length that this front knows.
template <class Filter> struct Filters { Filter value{}, mask{}; };

/// Both halves of the spec after its header. Shorter ones are from older programs; in longer ones
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

template <class T> net::Be<T> big_endian(T raw) {
    net::Be<T> field;
    field.raw = raw;
    return field;
}

/// The headers that a spec refers to, in value and mask.
struct Layer {
    core::LayerKey& value;
    core::LayerKey& mask;
};
Layer layer_of(uint32_t type, Match& match) {
    return type & IBV_FLOW_SPEC_INNER ? Layer{match.value.inner, match.mask.inner}
                                      : Layer{match.value.outer, match.mask.outer};
}

Errno set_protocol(uint8_t value, uint8_t mask, Layer layer) {
    if (mask == 0) return 0;
    const bool set = layer.mask.ip_proto != 0;
    if (set && (layer.mask.ip_proto != mask || layer.value.ip_proto != value)) return EINVAL;
    layer.mask.ip_proto = mask;
    layer.value.ip_proto = value;
    return 0;
}

/// Whether a rule may match both this EtherType and an IP header: MPLS may carry one.
bool types_agree(uint16_t asked, uint16_t mask, uint16_t of_version) {
    return mask == 0xffff &&
           (asked == of_version || asked == ETH_P_MPLS_UC || asked == ETH_P_MPLS_MC);
}

/// A rule names at most one IP version, and a matching EtherType.
Errno set_version(uint8_t version, uint16_t ether_type, Layer layer) {
    if (layer.mask.ip_version && layer.value.ip_version != version) return EINVAL;
    if (layer.mask.ether_type &&
        !types_agree(layer.value.ether_type, layer.mask.ether_type, ether_type))
        return EINVAL;
    layer.mask.ip_version = 0x0f;
    layer.value.ip_version = version;
    return 0;
}

Errno add_ethernet(std::span<const std::byte> spec, Layer layer) {
    Filters<ib_uverbs_flow_eth_filter> f;
    if (const Errno error = split(spec, f)) return error;
    const auto ether_type = big_endian(f.value.ether_type),
               type_mask = big_endian(f.mask.ether_type);
    if (type_mask && layer.mask.ip_version) {
        const uint16_t wanted = layer.value.ip_version == 4 ? ETH_P_IP : ETH_P_IPV6;
        if (!types_agree(ether_type, type_mask, wanted)) return EINVAL;
    }
    std::copy_n(f.value.dst_mac, 6, layer.value.dst_mac.begin());
    std::copy_n(f.mask.dst_mac, 6, layer.mask.dst_mac.begin());
    std::copy_n(f.value.src_mac, 6, layer.value.src_mac.begin());
    std::copy_n(f.mask.src_mac, 6, layer.mask.src_mac.begin());
    layer.value.ether_type = ether_type;
    layer.mask.ether_type = type_mask;
    if (f.mask.vlan_tag) { // then the packet must have an 802.1Q tag
        layer.value.cvlan = layer.mask.cvlan = 1;
        layer.value.vlan_tci = big_endian(f.value.vlan_tag);
        layer.mask.vlan_tci = big_endian(f.mask.vlan_tag);
    }
    return 0;
}

Errno add_ipv4(std::span<const std::byte> spec, Layer layer) {
    Filters<ib_uverbs_flow_ipv4_filter> f;
    if (const Errno error = split(spec, f)) return error;
    if (f.mask.ttl || f.mask.flags) return EOPNOTSUPP;
    if (const Errno error = set_version(4, ETH_P_IP, layer)) return error;
    constexpr size_t kLast = 12; // an IPv4 address is in the last four of sixteen bytes
    std::memcpy(layer.value.src_ip.data() + kLast, &f.value.src_ip, 4);
    std::memcpy(layer.mask.src_ip.data() + kLast, &f.mask.src_ip, 4);
    std::memcpy(layer.value.dst_ip.data() + kLast, &f.value.dst_ip, 4);
    std::memcpy(layer.mask.dst_ip.data() + kLast, &f.mask.dst_ip, 4);
    layer.value.tos = f.value.tos;
    layer.mask.tos = f.mask.tos;
    return set_protocol(f.value.proto, f.mask.proto, layer);
}

Errno add_ipv6(std::span<const std::byte> spec, Layer layer) {
    Filters<ib_uverbs_flow_ipv6_filter> f;
    if (const Errno error = split(spec, f)) return error;
    if (f.mask.hop_limit || f.mask.reserved) return EOPNOTSUPP;
    if (const Errno error = set_version(6, ETH_P_IPV6, layer)) return error;
    std::copy_n(f.value.src_ip, 16, layer.value.src_ip.begin());
    std::copy_n(f.mask.src_ip, 16, layer.mask.src_ip.begin());
    std::copy_n(f.value.dst_ip, 16, layer.value.dst_ip.begin());
    std::copy_n(f.mask.dst_ip, 16, layer.mask.dst_ip.begin());
    constexpr uint32_t kLabelBits = 0xfffff;
    if ((big_endian(f.value.flow_label) | big_endian(f.mask.flow_label)) & ~kLabelBits)
        return EINVAL;
    layer.value.flow_label = big_endian(f.value.flow_label);
    layer.mask.flow_label = big_endian(f.mask.flow_label);
    layer.value.tos = f.value.traffic_class;
    layer.mask.tos = f.mask.traffic_class;
    return set_protocol(f.value.next_hdr, f.mask.next_hdr, layer);
}

Errno add_l4(std::span<const std::byte> spec, uint8_t protocol, Layer layer) {
    Filters<ib_uverbs_flow_tcp_udp_filter> f;
    if (const Errno error = split(spec, f)) return error;
    if (const Errno error = set_protocol(protocol, 0xff, layer)) return error;
    if (f.mask.src_port || f.mask.dst_port) { // later fragments have no ports
        layer.value.l4 = protocol;
        layer.mask.l4 = 0xff;
    }
    layer.value.src_port = big_endian(f.value.src_port);
    layer.mask.src_port = big_endian(f.mask.src_port);
    layer.value.dst_port = big_endian(f.value.dst_port);
    layer.mask.dst_port = big_endian(f.mask.dst_port);
    return 0;
}

Errno add_vxlan(std::span<const std::byte> spec, Match& match) {
    Filters<ib_uverbs_flow_tunnel_filter> f;
    if (const Errno error = split(spec, f)) return error;
    constexpr uint32_t kVniBits = 0xffffff;
    if ((big_endian(f.value.tunnel_id) | big_endian(f.mask.tunnel_id)) & ~kVniBits) return EINVAL;
    match.value.tunnel.vxlan_vni = big_endian(f.value.tunnel_id);
    match.mask.tunnel.vxlan_vni = big_endian(f.mask.tunnel_id);
    return 0;
}

Errno add_gre(std::span<const std::byte> spec, Layer layer, Match& match) {
    Filters<ib_uverbs_flow_gre_filter> f;
    if (const Errno error = split(spec, f)) return error;
    if (f.mask.c_ks_res0_ver) return EOPNOTSUPP;
    if (const Errno error = set_protocol(IPPROTO_GRE, 0xff, layer)) return error;
    match.value.tunnel.gre_protocol = big_endian(f.value.protocol);
    match.mask.tunnel.gre_protocol = big_endian(f.mask.protocol);
    match.value.tunnel.gre_key = big_endian(f.value.key);
    match.mask.tunnel.gre_key = big_endian(f.mask.key);
    return 0;
}

Errno add_esp(std::span<const std::byte> spec, Match& match) {
    Filters<ib_uverbs_flow_spec_esp_filter> f;
    if (const Errno error = split(spec, f)) return error;
    if (f.mask.seq) return EOPNOTSUPP;
    match.value.tunnel.esp_spi = big_endian(f.value.spi);
    match.mask.tunnel.esp_spi = big_endian(f.mask.spi);
    return 0;
}

/// The preceding spec determines which label stack is meant.
Errno add_mpls(std::span<const std::byte> spec, uint32_t type, Match& match) {
    Filters<ib_uverbs_flow_mpls_filter> f;
    if (const Errno error = split(spec, f)) return error;
    net::be32 core::TunnelKey::*const stack =
        match.last_spec == IBV_FLOW_SPEC_UDP   ? &core::TunnelKey::mpls_over_udp
        : match.last_spec == IBV_FLOW_SPEC_GRE ? &core::TunnelKey::mpls_over_gre
        : type & IBV_FLOW_SPEC_INNER           ? &core::TunnelKey::inner_mpls
                                               : &core::TunnelKey::mpls;
    match.value.tunnel.*stack = big_endian(f.value.label);
    match.mask.tunnel.*stack = big_endian(f.mask.label);
    return 0;
}

Errno add_header(std::span<const std::byte> spec, uint32_t type, Match& match) {
    const Layer layer = layer_of(type, match);
    if (type == (IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_VXLAN_TUNNEL)) return EINVAL;
    switch (type & ~uint32_t{IBV_FLOW_SPEC_INNER}) {
    case IBV_FLOW_SPEC_ETH: return add_ethernet(spec, layer);
    case IBV_FLOW_SPEC_IPV4: return add_ipv4(spec, layer);
    case IBV_FLOW_SPEC_IPV6: return add_ipv6(spec, layer);
    case IBV_FLOW_SPEC_TCP: return add_l4(spec, IPPROTO_TCP, layer);
    case IBV_FLOW_SPEC_UDP: return add_l4(spec, IPPROTO_UDP, layer);
    case IBV_FLOW_SPEC_VXLAN_TUNNEL: return add_vxlan(spec, match);
    case IBV_FLOW_SPEC_GRE: return add_gre(spec, layer, match);
    case IBV_FLOW_SPEC_MPLS: return add_mpls(spec, type, match);
    case IBV_FLOW_SPEC_ESP: return add_esp(spec, match);
    default: return EINVAL; // unknown, or an action that was never made
    }
}

} // namespace

Errno add_flow_spec(std::span<const std::byte> spec, Match& match) {
    const uint32_t type = InBuffer(spec.data(), spec.size()).as<ib_uverbs_flow_spec_hdr>().type;
    if (const Errno error = add_header(spec, type, match)) return error;
    match.last_spec = type;
    return 0;
}

} // namespace softhca::uverbs
