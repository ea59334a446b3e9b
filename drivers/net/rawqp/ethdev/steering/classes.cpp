// SPDX-License-Identifier: BSD-3-Clause
// Traffic classes of patterns: a rule is installed once for each kind of packets that has its own
// hash.
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

namespace rawqp {

namespace {

struct ClassTraits {
    TrafficClass traffic;
    TrafficClass parent; ///< the class that its packets belong to without the last header
    uint16_t depth;
    Protocol last; ///< the header that defines it
};

// Indexed by TrafficClass.
using enum TrafficClass;
constexpr std::array<ClassTraits, kTrafficClasses.size()> kClasses{{
    {other, other, 2, Protocol::eth},
    {ipv4, other, 1, Protocol::ipv4},
    {ipv6, other, 1, Protocol::ipv6},
    {ipv4_tcp, ipv4, 0, Protocol::tcp},
    {ipv4_udp, ipv4, 0, Protocol::udp},
    {ipv6_tcp, ipv6, 0, Protocol::tcp},
    {ipv6_udp, ipv6, 0, Protocol::udp},
}};

const ClassTraits& traits_of(TrafficClass traffic) {
    return kClasses[static_cast<size_t>(traffic)];
}

/// `pattern` narrowed from class `from` to its descendant `to`.
std::optional<Pattern> narrow(const Pattern& pattern, TrafficClass from, TrafficClass to,
                              uint8_t depth) {
    if (to == from) return pattern;
    if (to == other) return std::nullopt; // not a descendant
    const ClassTraits& traits = traits_of(to);
    auto narrowed = narrow(pattern, from, traits.parent, depth);
    if (!narrowed) return narrowed;
    const bool enters = narrowed->last().depth < depth;
    const auto at = static_cast<size_t>(&narrowed->announcing() - narrowed->layers().data());
    const Layer tunnel = narrowed->announcing();
    bool pushed = narrowed->push(traits.last) == Pattern::Follows::yes;
    if (!pushed && enters) // a tunnel of Ethernet frames
        pushed = narrowed->push(Protocol::eth) == Pattern::Follows::yes &&
                 narrowed->push(traits.last) == Pattern::Follows::yes;
    // The device finds the IP header in a tunnel with or without an Ethernet header before it, and
    // the class is of both: what the tunnel announces is asked for only if the pattern does so.
    if (enters) narrowed->layers()[at] = tunnel;
    if (!pushed || narrowed->last().depth != depth) return std::nullopt;
    return narrowed;
}

/// A rule for each class of the pattern's packets that `is_wanted`, by the class and its hash.
template <class IsWanted>
std::vector<ClassRule> split(const Pattern& pattern, uint8_t depth, uint64_t rte_rss_types,
                             IsWanted is_wanted) {
    const TrafficClass base = class_of(pattern, depth);
    std::vector<ClassRule> rules;
    for (auto it = kTrafficClasses.rbegin(); it != kTrafficClasses.rend(); ++it) {
        const uint64_t fields = hash_fields_of(*it, rte_rss_types);
        if (!is_wanted(*it, fields)) continue;
        if (auto narrowed = narrow(pattern, base, *it, depth))
            rules.push_back({*it, *narrowed, fields});
    }
    return rules;
}

} // namespace

TrafficClass class_of(const Pattern& pattern, uint8_t depth) {
    TrafficClass traffic = other;
    for (const Layer& layer : pattern.layers()) {
        if (layer.depth != depth) continue;
        for (const ClassTraits& traits : kClasses)
            if (traits.traffic != other && traits.parent == traffic &&
                traits.last == layer.protocol) {
                traffic = traits.traffic;
                break;
            }
    }
    return traffic;
}

uint16_t depth_of(TrafficClass traffic) { return traits_of(traffic).depth; }

std::vector<ClassRule> split_by_class(const Pattern& pattern, uint64_t rte_rss_types,
                                      uint8_t depth) {
    const TrafficClass base = class_of(pattern, depth);
    if (rte_rss_types == 0) return {{base, pattern, 0}}; // no class is hashed
    return split(pattern, depth, rte_rss_types, [&](TrafficClass traffic, uint64_t fields) {
        const TrafficClass parent = traits_of(traffic).parent;
        return traffic == base || fields != hash_fields_of(parent, rte_rss_types);
    });
}

std::vector<ClassRule> split_by_each_class(const Pattern& pattern, uint64_t rte_rss_types,
                                           uint8_t depth) {
    return split(pattern, depth, rte_rss_types, [](TrafficClass, uint64_t) { return true; });
}

RssDestination destination_of(const std::vector<uint16_t>& table, const RssKey& key,
                              uint64_t hash_fields, RssDestination memory) {
    const bool hashed = hash_fields != 0;
    memory.queues.assign(table.begin(), hashed ? table.end() : table.begin() + 1);
    memory.key = hashed ? key : kDefaultRssKey;
    memory.hash_fields = hash_fields;
    return memory;
}

} // namespace rawqp
