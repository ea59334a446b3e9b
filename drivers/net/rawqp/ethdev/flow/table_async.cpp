// SPDX-License-Identifier: BSD-3-Clause
// Rules from templates, through queues of operations. An operation is done when it is requested,
// and its result waits for the application: nothing is in flight in between. Apart from the device,
// a rule only costs writing its values into a copy of its recipe; no memory is allocated for it.
#include "common/verbs/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/flow/table_impl.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"

namespace rawqp {

namespace {

constexpr uint32_t kMostQueues = 64, kMostOperations = 65536;

/// The entry at this place of a rule's list: its END, where it is shorter than the template's.
template <class Entry> const Entry& entry_at(const Entry* list, size_t place) {
    for (const Entry* const wanted = list + place; list != wanted && list->type != 0;) // both END
        ++list;
    return *list;
}

} // namespace

/// What a rule gives, besides its terms.
struct FlowTable::Impl::Values {
    std::optional<uint16_t> queue;
    bool spreads = false; ///< by the table's spread, which has been read from its rss
    rte_flow_action_age age{};
};

FlowResult<void> FlowTable::Impl::take_rss(const rte_flow_action& action,
                                           const rte_flow_action_rss& rss,
                                           rte_flow_template_table& table,
                                           const rte_flow_actions_template& from, Values& values) {
    const rte_flow_action whole{RTE_FLOW_ACTION_TYPE_RSS, &rss};
    if (auto ok = check_rss(whole, queues.count(), queues.table_entries()); !ok) {
        ok.error().cause = &action;
        return ok;
    }
    if ((rss.level == 2) != (from.rss.level == 2))
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                      "action rss: level {}: it decides which headers a table looks at, and the "
                      "template's is {}",
                      rss.level, from.rss.level);
    read_rss(rss, queues.table_entries(), table.spread);
    values.spreads = true;
    return {};
}

FlowResult<void> FlowTable::Impl::take_shared(const rte_flow_action& action,
                                              rte_flow_action_type behind,
                                              rte_flow_template_table& table,
                                              const rte_flow_actions_template& from,
                                              RuleTerms& terms, Values& values) {
    const auto found = find_shared(action, shared, terms.egress);
    if (!found) return tl::unexpected(found.error());
    if ((*found)->action.type != behind)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &action,
                      "action indirect: a {} in place of the template's {}", (*found)->name,
                      action_name(behind));
    if ((*found)->rss) {
        terms.rss = *found;
        return take_rss(action, (*found)->rss->get(), table, from, values);
    }
    terms.age = (*found)->age;
    terms.counter = terms.age ? terms.age->counter() : (*found)->counter;
    return {};
}

/// Takes what the rule gives for actions of the template.
FlowResult<void> FlowTable::Impl::take_values(rte_flow_template_table& table,
                                              const rte_flow_actions_template& from,
                                              const rte_flow_action* actions, RuleTerms& terms,
                                              Values& values) {
    for (const auto& [at, type, behind] : from.given) {
        const rte_flow_action& action = entry_at(actions, at);
        const bool optional = type == RTE_FLOW_ACTION_TYPE_AGE && from.age_mask.timeout != 0;
        if (action.type != type || (action.conf == nullptr && !optional))
            return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                          "action {} in place of the template's {} with a configuration",
                          action_name(action.type), action_name(type));
        FlowResult<void> taken;
        switch (type) {
        case RTE_FLOW_ACTION_TYPE_QUEUE:
            values.queue = static_cast<const rte_flow_action_queue*>(action.conf)->index;
            taken = rawqp::check_queue(action, "queue", *values.queue, queues.count());
            break;
        case RTE_FLOW_ACTION_TYPE_RSS:
            taken = take_rss(action,
                             rss_of(from, *static_cast<const rte_flow_action_rss*>(action.conf)),
                             table, from, values);
            break;
        case RTE_FLOW_ACTION_TYPE_JUMP:
            taken = check_jump(action, terms.group);
            terms.jumps = true;
            terms.jump = static_cast<const rte_flow_action_jump*>(action.conf)->group;
            break;
        case RTE_FLOW_ACTION_TYPE_AGE:
            values.age = age_of(from, static_cast<const rte_flow_action_age*>(action.conf));
            if (values.age.timeout == 0) taken = check_age(action);
            break;
        case RTE_FLOW_ACTION_TYPE_INDIRECT:
            taken = take_shared(action, behind, table, from, terms, values);
            break;
        default: { // a mark
            const auto tag = tag_of_mark(action);
            if (!tag) return tl::unexpected(tag.error());
            terms.tag = *tag;
        }
        }
        if (!taken) return taken;
    }
    return {};
}

