// SPDX-License-Identifier: BSD-3-Clause
// One entry in kActions for each action type; a handler checks the action's configuration and
// collects it.
#include "drivers/net/rawqp/ethdev/flow/actions.hpp"

#include "drivers/net/rawqp/ethdev/flow/edits.hpp"
#include "drivers/net/rawqp/ethdev/meter/meters.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"

#include <algorithm>
#include <bit>

namespace rawqp {

namespace {

struct ActionContext {
    const ActionScope& scope;
    FlowActions collected{};
    EditReader edits{scope.patterns, scope.egress};
    /// The fate action: queue, rss, drop, jump, passthru or send_to_kernel.
    const char* fate = nullptr;
    const char* tag = nullptr; ///< the action that set the tag
};

using ActionHandler = FlowResult<void> (*)(ActionContext& context, const rte_flow_action& action);

struct ActionKind {
    rte_flow_action_type type;
    bool needs_conf;
    ActionHandler handle;
    Concern concern = Concern::none; ///< see NamedActions
};

FlowResult<void> set_fate(ActionContext& context, const rte_flow_action& action, const char* name) {
    if (context.fate != nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                      "action {}: the rule has {} already; packets have one destination", name,
                      context.fate);
    context.fate = name;
    return {};
}

/// Refuses, for egress, what only a received packet can have.
FlowResult<void> check_ingress(const ActionContext& context, const rte_flow_action& action,
                               const char* name) {
    if (!context.scope.egress) return {};
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                  "action {} is for received packets: what an egress rule does not drop goes out",
                  name);
}

FlowResult<void> handle_queue(ActionContext& context, const rte_flow_action& action) {
    if (auto ok = check_ingress(context, action, "queue"); !ok) return ok;
    const auto& conf = *static_cast<const rte_flow_action_queue*>(action.conf);
    if (auto ok = check_queue(action, "queue", conf.index, context.scope.rx_queues); !ok) return ok;
    context.collected.queue = conf.index;
    return set_fate(context, action, "queue");
}

FlowResult<void> handle_drop(ActionContext& context, const rte_flow_action& action) {
    context.collected.drop = true;
    return set_fate(context, action, "drop");
}

FlowResult<void> handle_jump(ActionContext& context, const rte_flow_action& action) {
    if (auto ok = check_jump(action, context.scope.group); !ok) return ok;
    context.collected.jump = static_cast<const rte_flow_action_jump*>(action.conf)->group;
    return set_fate(context, action, "jump");
}

FlowResult<void> handle_passthru(ActionContext& context, const rte_flow_action& action) {
    if (context.scope.group == 0)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                      "action passthru: in group 0 the kernel tries no other rule after the first "
                      "one that matches: put the rule, and those of lower priority, into a group "
                      "of 1 … {}, and jump there",
                      kLastStage);
    if (context.scope.group > kLastStage)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                      "action passthru: the rules of lower priority are in a table at a later "
                      "level of the device, and there is none behind group {}: use a lower group",
                      kLastStage);
    context.collected.passes = true;
    return set_fate(context, action, "passthru");
}

FlowResult<void> handle_to_kernel(ActionContext& context, const rte_flow_action& action) {
    if (auto ok = check_ingress(context, action, "send_to_kernel"); !ok) return ok;
    context.collected.to_kernel = true;
    return set_fate(context, action, "send_to_kernel");
}

Result<RssHash> hash_of(const rte_flow_action_rss& conf) {
    const std::span given(conf.key, conf.key != nullptr ? conf.key_len : 0);
    return hash_for(conf.func, conf.types, given, {});
}

FlowResult<void> check_level(const ActionContext& context, const rte_flow_action& action) {
    const auto& conf = *static_cast<const rte_flow_action_rss*>(action.conf);
    const bool tunnelled =
        std::ranges::any_of(context.scope.patterns.front().layers(),
                            [](const Layer& layer) { return traits_of(layer.protocol).tunnel; });
    if (conf.level == 2 && !tunnelled)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                      "action rss: level 2 hashes what a tunnel carries, and the pattern has none: "
                      "add its item");
    return {};
}

} // namespace

tl::unexpected<FlowError> refuse_shared_count(const rte_flow_action* age) {
    return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, age,
                  "action age: a rule has one counter, and an indirect count has packets of other "
                  "rules in it: use a count of the rule alone, or leave out one of them");
}

