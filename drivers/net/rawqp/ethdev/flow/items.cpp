// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/items.hpp"

#include "drivers/net/rawqp/ethdev/flow/item_kinds.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace rawqp {

namespace {

class Translator {
  public:
    explicit Translator(bool egress) : egress_(egress) { patterns_.push_back({}); }
    FlowResult<ShortList<Pattern>> translate(const rte_flow_item* pattern);

  private:
    FlowResult<void> add(const rte_flow_item& item, bool before_vlan);
    FlowResult<void> add_any(const rte_flow_item& item);
    FlowResult<void> add_metadata(const ItemKind& kind, const rte_flow_item& item);
    FlowResult<void> add_fragment(const rte_flow_item& item);
    FlowResult<void> push(const ItemKind& kind, const rte_flow_item& item);
    FlowResult<void> fill(const rte_flow_item& item, Asked asked);
    FlowResult<void> expand_range(const rte_flow_item& item, const Field& field,
                                  const Asked& asked);
    FlowResult<void> close_l2(const rte_flow_item& item);
    FlowResult<void> refuse_order(const rte_flow_item& item, Protocol protocol,
                                  Pattern::Follows why) const;
    void split_any_tag();

    /// Replaces each pattern by what `each` appends for it.
    template <class Each> void replace(Each each) {
        const ShortList<Pattern> before = std::exchange(patterns_, {});
        for (const Pattern& pattern : before)
            each(pattern);
    }
    [[nodiscard]] Protocol last() const { return patterns_.front().last().protocol; }

