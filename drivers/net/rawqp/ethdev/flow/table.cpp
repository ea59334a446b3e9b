// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/table.hpp"

#include "drivers/net/rawqp/ethdev/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/flow/items.hpp"
#include "drivers/net/rawqp/ethdev/flow/pointer_set.hpp"
#include "drivers/net/rawqp/ethdev/flow/rule.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>

namespace rawqp {

namespace {

/// Hands a refusal to the caller. rte_flow_error keeps only a pointer to the text.
int report(const FlowError& refused, rte_flow_error* error) {
    thread_local std::string text;
    text = refused.what;
    RAWQP_LOG(DEBUG, "rte_flow: %s", text.c_str());
    return rte_flow_error_set(error, refused.code, refused.type, refused.cause, text.c_str());
}

tl::unexpected<FlowError> from_device(const Error& error) {
    return tl::unexpected(
        FlowError{error.code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr, error.what});
}

FlowResult<void> check_attributes(const rte_flow_attr* attr) {
    if (attr == nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ATTR, nullptr, "no attributes given");
    if (attr->group != 0)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_GROUP, attr,
                      "group {}: only group 0 exists", static_cast<uint32_t>(attr->group));
    if (attr->transfer)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_TRANSFER, attr,
                      "transfer rules are not supported: the port has no embedded switch");
    if (attr->ingress == attr->egress)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ATTR_INGRESS, attr,
                      "the rule has {}: set ingress or egress",
                      attr->ingress ? "two directions" : "no direction");
    if (attr->egress && attr->priority >= SteeringLevels::kMaxPriorities)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, attr,
                      "priority {}: the largest of an egress rule is {}",
                      static_cast<uint32_t>(attr->priority), SteeringLevels::kMaxPriorities - 1);
    return {};
}

/// Spreads addresses over all bits.
uint64_t hash_of_handle(const rte_flow* rule) {
    const uint64_t product = reinterpret_cast<uintptr_t>(rule) * 0x9e3779b97f4a7c15u;
    return product ^ product >> 32;
}

FlowResult<Counters> create_counters(ibv_context* context, const rte_flow_action* action) {
    ibv_counters_init_attr init{};
    Counters counters(ibv_create_counters(context, &init), {ibv_destroy_counters, "flow counters"});
    int error = counters ? 0 : errno;
    // Indices 0 and 1 of what ibv_read_counters fills.
    for (const auto what : {IBV_COUNTER_PACKETS, IBV_COUNTER_BYTES}) {
        ibv_counter_attach_attr attach{};
        attach.counter_desc = what;
        attach.index = what;
        if (error == 0) error = ibv_attach_counters_point_flow(counters.get(), &attach, nullptr);
    }
    if (error != 0)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action,
                      "action count: the device offers no flow counters: {}",
                      errno_text(error, Attempt::steer));
    return counters;
}

FlowError unknown(const rte_flow* flow) {
    return {EINVAL, RTE_FLOW_ERROR_TYPE_HANDLE, flow,
            "no such rule on this port: it was destroyed already or is another port's"};
}

void take_out(rte_flow& rule) {
    for (RulePart& part : rule.parts())
        part.installed = {};
}

/// Rules in order of creation; found by their handles and by what they match.
class RuleList {
  public:
    RuleList() = default;
    RuleList(const RuleList&) = delete;
    RuleList& operator=(const RuleList&) = delete;
    ~RuleList() { clear(); }

    void add(OwnedRule rule) {
        rte_flow* const added = rule.release();
        added->before = last_;
        (last_ != nullptr ? last_->after : first_) = added;
        last_ = added;
        handles_.insert(hash_of_handle(added), *added);
        for (RulePart& part : added->parts())
            keys_.insert(part.hash, part);
    }
    void erase(rte_flow& rule) {
        (rule.before != nullptr ? rule.before->after : first_) = rule.after;
        (rule.after != nullptr ? rule.after->before : last_) = rule.before;
        handles_.erase(hash_of_handle(&rule), rule);
        for (const RulePart& part : rule.parts())
            keys_.erase(part.hash, part);
        rte_flow::destroy(&rule);
    }
    void clear() {
        while (last_ != nullptr)
            erase(*last_);
    }
    /// A handle may be stale: it is compared and not followed.
    [[nodiscard]] rte_flow* find(const rte_flow* handle) const {
        return handles_.find(hash_of_handle(handle),
                             [&](const rte_flow& rule) { return &rule == handle; });
    }
    [[nodiscard]] bool has(std::string_view key) const {
        return keys_.find(hash_of(key), [&](const RulePart& part) { return part.key == key; }) !=
               nullptr;
    }
    [[nodiscard]] rte_flow* first() const { return first_; }
    [[nodiscard]] size_t size() const { return handles_.size(); }

