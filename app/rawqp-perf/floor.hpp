// SPDX-License-Identifier: BSD-3-Clause
// The floor: what no driver can go below on mapped mlx5 rings.
//
// Not a driver. Rx reads each CQE's line, writes the first line of the mbuf and refills the WQE's
// address from a stack of mbufs; Tx puts what was sent before back on that stack, reads address and
// length of each mbuf, writes one eMPW data segment for it and rings once a burst. No offloads,
// errors, statistics, lkey look-up, mempool.
#pragma once

#include "app/rawqp-perf/distance.hpp"
#include "app/rawqp-perf/verbs_end.hpp"
#include "common/mlx5/formats.hpp"

#include <infiniband/mlx5dv.h>
#include <optional>

namespace perf {

/// How far ahead of their use the floor asks for lines, in packets.
struct FloorAhead {
    uint16_t rx, tx; ///< of CQEs and mbufs, of mbufs to send; 0: not at all
    /// WQEs are written at the end of a burst, and claimed at its beginning: those of so many
    /// packets later; nothing: none are claimed.
    std::optional<uint16_t> claim;

    /// What no other was seen to be better than (`scripts/bench --only floor`).
    static FloorAhead best(Distance distance);
};

/// See VerbsEnd.
class Floor : public VerbsEnd {
  public:
    /// Throws std::runtime_error when the device is no mlx5 device with eMPW.
    Floor(const std::string& device, const PortSetup& setup, const FloorAhead& ahead);
    ~Floor();

    uint16_t rx(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
        return ahead_.rx != 0 ? rx<true>(rx_[queue], mbufs, count)
                              : rx<false>(rx_[queue], mbufs, count);
    }
    uint16_t tx(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
        return ahead_.tx != 0 ? tx<true>(tx_[queue], mbufs, count)
                              : tx<false>(tx_[queue], mbufs, count);
    }
    /// Fills the stack of mbufs.
    void ready() { level_stack(stack_size_); }

    [[nodiscard]] static std::string driver() { return "floor"; }
    [[nodiscard]] static std::string modes() { return "hand-written loop over mapped rings"; }

  private:
    struct Completions {
        mlx5::Cqe* cqes = nullptr;
        mlx5::CqDoorbell* doorbell = nullptr;
        uint32_t mask = 0, log_size = 0;
        uint32_t consumer = 0;

        void map(const mlx5dv_cq& cq);
        /// The next CQE, if there is one.
        [[nodiscard]] const mlx5::Cqe* peek() const;
    };
    struct alignas(RTE_CACHE_LINE_SIZE) RxQueue {
        Completions cq;
        mlx5::WqeDataSeg* wqes = nullptr;
        mlx5::QueueDoorbell* doorbell = nullptr;
        uint32_t mask = 0;
        uint16_t producer = 0;
        RingArray<rte_mbuf*> mbufs; ///< of each WQE
    };
    struct alignas(RTE_CACHE_LINE_SIZE) TxQueue {
        Completions cq;
        uint8_t* wqes = nullptr;
        mlx5::QueueDoorbell* doorbell = nullptr;
        volatile uint64_t* uar = nullptr;
        uint32_t mask = 0; ///< WQEBBs
        uint32_t qp_number = 0;
        uint16_t producer = 0;
        uint16_t sent = 0, freed = 0; ///< mbufs
        RingArray<rte_mbuf*> mbufs;   ///< that the device has, and those that it has returned
        RingArray<uint16_t> ends;     ///< of each WQE: `sent` after its last packet
    };
    void map_rx(const VerbsQueue& verbs, RxQueue& queue);
    void map_tx(const VerbsQueue& verbs, TxQueue& queue);
    template <bool kFetch> uint16_t rx(RxQueue& queue, rte_mbuf** mbufs, uint16_t count);
    template <bool kFetch> uint16_t tx(TxQueue& queue, rte_mbuf** mbufs, uint16_t count);
    void recycle(TxQueue& queue);

    std::vector<RxQueue> rx_;
    std::vector<TxQueue> tx_;
    size_t stack_size_;
    FloorAhead ahead_;
};

} // namespace perf
