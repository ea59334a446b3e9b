// SPDX-License-Identifier: BSD-3-Clause
// Templates and their tables, from creation to destruction: recipes for the rules that
// table_async.cpp makes, which the device has accepted on trial, and all the memory that these
// rules take.
#include "common/verbs/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/flow/table_impl.hpp"

#include <algorithm>
#include <new>

namespace rawqp {

namespace {

constexpr rte_flow_action_age kOneSecond{1, 0, nullptr};

template <class T>
T* keep(std::vector<std::unique_ptr<T>>& list, FlowResult<std::unique_ptr<T>> made,
        rte_flow_error* error) {
    if (!made) {
        report(made.error(), error);
        return nullptr;
    }
    return list.emplace_back(std::move(*made)).get();
}

/// Checks that the template exists and may be used in a table with these attributes.
template <class T>
FlowResult<void> check_template(std::vector<std::unique_ptr<T>>& list, const T* handle,
                                const char* what, const char* one, const rte_flow_attr& table) {
    if (find_handle(list, handle) == list.end()) return tl::unexpected(unknown(what, handle));
    return check_direction(handle->attributes, one, table);
}

template <class T>
int drop(std::vector<std::unique_ptr<T>>& list, const T* handle, const char* what,
         rte_flow_error* error) {
    const auto at = find_handle(list, handle);
    if (at == list.end()) return report(unknown(what, handle), error);
    if ((*at)->users != 0)
        return report({EBUSY, RTE_FLOW_ERROR_TYPE_HANDLE, handle,
                       fmt::format("this {} has {} template table{} made of it: destroy {} first",
                                   what, (*at)->users, (*at)->users == 1 ? "" : "s",
                                   (*at)->users == 1 ? "it" : "them")},
                      error);
    list.erase(at);
    return 0;
}

} // namespace

FlowResult<Recipe> FlowTable::Impl::make_recipe(const rte_flow_attr& attributes,
                                                const rte_flow_pattern_template& pattern,
                                                const rte_flow_actions_template& actions) {
    // The application's items and actions may be gone by now, and it does not know the copies.
    const auto of_theirs = [&](FlowError error) {
        if (error.cause != &attributes) error.cause = nullptr;
        return tl::unexpected(std::move(error));
    };
    auto planned = outline(&attributes, pattern.items.entries(), actions.actions.entries());
    if (!planned) return of_theirs(planned.error());
    OwnedRule model(rte_flow::make(*planned, masks));
    // How many levels there will be for its rules is unknown as yet.
    if (model->has_levels() && model->ranked() && put_at_one_level(*planned))
        model.reset(rte_flow::make(*planned, masks));
    if (model->passes) // what its rules will lead to is there as long as the table
        if (auto ok = choose_stage(*model, &attributes); !ok) return of_theirs(ok.error());
    auto values = values_of(*planned, *model, pattern);
    if (!values) return of_theirs(values.error());
    return Recipe{std::move(model), std::move(*values)};
}

/// Makes counters for all rules that may come, if the recipe's trial had one.
FlowResult<void> FlowTable::Impl::count(rte_flow_template_table& table, Recipe& recipe,
                                        size_t rules) {
    table.counters.resize(rules);
    for (auto& [counter, used, age] : table.counters) {
        if (!counter) counter = steering.make_counter();
        if (!counter->prepare(*recipe.model->counter))
            return refuse(
                errno, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                "the device does not make {} counters, one for each rule of the table: {}", rules,
                verbs::errno_text(errno, verbs::Attempt::steer));
    }
    return {};
}

/// Drops what the trial of a recipe had for itself: its rules have their own counters, or give
/// counter and age.
FlowResult<void> FlowTable::Impl::own_counters(rte_flow_template_table& table, Recipe& recipe,
                                               const rte_flow_actions_template& actions,
                                               size_t rules) {
    const bool given = actions.gives(RTE_FLOW_ACTION_TYPE_COUNT);
    rte_flow& model = *recipe.model;
    if (given && model.age) return refuse_shared_count(nullptr);
    if (!model.counter || model.counter->shared()) return {};
    recipe.ages = model.age && !model.age->shared() && !actions.gives(RTE_FLOW_ACTION_TYPE_AGE);
    recipe.counts = (model.counts && !given) || recipe.ages;
    if (recipe.counts)
        if (auto ok = count(table, recipe, rules); !ok) return ok;
    if (recipe.ages) {
        for (auto& [counter, used, age] : table.counters)
            if (!age) age = make_ref<FlowAge>(counter, kOneSecond, FlowAge::Clock::now());
        ages.reserve(rules);
    }
    recipe.drop_counter();
    return {};
}

FlowResult<FlowTable::Impl::OwnedTable>
FlowTable::Impl::create_table(const rte_flow_template_table_attr& attributes,
                              std::span<rte_flow_pattern_template*> patterns,
                              std::span<rte_flow_actions_template*> actions) {
    choose_way(&attributes.flow_attr);
    const auto make = [&]() -> FlowResult<OwnedTable> {
        try { // the application says for how many rules
            return make_table(attributes, patterns, actions);
        } catch (const std::bad_alloc&) {
            return refuse(ENOMEM, RTE_FLOW_ERROR_TYPE_ATTR, &attributes,
                          "no memory for a table of {} rules: make it for fewer",
                          attributes.nb_flows);
        }
    };
    auto table = in_either_way(make, [&]() -> FlowResult<void> {
        const auto made = make();
        if (!made) return tl::unexpected(made.error());
        return {};
    });
    if (!table) {
        choose_way(nullptr);
        return table;
    }
    for (auto* const pattern : patterns)
        ++pattern->users;
    for (auto* const action : actions)
        ++action->users;
    prepare(**table);
    return table;
}

FlowResult<FlowTable::Impl::OwnedTable>
FlowTable::Impl::make_table(const rte_flow_template_table_attr& attributes,
                            std::span<rte_flow_pattern_template*> patterns,
                            std::span<rte_flow_actions_template*> actions) {
    if (attributes.nb_flows == 0 || attributes.nb_flows > kMostRules)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ATTR, &attributes,
                      "a table of {} rules: there may be 1 … {}", attributes.nb_flows, kMostRules);
    if (const char* const why = compat::unserved_table_kind(attributes))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR, &attributes, "{}", why);
    auto table = std::make_unique<rte_flow_template_table>();
    table->attributes = attributes.flow_attr;
    size_t bytes = 0, parts = 0;
    for (const rte_flow_pattern_template* const pattern : patterns)
        if (auto ok = check_template(pattern_templates, pattern, "pattern template", "a pattern",
                                     attributes.flow_attr);
            !ok)
            return tl::unexpected(ok.error());
    for (const rte_flow_actions_template* const action : actions)
        if (auto ok = check_template(actions_templates, action, "actions template", "an actions",
                                     attributes.flow_attr);
            !ok)
            return tl::unexpected(ok.error());
    for (const rte_flow_pattern_template* const pattern : patterns)
        for (const rte_flow_actions_template* const action : actions) {
            auto recipe = make_recipe(attributes.flow_attr, *pattern, *action);
            if (!recipe) return tl::unexpected(recipe.error());
            // With zeros for values, the device can be asked.
            if (auto ok = validate(*recipe->model); !ok) return tl::unexpected(ok.error());
            bytes = std::max(bytes, recipe->model->bytes());
            parts = std::max(parts, recipe->model->parts().size());
            if (auto ok = own_counters(*table, *recipe, *action, attributes.nb_flows); !ok)
                return tl::unexpected(ok.error());
            table->recipes.push_back(std::move(*recipe));
        }
    table->slots = std::make_unique<RuleSlots>(attributes.nb_flows, bytes);
    rules.reserve(attributes.nb_flows, parts);
    table->patterns.assign(patterns.begin(), patterns.end());
    table->actions.assign(actions.begin(), actions.end());
    return table;
}

