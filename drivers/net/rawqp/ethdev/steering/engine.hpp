// SPDX-License-Identifier: BSD-3-Clause
// How a device is asked for a rule. `verbs` uses ibv_create_flow, which every provider with flows
// has; `mlx5` uses the device's own terms, which express more headers and actions.
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
#include <cerrno>
#include <memory>
#include <optional>

namespace rawqp {

class Engine;

/// Copies of some of a rule's packets, as they arrived.
struct Sample {
    uint32_t ratio = 1; ///< one in this many packets is copied, on average
    RssTargetRef target;
    uint32_t tag = 0;   ///< as that of a rule
    CounterRef counter; ///< null: not counted
};
using SampleRef = Ref<const Sample>;

/// What happens to packets of one color.
struct ColorAction {
    bool drop = false;  ///< otherwise what the rule says
    CounterRef counter; ///< of all rules of the meter
};
/// A meter of the device, as rules run it.
struct Meter {
    uint32_t object = 0; ///< the ASO object
    uint8_t place = 0;   ///< which of its meters
    std::array<ColorAction, RTE_COLORS> colors;
};
using MeterRef = Ref<const Meter>;

/// Groups above 0 have tables, one after the other: what a rule passes on, or what matches none in
/// its table, goes on to the next one.
struct GroupStage {
    uint32_t group;
    uint8_t stage = 0; ///< 0: the first table, to which jumps lead
    auto operator<=>(const GroupStage&) const = default;
};
/// The device has a level for each of these stages: group + stage is at most this where there is
/// another stage.
inline constexpr uint32_t kLastStage = 22;

/// A rule to install. A target is also needed to drop: verbs ties every rule to a QP.
struct SteeringRequest {
    ibv_flow_attr_type type = IBV_FLOW_ATTR_NORMAL; ///< other types ignore pattern and level
    uint32_t group = 0; ///< above 0: for packets that a jump brings there
    uint8_t stage = 0;  ///< of a group above 0
    uint16_t level = 0; ///< in group 0 the device's; else of GroupTable::kPlaces
    /// Makes multicast addresses obey the level, too. Otherwise mlx5_ib tries such rules after all
    /// levels, where several processes that want the same group each get a copy.
    bool strict_level = false;
    Pattern pattern;
    bool egress = false; ///< for sent packets: without a target
    RssTargetRef target;
    /// In group 0: the rule is for one traffic class, of this depth, and a table tells it apart
    /// from the others: the device's level is for all classes, and the rule that `leads` to the
    /// table is for one of them.
    std::optional<uint16_t> class_depth;
    bool leads = true;
    std::optional<uint32_t> jump; ///< to a group, without a target
    bool passes = false;          ///< on to the group's next stage, without a target
    bool to_kernel = false;       ///< past all other rules, without a target
    SharedEdits edits;            ///< null: packets stay as they are
    bool drop = false;
    uint32_t tag = 0;           ///< flow tag, 24 bits; 0: none
    CounterRef counter;         ///< null: not counted
    SampleRef sample;           ///< null: none
    MeterRef meter;             ///< null: none
    bool counts_passed = false; ///< the counter is behind the meter
    CounterRef matched;         ///< with that, one before the meter; null: none
    /// The first engine that can express it, as Steering::engine_for() found; null: not looked up.
    const Engine* engine = nullptr;

    /// The table that it leads to.
    [[nodiscard]] std::optional<GroupStage> next() const {
        if (passes) return GroupStage{group, static_cast<uint8_t>(stage + 1)};
        return jump ? std::optional(GroupStage{*jump}) : std::nullopt;
    }
    /// Whether it concerns groups that received packets reach by jumps.
    [[nodiscard]] bool of_groups() const { return !egress && (group != 0 || jump); }
};

/// Whether a device's errno refuses the combination, which another engine may express in a form
/// that the device takes. Providers and kernels have different ones for that; all others (no
/// memory, no room, a lost device) would come again.
[[nodiscard]] constexpr bool is_refusal(int error) {
    return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS;
}

/// Whether LRO has anything to merge in what a rule brings to its target: no TCP goes to multicast
/// addresses, and only verbs has default rules.
[[nodiscard]] bool takes_lro(const SteeringRequest& request);

/// All flows in the device are rules, each made by ibv_create_flow or a similar call of libmlx5.
struct DestroyFlow {
    void operator()(ibv_flow* flow) const {
        verbs::destroy_object(flow, ibv_destroy_flow, "steering rule");
    }
};

/// A rule in the device; removed on destruction, before what it shares.
struct DeviceRule {
    PartList parts; ///< its other objects; an entry of a table is one of them
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
    /// Whether such requests are its job at present. An engine not in charge may have rules of the
    /// same kind from before.
    [[nodiscard]] virtual bool in_charge(const SteeringRequest&) const { return true; }
    /// Why it cannot express this; the device is not asked.
    [[nodiscard]] virtual std::optional<Lack> lack(const SteeringRequest& request) const = 0;
    /// Whether its rules may lead to TIRs with LRO.
    [[nodiscard]] virtual bool has_lro() const = 0;
    /// For future rules; there are no live ones. Null: packets stay as they are.
    virtual void use_lro(const std::optional<LroTerms>& terms) = 0;
    /// Makes a rule, into an empty `rule`, for a request that it can express, whatever its values.
    /// False with errno if the device refuses, or these values cannot be requested: then `rule` is
    /// not one, but has what was made for it. `qp`: of the request's target, in group 0; null with
    /// LRO if the request takes it.
    [[nodiscard]] virtual bool create(const SteeringRequest& request, ibv_qp* qp,
                                      DeviceRule& rule) = 0;
};

/// What serves the groups above 0 of received packets and the jumps to them: they are all of one
/// kind, as nothing leads from the tables of one kind to those of the other.
enum class GroupWay : uint8_t {
    commands, ///< each rule is a command
    software, ///< software steering: rules are written into the device's memory
};

[[nodiscard]] std::unique_ptr<Engine> make_verbs_engine(uint8_t ib_port);
/// Null: libmlx5 does not drive the device, or the library has no such calls. In charge of groups
/// by commands; `way` outlives it.
[[nodiscard]] std::unique_ptr<Engine> make_mlx5_engine(const verbs::Api& api, ibv_context* context,
                                                       Devx& devx, const RxQueueSet& queues,
                                                       const GroupWay& way);

/// In charge of groups by software steering.
class SoftwareEngine : public Engine {
  public:
    /// Whether the device has it and lets this process use it; after a yes it is not asked again.
    [[nodiscard]] virtual bool available() = 0;
    /// For a request of a group above 0: keeps, as long as the result is there, what it shares with
    /// requests of other values, with room for so many rules. Nothing is lost if it is null: rules
    /// make what they need.
    [[nodiscard]] virtual PartRef prepare(const SteeringRequest& request, size_t rules) = 0;
    /// Waits until the device has all rules as requested; requests of other engines are complete
    /// when the device answers. 0 or an errno.
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
