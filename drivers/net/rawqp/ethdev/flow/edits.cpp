// SPDX-License-Identifier: BSD-3-Clause
// One line of kSetActions for each action that sets a field; modify_field is in modify_field.cpp.
// steering/edits.cpp tells the device.
#include "drivers/net/rawqp/ethdev/flow/edits.hpp"

#include "drivers/net/rawqp/ethdev/flow/edit_targets.hpp"
#include "drivers/net/rawqp/ethdev/flow/item_kinds.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rawqp {
namespace {

using enum Protocol;
using namespace edit_target;

struct SetAction {
    rte_flow_action_type type;
    uint8_t bytes; ///< of its configuration, a number in network order; 0: the number 1
    std::array<EditTarget, 2> targets; ///< the pattern says which of them packets have
    Change change = Change::set;
};
constexpr SetAction kSetActions[] = {
    {RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, 6, {kMacSrc}},
    {RTE_FLOW_ACTION_TYPE_SET_MAC_DST, 6, {kMacDst}},
    {RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC, 4, {kSrc4}},
    {RTE_FLOW_ACTION_TYPE_SET_IPV4_DST, 4, {kDst4}},
    {RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC, 16, {kSrc6}},
    {RTE_FLOW_ACTION_TYPE_SET_IPV6_DST, 16, {kDst6}},
    {RTE_FLOW_ACTION_TYPE_SET_TP_SRC, 2, {kTcpSrc, kUdpSrc}},
    {RTE_FLOW_ACTION_TYPE_SET_TP_DST, 2, {kTcpDst, kUdpDst}},
    {RTE_FLOW_ACTION_TYPE_SET_TTL, 1, {kTtl, kHop}},
    {RTE_FLOW_ACTION_TYPE_DEC_TTL, 0, {kTtl, kHop}, Change::subtract},
    {RTE_FLOW_ACTION_TYPE_SET_IPV4_DSCP, 1, {kDscp4}},
    {RTE_FLOW_ACTION_TYPE_SET_IPV6_DSCP, 1, {kDscp6}},
    {RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID, 2, {kVid}},
    {RTE_FLOW_ACTION_TYPE_INC_TCP_SEQ, 4, {kSeq}, Change::add},
    {RTE_FLOW_ACTION_TYPE_DEC_TCP_SEQ, 4, {kSeq}, Change::subtract},
    {RTE_FLOW_ACTION_TYPE_INC_TCP_ACK, 4, {kAck}, Change::add},
    {RTE_FLOW_ACTION_TYPE_DEC_TCP_ACK, 4, {kAck}, Change::subtract},
};

constexpr uint32_t kPcpShift = 13; // in a TCI
constexpr auto kAction = RTE_FLOW_ERROR_TYPE_ACTION;
constexpr auto kConf = RTE_FLOW_ERROR_TYPE_ACTION_CONF;

/// Rewrites metadata with bits of a number in CPU order, one rewrite for each run of bits.
std::vector<Rewrite> rewrites_of(Protocol protocol, size_t index, uint32_t number, uint32_t mask) {
    std::vector<Rewrite> rewrites;
    for (uint16_t end = kTagBits; end > 0 && mask != 0;) { // the lowest bits are the last ones
        const auto skipped = static_cast<uint16_t>(std::countr_zero(mask));
        const auto bits = static_cast<uint16_t>(std::countr_one(mask >> skipped));
        end = static_cast<uint16_t>(end - skipped - bits);
        const uint32_t value = number >> skipped;
        Rewrite rewrite{protocol, static_cast<uint16_t>(index * kTagBits + end), bits, false, {}};
        set_bits(rewrite.value, 0, bits, value);
        rewrites.push_back(rewrite);
        const unsigned done = skipped + bits;
        number = done < kTagBits ? number >> done : 0;
        mask = done < kTagBits ? mask >> done : 0;
    }
    return rewrites;
}

FlowResult<Rewrite> read_set(const HeadersNow& headers, const SetAction& kind,
                             const rte_flow_action& action) {
    constexpr uint8_t kOne = 1;
    const auto target = target_of(headers, kind.targets, action);
    if (!target) return tl::unexpected(target.error());
    if (kind.bytes == 0) return rewrite_of(*target, {&kOne, 1}, kind.change);
    if (action.conf == nullptr) return lacks_configuration(action);
    return rewrite_of(*target, {static_cast<const uint8_t*>(action.conf), kind.bytes}, kind.change);
}

bool has_layer(const HeadersNow& headers, Protocol protocol) {
    return std::ranges::any_of(headers.pattern.layers(), [&](const Layer& layer) {
        return layer.depth == headers.depth && layer.protocol == protocol;
    });
}

/// TPID and TCI of a tag to push.
FlowResult<uint32_t> pushed_tag(const rte_flow_action& action) {
    const auto* const conf = static_cast<const rte_flow_action_of_push_vlan*>(action.conf);
    if (conf == nullptr) return lacks_configuration(action);
    const uint16_t type = rte_be_to_cpu_16(conf->ethertype);
    if (type != RTE_ETHER_TYPE_VLAN && type != RTE_ETHER_TYPE_QINQ)
        return refuse(EINVAL, kConf, &action,
                      "action of_push_vlan: EtherType {:#06x} is no VLAN tag's: use 0x8100 or "
                      "0x88a8",
                      type);
    return uint32_t{type} << 16;
}

/// Sets what a header to push has unless its item says otherwise.
void set_defaults(Layer& layer) {
    const auto unless_given = [&](uint16_t bit, uint16_t bits, uint64_t number) {
        if (!any_bit(layer.value, bit, bits)) set_bits(layer.value, bit, bits, number);
    };
    constexpr uint64_t kTtlOfEncap = 64, kWords = 5, kVniValid = 8;
    if (layer.protocol == ipv4) {
        unless_given(4, 4, kWords);
        unless_given(64, 8, kTtlOfEncap);
    }
    if (layer.protocol == ipv6) unless_given(56, 8, kTtlOfEncap);
    if (layer.protocol == vxlan) unless_given(0, 8, kVniValid);
}

/// Adds a header, which the one before it announces. What the item of that one says explicitly is
/// kept: an unusual UDP port of VXLAN, the TPID of a tag.
bool append(Pattern& pattern, Protocol protocol) {
    const size_t at = pattern.layers().size() - 1;
    const LayerBytes given = pattern.last().value;
    if (pattern.push(protocol) != Pattern::Follows::yes) return false;
    Layer& lower = pattern.layers()[at];
    if (protocol == vlan) lower.set(96, 16, RTE_ETHER_TYPE_VLAN);
    for (const Binding& binding : bindings_of(lower.protocol))
        if (binding.upper == protocol && any_bit(given, binding.bit, binding.bits))
            set_bits(lower.value, binding.bit, binding.bits,
                     get_bits(given, binding.bit, binding.bits));
    return true;
}

/// The headers that items describe, one after the other, each announcing the next one.
FlowResult<std::vector<uint8_t>> header_of(const rte_flow_action& action,
                                           const rte_flow_item* items) {
    if (items == nullptr)
        return refuse(EINVAL, kConf, &action, "action {}: its definition is missing",
                      action_name(action.type));
    Pattern pattern;
    bool started = false;
    for (; items->type != RTE_FLOW_ITEM_TYPE_END; ++items) {
        if (items->type == RTE_FLOW_ITEM_TYPE_VOID) continue;
        const auto kind = known_kind(*items);
        if (!kind) return tl::unexpected(kind.error());
        const Protocol protocol = (*kind)->protocol;
        const bool first = !std::exchange(started, true);
        if (first != (protocol == eth) || (!first && !append(pattern, protocol)))
            return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, items,
                          "action {}: item {} is out of order: a header to put on starts with eth "
                          "and ends with the tunnel",
                          action_name(action.type), item_name(items->type));
        Layer& layer = pattern.last();
        if (items->spec != nullptr)
            or_bits({static_cast<const uint8_t*>(items->spec), traits_of(protocol).bytes}, 0,
                    8u * traits_of(protocol).bytes, layer.value, 0);
        set_defaults(layer);
    }
    if (const ProtocolTraits& last = traits_of(pattern.last().protocol); !last.tunnel)
        return refuse(EINVAL, kAction, &action,
                      "action {}: its definition ends with item {}: a header to put on ends with "
                      "the tunnel",
                      action_name(action.type), last.name);
    std::vector<uint8_t> header;
    for (const Layer& layer : pattern.layers())
        header.insert(header.end(), layer.value.begin(),
                      layer.value.begin() + traits_of(layer.protocol).bytes);
    return header;
}

