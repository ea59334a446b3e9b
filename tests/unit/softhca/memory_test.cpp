// SPDX-License-Identifier: BSD-3-Clause
// Memory that the program unmaps while the device works on it.
#include "app/softhca/core/memory_guard.hpp"
#include "tests/unit/softhca/collector.hpp"
#include "tests/unit/softhca/fault_handler.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <nlohmann/json.hpp>
#include <thread>

namespace testbed {
namespace {

using mlx5::CqeOpcode;
using mlx5::CqeSyndrome;
using mlx5::WqeOpcode;

struct PageOfMine final : GuardedMemory {
    Pages pages{kPage};
    [[nodiscard]] bool covers(const void* address) const override {
        return pages.area().contains(address);
    }
};

TEST(MemoryGuard, LeavesWorkOnMissingMemoryOnly) {
    const Handler handler;
    PageOfMine mine, other;
    auto* const byte = reinterpret_cast<volatile uint8_t*>(mine.pages.data() + 100);
    EXPECT_EQ(run_guarded(mine, [&] { *byte = 1; }), nullptr);
    const Hole hole(mine.pages.data(), kPage);
    int after = 0;
    const void* inside = nullptr;
    EXPECT_EQ(run_guarded(other,
                          [&] {
                              inside = run_guarded(mine, [&] {
                                  *byte = 1;
                                  after++;
                              });
                              after += 10;
                          }),
              nullptr);
    EXPECT_EQ(inside, mine.pages.data() + 100);
    EXPECT_EQ(after, 10);
    was_nobodys = false;
    std::thread([&] { // leaves run_guarded() by a jump: its guard stays behind
        if (sigsetjmp(nobody, 1) == 0) (void)run_guarded(other, [&] { *byte = 1; });
    })
        .join();
    EXPECT_TRUE(was_nobodys);
}

struct Asked final : GuardedMemory {
    mutable int times = 0;
    [[nodiscard]] bool covers(const void*) const override { return times++, false; }
};

TEST(MemoryGuard, LooksAfterItsWorkAndNothingLater) {
    const Asked memory;
    EXPECT_EQ(run_guarded(memory, [] { leave_guarded(nullptr); }), nullptr);
    EXPECT_EQ(memory.times, 1);
    leave_guarded(nullptr);
    EXPECT_EQ(memory.times, 1);
}

class MissingMemory : public Testbed {
  protected:
    static constexpr size_t kFar = 16 * kPage; ///< a page of `memory` not used otherwise
    void post(std::initializer_list<size_t> packets, WqeOpcode opcode = WqeOpcode::send) {
        Wqe wqe(opcode);
        wqe.eth();
        for (const size_t at : packets)
            wqe.data(lkey, put(at, frames::build({})), 60);
        sq.post(wqe);
        sq.ring_doorbell();
    }
    /// Receives TCP by LRO, into a WQE of one page at kFar.
    void receive_by_lro(uint64_t timeout_ns) {
        TirAttr attr;
        attr.rqn = rq.number;
        attr.lro = {.ipv4 = true, .timeout_ns = timeout_ns, .max_bytes = kPage};
        FlowAttr flow;
        flow.tirs = {device->create_tir(attr).value()};
        (void)device->create_flow(flow).value();
        rq.post({{lkey, memory_at(kFar), kPage}});
    }
    /// A packet arrives; from here on, the device knows its flow.
    void learn() {
        post_buffer(rq);
        wire->incoming.push_back(frames::build({}));
        run();
        (void)expect_packet(rx_cq);
        rx_cq.release();
    }
    [[nodiscard]] static Bytes segment(uint32_t number) {
        frames::Spec spec{.proto = frames::kTcp, .payload = frames::pattern(1400)};
        spec.sequence = number * 1400;
        return frames::build(spec);
    }
    void expect_protection_error(TestCq& cq, CqeOpcode opcode) {
        const mlx5::ErrorCqe* const cqe = cq.poll_error(opcode);
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(CqeSyndrome::local_protection));
    }
    void expect_healed_by_reset() {
        ASSERT_TRUE(device->modify_sq(sq.number, QueueState::reset));
        ASSERT_TRUE(device->modify_sq(sq.number, QueueState::ready));
        sq.producer = 0;
        post({0});
        run();
        EXPECT_EQ(wire->sent.size(), 1u);
    }
    Hole far_hole() { return {memory_at(kFar), kPage}; }

