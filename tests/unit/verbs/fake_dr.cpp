// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/verbs/fake_dr.hpp"

#include <algorithm>
#include <cerrno>

namespace verbs_test {
namespace {

FakeDr* dr = nullptr;
int (*destroy_object)(mlx5dv_devx_obj*) = nullptr; ///< the device's

void check(bool right, const char* violation) {
    if (!right) dr->device.violations.emplace_back(violation);
}

template <class Handle, class T> Handle* handle(T& object) {
    return reinterpret_cast<Handle*>(&object);
}
template <class Handle, class T> Handle* keep(std::vector<std::unique_ptr<T>>& list, T object) {
    return handle<Handle>(*list.emplace_back(std::make_unique<T>(std::move(object))));
}
template <class T, class Handle> int drop(std::vector<std::unique_ptr<T>>& list, Handle* object) {
    const auto gone =
        std::erase_if(list, [&](const auto& each) { return handle<Handle>(*each) == object; });
    check(gone == 1, "an object of software steering destroyed twice");
    return 0;
}

std::vector<uint8_t> bytes_of(const mlx5dv_flow_match_parameters* parameters) {
    const auto* const first = reinterpret_cast<const uint8_t*>(parameters->match_buf);
    return {first, first + parameters->match_sz};
}

mlx5dv_dr_domain* create_domain(ibv_context*, mlx5dv_dr_domain_type type) {
    check(type == MLX5DV_DR_DOMAIN_TYPE_NIC_RX, "a domain of another kind");
    if (!dr->offered) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    ++dr->domains;
    return handle<mlx5dv_dr_domain>(*dr);
}

int destroy_domain(mlx5dv_dr_domain*) {
    check(dr->tables.empty() && dr->actions.empty(), "a domain destroyed while in use");
    --dr->domains;
    return 0;
}

int sync(mlx5dv_dr_domain*, uint32_t flags) {
    check(flags == MLX5DV_DR_DOMAIN_SYNC_FLAGS_SW, "sync: other flags");
    if (dr->sync_error != 0) return dr->sync_error;
    dr->unsettled = false;
    dr->leaving.clear();
    return 0;
}

int destroy_table(mlx5dv_dr_table* table) {
    check(std::ranges::none_of(dr->matchers,
                               [&](const auto& each) {
                                   return handle<const mlx5dv_dr_table>(*each->table) == table;
                               }),
          "a table destroyed while it has matchers");
    return drop(dr->tables, table);
}

mlx5dv_dr_matcher* create_matcher(mlx5dv_dr_table* table, uint16_t priority, uint8_t criteria,
                                  mlx5dv_flow_match_parameters* mask) {
    const auto* const of = reinterpret_cast<const DrTable*>(table);
    if (of->level != 0 && dr->refuses != 0) {
        errno = dr->refuses;
        return nullptr;
    }
    return keep<mlx5dv_dr_matcher>(dr->matchers,
                                   DrMatcher{of, priority, criteria, bytes_of(mask), 0});
}

int set_layout(mlx5dv_dr_matcher* matcher, mlx5dv_dr_matcher_layout* layout) {
    auto* const of = reinterpret_cast<DrMatcher*>(matcher);
    check(layout->flags == (MLX5DV_DR_MATCHER_LAYOUT_RESIZABLE | MLX5DV_DR_MATCHER_LAYOUT_NUM_RULE),
          "a matcher that cannot grow");
    check(layout->log_num_of_rules_hint > of->log_room, "a hash table that shrinks");
    if (!dr->resizes) return errno = ENOTSUP;
    of->log_room = layout->log_num_of_rules_hint;
    return 0;
}

int destroy_matcher(mlx5dv_dr_matcher* matcher) {
    check(std::ranges::none_of(dr->rules,
                               [&](const auto& each) {
                                   return handle<const mlx5dv_dr_matcher>(*each->matcher) ==
                                          matcher;
                               }),
          "a matcher destroyed while it has rules");
    return drop(dr->matchers, matcher);
}

mlx5dv_dr_rule* create_rule(mlx5dv_dr_matcher* matcher, mlx5dv_flow_match_parameters* value,
                            size_t count, mlx5dv_dr_action** actions) {
    if (dr->fail_rule != 0 && --dr->fail_rule == 0) {
        errno = ENOSPC;
        return nullptr;
    }
    DrRule rule{reinterpret_cast<const DrMatcher*>(matcher), bytes_of(value), {}};
    for (size_t i = 0; i < count; ++i)
        rule.actions.push_back(reinterpret_cast<const DrAction*>(actions[i]));
    if (rule.group() != 0) dr->unsettled = true; // rules of the root are commands
    return keep<mlx5dv_dr_rule>(dr->rules, std::move(rule));
}

int destroy_rule(mlx5dv_dr_rule* handle) {
    const auto* const rule = reinterpret_cast<const DrRule*>(handle);
    if (rule->group() != 0) {
        dr->unsettled = true;
        for (const DrAction* const action : rule->actions)
            if (action->object != nullptr) dr->leaving.insert(action->object);
    }
    return drop(dr->rules, handle);
}

mlx5dv_dr_action* keep_action(DrAction action) {
    return keep<mlx5dv_dr_action>(dr->actions, std::move(action));
}

int destroy_action(mlx5dv_dr_action* handle) {
    const auto* const action = reinterpret_cast<const DrAction*>(handle);
    check(std::ranges::none_of(
              dr->rules,
              [&](const auto& rule) { return std::ranges::count(rule->actions, action) != 0; }),
          "an action destroyed while a rule has it");
    return drop(dr->actions, handle);
}

int destroy_devx(mlx5dv_devx_obj* object) {
    check(!dr->leaving.contains(object), "an object destroyed before the device has seen the last "
                                         "of a rule that refers to it");
    return destroy_object(object);
}

} // namespace

FakeDr::FakeDr(FakeRdma& of) : device(of) {
    using Kind = DrAction::Kind;
    dr = this;
    verbs::Api& api = of.api_to_fill();
    destroy_object = api.mlx5_devx_obj_destroy;
    api.mlx5_devx_obj_destroy = destroy_devx;
    api.mlx5_dr_domain_create = create_domain;
    api.mlx5_dr_domain_destroy = destroy_domain;
    api.mlx5_dr_domain_sync = sync;
    api.mlx5_dr_table_create = [](mlx5dv_dr_domain*, uint32_t level) {
        return keep<mlx5dv_dr_table>(dr->tables, DrTable{level});
    };
    api.mlx5_dr_table_destroy = destroy_table;
    api.mlx5_dr_matcher_create = create_matcher;
    api.mlx5_dr_matcher_destroy = destroy_matcher;
    api.mlx5_dr_matcher_set_layout = set_layout;
    api.mlx5_dr_rule_create = create_rule;
    api.mlx5_dr_rule_destroy = destroy_rule;
    api.mlx5_dr_to_table = [](mlx5dv_dr_table* table) {
        return keep_action({Kind::table, reinterpret_cast<const DrTable*>(table)});
    };
    api.mlx5_dr_to_tir = [](mlx5dv_devx_obj* tir) {
        return keep_action({Kind::tir, nullptr, tir});
    };
    api.mlx5_dr_drop = [] { return keep_action({}); };
    api.mlx5_dr_tag = [](uint32_t tag) { return keep_action({Kind::tag, nullptr, nullptr, tag}); };
    api.mlx5_dr_count = [](mlx5dv_devx_obj* counter, uint32_t) {
        return keep_action({Kind::count, nullptr, counter});
    };
    api.mlx5_dr_modify_header = [](mlx5dv_dr_domain*, uint32_t flags, size_t size, __be64* data) {
        const auto* const first = reinterpret_cast<const uint8_t*>(data);
        return keep_action({Kind::rewrite, nullptr, nullptr, 0, flags != 0, {first, first + size}});
    };
    api.mlx5_dr_packet_reformat = [](mlx5dv_dr_domain*, uint32_t flags,
                                     mlx5dv_flow_action_packet_reformat_type, size_t size,
                                     void* data) {
        const auto* const first = static_cast<const uint8_t*>(data);
        return keep_action(
            {Kind::reformat, nullptr, nullptr, 0, flags != 0, {first, first + size}});
    };
    api.mlx5_dr_action_destroy = destroy_action;
}

FakeDr::~FakeDr() {
    check(domains == 0 && rules.empty() && matchers.empty(), "software steering is still in use");
    dr = nullptr;
}

} // namespace verbs_test
