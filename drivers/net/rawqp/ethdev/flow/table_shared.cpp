// SPDX-License-Identifier: BSD-3-Clause
// Changing live rules: indirect actions, and new actions for a rule. The new version is installed
// in the other turn of the rule's levels (see RulePlace) before the old one is removed: each packet
// meets one of them.
#include "drivers/net/rawqp/ethdev/flow/table_impl.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"

#include <algorithm>
#include <set>

namespace rawqp {

namespace {

/// Rules added to `coming` leave it when this goes.
class ComingRules {
  public:
    explicit ComingRules(std::vector<rte_flow*>& rules) : rules_(rules), before_(rules.size()) {}
    ~ComingRules() { rules_.resize(before_); }
    ComingRules(const ComingRules&) = delete;
    ComingRules& operator=(const ComingRules&) = delete;

  private:
    std::vector<rte_flow*>& rules_;
    size_t before_;
};

FlowError unknown_action(const rte_flow_action_handle* handle) {
    return unknown("indirect action", handle, ENOENT, RTE_FLOW_ERROR_TYPE_ACTION);
}

} // namespace

FlowResult<SharedActionRef> FlowTable::Impl::share(const rte_flow_indir_action_conf& directions,
                                                   const rte_flow_action& action) {
    auto shared = make_ref<rte_flow_action_handle>();
    shared->directions = directions;
    shared->action.type = action.type;
    if (directions.transfer != 0 || (directions.ingress == 0 && directions.egress == 0))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                      "an indirect action is for ingress rules, for egress rules or for both: set "
                      "that; the port has no embedded switch for transfer rules");
    switch (action.type) {
    case RTE_FLOW_ACTION_TYPE_RSS:
        shared->name = "rss";
        if (action.conf == nullptr) return lacks_configuration(action);
        if (auto ok = check_rss(action, queues.count(), queues.table_entries()); !ok)
            return tl::unexpected(ok.error());
        shared->rss =
            std::make_unique<RssConf>(*static_cast<const rte_flow_action_rss*>(action.conf));
        shared->action.conf = &shared->rss->get();
        return shared;
    case RTE_FLOW_ACTION_TYPE_COUNT: {
        shared->name = "count";
        SteeringRequest counted;
        counted.counter = shared->counter = steering.make_counter(true);
        if (const auto engine = steering.engine_for(counted); !engine)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action, "{}", engine.error().what);
        return shared;
    }
    case RTE_FLOW_ACTION_TYPE_AGE: {
        shared->name = "age";
        if (action.conf == nullptr) return lacks_configuration(action);
        if (auto ok = check_age(action); !ok) return tl::unexpected(ok.error());
        const auto& conf = *static_cast<const rte_flow_action_age*>(action.conf);
        SteeringRequest counted;
        counted.counter = steering.make_counter(true);
        if (const auto engine = steering.engine_for(counted); !engine)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action, "{}", engine.error().what);
        shared->age = make_ref<FlowAge>(counted.counter, conf, FlowAge::Clock::now());
        if (conf.context == nullptr) shared->age->set_context(shared.get());
        shared->age_conf = conf;
        shared->action.conf = &shared->age_conf;
        watch(shared->age);
        return shared;
    }
    default:
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &action,
                      "action {} cannot be an indirect one: rss, count and age can",
                      action_name(action.type));
    }
}

/// Plans the rule as it will be with other actions.
FlowResult<Plan> FlowTable::Impl::plan_again(const rte_flow& rule, const rte_flow_action* actions,
                                             const SharedEdits& edits) {
    const std::vector<Pattern> patterns = rule.whole_patterns();
    auto wanted = translate_actions(actions, scope(patterns, rule));
    if (!wanted) return tl::unexpected(wanted.error());
    if (edits) wanted->edits = *edits;
    Plan planned = plan(rule, patterns, *wanted, &rule);
    if (auto ok = choose_engines(planned, nullptr); !ok) return tl::unexpected(ok.error());
    return planned;
}

