// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/format.hpp"

#include "drivers/net/rawqp/rings/mlx5/device.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "drivers/net/rawqp/rings/tx_common.hpp"

namespace rawqp {
namespace {

uint64_t no_wc_flags(uint64_t) { return 0; }

uint64_t rx_offloads(const ibv_device_attr_ex& device) {
    uint64_t offloads = RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_RSS_HASH;
    if (device.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM)
        offloads |= RTE_ETH_RX_OFFLOAD_CHECKSUM;
    if (device.raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING)
        offloads |= RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
    if (device.raw_packet_caps & IBV_RAW_PACKET_CAP_SCATTER_FCS)
        offloads |= RTE_ETH_RX_OFFLOAD_KEEP_CRC;
    if (device.completion_timestamp_mask != 0) offloads |= RTE_ETH_RX_OFFLOAD_TIMESTAMP;
    return offloads;
}

uint64_t tx_offloads(const verbs::Api& api, ibv_context* context,
                     const ibv_device_attr_ex& device) {
    uint64_t offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE |
                        RTE_ETH_TX_OFFLOAD_VLAN_INSERT | RTE_ETH_TX_OFFLOAD_QINQ_INSERT;
    const mlx5rings::TxAbilities abilities = mlx5rings::tx_abilities(api, context);
    if (device.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM) {
        offloads |= RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
                    RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
        if (abilities.vxlan) offloads |= RTE_ETH_TX_OFFLOAD_OUTER_IPV4_CKSUM;
    }
    if (max_tso(device) != 0) {
        offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
        if (abilities.vxlan) offloads |= RTE_ETH_TX_OFFLOAD_VXLAN_TNL_TSO;
    }
    return offloads;
}

/// See packet_type() and tunnel_type() in rx_tables.hpp.
constexpr uint32_t kPacketTypes[] = {
    RTE_PTYPE_L2_ETHER,
    RTE_PTYPE_L3_IPV4_EXT_UNKNOWN,
    RTE_PTYPE_L3_IPV6_EXT_UNKNOWN,
    RTE_PTYPE_L4_TCP,
    RTE_PTYPE_L4_UDP,
    RTE_PTYPE_L4_FRAG,
    RTE_PTYPE_L4_NONFRAG,
    RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN,
    RTE_PTYPE_INNER_L3_IPV6_EXT_UNKNOWN,
    RTE_PTYPE_INNER_L4_TCP,
    RTE_PTYPE_INNER_L4_UDP,
    RTE_PTYPE_INNER_L4_FRAG,
    RTE_PTYPE_INNER_L4_NONFRAG,
    RTE_PTYPE_UNKNOWN,
};

} // namespace

constinit const RingFormat kMlx5Format{
    .name = "mlx5",
    .reject = mlx5rings::reject,
    .rx_wc_flags = no_wc_flags,
    .rx_compressed_cq = mlx5rings::rx_compressed_cq,
    .rx_hash_qp = mlx5rings::rx_hash_qp,
    .rx_offloads = rx_offloads,
    .tx_offloads = tx_offloads,
    .rx_create = mlx5rings::rx_create,
    .rx_start = mlx5rings::rx_start,
    .rx_stop = mlx5rings::rx_stop,
    .rx_destroy = mlx5rings::rx_destroy,
    .rx_arm = mlx5rings::rx_arm,
    .rx_event_taken = mlx5rings::rx_event_taken,
    .tx_capacity = mlx5rings::tx_capacity,
    .tx_create = mlx5rings::tx_create,
    .tx_start = mlx5rings::tx_start,
    .tx_stop = tx_stop<mlx5rings::MlxTxRing>,
    .tx_destroy = tx_destroy<mlx5rings::MlxTxRing>,
    .rx_burst = mlx5rings::rx_burst,
    .tx_burst = mlx5rings::tx_burst,
    .tx_prepare = tx_prepare,
    .rx_queue_count = mlx5rings::rx_queue_count,
    .rx_descriptor_status = mlx5rings::rx_descriptor_status,
    .rx_monitor_addr = mlx5rings::rx_monitor_addr,
    .tx_descriptor_status = tx_descriptor_status<mlx5rings::MlxTxRing>,
    .tx_done_cleanup = tx_done_cleanup<mlx5rings::MlxTxRing>,
    .ptypes = kPacketTypes,
};

} // namespace rawqp