rte_flow_pattern_template*
FlowTable::create_pattern_template(const rte_flow_pattern_template_attr& attributes,
                                   const rte_flow_item* items, rte_flow_error* error) {
    return keep(impl_->pattern_templates, make_pattern_template(attributes, items), error);
}

int FlowTable::destroy(rte_flow_pattern_template* handle, rte_flow_error* error) {
    return drop(impl_->pattern_templates, handle, "pattern template", error);
}

rte_flow_actions_template*
FlowTable::create_actions_template(const rte_flow_actions_template_attr& attributes,
                                   const rte_flow_action* actions, const rte_flow_action* masks,
                                   rte_flow_error* error) {
    return keep(impl_->actions_templates, make_actions_template(attributes, actions, masks), error);
}

int FlowTable::destroy(rte_flow_actions_template* handle, rte_flow_error* error) {
    return drop(impl_->actions_templates, handle, "actions template", error);
}

rte_flow_template_table* FlowTable::create_template_table(
    const rte_flow_template_table_attr& attributes, std::span<rte_flow_pattern_template*> patterns,
    std::span<rte_flow_actions_template*> actions, rte_flow_error* error) {
    return keep(impl_->tables, impl_->create_table(attributes, patterns, actions), error);
}

int FlowTable::destroy(rte_flow_template_table* handle, rte_flow_error* error) {
    const auto at = find_handle(impl_->tables, handle);
    if (at == impl_->tables.end()) return report(unknown("template table", handle), error);
    if (!(*at)->slots->all_free())
        return report(
            {EBUSY, RTE_FLOW_ERROR_TYPE_HANDLE, handle, "the table has rules: destroy them first"},
            error);
    for (auto* const pattern : (*at)->patterns)
        --pattern->users;
    for (auto* const action : (*at)->actions)
        --action->users;
    impl_->tables.erase(at);
    impl_->choose_way(nullptr);
    return 0;
}

} // namespace rawqp