FlowResult<std::vector<uint8_t>> raw_header(const rte_flow_action& action) {
    const auto* const conf = static_cast<const rte_flow_action_raw_encap*>(action.conf);
    if (conf == nullptr || conf->data == nullptr || conf->size == 0)
        return refuse(EINVAL, kConf, &action, "action raw_encap: it has no data to put on");
    if (conf->size > kMostHeaderBytes)
        return refuse(ENOTSUP, kConf, &action,
                      "action raw_encap: a header of {} bytes: the device takes at most {}",
                      conf->size, kMostHeaderBytes);
    return std::vector<uint8_t>(conf->data, conf->data + conf->size);
}

/// Ethernet with at most one VLAN tag, and nothing after it.
constexpr size_t kLongestL2 = RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN;

/// Whether a raw_decap removes no more than an Ethernet header.
bool takes_l2_off(const rte_flow_action& raw_decap) {
    const auto* const conf = static_cast<const rte_flow_action_raw_decap*>(raw_decap.conf);
    return conf != nullptr && conf->size != 0 && conf->size <= kLongestL2;
}

/// Whether this change depends on which headers a packet has at that point.
bool concerns_headers(const Rewrite& rewrite) {
    return !is_metadata(rewrite.protocol) || (rewrite.from && !is_metadata(rewrite.from->protocol));
}

