// SPDX-License-Identifier: BSD-3-Clause
// One entry in kItems for each item type. Most specs are headers as on the wire, so a new item
// takes a line here and one with its fields in steering/protocol.cpp.
#include "drivers/net/rawqp/ethdev/flow/item_kinds.hpp"

#include "drivers/net/rawqp/ethdev/names.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"

#include <algorithm>
#include <cstring>

namespace rawqp {

namespace {

constexpr uint8_t kFlag = 0x80, kOthers = 0x01;

uint8_t eth_flags(const void* item) {
    const auto& eth = *static_cast<const rte_flow_item_eth*>(item);
    return static_cast<uint8_t>((eth.has_vlan ? kFlag : 0) | (eth.reserved ? kOthers : 0));
}
uint8_t vlan_flags(const void* item) {
    const auto& vlan = *static_cast<const rte_flow_item_vlan*>(item);
    return static_cast<uint8_t>((vlan.has_more_vlan ? kFlag : 0) | (vlan.reserved ? kOthers : 0));
}
uint8_t ipv6_flags(const void* item) {
    rte_flow_item_ipv6 ipv6;
    std::memcpy(static_cast<void*>(&ipv6), item, sizeof ipv6);
    return ipv6.has_frag_ext ? kFlag : 0;
}

constexpr ItemKind kItems[] = {
    {RTE_FLOW_ITEM_TYPE_ETH, Protocol::eth, {{{0, 96}}}, eth_flags},
    {RTE_FLOW_ITEM_TYPE_VLAN, Protocol::vlan, {{{kVlanId, kVlanIdBits}}}, vlan_flags},
    {RTE_FLOW_ITEM_TYPE_ARP_ETH_IPV4, Protocol::arp, {{{64, 160}}}},
    {RTE_FLOW_ITEM_TYPE_MPLS, Protocol::mpls, {{{0, 20}}}},
    {RTE_FLOW_ITEM_TYPE_IPV4, Protocol::ipv4, {{{96, 64}}}},
    {RTE_FLOW_ITEM_TYPE_IPV6, Protocol::ipv6, {{{64, 256}}}, ipv6_flags},
    {RTE_FLOW_ITEM_TYPE_TCP, Protocol::tcp, {{{0, 32}}}},
    {RTE_FLOW_ITEM_TYPE_UDP, Protocol::udp, {{{0, 32}}}},
    {RTE_FLOW_ITEM_TYPE_ICMP, Protocol::icmp, {{{0, 16}}}},
    {RTE_FLOW_ITEM_TYPE_ICMP6, Protocol::icmp6, {{{0, 16}}}},
    {RTE_FLOW_ITEM_TYPE_IGMP, Protocol::igmp, {{{32, 32}}}},
    {RTE_FLOW_ITEM_TYPE_ESP, Protocol::esp, {{{0, 32}}}},
    {RTE_FLOW_ITEM_TYPE_AH, Protocol::ah, {{{32, 32}}}},
    {RTE_FLOW_ITEM_TYPE_GRE, Protocol::gre, {{{16, 16}}}},
    {RTE_FLOW_ITEM_TYPE_GRE_KEY, Protocol::gre_key, {{{0, 32}}}},
    {RTE_FLOW_ITEM_TYPE_NVGRE, Protocol::nvgre, {{{32, 24}}}},
    {RTE_FLOW_ITEM_TYPE_VXLAN, Protocol::vxlan, {{{32, 24}}}},
    {RTE_FLOW_ITEM_TYPE_VXLAN_GPE, Protocol::vxlan_gpe, {{{32, 24}}}},
    {RTE_FLOW_ITEM_TYPE_GENEVE, Protocol::geneve, {{{32, 24}}}},
    {RTE_FLOW_ITEM_TYPE_GTP, Protocol::gtp, {{{32, 32}}}},
    {RTE_FLOW_ITEM_TYPE_GTPU, Protocol::gtp, {{{32, 32}}}},
    {RTE_FLOW_ITEM_TYPE_META, Protocol::meta, {}},
    {RTE_FLOW_ITEM_TYPE_TAG, Protocol::tag, {}},
    {RTE_FLOW_ITEM_TYPE_MARK, Protocol::mark, {}},
};

/// The row in kItems of each type, counted from 1.
constexpr auto kRowOf = [] {
    std::array<uint8_t, 128> rows{};
    for (size_t i = 0; i < std::size(kItems); ++i)
        rows.at(kItems[i].type) = static_cast<uint8_t>(i + 1);
    return rows;
}();

/// Items without a row, and what would work instead.
struct Refusal {
    rte_flow_item_type type;
    const char* why;
};
constexpr const char* kNoSwitch =
    "there is no embedded switch, and the rules of a port are for its own packets: make the rule "
    "on that port, without this item";
constexpr Refusal kRefused[] = {
    {RTE_FLOW_ITEM_TYPE_SCTP,
     "the device matches no SCTP ports: use item ipv4 or ipv6 with proto 132"},
    {RTE_FLOW_ITEM_TYPE_GTPC, "the device looks into GTP-U only: use item udp with dst 2123"},
    {RTE_FLOW_ITEM_TYPE_GTP_PSC,
     "extension headers of GTP-U are not matched: use item gtp, where bit 0x04 of v_pt_rsv_flags "
     "tells whether there are any"},
    {RTE_FLOW_ITEM_TYPE_GENEVE_OPT,
     "options are not matched: use item geneve, where optlen tells whether there are any"},
    {RTE_FLOW_ITEM_TYPE_IPV6_EXT,
     "devices skip extension headers: use item ipv6, where proto is the protocol after them, or "
     "ipv6_frag_ext"},
    {RTE_FLOW_ITEM_TYPE_RAW,
     "the device matches fields of headers, not bytes at an offset: name the header items"},
    {RTE_FLOW_ITEM_TYPE_INTEGRITY,
     "results of checks are not matched: use the Rx checksum offloads, which put them into each "
     "mbuf"},
    {RTE_FLOW_ITEM_TYPE_CONNTRACK,
     "connections are not tracked: use item tcp, where flags tell how one begins and ends"},
    {compat::item_ptype(),
     "a packet type is a row of headers: use their items, such as eth / ipv4 / udp for "
     "RTE_PTYPE_L2_ETHER, RTE_PTYPE_L3_IPV4 and RTE_PTYPE_L4_UDP"},
    {RTE_FLOW_ITEM_TYPE_PORT_ID, kNoSwitch},
    {RTE_FLOW_ITEM_TYPE_REPRESENTED_PORT, kNoSwitch},
    {RTE_FLOW_ITEM_TYPE_PORT_REPRESENTOR, kNoSwitch},
};

/// "eth, vlan, … or gtp".
std::string known_items() {
    std::string text = "any, void";
    for (const ItemKind& kind : kItems)
        text += ", " + item_name(kind.type);
    return text;
}

LayerBytes read_bytes(const ItemKind& kind, const void* item) {
    LayerBytes bytes{};
    std::memcpy(bytes.data(), item, traits_of(kind.protocol).bytes);
    if (kind.flags != nullptr) bytes.flags() = kind.flags(item);
    return bytes;
}

/// Which tag an item tag with a spec asks for; 0 for any other item. The index is no condition:
/// what mask and last say of it is ignored.
FlowResult<uint8_t> tag_index(const rte_flow_item& item) {
    if (item.type != RTE_FLOW_ITEM_TYPE_TAG) return uint8_t{0};
    const uint8_t index = static_cast<const rte_flow_item_tag*>(item.spec)->index;
    if (index < kTags) return index;
    return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_SPEC, &item,
                  "item tag: index {}: the largest is {}", index, kTags - 1);
}

/// Items of metadata begin with their number.
uint32_t number_of(const void* item) { return *static_cast<const uint32_t*>(item); }

/// The register of marks has one bit besides the id: a packet without a mark is not one with mark
/// 0.
LayerBytes metadata_bytes(const ItemKind& kind, const void* number, uint8_t index) {
    LayerBytes bytes{};
    const uint32_t marked = kind.protocol == Protocol::mark ? kMarked : 0;
    const size_t bit = size_t{index} * kTagBits;
    set_bits(bytes, bit, kTagBits, number_of(number) | marked);
    return bytes;
}

void apply_mask(Asked& asked) {
    asked.value = asked.value & asked.mask;
    asked.last = asked.last & asked.mask;
}

LayerBytes any_mark() {
    LayerBytes bytes{};
    set_bits(bytes, 0, kTagBits, kMarked);
    return bytes;
}

/// The flag of item ipv6 that this mask asks for and a layer does not have; null: none.
const char* other_flag(const void* mask) {
    rte_flow_item_ipv6 ipv6;
    std::memcpy(static_cast<void*>(&ipv6), mask, sizeof ipv6);
    return ipv6.has_hop_ext     ? "has_hop_ext"
           : ipv6.has_route_ext ? "has_route_ext"
           : ipv6.has_auth_ext  ? "has_auth_ext"
           : ipv6.has_esp_ext   ? "has_esp_ext"
           : ipv6.has_dest_ext  ? "has_dest_ext"
           : ipv6.has_mobil_ext ? "has_mobil_ext"
           : ipv6.has_hip_ext   ? "has_hip_ext"
           : ipv6.has_shim6_ext ? "has_shim6_ext"
           : ipv6.reserved      ? "reserved"
                                : nullptr;
}

FlowResult<void> check_extensions(const ItemKind& kind, const rte_flow_item& item) {
    if (kind.protocol != Protocol::ipv6 || item.mask == nullptr) return {};
    const char* const flag = other_flag(item.mask);
    if (flag == nullptr) return {};
    return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_MASK, &item,
                  "item ipv6: field {} cannot be matched: devices skip extension headers: match "
                  "proto, which is the protocol after them, or has_frag_ext",
                  flag);
}

