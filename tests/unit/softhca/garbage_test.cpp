// SPDX-License-Identifier: BSD-3-Clause
// Random content in rings, doorbells and on the wire, with fixed seeds: whatever a program writes,
// the device responds with CQEs and states. Under ASan and UBSan this proves the bounds checks.
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>
#include <random>

namespace testbed {
namespace {

class Garbage : public Testbed, public testing::WithParamInterface<uint32_t> {
  protected:
    Garbage()
        : scattered(*device, pd, rx_cq.number, {.log_wqes = 3, .log_wqe_bytes = 6}),
          striding(*device, pd, rx_cq.number,
                   {.log_wqes = 2,
                    .log_wqe_bytes = 5,
                    .striding = StridingAttr{.log_strides = 6, .log_stride_bytes = 6}}) {
        for (const TestRq* const queue : {&rq, &scattered, &striding})
            flows.push_back(steer_all(*queue));
    }
    uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random() % limit); }

    /// An almost valid WQE: random segments, then some bytes overwritten.
    Bytes random_wqe() {
        constexpr mlx5::WqeOpcode kOpcodes[] = {mlx5::WqeOpcode::send, mlx5::WqeOpcode::tso,
                                                mlx5::WqeOpcode::enhanced_mpw,
                                                mlx5::WqeOpcode::nop};
        Wqe wqe(kOpcodes[below(4)], static_cast<uint8_t>(random()));
        Bytes header = frames::build({.proto = frames::kTcp, .payload = Bytes(below(20))});
        header.resize(below(3) == 0 ? below(100) : 54);
        wqe.eth(static_cast<uint8_t>(random()), below(2) ? header : Bytes{},
                static_cast<uint16_t>(random()));
        for (uint32_t segments = below(6); segments > 0; segments--) {
            if (below(3) == 0)
                wqe.inline_data(Bytes(below(60)));
            else
                wqe.data(lkey, memory_at(below(kMemory)), below(4000));
        }
        for (uint32_t flips = below(4); flips > 0; flips--)
            wqe.bytes[below(static_cast<uint32_t>(wqe.bytes.size()))] =
                static_cast<uint8_t>(random());
        return wqe.bytes;
    }
    void fill(const Pages& pages) {
        for (size_t i = 0; i < pages.size(); i++)
            pages.data()[i] = static_cast<std::byte>(random());
    }
    void scramble_receive_rings() {
        for (TestRq* const queue : {&rq, &scattered, &striding}) {
            if (below(2)) {
                fill(queue->ring);
            } else { // valid keys and addresses, odd lengths
                for (size_t at = 0; at < queue->ring.size(); at += 16) {
                    mlx5::WqeDataSeg segment{};
                    segment.byte_count = below(3) ? below(6000) : static_cast<uint32_t>(random());
                    segment.lkey = below(6) ? lkey : static_cast<uint32_t>(random());
                    segment.addr =
                        reinterpret_cast<uint64_t>(memory.data()) + below(kMemory + 1000) - 500;
                    std::memcpy(queue->ring.data() + at, &segment, sizeof segment);
                }
            }
            queue->producer = static_cast<uint16_t>(queue->producer + below(7));
            if (below(30) == 0) queue->producer = static_cast<uint16_t>(random());
            queue->doorbell.receive = queue->producer;
        }
    }
    void recover() {
        const auto drain = [this](TestCq& cq) {
            while (const mlx5::Cqe* const cqe = cq.poll())
                coalesced += TestCq::opcode(*cqe) == mlx5::CqeOpcode::resp_send &&
                             cqe->srqn_uidx >> mlx5::kLroSegmentsShift > 1;
            cq.release();
        };
        drain(tx_cq);
        drain(rx_cq);
        if (*device->query_sq(sq.number) == QueueState::error) {
            ASSERT_TRUE(device->modify_sq(sq.number, QueueState::reset));
            ASSERT_TRUE(device->modify_sq(sq.number, QueueState::ready));
            sq.producer = 0;
        }
        for (TestRq* const queue : {&rq, &scattered, &striding}) {
            if (*device->query_rq(queue->number) != QueueState::error) continue;
            ASSERT_TRUE(device->modify_rq(queue->number, QueueState::reset));
            ASSERT_TRUE(device->modify_rq(queue->number, QueueState::ready));
            queue->producer = 0;
        }
    }

    std::mt19937 random{GetParam()};
    TestRq scattered, striding;
    std::vector<Number> flows; ///< one for each queue
    size_t coalesced = 0;      ///< completions of several segments
};

