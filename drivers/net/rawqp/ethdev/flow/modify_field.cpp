// SPDX-License-Identifier: BSD-3-Clause
// Action modify_field: one line of kModifiable for each supported field.
#include "drivers/net/rawqp/ethdev/flow/edit_targets.hpp"

#include "drivers/net/rawqp/ethdev/names.hpp"

#include <algorithm>
#include <cstring>

namespace rawqp {
namespace {

using enum Protocol;
using namespace edit_target;
constexpr auto kConf = RTE_FLOW_ERROR_TYPE_ACTION_CONF;

/// Its name differs between releases of DPDK.
using FieldData = decltype(rte_flow_action_modify_field::src);

struct ModifiableField {
    rte_flow_field_id id;
    EditTarget target;
};
constexpr ModifiableField kModifiable[] = {
    {RTE_FLOW_FIELD_MAC_DST, kMacDst},      {RTE_FLOW_FIELD_MAC_SRC, kMacSrc},
    {RTE_FLOW_FIELD_VLAN_ID, kVid},         {RTE_FLOW_FIELD_IPV4_DSCP, kDscp4},
    {RTE_FLOW_FIELD_IPV4_ECN, kEcn4},       {RTE_FLOW_FIELD_IPV4_TTL, kTtl},
    {RTE_FLOW_FIELD_IPV4_SRC, kSrc4},       {RTE_FLOW_FIELD_IPV4_DST, kDst4},
    {RTE_FLOW_FIELD_IPV6_DSCP, kDscp6},     {RTE_FLOW_FIELD_IPV6_ECN, kEcn6},
    {RTE_FLOW_FIELD_IPV6_HOPLIMIT, kHop},   {RTE_FLOW_FIELD_IPV6_SRC, kSrc6},
    {RTE_FLOW_FIELD_IPV6_DST, kDst6},       {RTE_FLOW_FIELD_TCP_PORT_SRC, kTcpSrc},
    {RTE_FLOW_FIELD_TCP_PORT_DST, kTcpDst}, {RTE_FLOW_FIELD_TCP_SEQ_NUM, kSeq},
    {RTE_FLOW_FIELD_TCP_ACK_NUM, kAck},     {RTE_FLOW_FIELD_TCP_FLAGS, kTcpFlags},
    {RTE_FLOW_FIELD_UDP_PORT_SRC, kUdpSrc}, {RTE_FLOW_FIELD_UDP_PORT_DST, kUdpDst},
    {RTE_FLOW_FIELD_META, kMeta},           {RTE_FLOW_FIELD_TAG, kTag},
    {RTE_FLOW_FIELD_MARK, kMark},
};

const ModifiableField* find_field(rte_flow_field_id id) {
    const auto* const field = std::ranges::find(kModifiable, id, &ModifiableField::id);
    return field != std::end(kModifiable) ? field : nullptr;
}

/// The tunnel whose header has this field; null: none. Devices have numbers for these fields, too,
/// those of VNIs for hardware steering only.
const char* tunnel_of(rte_flow_field_id id) {
    switch (id) {
    case RTE_FLOW_FIELD_VXLAN_VNI: return "vxlan";
    case RTE_FLOW_FIELD_GENEVE_VNI: return "geneve";
    case RTE_FLOW_FIELD_GTP_TEID:
    case RTE_FLOW_FIELD_GTP_PSC_QFI: return "gtp";
    default: return nullptr;
    }
}

tl::unexpected<FlowError> refuse_field(const rte_flow_action& action, rte_flow_field_id id,
                                       const char* role) {
    if (const char* const tunnel = tunnel_of(id))
        return refuse(ENOTSUP, kConf, &action,
                      "action modify_field: the {} is in the header of tunnel {}, which is neither "
                      "changed nor copied: match it by its item, or take the tunnel off and put "
                      "one with another number on (raw_decap, and raw_encap in an egress rule)",
                      role, tunnel);
    return refuse(ENOTSUP, kConf, &action,
                  "action modify_field: no such {}: MAC, IP addresses, DSCP, ECN, TTL, hop limit, "
                  "VLAN id, ports, TCP sequence and ack number and flags, meta, tags and mark are",
                  role);
}

/// For metadata, a number in CPU order, as in their items.
size_t value_bytes(const EditTarget& field) {
    return is_metadata(field.protocol) ? sizeof(uint32_t) : (field.bits + 7u) / 8u;
}

/// A field that modify_field names, and its place in the layer.
FlowResult<EditTarget> field_of(const HeadersNow& headers, const rte_flow_action& action,
                                const FieldData& data, const char* role, bool egress,
                                bool changes) {
    const ModifiableField* const field = find_field(data.field);
    if (field == nullptr) return refuse_field(action, data.field, role);
    if (!is_metadata(field->target.protocol)) {
        if (data.level > 1)
            return refuse(ENOTSUP, kConf, &action,
                          "action modify_field: level {} of the {}: only fields of outermost "
                          "headers (0 or 1) are changed and copied: take the tunnel off before "
                          "(vxlan_decap, nvgre_decap, raw_decap), and the inner ones are those",
                          static_cast<unsigned>(data.level), role);
        return target_of(headers, {&field->target, 1}, action, changes);
    }
    EditTarget target = field->target;
    const uint8_t index = target.protocol == Protocol::tag ? compat::tag_index(data) : uint8_t{0};
    if (auto ok = check_metadata(action, target.protocol, index); !ok)
        return tl::unexpected(ok.error());
    if (target.protocol == meta) target.protocol = meta_of(egress);
    target.bit = static_cast<uint16_t>(target.bit + index * kTagBits);
    return target;
}

/// Part of a field: a number of bits from an offset, counted from the lowest bit.
FlowResult<EditTarget> part_of(const rte_flow_action& action, const EditTarget& field,
                               uint32_t offset, uint32_t width, const char* role) {
    if (width == 0 || offset > field.bits || width > field.bits - offset)
        return refuse(EINVAL, kConf, &action,
                      "action modify_field: the {} has {} bits, and not {} from bit {} on", role,
                      field.bits, width, offset);
    return EditTarget{field.protocol,
                      static_cast<uint16_t>(field.bit + field.bits - offset - width),
                      static_cast<uint16_t>(width)};
}

FlowResult<Rewrite> read_copy(const HeadersNow& headers, const rte_flow_action& action,
                              const EditTarget& field, bool egress) {
    const auto& conf = *static_cast<const rte_flow_action_modify_field*>(action.conf);
    if (conf.operation != RTE_FLOW_MODIFY_SET)
        return refuse(ENOTSUP, kConf, &action,
                      "action modify_field: fields are copied, not added to others");
    if (conf.src.field == RTE_FLOW_FIELD_MARK || field.protocol == mark)
        return refuse(ENOTSUP, kConf, &action,
                      "action modify_field: a mark is the rule's own, given by a value: copy to "
                      "and from tags or meta");
    const auto source = field_of(headers, action, conf.src, "source", egress, false);
    if (!source) return tl::unexpected(source.error());
    const auto to = part_of(action, field, conf.dst.offset, conf.width, "destination");
    if (!to) return tl::unexpected(to.error());
    const auto from = part_of(action, *source, conf.src.offset, conf.width, "source");
    if (!from) return tl::unexpected(from.error());
    return Rewrite{to->protocol, to->bit, to->bits, false, {}, {{from->protocol, from->bit}}};
}

/// A value has the form of the whole field; the part at the same place is taken from it.
FlowResult<Rewrite> read_value(const rte_flow_action& action, const EditTarget& field) {
    const auto& conf = *static_cast<const rte_flow_action_modify_field*>(action.conf);
    const auto part = part_of(action, field, conf.dst.offset, conf.width, "destination");
    if (!part) return tl::unexpected(part.error());
    if (part->bits != field.bits &&
        (conf.operation != RTE_FLOW_MODIFY_SET || field.protocol == mark))
        return refuse(ENOTSUP, kConf, &action,
                      "action modify_field: a mark is set, and any field is added to, as a whole: "
                      "use offset 0 and width {}",
                      field.bits);
    if (field.bits > 32 && conf.operation != RTE_FLOW_MODIFY_SET)
        return refuse(ENOTSUP, kConf, &action,
                      "action modify_field: fields of more than 32 bits can be set, not added to");
    const auto* const number = conf.src.field == RTE_FLOW_FIELD_VALUE
                                   ? conf.src.value
                                   : static_cast<const uint8_t*>(conf.src.pvalue);
    if (number == nullptr)
        return refuse(EINVAL, kConf, &action, "action modify_field: the source is a null pointer");
    if (is_metadata(field.protocol)) {
        if (conf.operation != RTE_FLOW_MODIFY_SET)
            return refuse(ENOTSUP, kConf, &action,
                          "action modify_field: metadata is set, not added to");
        uint32_t value = 0;
        std::memcpy(&value, number, sizeof value);
        Rewrite rewrite{part->protocol, part->bit, part->bits, false, {}};
        set_bits(rewrite.value, 0, part->bits, value >> conf.dst.offset);
        return rewrite;
    }
    const Change change = conf.operation == RTE_FLOW_MODIFY_ADD   ? Change::add
                          : conf.operation == RTE_FLOW_MODIFY_SUB ? Change::subtract
                                                                  : Change::set;
    return rewrite_of(*part, {number, value_bytes(field)}, change, conf.dst.offset);
}

} // namespace

void take_value(rte_flow_action_modify_field& conf) {
    const ModifiableField* const field = find_field(conf.dst.field);
    const void* const value = conf.src.pvalue;
    if (conf.src.field != RTE_FLOW_FIELD_POINTER || value == nullptr || field == nullptr) return;
    conf.src.field = RTE_FLOW_FIELD_VALUE;
    std::memcpy(conf.src.value, value, value_bytes(field->target));
}

FlowResult<Rewrite> read_modify(const HeadersNow& headers, const rte_flow_action& action,
                                bool egress) {
    const auto* const conf = static_cast<const rte_flow_action_modify_field*>(action.conf);
    if (conf == nullptr) return lacks_configuration(action);
    const auto target = field_of(headers, action, conf->dst, "destination", egress, true);
    if (!target) return tl::unexpected(target.error());
    if (conf->src.field != RTE_FLOW_FIELD_VALUE && conf->src.field != RTE_FLOW_FIELD_POINTER)
        return read_copy(headers, action, *target, egress);
    return read_value(action, *target);
}

} // namespace rawqp
