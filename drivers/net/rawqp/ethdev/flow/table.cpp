// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/table.hpp"

#include "drivers/net/rawqp/ethdev/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/flow/actions.hpp"
#include "drivers/net/rawqp/ethdev/flow/items.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>
#include <cstring>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace rawqp {

using Counters = verbs::Handle<ibv_counters>;

/// One steering rule of an rte_flow rule, as it is to be installed.
struct PlannedRule {
    TrafficClass traffic = TrafficClass::other;
    SteeringRequest request; ///< level and counters are set when it is installed
    /// Equal keys: the device could not tell which of the two rules to follow.
    std::vector<uint8_t> key;
};

} // namespace rawqp

/// What the application holds a pointer to. The declaration belongs to DPDK, hence no namespace.
struct rte_flow {
    uint32_t priority = 0;
    std::vector<rawqp::PlannedRule> plan;
    rawqp::Counters counters; ///< outlives the rules that count into it
    std::vector<rawqp::SteeringRule> installed;
    uint64_t seen_packets = 0, seen_bytes = 0; ///< counts at the last reset
};

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

FlowResult<void> check_attributes(const rte_flow_attr* attr, const SteeringLevels& levels) {
    if (attr == nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ATTR, nullptr, "no attributes given");
    if (attr->group != 0)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_GROUP, attr,
                      "group {}: only group 0 exists", static_cast<uint32_t>(attr->group));
    if (attr->egress)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_EGRESS, attr,
                      "egress rules are not supported: verbs steers received packets only");
    if (attr->transfer)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_TRANSFER, attr,
                      "transfer rules are not supported: the port has no embedded switch");
    if (!attr->ingress)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ATTR_INGRESS, attr,
                      "the rule has no direction: set ingress");
    if (attr->priority >= levels.flow_priorities())
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, attr,
                      "priority {}: the largest is {} (the device has {} steering priorities)",
                      static_cast<uint32_t>(attr->priority), levels.flow_priorities() - 1,
                      levels.priorities);
    return {};
}

std::vector<uint8_t> key_of(uint32_t priority, const FlowMatch& match) {
    std::vector<uint8_t> key;
    key.reserve(sizeof priority + match.byte_count());
    key.resize(sizeof priority);
    std::memcpy(key.data(), &priority, sizeof priority);
    match.append_to(key);
    return key;
}

std::string_view text_of(const std::vector<uint8_t>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool marks(const rte_flow& rule) {
    return std::any_of(rule.plan.begin(), rule.plan.end(),
                       [](const PlannedRule& planned) { return planned.request.tag != 0; });
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

} // namespace

struct FlowTable::Impl {
    RssQps& qps;
    Steering steering;
    RxQueueSet& queues;
    bool running = false; ///< between start and stop: rules are in the device
    std::list<rte_flow> rules{};
    std::unordered_map<const rte_flow*, std::list<rte_flow>::iterator> index{};
    std::unordered_set<std::string_view> keys{}; ///< of what is planned in `rules`

    FlowResult<rte_flow> translate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                                   const rte_flow_action* actions);
    FlowResult<void> validate(rte_flow& rule);
    Result<void> install(rte_flow& rule);
    void erase(std::list<rte_flow>::iterator rule);
    FlowResult<std::list<rte_flow>::iterator> find(const rte_flow* flow);
    Result<void> complete(rte_flow& rule);
};

FlowTable::FlowTable(RssQps& qps, uint8_t ib_port, RxQueueSet& queues)
    : impl_(new Impl{qps, Steering(qps, ib_port), queues}) {}

FlowTable::~FlowTable() = default;

FlowResult<rte_flow> FlowTable::Impl::translate(const rte_flow_attr* attr,
                                                const rte_flow_item* pattern,
                                                const rte_flow_action* actions) {
    if (queues.count() == 0)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                      "the port is configured with no Rx queue, which every rule needs, also one "
                      "that drops: verbs ties rules to queues");
    // Before the Rx queues are set up the device cannot be asked; start() will look again.
    if (auto ok = check_attributes(attr, steering.levels().value_or(SteeringLevels{})); !ok)
        return tl::unexpected(ok.error());
    auto matches = translate_pattern(pattern);
    if (!matches) return tl::unexpected(matches.error());
    auto wanted = translate_actions(actions, queues.count(), queues.table_entries());
    if (!wanted) return tl::unexpected(wanted.error());

    rte_flow rule;
    rule.priority = attr->priority;
    rule.plan.reserve(matches->size());
    bool hashed = false;
    for (const FlowMatch& match : *matches)
        for (ClassRule& split : split_by_class(match, wanted->rss_types)) {
            hashed |= split.hash_fields != 0;
            PlannedRule planned;
            planned.traffic = split.traffic;
            planned.request.strict_level = true;
            planned.request.match = split.match;
            planned.request.destination =
                destination_of(wanted->table, wanted->key, split.hash_fields);
            planned.request.drop = wanted->drop;
            planned.request.tag = wanted->tag;
            planned.key = key_of(rule.priority, planned.request.match);
            if (keys.contains(text_of(planned.key)))
                return refuse(EEXIST, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, pattern,
                              "a rule of the same priority matches {} with the same values "
                              "already: destroy it first or use another priority",
                              planned.request.match.layers());
            rule.plan.push_back(std::move(planned));
        }
    if (wanted->chosen_rss != nullptr && !hashed && wanted->table.size() > 1)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, wanted->chosen_rss,
                      "action rss: none of its types applies to packets of this pattern ({}), all "
                      "would go to one queue: add a fitting type or use action queue",
                      matches->front().layers());
    if (wanted->count != nullptr) {
        auto counters = create_counters(qps.context(), wanted->count);
        if (!counters) return tl::unexpected(counters.error());
        rule.counters = std::move(*counters);
    }
    return rule;
}

