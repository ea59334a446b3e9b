// SPDX-License-Identifier: BSD-3-Clause
// Queues of the mlx5 rings on fake rings in plain memory, to be examined with callgrind.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/format.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mlx5.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <valgrind/callgrind.h>

namespace perf_test {

using namespace rings_test;

constexpr uint16_t kBurst = 32;
constexpr uint16_t kFrame = 60;
constexpr unsigned kScalar = 128, kAvx2 = 256;

using Packets = std::array<rte_mbuf*, kBurst>;

[[noreturn]] inline void fail(const std::string& what) {
    fprintf(stderr, "%s\n", what.c_str());
    exit(1);
}

inline rte_mempool* make_pool(unsigned mbufs, uint16_t room) {
    rte_mempool* const pool = rte_pktmbuf_pool_create("perf", mbufs, 256, 0, room, 0);
    if (pool == nullptr) fail("no mbuf pool");
    return pool;
}

/// Sets the vector width in specs that have one.
template <class Spec> void set_width(Spec& spec, unsigned bits) {
    if constexpr (requires { spec.active_simd_bits; }) spec.active_simd_bits = bits;
}

/// The port's, shared by all its queues.
inline FakeMrs& mrs() {
    static FakeMrs mrs;
    return mrs;
}

/// A receive queue on a fake ring, either cyclic or striding; the latter copies packets of up to
/// kStrideCopy bytes and attaches larger ones.
class Receiver {
  public:
    static constexpr uint8_t kLogStrides = 6, kLogStrideBytes = 11;
    static constexpr uint16_t kStrideCopy = 128;

    /// The packets, and how they arrive.
    struct Kind {
        uint64_t offloads = 0;
        bool striding = false;
        uint16_t bytes = kFrame;
        bool compressed = false; ///< all packets of a burst in one block
    };
    Receiver(rte_mempool* pool, uint16_t descriptors, unsigned bits, const Kind& kind)
        : format_(kind.striding ? *rawqp::kMlx5Format.striding : rawqp::kMlx5Format), kind_(kind),
          cq_(kind.compressed ? 2 * descriptors : descriptors),
          rq_(kind.striding ? descriptors >> kLogStrides : descriptors, kind.striding ? 2 : 1) {
        rawqp::RxSpec spec;
        spec.api = &fake_api();
        spec.cq = &cq_.handle;
        spec.wq = &rq_.handle;
        spec.descriptors = descriptors;
        spec.offloads = kind.offloads;
        spec.compressed = kind.compressed;
        if (kind.striding) spec.striding = {kLogStrides, kLogStrideBytes, kStrideCopy};
        spec.pool = pool;
        spec.mrs = &mrs().table;
        set_width(spec, bits);
        const auto ring = format_.rx_create(spec);
        if (!ring || !format_.rx_start(**ring)) fail("no receive ring");
        ring_ = *ring;
        burst_ = format_.rx_burst(spec).function;
    }
    ~Receiver() {
        format_.rx_stop(*ring_);
        format_.rx_destroy(ring_);
    }
    Receiver(const Receiver&) = delete;
    Receiver& operator=(const Receiver&) = delete;

    /// Acts as the device when `packets` packets arrive. Frees those taken before.
    void prepare(Packets& taken, uint16_t packets = kBurst) {
        if (taken[0] != nullptr) clean_up(taken, packets);
        taken[0] = nullptr;
        mlx5::Cqe cqe{};
        cqe.byte_count = byte_count();
        cqe.hds_ip_ext = mlx5::kL3Ok | mlx5::kL4Ok;
        cqe.l4_l3_type = static_cast<uint8_t>(2u << 4 | 2u << 2); // UDP over IPv4
        if (kind_.compressed) {
            cq_.write_block(cqe, std::vector(packets, mlx5::MiniCqe{0, byte_count()}));
            return;
        }
        for (uint16_t i = 0; i < packets; ++i) {
            cqe.wqe_counter = kind_.striding ? produced_ % (1u << kLogStrides) : produced_;
            ++produced_;
            cq_.write(cqe, mlx5::CqeOpcode::resp_send);
        }
    }
    [[nodiscard]] auto burst() const { return burst_; }
    [[nodiscard]] void* ring() const { return ring_; }
    static void clean_up(Packets& mbufs, uint16_t packets = kBurst) {
        rte_pktmbuf_free_bulk(mbufs.data(), packets);
    }

  private:
    /// A packet takes one stride.
    [[nodiscard]] uint32_t byte_count() const {
        return (kind_.striding ? 1u << 16 : 0u) | kind_.bytes;
    }

    const rawqp::RingFormat& format_;
    Kind kind_;
    FakeCq cq_;
    FakeRq rq_;
    rawqp::RxRing* ring_ = nullptr;
    eth_rx_burst_t burst_ = nullptr;
    uint16_t produced_ = 0;
};

/// A send queue on a fake ring.
class Sender {
  public:
    Sender(rte_mempool* pool, uint16_t descriptors, unsigned bits, uint64_t offloads)
        : pool_(pool), cq_(descriptors), sq_(descriptors) {
        rawqp::TxSpec spec;
        spec.api = &fake_api();
        spec.cq = &cq_.handle;
        spec.qp = &sq_.handle;
        spec.vendor_part_id = kFakePartId;
        spec.descriptors = descriptors;
        spec.offloads = offloads;
        spec.mrs = &mrs().table;
        set_width(spec, bits);
        const auto ring = rawqp::kMlx5Format.tx_create(spec);
        if (!ring) fail("no send ring");
        ring_ = *ring;
        rawqp::kMlx5Format.tx_start(*ring_);
        burst_ = rawqp::kMlx5Format.tx_burst(spec).function;
    }
    ~Sender() {
        rawqp::kMlx5Format.tx_stop(*ring_);
        rawqp::kMlx5Format.tx_destroy(ring_);
    }
    Sender(const Sender&) = delete;
    Sender& operator=(const Sender&) = delete;

    /// The device executes all that the doorbell offers; the application gets packets to send.
    void prepare(Packets& mbufs, uint16_t packets = kBurst) {
        execute();
        if (rte_pktmbuf_alloc_bulk(pool_, mbufs.data(), packets) != 0) fail("no mbufs");
        for (uint16_t i = 0; i < packets; ++i)
            mbufs[i]->data_len = static_cast<uint16_t>(mbufs[i]->pkt_len = kFrame);
    }
    [[nodiscard]] auto burst() const { return burst_; }
    [[nodiscard]] void* ring() const { return ring_; }
    static void clean_up(std::array<rte_mbuf*, kBurst>&) {}

  private:
    void execute() {
        while (executed_ != static_cast<uint16_t>(sq_.doorbell.send)) {
            const auto control = sq_.segment<mlx5::WqeCtrlSeg>(executed_, 0);
            if (control.fm_ce_se & mlx5::kCqUpdateMask) {
                mlx5::Cqe cqe{};
                cqe.wqe_counter = executed_;
                cq_.write(cqe, mlx5::CqeOpcode::req);
            }
            executed_ = static_cast<uint16_t>(executed_ + ((control.qpn_ds & 0x3f) + 3) / 4);
        }
    }

    rte_mempool* pool_;
    FakeCq cq_;
    FakeSq sq_;
    rawqp::TxRing* ring_ = nullptr;
    eth_tx_burst_t burst_ = nullptr;
    uint16_t executed_ = 0;
};

} // namespace perf_test
