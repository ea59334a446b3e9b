// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/table.hpp"

#include "drivers/net/rawqp/ethdev/flow/table_impl.hpp"
#include "drivers/net/rawqp/ethdev/kept_text.hpp"
#include "drivers/net/rawqp/ethdev/steering/group_table.hpp"
#include "drivers/net/rawqp/log.hpp"

namespace rawqp {

int report(const FlowError& refused, rte_flow_error* error) {
    const char* const text = keep_text(refused.what);
    RAWQP_LOG(DEBUG, "rte_flow: %s", text);
    return rte_flow_error_set(error, refused.code, refused.type, refused.cause, text);
}

tl::unexpected<FlowError> from_device(const Error& error) {
    return tl::unexpected(
        FlowError{error.code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr, error.what});
}

FlowError unknown(const char* what, const void* handle, int code, rte_flow_error_type type) {
    return {code, type, handle,
            fmt::format("no such {} on this port: it was destroyed already or is another port's",
                        what)};
}

FlowResult<void> query_counter(FlowCounter& counter, rte_flow_query_count& result) {
    const auto counts = counter.read();
    if (!counts) return from_device(counts.error());
    result.hits_set = result.bytes_set = 1;
    result.hits = counts->packets;
    result.bytes = counts->bytes;
    if (result.reset != 0) counter.reset(*counts);
    return {};
}

FlowTable::FlowTable(Steering& steering, RxQueueSet& queues, std::unique_ptr<PortGuard> guard,
                     const Meters* meters)
    : impl_(new Impl{steering, queues, std::move(guard), meters}) {}

FlowTable::FlowTable(Steering& steering, RxQueueSet& queues)
    : FlowTable(steering, queues, nullptr, nullptr) {}

FlowTable::~FlowTable() = default;

/// The level of a part of a rule that has its place.
uint16_t FlowTable::Impl::level_of(const rte_flow& rule, const RulePart& part) {
    if (rule.has_levels()) return PlaceRef::level_of(part.use);
    if (rule.group == 0) return static_cast<uint16_t>(rule.priority); // no classes are sent
    return GroupTable::place_of(rule.priority, depth_of(part.traffic), part.turn);
}

/// Gives the parts of a rule their levels, if it needs any. In doing so, other places of its
/// priority may come to share levels, including those it has just been given.
Result<void> FlowTable::Impl::place(rte_flow& rule, bool replaces) {
    if (!rule.has_levels()) return {};
    const uint16_t most = known_levels().flow_levels();
    const PlaceTerms terms = terms_of(rule, replaces);
    const LevelMap::Moves moves{
        [this](const RulePlace& other, uint16_t level) { return install_anew(other, level); },
        [this](const RulePlace& from, const RulePlace& to) { return merge(from, to); }};
    coming.push_back(&rule);
    Result<void> done;
    RulePlace wanted;
    for (RulePart& part : Backwards(rule.parts())) {
        if (part.whole || !rule.one_level)
            wanted = place_of(rule.priority, part.traffic, part.turn);
        auto placed = levels.acquire(wanted, terms, most, moves);
        if (!placed) {
            done = tl::unexpected(std::move(placed.error()));
            break;
        }
        part.use = std::move(*placed);
        wanted = PlaceRef::place_of(part.use);
        part.turn = wanted.turn;
    }
    coming.pop_back();
    return done;
}

/// On a stopped port: the device may turn out to have fewer levels than assumed.
Result<void> FlowTable::Impl::place_again() {
    for (rte_flow* rule = rules.first(); rule != nullptr; rule = rule->after)
        for (RulePart& part : rule->parts()) {
            if (rule->has_levels()) part.use = {};
            part.turn = 0;
        }
    for (rte_flow* rule = rules.first(); rule != nullptr; rule = rule->after)
        if (auto placed = place(*rule); !placed) return placed;
    return {};
}

template <class Each> void FlowTable::Impl::of_place(const RulePlace& place, Each each) {
    const auto look_at = [&](rte_flow& rule) {
        if (!rule.has_levels()) return;
        for (RulePart& part : rule.parts())
            if (part.use && PlaceRef::place_of(part.use) == place) each(part);
    };
    for (rte_flow* rule = rules.first(); rule != nullptr; rule = rule->after)
        look_at(*rule);
    for (rte_flow* const rule : coming)
        look_at(*rule);
}

/// Each rule is at both levels for a moment, and its packets meet the upper one. Either all rules
/// move or none: the map has one level per place. What leads to a table is removed before its
/// entries.
Result<void> FlowTable::Impl::install_anew(const RulePlace& place, uint16_t level) {
    std::vector<std::pair<RulePart*, SteeringRule>> moved;
    Result<void> done;
    of_place(place, [&](RulePart& part) {
        if (part.installed.engine == nullptr || !done) return;
        auto installed = steering.install(request.of(part, level));
        request.let_go();
        if (installed)
            moved.emplace_back(&part, std::move(*installed));
        else
            done = tl::unexpected(std::move(installed.error()));
    });
    while (!done && !moved.empty())
        moved.pop_back();
    for (auto& [part, installed] : Backwards(moved))
        part->installed = std::move(installed);
    return done;
}

Result<void> FlowTable::Impl::merge(const RulePlace& from, const RulePlace& to) {
    if (auto done = install_anew(from, levels.level_of(to)); !done) return done;
    std::vector<RulePart*> moved; // while any is installed, so is the place
    of_place(from, [&](RulePart& part) { moved.push_back(&part); });
    for (RulePart* const part : moved) {
        part->use = levels.share(to);
        part->turn = to.turn;
    }
    return {};
}

/// Whether Rx queues that the rule names are not set up yet.
bool FlowTable::Impl::is_early(const rte_flow& rule) const {
    const auto lacks_queue = [&](const RulePart& part) {
        return part.target && std::ranges::any_of(part.target->destination.queues, [&](auto queue) {
                   return queue < queues.count() && queues.wq(queue) == nullptr;
               });
    };
    return (!rule.egress && !steering.levels()) || std::ranges::any_of(rule.parts(), lacks_queue);
}

FlowResult<void> FlowTable::Impl::check_targets(const rte_flow& rule) const {
    for (const RulePart& part : rule.parts()) {
        if (!part.target) continue;
        for (const uint16_t queue : part.target->destination.queues)
            if (queue >= queues.count())
                return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, nullptr,
                              "the template names Rx queue {}, and the port has {} by now: make "
                              "the templates and the table anew",
                              queue, queues.count());
    }
    return {};
}