FlowResult<void> check_queue(const rte_flow_action& action, const char* name, uint16_t queue,
                             uint16_t rx_queues) {
    if (queue < rx_queues) return {};
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                  "action {}: no Rx queue {}: the port is configured with {}", name, queue,
                  rx_queues);
}

FlowResult<void> check_jump(const rte_flow_action& action, uint32_t from) {
    const uint32_t to = static_cast<const rte_flow_action_jump*>(action.conf)->group;
    if (to > from) return {};
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                  "action jump: from group {} to {}: a jump leads to a higher group", from, to);
}

FlowResult<SharedActionRef> find_shared(const rte_flow_action& action, const SharedActions& shared,
                                        bool egress) {
    SharedActionRef found = shared.find(static_cast<const rte_flow_action_handle*>(action.conf));
    if (!found)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                      "action indirect: no such action on this port: it was destroyed already or "
                      "is another port's");
    const rte_flow_indir_action_conf& of = found->directions;
    if (egress ? of.egress == 0 : of.ingress == 0)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                      "action indirect: this {} was made for {} rules", found->name,
                      egress ? "ingress" : "egress");
    return found;
}

FlowResult<void> check_age(const rte_flow_action& action) {
    if (static_cast<const rte_flow_action_age*>(action.conf)->timeout != 0) return {};
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                  "action age: timeout 0: the shortest is a second");
}

FlowResult<uint32_t> tag_of_mark(const rte_flow_action& action) {
    const uint32_t id = static_cast<const rte_flow_action_mark*>(action.conf)->id;
    if (id <= kMarkMax) return tag_of_mark(id);
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                  "action mark: id {:#x} does not fit: the largest is {:#x}", id, kMarkMax);
}

FlowResult<void> check_rss(const rte_flow_action& action, uint16_t rx_queues,
                           size_t table_entries) {
    constexpr auto kConf = RTE_FLOW_ERROR_TYPE_ACTION_CONF;
    const auto& conf = *static_cast<const rte_flow_action_rss*>(action.conf);
    if (conf.level > 2)
        return refuse(ENOTSUP, kConf, &action,
                      "action rss: level {}: the device looks into one tunnel (level 2)",
                      conf.level);
    if (const uint64_t unknown = conf.types & ~supported_rss_types())
        return refuse(ENOTSUP, kConf, &action,
                      "action rss: types {} are not supported: ipv4, ipv6, tcp and udp types are, "
                      "with l3/l4 src/dst only",
                      rss_type_names(unknown));
    if (const auto hash = hash_of(conf); !hash)
        return refuse(hash.error().code, kConf, &action, "action rss: {}", hash.error().what);
    if (conf.queue_num == 0 || conf.queue == nullptr)
        return refuse(EINVAL, kConf, &action, "action rss: no queues given");
    if (conf.queue_num > table_entries)
        return refuse(ENOTSUP, kConf, &action, "action rss: {} queues: the device takes at most {}",
                      conf.queue_num, table_entries);
    for (uint32_t i = 0; i < conf.queue_num; ++i)
        if (auto ok = check_queue(action, "rss", conf.queue[i], rx_queues); !ok) return ok;
    return {};
}

/// If the number of queues is not a power of two, the table has at least 16 entries per queue,
/// where the device allows it, so that no queue gets over a sixteenth more than another.
void read_rss(const rte_flow_action_rss& conf, size_t table_entries, RssSpread& spread) {
    const size_t count = conf.queue_num;
    spread.table.resize(
        std::has_single_bit(count) ? count : std::min(table_entries, std::bit_ceil(16 * count)));
    for (size_t i = 0; i < spread.table.size(); ++i)
        spread.table[i] = conf.queue[i % count];
    spread.key = hash_of(conf)->key; // check_rss() has checked it
    spread.rss_types = conf.types != 0 ? conf.types : RTE_ETH_RSS_IP;
    spread.rss_depth = conf.level == 2 ? 1 : 0;
}

RssDestination RssSpread::destination(uint64_t hash_fields, RssDestination memory) const {
    if (hash_fields != 0 && rss_depth != 0) hash_fields |= IBV_RX_HASH_INNER;
    return destination_of(table, key, hash_fields, std::move(memory));
}

