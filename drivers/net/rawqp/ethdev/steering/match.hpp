// SPDX-License-Identifier: BSD-3-Clause
// What a steering rule matches, and how it is split so that each kind of packet gets its own hash.
// Pure values: nothing here talks to a device.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/rss.hpp"

#include <infiniband/verbs.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace rawqp {

/// An all-zero spec (matches anything of that layer) with its head filled in.
template <class Spec> [[nodiscard]] Spec make_spec(ibv_flow_spec_type type) {
    Spec spec{};
    spec.type = type;
    spec.size = sizeof spec;
    return spec;
}

/// Appends a spec byte by byte: its head and the given members of it. What lies between is zero,
/// never a struct's padding, because matches are compared as bytes.
template <class Spec, class... Members>
void append_spec(std::vector<uint8_t>& bytes, const Spec& spec, const Members&... members) {
    const size_t at = bytes.size();
    bytes.resize(at + sizeof spec);
    const auto copy = [&](const auto& member) {
        const auto offset =
            reinterpret_cast<const uint8_t*>(&member) - reinterpret_cast<const uint8_t*>(&spec);
        // NOLINTNEXTLINE(bugprone-sizeof-expression): one member is a pointer, to counters
        std::memcpy(&bytes[at + static_cast<size_t>(offset)], &member, sizeof member);
    };
    copy(spec.type);
    copy(spec.size);
    (copy(members), ...);
}

/// One conjunction of header fields, as verbs carry it; fields in network byte order. The eth spec
/// is always sent: with a zero mask it matches every frame. On the device EtherType is the one
/// after all VLAN tags, and a non-zero VLAN mask also demands that there is a tag.
struct FlowMatch {
    ibv_flow_spec_eth eth = make_spec<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH);
    std::optional<ibv_flow_spec_ipv4_ext> ipv4;
    std::optional<ibv_flow_spec_ipv6> ipv6;
    std::optional<ibv_flow_spec_tcp_udp> l4; ///< its type says TCP or UDP

    /// Appends the specs one after the other, as they follow an ibv_flow_attr.
    void append_to(std::vector<uint8_t>& bytes) const;
    [[nodiscard]] std::vector<uint8_t> bytes() const;
    [[nodiscard]] uint8_t spec_count() const;
    [[nodiscard]] size_t byte_count() const; ///< of all specs
    /// "eth/ipv4/tcp", for messages.
    [[nodiscard]] std::string layers() const;
};

/// Adds a layer. EtherType and IP protocol conditions that the new layer implies are dropped;
/// false, and the match is of no more use, when they contradict it.
[[nodiscard]] bool add_ipv4(FlowMatch& match);
[[nodiscard]] bool add_ipv6(FlowMatch& match);
[[nodiscard]] bool add_l4(FlowMatch& match, ibv_flow_spec_type type);

/// The most specific class that holds every packet of the match, by its layers.
[[nodiscard]] TrafficClass class_of(const FlowMatch& match);
/// 0 for classes with ports, 1 for IP, 2 for other: rules of a lower depth must be tried first.
inline constexpr uint16_t kClassDepths = 3;
[[nodiscard]] uint16_t depth_of(TrafficClass traffic);

/// One class of a match with the hash for it.
struct ClassRule {
    TrafficClass traffic;
    FlowMatch match;
    uint64_t hash_fields;
};
/// Splits a match by traffic class for the wanted RTE_ETH_RSS_* types: the match itself and, before
/// it, each narrower class whose packets hash differently. Most specific first.
[[nodiscard]] std::vector<ClassRule> split_by_class(const FlowMatch& match, uint64_t rte_rss_types);

/// Where packets of one class go; without hash fields that is the first queue.
[[nodiscard]] RssDestination destination_of(const std::vector<uint16_t>& table, const RssKey& key,
                                            uint64_t hash_fields);

} // namespace rawqp
