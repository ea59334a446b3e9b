// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/verbs/format.hpp"

#include "drivers/net/rawqp/rings/verbs/ring_text.hpp"
#include "drivers/net/rawqp/rings/verbs/rx.hpp"
#include "drivers/net/rawqp/rings/verbs/tx.hpp"

namespace rawqp {
namespace {

std::string reject_nothing(const verbs::Api&, ibv_context*) { return {}; }

/// No hash: completions do not carry it. The provider verifies checksums, or else the driver, which
/// also strips VLAN tags.
uint64_t rx_offloads(const ibv_device_attr_ex& device) {
    uint64_t offloads = RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT |
                        RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
    if (device.raw_packet_caps & IBV_RAW_PACKET_CAP_SCATTER_FCS)
        offloads |= RTE_ETH_RX_OFFLOAD_KEEP_CRC;
    if (device.completion_timestamp_mask != 0) offloads |= RTE_ETH_RX_OFFLOAD_TIMESTAMP;
    return offloads;
}

uint64_t tx_offloads(const verbs::Api&, ibv_context*, const ibv_device_attr_ex& device) {
    uint64_t offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
    if (device.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM)
        offloads |= RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
                    RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    if (max_tso(device) != 0) offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
    return offloads;
}

/// What rte_net_get_ptype reports of the outer headers.
constexpr uint32_t kPacketTypes[] = {
    RTE_PTYPE_L2_ETHER,    RTE_PTYPE_L2_ETHER_VLAN, RTE_PTYPE_L2_ETHER_QINQ, RTE_PTYPE_L3_IPV4,
    RTE_PTYPE_L3_IPV4_EXT, RTE_PTYPE_L3_IPV6,       RTE_PTYPE_L3_IPV6_EXT,   RTE_PTYPE_L4_TCP,
    RTE_PTYPE_L4_UDP,      RTE_PTYPE_L4_SCTP,       RTE_PTYPE_L4_FRAG,       RTE_PTYPE_UNKNOWN,
};

} // namespace

constinit const RingFormat kVerbsFormat{
    .name = "verbs",
    .reject = reject_nothing,
    .rx_wc_flags = verbsrings::rx_wc_flags,
    .rx_cq_depth = rx_wqes,
    .striding = nullptr,
    .rx_adjust = nullptr,
    .rx_wq = nullptr,
    .rx_compressed_cq = nullptr,
    .stamps_real_time = verbsrings::stamps_real_time,
    .real_time = nullptr, // verbs only give the time of a completion
    .rx_hash_qp = nullptr,
    .rx_offloads = rx_offloads,
    .tx_offloads = tx_offloads,
    .rx_create = verbsrings::rx_create,
    .rx_start = verbsrings::rx_start,
    .rx_stop = verbsrings::rx_stop,
    .rx_destroy = verbsrings::rx_destroy,
    .rx_arm = verbsrings::rx_arm,
    .rx_event_taken = [](RxRing&) {},
    .rx_strip_vlan = verbsrings::rx_strip_vlan,
    .tx_settle = nullptr,
    .tx_needs = verbsrings::tx_needs,
    .tx_create = verbsrings::tx_create,
    .tx_start = verbsrings::tx_start,
    .tx_stop = tx_stop<verbsrings::VerbsTxRing>,
    .tx_destroy = tx_destroy<verbsrings::VerbsTxRing>,
    .rx_burst = verbsrings::rx_burst,
    .tx_burst = verbsrings::tx_burst,
    .tx_stamping = nullptr,
    .tx_take_stamp = nullptr,
    .rx_ptp_stamps = nullptr,
    .rx_share = nullptr,
    .tx_map = nullptr, // the rings belong to verbs objects, which one process has
    .tx_unmap = nullptr,
    .tx_prepare = verbsrings::tx_prepare,
    .rx_queue_count = nullptr, // verbs cannot look at completions without taking them
    .rx_descriptor_status = nullptr,
    .rx_monitor_addr = nullptr, // nor does it say where they are
    .tx_descriptor_status = tx_descriptor_status<verbsrings::VerbsTxRing>,
    .tx_done_cleanup = tx_done_cleanup<verbsrings::VerbsTxRing>,
    .rx_figures = verbsrings::rx_figures,
    .tx_figures = verbsrings::tx_figures,
    .rx_descriptor_text = verbsrings::rx_descriptor_text,
    .tx_descriptor_text = verbsrings::tx_descriptor_text,
    .ptypes = kPacketTypes,
};

} // namespace rawqp
