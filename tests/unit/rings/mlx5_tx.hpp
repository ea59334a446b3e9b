// SPDX-License-Identifier: BSD-3-Clause
// A send queue on fake rings, with a device that executes posted WQEs.
#pragma once

#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mlx5.hpp"
#include "tests/unit/rings/packets.hpp"

#include <gmock/gmock.h>

#include <optional>

namespace rings_test {

struct TxSetup {
    uint16_t descriptors = 64;
    uint16_t max_segments = 8;
    uint64_t offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    uint32_t sq_wqebbs = 64;
    uint32_t part_id = 0x1019;
};

class Mlx5Tx : public test_eal::EalTest {
  protected:
    void start(const TxSetup& setup = {}) {
        pool = test_eal::make_pool(512);
        ASSERT_NE(pool, nullptr);
        fake_part_id = setup.part_id;
        cq.emplace(setup.descriptors);
        sq.emplace(setup.sq_wqebbs);
        spec.api = &fake_api();
        spec.cq = &cq->handle;
        spec.qp = &sq->handle;
        spec.descriptors = setup.descriptors;
        spec.max_segments = setup.max_segments;
        spec.offloads = setup.offloads;
        spec.mrs = &mrs;
        const auto created = rawqp::kMlx5Format.tx_create(spec);
        ASSERT_TRUE(created) << created.error().what;
        ring = *created;
        ring->control = this;
        ring->reset_qp = [](rawqp::TxRing& reset) {
            return static_cast<Mlx5Tx*>(reset.control)->on_reset();
        };
        burst = rawqp::kMlx5Format.tx_burst(spec);
        rawqp::kMlx5Format.tx_start(*ring);
    }
    void TearDown() override {
        if (ring == nullptr) return;
        rawqp::kMlx5Format.tx_stop(*ring);
        rawqp::kMlx5Format.tx_destroy(ring);
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
    }
    int on_reset() {
        ++resets;
        if (reset_result != 0) return reset_result;
        sq->doorbell.send = 0;
        executed = 0;
        return 0;
    }

    uint16_t send(rte_mbuf** packets, uint16_t count) {
        return burst.function(ring, packets, count);
    }
    uint16_t send(std::vector<rte_mbuf*> packets) {
        return send(packets.data(), static_cast<uint16_t>(packets.size()));
    }
    rte_mbuf* packet(uint32_t seed, const std::vector<uint16_t>& lengths) {
        return make_packet(pool.get(), seed, lengths);
    }
    [[nodiscard]] uint16_t pending_wqebbs() const {
        return static_cast<uint16_t>(sq->doorbell.send - executed);
    }

    /// Executes the oldest WQE: returns the packet's bytes, writes a CQE when one was asked for.
    std::vector<uint8_t> execute() {
        EXPECT_GT(pending_wqebbs(), 0u);
        const auto control = sq->segment<mlx5::WqeCtrlSeg>(executed, 0);
        const auto eth = sq->segment<mlx5::WqeEthSeg>(executed, 1);
        EXPECT_EQ(control.opmod_idx_opcode,
                  uint32_t{executed} << 8 | static_cast<uint32_t>(mlx5::WqeOpcode::send));
        EXPECT_EQ(control.qpn_ds >> 8, FakeSq::kNumber);
        const uint32_t size = control.qpn_ds & 0x3f;

        std::vector<uint8_t> bytes;
        uint32_t at = 2;
        if (eth.inline_size != 0 && !(eth.inline_size & mlx5::kInsertVlan)) {
            const auto wqe = sq->wqe(executed, size * mlx5::kSegment);
            bytes.assign(wqe.begin() + 30, wqe.begin() + 30 + eth.inline_size);
            at = 3;
        }
        for (; at < size; ++at) {
            const auto data = sq->segment<mlx5::WqeDataSeg>(executed, at);
            EXPECT_EQ(data.lkey, mrs.split != 0 && data.addr >= mrs.split ? FakeMrs::kLkey + 1
                                                                          : FakeMrs::kLkey);
            EXPECT_GT(data.byte_count, 0u) << "would mean 2 GiB";
            const auto* from = reinterpret_cast<const uint8_t*>(uint64_t{data.addr});
            bytes.insert(bytes.end(), from, from + data.byte_count);
        }
        if (control.fm_ce_se & mlx5::kCqUpdateMask) {
            mlx5::Cqe cqe{};
            cqe.wqe_counter = executed;
            cq->write(cqe, mlx5::CqeOpcode::req);
            ++completions;
        }
        executed = static_cast<uint16_t>(executed + (size + 3) / 4);
        return bytes;
    }
    void execute_all() {
        while (pending_wqebbs() > 0)
            execute();
    }
    static std::vector<uint8_t> expected(uint32_t seed, uint32_t bytes) {
        std::vector<uint8_t> out(bytes);
        for (uint32_t i = 0; i < bytes; ++i)
            out[i] = tx_pattern(seed, i);
        return out;
    }
    [[nodiscard]] unsigned in_use() const { return rte_mempool_in_use_count(pool.get()); }

    FakeMrs mrs;
    test_eal::Pool pool;
    std::optional<FakeCq> cq;
    std::optional<FakeSq> sq;
    rawqp::TxSpec spec;
    rawqp::TxRing* ring = nullptr;
    rawqp::Burst<eth_tx_burst_t> burst;
    uint16_t executed = 0; ///< WQEBBs that the device is through with
    int completions = 0;
    int resets = 0;
    int reset_result = 0;
};

} // namespace rings_test