/// Remakes the recipes of tables whose templates name the action, for what it does now: future
/// rules will follow it.
FlowResult<std::vector<std::pair<Recipe*, Recipe>>>
FlowTable::Impl::recipes_anew(const SharedActionRef& action) {
    std::vector<std::pair<Recipe*, Recipe>> fresh;
    for (const auto& table : tables)
        for (size_t at = 0; at < table->recipes.size(); ++at) {
            Recipe& recipe = table->recipes[at];
            if (recipe.model->rss != action) continue;
            const size_t each = table->actions.size();
            auto made = make_recipe(table->attributes, *table->patterns[at / each],
                                    *table->actions[at % each]);
            if (!made) return tl::unexpected(made.error());
            if (auto ok = validate(*made->model); !ok) return tl::unexpected(ok.error());
            if (made->model->bytes() > table->slots->bytes())
                return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION_CONF, nullptr,
                              "the rules of a template table that names this indirect rss have no "
                              "room for so many traffic classes: destroy the table first and make "
                              "it anew, or use fewer types");
            made->take_over(recipe);
            fresh.emplace_back(&recipe, std::move(*made));
        }
    return fresh;
}

FlowResult<void> FlowTable::Impl::update(const SharedActionRef& action,
                                         const rte_flow_action& update) {
    if (update.type != action->action.type || !action->rss)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, &update,
                      "an indirect {} cannot be updated by action {}: rss can, by rss; a count is "
                      "set back by a query",
                      action->name, action_name(update.type));
    auto next = share(action->directions, update);
    if (!next) return tl::unexpected(next.error());

    const ComingRules listed(coming);
    std::vector<std::pair<rte_flow*, OwnedRule>> fresh;
    std::set<std::string> keys; // of all that is fresh
    for (rte_flow* rule = rules.first(); rule != nullptr; rule = rule->after) {
        if (rule->rss != action) continue;
        const rte_flow_action actions[] = {(*next)->action, {}};
        auto planned = plan_again(*rule, actions, rule->edits);
        if (!planned) {
            planned.error().cause = &update;
            return tl::unexpected(planned.error());
        }
        static_cast<RuleTerms&>(*planned) = *rule; // its other actions stay
        for (PlannedPart& part : planned->parts) {
            part.engine = nullptr; // it was chosen without those
            if (!keys.insert(key_of(*planned, part.pattern)).second)
                return refuse(EEXIST, RTE_FLOW_ERROR_TYPE_ACTION_CONF, &update,
                              "with these types two rules of one priority would both match {} with "
                              "the same values: give one of them another priority",
                              part.pattern.names());
        }
        auto made = realize(*planned, nullptr, rule);
        if (!made) {
            made.error().cause = &update;
            return tl::unexpected(made.error());
        }
        coming.push_back(made->get());
        fresh.emplace_back(rule, std::move(*made));
    }
    const auto exchange = [&] {
        std::swap(action->rss, (*next)->rss);
        action->action.conf = &action->rss->get();
    };
    exchange(); // templates name the action itself, not its content
    auto recipes = recipes_anew(action);
    if (!recipes) {
        exchange();
        recipes.error().cause = &update;
        return tl::unexpected(recipes.error());
    }
    for (auto& [rule, successor] : fresh)
        rules.replace(*rule, std::move(successor));
    for (auto& [recipe, successor] : *recipes)
        *recipe = std::move(successor);
    if (!recipes->empty())
        for (const auto& table : tables)
            prepare(*table);
    return {};
}

/// Whether update() would succeed.
FlowResult<void> FlowTable::Impl::check_update(const rte_flow& rule,
                                               const rte_flow_action* actions) {
    auto planned = plan_again(rule, actions);
    if (!planned) return tl::unexpected(planned.error());
    const auto fresh = make_rule(*planned, nullptr, &rule);
    if (!fresh) return tl::unexpected(fresh.error());
    return validate(**fresh);
}