    Handler handler;
};

TEST_F(MissingMemory, SendingWhatIsGoneEndsInAnErrorCqe) {
    post({kFar});
    {
        const Hole hole = far_hole();
        run();
    }
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_EQ(device->counters().tx_error_wqes, 1u);
    expect_protection_error(tx_cq, CqeOpcode::req_error);
    EXPECT_EQ(*device->query_sq(sq.number), QueueState::error);
    expect_healed_by_reset();
}

TEST_F(MissingMemory, PacketsBeforeTheMissingOneHaveLeft) {
    post({0, 64, kFar, 128}, WqeOpcode::enhanced_mpw);
    {
        const Hole hole = far_hole();
        run();
    }
    EXPECT_EQ(wire->sent.size(), 2u);
    EXPECT_EQ(device->counters().wire_tx_packets, 2u);
    EXPECT_EQ(device->counters().wire_tx_bytes, 120u);
    EXPECT_EQ(device->sq_counters(sq.number)->packets, 2u);
    EXPECT_EQ(device->sq_counters(sq.number)->bytes, 120u);
    EXPECT_GT(wire->flushes, 0u);
    expect_protection_error(tx_cq, CqeOpcode::req_error);
}

TEST_F(MissingMemory, PacketsAroundTheMissingBufferComeOnce) {
    const Number counter = device->create_flow_counters().value();
    FlowAttr rule;
    rule.tirs = {direct_tir(rq)};
    rule.counters = {counter};
    ASSERT_TRUE(device->create_flow(rule));
    learn();
    post_buffer(rq);
    post_buffer(rq);
    rq.post({{lkey, memory_at(kFar), kRoom}});
    post_buffer(rq);
    for (uint8_t i = 0; i < 4; i++) {
        frames::Spec spec;
        spec.payload = Bytes(32, i);
        wire->incoming.push_back(frames::build(spec));
    }
    {
        const Hole hole = far_hole();
        run();
    }
    for (uint8_t i = 0; i < 2; i++) {
        const mlx5::Cqe& cqe = expect_packet(rx_cq);
        EXPECT_EQ(packet_of(cqe).back(), i);
        rx_cq.release();
    }
    expect_protection_error(rx_cq, CqeOpcode::resp_error);
    EXPECT_TRUE(wire->incoming.empty());
    const PortCounters counters = device->counters();
    EXPECT_EQ(counters.wire_rx_packets, 5u);
    EXPECT_EQ(counters.delivered, 3u);
    EXPECT_EQ(counters.drop_rx_error, 1u);
    EXPECT_EQ(counters.drop_queue_not_ready, 1u);
    EXPECT_EQ(device->rq_counters(rq.number)->packets, 3u);
    EXPECT_EQ(device->rq_counters(rq.number)->cqes, 3u);
    EXPECT_EQ(device->rq_counters(rq.number)->bytes, counters.wire_rx_bytes * 3 / 5);
    EXPECT_EQ(device->query_flow_counter(counter, false)->packets, 5u);
}

TEST_F(MissingMemory, TheSenderPaysForItsMemoryAlsoOnTheLoopback) {
    device->set_loopback({.unicast = true, .multicast = true});
    post_buffer(rq);
    TirAttr tir;
    tir.rqn = rq.number;
    tir.transport_domain = 9;
    FlowAttr flow;
    flow.tirs = {device->create_tir(tir).value()};
    ASSERT_TRUE(device->create_flow(flow));
    post({kFar});
    {
        const Hole hole = far_hole();
        run();
    }
    expect_protection_error(tx_cq, CqeOpcode::req_error);
    EXPECT_EQ(*device->query_rq(rq.number), QueueState::ready);
    wire->incoming.push_back(frames::build({}));
    run();
    (void)expect_packet(rx_cq);
}

TEST_F(MissingMemory, ReceivingIntoWhatIsGoneEndsInAnErrorCqe) {
    steer_all(rq);
    rq.post({{lkey, memory_at(kFar), kRoom}});
    wire->incoming.push_back(frames::build({}));
    {
        const Hole hole = far_hole();
        run();
    }
    expect_protection_error(rx_cq, CqeOpcode::resp_error);
    EXPECT_EQ(*device->query_rq(rq.number), QueueState::error);
    EXPECT_EQ(device->counters().drop_rx_error, 1u);
    EXPECT_EQ(device->counters().wire_rx_packets, 1u);
    EXPECT_TRUE(wire->incoming.empty());
}

TEST_F(MissingMemory, WhoLooksAtARingThatIsGoneIsTold) {
    post_buffer(rq);
    const Hole hole(rq.ring.data(), rq.ring.size());
    const auto posted = device->dump()["posted"];
    ASSERT_EQ(posted.size(), 1u);
    EXPECT_EQ(posted[0]["queue"], rq.number);
    EXPECT_EQ(posted[0]["will_fail"], "the ring's memory is gone");
}

TEST_F(MissingMemory, ASessionIsLostWithItsWqe) {
    receive_by_lro(UINT32_MAX);
    wire->incoming = {segment(0)};
    (void)device->poll();
    {
        const Hole hole = far_hole();
        wire->incoming = {segment(1)};
        run();
    }
    expect_protection_error(rx_cq, CqeOpcode::resp_error);
    EXPECT_EQ(device->counters().drop_rx_error, 2u);
    EXPECT_EQ(device->counters().delivered, 0u);
}

TEST_F(MissingMemory, ASessionWithoutItsCqIsCounted) {
    receive_by_lro(1);
    {
        const Hole hole(rx_cq.ring.data(), rx_cq.ring.size());
        wire->incoming = {segment(0)};
        run();
    }
    EXPECT_TRUE(listener.saw(AsyncEvent::cq_error));
    EXPECT_EQ(*device->query_rq(rq.number), QueueState::error);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 1u);
    EXPECT_EQ(device->counters().delivered, 0u);
}