/// Whether this change depends on which tag a packet has at that point.
bool concerns_tag(const Rewrite& rewrite) {
    return rewrite.protocol == vlan || (rewrite.from && rewrite.from->protocol == vlan);
}

/// The tunnel that an action removes by name; raw_decap names none.
std::optional<Protocol> tunnel_named_by(const rte_flow_action& decap) {
    switch (decap.type) {
    case RTE_FLOW_ACTION_TYPE_VXLAN_DECAP: return vxlan;
    case RTE_FLOW_ACTION_TYPE_NVGRE_DECAP: return nvgre;
    default: return std::nullopt;
    }
}

/// Whether the packets of the pattern may have an Ethernet header inside their tunnel.
bool may_carry_ethernet(const Pattern& pattern) {
    const auto inner = std::ranges::find(pattern.layers(), 1, &Layer::depth);
    if (inner != pattern.layers().end()) return inner->protocol == eth;
    Pattern with_eth = pattern;
    return with_eth.push(eth) == Pattern::Follows::yes;
}

/// The header that a vxlan_encap or nvgre_encap, which are of the same form, describes; or null.
const rte_flow_item* tunnel_items(const rte_flow_action& encap) {
    const auto* const conf = static_cast<const rte_flow_action_vxlan_encap*>(encap.conf);
    return conf != nullptr ? conf->definition : nullptr;
}

} // namespace

HeadersNow EditReader::headers() const {
    const bool stripped = decap_ != nullptr && !decap_l2_;
    return {pattern_, static_cast<uint8_t>(stripped ? 1 : 0)};
}

/// A header for received packets implies removing a tunnel, which comes before all changes.
FlowResult<void> EditReader::check_before_encap(const rte_flow_action& action) const {
    if (!egress_ || encap_ == nullptr) return {};
    return refuse(
        ENOTSUP, kAction, &action,
        "action {}: the device changes and copies fields before it puts a header on, and tags "
        "likewise: put it before {}, or its value into that header",
        action_name(action.type), action_name(encap_->type));
}

FlowResult<void> EditReader::take(const rte_flow_action& action, FlowResult<Rewrite> rewrite) {
    if (!rewrite) return tl::unexpected(rewrite.error());
    if (concerns_headers(*rewrite))
        if (auto ok = check_before_encap(action); !ok) return ok;
    if (concerns_tag(*rewrite) && edits_.push_vlan)
        return refuse(ENOTSUP, kAction, &action,
                      "action {}: the device changes and copies the id of a tag before it pushes "
                      "another one: use of_set_vlan_vid for that one, or do this before",
                      action_name(action.type));
    if (concerns_tag(*rewrite) && edits_.pop_vlan && !has_layer(headers(), second_vlan))
        return refuse(EINVAL, kAction, &action, "action {}: the tag is off by then{}",
                      action_name(action.type),
                      action.type == RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID ? ": push one before"
                                                                          : "");
    edits_.rewrites.push_back(*rewrite);
    return {};
}

