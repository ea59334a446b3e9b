// SPDX-License-Identifier: BSD-3-Clause
// One ethdev port: the RDMA device behind it and everything that the control path built on it.
#pragma once

#include "common/netdev/netdev.hpp"
#include "common/result.hpp"
#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/devargs.hpp"
#include "drivers/net/rawqp/ethdev/filters.hpp"
#include "drivers/net/rawqp/ethdev/flow_table.hpp"
#include "drivers/net/rawqp/ethdev/memory.hpp"
#include "drivers/net/rawqp/ethdev/rss.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

#include <memory>
#include <vector>

namespace rawqp {

/// Control side of one Rx queue. The CQ and WQ live from queue set-up to queue release, so that RSS
/// tables and flows can refer to them while the port is stopped.
struct RxQueue {
    verbs::CqEx cq;
    verbs::Wq wq;
    RxSpec spec;
    RxRing* ring = nullptr; ///< what dev->data->rx_queues[i] points to; owned
};

struct TxQueue {
    verbs::CqEx cq;
    verbs::Qp qp;
    TxSpec spec;
    TxRing* ring = nullptr;
};

/// Process-private (dev->process_private or dev_private of the primary); one thread at a time per
/// port as ethdev demands of control calls.
/// Members are destroyed in reverse order: flows, filters, RSS QPs, queues, memory, PD, context.
struct Port {
    rte_eth_dev* dev = nullptr;
    Devargs devargs;
    const verbs::Api* api = nullptr;
    verbs::Context context;
    uint8_t ib_port = 1;
    ibv_device_attr_ex attributes{};
    netdev::Netdev netdev; ///< the Linux interface beside the RDMA port
    verbs::Pd pd;
    std::unique_ptr<Memory> memory; ///< MrSource of all queues
    const RingFormat* format = nullptr;
    std::vector<std::unique_ptr<RxQueue>> rx_queues;
    std::vector<std::unique_ptr<TxQueue>> tx_queues;
    std::unique_ptr<RssQps> rss_qps;  ///< hash QPs shared by filters and flows
    std::unique_ptr<Filters> filters; ///< MAC, broadcast, multicast, promiscuous
    std::unique_ptr<FlowTable> flows; ///< rte_flow rules

    [[nodiscard]] static Port& of(rte_eth_dev* dev) {
        return **static_cast<Port**>(dev->data->dev_private);
    }
};

} // namespace rawqp
