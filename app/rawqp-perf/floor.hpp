// SPDX-License-Identifier: BSD-3-Clause
// The floor: what no driver can go below on mapped mlx5 rings.
//
// Not a driver. Rx reads each CQE's line, writes the first line of the mbuf and refills the WQE's
// address from a stack of mbufs; Tx puts the mbufs sent before back on that stack, reads address
// and length of each mbuf, writes one eMPW data segment for it and rings once a burst. No offloads,
// errors, statistics, lkey lookup, mempool.
#pragma once

#include "app/rawqp-perf/floor_queue.hpp"
#include "app/rawqp-perf/verbs_end.hpp"

namespace perf {

/// See VerbsEnd.
class Floor : public VerbsEnd {
  public:
    /// Throws std::runtime_error when the device is not an mlx5 device with eMPW.
    Floor(const std::string& device, const PortSetup& setup, const FloorAhead& ahead);
    ~Floor();

    uint16_t rx(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
        return receive(rx_[queue], stack_, ahead_, mbufs, count);
    }
    uint16_t tx(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
        return send(tx_[queue], stack_, ahead_, mbufs, count);
    }
    /// Fills the stack of mbufs.
    void ready() { level_stack(stack_size_); }

    [[nodiscard]] static std::string driver() { return "floor"; }
    [[nodiscard]] static std::string modes() { return "hand-written loop over mapped rings"; }

  private:
    void map_rx(const VerbsQueue& verbs, FloorRx& queue);
    void map_tx(const VerbsQueue& verbs, FloorTx& queue);

    std::vector<FloorRx> rx_;
    std::vector<FloorTx> tx_;
    size_t stack_size_;
    FloorAhead ahead_;
};

} // namespace perf
