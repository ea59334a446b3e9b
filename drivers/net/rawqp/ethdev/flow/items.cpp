// SPDX-License-Identifier: BSD-3-Clause
// One entry in kItems for each item type: its fields, which of them verbs can carry, and a function
// that stores them. All checks of masks, ranges and order are made here from the table, so that a
// new item is one more field list, fill function and line.
#include "drivers/net/rawqp/ethdev/flow/items.hpp"

#include "common/net/endian.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"

#include <array>
#include <cstring>
#include <span>

namespace rawqp {

namespace {

constexpr uint8_t kLargestItem = 64;
using ItemBytes = std::array<uint8_t, kLargestItem>;

/// Whether verbs has a place for a field (which can then be masked bit by bit), and what part of it
/// rte_flow's default mask covers, for items with a spec and no mask. (rte_flow.h keeps its default
/// masks from C++.)
enum class Carried : uint8_t { no, when_masked, by_default, vlan_id_by_default };

struct ItemField {
    const char* name;
    uint8_t offset;
    uint8_t size;
    Carried carried;
};

/// Order of items in a pattern. No layer may follow itself or a later one.
enum class Layer : uint8_t { none, eth, vlan, ip, l4 };

struct ItemKind {
    rte_flow_item_type type;
    const char* name;
    Layer layer;
    uint8_t size;                      ///< of its spec, last and mask
    std::span<const ItemField> fields; ///< together they cover all of the spec but padding
    /// Adds the layer to the match. `value` has the bits of `mask` only. Returns why not, or "".
    std::string (*fill)(FlowMatch& match, const ItemBytes& value, const ItemBytes& mask);
};

/// Binds a fill function to the item's own type.
template <class Item, std::string (*Fill)(FlowMatch&, const Item&, const Item&)>
std::string fill_as(FlowMatch& match, const ItemBytes& value, const ItemBytes& mask) {
    static_assert(sizeof(Item) <= kLargestItem);
    Item typed_value, typed_mask;
    std::memcpy(&typed_value, value.data(), sizeof(Item));
    std::memcpy(&typed_mask, mask.data(), sizeof(Item));
    return Fill(match, typed_value, typed_mask);
}

// A field by its member, and the word of flag bits that items have after the header. Compilers
// put eth's first flag in the bytes that would pad the 14-byte header.
#define FIELD(item, member, name, carried)                                                         \
    ItemField { name, offsetof(item, member), sizeof(item::member), Carried::carried }
#define FLAG_WORD(item, name)                                                                      \
    ItemField { name, sizeof(item) - sizeof(uint32_t), sizeof(uint32_t), Carried::no }

constexpr ItemField kEthFields[] = {
    FIELD(rte_flow_item_eth, hdr.dst_addr, "dst", by_default),
    FIELD(rte_flow_item_eth, hdr.src_addr, "src", by_default),
    FIELD(rte_flow_item_eth, hdr.ether_type, "type", when_masked),
    {"has_vlan", sizeof(rte_ether_hdr), 1, Carried::no},
    FLAG_WORD(rte_flow_item_eth, "reserved"),
};
constexpr ItemField kVlanFields[] = {
    FIELD(rte_flow_item_vlan, hdr.vlan_tci, "tci", vlan_id_by_default),
    FIELD(rte_flow_item_vlan, hdr.eth_proto, "inner_type", when_masked),
    FLAG_WORD(rte_flow_item_vlan, "has_more_vlan"),
};
constexpr ItemField kIpv4Fields[] = {
    {"version_ihl", 0, 1, Carried::no},
    FIELD(rte_flow_item_ipv4, hdr.type_of_service, "tos", when_masked),
    FIELD(rte_flow_item_ipv4, hdr.total_length, "length", no),
    FIELD(rte_flow_item_ipv4, hdr.packet_id, "packet_id", no),
    FIELD(rte_flow_item_ipv4, hdr.fragment_offset, "fragment_offset", no),
    FIELD(rte_flow_item_ipv4, hdr.time_to_live, "ttl", when_masked),
    FIELD(rte_flow_item_ipv4, hdr.next_proto_id, "proto", when_masked),
    FIELD(rte_flow_item_ipv4, hdr.hdr_checksum, "hdr_checksum", no),
    FIELD(rte_flow_item_ipv4, hdr.src_addr, "src", by_default),
    FIELD(rte_flow_item_ipv4, hdr.dst_addr, "dst", by_default),
};
constexpr ItemField kIpv6Fields[] = {
    {"version, tc and flow", 0, 4, Carried::when_masked},
    FIELD(rte_flow_item_ipv6, hdr.payload_len, "payload_len", no),
    FIELD(rte_flow_item_ipv6, hdr.proto, "proto", when_masked),
    FIELD(rte_flow_item_ipv6, hdr.hop_limits, "hop", when_masked),
    FIELD(rte_flow_item_ipv6, hdr.src_addr, "src", by_default),
    FIELD(rte_flow_item_ipv6, hdr.dst_addr, "dst", by_default),
    FLAG_WORD(rte_flow_item_ipv6, "has_*_ext"),
};
constexpr ItemField kTcpFields[] = {
    FIELD(rte_flow_item_tcp, hdr.src_port, "src", by_default),
    FIELD(rte_flow_item_tcp, hdr.dst_port, "dst", by_default),
    FIELD(rte_flow_item_tcp, hdr.sent_seq, "sent_seq", no),
    FIELD(rte_flow_item_tcp, hdr.recv_ack, "recv_ack", no),
    FIELD(rte_flow_item_tcp, hdr.data_off, "data_off", no),
    FIELD(rte_flow_item_tcp, hdr.tcp_flags, "flags", no),
    FIELD(rte_flow_item_tcp, hdr.rx_win, "rx_win", no),
    FIELD(rte_flow_item_tcp, hdr.cksum, "cksum", no),
    FIELD(rte_flow_item_tcp, hdr.tcp_urp, "tcp_urp", no),
};
constexpr ItemField kUdpFields[] = {
    FIELD(rte_flow_item_udp, hdr.src_port, "src", by_default),
    FIELD(rte_flow_item_udp, hdr.dst_port, "dst", by_default),
    FIELD(rte_flow_item_udp, hdr.dgram_len, "length", no),
    FIELD(rte_flow_item_udp, hdr.dgram_cksum, "cksum", no),
};
#undef FIELD
#undef FLAG_WORD

std::string fill_eth(FlowMatch& match, const rte_flow_item_eth& value,
                     const rte_flow_item_eth& mask) {
    auto& eth = match.eth;
    std::memcpy(eth.val.dst_mac, value.hdr.dst_addr.addr_bytes, sizeof eth.val.dst_mac);
    std::memcpy(eth.mask.dst_mac, mask.hdr.dst_addr.addr_bytes, sizeof eth.mask.dst_mac);
    std::memcpy(eth.val.src_mac, value.hdr.src_addr.addr_bytes, sizeof eth.val.src_mac);
    std::memcpy(eth.mask.src_mac, mask.hdr.src_addr.addr_bytes, sizeof eth.mask.src_mac);
    eth.val.ether_type = value.hdr.ether_type;
    eth.mask.ether_type = mask.hdr.ether_type;
    return {};
}

std::string fill_vlan(FlowMatch& match, const rte_flow_item_vlan& value,
                      const rte_flow_item_vlan& mask) {
    auto& eth = match.eth;
    // The device matches the type after the tag; the tag's own is implied by the VLAN condition.
    if ((eth.val.ether_type ^ RTE_BE16(RTE_ETHER_TYPE_VLAN)) & eth.mask.ether_type)
        return fmt::format("contradicts EtherType {:#06x} of the eth item: the device matches "
                           "802.1Q tags (0x8100)",
                           net::to_be(eth.val.ether_type));
    eth.val.ether_type = value.hdr.eth_proto;
    eth.mask.ether_type = mask.hdr.eth_proto;
    eth.val.vlan_tag = value.hdr.vlan_tci;
    eth.mask.vlan_tag = mask.hdr.vlan_tci;
    return {};
}

std::string fill_ipv4(FlowMatch& match, const rte_flow_item_ipv4& value,
                      const rte_flow_item_ipv4& mask) {
    if (!add_ipv4(match))
        return fmt::format("contradicts EtherType {:#06x}, which an earlier item matches",
                           net::to_be(match.eth.val.ether_type));
    const auto store = [](ibv_flow_ipv4_ext_filter& to, const rte_ipv4_hdr& from) {
        to.src_ip = from.src_addr;
        to.dst_ip = from.dst_addr;
        to.proto = from.next_proto_id;
        to.tos = from.type_of_service;
        to.ttl = from.time_to_live;
    };
    store(match.ipv4->val, value.hdr);
    store(match.ipv4->mask, mask.hdr);
    return {};
}

std::string fill_ipv6(FlowMatch& match, const rte_flow_item_ipv6& value,
                      const rte_flow_item_ipv6& mask) {
    if (!add_ipv6(match))
        return fmt::format("contradicts EtherType {:#06x}, which an earlier item matches",
                           net::to_be(match.eth.val.ether_type));
    // The first word: version 4 bits, traffic class 8, flow label 20.
    const uint32_t word = rte_be_to_cpu_32(value.hdr.vtc_flow);
    const uint32_t word_mask = rte_be_to_cpu_32(mask.hdr.vtc_flow);
    if ((word ^ (6u << 28)) & word_mask & (15u << 28))
        return fmt::format("field version: an IPv6 header never has version {}", word >> 28);
    const auto store = [](ibv_flow_ipv6_filter& to, const rte_ipv6_hdr& from, uint32_t vtc_flow) {
        std::memcpy(to.src_ip, compat::ipv6_bytes(from.src_addr), sizeof to.src_ip);
        std::memcpy(to.dst_ip, compat::ipv6_bytes(from.dst_addr), sizeof to.dst_ip);
        to.flow_label = rte_cpu_to_be_32(vtc_flow & 0xfffff);
        to.next_hdr = from.proto;
        to.traffic_class = static_cast<uint8_t>(vtc_flow >> 20);
        to.hop_limit = from.hop_limits;
    };
    store(match.ipv6->val, value.hdr, word);
    store(match.ipv6->mask, mask.hdr, word_mask);
    return {};
}

template <class Item, ibv_flow_spec_type Type>
std::string fill_l4(FlowMatch& match, const Item& value, const Item& mask) {
    if (!match.ipv4 && !match.ipv6) return "needs an ipv4 or ipv6 item before it";
    if (!add_l4(match, Type))
        return fmt::format("contradicts IP protocol {} of the item before it",
                           match.ipv4 ? match.ipv4->val.proto : match.ipv6->val.next_hdr);
    match.l4->val.src_port = value.hdr.src_port;
    match.l4->val.dst_port = value.hdr.dst_port;
    match.l4->mask.src_port = mask.hdr.src_port;
    match.l4->mask.dst_port = mask.hdr.dst_port;
    return {};
}
constexpr auto kFillTcp = fill_l4<rte_flow_item_tcp, IBV_FLOW_SPEC_TCP>;
constexpr auto kFillUdp = fill_l4<rte_flow_item_udp, IBV_FLOW_SPEC_UDP>;

const ItemKind kItems[] = {
    {RTE_FLOW_ITEM_TYPE_ETH, "eth", Layer::eth, sizeof(rte_flow_item_eth), kEthFields,
     fill_as<rte_flow_item_eth, fill_eth>},
    {RTE_FLOW_ITEM_TYPE_VLAN, "vlan", Layer::vlan, sizeof(rte_flow_item_vlan), kVlanFields,
     fill_as<rte_flow_item_vlan, fill_vlan>},
    {RTE_FLOW_ITEM_TYPE_IPV4, "ipv4", Layer::ip, sizeof(rte_flow_item_ipv4), kIpv4Fields,
     fill_as<rte_flow_item_ipv4, fill_ipv4>},
    {RTE_FLOW_ITEM_TYPE_IPV6, "ipv6", Layer::ip, sizeof(rte_flow_item_ipv6), kIpv6Fields,
     fill_as<rte_flow_item_ipv6, fill_ipv6>},
    {RTE_FLOW_ITEM_TYPE_TCP, "tcp", Layer::l4, sizeof(rte_flow_item_tcp), kTcpFields,
     fill_as<rte_flow_item_tcp, kFillTcp>},
    {RTE_FLOW_ITEM_TYPE_UDP, "udp", Layer::l4, sizeof(rte_flow_item_udp), kUdpFields,
     fill_as<rte_flow_item_udp, kFillUdp>},
};

const ItemKind* kind_of(rte_flow_item_type type) {
    for (const ItemKind& kind : kItems)
        if (kind.type == type) return &kind;
    return nullptr;
}

bool any_set(const uint8_t* bytes, size_t size) {
    for (size_t i = 0; i < size; ++i)
        if (bytes[i] != 0) return true;
    return false;
}

void set_default_mask(const ItemKind& kind, ItemBytes& mask) {
    for (const ItemField& field : kind.fields)
        if (field.carried == Carried::by_default)
            std::memset(&mask[field.offset], 0xff, field.size);
        else if (field.carried == Carried::vlan_id_by_default)
            net::store_be<uint16_t>(&mask[field.offset], 0x0fff);
}

/// The item's value and mask, checked field by field against what its kind can carry.
FlowResult<void> load(const ItemKind& kind, const rte_flow_item& item, ItemBytes& value,
                      ItemBytes& mask) {
    value.fill(0);
    mask.fill(0);
    if (item.spec == nullptr) {
        if (item.mask != nullptr)
            return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_MASK, &item,
                          "item {}: mask without spec", kind.name);
        if (item.last != nullptr)
            return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_LAST, &item,
                          "item {}: last without spec", kind.name);
        return {}; // any header of this kind
    }
    if (item.mask != nullptr)
        std::memcpy(mask.data(), item.mask, kind.size);
    else
        set_default_mask(kind, mask);
    std::memcpy(value.data(), item.spec, kind.size);
    ItemBytes last{};
    if (item.last != nullptr) std::memcpy(last.data(), item.last, kind.size);
    for (size_t i = 0; i < kind.size; ++i) {
        value[i] &= mask[i];
        last[i] &= mask[i];
    }