  private:
    rte_flow *first_ = nullptr, *last_ = nullptr;
    PointerSet<rte_flow> handles_;
    PointerSet<RulePart> keys_;
};

} // namespace

struct FlowTable::Impl {
    Steering& steering;
    RxQueueSet& queues;
    bool running = false; ///< between start and stop: rules are in the device
    LevelMap levels{};    ///< of ingress rules
    RuleList rules{};

    FlowResult<Plan> translate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                               const rte_flow_action* actions);
    FlowResult<void> add_parts(Plan& plan, const Pattern& pattern, const FlowActions& wanted,
                               bool& hashed);
    FlowResult<void> check(const Plan& plan, const rte_flow_item* pattern);
    FlowResult<void> check_levels(const Plan& plan, const rte_flow_attr* attr) const;
    Result<void> place(rte_flow& rule);
    Result<void> place_again();
    Result<void> move(const RulePlace& place, uint16_t level);
    FlowResult<OwnedRule> make(const Plan& plan);
    FlowResult<void> validate(rte_flow& rule);
    [[nodiscard]] SteeringLevels known_levels() const;
    [[nodiscard]] RulePlace place_of(uint32_t priority, TrafficClass traffic) const {
        return {priority, known_levels().depth(traffic)};
    }
    Result<void> install(rte_flow& rule);
};

FlowTable::FlowTable(Steering& steering, RxQueueSet& queues) : impl_(new Impl{steering, queues}) {}

FlowTable::~FlowTable() = default;

FlowResult<void> FlowTable::Impl::add_parts(Plan& plan, const Pattern& pattern,
                                            const FlowActions& wanted, bool& hashed) {
    for (ClassRule& split : split_by_class(pattern, wanted.rss_types, wanted.rss_depth)) {
        hashed |= split.hash_fields != 0;
        if (wanted.rss_depth != 0 && split.hash_fields != 0) split.hash_fields |= IBV_RX_HASH_INNER;
        RssTargetRef target;
        if (!plan.egress)
            target =
                steering.qps().target(destination_of(wanted.table, wanted.key, split.hash_fields));
        if (rules.has(key_of(plan.priority, plan.egress, split.pattern)))
            return refuse(EEXIST, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                          "a rule of the same priority matches {} with the same values already: "
                          "destroy it first or use another priority",
                          split.pattern.names());
        plan.parts.push_back({split.traffic, split.pattern, std::move(target)});
    }
    return {};
}

/// Whether some engine has words for all of it; the device is not asked.
FlowResult<void> FlowTable::Impl::check(const Plan& plan, const rte_flow_item* pattern) {
    for (const PlannedPart& part : plan.parts) {
        SteeringRequest request = plan.request(part.pattern, part.target, 0);
        request.counted = plan.count != nullptr;
        const std::optional<Lack> lack = steering.lack(request);
        if (!lack) continue;
        if (lack->layer == nullptr)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, plan.count, "{}", lack->what);
        const uint8_t number = lack->layer->item;
        const rte_flow_item* const item = number == Layer::kNone ? pattern : pattern + number;
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_MASK, item, "item {}: {}",
                      traits_of(lack->layer->protocol).name, lack->what);
    }
    return {};
}

FlowResult<Plan> FlowTable::Impl::translate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                                            const rte_flow_action* actions) {
    if (queues.count() == 0 && (attr == nullptr || !attr->egress))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                      "the port is configured with no Rx queue, which every ingress rule "
                      "needs, also one that drops: verbs ties rules to queues");
    if (auto ok = check_attributes(attr); !ok) return tl::unexpected(ok.error());
    auto patterns = translate_pattern(pattern);
    if (!patterns) return tl::unexpected(patterns.error());
    auto wanted = translate_actions(
        actions, {patterns->front(), attr->egress != 0, queues.count(), queues.table_entries()});
    if (!wanted) return tl::unexpected(wanted.error());

    Plan plan;
    plan.priority = attr->priority;
    plan.egress = attr->egress != 0;
    plan.drop = wanted->drop;
    if (!wanted->edits.empty())
        plan.edits = std::make_shared<const Edits>(std::move(wanted->edits));
    plan.tag = wanted->tag;
    plan.count = wanted->count;
    bool hashed = false;
    for (const Pattern& each : *patterns)
        if (auto ok = add_parts(plan, each, *wanted, hashed); !ok)
            return tl::unexpected(ok.error());
    if (wanted->chosen_rss != nullptr && !hashed && wanted->table.size() > 1)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, wanted->chosen_rss,
                      "action rss: none of its types applies to packets of this pattern ({}), all "
                      "would go to one queue: add a fitting type or use action queue",
                      patterns->front().names());
    if (auto ok = check(plan, pattern); !ok) return tl::unexpected(ok.error());
    if (auto ok = check_levels(plan, attr); !ok) return tl::unexpected(ok.error());
    return plan;
}

