// SPDX-License-Identifier: BSD-3-Clause
// Striding (multi-packet) receive queues.
#include "app/softhca/core/requests.hpp"
#include "tests/unit/softhca/testbed.hpp"

namespace testbed {
namespace {

constexpr uint32_t kStride = 128, kStrides = 16, kWqeRoom = kStride * kStrides;
constexpr uint32_t kFiller = 1u << 31;

class Striding : public Testbed {
  protected:
    explicit Striding(bool shift = false)
        : queue(*device, pd, rx_cq.number,
                {.log_wqes = 2,
                 .log_wqe_bytes = 5,
                 .striding =
                     StridingAttr{.log_strides = 4, .log_stride_bytes = 7, .two_byte_shift = shift},
                 .listener = &listener}) {
        steer_all(queue);
    }
    void post() { queue.post({{lkey, memory_at((queue.producer & 3u) * kWqeRoom), kWqeRoom}}); }
    void arrive(size_t bytes, uint8_t seed = 0) {
        wire->incoming.push_back(frames::pattern(bytes, seed));
    }
    /// Expects a packet in these strides.
    void expect_at(uint16_t wqe, uint16_t stride, uint32_t strides, size_t bytes, uint8_t seed = 0,
                   size_t shift = 0) {
        const mlx5::Cqe& cqe = expect_packet(rx_cq);
        rx_cq.release();
        EXPECT_EQ(cqe.wqe_id, wqe);
        EXPECT_EQ(cqe.wqe_counter, stride);
        EXPECT_EQ(cqe.byte_count, strides << 16 | bytes);
        EXPECT_EQ(get(memory_at((wqe & 3u) * kWqeRoom + stride * kStride + shift), bytes),
                  frames::pattern(bytes, seed));
    }
    void expect_filler(uint16_t wqe, uint16_t stride) {
        const mlx5::Cqe& cqe = expect_packet(rx_cq);
        rx_cq.release();
        EXPECT_EQ(cqe.wqe_id, wqe);
        EXPECT_EQ(cqe.byte_count, kFiller | (kStrides - stride) << 16);
    }

    TestRq queue;
};

TEST_F(Striding, PacketsShareAWqe) {
    post();
    arrive(64, 1);
    arrive(128, 2);
    arrive(129, 3);
    arrive(1500, 4);
    run();
    expect_at(0, 0, 1, 64, 1);
    expect_at(0, 1, 1, 128, 2);
    expect_at(0, 2, 2, 129, 3);
    expect_at(0, 4, 12, 1500, 4); // up to the last stride: no filler
    EXPECT_EQ(rx_cq.poll(), nullptr);
    EXPECT_EQ(device->rq_counters(queue.number)->wqes, 1u);
}

TEST_F(Striding, FillerClosesAWqeThatIsTooFull) {
    post();
    post();
    arrive(1500, 1);
    arrive(1000, 2);
    run();
    expect_at(0, 0, 12, 1500, 1);
    expect_filler(0, 12);
    expect_at(1, 0, 8, 1000, 2);
}

TEST_F(Striding, FillerThenOutOfBuffer) {
    post();
    arrive(1500, 1);
    arrive(1000, 2);
    run();
    expect_at(0, 0, 12, 1500, 1);
    expect_filler(0, 12);
    EXPECT_EQ(rx_cq.poll(), nullptr);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 1u);
    post();
    arrive(60, 3);
    run();
    expect_at(1, 0, 1, 60, 3);
}

TEST_F(Striding, WrapsAround) {
    for (uint16_t wqe = 0; wqe < 300; wqe++) {
        post();
        for (uint16_t i = 0; i < kStrides; i++)
            arrive(100, static_cast<uint8_t>(i + wqe));
        run();
        for (uint16_t i = 0; i < kStrides; i++)
            expect_at(wqe, i, 1, 100, static_cast<uint8_t>(i + wqe));
    }
    EXPECT_EQ(device->counters().delivered, 300u * kStrides);
}

TEST_F(Striding, PacketLongerThanAWqe) {
    device->set_mtu(9000);
    post();
    arrive(kWqeRoom + 1);
    run();
    const mlx5::ErrorCqe* const cqe = rx_cq.poll_error(mlx5::CqeOpcode::resp_error);
    ASSERT_NE(cqe, nullptr);
    EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(mlx5::CqeSyndrome::local_length));
    EXPECT_EQ(device->counters().drop_rx_error, 1u);
}

TEST_F(Striding, BadLkey) {
    queue.post({{lkey + 0x100, memory_at(0), kWqeRoom}});
    arrive(60);
    run();
    const mlx5::ErrorCqe* const cqe = rx_cq.poll_error(mlx5::CqeOpcode::resp_error);
    ASSERT_NE(cqe, nullptr);
    EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(mlx5::CqeSyndrome::local_protection));
}

TEST_F(Striding, ResetForgetsTheStride) {
    post();
    arrive(500);
    run();
    expect_at(0, 0, 4, 500);
    ASSERT_TRUE(device->modify_rq(queue.number, QueueState::reset));
    ASSERT_TRUE(device->modify_rq(queue.number, QueueState::ready));
    queue.producer = 0;
    post();
    arrive(60);
    run();
    expect_at(0, 0, 1, 60);
}

class StridingShifted : public Striding {
  protected:
    StridingShifted() : Striding(true) {}
};

TEST_F(StridingShifted, TwoBytesAlignTheIpHeader) {
    post();
    arrive(126, 1);
    arrive(127, 2); // with the shift one stride is too short
    run();
    expect_at(0, 0, 1, 126, 1, 2);
    expect_at(0, 1, 2, 127, 2, 2);
}

} // namespace
} // namespace testbed
