// SPDX-License-Identifier: BSD-3-Clause
// Rules as verbs flow specs: one spec for each header, an 802.1Q tag in that of Ethernet.
#include "drivers/net/rawqp/ethdev/steering/engine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rawqp {
namespace {

/// Where value and mask of a spec's filter stand in it.
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

/// An ibv_flow_attr being written, with its specs. What lies between members is zero.
class SpecWriter {
  public:
    /// In memory that may have served another one.
    explicit SpecWriter(std::vector<uint8_t> memory) : bytes_(std::move(memory)) {
        bytes_.reserve(512); // most rules
        bytes_.assign(sizeof(ibv_flow_attr), 0);
    }

    /// Another spec; all zeros match any header of that kind.
    size_t append(uint32_t type, uint16_t size) {
        const size_t at = bytes_.size();
        bytes_.resize(at + size);
        std::memcpy(&bytes_[at], &type, sizeof type);
        std::memcpy(&bytes_[at + sizeof type], &size, sizeof size);
        ++specs_;
        return at;
    }
    /// An action, whose one member follows its head.
    template <class Spec, class T> void action(ibv_flow_spec_type type, T Spec::*member, T value) {
        const size_t at = append(type, sizeof(Spec));
        Spec spec{};
        spec.type = type;
        spec.size = sizeof spec;
        spec.*member = value;
        std::memcpy(&bytes_[at], &spec, sizeof spec);
    }
    void match(const Pattern& pattern);
    [[nodiscard]] std::vector<uint8_t> finish(ibv_flow_attr attr) {
        attr.size = static_cast<uint16_t>(bytes_.size());
        attr.num_of_specs = specs_;
        std::memcpy(bytes_.data(), &attr, sizeof attr);
        return std::move(bytes_);
    }

  private:
    void fill(const Layer& layer, const SpecLayout& spec, size_t at);

    std::vector<uint8_t> bytes_;
    uint8_t specs_ = 0;
};

void SpecWriter::fill(const Layer& layer, const SpecLayout& spec, size_t at) {
    const std::span<uint8_t> bytes(bytes_);
    const auto value = bytes.subspan(at + spec.value, spec.filter);
    const auto mask = bytes.subspan(at + spec.value + spec.filter, spec.filter);
    for (const Field& field : fields_of(layer.protocol)) {
        if (field.verbs.spec != spec.type || !layer.masks(field.bit, field.bits)) continue;
        or_bits(layer.value, field.bit, field.bits, value, field.verbs.bit);
        or_bits(layer.mask, field.bit, field.bits, mask, field.verbs.bit);
    }
}

/// Without the fields by which a header announces the next one, if that has a spec which says so:
/// mlx5_ib refuses a partly masked protocol beside it, and older ones take no EtherType there. A
/// spec of an inner header says nothing of the tunnel's.
Layer without_implied(const Layer& layer, const Layer* next) {
    Layer left = layer;
    if (next == nullptr || next->depth != layer.depth || !traits_of(next->protocol).verbs_implies)
        return left;
    for (const Binding& binding : bindings_of(layer.protocol))
        if (binding.upper == next->protocol) left.forget(binding.bit, binding.bits);
    return left;
}

void SpecWriter::match(const Pattern& pattern) {
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
        fill(layer, *spec, at);
    }
}

/// Why the layer's header itself cannot be asked for, or null.
const char* no_way_to_ask_for(const Layer& layer) {
    const bool tagged_by_tci = layer.masks(0, 16);
    if (layer.protocol == Protocol::second_vlan ||
        (layer.protocol == Protocol::vlan && (layer.depth != 0 || !tagged_by_tci)))
        return "cannot be matched: verbs flow specs carry one VLAN tag, by conditions on its TCI";
    // mlx5_ib takes the inner spec for the outer one.
    if (layer.protocol == Protocol::esp && layer.depth != 0)
        return "cannot be matched inside a tunnel: verbs flow specs carry the outer header only";
    return nullptr;
}