FlowResult<OwnedRule> FlowTable::Impl::make(const Plan& plan) {
    Counters counters;
    if (plan.count != nullptr) {
        auto created = create_counters(steering.qps().context(), plan.count);
        if (!created) return tl::unexpected(created.error());
        counters = std::move(*created);
    }
    return OwnedRule(rte_flow::make(plan, std::move(counters)));
}

/// Before the Rx queues are set up the device cannot be asked: start() will look again.
SteeringLevels FlowTable::Impl::known_levels() const {
    return steering.levels().value_or(SteeringLevels{});
}

FlowResult<void> FlowTable::Impl::check_levels(const Plan& plan, const rte_flow_attr* attr) const {
    if (plan.egress) return {};
    std::vector<RulePlace> places;
    for (const PlannedPart& part : plan.parts)
        places.push_back(place_of(plan.priority, part.traffic));
    if (const uint16_t most = known_levels().flow_levels(); !levels.fits(places, most))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, attr,
                      "priority {}: the device has {} steering priorities for rules, and other "
                      "rte_flow priorities use them (each up to {}: for rules with ports, with IP, "
                      "and others): use one of those",
                      plan.priority, most, kClassDepths);
    return {};
}

/// Gives the parts of an ingress rule their levels.
Result<void> FlowTable::Impl::place(rte_flow& rule) {
    if (rule.egress) return {};
    const uint16_t most = known_levels().flow_levels();
    for (RulePart& part : rule.parts()) {
        const RulePlace wanted = place_of(rule.priority, part.traffic);
        auto placed = levels.acquire(wanted, most, [this](const RulePlace& other, uint16_t level) {
            return move(other, level);
        });
        if (!placed) return placed;
        part.place = PlaceRef(levels, wanted);
    }
    return {};
}

/// On a stopped port: the device may turn out to have fewer levels than was thought.
Result<void> FlowTable::Impl::place_again() {
    for (rte_flow* rule = rules.first(); rule != nullptr; rule = rule->after)
        for (RulePart& part : rule->parts())
            part.place = {};
    for (rte_flow* rule = rules.first(); rule != nullptr; rule = rule->after)
        if (auto placed = place(*rule); !placed) return placed;
    return {};
}

/// Each rule stands at both levels for a moment, and its packets meet the upper one.
Result<void> FlowTable::Impl::move(const RulePlace& place, uint16_t level) {
    if (!running) return {};
    for (rte_flow* rule = rules.first(); rule != nullptr; rule = rule->after)
        for (RulePart& part : rule->parts()) {
            if (!part.place.is(place)) continue;
            auto moved = steering.install(rule->request(part, level));
            if (!moved) return tl::unexpected(std::move(moved.error()));
            part.installed = std::move(*moved);
        }
    return {};
}

/// Asks the device, where that is possible, whether it takes every part of the rule.
FlowResult<void> FlowTable::Impl::validate(rte_flow& rule) {
    if (!running && !rule.egress && !steering.levels()) return {}; // no Rx queue yet
    for (const RulePart& part : rule.parts()) {
        const auto level = static_cast<uint16_t>(rule.egress ? rule.priority : 0);
        if (auto accepted = steering.validate(rule.request(part, level)); !accepted)
            return from_device(accepted.error());
    }
    return {};
}

/// All of the rule or nothing. Most specific class first, as planned.
Result<void> FlowTable::Impl::install(rte_flow& rule) {
    for (RulePart& part : rule.parts()) {
        const auto level = rule.egress ? static_cast<uint16_t>(rule.priority) : part.place.level();
        auto installed = steering.install(rule.request(part, level));
        if (!installed) {
            take_out(rule);
            return tl::unexpected(installed.error());
        }
        part.installed = std::move(*installed);
    }
    return {};
}