/// Asks the device, where possible, whether it takes every part of the rule.
FlowResult<void> FlowTable::Impl::validate(rte_flow& rule) {
    if (!running && is_early(rule)) return {}; // start() will look again
    for (const RulePart& part : rule.parts()) {
        // The highest level will do where the level is not known yet.
        const uint16_t level = rule.has_levels() ? uint16_t{0} : level_of(rule, part);
        const auto accepted = steering.validate(request.of(part, level));
        request.let_go();
        if (!accepted) return from_device(accepted.error());
    }
    return {};
}

void FlowTable::Impl::prepare_reports(const RuleTerms& rule) {
    if (rule.edits && rule.edits->sets(Protocol::meta))
        queues.use_metadata();
    else if (rule.tag != 0 || (rule.sample && rule.sample->tag != 0))
        queues.use_marks();
}

FlowResult<OwnedRule> FlowTable::Impl::realize(Plan& plan, const rte_flow_attr* attr,
                                               const rte_flow* replaced) {
    auto rule = make_rule(plan, attr, replaced);
    if (!rule) return rule;
    prepare_reports(plan);
    if (auto placed = place(**rule, replaced != nullptr); !placed)
        return from_device(placed.error());
    if (!running) {
        if (auto accepted = validate(**rule); !accepted) return tl::unexpected(accepted.error());
    } else if (auto installed = install(**rule); !installed)
        return from_device(installed.error());
    return rule;
}

int FlowTable::validate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                        const rte_flow_action* actions, rte_flow_error* error) {
    const auto check = [&] { return impl_->check(attr, pattern, actions); };
    auto accepted = check();
    if (!accepted) accepted = impl_->ask_commands(accepted.error(), check);
    return accepted ? 0 : report(accepted.error(), error);
}

FlowResult<void> FlowTable::Impl::check(const rte_flow_attr* attr, const rte_flow_item* pattern,
                                        const rte_flow_action* actions) {
    auto plan = translate(attr, pattern, actions);
    if (!plan) return tl::unexpected(plan.error());
    const auto rule = make_rule(*plan, attr, nullptr);
    if (!rule) return tl::unexpected(rule.error());
    return validate(**rule);
}

FlowResult<rte_flow*> FlowTable::Impl::create(const rte_flow_attr* attr,
                                              const rte_flow_item* pattern,
                                              const rte_flow_action* actions) {
    auto plan = translate(attr, pattern, actions);
    if (!plan) return tl::unexpected(plan.error());
    auto rule = realize(*plan, attr, nullptr);
    if (!rule) return tl::unexpected(std::move(rule.error()));
    rte_flow* const made = rule->get();
    rules.add(std::move(*rule));
    watch_age(*made);
    return made;
}