    bool egress_;
    ShortList<Pattern> patterns_;
    uint8_t number_ = 0;    ///< of the item at hand
    bool started_ = false;  ///< some item has been read
    bool open_end_ = false; ///< item any: what follows is unknown
};

bool is_tag(Protocol protocol) {
    return protocol == Protocol::vlan || protocol == Protocol::second_vlan;
}

/// The place of the EtherType in a header that has one.
uint16_t type_bit(Protocol protocol) { return protocol == Protocol::eth ? 96 : 16; }

/// The TPID that the header's EtherType gives, or 0.
uint16_t tag_type(const Layer& layer) {
    if (layer.protocol != Protocol::eth && !is_tag(layer.protocol)) return 0;
    const uint16_t bit = type_bit(layer.protocol);
    const auto type = static_cast<uint16_t>(layer.get(bit, 16));
    const bool whole = get_bits(layer.mask, bit, 16) == 0xffff;
    return whole && (type == RTE_ETHER_TYPE_VLAN || type == RTE_ETHER_TYPE_QINQ) ? type : 0;
}

/// The protocol of an item at its place: the second VLAN tag and MPLS in tunnels have their own
/// fields in the device.
Protocol placed(Protocol protocol, Protocol lower) {
    if (protocol == Protocol::vlan && is_tag(lower)) return Protocol::second_vlan;
    if (protocol == Protocol::mpls && lower == Protocol::udp) return Protocol::mpls_in_udp;
    if (protocol == Protocol::mpls && lower == Protocol::gre) return Protocol::mpls_in_gre;
    return protocol;
}

/// "ipv4 or ipv6": what the header can follow.
std::string lowers_of(Protocol upper) {
    std::vector<std::string> names;
    for (const Binding& binding : bindings())
        if (const char* const name = traits_of(binding.lower).name;
            binding.upper == upper && std::ranges::find(names, name) == names.end())
            names.emplace_back(name);
    return fmt::format("{}", fmt::join(names, " or "));
}

FlowResult<void> Translator::refuse_order(const rte_flow_item& item, Protocol protocol,
                                          Pattern::Follows why) const {
    constexpr auto kItem = RTE_FLOW_ERROR_TYPE_ITEM;
    const std::string name = item_name(item.type);
    const Layer& lower = patterns_.front().last();
    const char* const before = traits_of(lower.protocol).name;
    if (why == Pattern::Follows::too_deep)
        return refuse(ENOTSUP, kItem, &item,
                      "item {}: the device looks into one tunnel, not into one inside it", name);
    if (why == Pattern::Follows::never)
        return refuse(ENOTSUP, kItem, &item,
                      "item {} is out of order: it needs item {} right before it, not {}", name,
                      lowers_of(protocol), before);
    const Layer& announcing = patterns_.front().announcing();
    for (const Binding& binding : bindings_of(announcing.protocol))
        if (binding.upper == protocol)
            for (const Field& field : fields_of(announcing.protocol))
                if (field.bit <= binding.bit && binding.bit < field.bit + field.bits)
                    return refuse(EINVAL, kItem, &item,
                                  "item {} contradicts field {} {:#x} of item {} before it", name,
                                  field.name, announcing.get(binding.bit, binding.bits),
                                  traits_of(announcing.protocol).name);
    return refuse(EINVAL, kItem, &item, "item {} contradicts item {} before it", name, before);
}

FlowResult<void> Translator::push(const ItemKind& kind, const rte_flow_item& item) {
    // The outermost Ethernet header is in every pattern.
    if (!std::exchange(started_, true) && kind.protocol == Protocol::eth) return {};
    const Protocol protocol = placed(kind.protocol, last());
    auto why = Pattern::Follows::never;
    const auto refuses = [&](Pattern& pattern) {
        why = pattern.push(protocol);
        // An inner Ethernet header may be implied.
        if (why == Pattern::Follows::never && traits_of(pattern.last().protocol).tunnel)
            if (Pattern with_eth = pattern; with_eth.push(Protocol::eth) == Pattern::Follows::yes &&
                                            with_eth.push(protocol) == Pattern::Follows::yes) {
                why = Pattern::Follows::yes;
                pattern = with_eth;
            }
        return why != Pattern::Follows::yes;
    };
    Pattern* const end = std::remove_if(patterns_.begin(), patterns_.end(), refuses);
    if (end == patterns_.begin()) return refuse_order(item, protocol, why);
    patterns_.erase_from(end);
    return {};
}

/// The range start … end as values whose low bits do not matter: pairs of a value and the number of
/// those bits.
std::vector<std::pair<uint64_t, unsigned>> prefixes(uint64_t start, uint64_t end) {
    std::vector<std::pair<uint64_t, unsigned>> list;
    while (start <= end) {
        unsigned free = 0;
        while (free < 32 && (start >> free & 1) == 0 && start + (uint64_t{2} << free) - 1 <= end)
            ++free;
        list.emplace_back(start, free);
        start += uint64_t{1} << free;
    }
    return list;
}

/// The masked bits of the field if they are the last ones of it, such as a VLAN's ID in its TCI,
/// and make a number.
std::optional<BitRange> masked_end(const LayerBytes& mask, const Field& field) {
    const auto end = static_cast<uint16_t>(field.bit + field.bits);
    uint16_t bit = end;
    while (bit > field.bit && any_bit(mask, bit - 1u, 1))
        --bit;
    constexpr uint16_t kMostBits = 32;
    const auto bits = static_cast<uint16_t>(end - bit);
    if (bits == 0 || bits > kMostBits) return std::nullopt;
    if (any_bit(mask, field.bit, field.bits - bits)) return std::nullopt; // further ones
    return BitRange{bit, bits};
}

constexpr size_t kMostPatterns = 16;

FlowResult<void> Translator::expand_range(const rte_flow_item& item, const Field& field,
                                          const Asked& asked) {
    constexpr auto kLast = RTE_FLOW_ERROR_TYPE_ITEM_LAST;
    const std::string name = item_name(item.type);
    const auto run = masked_end(asked.mask, field);
    if (!run)
        return refuse(ENOTSUP, kLast, &item,
                      "item {}: range on field {}: ranges are of a whole field, or of its last "
                      "bits, up to 32: use a mask or several rules",
                      name, field.name);
    const uint64_t start = get_bits(asked.value, run->bit, run->bits);
    const uint64_t end = get_bits(asked.last, run->bit, run->bits);
    if (end < start)
        return refuse(EINVAL, kLast, &item, "item {}: range on field {} ends before it starts",
                      name, field.name);
    const auto list = prefixes(start, end);
    if (list.size() * patterns_.size() > kMostPatterns)
        return refuse(ENOTSUP, kLast, &item,
                      "item {}: range on field {}: the device matches masks, and this range is "
                      "made of {}, more than {}: use a mask or several rules",
                      name, field.name, list.size(), kMostPatterns / patterns_.size());
    replace([&](Pattern pattern) {
        for (const auto& [value, free] : list) {
            Layer& layer = pattern.last();
            layer.forget(run->bit, run->bits);
            const auto kept = static_cast<uint16_t>(run->bits - free);
            layer.set(run->bit, kept, value >> free);
            patterns_.push_back(pattern);
        }
    });
    return {};
}

FlowResult<void> Translator::fill(const rte_flow_item& item, Asked asked) {
    std::vector<const Field*> ranges;
    if (item.last != nullptr)
        for (const Field& field : fields_of(last()))
            if (asks_for_range(asked, field)) ranges.push_back(&field);

    // Fragments: of the offset and the more-fragments bit, devices only know whether all bits are
    // zero.
    constexpr uint16_t kOffset = 50, kOffsetBits = 14, kOffsetField = 48;
    if (last() == Protocol::ipv4 && get_bits(asked.mask, kOffset, kOffsetBits) == 0x3fff) {
        const uint64_t from = get_bits(asked.value, kOffset, kOffsetBits);
        const uint64_t to = get_bits(asked.last, kOffset, kOffsetBits);
        const bool every = from == 1 && to == 0x3fff;
        if (every || (from == 0 && to == 0)) {
            for (LayerBytes* bytes : {&asked.value, &asked.mask})
                set_bits(*bytes, kOffset, kOffsetBits, 0);
            set_bits(asked.value, kFragment, 1, every ? 1 : 0);
            set_bits(asked.mask, kFragment, 1, 1);
            std::erase_if(ranges, [](const Field* field) { return field->bit == kOffsetField; });
        }
    }
    for (Pattern& pattern : patterns_) {
        Layer& layer = pattern.last();
        layer.item = number_;
        const LayerBytes contradicting = layer.mask & asked.mask & (layer.value ^ asked.value);
        if (any(contradicting))
            for (const Field& field : fields_of(layer.protocol))
                if (any_bit(contradicting, field.bit, field.bits))
                    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_SPEC, &item,
                                  "item {}: no such header has this value in field {}",
                                  item_name(item.type), field.name);
        layer.value = layer.value | asked.value;
        layer.mask = layer.mask | asked.mask;
    }
    for (const Field* field : ranges)
        if (auto ok = expand_range(item, *field, asked); !ok) return ok;
    return {};
}