FlowResult<void> EditReader::modify(const rte_flow_action& action) {
    const auto rewrite = read_modify(headers(), action, egress_);
    if (!rewrite || rewrite->protocol != mark) return take(action, rewrite);
    mark_ = {static_cast<uint32_t>(get_bits(rewrite->value, 0, kMark.bits))};
    return {};
}

FlowResult<void> EditReader::set_metadata(const rte_flow_action& action) {
    if (action.conf == nullptr) return lacks_configuration(action);
    const bool of_tag = action.type == RTE_FLOW_ACTION_TYPE_SET_TAG;
    // Both begin with number and mask.
    const auto& conf = *static_cast<const rte_flow_action_set_meta*>(action.conf);
    const Protocol protocol = of_tag ? Protocol::tag : meta_of(egress_);
    const size_t index =
        of_tag ? static_cast<const rte_flow_action_set_tag*>(action.conf)->index : 0;
    if (auto ok = check_metadata(action, protocol, index); !ok) return ok;
    if (conf.mask == 0)
        return refuse(EINVAL, kConf, &action, "action {}: its mask is zero: it would set nothing",
                      action_name(action.type));
    for (const Rewrite& rewrite : rewrites_of(protocol, index, conf.data, conf.mask))
        edits_.rewrites.push_back(rewrite);
    return {};
}

FlowResult<void> EditReader::decap(const rte_flow_action& action, bool of_l2) {
    if (decap_ != nullptr || encap_ != nullptr)
        return refuse(ENOTSUP, kAction, &action,
                      "action {}: one header can come off, and then one go on",
                      action_name(action.type));
    if (!of_l2 && pattern_.last().depth == 0 && !traits_of(pattern_.last().protocol).tunnel)
        return refuse(EINVAL, kAction, &action,
                      "action {}: the pattern has no tunnel that could come off: add its item",
                      action_name(action.type));
    if (const auto named = tunnel_named_by(action); named && !has_layer(headers(), *named))
        return refuse(EINVAL, kAction, &action,
                      "action {}: the tunnel of the pattern is another one: use raw_decap",
                      action_name(action.type));
    if (!of_l2 && (std::ranges::any_of(edits_.rewrites, concerns_headers) || edits_.changes_tags()))
        return refuse(
            ENOTSUP, kAction, &action,
            "action {}: the device takes a tunnel off before it changes or copies fields, and "
            "before tags go on and off: put it before the actions that do so",
            action_name(action.type));
    decap_ = &action;
    decap_l2_ = of_l2;
    return {};
}

FlowResult<void> EditReader::encap(const rte_flow_action& action,
                                   FlowResult<std::vector<uint8_t>> header) {
    if (!header) return tl::unexpected(header.error());
    if (encap_ != nullptr)
        return refuse(ENOTSUP, kAction, &action, "action {}: only one header can go on",
                      action_name(action.type));
    encap_ = &action;
    edits_.header = std::move(*header);
    return {};
}

FlowResult<void> EditReader::pop_vlan(const rte_flow_action& action) {
    if (edits_.pop_vlan || edits_.push_vlan)
        return refuse(ENOTSUP, kAction, &action,
                      "action of_pop_vlan: one tag can come off, and then one go on");
    if (auto ok = check_before_encap(action); !ok) return ok;
    if (!has_layer(headers(), vlan))
        return refuse(
            EINVAL, kAction, &action,
            "action of_pop_vlan: the pattern has no item vlan{}: add it, for only packets "
            "with a tag can lose one",
            headers().depth == 0 ? "" : " inside the tunnel");
    if (std::ranges::any_of(edits_.rewrites, concerns_tag))
        return refuse(ENOTSUP, kAction, &action,
                      "action of_pop_vlan: the device takes a tag off before it changes or copies "
                      "an id: do that in a rule that jumps to the one with this action");
    edits_.pop_vlan = true;
    return {};
}