namespace {

FlowResult<void> handle_rss(ActionContext& context, const rte_flow_action& action) {
    if (auto ok = check_ingress(context, action, "rss"); !ok) return ok;
    const auto& conf = *static_cast<const rte_flow_action_rss*>(action.conf);
    if (auto ok = check_rss(action, context.scope.rx_queues, context.scope.table_entries); !ok)
        return ok;
    if (auto ok = check_level(context, action); !ok) return ok;
    read_rss(conf, context.scope.table_entries, context.collected);
    return set_fate(context, action, "rss");
}

FlowResult<void> set_tag(ActionContext& context, const rte_flow_action& action, const char* name,
                         uint32_t tag) {
    if (auto ok = check_ingress(context, action, name); !ok) return ok;
    if (context.tag != nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                      "action {}: the rule has {} already; a packet carries one mark", name,
                      context.tag);
    context.tag = name;
    context.collected.tag = tag;
    return {};
}

FlowResult<void> handle_mark(ActionContext& context, const rte_flow_action& action) {
    const auto tag = tag_of_mark(action);
    if (!tag) return tl::unexpected(tag.error());
    return set_tag(context, action, "mark", *tag);
}

/// A modify_field of the mark does what action mark does.
FlowResult<void> modify_mark(ActionContext& context, const rte_flow_action& action,
                             const rte_flow_action_mark& mark) {
    auto done = handle_mark(context, {RTE_FLOW_ACTION_TYPE_MARK, &mark});
    if (!done) done.error().cause = &action;
    return done;
}

FlowResult<void> handle_flag(ActionContext& context, const rte_flow_action& action) {
    return set_tag(context, action, "flag", kFlowTagFlag);
}

FlowResult<void> handle_count(ActionContext& context, const rte_flow_action& action) {
    if (context.collected.count != nullptr)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                      "action count: the rule has one already; a rule counts into one counter");
    context.collected.count = &action;
    context.collected.counts_passed = context.collected.meter != nullptr;
    return {};
}

FlowResult<void> handle_age(ActionContext& context, const rte_flow_action& action) {
    if (context.collected.age != nullptr)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                      "action age: the rule has one already");
    if (auto ok = check_age(action); !ok) return ok;
    context.collected.age = &action;
    return {};
}

FlowResult<void> handle_meter(ActionContext& context, const rte_flow_action& action) {
    const uint32_t id = static_cast<const rte_flow_action_meter*>(action.conf)->mtr_id;
    if (context.collected.meter)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                      "action meter: the rule has one already: jump to a group with the next one");
    const Meters* const meters = context.scope.meters;
    context.collected.meter = meters != nullptr ? meters->find(id) : nullptr;
    if (context.collected.meter) return {};
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                  "action meter: there is no meter {} on this port: make it by rte_mtr_create", id);
}

FlowResult<void> handle_void(ActionContext&, const rte_flow_action&) { return {}; }

FlowResult<void> handle(ActionContext& context, const rte_flow_action& action);

/// An indirect action is read as the action that it stands for; refusals name the application's
/// own.
FlowResult<void> handle_indirect(ActionContext& context, const rte_flow_action& action) {
    const auto found = find_shared(action, context.scope.shared, context.scope.egress);
    if (!found) return tl::unexpected(found.error());
    const SharedActionRef& shared = *found;
    if (auto ok = handle(context, shared->action); !ok) {
        ok.error().cause = &action;
        return ok;
    }
    FlowActions& collected = context.collected;
    collected.named.replace(shared->action, action);
    if (shared->rss) collected.shared_rss = shared;
    if (shared->counter) {
        collected.count = &action;
        collected.shared_counter = shared->counter;
    }
    if (shared->age) {
        collected.age = &action;
        collected.shared_age = shared->age;
    }
    return {};
}

/// Which actions copies may have, and why no others.
constexpr rte_flow_action_type kOfCopies[] = {
    RTE_FLOW_ACTION_TYPE_VOID, RTE_FLOW_ACTION_TYPE_QUEUE, RTE_FLOW_ACTION_TYPE_MARK,
    RTE_FLOW_ACTION_TYPE_FLAG, RTE_FLOW_ACTION_TYPE_COUNT, RTE_FLOW_ACTION_TYPE_INDIRECT};
const char* why_not_of_copies(rte_flow_action_type type) {
    switch (type) {
    case RTE_FLOW_ACTION_TYPE_DROP: return "dropping copies is making none";
    case RTE_FLOW_ACTION_TYPE_PORT_ID:
    case RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT:
    case RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR: return "the port has no embedded switch";
    default: return "they go to one queue, with mark or flag, and count";
    }
}

