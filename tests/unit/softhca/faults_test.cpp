// SPDX-License-Identifier: BSD-3-Clause
// Injected faults look like real ones, hit what they name, and end.
#include "app/softhca/core/requests.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

namespace testbed {
namespace {

using mlx5::CqeSyndrome;

class Faults : public Testbed {
  protected:
    Faults() { device->add_listener(&listener); }
    void post_send() {
        sq.post(Wqe(mlx5::WqeOpcode::send).eth().data(lkey, memory_at(0), 64));
        sq.ring_doorbell();
    }
    void restart_sq() {
        ASSERT_TRUE(device->modify_sq(sq.number, QueueState::reset));
        ASSERT_TRUE(device->modify_sq(sq.number, QueueState::ready));
        sq.producer = 0;
    }
};

TEST_F(Faults, TheNextSendEndsInError) {
    ASSERT_TRUE(device->inject_error(sq.number, CompletionError::remote_access));
    run();
    EXPECT_EQ(tx_cq.poll(), nullptr) << "an idle queue has nothing to complete";
    post_send();
    run();
    const mlx5::ErrorCqe* const cqe = tx_cq.poll_error(mlx5::CqeOpcode::req_error);
    ASSERT_NE(cqe, nullptr);
    EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(CqeSyndrome::remote_access));
    EXPECT_EQ(cqe->vendor_syndrome, static_cast<uint8_t>(SendFault::injected));
    EXPECT_EQ(*device->query_sq(sq.number), QueueState::error);
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_EQ(device->counters().tx_error_wqes, 1u);

    restart_sq();
    post_send();
    run();
    EXPECT_EQ(wire->sent.size(), 1u) << "once";
}

TEST_F(Faults, TheNextPacketEndsInError) {
    steer_all(rq);
    post_buffers(rq, 2);
    ASSERT_TRUE(device->inject_error(rq.number, CompletionError::local_length));
    wire->incoming.push_back(frames::pattern(100));
    run();
    const mlx5::ErrorCqe* cqe = rx_cq.poll_error(mlx5::CqeOpcode::resp_error);
    ASSERT_NE(cqe, nullptr);
    EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(CqeSyndrome::local_length));
    EXPECT_EQ(cqe->vendor_syndrome, static_cast<uint8_t>(ReceiveFault::injected));
    cqe = rx_cq.poll_error(mlx5::CqeOpcode::resp_error);
    ASSERT_NE(cqe, nullptr) << "the second buffer is flushed";
    EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(CqeSyndrome::flushed));
    EXPECT_EQ(device->counters().drop_rx_error, 1u);
}

TEST_F(Faults, ABrokenQueueFlushesAndTells) {
    ASSERT_TRUE(device->inject_fatal(sq.number));
    EXPECT_EQ(*device->query_sq(sq.number), QueueState::error);
    post_send();
    run();
    const mlx5::ErrorCqe* const cqe = tx_cq.poll_error(mlx5::CqeOpcode::req_error);
    ASSERT_NE(cqe, nullptr);
    EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(CqeSyndrome::flushed));
    EXPECT_TRUE(wire->sent.empty());
}

TEST_F(Faults, QueuesAndCqsTellTheirOwners) {
    FakeListener owner;
    TestCq cq(*device, 4, &owner);
    TestSq broken_sq(*device, pd, cq.number, 4, &owner);
    TestRq broken_rq(*device, pd, cq.number, {.listener = &owner});
    for (const Number number : {broken_sq.number, broken_rq.number, cq.number})
        ASSERT_TRUE(device->inject_fatal(number)) << number;
    const std::vector<std::pair<AsyncEvent, Number>> expected = {
        {AsyncEvent::sq_fatal, broken_sq.number},
        {AsyncEvent::rq_fatal, broken_rq.number},
        {AsyncEvent::cq_error, cq.number}};
    EXPECT_EQ(owner.events, expected);
}

