// SPDX-License-Identifier: BSD-3-Clause
// Steering rules of the device: installing one, owning it, and how its priorities are shared.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/match.hpp"

#include <memory>

namespace rawqp {

/// How the device's steering priorities (0 is tried first) are dealt out. From the top: rte_flow
/// rules, `classes()` levels for each rte_flow priority; at the bottom: the port's own filters,
/// with `generations()` levels for each class.
///
/// Within one rte_flow priority and within the filters, rules with ports stand above rules with IP
/// above the rest, so that each packet meets the hash of its class. A filter's second generation,
/// above the first, lets a new destination take over from the old one with no packet lost or
/// delivered twice.
struct SteeringLevels {
    uint16_t priorities = kMaxPriorities;

    static constexpr uint16_t kMaxPriorities = 16; ///< what mlx5_ib offers for user rules

    [[nodiscard]] uint16_t classes() const { return priorities >= 6 ? kClassDepths : 1; }
    [[nodiscard]] uint16_t generations() const { return priorities >= 9 ? 2 : 1; }
    /// rte_flow priorities 0 … flow_priorities() - 1 exist.
    [[nodiscard]] uint32_t flow_priorities() const;
    [[nodiscard]] uint16_t flow_level(uint32_t rte_priority, TrafficClass traffic) const;
    [[nodiscard]] uint16_t filter_level(TrafficClass traffic, unsigned generation) const;

  private:
    [[nodiscard]] uint16_t filter_levels() const {
        return static_cast<uint16_t>(classes() * generations());
    }
    [[nodiscard]] uint16_t depth(TrafficClass traffic) const {
        return classes() == 1 ? uint16_t{0} : depth_of(traffic);
    }
};

/// A rule to install. `destination` is also needed to drop: verbs ties every rule to a QP.
struct SteeringRequest {
    ibv_flow_attr_type type = IBV_FLOW_ATTR_NORMAL; ///< other types ignore match and level
    uint16_t level = 0;
    /// Have multicast addresses obey the level too. Otherwise mlx5_ib tries such rules after all
    /// levels, where several processes that want the same group each get a copy.
    bool strict_level = false;
    FlowMatch match;
    RssDestination destination;
    bool drop = false;
    uint32_t tag = 0;                 ///< flow tag, 24 bits; 0: none
    ibv_counters* counters = nullptr; ///< counts the packets of the rule
};

/// The request as ibv_create_flow takes it: an ibv_flow_attr and its specs.
[[nodiscard]] std::vector<uint8_t> flow_attr_bytes(const SteeringRequest& request, uint8_t ib_port);

/// Gives a hash QP back to the cache.
struct ReleaseQp {
    RssQps* qps = nullptr;
    void operator()(ibv_qp* qp) const { qps->release(qp); }
};
using HashQp = std::unique_ptr<ibv_qp, ReleaseQp>;

/// A rule in the device and its share of a hash QP; taken out on destruction, before the QP.
struct SteeringRule {
    HashQp qp;
    verbs::Flow flow;
};

/// One port's access to steering. Control threads only.
class Steering {
  public:
    Steering(RssQps& qps, uint8_t ib_port) : qps_(qps), ib_port_(ib_port) {}

    /// The device's priorities, found at first use by trial (a rule that no frame can match) unless
    /// an installed rule has shown them. Needs Rx queue 0 to be set up.
    [[nodiscard]] Result<SteeringLevels> levels();
    [[nodiscard]] bool knows_levels() const { return levels_.has_value(); }

    /// Errors name the layers, level and destination of the rule and carry verbs' errno.
    [[nodiscard]] Result<SteeringRule> install(const SteeringRequest& request);

    /// Whether the device would accept the request: installs it for a moment, narrowed to a frame
    /// that no station sends, so that no traffic is affected.
    [[nodiscard]] Result<void> validate(SteeringRequest request);

  private:
    RssQps& qps_;
    uint8_t ib_port_;
    std::optional<SteeringLevels> levels_;
};

} // namespace rawqp