/// The device polls a CQ for arm requests even if the CQ has failed. Without the record, it tries
/// once more and never again.
TEST_F(MissingMemory, AFailedCqWithoutItsRecordHoldsNothingUp) {
    Pages ring{64 << 4}, record{kPage};
    CqAttr attr;
    attr.ring = ring.area();
    attr.doorbell = cq_doorbell(reinterpret_cast<mlx5::CqDoorbell*>(record.data()));
    attr.log_entries = 4;
    attr.listener = &listener;
    attr.events = true;
    const Number cqn = device->create_cq(attr).value();
    TestSq other(*device, pd, cqn, 4);
    ASSERT_TRUE(device->inject_overrun(cqn));
    other.post(Wqe(WqeOpcode::send).eth().data(lkey, put(0, frames::build({})), 60));
    other.ring_doorbell();
    run();
    ASSERT_TRUE(listener.saw(AsyncEvent::cq_error));
    {
        const Hole hole(record.data(), kPage);
        device->poll();
        post({0});
        EXPECT_NE(device->poll(), 0u);
        EXPECT_EQ(device->poll(), 0u);
        EXPECT_EQ(wire->sent.size(), 2u);
    }
    ASSERT_TRUE(device->destroy_sq(other.number));
    ASSERT_TRUE(device->destroy_cq(cqn));
}

/// The old ring gets a last CQE.
TEST_F(MissingMemory, ACqWithoutItsRingIsNotResized) {
    Pages ring{kPage}, larger{kPage}, record{kPage};
    CqAttr attr;
    attr.ring = ring.area();
    attr.doorbell = cq_doorbell(reinterpret_cast<mlx5::CqDoorbell*>(record.data()));
    attr.log_entries = 4;
    attr.listener = &listener;
    const Number cqn = device->create_cq(attr).value();
    {
        const Hole hole(ring.data(), kPage);
        EXPECT_EQ(refusal(device->resize_cq(cqn, larger.area(), 5, 64)), Status::bad_state);
    }
    EXPECT_TRUE(listener.saw(AsyncEvent::cq_error));
    ASSERT_TRUE(device->destroy_cq(cqn));
}

