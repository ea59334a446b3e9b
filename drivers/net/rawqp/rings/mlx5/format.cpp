// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/format.hpp"

#include "drivers/net/rawqp/rings/mlx5/device.hpp"
#include "drivers/net/rawqp/rings/mlx5/device_clock.hpp"
#include "drivers/net/rawqp/rings/mlx5/ring_text.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_cq.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/striding_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_stamp.hpp"
#include "drivers/net/rawqp/rings/tx_common.hpp"

namespace rawqp {
namespace {

uint64_t no_wc_flags(const RxSpec&) { return 0; }

uint64_t rx_offloads(const ibv_device_attr_ex& device) {
    uint64_t offloads =
        RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT | RTE_ETH_RX_OFFLOAD_RSS_HASH;
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
    const mlx5rings::TxAbilities abilities =
        mlx5rings::tx_abilities(api, context, device.orig_attr.vendor_part_id);
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

template <class Ring> PtpStamps& ptp_stamps(RxRing& ring) { return static_cast<Ring&>(ring).ptp; }

/// See packet_type() in rx_describe.hpp. Kinds of tunnels are not among them: an announced type
/// must be recognized, and only rules of the application imply them (RxRing::tunnel_type).
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

constexpr RingFormat make_format() {
    RingFormat format{};
    format.name = "mlx5";
    format.reject = mlx5rings::reject;
    format.rx_wc_flags = no_wc_flags;
    format.rx_cq_depth = rx_wqes;
    format.rx_compressed_cq = mlx5rings::rx_compressed_cq;
    format.stamps_real_time = mlx5rings::stamps_real_time;
    format.real_time = mlx5rings::real_time;
    format.rx_hash_qp = mlx5rings::rx_hash_qp;
    format.rx_lro = true;
    format.rx_offloads = rx_offloads;
    format.tx_offloads = tx_offloads;
    format.rx_create = mlx5rings::rx_create;
    format.rx_start = mlx5rings::rx_start;
    format.rx_stop = mlx5rings::rx_stop;
    format.rx_destroy = mlx5rings::rx_destroy;
    format.rx_arm = mlx5rings::rx_arm_filled;
    format.rx_event_taken = mlx5rings::rx_event_taken<mlx5rings::MlxRxRing>;
    format.tx_settle = mlx5rings::tx_settle;
    format.tx_map = mlx5rings::tx_map;
    format.tx_unmap = mlx5rings::tx_unmap;
    format.tx_needs = mlx5rings::tx_needs;
    format.tx_create = mlx5rings::tx_create;
    format.tx_start = mlx5rings::tx_start;
    format.tx_stop = tx_stop<mlx5rings::MlxTxRing>;
    format.tx_destroy = tx_destroy<mlx5rings::MlxTxRing>;
    format.rx_burst = mlx5rings::rx_burst;
    format.tx_burst = mlx5rings::tx_burst;
    format.tx_stamping = mlx5rings::tx_stamping;
    format.tx_take_stamp = mlx5rings::tx_take_stamp;
    format.tx_waits = true;
    format.rx_ptp_stamps = ptp_stamps<mlx5rings::MlxRxRing>;
    format.tx_prepare = tx_prepare;
    format.rx_queue_count = compat::queue_count<mlx5rings::rx_queue_count>;
    format.rx_descriptor_status = mlx5rings::rx_descriptor_status;
    format.rx_monitor_addr = mlx5rings::rx_monitor_addr<mlx5rings::MlxRxRing>;
    format.tx_descriptor_status = tx_descriptor_status<mlx5rings::MlxTxRing>;
    format.tx_done_cleanup = tx_done_cleanup<mlx5rings::MlxTxRing>;
    format.rx_figures = mlx5rings::rx_figures;
    format.tx_figures = mlx5rings::tx_figures;
    format.rx_descriptor_text = mlx5rings::rx_descriptor_text;
    format.tx_descriptor_text = mlx5rings::tx_descriptor_text;
    format.ptypes = kPacketTypes;
    return format;
}

uint64_t striding_rx_offloads(const ibv_device_attr_ex& device) {
    return rx_offloads(device) & ~RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT;
}

/// Received packets may not lie in their mbufs' own buffers, and fast free would not return the
/// buffers they lie in.
uint64_t striding_tx_offloads(const verbs::Api& api, ibv_context* context,
                              const ibv_device_attr_ex& device) {
    return tx_offloads(api, context, device) & ~RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
}

/// Striding queues: everything except the Rx rings is the same.
constexpr RingFormat make_striding_format() {
    RingFormat format = make_format();
    format.reject = mlx5rings::striding_reject;
    format.rx_cq_depth = mlx5rings::striding_cq_depth;
    format.rx_adjust = mlx5rings::striding_adjust;
    format.rx_wq = mlx5rings::striding_create_wq;
    format.rx_offloads = striding_rx_offloads;
    format.rx_lro = false; // each packet has its own strides, and the longest one has too many
    format.tx_offloads = striding_tx_offloads;
    format.rx_create = mlx5rings::striding_create;
    format.rx_start = mlx5rings::striding_start;
    format.rx_stop = mlx5rings::striding_stop;
    format.rx_destroy = mlx5rings::striding_destroy;
    format.rx_arm = mlx5rings::rx_arm<mlx5rings::StridingRing>;
    format.rx_event_taken = mlx5rings::rx_event_taken<mlx5rings::StridingRing>;
    format.rx_share = mlx5rings::striding_share;
    format.rx_burst = mlx5rings::striding_burst;
    format.rx_ptp_stamps = ptp_stamps<mlx5rings::StridingRing>;
    format.rx_queue_count = compat::queue_count<mlx5rings::striding_queue_count>;
    format.rx_descriptor_status = mlx5rings::striding_descriptor_status;
    format.rx_monitor_addr = mlx5rings::rx_monitor_addr<mlx5rings::StridingRing>;
    format.rx_figures = mlx5rings::striding_figures;
    format.rx_descriptor_text = mlx5rings::striding_descriptor_text;
    return format;
}
constinit const RingFormat kStridingFormat = make_striding_format();

constexpr RingFormat with_striding() {
    RingFormat format = make_format();
    format.striding = &kStridingFormat;
    return format;
}

} // namespace

constinit const RingFormat kMlx5Format = with_striding();

} // namespace rawqp
