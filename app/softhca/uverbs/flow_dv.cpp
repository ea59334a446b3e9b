// SPDX-License-Identifier: BSD-3-Clause
// Flows in the device's own terms: mlx5dv_create_flow_matcher and mlx5dv_create_flow.
#include "app/softhca/prm/match.hpp"
#include "app/softhca/uverbs/commands.hpp"
#include "app/softhca/uverbs/flow_match.hpp"

#include <cerrno>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

namespace softhca::uverbs {
namespace {

using core::Limits;

constexpr size_t kMaxMatchBytes = sizeof(mlx5_ib_match_params);
constexpr uint32_t kTagBits = 24;

/// As mlx5_ib decides it: by the destination MAC or IPv4 address, value and mask.
bool is_multicast_only(const core::LayerKey& value, const core::LayerKey& mask) {
    constexpr size_t kIpv4 = 12;
    const auto is_class_d = [](uint8_t byte) { return (byte & 0xf0) == 0xe0; };
    return (value.dst_mac[0] & mask.dst_mac[0] & 1) ||
           (is_class_d(value.dst_ip[kIpv4]) && is_class_d(mask.dst_ip[kIpv4]));
}

/// Where the flow's packets go: a QP, or nowhere. Other destinations need DevX.
Errno read_destination(Context& context, const IoctlAttributes& attributes, core::FlowAttr& flow) {
    const auto qp_handle = attributes.number(MLX5_IB_ATTR_CREATE_FLOW_DEST_QP);
    const uint64_t flags = attributes.number(MLX5_IB_ATTR_CREATE_FLOW_FLAGS).value_or(0);
    for (const uint16_t id :
         {MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX, MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS,
          MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX})
        if (attributes.has(id)) return EOPNOTSUPP;
    if (flags & ~uint64_t{MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP |
                          MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS})
        return EINVAL;
    if (flags & MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS) return EOPNOTSUPP;
    flow.drop = flags & MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP;
    if (flow.drop == qp_handle.has_value()) return EINVAL; // both, or neither
    if (flow.drop) return 0;
    const Qp* qp = context.objects.find<Qp>(*qp_handle);
    if (!qp || !qp->tirn) return EINVAL;
    flow.tirs = {qp->tirn};
    return 0;
}

} // namespace

Errno create_flow_matcher(Context& context, const IoctlAttributes& attributes) {
    const InBuffer mask = attributes.in(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK);
    if (mask.size() == 0 || mask.size() > kMaxMatchBytes) return EINVAL;
    const uint64_t table = attributes.number(MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE)
                               .value_or(MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX);
    if (table != MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX ||
        attributes.number(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS).value_or(0))
        return EOPNOTSUPP; // rules for what is sent

    auto matcher = std::make_unique<FlowMatcher>();
    matcher->flow_type = attributes.enum_element(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE);
    matcher->priority = attributes.in(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE).as<uint16_t>();
    // Whether the device can match this is found out when it gets the first flow.
    matcher->mask.assign(mask.bytes().begin(), mask.bytes().end());
    attributes.set_handle(MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE,
                          context.objects.add(std::move(matcher)));
    return 0;
}

Errno destroy_flow_matcher(Context& context, const IoctlAttributes& attributes) {
    const auto handle = attributes.number(MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE);
    return context.objects.destroy<FlowMatcher>(handle.value_or(0), *context.device);
}

Errno create_flow_dv(Context& context, const IoctlAttributes& attributes) {
    if (const Errno error = may_use_raw_packets()) return error;
    auto* matcher = context.objects.find<FlowMatcher>(
        attributes.number(MLX5_IB_ATTR_CREATE_FLOW_MATCHER).value_or(0));
    const InBuffer value = attributes.in(MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE);
    if (!matcher || value.size() == 0 || value.size() > kMaxMatchBytes) return EINVAL;
    if (matcher->flow_type != MLX5_IB_FLOW_TYPE_NORMAL) return EOPNOTSUPP;
    if (matcher->priority >= Limits::kBypassPriorities) return ENOMEM;

    core::FlowAttr flow;
    if (const Errno error = read_destination(context, attributes, flow)) return error;
    if (attributes.has(MLX5_IB_ATTR_CREATE_FLOW_TAG)) {
        const uint32_t tag = attributes.in(MLX5_IB_ATTR_CREATE_FLOW_TAG).as<uint32_t>();
        if (tag >> kTagBits) return EINVAL;
        flow.tag = tag;
    }
    const auto match = prm::read_match_mask(matcher->mask);
    if (!match || !lies_within(value.bytes(), matcher->mask)) return EINVAL;
    flow.mask = match->mask;
    flow.value = prm::read_match_value(value.bytes(), *match);
    flow.priority =
        bypass_priority(matcher->priority, is_multicast_only(flow.value.outer, flow.mask.outer));
    const auto number = context.device->create_flow(flow);
    if (!number) return errno_of(number);

    auto object = std::make_unique<Flow>();
    object->rules = {*number};
    object->matcher = matcher;
    matcher->users++;
    attributes.set_handle(MLX5_IB_ATTR_CREATE_FLOW_HANDLE, context.objects.add(std::move(object)));
    return 0;
}

Errno destroy_flow_dv(Context& context, const IoctlAttributes& attributes) {
    const auto handle = attributes.number(MLX5_IB_ATTR_DESTROY_FLOW_HANDLE);
    return context.objects.destroy<Flow>(handle.value_or(0), *context.device);
}

} // namespace softhca::uverbs
