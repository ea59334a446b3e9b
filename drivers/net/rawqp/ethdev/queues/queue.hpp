// SPDX-License-Identifier: BSD-3-Clause
// Control side of one queue: its verbs objects and its ring.
#pragma once

#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/ethdev/queues/q_counter.hpp"
#include "drivers/net/rawqp/ethdev/shared_port.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"

namespace rawqp {

struct Port;

/// The CQ and WQ live from queue set-up to queue release, so that RSS tables and flows can refer to
/// them while the port is stopped.
struct RxQueue {
    RxQueue(Port& owner, uint16_t id);
    ~RxQueue(); ///< the queue is not running
    RxQueue(const RxQueue&) = delete;
    RxQueue& operator=(const RxQueue&) = delete;

    Port& port;
    SharedRxQueue& shared;      ///< for the queue's number: one object at a time is installed there
    verbs::CompChannel channel; ///< null without Rx interrupts
    verbs::CqEx cq;
    uint32_t cq_serial = 0; ///< see CqOwner
    QCounter q_counter;
    verbs::Wq wq;
    RxSpec spec;
    RxRing* ring = nullptr;           ///< what dev->data->rx_queues[i] points to; owned
    SocketArray<rte_eth_rxseg> split; ///< RxSpec::split_wanted, for other processes to see
    bool wq_strips = false;           ///< the WQ strips VLAN tags
    uint32_t failed_recoveries = 0;   ///< in a row
    bool reset_failed = false;        ///< of the WQ: the device may still write into the mbufs

    /// The WQ is in RDY and the ring holds mbufs.
    [[nodiscard]] bool running() const { return shared.state == QueueState::running; }
    /// Its CQ failed and no longer reports anything.
    [[nodiscard]] bool lost() const { return shared.failed_cq.is(cq_serial); }
    /// Released while the port runs: it stays, as steering refers to its WQ.
    [[nodiscard]] bool released() const { return shared.state == QueueState::released; }
    /// Called when the queue takes its place in the port: publishes what every process needs to
    /// know of it.
    void publish(bool deferred);
    /// Adds what the queue has missed since the last time to the port's counters.
    void count_missed();
};

struct TxQueue {
    TxQueue(Port& owner, uint16_t id);
    ~TxQueue(); ///< as for an Rx queue
    TxQueue(const TxQueue&) = delete;
    TxQueue& operator=(const TxQueue&) = delete;

    Port& port;
    SharedTxQueue& shared;
    verbs::CqEx cq;
    uint32_t cq_serial = 0;
    verbs::Td thread_domain; ///< null: the QP is in the port's PD
    verbs::Pd parent_domain; ///< the port's PD and the thread domain
    verbs::Qp qp;
    TxSpec spec;
    TxRing* ring = nullptr;
    uint32_t rate_kbps = 0; ///< packet pacing; 0: none
    uint32_t failed_recoveries = 0;
    bool reset_failed = false; ///< of the QP: the device may still read the mbufs

    /// The QP is in RTS.
    [[nodiscard]] bool running() const { return shared.state == QueueState::running; }
    [[nodiscard]] bool lost() const { return shared.failed_cq.is(cq_serial); }
    void publish(bool deferred);
};

} // namespace rawqp
