// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/port.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <stdexcept>

namespace perf {
namespace {

constexpr int kLinkPatience = 10'000; // in milliseconds

} // namespace

void fail_call(const std::string& what, int status) {
    throw std::runtime_error(fmt::format("{}: {} ({})", what, strerror(std::abs(status)), status));
}

unsigned Port::mbufs(const PortSetup& setup) {
    return 2u * setup.queues * setup.descriptors + setup.spare_mbufs + 2 * kPoolCache;
}

Port::Port(uint16_t id, const PortSetup& setup, rte_mempool* pool)
    : id_(id), primary_(rte_eal_process_type() == RTE_PROC_PRIMARY), queues_(setup.queues),
      last_(setup.last), pool_(pool) {
    if (!primary_) {
        pool_ = rte_mempool_lookup(pool_name().c_str());
        if (pool_ == nullptr)
            throw std::runtime_error(
                fmt::format("port {}: the primary process does not use it", id));
        return;
    }
    int socket = SOCKET_ID_ANY;
    if (pool_ == nullptr) {
        own_pool_ = make_pool(pool_name(), mbufs(setup));
        pool_ = own_pool_.get();
        socket = ring_socket(queues_, setup.descriptors, setup.heap);
    }
    configure(setup, socket);
}

std::string Port::pool_name() const { return fmt::format("perf{}", id_); }

Port::~Port() {
    if (!primary_) return;
    rte_flow_flush(id_, nullptr);
    rte_eth_dev_stop(id_);
    // Receive queues may keep mbufs of the pool until they are released.
    if (last_) {
        rte_eth_dev_close(id_);
    } else { // with no queues at all ethdev would take the driver's preferred numbers
        const rte_eth_conf none{};
        rte_eth_dev_configure(id_, 0, 1, &none);
    }
}

void Port::configure(const PortSetup& setup, int socket) {
    rte_eth_dev_info info{};
    const std::string name = fmt::format("port {}", id_);
    if (const int status = rte_eth_dev_info_get(id_, &info)) fail_call(name + ": info", status);
    rte_eth_conf conf{};
    if (queues_ > 1 || setup.offloads.rss) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf =
            info.flow_type_rss_offloads & (RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_UDP);
    }
    if (setup.fast_free) conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
    conf.txmode.offloads &= info.tx_offload_capa;
    conf.rxmode.offloads = setup.offloads.rx();
    if (const uint64_t lacks = conf.rxmode.offloads & ~info.rx_offload_capa)
        throw std::runtime_error(fmt::format("{}: its driver {} lacks Rx offloads {:#x}", name,
                                             info.driver_name, lacks));
    if (const int status = rte_eth_dev_configure(id_, queues_, queues_, &conf))
        fail_call(fmt::format("{}: configure with {} queues", name, queues_), status);
    uint16_t rx = setup.descriptors, tx = setup.descriptors;
    rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx, &tx);
    rte_eth_txconf tx_conf = info.default_txconf;
    tx_conf.offloads = conf.txmode.offloads;
    rte_eth_rxconf rx_conf = info.default_rxconf;
    rx_conf.offloads = conf.rxmode.offloads;
    for (uint16_t queue = 0; queue < queues_; ++queue) {
        if (const int status = rte_eth_rx_queue_setup(id_, queue, rx, static_cast<unsigned>(socket),
                                                      &rx_conf, pool_))
            fail_call(fmt::format("{}: Rx queue {}", name, queue), status);
        if (const int status =
                rte_eth_tx_queue_setup(id_, queue, tx, static_cast<unsigned>(socket), &tx_conf))
            fail_call(fmt::format("{}: Tx queue {}", name, queue), status);
    }
    if (const int status = rte_eth_dev_start(id_)) fail_call(name + ": start", status);
    if (setup.offloads.mark) mark_all(id_, conf.rx_adv_conf.rss_conf.rss_hf);
    rte_eth_promiscuous_enable(id_); // for TAPs and the like, whose peer may have another address
}

void Port::wait_for_link() const {
    rte_eth_link link{};
    for (int i = 0; i < kLinkPatience; ++i) {
        if (rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP) return;
        rte_delay_us_sleep(1000);
    }
    throw std::runtime_error(fmt::format("port {}: its link stays down: is its peer there?", id_));
}

rte_ether_addr Port::mac() const {
    rte_ether_addr address{};
    rte_eth_macaddr_get(id_, &address);
    return address;
}

std::string Port::driver() const {
    rte_eth_dev_info info{};
    return rte_eth_dev_info_get(id_, &info) == 0 ? info.driver_name : "?";
}

std::string Port::modes() const {
    rte_eth_burst_mode rx{}, tx{};
    std::string text;
    if (rte_eth_rx_burst_mode_get(id_, 0, &rx) == 0) text = rx.info;
    if (rte_eth_tx_burst_mode_get(id_, 0, &tx) == 0)
        text += (text.empty() ? "" : " / ") + std::string(tx.info);
    return text;
}

} // namespace perf