FlowResult<void> FlowTable::Impl::update(rte_flow& rule, const rte_flow_action* actions) {
    if (rule.egress)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_HANDLE, &rule,
                      "the device cannot have two egress rules of one match, as an update without "
                      "a gap needs: destroy the rule and create another one");
    auto planned = plan_again(rule, actions);
    if (!planned) return tl::unexpected(planned.error());
    if (planned->takes_from_kernel() && rule.takes_from_kernel())
        planned->ports = rule.ports;
    else if (auto ok = reserve_ports(*planned, nullptr); !ok)
        return ok;
    auto fresh = realize(*planned, nullptr, &rule);
    if (!fresh) return tl::unexpected(fresh.error());
    const AgeRef former = rule.age;
    const CounterRef counter = rule.counter;
    if (counter) counter->note();
    rules.replace(rule, std::move(*fresh));
    // Either may remain without the other.
    if (former && (former != rule.age || counter != rule.counter)) former->forget(*counter);
    watch_age(rule);
    return {};
}

rte_flow_action_handle* FlowTable::share(const rte_flow_indir_action_conf* conf,
                                         const rte_flow_action* action, rte_flow_error* error) {
    const rte_flow_indir_action_conf none{};
    auto shared = impl_->share(conf != nullptr ? *conf : none, *action);
    if (!shared) {
        report(shared.error(), error);
        return nullptr;
    }
    impl_->shared.add(*shared);
    return shared->get();
}

int FlowTable::unshare(rte_flow_action_handle* handle, rte_flow_error* error) {
    const SharedActionRef shared = impl_->shared.find(handle);
    if (!shared) return report(unknown_action(handle), error);
    constexpr size_t kKnown = 2; // in the table, and here
    if (in_use(shared, kKnown))  // perhaps by rules that are gone for all but the device
        if (auto settled = impl_->settle(); !settled) return report(settled.error(), error);
    if (in_use(shared, kKnown))
        return report(
            {EBUSY, RTE_FLOW_ERROR_TYPE_ACTION, handle,
             fmt::format("rules or template tables use this indirect {}: destroy them first",
                         shared->name)},
            error);
    impl_->shared.erase(handle);
    return 0;
}

int FlowTable::update_shared(rte_flow_action_handle* handle, const void* update,
                             rte_flow_error* error) {
    const SharedActionRef shared = impl_->shared.find(handle);
    if (!shared) return report(unknown_action(handle), error);
    if (update == nullptr)
        return report({EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, nullptr,
                       fmt::format("the indirect {} has no update given: an age takes a struct "
                                   "rte_flow_update_age, an rss an action",
                                   shared->name)},
                      error);
    if (shared->age) {
        const auto& change = *static_cast<const rte_flow_update_age*>(update);
        if (change.timeout_valid != 0 && change.timeout == 0)
            return report({EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_CONF, update,
                           "an indirect age: timeout 0: the shortest is a second"},
                          error);
        shared->age->update(change, FlowAge::Clock::now());
        return 0;
    }
    const auto done = impl_->update(shared, *static_cast<const rte_flow_action*>(update));
    if (!done) return report(done.error(), error);
    impl_->settle_done("an indirect rss is updated, and packets may go by the former for longer");
    return 0;
}

int FlowTable::query_shared(const rte_flow_action_handle* handle, void* data,
                            rte_flow_error* error) {
    const SharedActionRef shared = impl_->shared.find(handle);
    if (!shared) return report(unknown_action(handle), error);
    if (shared->age) {
        shared->age->query(*static_cast<rte_flow_query_age*>(data), FlowAge::Clock::now());
        return 0;
    }
    if (!shared->counter)
        return report(
            {ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, handle,
             fmt::format("an indirect {} has nothing to query: count and age have", shared->name)},
            error);
    const auto read = query_counter(*shared->counter, *static_cast<rte_flow_query_count*>(data));
    return read ? 0 : report(read.error(), error);
}

int FlowTable::update_actions(rte_flow* flow, const rte_flow_action* actions,
                              rte_flow_error* error) {
    rte_flow* const rule = impl_->rules.find(flow);
    if (rule == nullptr) return report(unknown("rule", flow), error);
    const auto done = impl_->in_either_way([&] { return impl_->update(*rule, actions); },
                                           [&] { return impl_->check_update(*rule, actions); });
    if (!done) return report(done.error(), error);
    impl_->settle_done("a rule is updated, and packets may go by its former actions for longer");
    return 0;
}

} // namespace rawqp
