// SPDX-License-Identifier: BSD-3-Clause
// The bare loop over a verbs provider: the least that a driver on the portable calls must do.
//
// Not a driver. Rx polls the CQ for lengths, takes mbufs from a stack and posts them in one chain a
// burst; Tx polls its CQ, posts the burst and requests one completion. It writes and reads the
// length of mbufs and reads their address, and touches nothing in packets.
#pragma once

#include "app/rawqp-perf/verbs_end.hpp"

namespace perf {

/// See VerbsEnd.
class VerbsLoop : public VerbsEnd {
  public:
    VerbsLoop(const std::string& device, const PortSetup& setup);
    ~VerbsLoop();

    uint16_t rx(uint16_t queue, rte_mbuf** mbufs, uint16_t count);
    uint16_t tx(uint16_t queue, rte_mbuf** mbufs, uint16_t count);
    /// Frees what was sent and fills the stack of mbufs.
    void ready();

    [[nodiscard]] static std::string driver() { return "verbs loop"; }
    [[nodiscard]] static std::string modes() { return "hand-written loop over a verbs provider"; }

  private:
    struct RxQueue {
        ibv_cq_ex* cq = nullptr;
        ibv_wq* wq = nullptr;
        uint32_t consumer = 0;
        RingArray<rte_mbuf*> mbufs; ///< of each request
        RingArray<ibv_sge> sges;
        RingArray<ibv_recv_wr> requests; ///< linked in a circle
    };
    struct TxQueue {
        ibv_cq_ex* cq = nullptr;
        ibv_qp_ex* qp = nullptr;
    };
    void prepare(RxQueue& queue);
    void post(RxQueue& queue, uint32_t first, uint32_t count);

    std::vector<RxQueue> rx_;
    std::vector<TxQueue> tx_;
    std::vector<rte_mbuf*> sent_;
    size_t stack_size_;
};

} // namespace perf
