// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/flow_attr.hpp"

#include <algorithm>
#include <cstring>

namespace rawqp {
namespace {

/// Where the value and mask of a spec's filter are in it.
struct SpecLayout {
    uint16_t type;
    uint16_t size, value, filter;
};
template <class Spec> constexpr SpecLayout layout(ibv_flow_spec_type type) {
    return {static_cast<uint16_t>(type), sizeof(Spec), offsetof(Spec, val), sizeof(Spec::val)};
}
constexpr SpecLayout kSpecs[] = {
    layout<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH),
    layout<ibv_flow_spec_ipv4_ext>(IBV_FLOW_SPEC_IPV4_EXT),
    layout<ibv_flow_spec_ipv6>(IBV_FLOW_SPEC_IPV6),
    layout<ibv_flow_spec_tcp_udp>(IBV_FLOW_SPEC_TCP),
    layout<ibv_flow_spec_tcp_udp>(IBV_FLOW_SPEC_UDP),
    layout<ibv_flow_spec_tunnel>(IBV_FLOW_SPEC_VXLAN_TUNNEL),
    layout<ibv_flow_spec_gre>(IBV_FLOW_SPEC_GRE),
    layout<ibv_flow_spec_mpls>(IBV_FLOW_SPEC_MPLS),
    layout<ibv_flow_spec_esp>(IBV_FLOW_SPEC_ESP),
};

const SpecLayout* layout_of(uint16_t type) {
    const auto* const found = std::ranges::find(kSpecs, type, &SpecLayout::type);
    return found == std::end(kSpecs) ? nullptr : found;
}

/// The layer without the fields that announce the next header, if that one has a spec which implies
/// them: mlx5_ib refuses a partly masked protocol along with it, and older ones accept no EtherType
/// there. A spec of an inner header implies nothing about the tunnel's.
Layer without_implied(const Layer& layer, const Layer* next) {
    Layer left = layer;
    if (next == nullptr || next->depth != layer.depth || !traits_of(next->protocol).verbs_implies)
        return left;
    for (const Binding& binding : bindings_of(layer.protocol))
        if (binding.upper == next->protocol) left.forget(binding.bit, binding.bits);
    return left;
}

} // namespace

/// Appends a spec; all zeros match any header of that kind. Padding between members is zero.
size_t FlowAttr::append(uint32_t type, uint16_t size) {
    const size_t at = blank_.size();
    blank_.resize(at + size);
    std::memcpy(&blank_[at], &type, sizeof type);
    std::memcpy(&blank_[at + sizeof type], &size, sizeof size);
    ++specs_;
    return at;
}

void FlowAttr::lay_out(const Pattern& pattern) {
    const std::span<const Layer> layers = pattern.layers();
    const SpecLayout* open = nullptr; // the spec of the layer before, which this one may share
    size_t at = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
        const Layer layer =
            without_implied(layers[i], i + 1 < layers.size() ? &layers[i + 1] : nullptr);
        const SpecLayout* const spec = layout_of(traits_of(layer.protocol).verbs_spec);
        if (spec == nullptr) continue; // the layer before asks for it
        if (spec != open || layers[i].depth != layers[i - 1].depth)
            at = append(spec->type + (layer.depth != 0 ? uint32_t{IBV_FLOW_SPEC_INNER} : 0u),
                        spec->size);
        open = spec;
        for (const Field& field : fields_of(layer.protocol)) {
            if (field.verbs.spec != spec->type || !layer.masks(field.bit, field.bits)) continue;
            const size_t value_bit = 8 * (at + spec->value) + field.verbs.bit;
            places_.push_back({static_cast<uint8_t>(i), field.bit, field.bits, value_bit});
            or_bits(layer.mask, field.bit, field.bits, blank_,
                    value_bit + size_t{8} * spec->filter);
        }
    }
}

void FlowAttr::lay_out(const Terms& terms, const Pattern& pattern) {
    terms_ = terms;
    pattern_ = pattern;
    blank_.assign(sizeof(ibv_flow_attr), 0);
    places_.clear();
    specs_ = 0;
    // The tag comes first: mlx5_ib tells a multicast rule by its first spec alone.
    if (terms.tagged)
        tag_at_ = append(IBV_FLOW_SPEC_ACTION_TAG, sizeof(ibv_flow_spec_action_tag)) +
                  offsetof(ibv_flow_spec_action_tag, tag_id);
    if (terms.type == IBV_FLOW_ATTR_NORMAL) lay_out(pattern);
    if (terms.drops) append(IBV_FLOW_SPEC_ACTION_DROP, sizeof(ibv_flow_spec_action_drop));
    if (terms.counts)
        counters_at_ = append(IBV_FLOW_SPEC_ACTION_COUNT, sizeof(ibv_flow_spec_counter_action)) +
                       offsetof(ibv_flow_spec_counter_action, counters);
    ibv_flow_attr attr{};
    attr.type = terms.type;
    attr.port = terms.ib_port;
    attr.size = static_cast<uint16_t>(blank_.size());
    attr.num_of_specs = specs_;
    std::memcpy(blank_.data(), &attr, sizeof attr);
}

bool FlowAttr::fits(const Terms& terms, const Pattern& pattern) const {
    return terms == terms_ && std::ranges::equal(pattern.layers(), pattern_.layers(), same_headers);
}

ibv_flow_attr* FlowAttr::write(const SteeringRequest& request, uint8_t ib_port,
                               ibv_counters* counters) {
    // Tag 0 is what packets report without a tag.
    const Terms terms{request.type, ib_port,
                      request.tag != 0 ||
                          (request.strict_level && request.pattern.multicast_only()),
                      request.drop, counters != nullptr};
    if (!fits(terms, request.pattern)) lay_out(terms, request.pattern);
    bytes_ = blank_;
    const std::span<const Layer> layers = request.pattern.layers();
    for (const auto& [layer, field, bits, bit] : places_)
        or_bits(layers[layer].value, field, bits, bytes_, bit);
    if (terms.tagged) std::memcpy(&bytes_[tag_at_], &request.tag, sizeof request.tag);
    if (terms.counts) std::memcpy(&bytes_[counters_at_], &counters, sizeof(void*));
    auto* const attr = reinterpret_cast<ibv_flow_attr*>(bytes_.data());
    if (terms.type == IBV_FLOW_ATTR_NORMAL) attr->priority = request.level;
    return attr;
}

} // namespace rawqp
