// SPDX-License-Identifier: BSD-3-Clause
// Control side of one queue: its verbs objects and its ring.
#pragma once

#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp {

struct Port;

/// The CQ and WQ live from queue set-up to queue release, so that RSS tables and flows can refer to
/// them while the port is stopped.
struct RxQueue {
    explicit RxQueue(Port& owner) : port(owner) {}
    ~RxQueue(); ///< the queue is not running
    RxQueue(const RxQueue&) = delete;
    RxQueue& operator=(const RxQueue&) = delete;

    Port& port;
    verbs::CompChannel channel; ///< null without Rx interrupts
    verbs::CqEx cq;
    verbs::Wq wq;
    RxSpec spec;
    RxRing* ring = nullptr; ///< what dev->data->rx_queues[i] points to; owned
    RxCounters base;        ///< counters at the last statistics reset
    bool running = false;   ///< the WQ is in RDY and the ring holds mbufs
    bool deferred = false;  ///< port start leaves it stopped
    bool released = false;  ///< while the port runs: stays, as steering refers to its WQ
    bool wq_strips = false; ///< the WQ takes VLAN tags out
};

struct TxQueue {
    explicit TxQueue(Port& owner) : port(owner) {}
    ~TxQueue(); ///< as that of an Rx queue
    TxQueue(const TxQueue&) = delete;
    TxQueue& operator=(const TxQueue&) = delete;

    Port& port;
    verbs::CqEx cq;
    verbs::Td thread_domain; ///< null: the QP is in the port's PD
    verbs::Pd parent_domain; ///< the port's PD and the thread domain
    verbs::Qp qp;
    TxSpec spec;
    TxRing* ring = nullptr;
    TxCounters base;
    bool running = false;   ///< the QP is in RTS
    bool deferred = false;  ///< port start leaves it stopped
    uint32_t rate_kbps = 0; ///< packet pacing; 0: none
};

} // namespace rawqp