    for (const ItemField& field : kind.fields) {
        if (field.carried == Carried::no && any_set(&mask[field.offset], field.size))
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_MASK, &item,
                          "item {}: field {} cannot be matched, verbs flow specs have no place "
                          "for it: clear its mask",
                          kind.name, field.name);
        if (any_set(&last[field.offset], field.size) &&
            std::memcmp(&last[field.offset], &value[field.offset], field.size) != 0)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_LAST, &item,
                          "item {}: range on field {}: the device matches bits, not ranges; use "
                          "a mask or several rules",
                          kind.name, field.name);
    }
    return {};
}

/// Verbs asks for a tag by its bits. "Any tag" is a tag with the CFI/DEI bit set, or not set.
std::vector<FlowMatch> any_tag(const FlowMatch& match) {
    constexpr uint16_t kDei = RTE_BE16(0x1000);
    FlowMatch clear = match, set = match;
    clear.eth.mask.vlan_tag = set.eth.mask.vlan_tag = set.eth.val.vlan_tag = kDei;
    return {clear, set};
}

/// EtherType conditions that no frame meets, as the device matches the type after the tags.
bool asks_for_tag_type(const FlowMatch& match) {
    const auto type = net::to_be(match.eth.val.ether_type);
    return match.eth.mask.ether_type == 0xffff &&
           (type == RTE_ETHER_TYPE_VLAN || type == RTE_ETHER_TYPE_QINQ);
}

} // namespace