/// Restarts the slot's counter, and its age if the rule has one that uses it.
FlowResult<void> FlowTable::Impl::count_anew(rte_flow_template_table& table, const Recipe& recipe,
                                             const Values& values, rte_flow& rule) {
    if (!recipe.counts) return {};
    auto& [counter, used, age] = table.counters[table.slots->number_of(&rule)];
    if (used) // what the former rule counted last does not belong to the next one
        if (auto settled = settle(); !settled) return settled;
    if (used && !counter->renew())
        return refuse(errno, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                      "the rule's counter cannot be set to zero: {}",
                      verbs::errno_text(errno, verbs::Attempt::steer));
    used = true;
    rule.counter = counter;
    if (!recipe.ages) return {};
    age->begin(values.age, FlowAge::Clock::now());
    rule.age = age;
    return {};
}

/// Directs it to the queues that the rule gives, if it gives any.
void FlowTable::Impl::lead(rte_flow& rule, rte_flow_template_table& table, const Values& values) {
    if (values.queue) {
        const size_t queue = *values.queue;
        if (table.queues.size() <= queue) table.queues.resize(queue + 1);
        if (RssTargetRef& to = table.queues[queue]; !to) to = steering.qps().target(*values.queue);
        for (RulePart& part : rule.parts())
            part.target = table.queues[queue];
    }
    if (!values.spreads) return;
    for (RulePart& part : rule.parts()) {
        const uint64_t fields = hash_fields_of(part.traffic, table.spread.rss_types);
        table.destination = table.spread.destination(fields, std::move(table.destination));
        part.target = steering.qps().target(table.destination);
    }
}

/// A rule with its values, not yet in the device.
FlowResult<OwnedRule> FlowTable::Impl::fill(rte_flow_template_table& table, size_t pattern,
                                            const rte_flow_item* items, size_t action,
                                            const rte_flow_action* actions) {
    Recipe& recipe = table.recipe(pattern, action);
    const rte_flow& model = *recipe.model;
    void* const memory = table.slots ? table.slots->take() : pool.take(model.bytes());
    if (memory == nullptr)
        return refuse(ENOSPC, RTE_FLOW_ERROR_TYPE_HANDLE, &table,
                      "all rules of the table are in use: destroy some, or make it larger");
    RuleMemory& owner = table.slots ? static_cast<RuleMemory&>(*table.slots) : pool;
    OwnedRule rule(rte_flow::make(model, memory, owner));
    Values values;
    values.age = table.actions[action]->age;
    if (auto ok = take_values(table, *table.actions[action], actions, *rule, values); !ok)
        return tl::unexpected(ok.error());
    if (auto ok = count_anew(table, recipe, values, *rule); !ok) return tl::unexpected(ok.error());
    for (const Recipe::Value& value : recipe.values) {
        const rte_flow_item& item = entry_at(items, value.item);
        if (item.type != value.kind->type || item.spec == nullptr)
            return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM, &item,
                          "item {} in place of the template's {} with a spec", item_name(item.type),
                          item_name(value.kind->type));
        if (item.type == RTE_FLOW_ITEM_TYPE_TAG &&
            static_cast<const rte_flow_item_tag*>(item.spec)->index != value.index)
            return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_SPEC, &item,
                          "item tag: its index is not the template's");
        if (auto ok = check_mark(*value.kind, item); !ok) return tl::unexpected(ok.error());
        LayerBytes read;
        if (!value.plain) read = read_spec(*value.kind, item, value.index);
        rule->add_values(value.part, value.sources,
                         value.plain ? static_cast<const uint8_t*>(item.spec) : read.data());
    }
    rule->hash();
    lead(*rule, table, values);
    if (auto ok = find_room(*rule, nullptr); !ok) return tl::unexpected(ok.error());
    if (auto ok = choose_stage(*rule, nullptr); !ok) return tl::unexpected(ok.error());
    return rule;
}

FlowResult<rte_flow*> FlowTable::Impl::create(rte_flow_template_table& table, size_t pattern,
                                              const rte_flow_item* items, size_t action,
                                              const rte_flow_action* actions) {
    if (pattern >= table.patterns.size() || action >= table.actions.size())
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                      "pattern template {} and actions template {}: the table has {} and {}",
                      pattern, action, table.patterns.size(), table.actions.size());
    auto rule = fill(table, pattern, items, action, actions);
    if (!rule) return tl::unexpected(rule.error());
    if (auto ok = reserve_ports(**rule, nullptr); !ok) return tl::unexpected(ok.error());
    if (auto placed = place(**rule); !placed) return from_device(placed.error());
    return enter(std::move(*rule));
}

