// SPDX-License-Identifier: BSD-3-Clause
// The floor of rates: the least that any single-threaded device must do to move packets from a send
// queue to a receive queue of the mlx5 formats.
//
// The lcore's side is the floor's (floor_queue.hpp). The device's side is a thread that only moves
// the lines that the formats require: it reads WQEs, receive WQEs and doorbell records, copies
// packets and writes CQEs. No keys, checks, rules, sums, counters.
#pragma once

#include "app/rawqp-perf/floor_queue.hpp"
#include "app/rawqp-perf/port.hpp"

#include <array>
#include <atomic>
#include <thread>

namespace perf {

/// How far ahead of their use the thread prefetches lines, in packets: of few lines, and of many.
/// 0: not at all.
struct MoverAhead {
    struct Packets {
        uint16_t few = 32, many = 2;
        [[nodiscard]] uint32_t of(uint32_t bytes) const { return bytes <= 256 ? few : many; }
    };
    Packets fetch = {}; ///< of packets that it reads
    Packets claim = {}; ///< of buffers and CQEs that it writes
};

/// Both ends of a cable. One queue, whose rings are in plain memory.
class RateFloor {
  public:
    /// Throws std::runtime_error when the CPU is not one of this process's.
    RateFloor(unsigned device_cpu, const PortSetup& setup, const MoverAhead& mover);
    ~RateFloor();
    RateFloor(const RateFloor&) = delete;
    RateFloor& operator=(const RateFloor&) = delete;

    uint16_t rx(uint16_t, rte_mbuf** mbufs, uint16_t count) {
        return receive(rx_, stack_, ahead_, mbufs, count);
    }
    uint16_t tx(uint16_t, rte_mbuf** mbufs, uint16_t count) {
        return send(tx_, stack_, ahead_, mbufs, count);
    }
    [[nodiscard]] static uint16_t queues() { return 1; }
    [[nodiscard]] static std::vector<uint16_t> queue_ports() { return {1024}; }
    [[nodiscard]] static rte_ether_addr mac() { return {}; }
    [[nodiscard]] static std::vector<const void*> bursts() { return {}; }
    [[nodiscard]] static std::vector<MemorySpan> stack() { return {}; }
    void ready() {}
    [[nodiscard]] rte_mempool* pool() const { return pool_.get(); }
    [[nodiscard]] static std::string driver() { return "floor"; }
    [[nodiscard]] static std::string modes() {
        return "rings in memory, whose lines a thread moves";
    }

  private:
    struct Records {
        alignas(RTE_CACHE_LINE_SIZE) mlx5::QueueDoorbell rx;
        alignas(RTE_CACHE_LINE_SIZE) mlx5::QueueDoorbell tx;
        alignas(RTE_CACHE_LINE_SIZE) mlx5::CqDoorbell rx_cq;
        alignas(RTE_CACHE_LINE_SIZE) mlx5::CqDoorbell tx_cq;
        alignas(RTE_CACHE_LINE_SIZE) uint64_t uar;
    };
    struct Packet {
        const uint8_t* data;
        uint32_t bytes;
    };
    static constexpr uint32_t kBatch = 128;

    void map(uint16_t descriptors);
    void work();
    /// Reads the WQEs before `end` as a batch. Returns the number of their packets.
    uint32_t gather(uint16_t end);
    /// Puts the batch into the receive queue.
    void place(uint32_t count);
    bool await_room(uint32_t count);
    void write_completion(uint32_t bytes);
    void complete_sends();

    Pool pool_;
    int socket_;
    std::vector<rte_mbuf*> stack_;
    // The lcore does not prefetch CQEs: the thread is about to write them.
    FloorAhead ahead_{.rx = 0, .tx = 0, .claim = 0};
    RingArray<Records> records_;
    RingArray<mlx5::Cqe> rx_cqes_, tx_cqes_;
    RingArray<mlx5::WqeDataSeg> rx_wqes_;
    RingArray<uint8_t> tx_wqes_;
    FloorRx rx_;
    FloorTx tx_;

    alignas(RTE_CACHE_LINE_SIZE) std::atomic<bool> stop_ = false;
    // The thread's.
    alignas(RTE_CACHE_LINE_SIZE) uint16_t sq_ = 0; ///< WQEBBs done
    uint16_t rq_ = 0, rq_posted_ = 0;
    uint32_t rx_cq_ = 0, tx_cq_ = 0;
    const MoverAhead mover_;
    std::array<Packet, kBatch> packets_;  ///< of the batch
    std::array<uint16_t, kBatch> wqes_{}; ///< likewise
    uint32_t wqe_count_ = 0;
    std::thread thread_;
};

} // namespace perf
