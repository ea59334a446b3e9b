// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/device.hpp"

#include "drivers/net/rawqp/rings/mlx5/device_clock.hpp"

namespace rawqp::mlx5rings {

std::string reject(const verbs::Api& api, ibv_context* context) {
    if (api.mlx5_is_supported == nullptr || api.mlx5_init_obj == nullptr)
        return "libmlx5 is not installed";
    if (!api.mlx5_is_supported(context->device)) return "not an mlx5 device";
    return {};
}

namespace {

/// MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_*; 0 when the device cannot be asked.
uint32_t tunnel_abilities(const verbs::Api& api, ibv_context* context) {
    mlx5dv_context details{};
    details.comp_mask = MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS;
    if (api.mlx5_query_device(context, &details) != 0 ||
        (details.comp_mask & MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS) == 0)
        return 0;
    return details.tunnel_offloads_caps;
}

} // namespace

ibv_qp* rx_hash_qp(const verbs::Api& api, ibv_context* context, ibv_qp_init_attr_ex& attributes) {
    if (tunnel_abilities(api, context) == 0) return verbs::create_qp_ex(context, attributes);
    mlx5dv_qp_init_attr extra{};
    extra.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    extra.create_flags = MLX5DV_QP_CREATE_TUNNEL_OFFLOADS;
    return api.mlx5_create_qp(context, &attributes, &extra);
}

bool stamps_real_time(const verbs::Api& api, ibv_context* context) {
    mlx5dv_clock_info info{};
    return api.mlx5_get_clock_info(context, &info) == 0;
}

int real_time(const verbs::Api& api, ibv_context* context, uint64_t ticks, uint64_t& nanoseconds) {
    mlx5dv_clock_info info{};
    if (api.mlx5_get_clock_info(context, &info) != 0) return ENOTSUP;
    nanoseconds = mlx5dv_ts_to_ns(&info, ticks);
    return 0;
}

TxAbilities tx_abilities(const verbs::Api& api, ibv_context* context, uint32_t vendor_part_id) {
    // PCI device ids: Connect-IB 1011-1012, ConnectX-4 1013-1014, ConnectX-4 Lx 1015-1016.
    constexpr uint32_t kLastWithInline = 0x1016;
    TxAbilities abilities;
    abilities.needs_inline_header = vendor_part_id <= kLastWithInline;
    mlx5dv_context details{};
    details.comp_mask = MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS;
    if (api.mlx5_query_device == nullptr || api.mlx5_query_device(context, &details) != 0)
        return abilities;
    abilities.multi_packet = (details.flags & MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW) != 0;
    if ((details.comp_mask & MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS) != 0) {
        constexpr uint32_t kVxlan = MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_VXLAN;
        abilities.vxlan = (details.tunnel_offloads_caps & kVxlan) != 0;
    }
    return abilities;
}

} // namespace rawqp::mlx5rings
