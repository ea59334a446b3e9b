// SPDX-License-Identifier: BSD-3-Clause
// Rules as verbs flow specs.
#include "drivers/net/rawqp/ethdev/steering/flow_attr.hpp"

#include <cerrno>

namespace rawqp {
namespace {

/// Why the layer's header itself cannot be matched, or null.
const char* no_way_to_ask_for(const Layer& layer) {
    const bool tagged_by_tci = layer.masks(0, 16);
    if (layer.protocol == Protocol::second_vlan ||
        (layer.protocol == Protocol::vlan && (layer.depth != 0 || !tagged_by_tci)))
        return "cannot be matched: verbs flow specs carry one VLAN tag, by conditions on its TCI";
    // mlx5_ib mistakes the inner spec of ESP for the outer one. There is only one place for a
    // tunnel's fields (except MPLS), and a device that refuses another spec does not say which
    // field it is.
    const bool outer_only = layer.protocol == Protocol::esp || traits_of(layer.protocol).tunnel;
    if (layer.depth != 0 && outer_only && layer.protocol != Protocol::mpls)
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
    [[nodiscard]] bool create(const SteeringRequest& request, ibv_qp* qp,
                              DeviceRule& rule) override;

  private:
    uint8_t ib_port_;
    bool lro_ = false;
    FlowAttr attr_;
};

std::optional<Lack> VerbsEngine::lack(const SteeringRequest& request) const {
    if (request.group != 0 || request.jump)
        return Lack::of(request.group != 0 ? Concern::group : Concern::jump,
                        "groups above 0 and action jump: verbs flow specs know one group");
    if (request.to_kernel)
        return Lack::of(Concern::kernel, "action send_to_kernel: verbs flow specs lead to queues");
    if (request.sample)
        return Lack::of(Concern::sample, "action sample: verbs flow specs have one destination");
    if (request.class_depth)
        return Lack{nullptr, "verbs flow specs lead to no table that tells traffic classes apart"};
    if (request.meter)
        return Lack::of(Concern::meter, "action meter: verbs flow specs run no meters");
    if (lro_ && takes_lro(request))
        return Lack{nullptr, "LRO: verbs flows lead to hash QPs, which have none"};
    if (request.egress)
        return Lack::of(Concern::direction, "verbs flow specs steer received packets only");
    if (request.edits)
        return Lack::of(Concern::edits, "verbs flow specs have no actions that change packets");
    for (const Layer& layer : request.pattern.layers())
        if (const char* const why = no_way_to_ask_for(layer)) return Lack{&layer, why};
    static const CarriedBits kCarried(
        [](const Field& field, uint8_t) { return field.verbs.spec != 0; });
    auto lack = first_lack(request.pattern, "verbs flow specs have", kCarried);
    if (!lack && request.counter && request.counter->verbs() == nullptr)
        lack = Lack::of(Concern::count, "action count: the device offers no flow counters", errno);
    return lack;
}

bool VerbsEngine::create(const SteeringRequest& request, ibv_qp* qp, DeviceRule& rule) {
    ibv_counters* const counters = request.counter ? request.counter->verbs() : nullptr;
    if (request.counter && counters == nullptr) return false;
    rule.flow.reset(ibv_create_flow(qp, attr_.write(request, ib_port_, counters)));
    return rule.flow != nullptr;
}

} // namespace

std::unique_ptr<Engine> make_verbs_engine(uint8_t ib_port) {
    return std::make_unique<VerbsEngine>(ib_port);
}

} // namespace rawqp