/// Tags that only the header before them asked for become layers: devices find the EtherType after
/// all tags.
FlowResult<void> Translator::close_l2(const rte_flow_item& item) {
    if (last() == Protocol::second_vlan && tag_type(patterns_.front().last()) != 0)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, &item,
                      "item vlan: EtherType {:#06x} is that of a VLAN tag: a third tag cannot be "
                      "matched",
                      tag_type(patterns_.front().last()));
    if (last() != Protocol::eth && last() != Protocol::vlan) return {};
    const auto tagged = [](const Layer& layer) {
        return layer.masks(kTagged, 1) && layer.get(kTagged, 1) == 1;
    };
    if (std::ranges::none_of(patterns_, [&](const Pattern& pattern) {
            return tagged(pattern.last()) || tag_type(pattern.last()) != 0;
        }))
        return {};
    replace([&](Pattern pattern) {
        Layer& layer = pattern.last();
        const uint16_t type = tag_type(layer);
        if (!tagged(layer) && type == 0) {
            patterns_.push_back(pattern);
            return;
        }
        const bool inner_type_known = type == 0 && layer.masks(type_bit(layer.protocol), 16);
        for (const uint16_t tpid : {RTE_ETHER_TYPE_VLAN, RTE_ETHER_TYPE_QINQ}) {
            Pattern next = pattern;
            Layer& lower = next.last();
            const Layer former = lower;
            const uint16_t bit = type_bit(lower.protocol);
            if (inner_type_known) lower.forget(bit, 16);
            if (!lower.demand(bit, 16, tpid)) continue;
            if (next.push(placed(Protocol::vlan, lower.protocol)) != Pattern::Follows::yes)
                continue;
            if (inner_type_known) { // has_vlan along with a type: the one after the tag
                or_bits(former.value, bit, 16, next.last().value, type_bit(Protocol::vlan));
                or_bits(former.mask, bit, 16, next.last().mask, type_bit(Protocol::vlan));
            }
            next.last().item = number_;
            patterns_.push_back(next);
        }
    });
    if (!patterns_.empty()) return {};
    const bool outermost = item.type == RTE_FLOW_ITEM_TYPE_ETH;
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_SPEC, &item,
                  "item {}: no packet matches it: {} is that of a VLAN tag, and {} 0 says that "
                  "none follows: clear one of the two masks",
                  item_name(item.type), outermost ? "type" : "inner_type",
                  outermost ? "has_vlan" : "has_more_vlan");
}

