// SPDX-License-Identifier: BSD-3-Clause
// Flows in the device's own terms: mlx5dv_create_flow_matcher and mlx5dv_create_flow.
#include "app/softhca/prm/match.hpp"
#include "app/softhca/uverbs/commands.hpp"
#include "app/softhca/uverbs/flow_match.hpp"

#include <cerrno>
#include <infiniband/verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

namespace softhca::uverbs {
namespace {

using core::Limits;

constexpr size_t kMaxMatchBytes = sizeof(mlx5_ib_match_params);
constexpr uint32_t kTagBits = 24;
constexpr size_t kMaxActions = 2; // MLX5_IB_CREATE_FLOW_MAX_FLOW_ACTIONS of mlx5_ib

/// As mlx5_ib decides it: by the destination MAC or IPv4 address, value and mask.
bool is_multicast_only(const core::LayerKey& value, const core::LayerKey& mask) {
    constexpr size_t kIpv4 = 12;
    const auto is_class_d = [](uint8_t byte) { return (byte & 0xf0) == 0xe0; };
    return (value.dst_mac[0] & mask.dst_mac[0] & 1) ||
           (is_class_d(value.dst_ip[kIpv4]) && is_class_d(mask.dst_ip[kIpv4]));
}

/// The kind of tables that a matcher is for: given by one of two attributes, not both.
Errno read_table_type(const IoctlAttributes& attributes, FlowMatcher& matcher) {
    const auto type = attributes.number(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE);
    const auto flags = attributes.number(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS);
    if (type && flags) return EINVAL;
    if (flags.value_or(0) & ~uint64_t{IBV_FLOW_ATTR_FLAGS_EGRESS}) return EINVAL;
    const uint64_t wanted = type                ? *type
                            : flags.value_or(0) ? uint64_t{MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX}
                                                : uint64_t{MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX};
    if (wanted != MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX &&
        wanted != MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX)
        return EOPNOTSUPP; // of switches and of RDMA
    matcher.sends = wanted == MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX;
    return 0;
}

/// An object created by a command: a TIR, or a flow table.
Errno read_devx_destination(const Context& context, uint64_t handle, core::FlowAttr& flow) {
    const auto* const object = context.objects.find<DevxObject>(handle);
    if (!object) return context.objects.absence(handle);
    switch (object->role) {
    case DevxObject::Role::tir:
        if (flow.domain == core::FlowDomain::egress) return EINVAL;
        flow.tirs = {object->number};
        return 0;
    case DevxObject::Role::flow_table: flow.tables = {object->number}; return 0;
    default: return EINVAL;
    }
}

/// The destination of the flow's packets: a QP, an object created by a command, the wire, what
/// comes after the rules, or nowhere.
Errno read_destination(Context& context, const IoctlAttributes& attributes, core::FlowAttr& flow) {
    const auto qp_handle = attributes.number(MLX5_IB_ATTR_CREATE_FLOW_DEST_QP);
    const uint64_t flags = attributes.number(MLX5_IB_ATTR_CREATE_FLOW_FLAGS).value_or(0);
    const auto devx_handle = attributes.number(MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX);
    if (flags & ~uint64_t{MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP |
                          MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS})
        return EINVAL;
    flow.default_miss = flags & MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS;
    flow.drop = flags & MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP;
    if (flow.default_miss && flow.domain == core::FlowDomain::egress)
        return flow.drop ? EINVAL : EOPNOTSUPP; // nothing comes after these rules
    const int ways =
        flow.drop + flow.default_miss + qp_handle.has_value() + devx_handle.has_value();
    if (flow.domain == core::FlowDomain::egress ? qp_handle || ways > 1 : ways != 1) return EINVAL;
    if (devx_handle) return read_devx_destination(context, *devx_handle, flow);
    if (!qp_handle) return 0;
    const Qp* qp = context.objects.find<Qp>(*qp_handle);
    if (!qp) return context.objects.absence(*qp_handle);
    if (!qp->tirn) return EINVAL;
    flow.tirs = {qp->tirn};
    return 0;
}

/// One counter created by a command, or one of a bulk by its offset.
Errno read_counter(const Context& context, const IoctlAttributes& attributes,
                   core::FlowAttr& flow) {
    constexpr uint16_t kOffset = MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET;
    const InBuffer handles = attributes.in(MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX);
    if (handles.size() == 0) return 0;
    const InBuffer offsets = attributes.in(kOffset);
    if (handles.size() != sizeof(uint32_t)) return EINVAL;
    if (attributes.has(kOffset) && offsets.size() != sizeof(uint32_t)) return EINVAL;
    const auto* const counters = context.objects.find<DevxObject>(handles.as<uint32_t>());
    if (!counters) return context.objects.absence(handles.as<uint32_t>());
    const auto offset = offsets.as<uint32_t>();
    if (counters->role != DevxObject::Role::flow_counters) return EINVAL;
    if (offset != 0 && offset >= counters->count) return EINVAL;
    flow.counters = {counters->number + offset};
    return 0;
}

/// What is done to the packets on the way there.
Errno read_actions(const Context& context, const IoctlAttributes& attributes, Flow& object,
                   core::FlowAttr& flow) {
    const InBuffer handles = attributes.in(MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS);
    if (handles.size() % sizeof(uint32_t) || handles.size() > kMaxActions * sizeof(uint32_t))
        return EINVAL;
    for (auto rest = handles.bytes(); !rest.empty(); rest = rest.subspan(sizeof(uint32_t))) {
        const auto handle = InBuffer(rest.data(), rest.size()).as<uint32_t>();
        FlowAction* const action = context.objects.find<FlowAction>(handle);
        if (!action) return context.objects.absence(handle);
        if (const Errno error = add_flow_action(*action, object, flow.rewrite)) return error;
    }
    if (flow.default_miss && handles.size() != 0) return EOPNOTSUPP; // goes on as it arrived
    return 0;
}

Errno read_flow(Context& context, const IoctlAttributes& attributes, const FlowMatcher& matcher,
                Flow& object, core::FlowAttr& flow) {
    const InBuffer value = attributes.in(MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE);
    flow.domain = matcher.sends ? core::FlowDomain::egress : core::FlowDomain::bypass;
    if (const Errno error = read_destination(context, attributes, flow)) return error;
    if (const Errno error = read_counter(context, attributes, flow)) return error;
    if (const Errno error = read_actions(context, attributes, object, flow)) return error;
    if (attributes.has(MLX5_IB_ATTR_CREATE_FLOW_TAG)) {
        const uint32_t tag = attributes.in(MLX5_IB_ATTR_CREATE_FLOW_TAG).as<uint32_t>();
        if (tag >> kTagBits) return EINVAL;
        flow.tag = tag;
    }
    const auto match = prm::read_match_mask(matcher.mask);
    if (!match || !lies_within(value.bytes(), matcher.mask)) return EINVAL;
    flow.mask = match->mask;
    flow.value = prm::read_match_value(value.bytes(), *match);
    flow.priority =
        bypass_priority(matcher.priority, is_multicast_only(flow.value.outer, flow.mask.outer));
    return 0;
}

} // namespace

Errno create_flow_matcher(Context& context, const IoctlAttributes& attributes) {
    const InBuffer mask = attributes.in(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK);
    if (mask.size() == 0 || mask.size() > kMaxMatchBytes) return EINVAL;
    auto matcher = std::make_unique<FlowMatcher>();
    if (const Errno error = read_table_type(attributes, *matcher)) return error;
    matcher->flow_type = attributes.enum_element(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE);
    matcher->priority = attributes.in(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE).as<uint16_t>();
    // Whether the device can match this is determined with the first flow.
    matcher->mask.assign(mask.bytes().begin(), mask.bytes().end());
    attributes.set_handle(MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE,
                          context.objects.add(std::move(matcher)));
    return 0;
}

Errno create_flow_dv(Context& context, const IoctlAttributes& attributes) {
    if (const Errno error = may_use_raw_packets()) return error;
    const uint64_t handle = attributes.number(MLX5_IB_ATTR_CREATE_FLOW_MATCHER).value_or(0);
    auto* matcher = context.objects.find<FlowMatcher>(handle);
    if (!matcher) return context.objects.absence(handle);
    const InBuffer value = attributes.in(MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE);
    if (value.size() == 0 || value.size() > kMaxMatchBytes) return EINVAL;
    if (matcher->flow_type != MLX5_IB_FLOW_TYPE_NORMAL) return EOPNOTSUPP;
    if (matcher->priority >= Limits::kBypassPriorities) return ENOMEM;

    core::FlowAttr flow;
    auto object = std::make_unique<Flow>();
    Errno error = read_flow(context, attributes, *matcher, *object, flow);
    if (!error) {
        const auto number = context.device->create_flow(flow);
        if (number) object->rules = {*number};
        error = errno_of(number);
    }
    if (error) {
        (void)object->destroy(*context.device);
        return error;
    }
    object->matcher = matcher;
    matcher->users++;
    attributes.set_handle(MLX5_IB_ATTR_CREATE_FLOW_HANDLE, context.objects.add(std::move(object)));
    return 0;
}

} // namespace softhca::uverbs