FlowResult<std::vector<FlowMatch>> translate_pattern(const rte_flow_item* pattern) {
    if (pattern == nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_NUM, nullptr, "no pattern given");
    FlowMatch match;
    Layer reached = Layer::none;
    bool tagged = false;
    const rte_flow_item* l2 = nullptr; // the item that set EtherType

    for (const rte_flow_item* item = pattern; item->type != RTE_FLOW_ITEM_TYPE_END; ++item) {
        if (item->type == RTE_FLOW_ITEM_TYPE_VOID) continue;
        const ItemKind* kind = kind_of(item->type);
        if (kind == nullptr)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, item,
                          "item {} is not supported: use eth, vlan, ipv4, ipv6, tcp or udp",
                          item_name(item->type));
        if (kind->layer <= reached)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, item,
                          "item {} is out of order: each layer can be matched once, in the order "
                          "eth, vlan, ipv4 or ipv6, tcp or udp",
                          kind->name);
        ItemBytes value, mask;
        if (auto loaded = load(*kind, *item, value, mask); !loaded)
            return tl::unexpected(loaded.error());
        if (const std::string why = kind->fill(match, value, mask); !why.empty())
            return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, item, "item {} {}", kind->name, why);
        reached = kind->layer;
        tagged |= kind->layer == Layer::vlan;
        if (kind->layer <= Layer::vlan) l2 = item;
    }

    if (asks_for_tag_type(match))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, l2,
                      "item {}: EtherType {:#06x} is that of a VLAN tag, and the device "
                      "matches the type after the tags: {}",
                      tagged ? "vlan" : "eth", net::to_be(match.eth.val.ether_type),
                      tagged ? "a second tag cannot be matched" : "use a vlan item");
    if (tagged && match.eth.mask.vlan_tag == 0) return any_tag(match);
    return std::vector<FlowMatch>{match};
}

} // namespace rawqp
