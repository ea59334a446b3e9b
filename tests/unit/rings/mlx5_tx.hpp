// SPDX-License-Identifier: BSD-3-Clause
// A send queue on fake rings, with a device that executes posted WQEs.
#pragma once

#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mlx5.hpp"
#include "tests/unit/rings/tx_ring.hpp"

#include <gmock/gmock.h>

#include <deque>
#include <optional>

namespace rings_test {

struct TxSetup {
    uint16_t descriptors = 64;
    uint16_t max_segments = 8;
    uint64_t offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    uint32_t sq_wqebbs = 64;
    uint32_t part_id = kFakePartId;
    bool multi_packet = false;
    unsigned simd_bits = 128;
    uint16_t inline_bytes = 0;
    rawqp::InlineMode min_inline = rawqp::InlineMode::automatic;
    bool blue_flame = false;
    bool own_register = true;
    bool metadata = false; ///< applications have registered its field
    uint64_t time_mask = 0;
};

class Mlx5Tx : public TxRingTest {
  protected:
    Mlx5Tx() : TxRingTest(rawqp::kMlx5Format) {}

    void start(const TxSetup& setup = {}) {
        fake_flags = setup.multi_packet ? MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW : 0;
        cq.emplace(rawqp::tx_cq_depth(setup.descriptors, setup.offloads));
        sq.emplace(setup.sq_wqebbs);
        executed = 0;
        completions = 0;
        spec.api = &fake_api();
        spec.vendor_part_id = setup.part_id;
        spec.cq = &cq->handle;
        spec.qp = &sq->handle;
        spec.descriptors = setup.descriptors;
        spec.max_segments = setup.max_segments;
        spec.offloads = setup.offloads;
        spec.active_simd_bits = setup.simd_bits;
        spec.inline_bytes = setup.inline_bytes;
        spec.min_inline = setup.min_inline;
        spec.blue_flame = setup.blue_flame;
        spec.own_register = setup.own_register;
        spec.max_tso = 1 << 18;
        spec.metadata = setup.metadata;
        spec.time_mask = setup.time_mask;
        spec.clock_khz = 1'000'000;
        if ((spec.offloads & RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP) != 0) {
            ASSERT_EQ(rte_mbuf_dyn_tx_timestamp_register(&time_offset, &time_flag), 0);
        }
        if (spec.metadata && rte_flow_dynf_metadata_avail() == 0) {
            ASSERT_EQ(rte_flow_dynf_metadata_register(), 0);
        }
        start_ring();
    }
    rte_mbuf* packet_with_metadata(uint32_t number, uint16_t bytes = 64) {
        rte_mbuf* const mbuf = packet(0, {bytes});
        mbuf->ol_flags |= RTE_MBUF_DYNFLAG_TX_METADATA;
        *RTE_FLOW_DYNF_METADATA(mbuf) = number;
        return mbuf;
    }
    rte_mbuf* packet_at(uint64_t time, uint32_t seed = 0) {
        rte_mbuf* const mbuf = packet(seed, {64});
        mbuf->ol_flags |= time_flag;
        *RTE_MBUF_DYNFIELD(mbuf, time_offset, uint64_t*) = time;
        return mbuf;
    }
    void forget() override {
        sq->doorbell.send = 0;
        executed = 0;
        wire.clear();
    }

    /// Sends batches of every size up to `largest`, with packets of `shortest` bytes and more, and
    /// expects each packet on the wire; repeated `laps` times.
    void send_every_batch(int laps, uint16_t largest, uint16_t shortest) {
        uint32_t seed = 0;
        uint64_t bytes = 0;
        for (int lap = 0; lap < laps; ++lap) {
            for (uint16_t batch = 1; batch <= largest; ++batch) {
                std::vector<rte_mbuf*> packets;
                for (uint16_t i = 0; i < batch; ++i)
                    packets.push_back(packet(seed + i, {static_cast<uint16_t>(shortest + i)}));
                ASSERT_EQ(send(packets), batch);
                ASSERT_LE(pending_wqebbs(), 64u);
                for (uint16_t i = 0; i < batch; ++i) {
                    ASSERT_EQ(execute(), expected(seed + i, uint32_t{shortest} + i));
                    bytes += uint32_t{shortest} + i;
                }
                ASSERT_EQ(pending_wqebbs(), 0u);
                seed += batch;
            }
        }
        EXPECT_EQ(ring->counters.packets, seed);
        EXPECT_EQ(ring->counters.bytes, bytes);
        EXPECT_EQ(ring->counters.errors, 0u);
        settle();
        EXPECT_EQ(in_use(), 0u);
    }

    struct Shape {
        mlx5::WqeOpcode opcode;
        uint32_t segments;
        bool operator==(const Shape&) const = default;
    };
    /// The WQEs between the device's position and the doorbell.
    [[nodiscard]] std::vector<Shape> posted() const {
        std::vector<Shape> out;
        for (uint16_t at = executed; at != static_cast<uint16_t>(sq->doorbell.send);) {
            const auto control = sq->segment<mlx5::WqeCtrlSeg>(at, 0);
            const uint32_t size = control.qpn_ds & 0x3f;
            out.push_back({static_cast<mlx5::WqeOpcode>(control.opmod_idx_opcode & 0xff), size});
            at = static_cast<uint16_t>(at + (size + 3) / 4);
        }
        return out;
    }