TEST_F(MissingMemory, WhoLooksIsToldOfIt) {
    Collector collector(true);
    device->add_observer(collector);
    post({0, kFar}, WqeOpcode::enhanced_mpw);
    steer_all(rq);
    rq.post({{lkey, memory_at(kFar), kRoom}});
    wire->incoming.push_back(frames::build({}));
    {
        const Hole hole = far_hole();
        run();
    }
    device->remove_observer(collector);
    std::vector<std::string> verdicts;
    for (const Passage& passage : collector.passages)
        verdicts.push_back(passage.verdict);
    ASSERT_EQ(verdicts.size(), 4u);
    EXPECT_EQ(verdicts[0], "sent");
    EXPECT_NE(verdicts[1].find("error CQE local_protection"), std::string::npos) << "the request";
    EXPECT_EQ(verdicts[2], "memory that it needs is gone") << "its packet";
    EXPECT_EQ(verdicts[3].find("memory that it needs is gone; drop_rx_error"), 0u);
    EXPECT_EQ(wire->sent.size(), 1u);
    expect_protection_error(tx_cq, CqeOpcode::req_error);
    expect_protection_error(rx_cq, CqeOpcode::resp_error);
}

TEST_F(MissingMemory, AnSqWithoutItsRingBreaksAndIsLeftAlone) {
    post({0});
    {
        const Hole hole(sq.ring.data(), sq.ring.size());
        run();
        sq.producer++;
        sq.ring_doorbell();
        run();
    }
    EXPECT_TRUE(listener.saw(AsyncEvent::sq_fatal));
    EXPECT_EQ(tx_cq.poll(), nullptr);
    EXPECT_EQ(*device->query_sq(sq.number), QueueState::error);
    expect_healed_by_reset();
}

TEST_F(MissingMemory, AnRqWithoutItsRingBreaks) {
    steer_all(rq);
    post_buffer(rq);
    wire->incoming = {frames::build({}), frames::build({})};
    {
        const Hole hole(rq.ring.data(), rq.ring.size());
        run();
    }
    EXPECT_TRUE(listener.saw(AsyncEvent::rq_fatal));
    EXPECT_EQ(*device->query_rq(rq.number), QueueState::error);
    EXPECT_EQ(device->counters().drop_rx_error, 1u);
    EXPECT_EQ(device->counters().drop_queue_not_ready, 1u);
    EXPECT_EQ(device->counters().wire_rx_packets, 2u);
}

TEST_F(MissingMemory, ACqWithoutItsRingBreaksAndItsQueueWithIt) {
    post({0});
    {
        const Hole hole(tx_cq.ring.data(), tx_cq.ring.size());
        run();
        post({64});
        run();
    }
    EXPECT_TRUE(listener.saw(AsyncEvent::cq_error));
    EXPECT_TRUE(listener.saw(AsyncEvent::sq_fatal));
    EXPECT_EQ(wire->sent.size(), 2u) << "what was sent was sent";
}

/// Packets of a known flow, which get their CQEs once all of them are in their buffers.
class MissingCqe : public MissingMemory {
  protected:
    MissingCqe() {
        steer_all(rq);
        learn();
        for (int i = 0; i < 4; i++)
            wire->incoming.push_back(frames::build({}));
    }
    void expect_first_to_be_lost() {
        EXPECT_TRUE(listener.saw(AsyncEvent::cq_error));
        EXPECT_EQ(*device->query_rq(rq.number), QueueState::error);
        EXPECT_TRUE(wire->incoming.empty());
        const PortCounters counters = device->counters();
        EXPECT_EQ(counters.wire_rx_packets, 5u);
        EXPECT_EQ(counters.delivered, 1u);
        EXPECT_EQ(counters.drop_rx_error, 1u);
        EXPECT_EQ(counters.drop_out_of_buffer, 1u) << "the next one finds that the CQ has failed";
        EXPECT_EQ(counters.drop_queue_not_ready, 2u);
    }
};