void FlowTable::Impl::watch(const AgeRef& age) {
    ages.add(age);
    if (on_ages) on_ages();
}

void FlowTable::Impl::watch_age(rte_flow& rule) {
    if (!rule.age) return;
    if (rule.counter != rule.age->counter()) rule.age->watch(*rule.counter);
    if (rule.age->shared()) return;
    if (rule.age->context() == nullptr) rule.age->set_context(&rule);
    watch(rule.age);
}

bool FlowTable::look_at_ages(FlowAge::Time now) { return impl_->ages.look(now); }

bool FlowTable::has_ages() const { return !impl_->ages.empty(); }

void FlowTable::on_ages(std::function<void()> call) { impl_->on_ages = std::move(call); }

int FlowTable::aged(void** contexts, uint32_t count, rte_flow_error* error) {
    if (contexts == nullptr && count != 0)
        return report({EINVAL, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                       "no room is given for the contexts of aged rules: ask for 0 to learn how "
                       "many there are"},
                      error);
    return static_cast<int>(impl_->ages.aged({contexts, count}));
}

int FlowTable::destroy(rte_flow* flow, rte_flow_error* error) {
    rte_flow* const rule = impl_->rules.find(flow);
    if (rule == nullptr) return report(unknown("rule", flow), error);
    impl_->rules.erase(*rule);
    impl_->settle_done("a rule is destroyed, and packets may go by it for longer");
    return 0;
}

/// Unlike with a single rule, the handles are gone even if this fails: see rte_flow_flush.
int FlowTable::flush(rte_flow_error* error) {
    impl_->rules.clear();
    const auto settled = impl_->settle();
    return settled ? 0 : report(settled.error(), error);
}

int FlowTable::query(rte_flow* flow, const rte_flow_action* action, void* data,
                     rte_flow_error* error) {
    rte_flow* const found = impl_->rules.find(flow);
    if (found == nullptr) return report(unknown("rule", flow), error);
    rte_flow& rule = *found;
    for (; action->type == RTE_FLOW_ACTION_TYPE_VOID; ++action)
        ;
    if (action->type == RTE_FLOW_ACTION_TYPE_AGE && rule.age) {
        rule.age->query(*static_cast<rte_flow_query_age*>(data), FlowAge::Clock::now());
        return 0;
    }
    if (action->type == RTE_FLOW_ACTION_TYPE_AGE)
        return report({EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, action,
                       "the rule has no age action: create it with one"},
                      error);
    if (action->type != RTE_FLOW_ACTION_TYPE_COUNT)
        return report({ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action,
                       "only actions count and age can be queried"},
                      error);
    if (!rule.counts)
        return report({EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, action,
                       "the rule has no count action: create it with one"},
                      error);
    const auto read = query_counter(*rule.counter, *static_cast<rte_flow_query_count*>(data));
    return read ? 0 : report(read.error(), error);
}

int FlowTable::dump(const rte_flow* flow, FILE* file, rte_flow_error* error) {
    if (flow != nullptr && impl_->rules.find(flow) == nullptr)
        return report(unknown("rule", flow), error);
    size_t number = 0;
    for (rte_flow* rule = impl_->rules.first(); rule != nullptr; rule = rule->after, ++number)
        if (flow == nullptr || flow == rule)
            std::fprintf(file, "rule %zu (%p):\n%s", number, static_cast<void*>(rule),
                         rule->text().c_str());
    return 0;
}

Figures FlowTable::figures() const {
    uint64_t parts = 0, egress = 0, counted = 0, aged = 0;
    for (const rte_flow* rule = impl_->rules.first(); rule != nullptr; rule = rule->after) {
        parts += rule->parts().size();
        egress += rule->egress ? 1 : 0;
        counted += rule->counts ? 1 : 0;
        aged += rule->age ? 1 : 0;
    }
    return {{"rules", impl_->rules.size()},
            {"device_rules", impl_->running ? parts : 0},
            {"egress_rules", egress},
            {"counting_rules", counted},
            {"aging_rules", aged},
            {"indirect_actions", impl_->shared.size()},
            {"template_tables", impl_->tables.size()}};
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
    Result<void> settled = impl_->lead_to_stages();
    if (settled) settled = impl_->steering.settle();
    if (settled)
        impl_->running = true;
    else
        stop();
    return settled;
}

void FlowTable::stop() {
    impl_->running = false;
    impl_->shapes.clear();
    for (rte_flow* rule = impl_->rules.first(); rule != nullptr; rule = rule->after) {
        if (rule->counter) rule->counter->note();
        take_out(*rule);
    }
    impl_->stages.take_out();
    (void)impl_->steering.settle(); // a dead device has no rules
}

} // namespace rawqp
