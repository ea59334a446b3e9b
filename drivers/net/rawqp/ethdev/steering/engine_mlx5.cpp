// SPDX-License-Identifier: BSD-3-Clause
// Rules in the device's own terms, through mlx5dv: a matcher for each mask and level, which all
// rules with that mask share, and flows with their values.
#include "drivers/net/rawqp/ethdev/steering/engine.hpp"
#include "drivers/net/rawqp/ethdev/steering/group_table.hpp"
#include "drivers/net/rawqp/ethdev/steering/metering.hpp"
#include "drivers/net/rawqp/ethdev/steering/mlx5_words.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss_tirs.hpp"
#include "drivers/net/rawqp/ethdev/steering/sampling.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rawqp {
namespace {

struct MatcherKey {
    bool egress;
    uint16_t level;
    uint8_t criteria;
    std::array<uint8_t, Mlx5Match::kBytes> mask;
    auto operator<=>(const MatcherKey&) const = default;
};

/// What happens to a flow's packets: at most a destination, a tag, a counter, rewriting and
/// reformatting.
class FlowActionList {
  public:
    mlx5dv_flow_action_attr& add(mlx5dv_flow_action_type type) {
        actions_[count_].type = type;
        return actions_[count_++];
    }
    [[nodiscard]] size_t size() const { return count_; }
    [[nodiscard]] mlx5dv_flow_action_attr* data() { return actions_.data(); }

  private:
    std::array<mlx5dv_flow_action_attr, 5> actions_{};
    size_t count_ = 0;
};

/// Group 0 has a table for what the kernel's flows cannot express, and one for each level at which
/// a rule's classes are told apart.
struct GroupKey {
    bool egress;
    GroupStage at;
    std::optional<uint16_t> level{}; ///< of classes
    auto operator<=>(const GroupKey&) const = default;
};

// Levels of tables in the device: those of group 0 are the kernel's, which has fewer than 40,
// except for what the kernel's flows cannot express.
constexpr uint8_t kFirstLevel = 40;
static_assert(kLastLevel - kFirstLevel == 23, "see Mlx5Engine::lack() and the guide");

static_assert(kFirstLevel + kLastStage < kLastLevel, "samples and meters lead behind all of them");

/// A jump leads to a higher group, but perhaps not to a higher level than that of a later stage.
uint8_t level_of(const GroupStage& at) {
    const uint64_t level = uint64_t{kFirstLevel} + at.group + at.stage;
    return static_cast<uint8_t>(std::min<uint64_t>(level, kLastLevel));
}

class Mlx5Engine final : public Engine {
  public:
    Mlx5Engine(const verbs::Api& api, ibv_context* context, Devx& devx, const RxQueueSet& queues,
               const GroupWay& way)
        : api_(api), context_(context), devx_(devx), way_(way), tirs_(devx, queues) {}

    [[nodiscard]] const char* name() const override { return "mlx5"; }
    [[nodiscard]] bool in_charge(const SteeringRequest& request) const override {
        return way_ == GroupWay::commands || !request.of_groups();
    }
    [[nodiscard]] std::optional<Lack> lack(const SteeringRequest& request) const override;
    [[nodiscard]] bool has_lro() const override { return true; }
    void use_lro(const std::optional<LroTerms>& terms) override { tirs_.use_lro(terms); }
    [[nodiscard]] bool create(const SteeringRequest& request, ibv_qp* qp,
                              DeviceRule& rule) override;

  private:
    [[nodiscard]] verbs::Handle<mlx5dv_flow_matcher> make_matcher(const MatcherKey& key) const;
    [[nodiscard]] verbs::Handle<ibv_flow_action> make_action(const EditKey& key) const;
    [[nodiscard]] DevxObject make_entry_action(const EditKey& key);
    bool acquire_edits(const SteeringRequest& request, DeviceRule& rule, FlowActionList& actions);
    bool acquire_edits(const SteeringRequest& request, DeviceRule& rule, EntryActions& actions);
    GroupTable* acquire_table(const GroupKey& key, PartRef& use);
    bool choose_way(const SteeringRequest& request, ibv_qp* qp, DeviceRule& rule,
                    FlowActionList& actions);
    bool choose_way(const SteeringRequest& request, DeviceRule& rule, EntryActions& actions);
    bool count(const CounterRef& counter, EntryActions& actions);
    bool sample(const SteeringRequest& request, DeviceRule& rule, EntryActions& actions);
    bool meter(const SteeringRequest& request, DeviceRule& rule, EntryActions& actions);
    bool fill_flow(const SteeringRequest& request, ibv_qp* qp, DeviceRule& rule,
                   FlowActionList& actions);
    bool create_flow(const SteeringRequest& request, ibv_qp* qp, DeviceRule& rule);
    const GroupTable* create_entry(const SteeringRequest& request, DeviceRule& rule);