TEST_F(MissingCqe, BreaksTheQueue) {
    post_buffers(rq, 4);
    {
        const Hole hole(rx_cq.ring.data(), rx_cq.ring.size());
        run();
    }
    expect_first_to_be_lost();
}

TEST_F(MissingCqe, AlsoIfABufferIsMissedFirst) {
    post_buffers(rq, 2);
    rq.post({{lkey, memory_at(kFar), kRoom}});
    post_buffer(rq);
    {
        const Hole hole = far_hole();
        const Hole ring(rx_cq.ring.data(), rx_cq.ring.size());
        run();
    }
    expect_first_to_be_lost();
}

/// The device needs the CQ to report what went wrong.
TEST_F(MissingMemory, WhatIsWrongCannotBeSaidWhenTheCqIsGoneToo) {
    post({kFar});
    {
        const Hole hole = far_hole();
        const Hole ring(tx_cq.ring.data(), tx_cq.ring.size());
        run();
    }
    EXPECT_TRUE(listener.saw(AsyncEvent::cq_error));
    EXPECT_EQ(*device->query_sq(sq.number), QueueState::error);
}

TEST_F(MissingMemory, DoorbellRecordsMayGoToo) {
    const Pages records(kPage), ring(mlx5::kWqebb << 4);
    SqAttr attr;
    attr.pd = pd;
    attr.cqn = tx_cq.number;
    attr.ring = ring.area();
    attr.doorbell = send_doorbell(reinterpret_cast<mlx5::QueueDoorbell*>(records.data() + 64));
    attr.log_wqebbs = 4;
    attr.listener = &listener;
    const Number number = device->create_sq(attr).value();
    ASSERT_TRUE(device->modify_sq(number, QueueState::ready));
    {
        const Hole hole(records.data(), kPage);
        run();
        EXPECT_EQ(*device->query_sq(number), QueueState::error);
        ASSERT_TRUE(device->modify_sq(number, QueueState::reset));
        ASSERT_TRUE(device->modify_sq(number, QueueState::ready));
        run();
        EXPECT_EQ(*device->query_sq(number), QueueState::error);
    }
    EXPECT_EQ(listener.events.size(), 2u);
    EXPECT_EQ(*device->query_sq(sq.number), QueueState::ready) << "others are as before";
    ASSERT_TRUE(device->destroy_sq(number));
}

/// A program that destroys a QP first puts its queues into error, where they may already be.
/// Without a record there is nothing to flush.
TEST_F(MissingMemory, QueuesWithoutTheirRecordsHoldNothingUpInError) {
    const Pages records(kPage), ring(mlx5::kWqebb << 4), rq_ring(16 << 4);
    auto* const record = reinterpret_cast<mlx5::QueueDoorbell*>(records.data());
    SqAttr attr;
    attr.pd = pd;
    attr.cqn = tx_cq.number;
    attr.ring = ring.area();
    attr.doorbell = send_doorbell(record);
    attr.log_wqebbs = 4;
    attr.listener = &listener;
    const Number sqn = device->create_sq(attr).value();
    RqAttr rq_attr;
    rq_attr.pd = pd;
    rq_attr.cqn = rx_cq.number;
    rq_attr.ring = rq_ring.area();
    rq_attr.doorbell = receive_doorbell(record);
    rq_attr.log_wqes = 4;
    rq_attr.log_wqe_bytes = 4;
    rq_attr.listener = &listener;
    const Number rqn = device->create_rq(rq_attr).value();
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::ready));
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::ready));
    {
        const Hole hole(records.data(), kPage);
        for (const bool receives : {false, true})
            for (int i = 0; i < 2; i++) {
                ASSERT_TRUE(receives ? device->modify_rq(rqn, QueueState::error)
                                     : device->modify_sq(sqn, QueueState::error));
                device->poll();
                EXPECT_EQ(device->poll(), 0u) << "receives: " << receives << ", " << i;
            }
    }
    ASSERT_TRUE(device->destroy_rq(rqn));
    ASSERT_TRUE(device->destroy_sq(sqn));
}

} // namespace
} // namespace testbed