uint32_t EditReader::of_outermost_tag(uint16_t bit, uint16_t bits) const {
    const uint8_t depth = headers().depth;
    const Protocol which = edits_.pop_vlan ? second_vlan : vlan;
    std::optional<uint64_t> all;
    for (const Pattern& pattern : patterns_) {
        const auto tag = std::ranges::find_if(pattern.layers(), [&](const Layer& layer) {
            return layer.depth == depth && layer.protocol == which;
        });
        if (tag == pattern.layers().end()) return 0;
        const bool whole = get_bits(tag->mask, bit, bits) == (uint64_t{1} << bits) - 1;
        if (!whole || all.value_or(tag->get(bit, bits)) != tag->get(bit, bits)) return 0;
        all = tag->get(bit, bits);
    }
    return static_cast<uint32_t>(all.value_or(0));
}

uint32_t EditReader::id_of_outermost_tag() const {
    const auto changed = std::ranges::find(edits_.rewrites.rbegin(), edits_.rewrites.rend(), vlan,
                                           &Rewrite::protocol);
    if (changed == edits_.rewrites.rend()) return of_outermost_tag(kVlanId, kVlanIdBits);
    const bool known = changed->bits == kVlanIdBits && !changed->add && !changed->from;
    return known ? static_cast<uint32_t>(get_bits(changed->value, 0, kVlanIdBits)) : 0;
}

/// The tag begins with the id and the priority of the one that is outermost by then, as OpenFlow
/// says, as far as the rule knows them.
FlowResult<void> EditReader::push_vlan(const rte_flow_action& action) {
    if (edits_.push_vlan)
        return refuse(ENOTSUP, kAction, &action, "action of_push_vlan: only one tag can go on");
    if (auto ok = check_before_encap(action); !ok) return ok;
    auto tag = pushed_tag(action);
    if (!tag) return tl::unexpected(tag.error());
    constexpr uint16_t kPcpBits = 3;
    edits_.push_vlan = *tag | of_outermost_tag(0, kPcpBits) << kPcpShift | id_of_outermost_tag();
    return {};
}

/// Sets a field of the tag that was pushed; an id also of one that the packet has.
FlowResult<void> EditReader::set_vlan(const rte_flow_action& action) {
    const bool of_id = action.type == RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID;
    if (!edits_.push_vlan && !of_id)
        return refuse(ENOTSUP, kAction, &action,
                      "action of_set_vlan_pcp: the device changes no priority of a tag that the "
                      "packet has: take it off and push another one before");
    if (!edits_.push_vlan)
        return take(action, read_set(headers(),
                                     *std::ranges::find(kSetActions, action.type, &SetAction::type),
                                     action));
    if (auto ok = check_before_encap(action); !ok) return ok;
    if (action.conf == nullptr) return lacks_configuration(action);
    // Both are numbers in network byte order.
    const auto* const conf = static_cast<const uint8_t*>(action.conf);
    constexpr uint32_t kIdMask = 0xfff, kPcpMask = 7u << kPcpShift;
    const uint64_t number =
        of_id ? get_bits({conf, 2}, kVlanId, kVlanIdBits) : get_bits({conf, 1}, 5, 3) << kPcpShift;
    edits_.push_vlan =
        (*edits_.push_vlan & ~(of_id ? kIdMask : kPcpMask)) | static_cast<uint32_t>(number);
    return {};
}