/// As everywhere in rte_flow, a last that is zero or equal to the spec asks for no range.
bool asks_for_range(const rte_flow_item& item, uint32_t mask) {
    if (item.last == nullptr) return false;
    const uint32_t last = number_of(item.last) & mask;
    return last != 0 && last != (number_of(item.spec) & mask);
}

/// A number in CPU order and its place in the layer; for a tag, that place is in the spec.
FlowResult<Asked> read_metadata(const ItemKind& kind, const rte_flow_item& item) {
    const rte_flow_item_meta all{~0u};
    const void* const mask = item.mask != nullptr ? item.mask : &all;
    if (asks_for_range(item, number_of(mask)))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_LAST, &item,
                      "item {}: there are no ranges of metadata: use a mask or several rules",
                      item_name(item.type));
    const auto index = tag_index(item);
    if (!index) return tl::unexpected(index.error());
    if (auto ok = check_mark(kind, item); !ok) return tl::unexpected(ok.error());
    Asked asked;
    asked.index = *index;
    asked.mask = metadata_bytes(kind, mask, *index);
    asked.value = metadata_bytes(kind, item.spec, *index);
    apply_mask(asked);
    return asked;
}

} // namespace

FlowResult<void> check_given(const rte_flow_item& item) {
    if (item.spec == nullptr && item.mask != nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_MASK, &item, "item {}: mask without spec",
                      item_name(item.type));
    if (item.spec == nullptr && item.last != nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_LAST, &item, "item {}: last without spec",
                      item_name(item.type));
    return {};
}