    [[nodiscard]] uint16_t pending_wqebbs() const {
        return static_cast<uint16_t>(sq->doorbell.send - executed);
    }

    /// The device fails the oldest WQE and flushes the others.
    void break_queue(mlx5::CqeSyndrome syndrome) {
        while (pending_wqebbs() > 0) {
            const auto control = sq->segment<mlx5::WqeCtrlSeg>(executed, 0);
            cq->write_error(mlx5::CqeOpcode::req_error, syndrome, executed);
            executed = static_cast<uint16_t>(executed + ((control.qpn_ds & 0x3f) + 3) / 4);
            syndrome = mlx5::CqeSyndrome::flushed;
        }
    }

    /// The next packet on the wire. If there is none, executes the oldest WQE first, and writes a
    /// CQE if one was asked for.
    std::vector<uint8_t> execute() {
        if (wire.empty()) execute_wqe();
        if (wire.empty()) return {};
        std::vector<uint8_t> bytes = std::move(wire.front());
        wire.pop_front();
        return bytes;
    }
    void execute_wqe() {
        EXPECT_GT(pending_wqebbs(), 0u);
        ++clock;
        const auto control = sq->segment<mlx5::WqeCtrlSeg>(executed, 0);
        const auto opcode = static_cast<mlx5::WqeOpcode>(control.opmod_idx_opcode & 0xff);
        EXPECT_EQ(control.opmod_idx_opcode >> 8 & 0xffff, executed);
        EXPECT_EQ(control.qpn_ds >> 8, FakeSq::kNumber);
        const uint32_t size = control.qpn_ds & 0x3f;
        switch (opcode) {
        case mlx5::WqeOpcode::send:
        case mlx5::WqeOpcode::tso: execute_send(size); break; // TSO: not cut into segments
        case mlx5::WqeOpcode::enhanced_mpw: execute_multi_packet(size); break;
        case mlx5::WqeOpcode::wait: // has already waited
        case mlx5::WqeOpcode::nop: break;
        default: FAIL() << "opcode " << static_cast<int>(opcode);
        }
        if (control.fm_ce_se & mlx5::kCqUpdateMask) {
            mlx5::Cqe cqe{};
            cqe.wqe_counter = executed;
            cqe.timestamp = clock;
            cq->write(cqe, mlx5::CqeOpcode::req);
            ++completions;
        }
        executed = static_cast<uint16_t>(executed + (size + 3) / 4);
    }
    void execute_send(uint32_t size) {
        const auto eth = sq->segment<mlx5::WqeEthSeg>(executed, 1);
        std::vector<uint8_t> bytes;
        uint32_t at = 2;
        if (eth.inline_size != 0 && !(eth.inline_size & mlx5::kInsertVlan)) {
            const auto wqe = sq->wqe(executed, size * mlx5::kSegment);
            bytes.assign(wqe.begin() + 30, wqe.begin() + 30 + eth.inline_size);
            at = 2 + (eth.inline_size - 2u + 15) / 16;
        }
        for (; at < size; ++at)
            gather(at, bytes);
        wire.push_back(std::move(bytes));
    }
    void execute_multi_packet(uint32_t size) {
        EXPECT_GT(size, 2u);
        const auto wqe = sq->wqe(executed, size * mlx5::kSegment);
        for (uint32_t at = 2; at < size;) {
            std::vector<uint8_t> bytes;
            const auto word = net::load_be<uint32_t>(&wqe[at * mlx5::kSegment]);
            if (word & mlx5::kInlineFlag) {
                const auto first = wqe.begin() + at * mlx5::kSegment + 4;
                const uint32_t length = word & ~mlx5::kInlineFlag;
                ASSERT_LE(at * mlx5::kSegment + 4 + length, wqe.size());
                bytes.assign(first, first + length);
                at += (4 + length + 15) / 16;
                ++inlined;
            } else {
                gather(at++, bytes);
            }
            wire.push_back(std::move(bytes));
        }
    }
    /// Appends the data that data segment `at` of the oldest WQE points to.
    void gather(uint32_t at, std::vector<uint8_t>& bytes) {
        const auto data = sq->segment<mlx5::WqeDataSeg>(executed, at);
        EXPECT_EQ(data.lkey,
                  mrs.split != 0 && data.addr >= mrs.split ? FakeMrs::kLkey + 1 : FakeMrs::kLkey);
        EXPECT_GT(data.byte_count, 0u) << "would mean 2 GiB";
        const auto* from = reinterpret_cast<const uint8_t*>(uint64_t{data.addr});
        bytes.insert(bytes.end(), from, from + data.byte_count);
    }
    /// Everything is sent, and every mbuf that nobody else holds is freed.
    void settle() {
        ASSERT_EQ(send(nullptr, 0), 0u);
        execute_all();
        ASSERT_EQ(send(nullptr, 0), 0u);
    }
    void execute_all() {
        while (pending_wqebbs() > 0)
            execute_wqe();
        wire.clear();
    }

    std::optional<FakeCq> cq;
    std::optional<FakeSq> sq;
    std::deque<std::vector<uint8_t>> wire; ///< packets of executed WQEs
    uint16_t executed = 0;                 ///< WQEBBs that the device has finished
    uint64_t clock = 0;                    ///< advances by one tick per WQE
    int inlined = 0;                       ///< packets that were inlined in multi-packet WQEs
    int time_offset = 0;                   ///< of the mbuf field for the time to send at
    uint64_t time_flag = 0;
};

} // namespace rings_test
