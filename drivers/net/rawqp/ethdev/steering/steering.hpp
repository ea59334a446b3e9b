// SPDX-License-Identifier: BSD-3-Clause
// Steering rules of the device: installing and owning them, and how priorities are shared.
#pragma once

#include "drivers/net/rawqp/ethdev/devargs.hpp"
#include "drivers/net/rawqp/ethdev/steering/engine.hpp"

namespace rawqp {

/// How the device's steering priorities (0 is tried first) are allotted. At the bottom: the port's
/// own filters, with `generations()` levels for each class; rte_flow rules have those above.
///
/// Within one rte_flow priority and within the filters, rules with ports are above rules with IP,
/// which are above the rest, so that each packet meets the hash of its class. A filter's second
/// generation, above the first, lets a new destination take over from the old one with no packet
/// lost or delivered twice.
struct SteeringLevels {
    uint16_t priorities = kMaxPriorities;

    static constexpr uint16_t kMaxPriorities = 16; ///< what mlx5_ib offers for user rules

    [[nodiscard]] uint16_t classes() const { return priorities >= 6 ? kClassDepths : 1; }
    [[nodiscard]] uint16_t generations() const { return priorities >= 9 ? 2 : 1; }
    /// Levels 0 … flow_levels() - 1 are for rte_flow rules.
    [[nodiscard]] uint16_t flow_levels() const;
    [[nodiscard]] uint16_t filter_level(TrafficClass traffic, unsigned generation) const;
    [[nodiscard]] uint16_t depth(TrafficClass traffic) const {
        return classes() == 1 ? uint16_t{0} : depth_of(traffic);
    }

  private:
    [[nodiscard]] uint16_t filter_levels() const {
        return static_cast<uint16_t>(classes() * generations());
    }
};

/// A rule in the device and its share of a hash QP; removed on destruction, before the QP.
struct SteeringRule {
    TunnelUse tunnels;
    std::unique_ptr<TunnelUse> copied_tunnels; ///< null: packets are not copied
    HashQp qp;
    DeviceRule device;
    const Engine* engine = nullptr; ///< that made it

    SteeringRule() = default;
    SteeringRule(SteeringRule&&) = default;
    SteeringRule& operator=(SteeringRule&& other) noexcept {
        device = std::move(other.device);
        qp = std::move(other.qp);
        tunnels = std::move(other.tunnels);
        copied_tunnels = std::move(other.copied_tunnels);
        engine = other.engine;
        return *this;
    }
};

/// What no engine can express.
struct LackText {
    const Layer* layer; ///< of the request; null: not a header
    Concern concern;    ///< if it is not
    std::string what;   ///< one sentence
};

/// A port's access to steering, which its filters and rte_flow share. A rule is requested through
/// the first engine that can express it, or the next one if the device refuses that. Control
/// threads only.
class Steering {
  public:
    /// ENOTSUP if the device has no such engine.
    [[nodiscard]] static Result<std::unique_ptr<Steering>> make(const verbs::Api& api, RssQps& qps,
                                                                uint8_t ib_port, FlowEngine wanted);

    /// The device's priorities, found by trial at first use (a rule that no frame can match) unless
    /// an installed rule has shown them. Needs Rx queue 0 to be set up.
    [[nodiscard]] Result<SteeringLevels> levels();
    [[nodiscard]] bool knows_levels() const { return known_levels().has_value(); }
    [[nodiscard]] const std::optional<SteeringLevels>& known_levels() const { return levels_; }

    /// The first engine that can express the request, also with other values; or what keeps every
    /// engine from it.
    [[nodiscard]] tl::expected<const Engine*, LackText>
    engine_for(const SteeringRequest& request) const;
    /// The result points into the request.
    tl::expected<const Engine*, LackText> engine_for(SteeringRequest&&) const = delete;
    /// Errors name the layers and destination of the rule and carry verbs' errno. Whether a
    /// request's engine can express it is not checked again.
    [[nodiscard]] Result<SteeringRule> install(const SteeringRequest& request);
    /// The same, into `rule`, which is empty so far.
    [[nodiscard]] Result<void> install(const SteeringRequest& request, SteeringRule& rule);

    /// Whether the device would accept the request: installs it for a moment, narrowed to a frame
    /// that no station sends, so that no traffic is affected.
    [[nodiscard]] Result<void> validate(SteeringRequest request);

    /// Whether an engine can express LRO.
    [[nodiscard]] bool has_lro() const {
        return std::ranges::any_of(engines_, [](const auto& engine) { return engine->has_lro(); });
    }
    /// For future rules; there are no live ones. Null: packets stay as they are.
    void use_lro(const std::optional<LroTerms>& terms);

    /// Whether groups above 0 can be served by software steering.
    [[nodiscard]] bool has_software() const {
        return software_ != nullptr && software_->available();
    }
    [[nodiscard]] GroupWay way() const { return way_; }
    /// For future requests. Rules stay as they are: the caller has them made anew.
    void set_way(GroupWay way) { way_ = way; }
    /// See SoftwareEngine::prepare(); null for requests of other engines, whose rules have nothing
    /// to prepare.
    [[nodiscard]] PartRef prepare(const SteeringRequest& request, size_t rules) {
        if (software_ == nullptr || request.engine != software_) return nullptr;
        return software_->prepare(request, rules);
    }
    /// Waits until the device has all rules as requested.
    [[nodiscard]] Result<void> settle();

    [[nodiscard]] RssQps& qps() { return qps_; }
    [[nodiscard]] Devx& devx() { return *devx_; }
    /// A counter for requests; the device is not asked before the first of them.
    [[nodiscard]] CounterRef make_counter(bool shared = false) {
        return make_ref<FlowCounter>(qps_.context(), *devx_, shared);
    }

  private:
    [[nodiscard]] Result<void> check_queues(const SteeringRequest& request) const;
    /// Installs a rule without counting it in the naming of tunnels.
    [[nodiscard]] Result<void> put(const SteeringRequest& request, SteeringRule& rule);
    Steering(RssQps& qps, std::unique_ptr<Devx> devx) : qps_(qps), devx_(std::move(devx)) {}

    RssQps& qps_;
    std::unique_ptr<Devx> devx_;
    GroupWay way_ = GroupWay::commands;
    std::vector<std::unique_ptr<Engine>> engines_; ///< at least one is in charge of any request
    SoftwareEngine* software_ = nullptr;           ///< one of them; null: there is none
    std::optional<SteeringLevels> levels_;
    bool lro_ = false;
};

} // namespace rawqp