FlowResult<void> Translator::add_any(const rte_flow_item& item) {
    if (auto ok = check_given(item); !ok) return ok;
    const auto number_in = [](const void* any) {
        return any != nullptr ? static_cast<const rte_flow_item_any*>(any)->num : 0;
    };
    const uint32_t mask = number_in(item.mask);
    const uint32_t layers = number_in(item.spec) & mask, last = number_in(item.last) & mask;
    if (layers > 1 || (last != 0 && last != layers))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_SPEC, &item,
                      "item any: a number of headers cannot be matched: name them");
    open_end_ = true;
    return {};
}

/// The fragment extension of IPv6: matches its presence, but no field of it.
FlowResult<void> Translator::add_fragment(const rte_flow_item& item) {
    if (last() != Protocol::ipv6)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, &item,
                      "item ipv6_frag_ext is out of order: it needs item ipv6 right before it");
    if (auto ok = check_given(item); !ok) return ok;
    rte_flow_item_ipv6_frag_ext mask{};
    if (item.mask != nullptr) std::memcpy(static_cast<void*>(&mask), item.mask, sizeof mask);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&mask);
    if (any_bit({bytes, sizeof mask}, 0, 8 * sizeof mask) ||
        (item.spec != nullptr && item.mask == nullptr))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_MASK, &item,
                      "item ipv6_frag_ext: its fields cannot be matched, only that it is there: "
                      "give neither spec nor mask");
    for (Pattern& pattern : patterns_)
        if (!pattern.last().demand(kFragment, 1, 1))
            return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item,
                          "item ipv6_frag_ext contradicts has_frag_ext of item ipv6");
    return {};
}

/// May be anywhere among the headers; several tags share one layer.
FlowResult<void> Translator::add_metadata(const ItemKind& kind, const rte_flow_item& item) {
    const auto asked = read_item(kind, item);
    if (!asked) return tl::unexpected(asked.error());
    const bool sent = egress_ && kind.protocol == Protocol::meta;
    for (Pattern& pattern : patterns_) {
        Layer& layer = pattern.metadata(sent ? Protocol::sent_meta : kind.protocol);
        if (layer.masks(static_cast<uint16_t>(asked->index * kTagBits), kTagBits))
            return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item,
                          "item {}: the pattern asks for this metadata already: use one item with "
                          "both masks",
                          item_name(item.type));
        layer.item = number_;
        layer.value = layer.value | asked->value;
        layer.mask = layer.mask | asked->mask;
    }
    return {};
}

