// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"

#include "common/verbs/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>
#include <cerrno>

namespace rawqp {

uint16_t SteeringLevels::flow_levels() const {
    // On a device with one priority, rules and filters share it.
    return priorities <= filter_levels() ? uint16_t{1}
                                         : static_cast<uint16_t>(priorities - filter_levels());
}

uint16_t SteeringLevels::filter_level(TrafficClass traffic, unsigned generation) const {
    const unsigned first = priorities > filter_levels() ? priorities - filter_levels() : 0u;
    const unsigned last = generations() - 1u;
    return static_cast<uint16_t>(first + depth(traffic) * generations() +
                                 (last - generation % generations()));
}

namespace {

/// Narrows a pattern to frames from the broadcast address to address zero: no station sends such.
void make_unmatchable(Layer& eth) {
    constexpr size_t kAddress = RTE_ETHER_ADDR_LEN;
    std::fill_n(eth.value.begin(), kAddress, uint8_t{0x00});
    std::fill_n(eth.value.begin() + kAddress, kAddress, uint8_t{0xff});
    std::fill_n(eth.mask.begin(), 2 * kAddress, uint8_t{0xff});
}

std::string describe(const SteeringRequest& request) {
    const std::string kind = request.type == IBV_FLOW_ATTR_NORMAL        ? request.pattern.names()
                             : request.type == IBV_FLOW_ATTR_ALL_DEFAULT ? "all-default"
                                                                         : "multicast-default";
    if (request.drop) return fmt::format("{} to drop", kind);
    if (request.jump) return fmt::format("{} to group {}", kind, *request.jump);
    if (request.passes) return fmt::format("{} to lower priorities", kind);
    if (request.to_kernel) return fmt::format("{} to the kernel", kind);
    if (!request.target) return fmt::format("{} for what is sent", kind);
    const RssDestination& to = request.target->destination;
    return fmt::format("{} to {} (hash fields: {})", kind,
                       to.queues.size() == 1
                           ? fmt::format("Rx queue {}", to.queues[0])
                           : fmt::format("a table of {} Rx queue entries", to.queues.size()),
                       hash_field_names(to.hash_fields));
}

} // namespace

Result<std::unique_ptr<Steering>> Steering::make(const verbs::Api& api, RssQps& qps,
                                                 uint8_t ib_port, FlowEngine wanted) {
    std::unique_ptr<Steering> made(new Steering(qps, std::make_unique<Devx>(api, qps.context())));
    auto& engines = made->engines_;
    if (wanted != FlowEngine::mlx5) engines.push_back(make_verbs_engine(ib_port));
    if (wanted != FlowEngine::verbs) {
        ibv_context* const context = qps.context();
        if (auto mlx5 = make_mlx5_engine(api, context, *made->devx_, qps.queues(), made->way_)) {
            auto software =
                make_software_engine(api, context, *made->devx_, qps.queues(), made->way_);
            made->software_ = software.get();
            engines.push_back(std::move(mlx5));
            engines.push_back(std::move(software));
        }
    }
    if (engines.empty())
        return fail(ENOTSUP, "flow_engine=mlx5: this is no device of libmlx5, or the library is "
                             "older than rdma-core 44: use flow_engine=auto");
    return made;
}

tl::expected<const Engine*, LackText> Steering::engine_for(const SteeringRequest& request) const {
    std::optional<LackText> first;
    for (const auto& engine : engines_) {
        if (!engine->in_charge(request)) continue;
        const std::optional<Lack> lack = engine->lack(request);
        if (!lack) return engine.get();
        if (!first || lack->layer == first->layer) // the more expressive engine says it best
            first = {lack->layer, lack->concern, lack->what()};
        else
            first->what += fmt::format("; by {}: {}", engine->name(), lack->what());
    }
    return tl::unexpected(std::move(*first)); // there is an engine
}

bool takes_lro(const SteeringRequest& request) {
    if (!request.target || request.drop || request.type != IBV_FLOW_ATTR_NORMAL) return false;
    const auto to_group = [](const Layer& layer) {
        constexpr size_t kDestination = 16; // 224.0.0.0/4
        return layer.protocol == Protocol::ipv4 && layer.depth == 0 &&
               layer.mask[kDestination] >> 4 == 0xf && layer.value[kDestination] >> 4 == 0xe;
    };
    return !request.pattern.multicast_only() &&
           std::ranges::none_of(request.pattern.layers(), to_group);
}

void Steering::use_lro(const std::optional<LroTerms>& terms) {
    lro_ = terms.has_value();
    for (const auto& engine : engines_)
        engine->use_lro(terms);
}

/// For a rule that was not made: engines that lead to queues through TIRs cannot say which queue is
/// missing.
Result<void> Steering::check_queues(const SteeringRequest& request) const {
    if (request.sample)
        if (auto there = qps_.check_queues(*request.sample->target); !there) return there;
    if (!request.target || request.drop) return {};
    return qps_.check_queues(*request.target);
}

/// Inline, as FlowTable::Impl::install() is.
[[gnu::always_inline]] inline Result<void> Steering::put(const SteeringRequest& request,
                                                         SteeringRule& rule) {
    const bool by_tir = lro_ && takes_lro(request);
    if (request.target && request.group == 0 && !by_tir && !request.class_depth) {
        auto qp = qps_.acquire(request.target);
        if (!qp) return tl::unexpected(qp.error());
        rule.qp = std::move(*qp);
    }

    int error = EOPNOTSUPP; // for a caller that has not looked for an engine
    const Engine* known = by_tir ? nullptr : request.engine; // it may have been found without LRO
    if (known != nullptr && !known->in_charge(request)) known = nullptr;
    for (const auto& engine : engines_) {
        if (!engine->in_charge(request)) continue;
        if (known != nullptr ? engine.get() != known : engine->lack(request).has_value()) continue;
        known = nullptr; // nothing is known of those after it
        if (engine->create(request, rule.qp.get(), rule.device)) {
            rule.engine = engine.get();
            break;
        }
        error = errno;
        if (!is_refusal(error)) break;
    }
    // Rules for multicast may be outside the levels.
    const bool proof = request.type == IBV_FLOW_ATTR_NORMAL && request.group == 0 &&
                       !request.egress && !request.pattern.multicast_only();
    if (rule.engine != nullptr && proof && request.level + 1 == SteeringLevels::kMaxPriorities)
        levels_ = SteeringLevels{};
    if (rule.engine == nullptr && by_tir) // nobody may have looked for an engine since LRO is on
        if (const auto engine = engine_for(request); !engine)
            return fail(ENOTSUP, "cannot create steering rule {}: {}", describe(request),
                        engine.error().what);
    if (rule.engine != nullptr) return {};
    if (auto there = check_queues(request); !there) return there;
    return fail(error, "cannot create steering rule {}: {}", describe(request),
                verbs::errno_text(error, verbs::Attempt::steer));
}

/// A tunnel name that no longer fits is gone before the first such packet arrives.
Result<void> Steering::install(const SteeringRequest& request, SteeringRule& rule) {
    if (request.target && !request.drop)
        rule.tunnels = TunnelUse(request.target, tunnels_of(request.pattern));
    if (request.sample)
        rule.copied_tunnels =
            std::make_unique<TunnelUse>(request.sample->target, tunnels_of(request.pattern));
    auto done = put(request, rule);
    if (!done) rule = {};
    return done;
}

Result<SteeringRule> Steering::install(const SteeringRequest& request) {
    SteeringRule rule;
    if (auto done = install(request, rule); !done) return tl::unexpected(std::move(done.error()));
    return rule;
}

Result<void> Steering::settle() {
    const int error = software_ != nullptr ? software_->settle() : 0;
    if (error == 0) return {};
    return fail(error, "the device does not get its rules: {}",
                verbs::errno_text(error, verbs::Attempt::steer));
}

Result<void> Steering::validate(SteeringRequest request) {
    make_unmatchable(request.pattern.eth());
    SteeringRule rule;
    return put(request, rule);
}

Result<SteeringLevels> Steering::levels() {
    if (levels_) return *levels_;
    for (uint16_t count = SteeringLevels::kMaxPriorities;;
         count = static_cast<uint16_t>(count / 2)) {
        SteeringRequest probe;
        probe.level = static_cast<uint16_t>(count - 1);
        probe.target = qps_.target(uint16_t{0});
        const auto accepted = validate(probe);
        if (accepted) {
            RAWQP_LOG(INFO, "the device has %u steering priorities or more", count);
            return *(levels_ = SteeringLevels{count});
        }
        // Too high a priority shows as EINVAL, ENOMEM or ENOSPC, depending on the kernel.
        if (count == 1 || accepted.error().code == EPERM) return tl::unexpected(accepted.error());
    }
}

} // namespace rawqp
