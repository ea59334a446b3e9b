// SPDX-License-Identifier: BSD-3-Clause
// Receive queues that cannot take a packet: empty, faulty, in error, their CQ full.
#include "app/softhca/core/requests.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

namespace testbed {
namespace {

using mlx5::CqeSyndrome;

class ReceiveError : public Testbed {
  protected:
    ReceiveError() : flow(steer_all(rq)) {}
    const Number flow;

    void arrive(size_t bytes = 100) { wire->incoming.push_back(frames::pattern(bytes)); }
    void expect_error(uint16_t counter, CqeSyndrome syndrome, ReceiveFault fault) {
        const mlx5::ErrorCqe* const cqe = rx_cq.poll_error(mlx5::CqeOpcode::resp_error);
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(cqe->wqe_counter, counter);
        EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(syndrome));
        EXPECT_EQ(cqe->vendor_syndrome, static_cast<uint8_t>(fault));
        EXPECT_EQ(cqe->srqn_uidx, 0xa5u);
    }
    void expect_fault(CqeSyndrome syndrome, ReceiveFault fault) {
        arrive();
        run();
        expect_error(0, syndrome, fault);
        EXPECT_EQ(*device->query_rq(rq.number), QueueState::error);
        EXPECT_EQ(device->counters().drop_rx_error, 1u);
        EXPECT_EQ(device->counters().delivered, 0u);
    }
};

TEST_F(ReceiveError, EmptyQueueDropsAndCounts) {
    arrive();
    arrive();
    run();
    EXPECT_EQ(rx_cq.poll(), nullptr);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 2u);
    EXPECT_EQ(device->rq_counters(rq.number)->out_of_buffer, 2u);
    post_buffer(rq);
    arrive();
    run();
    expect_packet(rx_cq);
    EXPECT_EQ(device->counters().wire_rx_packets, 3u);
}

TEST_F(ReceiveError, UnknownLkey) {
    rq.post({{lkey + 0x100, memory_at(0), 2048}});
    expect_fault(CqeSyndrome::local_protection, ReceiveFault::protection);
}

TEST_F(ReceiveError, RegionWithoutLocalWrite) {
    const uint32_t key = make_key(*device, pd, memory);
    rq.post({{key, memory_at(0), 2048}});
    expect_fault(CqeSyndrome::local_protection, ReceiveFault::protection);
}

TEST_F(ReceiveError, RangeLeavesTheRegion) {
    rq.post({{lkey, memory_at(kMemory - 99), 2048}});
    expect_fault(CqeSyndrome::local_protection, ReceiveFault::protection);
}

TEST_F(ReceiveError, ForeignProtectionDomain) {
    const Number other = device->alloc_pd().value();
    const uint32_t key = make_key(*device, other, memory, true);
    rq.post({{key, memory_at(0), 2048}});
    expect_fault(CqeSyndrome::local_protection, ReceiveFault::protection);
}

TEST_F(ReceiveError, PacketLongerThanTheBuffer) {
    rq.post({{lkey, memory_at(0), 99}});
    expect_fault(CqeSyndrome::local_length, ReceiveFault::too_short);
}

TEST_F(ReceiveError, EndOfListMarker) {
    rq.post({});
    expect_fault(CqeSyndrome::local_length, ReceiveFault::too_short);
}

TEST_F(ReceiveError, DoorbellJumpBeyondTheRing) {
    rq.doorbell.receive = 65;
    arrive();
    run();
    expect_error(0, CqeSyndrome::local_qp_operation, ReceiveFault::doorbell_jump);
    EXPECT_EQ(rx_cq.poll(), nullptr);
    EXPECT_EQ(*device->query_rq(rq.number), QueueState::error);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 1u);
}

TEST_F(ReceiveError, TheRestIsFlushedAndTheQueueRecovers) {
    rq.post({{lkey + 0x100, memory_at(0), 2048}});
    post_buffers(rq, 3);
    arrive();
    arrive();
    run();
    expect_error(0, CqeSyndrome::local_protection, ReceiveFault::protection);
    for (uint16_t i = 1; i < 4; i++)
        expect_error(i, CqeSyndrome::flushed, ReceiveFault::none);
    EXPECT_EQ(rx_cq.poll(), nullptr);
    EXPECT_EQ(device->counters().drop_queue_not_ready, 1u);
    post_buffer(rq); // posted while in error
    run();
    expect_error(4, CqeSyndrome::flushed, ReceiveFault::none);
    EXPECT_EQ(device->rq_counters(rq.number)->error_cqes, 5u);
    rx_cq.release();

    EXPECT_EQ(refusal(device->modify_rq(rq.number, QueueState::ready)), Status::bad_state);
    ASSERT_TRUE(device->modify_rq(rq.number, QueueState::reset));
    EXPECT_EQ(rq.doorbell.receive, 0u);
    rq.producer = 0;
    ASSERT_TRUE(device->modify_rq(rq.number, QueueState::ready));
    post_buffer(rq);
    arrive();
    run();
    const mlx5::Cqe& cqe = expect_packet(rx_cq);
    EXPECT_EQ(cqe.wqe_counter, 0);
    EXPECT_EQ(packet_of(cqe), frames::pattern(100));
}

TEST_F(ReceiveError, QueueInResetDropsAndCounts) {
    ASSERT_TRUE(device->modify_rq(rq.number, QueueState::reset));
    arrive();
    run();
    EXPECT_EQ(device->counters().drop_queue_not_ready, 1u);
    EXPECT_EQ(rx_cq.poll(), nullptr);
}

TEST_F(ReceiveError, CompletionQueueOverrun) {
    TestCq small(*device, 2, &listener);
    TestRq queue(*device, pd, small.number, {.listener = &listener});
    ASSERT_TRUE(device->destroy_flow(flow));
    steer_all(queue);
    post_buffers(queue, 10);
    for (int i = 0; i < 6; i++)
        wire->incoming.push_back(frames::build({}));
    run();
    EXPECT_TRUE(listener.saw(AsyncEvent::cq_error));
    EXPECT_TRUE(listener.saw(AsyncEvent::rq_fatal));
    EXPECT_EQ(device->counters().delivered, 4u);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 1u);
    EXPECT_EQ(device->counters().drop_queue_not_ready, 1u);
    for (int i = 0; i < 4; i++)
        EXPECT_NE(small.poll(), nullptr);
    EXPECT_EQ(small.poll(), nullptr);
}

} // namespace
} // namespace testbed
