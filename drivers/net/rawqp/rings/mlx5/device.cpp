// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/device.hpp"

namespace rawqp::mlx5rings {

std::string reject(const verbs::Api& api, ibv_context* context) {
    if (api.mlx5_is_supported == nullptr || api.mlx5_init_obj == nullptr)
        return "libmlx5 is not installed";
    if (!api.mlx5_is_supported(context->device)) return "not an mlx5 device";
    return {};
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