FlowResult<void> Translator::add(const rte_flow_item& item, bool before_vlan) {
    if (item.type == RTE_FLOW_ITEM_TYPE_ANY) return add_any(item);
    const auto kind = known_kind(item);
    if (kind && is_metadata((*kind)->protocol)) return add_metadata(**kind, item);
    if (open_end_)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, &item,
                      "item {} after item any: the device finds headers by those before them: name "
                      "these",
                      item_name(item.type));
    if (item.type == RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT) return add_fragment(item);
    if (!kind) return tl::unexpected(kind.error());
    // With two tags, the outer one may be of either kind.
    if (item.type == RTE_FLOW_ITEM_TYPE_VLAN && before_vlan && last() == Protocol::eth)
        replace([&](const Pattern& pattern) {
            for (const uint16_t tpid : {RTE_ETHER_TYPE_VLAN, RTE_ETHER_TYPE_QINQ})
                if (Pattern next = pattern; next.last().demand(96, 16, tpid))
                    patterns_.push_back(next);
            if (patterns_.empty()) patterns_.push_back(pattern); // push() says what is wrong
        });
    if (auto ok = push(**kind, item); !ok) return ok;
    auto asked = read_item(**kind, item);
    if (!asked) return tl::unexpected(asked.error());
    if (auto ok = fill(item, *asked); !ok) return ok;
    return before_vlan ? FlowResult<void>{} : close_l2(item);
}

/// Verbs matches a tag by its bits. "Any tag" is a tag with the CFI/DEI bit set or one with it
/// clear.
void Translator::split_any_tag() {
    constexpr uint16_t kTciBits = 16, kDei = 3;
    const auto asks_for_any = [](const Pattern& pattern) {
        const auto layers = pattern.layers();
        return layers.size() > 1 && layers[1].protocol == Protocol::vlan &&
               !layers[1].masks(0, kTciBits) && layers[1].masks(kCustomerTag, 1) &&
               (layers.size() == 2 || layers[2].protocol != Protocol::second_vlan);
    };
    if (std::ranges::none_of(patterns_, asks_for_any)) return;
    replace([&](const Pattern& pattern) {
        const bool any = asks_for_any(pattern);
        for (const uint64_t dei : {0, 1}) {
            Pattern next = pattern;
            if (any) next.layers()[1].set(kDei, 1, dei);
            if (any || dei == 0) patterns_.push_back(next);
        }
    });
}

FlowResult<ShortList<Pattern>> Translator::translate(const rte_flow_item* pattern) {
    for (const rte_flow_item* item = pattern; item->type != RTE_FLOW_ITEM_TYPE_END; ++item) {
        if (item->type == RTE_FLOW_ITEM_TYPE_VOID) continue;
        number_ = static_cast<uint8_t>(std::min<ptrdiff_t>(item - pattern, Layer::kNone - 1));
        const bool before_vlan = next_item(item)->type == RTE_FLOW_ITEM_TYPE_VLAN;
        if (auto ok = add(*item, before_vlan); !ok) return tl::unexpected(ok.error());
    }
    split_any_tag();
    return std::move(patterns_);
}

} // namespace

const rte_flow_item* next_item(const rte_flow_item* item) {
    const auto asks_for_metadata = [](const rte_flow_item& of) {
        const ItemKind* const kind = kind_of(of.type);
        return kind != nullptr && is_metadata(kind->protocol);
    };
    do
        ++item;
    while (item->type == RTE_FLOW_ITEM_TYPE_VOID || asks_for_metadata(*item));
    return item;
}

FlowResult<ShortList<Pattern>> translate_pattern(const rte_flow_item* pattern, bool egress) {
    if (pattern == nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_NUM, nullptr, "no pattern given");
    return Translator(egress).translate(pattern);
}

} // namespace rawqp
