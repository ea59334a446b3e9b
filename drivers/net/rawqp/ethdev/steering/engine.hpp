// SPDX-License-Identifier: BSD-3-Clause
// How a device is asked for a rule. `verbs` asks by ibv_create_flow, which every provider with
// flows has; `mlx5` in the device's own terms, which have words for more headers and actions.
#pragma once

#include "common/result.hpp"
#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/ethdev/lro.hpp"
#include "drivers/net/rawqp/ethdev/steering/edits.hpp"
#include "drivers/net/rawqp/ethdev/steering/flow_counter.hpp"
#include "drivers/net/rawqp/ethdev/steering/lack.hpp"
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"
#include "drivers/net/rawqp/ethdev/steering/shared_objects.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace rawqp {

class Engine;

/// Copies of some of a rule's packets, as they came.
struct Sample {
    uint32_t ratio = 1; ///< of so many packets, one is copied on average
    RssTargetRef target;
    uint32_t tag = 0;   ///< as that of a rule
    CounterRef counter; ///< null: not counted
};
using SampleRef = Ref<const Sample>;

/// What becomes of packets of one color.
struct ColorAction {
    bool drop = false;  ///< otherwise what the rule says
    CounterRef counter; ///< of all rules of the meter
};
/// A meter of the device, as rules have it run.
struct Meter {
    uint32_t object = 0; ///< the ASO object
    uint8_t place = 0;   ///< which of its meters
    std::array<ColorAction, RTE_COLORS> colors;
};
using MeterRef = Ref<const Meter>;

/// A rule to install. A target is also needed to drop: verbs ties every rule to a QP.
struct SteeringRequest {
    ibv_flow_attr_type type = IBV_FLOW_ATTR_NORMAL; ///< other types ignore pattern and level
    uint32_t group = 0; ///< above 0: of packets that a jump brings there
    uint16_t level = 0; ///< in group 0 the device's; else of GroupTable::kPlaces
    /// Have multicast addresses obey the level too. Otherwise mlx5_ib tries such rules after all
    /// levels, where several processes that want the same group each get a copy.
    bool strict_level = false;
    Pattern pattern;
    bool egress = false; ///< of sent packets: without a target
    RssTargetRef target;
    /// Of group 0: the rule is of one traffic class, of this depth, and what it is told apart from
    /// is a table's affair: the device's level is for all classes, and `leads` there by one of
    /// them.
    std::optional<uint16_t> class_depth;
    bool leads = true;
    std::optional<uint32_t> jump; ///< to a group, without a target
    SharedEdits edits;            ///< null: packets stay as they are
    bool drop = false;
    uint32_t tag = 0;   ///< flow tag, 24 bits; 0: none
    CounterRef counter; ///< null: not counted
    SampleRef sample;   ///< null: none
    MeterRef meter;     ///< null: none
    /// The first one that has words for it, as Steering::engine_for() found; null: nobody looked.
    const Engine* engine = nullptr;

    /// Whether it has to do with groups that received packets come to by jumps.
    [[nodiscard]] bool of_groups() const { return !egress && (group != 0 || jump); }
};

/// Whether LRO has something to put together of what a rule brings to its target: no TCP goes to
/// multicast addresses, and default rules are of verbs alone.
[[nodiscard]] bool takes_lro(const SteeringRequest& request);

/// The device has flows of rules only, each by ibv_create_flow or a call of libmlx5 like it.
struct DestroyFlow {
    void operator()(ibv_flow* flow) const {
        verbs::destroy_object(flow, ibv_destroy_flow, "steering rule");
    }
};

/// A rule in the device; taken out on destruction, before what it shares.
struct DeviceRule {
    PartList parts; ///< what it has beside itself; an entry of a table is one of them
    std::unique_ptr<ibv_flow, DestroyFlow> flow; ///< may lead to such a table

    DeviceRule() = default;
    DeviceRule(DeviceRule&&) = default;
    DeviceRule& operator=(DeviceRule&& other) noexcept {
        flow = std::move(other.flow); // the former one goes in the same order as on destruction
        parts = std::move(other.parts);
        return *this;
    }
    ~DeviceRule() = default;
};

/// Control threads only.
class Engine {
  public:
    virtual ~Engine() = default;
    [[nodiscard]] virtual const char* name() const = 0;
    /// Whether such requests are its affair now. Of engines that are not in charge, one may have
    /// rules of the same kind from before.
    [[nodiscard]] virtual bool in_charge(const SteeringRequest&) const { return true; }
    /// Why there is no way to ask for this; the device is not asked.
    [[nodiscard]] virtual std::optional<Lack> lack(const SteeringRequest& request) const = 0;
    /// Whether its rules may lead to TIRs with LRO.
    [[nodiscard]] virtual bool has_lro() const = 0;
    /// Of rules from now on; there are none that live. Null: packets stay as they are.
    virtual void use_lro(const std::optional<LroTerms>& terms) = 0;
    /// For a request that it has words for, whatever its values: into `rule`, where there is none.
    /// False with errno if the device refuses, or nobody can ask for these values. `qp`: of the
    /// request's target, in group 0; null with LRO if the request takes it.
    [[nodiscard]] virtual bool create(const SteeringRequest& request, ibv_qp* qp,
                                      DeviceRule& rule) = 0;
};

/// Who serves the groups above 0 of received packets, and the jumps to them: they are all of one
/// kind, as nothing leads from the tables of one kind to those of the other.
enum class GroupWay : uint8_t {
    commands, ///< each rule is a command
    software, ///< software steering: rules are written into the device's memory
};

[[nodiscard]] std::unique_ptr<Engine> make_verbs_engine(uint8_t ib_port);
/// Null: the device is none of libmlx5's, or the library has no such calls. In charge of groups by
/// commands; `way` outlives it.
[[nodiscard]] std::unique_ptr<Engine> make_mlx5_engine(const verbs::Api& api, ibv_context* context,
                                                       Devx& devx, const RxQueueSet& queues,
                                                       const GroupWay& way);

/// In charge of groups by software steering.
class SoftwareEngine : public Engine {
  public:
    /// Whether the device has it and lets this process use it; asked once there was such a one.
    [[nodiscard]] virtual bool available() = 0;
    /// Waits until the device has all rules as they were asked for; what other engines ask for it
    /// has when it answers. 0 or an errno.
    [[nodiscard]] virtual int settle() = 0;
};
/// Null as above.
[[nodiscard]] std::unique_ptr<SoftwareEngine> make_software_engine(const verbs::Api& api,
                                                                   ibv_context* context, Devx& devx,
                                                                   const RxQueueSet& queues,
                                                                   const GroupWay& way);

/// fte_match_param up to misc 3, as mlx5dv_create_flow_matcher and mlx5dv_create_flow take it.
struct Mlx5Match {
    static constexpr size_t kBlockBytes = 64, kBytes = 5 * kBlockBytes;
    std::array<uint8_t, kBytes> mask{}, value{};
    /// Which blocks are asked for, one bit each: outer headers, misc, inner headers, misc 2,
    /// misc 3.
    uint8_t criteria = 0;
};
[[nodiscard]] Mlx5Match mlx5_match(const Pattern& pattern);

} // namespace rawqp
