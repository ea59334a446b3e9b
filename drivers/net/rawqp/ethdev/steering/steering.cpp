// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"

#include "drivers/net/rawqp/ethdev/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/names.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>
#include <cerrno>

namespace rawqp {

uint32_t SteeringLevels::flow_priorities() const {
    if (priorities <= filter_levels())
        return 1; // a device with one priority: rules and filters share it
    return std::max(1, (priorities - filter_levels()) / classes());
}

uint16_t SteeringLevels::flow_level(uint32_t rte_priority, TrafficClass traffic) const {
    return static_cast<uint16_t>(rte_priority * classes() + depth(traffic));
}

uint16_t SteeringLevels::filter_level(TrafficClass traffic, unsigned generation) const {
    const unsigned first = priorities > filter_levels() ? priorities - filter_levels() : 0u;
    const unsigned last = generations() - 1u;
    return static_cast<uint16_t>(first + depth(traffic) * generations() +
                                 (last - generation % generations()));
}

namespace {

bool multicast_only(const FlowMatch& match) {
    return (match.eth.val.dst_mac[0] & match.eth.mask.dst_mac[0] & 1) != 0;
}

} // namespace

std::vector<uint8_t> flow_attr_bytes(const SteeringRequest& request, uint8_t ib_port) {
    ibv_flow_attr attr{};
    attr.type = request.type;
    attr.port = ib_port;

    std::vector<uint8_t> bytes;
    bytes.reserve(sizeof attr + request.match.byte_count() + sizeof(ibv_flow_spec_action_tag) +
                  sizeof(ibv_flow_spec_action_drop) + sizeof(ibv_flow_spec_counter_action));
    bytes.resize(sizeof attr);
    // The tag comes first: mlx5_ib tells a multicast rule by its first spec alone.
    if (request.tag != 0 || (request.strict_level && multicast_only(request.match))) {
        auto tag = make_spec<ibv_flow_spec_action_tag>(IBV_FLOW_SPEC_ACTION_TAG);
        tag.tag_id = request.tag; // 0 is what packets report without a tag
        append_spec(bytes, tag, tag.tag_id);
        ++attr.num_of_specs;
    }
    if (request.type == IBV_FLOW_ATTR_NORMAL) {
        attr.priority = request.level;
        request.match.append_to(bytes);
        attr.num_of_specs += request.match.spec_count();
    }
    if (request.drop) {
        append_spec(bytes, make_spec<ibv_flow_spec_action_drop>(IBV_FLOW_SPEC_ACTION_DROP));
        ++attr.num_of_specs;
    }
    if (request.counters != nullptr) {
        auto count = make_spec<ibv_flow_spec_counter_action>(IBV_FLOW_SPEC_ACTION_COUNT);
        count.counters = request.counters;
        append_spec(bytes, count, count.counters);
        ++attr.num_of_specs;
    }

    attr.size = static_cast<uint16_t>(bytes.size());
    std::memcpy(bytes.data(), &attr, sizeof attr);
    return bytes;
}

namespace {

/// Narrows a match to frames from the broadcast address to address zero: no station sends such.
void make_unmatchable(ibv_flow_spec_eth& eth) {
    std::memset(eth.val.dst_mac, 0x00, sizeof eth.val.dst_mac);
    std::memset(eth.mask.dst_mac, 0xff, sizeof eth.mask.dst_mac);
    std::memset(eth.val.src_mac, 0xff, sizeof eth.val.src_mac);
    std::memset(eth.mask.src_mac, 0xff, sizeof eth.mask.src_mac);
}

std::string describe(const SteeringRequest& request) {
    const std::string kind = request.type == IBV_FLOW_ATTR_NORMAL        ? request.match.layers()
                             : request.type == IBV_FLOW_ATTR_ALL_DEFAULT ? "all-default"
                                                                         : "multicast-default";
    if (request.drop) return fmt::format("{} at steering priority {} to drop", kind, request.level);
    return fmt::format(
        "{} at steering priority {} to {} (hash fields: {})", kind, request.level,
        request.destination.queues.size() == 1
            ? fmt::format("Rx queue {}", request.destination.queues[0])
            : fmt::format("a table of {} Rx queue entries", request.destination.queues.size()),
        hash_field_names(request.destination.hash_fields));
}

} // namespace

Result<SteeringRule> Steering::install(const SteeringRequest& request) {
    auto qp = qps_.acquire(request.destination);
    if (!qp) return tl::unexpected(qp.error());
    SteeringRule rule{HashQp(*qp, ReleaseQp{&qps_}), {}};

    std::vector<uint8_t> bytes = flow_attr_bytes(request, ib_port_);
    rule.flow = verbs::Flow(ibv_create_flow(*qp, reinterpret_cast<ibv_flow_attr*>(bytes.data())),
                            {ibv_destroy_flow, "steering rule"});
    // Rules for multicast may stand apart from the levels.
    const bool proof = request.type == IBV_FLOW_ATTR_NORMAL && !multicast_only(request.match);
    if (rule.flow && proof && request.level + 1 == SteeringLevels::kMaxPriorities)
        levels_ = SteeringLevels{};
    if (!rule.flow) {
        const int error = errno;
        return fail(error, "cannot create steering rule {}: {}", describe(request),
                    errno_text(error, Attempt::steer));
    }
    return rule;
}

Result<void> Steering::validate(SteeringRequest request) {
    make_unmatchable(request.match.eth);
    if (const auto rule = install(request); !rule) return tl::unexpected(rule.error());
    return {};
}

Result<SteeringLevels> Steering::levels() {
    if (levels_) return *levels_;
    for (uint16_t count = SteeringLevels::kMaxPriorities;;
         count = static_cast<uint16_t>(count / 2)) {
        SteeringRequest probe;
        probe.level = static_cast<uint16_t>(count - 1);
        probe.destination.queues = {0};
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