int FlowTable::validate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                        const rte_flow_action* actions, rte_flow_error* error) {
    const auto plan = impl_->translate(attr, pattern, actions);
    if (!plan) return report(plan.error(), error);
    const auto rule = impl_->make(*plan);
    if (!rule) return report(rule.error(), error);
    if (auto accepted = impl_->validate(**rule); !accepted) return report(accepted.error(), error);
    return 0;
}

rte_flow* FlowTable::create(const rte_flow_attr* attr, const rte_flow_item* pattern,
                            const rte_flow_action* actions, rte_flow_error* error) {
    const auto plan = impl_->translate(attr, pattern, actions);
    FlowResult<OwnedRule> rule =
        plan ? impl_->make(*plan) : FlowResult<OwnedRule>(tl::unexpected(plan.error()));
    if (!rule) {
        report(rule.error(), error);
        return nullptr;
    }
    if (plan->tag != 0) impl_->queues.use_marks();
    FlowResult<void> accepted;
    if (auto placed = impl_->place(**rule); !placed)
        accepted = from_device(placed.error());
    else if (!impl_->running)
        accepted = impl_->validate(**rule);
    else if (auto installed = impl_->install(**rule); !installed)
        accepted = from_device(installed.error());
    if (!accepted) {
        report(accepted.error(), error);
        return nullptr;
    }
    rte_flow* const created = rule->get();
    impl_->rules.add(std::move(*rule));
    return created;
}

int FlowTable::destroy(rte_flow* flow, rte_flow_error* error) {
    rte_flow* const rule = impl_->rules.find(flow);
    if (rule == nullptr) return report(unknown(flow), error);
    impl_->rules.erase(*rule);
    return 0;
}

int FlowTable::flush(rte_flow_error*) {
    impl_->rules.clear();
    return 0;
}

int FlowTable::query(rte_flow* flow, const rte_flow_action* action, void* data,
                     rte_flow_error* error) {
    rte_flow* const found = impl_->rules.find(flow);
    if (found == nullptr) return report(unknown(flow), error);
    rte_flow& rule = *found;
    for (; action->type == RTE_FLOW_ACTION_TYPE_VOID; ++action)
        ;
    if (action->type != RTE_FLOW_ACTION_TYPE_COUNT)
        return report(
            {ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action, "only action count can be queried"},
            error);
    if (!rule.counters)
        return report({EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, action,
                       "the rule has no count action: create it with one"},
                      error);

    uint64_t values[2] = {};
    if (const int code = ibv_read_counters(rule.counters.get(), values, 2, 0))
        return report(
            {code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
             fmt::format("cannot read the rule's counters: {}", errno_text(code, Attempt::steer))},
            error);
    auto& result = *static_cast<rte_flow_query_count*>(data);
    result.hits_set = result.bytes_set = 1;
    result.hits = values[IBV_COUNTER_PACKETS] - rule.seen_packets;
    result.bytes = values[IBV_COUNTER_BYTES] - rule.seen_bytes;
    if (result.reset) {
        rule.seen_packets = values[IBV_COUNTER_PACKETS];
        rule.seen_bytes = values[IBV_COUNTER_BYTES];
    }
    return 0;
}

int FlowTable::dump(const rte_flow* flow, FILE* file, rte_flow_error* error) {
    if (flow != nullptr && impl_->rules.find(flow) == nullptr) return report(unknown(flow), error);
    size_t number = 0;
    for (rte_flow* rule = impl_->rules.first(); rule != nullptr; rule = rule->after, ++number)
        if (flow == nullptr || flow == rule)
            std::fprintf(file, "rule %zu (%p):\n%s", number, static_cast<void*>(rule),
                         rule->text().c_str());
    return 0;
}

Result<void> FlowTable::start() {
    if (impl_->rules.first() != nullptr)
        if (auto placed = impl_->place_again(); !placed) return placed;
    size_t number = 0;
    for (rte_flow* rule = impl_->rules.first(); rule != nullptr; rule = rule->after) {
        ++number;
        if (auto installed = impl_->install(*rule); !installed) {
            stop();
            return fail(installed.error().code,
                        "rte_flow rule {} of {} (in order of creation) cannot be installed: {}",
                        number, impl_->rules.size(), installed.error().what);
        }
    }
    impl_->running = true;
    return {};
}

void FlowTable::stop() {
    impl_->running = false;
    for (rte_flow* rule = impl_->rules.first(); rule != nullptr; rule = rule->after)
        take_out(*rule);
}

} // namespace rawqp