/// Fills in what translation could not know.
Result<void> FlowTable::Impl::complete(rte_flow& rule) {
    const auto levels = steering.levels();
    if (!levels) return tl::unexpected(levels.error());
    if (rule.priority >= levels->flow_priorities())
        return fail(ENOTSUP, "priority {}: the device has priorities up to {} only", rule.priority,
                    levels->flow_priorities() - 1);
    for (PlannedRule& planned : rule.plan) {
        planned.request.level = levels->flow_level(rule.priority, planned.traffic);
        planned.request.counters = rule.counters.get();
    }
    return {};
}

/// Asks the device, where that is possible, whether it takes every part of the rule.
FlowResult<void> FlowTable::Impl::validate(rte_flow& rule) {
    if (!running && !steering.levels()) return {}; // no Rx queue yet: start() will tell
    if (auto known = complete(rule); !known) return from_device(known.error());
    for (const PlannedRule& planned : rule.plan)
        if (auto accepted = steering.validate(planned.request); !accepted)
            return from_device(accepted.error());
    return {};
}

/// All of the rule or nothing. Most specific class first, as planned.
Result<void> FlowTable::Impl::install(rte_flow& rule) {
    if (auto known = complete(rule); !known) return known;
    std::vector<SteeringRule> installed;
    installed.reserve(rule.plan.size());
    for (const PlannedRule& planned : rule.plan) {
        auto part = steering.install(planned.request);
        if (!part) return tl::unexpected(part.error());
        installed.push_back(std::move(*part));
    }
    rule.installed = std::move(installed);
    return {};
}

void FlowTable::Impl::erase(std::list<rte_flow>::iterator rule) {
    for (const PlannedRule& planned : rule->plan)
        keys.erase(text_of(planned.key));
    index.erase(&*rule);
    rules.erase(rule);
}

FlowResult<std::list<rte_flow>::iterator> FlowTable::Impl::find(const rte_flow* flow) {
    const auto found = index.find(flow);
    if (found == index.end())
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_HANDLE, flow,
                      "no such rule on this port: it was destroyed already or is another port's");
    return found->second;
}

int FlowTable::validate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                        const rte_flow_action* actions, rte_flow_error* error) {
    auto rule = impl_->translate(attr, pattern, actions);
    if (!rule) return report(rule.error(), error);
    if (auto accepted = impl_->validate(*rule); !accepted) return report(accepted.error(), error);
    return 0;
}

rte_flow* FlowTable::create(const rte_flow_attr* attr, const rte_flow_item* pattern,
                            const rte_flow_action* actions, rte_flow_error* error) {
    auto rule = impl_->translate(attr, pattern, actions);
    if (rule && marks(*rule)) impl_->queues.use_marks();
    FlowResult<void> accepted;
    if (!rule)
        accepted = tl::unexpected(rule.error());
    else if (!impl_->running)
        accepted = impl_->validate(*rule);
    else if (auto installed = impl_->install(*rule); !installed)
        accepted = from_device(installed.error());
    if (!accepted) {
        report(accepted.error(), error);
        return nullptr;
    }

    const auto kept = impl_->rules.insert(impl_->rules.end(), std::move(*rule));
    impl_->index.emplace(&*kept, kept);
    for (const PlannedRule& planned : kept->plan)
        impl_->keys.insert(text_of(planned.key));
    return &*kept;
}

int FlowTable::destroy(rte_flow* flow, rte_flow_error* error) {
    const auto rule = impl_->find(flow);
    if (!rule) return report(rule.error(), error);
    impl_->erase(*rule);
    return 0;
}

int FlowTable::flush(rte_flow_error*) {
    impl_->keys.clear();
    impl_->index.clear();
    impl_->rules.clear();
    return 0;
}

int FlowTable::query(rte_flow* flow, const rte_flow_action* action, void* data,
                     rte_flow_error* error) {
    const auto found = impl_->find(flow);
    if (!found) return report(found.error(), error);
    rte_flow& rule = **found;
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

Result<void> FlowTable::start() {
    size_t number = 0;
    for (rte_flow& rule : impl_->rules) {
        ++number;
        if (auto installed = impl_->install(rule); !installed) {
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
    for (rte_flow& rule : impl_->rules)
        rule.installed.clear();
}

} // namespace rawqp