tl::unexpected<FlowError> refuse_of_copies(const rte_flow_action& sample,
                                           const rte_flow_action& action) {
    return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &sample,
                  "action sample: action {} is not for copies: {}", action_name(action.type),
                  why_not_of_copies(action.type));
}

/// Reads the actions of the copies; refusals name action sample.
FlowResult<void> read_copies(ActionContext& copies, const rte_flow_action& sample) {
    const auto& conf = *static_cast<const rte_flow_action_sample*>(sample.conf);
    for (const rte_flow_action* each = conf.actions; each->type != RTE_FLOW_ACTION_TYPE_END;
         ++each) {
        if (std::ranges::find(kOfCopies, each->type) == std::end(kOfCopies))
            return refuse_of_copies(sample, *each);
        if (auto ok = handle(copies, *each); !ok) {
            ok.error().cause = &sample;
            return ok;
        }
        // An indirect action may have been anything.
        if (copies.collected.age != nullptr || copies.collected.shared_rss)
            return refuse_of_copies(sample, *each);
    }
    return {};
}

FlowResult<void> handle_sample(ActionContext& context, const rte_flow_action& action) {
    if (auto ok = check_ingress(context, action, "sample"); !ok) return ok;
    const auto& conf = *static_cast<const rte_flow_action_sample*>(action.conf);
    if (context.collected.sample)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                      "action sample: the rule has one already");
    if (conf.ratio == 0 || conf.actions == nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                      "action sample: it needs a ratio of at least 1 and a list of actions");
    if (context.edits.changes_packets())
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                      "action sample: its copies are of packets as they came, and an action before "
                      "it changes these: put sample first, or into a group that this rule jumps "
                      "to");
    ActionContext copies{.scope = context.scope};
    if (auto ok = read_copies(copies, action); !ok) return ok;
    if (copies.fate == nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                      "action sample: its copies have no destination: add action queue");
    const FlowActions& taken = copies.collected;
    context.collected.sample = {&action,   conf.ratio,  taken.queue,
                                taken.tag, taken.count, taken.shared_counter};
    return {};
}

/// Refuses what a sampler leaves no place for.
FlowResult<void> check_sample(const FlowActions& rule) {
    const SampleActions& sample = *rule.sample;
    if (rule.meter)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, sample.action,
                      "action sample beside meter: a rule leads to one table: jump to a group in "
                      "which another rule takes the copies");
    if ((rule.jump || rule.passes) && (rule.tag != 0 || !rule.edits.empty()))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, sample.action,
                      "action sample beside {}: copies are of packets as they came, so that mark "
                      "and changes are for a rule {}",
                      rule.jump ? "jump" : "passthru",
                      rule.jump ? "of the group that the others jump to"
                                : "of a lower priority, which passes packets on as well");
    if (sample.count != nullptr && !sample.shared_counter && (rule.count || rule.age))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, sample.action,
                      "action sample: the rule has one counter to be asked for, and it is that of "
                      "its own count or age: use an indirect count for the copies");
    return {};
}

constexpr ActionKind kActions[] = {
    {RTE_FLOW_ACTION_TYPE_VOID, false, handle_void},
    {RTE_FLOW_ACTION_TYPE_QUEUE, true, handle_queue},
    {RTE_FLOW_ACTION_TYPE_RSS, true, handle_rss},
    {RTE_FLOW_ACTION_TYPE_DROP, false, handle_drop},
    {RTE_FLOW_ACTION_TYPE_JUMP, true, handle_jump, Concern::jump},
    {RTE_FLOW_ACTION_TYPE_PASSTHRU, false, handle_passthru, Concern::jump},
    {RTE_FLOW_ACTION_TYPE_MARK, true, handle_mark, Concern::mark},
    {RTE_FLOW_ACTION_TYPE_FLAG, false, handle_flag, Concern::mark},
    {RTE_FLOW_ACTION_TYPE_SEND_TO_KERNEL, false, handle_to_kernel, Concern::kernel},
    {RTE_FLOW_ACTION_TYPE_COUNT, false, handle_count, Concern::count},
    {RTE_FLOW_ACTION_TYPE_AGE, true, handle_age, Concern::count},
    {RTE_FLOW_ACTION_TYPE_SAMPLE, true, handle_sample, Concern::sample},
    {RTE_FLOW_ACTION_TYPE_METER, true, handle_meter, Concern::meter},
    {RTE_FLOW_ACTION_TYPE_INDIRECT, true, handle_indirect},
};