class VerbsEngine final : public Engine {
  public:
    explicit VerbsEngine(uint8_t ib_port) : ib_port_(ib_port) {}

    [[nodiscard]] const char* name() const override { return "verbs"; }
    [[nodiscard]] std::optional<Lack> lack(const SteeringRequest& request) const override;
    [[nodiscard]] bool has_lro() const override { return false; }
    void use_lro(const std::optional<LroTerms>& terms) override { lro_ = terms.has_value(); }
    [[nodiscard]] DeviceRule create(const SteeringRequest& request, ibv_qp* qp) override;

  private:
    uint8_t ib_port_;
    bool lro_ = false;
    std::vector<uint8_t> bytes_; ///< of the last request
};

std::optional<Lack> VerbsEngine::lack(const SteeringRequest& request) const {
    if (request.group != 0 || request.jump)
        return Lack{nullptr, "groups above 0 and action jump: verbs flow specs know one group"};
    if (request.sample)
        return Lack{nullptr, "action sample: verbs flow specs have one destination"};
    if (request.meter) return Lack{nullptr, "action meter: verbs flow specs run no meters"};
    if (lro_ && takes_lro(request))
        return Lack{nullptr, "LRO: verbs flows lead to hash QPs, which have none"};
    if (request.egress) return Lack{nullptr, "verbs flow specs steer received packets only"};
    if (request.edits) return Lack{nullptr, "verbs flow specs have no actions that change packets"};
    for (const Layer& layer : request.pattern.layers())
        if (const char* const why = no_way_to_ask_for(layer)) return Lack{&layer, why};
    static const CarriedBits kCarried(
        [](const Field& field, uint8_t) { return field.verbs.spec != 0; });
    auto lack = first_lack(request.pattern, "verbs flow specs have", kCarried);
    if (!lack && request.counter && request.counter->verbs() == nullptr)
        lack = Lack{nullptr, "action count: the device offers no flow counters", nullptr, errno};
    return lack;
}

DeviceRule VerbsEngine::create(const SteeringRequest& request, ibv_qp* qp) {
    DeviceRule rule;
    ibv_counters* const counters = request.counter ? request.counter->verbs() : nullptr;
    if (request.counter && counters == nullptr) return rule;
    bytes_ = flow_attr_bytes(request, ib_port_, counters, std::move(bytes_));
    rule.flow = verbs::Flow(ibv_create_flow(qp, reinterpret_cast<ibv_flow_attr*>(bytes_.data())),
                            {ibv_destroy_flow, "steering rule"});
    return rule;
}

} // namespace

std::vector<uint8_t> flow_attr_bytes(const SteeringRequest& request, uint8_t ib_port,
                                     ibv_counters* counters, std::vector<uint8_t> memory) {
    ibv_flow_attr attr{};
    attr.type = request.type;
    attr.port = ib_port;
    SpecWriter writer(std::move(memory));
    // The tag comes first: mlx5_ib tells a multicast rule by its first spec alone.
    if (request.tag != 0 || (request.strict_level && request.pattern.multicast_only()))
        writer.action(IBV_FLOW_SPEC_ACTION_TAG, &ibv_flow_spec_action_tag::tag_id,
                      request.tag); // 0 is what packets report without a tag
    if (request.type == IBV_FLOW_ATTR_NORMAL) {
        attr.priority = request.level;
        writer.match(request.pattern);
    }
    if (request.drop) writer.append(IBV_FLOW_SPEC_ACTION_DROP, sizeof(ibv_flow_spec_action_drop));
    if (counters != nullptr)
        writer.action(IBV_FLOW_SPEC_ACTION_COUNT, &ibv_flow_spec_counter_action::counters,
                      counters);
    return writer.finish(attr);
}

std::unique_ptr<Engine> make_verbs_engine(uint8_t ib_port) {
    return std::make_unique<VerbsEngine>(ib_port);
}

} // namespace rawqp