FlowResult<void> FlowTable::Impl::check_queue(uint32_t queue) const {
    if (queue < operations.size()) return {};
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                  "no flow queue {}: rte_flow_configure was asked for {}", queue,
                  operations.size());
}

FlowResult<void> FlowTable::Impl::check_room(uint32_t queue) const {
    if (auto known = check_queue(queue); !known || operations[queue].has_room()) return known;
    return refuse(EAGAIN, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                  "the results of flow queue {} are not pulled: call rte_flow_pull", queue);
}

int FlowTable::info(rte_flow_port_info* port, rte_flow_queue_info* queue) {
    *port = {};
    port->max_nb_queues = kMostQueues;
    port->max_nb_counters = port->max_nb_aging_objects = kMostRules;
    if (queue != nullptr) queue->max_size = kMostOperations;
    return 0;
}

int FlowTable::configure(const rte_flow_port_attr& port,
                         std::span<const rte_flow_queue_attr*> sizes, rte_flow_error* error) {
    constexpr auto kWhere = RTE_FLOW_ERROR_TYPE_UNSPECIFIED;
    if (port.flags != 0)
        return report({ENOTSUP, kWhere, &port,
                       "flags of the port are not supported: leave out "
                       "RTE_FLOW_PORT_FLAG_STRICT_QUEUE, as any flow queue may serve any rule, and "
                       "all others"},
                      error);
    if (port.nb_meters != 0 || port.nb_conn_tracks != 0 || compat::quotas(port) != 0)
        return report(
            {ENOTSUP, kWhere, &port,
             "no meters, connections and quotas are made in advance: ask for none; indirect "
             "actions can be made at any time, counters come with tables"},
            error);
    std::vector<FlowQueue> made;
    for (const rte_flow_queue_attr* const size : sizes) {
        if (size->size == 0 || size->size > kMostOperations || sizes.size() > kMostQueues)
            return report(
                {EINVAL, kWhere, size,
                 fmt::format("{} flow queues, one of {} operations: there may be up to {} "
                             "of 1 … {}",
                             sizes.size(), size->size, kMostQueues, kMostOperations)},
                error);
        made.emplace_back(size->size);
    }
    // Applications count on each result: it tells when what came with the operation can be freed.
    for (size_t number = 0; number < impl_->operations.size(); ++number)
        if (const size_t waiting = impl_->operations[number].waiting(); waiting != 0)
            return report({EBUSY, kWhere, nullptr,
                           fmt::format("flow queue {} has results that are not pulled ({}): the "
                                       "queues stay as they are; call rte_flow_pull first",
                                       number, waiting)},
                          error);
    impl_->operations = std::move(made);
    return 0;
}

rte_flow* FlowTable::async_create(uint32_t queue, rte_flow_template_table* handle,
                                  const rte_flow_item* items, uint8_t pattern,
                                  const rte_flow_action* actions, uint8_t action, void* user_data,
                                  rte_flow_error* error) {
    FlowResult<rte_flow*> created(nullptr);
    if (auto room = impl_->check_room(queue); !room)
        created = tl::unexpected(room.error());
    else if (find_handle(impl_->tables, handle) == impl_->tables.end())
        created = tl::unexpected(unknown("template table", handle));
    else
        created = impl_->create(*handle, pattern, items, action, actions);
    if (!created) {
        report(created.error(), error);
        return nullptr;
    }
    impl_->operations[queue].done(user_data);
    return *created;
}

int FlowTable::async_destroy(uint32_t queue, rte_flow* flow, void* user_data,
                             rte_flow_error* error) {
    return async(queue, user_data, error, [&] {
        rte_flow* const rule = impl_->rules.find(flow);
        if (rule == nullptr) return report(unknown("rule", flow), error);
        impl_->rules.erase(*rule);
        return 0;
    });
}

int FlowTable::check_room(uint32_t queue, rte_flow_error* error) const {
    const auto room = impl_->check_room(queue);
    return room ? 0 : report(room.error(), error);
}

void FlowTable::done(uint32_t queue, void* user_data) { impl_->operations[queue].done(user_data); }

int FlowTable::push(uint32_t queue, rte_flow_error* error) const {
    const auto known = impl_->check_queue(queue);
    return known ? 0 : report(known.error(), error);
}

int FlowTable::pull(uint32_t queue, std::span<rte_flow_op_result> results, rte_flow_error* error) {
    if (auto known = impl_->check_queue(queue); !known) return report(known.error(), error);
    if (auto settled = impl_->settle(); !settled) return report(settled.error(), error);
    return static_cast<int>(impl_->operations[queue].pull(results));
}

} // namespace rawqp