/// Actions without a row, and what would work instead.
struct Refusal {
    rte_flow_action_type type;
    const char* why;
};
constexpr const char* kNoSwitch = "there is no embedded switch that could pass packets to another "
                                  "port: use queue, and send them from the application";
constexpr Refusal kRefused[] = {
    {RTE_FLOW_ACTION_TYPE_CONNTRACK, "connections are not tracked: use queue or rss for the "
                                     "packets of item tcp, and track them in the application"},
    {RTE_FLOW_ACTION_TYPE_SECURITY, "there are no sessions of rte_security: use queue or rss for "
                                    "the packets of item esp, and decrypt in the application"},
    {RTE_FLOW_ACTION_TYPE_PORT_ID, kNoSwitch},
    {RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT, kNoSwitch},
    {RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR, kNoSwitch},
};

FlowResult<void> handle(ActionContext& context, const rte_flow_action& action) {
    for (const ActionKind& kind : kActions) {
        if (kind.type != action.type) continue;
        if (kind.needs_conf && action.conf == nullptr) return lacks_configuration(action);
        context.collected.named.add(kind.concern, action);
        return kind.handle(context, action);
    }
    const auto is_edit = context.edits.read(action);
    if (!is_edit) return tl::unexpected(is_edit.error());
    if (*is_edit) {
        const auto mark = context.edits.take_mark();
        NamedActions& named = context.collected.named;
        named.add(mark ? Concern::mark : Concern::edits, action);
        if (changes_tags(action)) named.add(Concern::tags, action);
        return mark ? modify_mark(context, action, *mark) : FlowResult<void>{};
    }
    for (const Refusal& refused : kRefused)
        if (refused.type == action.type)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                          "action {} is not supported: {}", action_name(action.type), refused.why);
    return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                  "action {} is not supported: use {}", action_name(action.type), action_names());
}

/// Refuses what nobody would see.
FlowResult<void> check_lost_changes(const ActionContext& context) {
    const FlowActions& rule = context.collected;
    const NamedActions& named = rule.named;
    if (rule.drop && context.tag != nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, named[Concern::mark],
                      "action {} has no effect on dropped packets", context.tag);
    if (rule.drop && !rule.edits.empty())
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, named[Concern::edits],
                      "changing packets that are dropped has no effect: leave one of them out");
    if (rule.to_kernel && context.tag != nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, named[Concern::mark],
                      "action {} has no effect on packets that go to the kernel", context.tag);
    if (rule.to_kernel && !rule.edits.empty())
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, named[Concern::edits],
                      "action send_to_kernel: packets go to the kernel as they came: leave out "
                      "what changes them");
    return {};
}

} // namespace

std::string action_names() {
    std::string names;
    for (const ActionKind& kind : kActions)
        if (kind.type != RTE_FLOW_ACTION_TYPE_VOID) names += action_name(kind.type) + ", ";
    return names + edit_action_names();
}

FlowResult<FlowActions> translate_actions(const rte_flow_action* actions,
                                          const ActionScope& scope) {
    if (actions == nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_NUM, nullptr, "no actions given");
    ActionContext context{.scope = scope};
    const rte_flow_action* action = actions;
    for (; action->type != RTE_FLOW_ACTION_TYPE_END; ++action) {
        if (auto ok = handle(context, *action); !ok) return tl::unexpected(ok.error());
    }
    const NamedActions& named = context.collected.named;
    auto edited = context.edits.finish();
    if (!edited) {
        if (edited.error().cause == nullptr) edited.error().cause = named[Concern::edits];
        return tl::unexpected(edited.error());
    }
    context.collected.edits = std::move(*edited);
    if (context.fate == nullptr && !scope.egress)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, action,
                      "the rule has no fate action: add action queue, rss, drop, jump, passthru or "
                      "send_to_kernel");
    if (const FlowActions& with = context.collected; with.age != nullptr && with.shared_counter)
        return refuse_shared_count(with.age);
    if (context.collected.sample)
        if (auto ok = check_sample(context.collected); !ok) return tl::unexpected(ok.error());
    if (auto ok = check_lost_changes(context); !ok) return tl::unexpected(ok.error());
    return std::move(context.collected);
}

} // namespace rawqp
