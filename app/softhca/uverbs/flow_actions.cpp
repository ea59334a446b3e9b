// SPDX-License-Identifier: BSD-3-Clause
// Flow actions: mlx5dv_create_flow_action_modify_header and _packet_reformat.
#include "app/softhca/prm/edits.hpp"
#include "app/softhca/uverbs/commands.hpp"

#include <cerrno>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

namespace softhca::uverbs {
namespace {

using core::Limits;

constexpr uint64_t kReceive = MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX;
constexpr uint64_t kTransmit = MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX;

/// An enumerator that is not known: a later one, or none at all.
Errno unknown(uint64_t enumerator) { return enumerator > UINT32_MAX ? EINVAL : EOPNOTSUPP; }

/// Table types known to mlx5_ib; the device has tables of the first two only.
Errno check_table_type(std::optional<uint64_t> type) {
    if (!type || *type > MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX) return EINVAL;
    return *type == kReceive || *type == kTransmit ? 0 : EOPNOTSUPP;
}

void answer(Context& context, const IoctlAttributes& attributes, uint16_t handle,
            std::unique_ptr<FlowAction> action) {
    attributes.set_handle(handle, context.objects.add(std::move(action)));
}

} // namespace

Errno create_modify_header(Context& context, const IoctlAttributes& attributes) {
    const auto type = attributes.number(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_FT_TYPE);
    if (const Errno error = check_table_type(type)) return error;
    const InBuffer prm = attributes.in(MLX5_IB_ATTR_CREATE_MODIFY_HEADER_ACTIONS_PRM);
    if (prm.size() % prm::kEditBytes != 0) return EINVAL;
    if (prm.size() / prm::kEditBytes > Limits::kMaxEditsOfRule) return EOPNOTSUPP;
    auto edits = prm::read_header_edits(prm.bytes());
    if (!edits) return EINVAL;
    const auto number = context.device->create_header_edits(std::move(*edits));
    if (!number) return errno_of(number);
    auto action = std::make_unique<FlowAction>();
    action->edits = *number;
    answer(context, attributes, MLX5_IB_ATTR_CREATE_MODIFY_HEADER_HANDLE, std::move(action));
    return 0;
}

Errno create_packet_reformat(Context& context, const IoctlAttributes& attributes) {
    const auto type = attributes.number(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_FT_TYPE);
    if (!type) return EINVAL;
    if (*type > MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX) return unknown(*type);
    auto action = std::make_unique<FlowAction>();
    core::ReformatKind kind{};
    // Tunnels are added to sent packets and removed from received ones.
    const auto wanted =
        attributes.number(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_TYPE).value_or(~uint64_t{0});
    switch (wanted) {
    case MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2:
        if (*type != kReceive) return EOPNOTSUPP;
        action->decap = true;
        answer(context, attributes, MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE, std::move(action));
        return 0;
    case MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2:
        if (*type != kReceive) return EOPNOTSUPP;
        kind = core::ReformatKind::l3_tunnel_to_l2;
        break;
    case MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL:
        if (*type != kTransmit) return EOPNOTSUPP;
        kind = core::ReformatKind::l2_to_l2_tunnel;
        break;
    case MLX5_IB_UAPI_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L3_TUNNEL:
        if (*type != kTransmit) return EOPNOTSUPP;
        kind = core::ReformatKind::l2_to_l3_tunnel;
        break;
    default: return unknown(wanted);
    }
    const InBuffer headers = attributes.in(MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_DATA_BUF);
    if (headers.size() == 0) return ENOENT;
    const auto number = context.device->create_reformat(kind, headers.bytes());
    if (!number) return errno_of(number);
    action->reformat = *number;
    answer(context, attributes, MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE, std::move(action));
    return 0;
}

Errno add_flow_action(FlowAction& action, Flow& flow, core::RewriteAttr& rewrite) {
    if (action.edits != 0) {
        if (rewrite.edits != 0) return EINVAL;
        rewrite.edits = action.edits;
    } else if (action.reformat != 0) {
        if (rewrite.reformat != 0) return EINVAL;
        rewrite.reformat = action.reformat;
    } else {
        if (rewrite.decap) return EINVAL;
        rewrite.decap = true;
    }
    flow.actions.push_back(&action);
    action.users++;
    return 0;
}

} // namespace softhca::uverbs