FlowResult<void> check_mark(const ItemKind& kind, const rte_flow_item& item) {
    if (kind.protocol != Protocol::mark) return {};
    const auto* const mask = static_cast<const rte_flow_item_mark*>(item.mask);
    const uint32_t id = static_cast<const rte_flow_item_mark*>(item.spec)->id;
    if (id <= kMarkMax || (mask != nullptr && (id & mask->id) <= kMarkMax)) return {};
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_SPEC, &item,
                  "item mark: no packet has mark {:#x}: the largest is {:#x}", id, kMarkMax);
}

std::span<const ItemKind> item_kinds() { return kItems; }

const ItemKind* kind_of(rte_flow_item_type type) {
    const auto at = static_cast<uint32_t>(type);
    return at < kRowOf.size() && kRowOf[at] != 0 ? &kItems[kRowOf[at] - 1] : nullptr;
}

FlowResult<const ItemKind*> known_kind(const rte_flow_item& item) {
    if (const ItemKind* const kind = kind_of(item.type)) return kind;
    const auto* const refused = std::ranges::find(kRefused, item.type, &Refusal::type);
    if (refused != std::end(kRefused))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, &item, "item {} is not supported: {}",
                      item_name(item.type), refused->why);
    return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, &item, "item {} is not supported: use {}",
                  item_name(item.type), known_items());
}

LayerBytes read_spec(const ItemKind& kind, const rte_flow_item& item, uint8_t index) {
    return is_metadata(kind.protocol) ? metadata_bytes(kind, item.spec, index)
                                      : read_bytes(kind, item.spec);
}

FlowResult<Asked> read_item(const ItemKind& kind, const rte_flow_item& item) {
    Asked asked;
    if (auto ok = check_given(item); !ok) return tl::unexpected(ok.error());
    if (item.spec == nullptr) {
        if (kind.protocol == Protocol::mark) asked.mask = asked.value = any_mark();
        return asked; // any header of this kind
    }
    if (is_metadata(kind.protocol)) return read_metadata(kind, item);
    if (item.mask != nullptr)
        asked.mask = read_bytes(kind, item.mask);
    else
        for (const BitRange& range : kind.by_default)
            set_all_bits(asked.mask, range.bit, range.bits);
    if (auto ok = check_extensions(kind, item); !ok) return tl::unexpected(ok.error());
    asked.value = read_bytes(kind, item.spec);
    if (item.last != nullptr) asked.last = read_bytes(kind, item.last);
    apply_mask(asked);
    return asked;
}

} // namespace rawqp
