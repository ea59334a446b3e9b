// SPDX-License-Identifier: BSD-3-Clause
// What a rule matches, in the protocols' own words: a list of header layers, including those inside
// a tunnel. Pure values: nothing here talks to a device or knows how to.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/protocol.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace rawqp {

/// A header that packets must have, with the bits that it must have, too.
struct Layer {
    Protocol protocol;
    uint8_t depth;          ///< 1: inside a tunnel
    uint8_t item;           ///< which of the application's items it came from
    LayerBytes value, mask; ///< the value has bits of the mask only

    static constexpr uint8_t kNone = 0xff;

    /// Any such header.
    [[nodiscard]] static Layer any(Protocol protocol, uint8_t depth = 0) {
        return {protocol, depth, kNone, {}, {}};
    }

    [[nodiscard]] uint64_t get(uint16_t bit, uint16_t bits) const {
        return get_bits(value, bit, bits);
    }
    [[nodiscard]] bool masks(uint16_t bit, uint16_t bits) const { return any_bit(mask, bit, bits); }
    /// Whether what is demanded so far allows this number.
    [[nodiscard]] bool allows(uint16_t bit, uint16_t bits, uint64_t number) const {
        return ((get(bit, bits) ^ number) & get_bits(mask, bit, bits)) == 0;
    }
    /// Demands the number in these bits; false if that contradicts what is demanded already.
    [[nodiscard]] bool demand(uint16_t bit, uint16_t bits, uint64_t number);
    /// Demands the number instead of whatever was demanded.
    void set(uint16_t bit, uint16_t bits, uint64_t number);
    void forget(uint16_t bit, uint16_t bits);
};

/// Whether both ask for the same bits of the same header.
[[nodiscard]] inline bool same_headers(const Layer& a, const Layer& b) {
    return a.protocol == b.protocol && a.depth == b.depth && a.mask == b.mask;
}

/// Layers in the order of a packet's bytes, and after them those of metadata in the order of
/// Protocol, however they were requested. The first one is always Ethernet. Each header follows
/// from a field of the one before (see Binding), which is demanded as well; for VLAN tags that is
/// kCustomerTag or kServiceTag, as devices find the EtherType after all tags.
class Pattern {
  public:
    /// Twelve headers (Ethernet, two tags, IP, GRE and its key, once more in a tunnel) and all
    /// kinds of metadata.
    static constexpr size_t kMostLayers = 17;

    enum class Follows : uint8_t { yes, never, contradicts, too_deep };

    /// Any packet.
    Pattern() { layers_[0] = Layer::any(Protocol::eth); }
    // Patterns are passed on by value. Most have few layers, and only these are copied.
    Pattern(const Pattern& other) : count_(other.count_) {
        std::ranges::copy(other.layers(), layers_.begin());
    }
    Pattern& operator=(const Pattern& other) {
        std::ranges::copy(other.layers(), layers_.begin());
        count_ = other.count_;
        return *this;
    }
    ~Pattern() = default;

    /// Adds a header after the last one. `contradicts`: the last one demands another.
    [[nodiscard]] Follows push(Protocol protocol);
    /// The layer of this kind of metadata, new if need be.
    [[nodiscard]] Layer& metadata(Protocol protocol);
    [[nodiscard]] std::span<const Layer> all_metadata() const {
        return layers().subspan(headers());
    }

    [[nodiscard]] std::span<Layer> layers() { return {layers_.data(), count_}; }
    [[nodiscard]] std::span<const Layer> layers() const { return {layers_.data(), count_}; }
    /// The last header.
    [[nodiscard]] Layer& last() { return layers_[headers() - 1]; }
    [[nodiscard]] const Layer& last() const { return layers_[headers() - 1]; }
    /// The header whose fields say what follows the last one: the last one itself, or the one
    /// before a GRE key.
    [[nodiscard]] const Layer& announcing() const { return layers_[announcing_at()]; }
    /// The outermost Ethernet header.
    [[nodiscard]] Layer& eth() { return layers_[0]; }
    [[nodiscard]] const Layer& eth() const { return layers_[0]; }
    [[nodiscard]] bool multicast_only() const; ///< by its outer destination MAC

    /// The size of a compact form: two patterns are equal if their forms are.
    [[nodiscard]] size_t bytes() const;
    /// Writes that form and returns the end of it.
    uint8_t* write(uint8_t* to) const;
    [[nodiscard]] static Pattern from_bytes(std::span<const uint8_t> bytes);
    static constexpr size_t kValueInLayer = 2; ///< where its value is in a layer's bytes
    [[nodiscard]] static size_t bytes_of(const Layer& layer);

    /// "eth/ipv4/tcp", for messages.
    [[nodiscard]] std::string names() const;
    /// "eth dst is 02:…", as far as testpmd could read it again.
    [[nodiscard]] std::string text() const;

  private:
    [[nodiscard]] size_t headers() const {
        size_t count = count_;
        while (is_metadata(layers_[count - 1].protocol))
            --count;
        return count;
    }

    [[nodiscard]] size_t announcing_at() const {
        const size_t at = headers() - 1;
        return layers_[at].protocol == Protocol::gre_key ? at - 1 : at;
    }

    std::array<Layer, kMostLayers> layers_; ///< only this many of them are written:
    uint8_t count_ = 1;
};

/// The most specific class that holds every packet of the pattern, by its headers of one depth.
[[nodiscard]] TrafficClass class_of(const Pattern& pattern, uint8_t depth = 0);
/// 0 for classes with ports, 1 for IP, 2 for other: rules of a lower depth must be tried first.
inline constexpr uint16_t kClassDepths = 3;
[[nodiscard]] uint16_t depth_of(TrafficClass traffic);

/// One class of a pattern with the hash for it.
struct ClassRule {
    TrafficClass traffic;
    Pattern pattern;
    uint64_t hash_fields;
};
/// Splits a pattern by traffic class for the wanted RTE_ETH_RSS_* types: the pattern itself and,
/// before it, each narrower class whose packets hash differently. Most specific first.
[[nodiscard]] std::vector<ClassRule> split_by_class(const Pattern& pattern, uint64_t rte_rss_types,
                                                    uint8_t depth = 0);
/// The same with a rule for each class, also for those hashed like their parent.
[[nodiscard]] std::vector<ClassRule> split_by_each_class(const Pattern& pattern,
                                                         uint64_t rte_rss_types, uint8_t depth = 0);

/// Where packets of one class go; without hash fields that is the first queue. Reuses another one's
/// memory, as far as it suffices.
[[nodiscard]] RssDestination destination_of(const std::vector<uint16_t>& table, const RssKey& key,
                                            uint64_t hash_fields, RssDestination memory = {});

} // namespace rawqp