TEST_P(Garbage, NearlyRightSendWqes) {
    for (int round = 0; round < 3000; round++) {
        Wqe wqe(mlx5::WqeOpcode::nop);
        for (uint32_t count = below(4) + 1; count > 0; count--) {
            wqe.bytes = random_wqe();
            const uint16_t index = sq.post(wqe);
            if (below(8) == 0) sq.write(index, below(8), {static_cast<uint8_t>(random())});
        }
        if (below(20) == 0) sq.producer = static_cast<uint16_t>(random());
        sq.ring_doorbell();
        run();
        wire->sent.clear();
        recover();
        if (HasFatalFailure()) return;
    }
    EXPECT_GT(device->counters().tx_error_wqes, 100u);
    EXPECT_GT(device->counters().wire_tx_packets, 100u) << "the test should not only fail";
}

TEST_P(Garbage, RandomSendRing) {
    const Number meters = *device->create_meters({.pd = pd});
    constexpr uint8_t kAccessAso = 0x2d, kPolicer = 2;
    for (int round = 0; round < 2000; round++) {
        fill(sq.ring);
        for (uint16_t i = 0; i < 32; i++) { // valid control segments, so that the device reads on
            if (below(4) == 0) continue;
            constexpr uint8_t kOpcodes[] = {0x0a, 0x0e, 0x29, 0x00, kAccessAso};
            Bytes ctrl(16);
            frames::put32(ctrl, 0, kPolicer << 24 | uint32_t{i} << 8 | kOpcodes[below(5)]);
            frames::put32(ctrl, 4, sq.number << 8 | below(64));
            ctrl[11] = static_cast<uint8_t>(random());
            frames::put32(ctrl, 12, meters);
            sq.write(i, 0, ctrl);
        }
        sq.producer = static_cast<uint16_t>(below(34));
        sq.ring_doorbell();
        run();
        wire->sent.clear();
        recover();
        ASSERT_TRUE(device->modify_sq(sq.number, QueueState::reset));
        ASSERT_TRUE(device->modify_sq(sq.number, QueueState::ready));
    }
}

TEST_P(Garbage, RandomReceiveRingsAndFrames) {
    for (int round = 0; round < 2000; round++) {
        scramble_receive_rings();
        for (uint32_t count = below(6); count > 0; count--) {
            Bytes frame = below(2) ? frames::build({})
                                   : frames::vxlan(1, frames::build({.proto = frames::kTcp}));
            frame.resize(below(1600) + 1);
            for (uint32_t flips = below(8); flips > 0; flips--)
                frame[below(static_cast<uint32_t>(frame.size()))] = static_cast<uint8_t>(random());
            wire->incoming.push_back(std::move(frame));
        }
        run();
        recover();
        if (HasFatalFailure()) return;
    }
    const PortCounters counters = device->counters();
    EXPECT_GT(counters.delivered, 100u);
    EXPECT_GT(counters.drop_rx_error, 100u);
}

/// Rings change while segments are written to their buffers.
TEST_P(Garbage, LroIntoRandomRings) {
    for (const Number flow : flows)
        ASSERT_TRUE(device->destroy_flow(flow));
    for (const TestRq* const queue : {&rq, &scattered, &striding}) {
        TirAttr attr;
        attr.rqn = queue->number;
        attr.lro = {.ipv4 = true, .timeout_ns = 1000 * below(20), .max_bytes = 4000 + below(16000)};
        FlowAttr flow;
        flow.tirs = {device->create_tir(attr).value()};
        (void)device->create_flow(flow).value();
    }
    frames::Spec segment{.proto = frames::kTcp};
    for (int round = 0; round < 2000; round++) {
        scramble_receive_rings();
        for (uint32_t count = below(6); count > 0; count--) {
            segment.payload = Bytes(below(4) ? 1400 : below(1440));
            segment.tcp_flags = static_cast<uint8_t>(below(10) ? frames::kAck : random());
            wire->incoming.push_back(frames::build(segment));
            segment.sequence += static_cast<uint32_t>(segment.payload.size());
        }
        if (below(4)) // sessions continue in the next round
            (void)device->poll();
        else
            run();
        recover();
        if (HasFatalFailure()) return;
    }
    run();
    const PortCounters counters = device->counters();
    EXPECT_GT(counters.delivered, 100u);
    EXPECT_GT(counters.drop_rx_error, 100u);
    EXPECT_EQ(counters.delivered + counters.drop_rx_error + counters.drop_out_of_buffer +
                  counters.drop_queue_not_ready,
              3 * counters.wire_rx_packets);
    EXPECT_GT(coalesced, 100u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Garbage, testing::Values(1u, 2u, 3u));

} // namespace
} // namespace testbed
