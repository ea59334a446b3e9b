// SPDX-License-Identifier: BSD-3-Clause
// What the port can do and how it is set up.
#include "drivers/net/rawqp/ethdev/port/ops.hpp"

#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/queues/queues.hpp"
#include "drivers/net/rawqp/ethdev/steering/reta.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"

#include <algorithm>

namespace rawqp {
namespace {

uint16_t queue_limit(int device) {
    return static_cast<uint16_t>(std::clamp(device, 1, RTE_MAX_QUEUES_PER_PORT));
}

void fill_limits(const Port& port, rte_eth_dev_info& info) {
    const ibv_device_attr& device = port.attributes.orig_attr;
    info.min_mtu = RTE_ETHER_MIN_MTU;
    info.max_mtu = kMaxMtu;
    info.max_rx_pktlen = frame_bytes(kMaxMtu);
    info.min_rx_bufsize = RTE_ETHER_MIN_LEN;
    info.max_mac_addrs = kMaxMacAddresses;
    // Each queue has a CQ of its own. Without indirection tables all traffic goes to one Rx queue.
    const int queues = std::min(device.max_qp, device.max_cq / 2);
    info.max_rx_queues = reta_size(port) == 0 ? 1 : queue_limit(queues);
    info.max_tx_queues = queue_limit(queues);

    info.rx_desc_lim = {};
    info.rx_desc_lim.nb_min = kMinDescriptors;
    info.rx_desc_lim.nb_max = max_rx_descriptors(port);
    info.rx_desc_lim.nb_align = 1; // rounded up to a power of two
    info.tx_desc_lim = {};
    info.tx_desc_lim.nb_min = kMinDescriptors;
    info.tx_desc_lim.nb_max = max_tx_descriptors(port);
    info.tx_desc_lim.nb_align = 1;
    info.tx_desc_lim.nb_seg_max = max_tx_segments(port);
    info.tx_desc_lim.nb_mtu_seg_max = max_tx_segments(port);
    compat::set_newer_info(info, UINT32_MAX);
}

void fill_defaults(rte_eth_dev_info& info) {
    for (rte_eth_dev_portconf* conf : {&info.default_rxportconf, &info.default_txportconf}) {
        conf->burst_size = 64;
        conf->ring_size = 1024;
        conf->nb_queues = 1;
    }
}

int write_mode(const char* description, rte_eth_burst_mode* mode) {
    rte_strscpy(mode->info, description, sizeof(mode->info));
    return 0;
}

} // namespace

int dev_info_get(rte_eth_dev* dev, rte_eth_dev_info* info) noexcept {
    const Port& port = Port::of(dev);
    fill_limits(port, *info);
    fill_defaults(*info);

    info->rx_offload_capa =
        port.format->rx_offloads(port.attributes) | RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
    if (port.lro) {
        info->rx_offload_capa |= RTE_ETH_RX_OFFLOAD_TCP_LRO;
        info->max_lro_pkt_size = kMaxLroPacket;
    }
    if (max_rx_segments(port) == 1)
        info->rx_offload_capa &= ~(RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT);
    if ((info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT) != 0) {
        info->rx_seg_capa.multi_pools = 1;
        info->rx_seg_capa.offset_allowed = 1;
        info->rx_seg_capa.max_nseg = max_rx_segments(port);
    }
    info->tx_offload_capa =
        port.format->tx_offloads(*port.api, port.context.get(), port.attributes);
    // Times are those of rte_eth_read_clock().
    if (port.format->tx_waits && port.send_clock.mask != 0 && !port.devargs.real_time)
        info->tx_offload_capa |= RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP;
    if (max_tx_segments(port) == 1) info->tx_offload_capa &= ~RTE_ETH_TX_OFFLOAD_MULTI_SEGS;

    info->reta_size = reta_size(port);
    info->hash_key_size = info->reta_size != 0 ? kRssKeyBytes : 0;
    info->flow_type_rss_offloads = info->reta_size != 0 ? supported_rss_types() : 0;
    info->dev_capa = RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP | RTE_ETH_DEV_CAPA_FLOW_SHARED_OBJECT_KEEP |
                     RTE_ETH_DEV_CAPA_RUNTIME_TX_QUEUE_SETUP;
    // The application may be sleeping on the channel of the queue that would be replaced. ethdev
    // refuses what is not announced, and does so before it releases the queue.
    if (dev->data->dev_conf.intr_conf.rxq == 0)
        info->dev_capa |= RTE_ETH_DEV_CAPA_RUNTIME_RX_QUEUE_SETUP;

    info->speed_capa = port.speeds;
    info->if_index = port.if_index;
    return 0;
}

void publish_info(Port& port) {
    // A copy: applications may be reading it.
    rte_eth_dev_info info{};
    info.switch_info.domain_id = RTE_ETH_DEV_SWITCH_DOMAIN_ID_INVALID; // as ethdev does before
    dev_info_get(port.dev, &info);
    port.shared.info = info;
}

const uint32_t* supported_ptypes_get(rte_eth_dev* dev) noexcept {
    return ProcessPort::of(dev).format->ptypes;
}

// Newer telemetry asks these on a thread of its own, even while the application changes the number
// of queues: ethdev has checked the queue's number, but it may be out of date, and the queue may
// not be set up.
int rx_burst_mode_get(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode) noexcept {
    const Port& port = Port::of(dev);
    if (queue >= port.rx_queues.size() || !port.rx_queues[queue]) return -EINVAL;
    if (port.started()) return write_mode(port.rx_burst_name(), mode); // queues may have changed
    const RxSpec spec = combined_rx_spec(port, port.rx_queues[queue]->spec);
    return write_mode(port.format->rx_burst(spec).description, mode);
}

int tx_burst_mode_get(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode) noexcept {
    const Port& port = Port::of(dev);
    if (queue >= port.tx_queues.size() || !port.tx_queues[queue]) return -EINVAL;
    if (port.started()) return write_mode(port.tx_burst_name(), mode);
    const TxSpec spec = combined_tx_spec(port, port.tx_queues[queue]->spec);
    return write_mode(port.format->tx_burst(spec).description, mode);
}

void rxq_info_get(rte_eth_dev* dev, uint16_t queue, rte_eth_rxq_info* info) noexcept {
    const SharedRxQueue& spec = SharedPort::of(dev).rx[queue];
    info->mp = spec.pool;
    info->conf.offloads = spec.offloads;
    info->conf.rx_drop_en = 1; // packets that find no descriptor
    info->conf.rx_deferred_start = spec.deferred ? 1 : 0;
    info->conf.rx_seg = spec.split;
    info->conf.rx_nseg = spec.split_segments;
    info->scattered_rx = spec.segments > 1 ? 1 : 0;
    info->nb_desc = spec.descriptors;
    info->rx_buf_size = spec.buffer_bytes;
}

void txq_info_get(rte_eth_dev* dev, uint16_t queue, rte_eth_txq_info* info) noexcept {
    const SharedTxQueue& spec = SharedPort::of(dev).tx[queue];
    info->conf.offloads = spec.offloads;
    info->conf.tx_deferred_start = spec.deferred ? 1 : 0;
    info->nb_desc = spec.descriptors;
}

Result<uint64_t> device_ticks(const Port& port) {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    const int error = ibv_query_rt_values_ex(port.context.get(), &values);
    if (error != 0 || (values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK) == 0)
        return fail(error != 0 ? error : ENOTSUP, "the device's clock cannot be read");
    // The provider gives it as a timespec whose nanoseconds are clock ticks.
    return static_cast<uint64_t>(values.raw_clock.tv_sec) * 1'000'000'000 +
           static_cast<uint64_t>(values.raw_clock.tv_nsec);
}

int read_clock(rte_eth_dev* dev, uint64_t* clock) noexcept {
    const Port& port = Port::of(dev);
    const Result<uint64_t> ticks = device_ticks(port);
    if (!ticks) return -ticks.error().code;
    *clock = *ticks;
    if (!port.devargs.real_time) return 0;
    if (port.format->real_time == nullptr) return -ENOTSUP;
    return -port.format->real_time(*port.api, port.context.get(), *clock, *clock);
}

int is_removed(rte_eth_dev* dev) noexcept { return SharedPort::of(dev).is_lost() ? 1 : 0; }

int fw_version_get(rte_eth_dev* dev, char* version, size_t size) noexcept {
    const char* firmware = SharedPort::of(dev).firmware.data();
    const size_t needed = strlen(firmware) + 1;
    if (version != nullptr && size > 0) rte_strscpy(version, firmware, size);
    return size < needed ? static_cast<int>(needed) : 0;
}

} // namespace rawqp