FlowResult<bool> EditReader::read(const rte_flow_action& action) {
    FlowResult<void> done;
    const auto* const set = std::ranges::find(kSetActions, action.type, &SetAction::type);
    if (action.type == RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID ||
        action.type == RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_PCP)
        done = set_vlan(action);
    else if (action.type == RTE_FLOW_ACTION_TYPE_OF_POP_VLAN)
        done = pop_vlan(action);
    else if (action.type == RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN)
        done = push_vlan(action);
    else if (set != std::end(kSetActions))
        done = take(action, read_set(headers(), *set, action));
    else if (action.type == RTE_FLOW_ACTION_TYPE_SET_META ||
             action.type == RTE_FLOW_ACTION_TYPE_SET_TAG)
        done = set_metadata(action);
    else if (action.type == RTE_FLOW_ACTION_TYPE_MODIFY_FIELD)
        done = modify(action);
    else if (action.type == RTE_FLOW_ACTION_TYPE_VXLAN_DECAP ||
             action.type == RTE_FLOW_ACTION_TYPE_NVGRE_DECAP)
        done = decap(action, false);
    else if (action.type == RTE_FLOW_ACTION_TYPE_RAW_DECAP)
        done = decap(action, takes_l2_off(action));
    else if (action.type == RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP ||
             action.type == RTE_FLOW_ACTION_TYPE_NVGRE_ENCAP)
        done = encap(action, header_of(action, tunnel_items(action)));
    else if (action.type == RTE_FLOW_ACTION_TYPE_RAW_ENCAP)
        done = encap(action, raw_header(action));
    else
        return false;
    if (!done) return tl::unexpected(done.error());
    return true;
}

bool EditReader::changes_packets() const {
    const auto of_header = [](const Rewrite& rewrite) { return !is_metadata(rewrite.protocol); };
    return decap_ != nullptr || encap_ != nullptr || edits_.changes_tags() ||
           std::ranges::any_of(edits_.rewrites, of_header);
}

FlowResult<Edits> EditReader::finish() {
    if (const size_t commands = rewrite_commands(edits_.rewrites).size();
        commands > kMostRewriteCommands)
        return refuse(ENOTSUP, kAction, nullptr,
                      "the rule changes packets by {} commands of the device, which takes at most "
                      "{}: leave some changes to a rule of a group that this one jumps to",
                      commands, kMostRewriteCommands);
    const bool short_header = edits_.header.size() <= kLongestL2;
    if (decap_ != nullptr && encap_ != nullptr) {
        if (decap_l2_ == short_header)
            return refuse(ENOTSUP, kAction, encap_,
                          "action {}: what comes off and what goes on are both {}",
                          action_name(encap_->type),
                          decap_l2_ ? "Ethernet: use set_mac_src and set_mac_dst"
                                    : "tunnels: put the other one on by an egress rule");
        edits_.reformat = decap_l2_ ? Reformat::wrap_l3 : Reformat::strip_tunnel_to_l3;
    } else if (decap_ != nullptr) {
        if (decap_l2_)
            return refuse(ENOTSUP, kAction, decap_,
                          "action raw_decap: without its Ethernet header a packet needs another "
                          "one: add raw_encap");
        if (!may_carry_ethernet(pattern_))
            return refuse(EINVAL, kAction, decap_,
                          "action {}: what the tunnel carries has no Ethernet header, and needs "
                          "one: add raw_encap",
                          action_name(decap_->type));
        edits_.reformat = Reformat::strip_tunnel;
    } else if (encap_ != nullptr) {
        if (short_header)
            return refuse(ENOTSUP, kAction, encap_,
                          "action {}: a header of {} bytes is Ethernet's alone: put the tunnel's "
                          "after it, or raw_decap of a tunnel before it",
                          action_name(encap_->type), edits_.header.size());
        edits_.reformat = Reformat::wrap;
    }
    const bool wraps = edits_.reformat == Reformat::wrap || edits_.reformat == Reformat::wrap_l3;
    if (edits_.reformat != Reformat::none && wraps != egress_) {
        const rte_flow_action* const action = wraps ? encap_ : decap_;
        return refuse(ENOTSUP, kAction, action, "action {}: tunnels go {} only: use an {} rule",
                      action_name(action->type),
                      wraps ? "on when packets are sent" : "off when packets are received",
                      wraps ? "egress" : "ingress");
    }
    return std::move(edits_);
}

std::string edit_action_names() {
    std::string text;
    for (const SetAction& action : kSetActions)
        text.append(action_name(action.type)).append(", ");
    return text + "modify_field, raw_encap, raw_decap, vxlan_encap, vxlan_decap, nvgre_encap, "
                  "nvgre_decap, of_push_vlan, of_pop_vlan, of_set_vlan_pcp, set_meta, set_tag";
}

} // namespace rawqp