TEST_F(Faults, AFullCqTakesTheQueueThatCompletesThere) {
    FakeListener owner;
    TestCq cq(*device, 4, &owner);
    TestSq breaks(*device, pd, cq.number, 4, &owner), idle(*device, pd, cq.number, 4, &owner);
    const auto send = [&] {
        breaks.post(Wqe(mlx5::WqeOpcode::send).eth().data(lkey, memory_at(0), 64));
        breaks.ring_doorbell();
        run();
    };
    send();
    EXPECT_NE(cq.poll(), nullptr);
    ASSERT_TRUE(device->inject_overrun(cq.number));
    run();
    EXPECT_TRUE(owner.events.empty()) << "nothing has completed yet";
    send();
    const std::vector<std::pair<AsyncEvent, Number>> expected = {
        {AsyncEvent::cq_error, cq.number}, {AsyncEvent::sq_fatal, breaks.number}};
    EXPECT_EQ(owner.events, expected);
    EXPECT_EQ(cq.poll(), nullptr);
    EXPECT_EQ(wire->sent.size(), 2u) << "the packet had left";
    EXPECT_EQ(*device->query_sq(idle.number), QueueState::ready);
}

/// Otherwise, flushed requests wait for room in their CQ.
TEST_F(Faults, AFlushedRequestOverrunsAFullCqToo) {
    FakeListener owner;
    TestCq tx(*device, 4, &owner), rx(*device, 4, &owner);
    TestSq flushes(*device, pd, tx.number, 4, &owner);
    TestRq drained(*device, pd, rx.number, {.listener = &owner});
    ASSERT_TRUE(device->modify_sq(flushes.number, QueueState::error));
    ASSERT_TRUE(device->modify_rq(drained.number, QueueState::error));
    for (const Number cqn : {tx.number, rx.number})
        ASSERT_TRUE(device->inject_overrun(cqn));
    run();
    EXPECT_TRUE(owner.events.empty()) << "nothing has completed yet";
    flushes.post(Wqe(mlx5::WqeOpcode::send).eth().data(lkey, memory_at(0), 64));
    flushes.ring_doorbell();
    run();
    const std::vector<std::pair<AsyncEvent, Number>> sq_events = {
        {AsyncEvent::cq_error, tx.number}, {AsyncEvent::sq_fatal, flushes.number}};
    EXPECT_EQ(owner.events, sq_events);
    owner.events.clear();
    drained.post({{lkey, memory_at(0), 64}});
    drained.post({{lkey, memory_at(0), 64}});
    run();
    const std::vector<std::pair<AsyncEvent, Number>> rq_events = {
        {AsyncEvent::cq_error, rx.number}, {AsyncEvent::rq_fatal, drained.number}};
    EXPECT_EQ(owner.events, rq_events) << "once";
    EXPECT_EQ(tx.poll(), nullptr);
    EXPECT_EQ(rx.poll(), nullptr);
}

TEST_F(Faults, WhatIsNotThereCannotBreak) {
    EXPECT_EQ(refusal(device->inject_error(0xabcdef, CompletionError::flushed)),
              Status::bad_resource);
    EXPECT_EQ(refusal(device->inject_error(tx_cq.number, CompletionError::flushed)),
              Status::bad_resource);
    EXPECT_EQ(refusal(device->inject_fatal(0xabcdef)), Status::bad_resource);
    EXPECT_EQ(refusal(device->inject_overrun(sq.number)), Status::bad_resource);
    ASSERT_TRUE(device->modify_sq(sq.number, QueueState::reset));
    EXPECT_EQ(refusal(device->inject_fatal(sq.number)), Status::bad_state);
}

TEST_F(Faults, ADeadDeviceTellsOnceAndDoesNothing) {
    steer_all(rq);
    post_buffer(rq);
    device->inject_device_fatal();
    device->inject_device_fatal();
    const std::vector<std::pair<AsyncEvent, Number>> expected = {{AsyncEvent::device_fatal, 0}};
    EXPECT_EQ(listener.events, expected);
    wire->incoming.push_back(frames::pattern(100));
    post_send();
    run();
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_EQ(rx_cq.poll(), nullptr);
    EXPECT_TRUE(device->destroy_sq(sq.number));
}

} // namespace
} // namespace testbed