    const verbs::Api& api_;
    ibv_context* context_;
    Devx& devx_;
    const GroupWay& way_;
    MatchMaker match_;
    SharedObjects<MatcherKey, verbs::Handle<mlx5dv_flow_matcher>> matchers_;
    SharedObjects<EditKey, verbs::Handle<ibv_flow_action>> actions_;
    SharedObjects<EditKey, DevxObject> entry_actions_;
    SharedObjects<GroupKey, std::unique_ptr<GroupTable>> tables_;
    RssTirs tirs_;
};

mlx5dv_flow_table_type table_of(bool egress) {
    return egress ? MLX5DV_FLOW_TABLE_TYPE_NIC_TX : MLX5DV_FLOW_TABLE_TYPE_NIC_RX;
}

verbs::Handle<mlx5dv_flow_matcher> Mlx5Engine::make_matcher(const MatcherKey& key) const {
    Parameters mask(key.mask);
    mlx5dv_flow_matcher_attr attr{};
    attr.type = IBV_FLOW_ATTR_NORMAL;
    attr.priority = key.level;
    attr.match_criteria_enable = key.criteria;
    attr.match_mask = mask.get();
    if (key.egress) attr.comp_mask = MLX5DV_FLOW_MATCHER_MASK_FT_TYPE;
    attr.ft_type = table_of(key.egress);
    return {api_.mlx5_create_flow_matcher(context_, &attr),
            {api_.mlx5_destroy_flow_matcher, "flow matcher"}};
}

verbs::Handle<ibv_flow_action> Mlx5Engine::make_action(const EditKey& key) const {
    std::vector<uint8_t> bytes = key.bytes();
    const mlx5dv_flow_table_type table = table_of(key.egress);
    ibv_flow_action* const made =
        key.rewrites
            ? api_.mlx5_create_modify_header(context_, bytes.size(),
                                             reinterpret_cast<uint64_t*>(bytes.data()), table)
            : api_.mlx5_create_packet_reformat(context_, bytes.size(),
                                               bytes.empty() ? nullptr : bytes.data(),
                                               name_of(key.edits->reformat).of_flow, table);
    return {made, {ibv_destroy_flow_action, "flow action"}};
}

/// The same for entries of tables, through commands: the kernel does not reveal the numbers of flow
/// actions.
DevxObject Mlx5Engine::make_entry_action(const EditKey& key) {
    const std::vector<uint8_t> bytes = key.bytes();
    const auto size = static_cast<uint32_t>(bytes.size());
    std::vector<uint8_t> command;
    const auto start = [&](const auto& head, size_t data_at) {
        command.resize(std::max(sizeof head, data_at) + size);
        std::memcpy(command.data(), &head, sizeof head);
        std::ranges::copy(bytes, command.begin() + static_cast<ptrdiff_t>(data_at));
    };
    if (key.rewrites) {
        prm::AllocModifyHeaderIn in{};
        in.head.opcode = static_cast<uint16_t>(prm::Opcode::alloc_modify_header_context);
        in.type_and_count = (key.egress ? 1u : 0u) << 24 | size / sizeof(uint64_t);
        start(in, sizeof in);
        return devx_.make_raw(command, "header modification");
    }
    prm::AllocPacketReformatIn in{};
    in.head.opcode = static_cast<uint16_t>(prm::Opcode::alloc_packet_reformat_context);
    in.type_and_size = name_of(key.edits->reformat).of_entry << 24 | size;
    start(in, prm::kReformatDataAt);
    return devx_.make_raw(command, "packet reformat");
}

/// False with errno.
bool Mlx5Engine::acquire_edits(const SteeringRequest& request, DeviceRule& rule,
                               FlowActionList& actions) {
    const auto add = [&](const EditKey& key, PartRef& use) {
        const auto* const action =
            actions_.acquire(use, key, [this](const EditKey& of) { return make_action(of); });
        if (action == nullptr) return false;
        actions.add(MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION).action = action->get();
        return true;
    };
    if (rewrites(request) && !add(rewriting_of(request), rule.parts.add())) return false;
    return !reformats(request) || add(reformatting_of(request), rule.parts.add());
}

bool Mlx5Engine::acquire_edits(const SteeringRequest& request, DeviceRule& rule,
                               EntryActions& actions) {
    const auto add = [&](const EditKey& key, PartRef& use, std::optional<uint32_t>& number) {
        const DevxObject* const action = entry_actions_.acquire(
            use, key, [this](const EditKey& of) { return make_entry_action(of); });
        if (action != nullptr) number = action->number;
        return action != nullptr;
    };
    if (request.edits) {
        actions.pop_vlan = request.edits->pop_vlan;
        actions.push_vlan = request.edits->push_vlan;
        actions.decap = request.edits->reformat == Reformat::strip_tunnel;
    }
    if (rewrites(request) && !add(rewriting_of(request), rule.parts.add(), actions.rewriting))
        return false;
    return !reformats(request) || actions.decap ||
           add(reformatting_of(request), rule.parts.add(), actions.reformatting);
}

/// Null with errno.
GroupTable* Mlx5Engine::acquire_table(const GroupKey& key, PartRef& use) {
    const auto* const table = tables_.acquire(use, key, [this](const GroupKey& of) {
        constexpr uint8_t kLarge = 20, kSmall = 16; // devices have few large ones
        auto made = GroupTable::make(devx_, of.egress, level_of(of.at), kLarge);
        return made ? std::move(made) : GroupTable::make(devx_, of.egress, level_of(of.at), kSmall);
    });
    return table != nullptr ? table->get() : nullptr;
}

/// What the kernel's flows cannot express: VLAN tags, samplers, meters and classes at one level.
bool needs_entry(const SteeringRequest& request) {
    return request.sample || request.meter || request.class_depth ||
           (request.edits && request.edits->changes_tags());
}

GroupKey table_of(const SteeringRequest& request) {
    return {request.egress,
            {request.group, request.stage},
            request.class_depth ? std::optional(request.level) : std::nullopt};
}

/// What of the request needs tables by DevX, for a process that has none; nothing: it needs none.
std::optional<Lack> lack_of_tables(const SteeringRequest& request) {
    if (request.sample)
        return Lack::of(Concern::sample, "action sample needs flow tables by DevX, which the "
                                         "kernel does not give to this process");
    if (request.meter)
        return Lack::of(Concern::meter, "action meter needs flow tables by DevX, which the kernel "
                                        "does not give to this process");
    if (request.class_depth)
        return Lack::of(Concern::none, "traffic classes are told apart at one level by flow tables "
                                       "by DevX, which the kernel does not give to this process");
    if (needs_entry(request))
        return Lack::of(Concern::tags, "VLAN tags come off and go on in flow tables by DevX, which "
                                       "the kernel does not give to this process");
    if (request.group != 0 || request.jump)
        return Lack::of(request.group != 0 ? Concern::group : Concern::jump,
                        "groups above 0 and action jump need flow tables by DevX, which the kernel "
                        "does not give to this process: use group 0");
    return std::nullopt;
}

/// Packets go on to the kernel from its own tables alone, as they came.
std::optional<Lack> lack_of_kernel(const SteeringRequest& request) {
    if (!request.to_kernel) return std::nullopt;
    if (request.group != 0)
        return Lack::of(Concern::kernel, "action send_to_kernel: nothing leads from the tables of "
                                         "groups above 0 to the kernel: use it in group 0");
    if (needs_entry(request))
        return Lack::of(Concern::kernel,
                        "action send_to_kernel: packets go to the kernel from no table of meters "
                        "or samplers: leave action meter or sample out");
    return std::nullopt;
}

std::optional<Lack> Mlx5Engine::lack(const SteeringRequest& request) const {
    if (request.type != IBV_FLOW_ATTR_NORMAL)
        return Lack{nullptr, "mlx5dv flows have no default rules"};
    if (auto lack = lack_of_kernel(request)) return lack;
    if (auto lack = lack_of_tables(request); lack && !devx_.available()) return lack;
    if (request.sample && level_of({request.group}) == kLastLevel)
        return Lack::of(Concern::sample,
                        "action sample: its copies go to a table behind those of all groups, and "
                        "there is none behind group 23: use a lower one");
    if (request.meter && level_of({request.group}) == kLastLevel)
        return Lack::of(Concern::meter,
                        "action meter: its colors are told apart by a table behind those of all "
                        "groups, and there is none behind group 23: use a lower one");
    if (request.jump && level_of({*request.jump}) <= level_of({request.group}))
        return Lack::of(Concern::jump, "action jump: a jump leads to a higher group, and the "
                                       "device tells groups up to 23 apart");
    if (request.counter && !devx_.available())
        return Lack::of(Concern::count, "action count: mlx5dv flows have counters by DevX only, "
                                        "which the kernel does not give to this process");
    return lack_of_match(request);
}

/// Chooses where a flow's packets go. False with errno.
bool Mlx5Engine::choose_way(const SteeringRequest& request, ibv_qp* qp, DeviceRule& rule,
                            FlowActionList& actions) {
    if (request.drop) {
        actions.add(MLX5DV_FLOW_ACTION_DROP);
    } else if (request.to_kernel) {
        actions.add(MLX5DV_FLOW_ACTION_DEFAULT_MISS);
    } else if (request.jump) {
        const GroupTable* const table =
            acquire_table({request.egress, {*request.jump}}, rule.parts.add());
        if (table == nullptr) return false;
        actions.add(MLX5DV_FLOW_ACTION_DEST_DEVX).obj = table->object().handle.get();
    } else if (qp != nullptr) {
        actions.add(MLX5DV_FLOW_ACTION_DEST_IBV_QP).qp = qp;
    } else if (!request.egress) {
        const RssTir* const made = tirs_.acquire(rule.parts.add(), request.target->destination);
        if (made == nullptr) return false;
        actions.add(MLX5DV_FLOW_ACTION_DEST_DEVX).obj = made->tir.handle.get();
    }
    return true;
}

bool Mlx5Engine::choose_way(const SteeringRequest& request, DeviceRule& rule,
                            EntryActions& actions) {
    actions.drop = request.drop;
    if (const auto next = request.next()) {
        const GroupTable* const table = acquire_table({request.egress, *next}, rule.parts.add());
        if (table != nullptr) actions.table = table->object().number;
        actions.any_level = level_of(*next) <= level_of({request.group, request.stage});
        return table != nullptr;
    }
    if (request.drop || request.egress) return true;
    const RssTir* const made = tirs_.acquire(rule.parts.add(), request.target->destination);
    if (made != nullptr) actions.tir = made->tir.number;
    return made != nullptr;
}

/// Fills in what a kernel flow does. False with errno.
bool Mlx5Engine::fill_flow(const SteeringRequest& request, ibv_qp* qp, DeviceRule& rule,
                           FlowActionList& actions) {
    // Such a flow leads to a table, where an entry with the same match does everything. Its place
    // in the table corresponds to that of the flow among flows, so that a packet meets there the
    // entry of the flow that it has met.
    if (needs_entry(request)) {
        const GroupTable* const table = create_entry(request, rule);
        if (table == nullptr) return false;
        actions.add(MLX5DV_FLOW_ACTION_DEST_DEVX).obj = table->object().handle.get();
        return true;
    }
    if (!choose_way(request, qp, rule, actions)) return false;
    if (request.tag != 0) actions.add(MLX5DV_FLOW_ACTION_TAG).tag_value = request.tag;
    if (request.counter) {
        const DevxObject* const counter = request.counter->devx();
        if (counter == nullptr) return false;
        actions.add(MLX5DV_FLOW_ACTION_COUNTERS_DEVX).obj = counter->handle.get();
    }
    return acquire_edits(request, rule, actions);
}

/// Creates a flow in the kernel's tables, which are group 0. False with errno.
bool Mlx5Engine::create_flow(const SteeringRequest& request, ibv_qp* qp, DeviceRule& rule) {
    const Mlx5Match match = match_.of(request.pattern);
    if (request.strict_level && sorted_as_multicast(match)) { // due to values that a template lacks
        errno = EOPNOTSUPP;
        return false;
    }
    const auto* const matcher = matchers_.acquire(
        rule.parts.add(), {request.egress, request.level, match.criteria, match.mask},
        [this](const MatcherKey& key) { return make_matcher(key); });
    FlowActionList actions;
    if (matcher == nullptr || !fill_flow(request, qp, rule, actions)) return false;
    Parameters value(match.value);
    rule.flow.reset(
        api_.mlx5_create_flow(matcher->get(), value.get(), actions.size(), actions.data()));
    return rule.flow != nullptr;
}

/// False with errno.
bool Mlx5Engine::count(const CounterRef& counter, EntryActions& actions) {
    if (!counter) return true;
    const DevxObject* const object = counter->devx();
    if (object != nullptr) actions.counter = object->number;
    return object != nullptr;
}

/// The entry leads to a sampler, and what it would otherwise do is done behind that, as packets are
/// to be copied as they arrived. False with errno.
bool Mlx5Engine::sample(const SteeringRequest& request, DeviceRule& rule, EntryActions& actions) {
    const Sample& wanted = *request.sample;
    const RssTir* const tir = tirs_.acquire(rule.parts.add(), wanted.target->destination);
    EntryActions copies;
    if (tir == nullptr || !count(wanted.counter, copies)) return false;
    copies.tir = tir->tir.number;
    copies.tag = wanted.tag;
    auto made = Sampling::make(devx_, wanted.ratio, copies, actions);
    if (!made) return false;
    actions = {};
    actions.sampler = made->number();
    rule.parts.add() = PartRef(made.release());
    return true;
}

/// The entry runs the meter, and what it would otherwise do is done behind that, by color. False
/// with errno.
bool Mlx5Engine::meter(const SteeringRequest& request, DeviceRule& rule, EntryActions& actions) {
    if (request.counts_passed && !count(request.counter, actions)) return false;
    auto made = Metering::make(devx_, request.egress, *request.meter, actions);
    if (!made) return false;
    actions = {};
    actions.meter = request.meter.get();
    actions.table = made->number();
    rule.parts.add() = PartRef(made.release());
    return true;
}

/// Creates an entry in a group's table. Null with errno.
const GroupTable* Mlx5Engine::create_entry(const SteeringRequest& request, DeviceRule& rule) {
    GroupTable* const table = acquire_table(table_of(request), rule.parts.add());
    EntryActions actions;
    if (table == nullptr || !choose_way(request, rule, actions)) return nullptr;
    actions.tag = request.tag;
    if (!acquire_edits(request, rule, actions)) return nullptr;
    if (request.sample && !sample(request, rule, actions)) return nullptr;
    if (request.meter && !meter(request, rule, actions)) return nullptr;
    if (!count(request.counts_passed ? request.matched : request.counter, actions)) return nullptr;
    const uint32_t place = request.class_depth.value_or(request.level);
    PartRef entry = table->add(place, match_.of(request.pattern), actions);
    if (entry == nullptr) return nullptr;
    rule.parts.add() = std::move(entry);
    return table;
}

bool Mlx5Engine::create(const SteeringRequest& request, ibv_qp* qp, DeviceRule& rule) {
    const bool flow = request.group == 0 && (!request.class_depth || request.leads);
    return flow ? create_flow(request, qp, rule) : create_entry(request, rule) != nullptr;
}

} // namespace

std::unique_ptr<Engine> make_mlx5_engine(const verbs::Api& api, ibv_context* context, Devx& devx,
                                         const RxQueueSet& queues, const GroupWay& way) {
    if (api.mlx5_create_flow_matcher == nullptr || !api.mlx5_is_supported(context->device))
        return nullptr;
    return std::make_unique<Mlx5Engine>(api, context, devx, queues, way);
}

} // namespace rawqp
