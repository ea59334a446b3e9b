// SPDX-License-Identifier: BSD-3-Clause
// Send queues that wait for a time, for completions or for permission to go on; and the clock queue
// that drivers use to wait for times on devices that cannot.
#include "app/softhca/clock.hpp"
#include "app/softhca/core/request_pace.hpp"
#include "app/softhca/core/requests.hpp"
#include "common/mlx5/wait.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <cstring>
#include <optional>

namespace testbed {
namespace {

using mlx5::WqeOpcode;

constexpr uint64_t kMillisecond = 1'000'000;
/// net_mlx5's mask for a clock of 1 GHz: 8.6 s.
constexpr uint64_t kMask = (uint64_t{1} << 33) - 1;

template <class T> void append(Bytes& bytes, const T& what) {
    const auto* const first = reinterpret_cast<const uint8_t*>(&what);
    bytes.insert(bytes.end(), first, first + sizeof what);
}

Wqe wait_until(uint64_t time, uint64_t mask = kMask,
               uint32_t operation = mlx5::kWaitCyclicSmaller) {
    Wqe wqe(WqeOpcode::wait, 0);
    wqe.bytes[0] = mlx5::kWaitTime;
    mlx5::WqeWaitTimeSeg segment{};
    segment.operation = operation;
    segment.value = time;
    segment.mask = mask;
    append(wqe.bytes, segment);
    return wqe;
}

Wqe about(WqeOpcode opcode, Number number, uint32_t position, uint8_t ce = 0) {
    Wqe wqe(opcode, ce);
    mlx5::WqePositionSeg segment{};
    segment.number = number;
    segment.position = position;
    append(wqe.bytes, segment);
    return wqe;
}

class Wait : public Testbed {
  protected:
    void post_frame(TestSq& queue) {
        Wqe wqe(WqeOpcode::send);
        wqe.eth().data(lkey, put(0, frames::pattern(60)), 60);
        queue.post(wqe);
    }
    /// Runs until `done`, for ten seconds at most.
    template <class Done> void run_until(Done done) {
        const uint64_t end = clock_ns() + 10'000 * kMillisecond;
        while (!done() && clock_ns() < end)
            run();
    }
    SqAttr attributes() const {
        SqAttr attr;
        attr.pd = pd;
        attr.cqn = tx_cq.number;
        return attr;
    }
    void expect_fault(TestSq& queue, const Wqe& wqe, SendFault fault) {
        queue.post(wqe);
        queue.ring_doorbell();
        run();
        const mlx5::ErrorCqe* const cqe = tx_cq.poll_error(mlx5::CqeOpcode::req_error);
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(cqe->vendor_syndrome, static_cast<uint8_t>(fault));
        tx_cq.release();
    }
    void expect_fault(const Wqe& wqe, SendFault fault) {
        TestSq queue(*device, pd, tx_cq.number, 4);
        expect_fault(queue, wqe, fault);
    }
};

TEST_F(Wait, ForATimeAndNobodyElseWaits) {
    TestSq other(*device, pd, tx_cq.number, 4);
    const uint64_t time = clock_ns() + 30 * kMillisecond;
    sq.post(wait_until(time & kMask));
    post_frame(sq);
    sq.ring_doorbell();
    post_frame(other);
    other.ring_doorbell();
    for (;;) {
        run();
        const size_t sent = wire->sent.size();
        const size_t found = device->poll();
        // What was seen counts only if the time has not come even now: the thread may have been
        // preempted anywhere above.
        if (clock_ns() >= time) break;
        EXPECT_LE(sent, 1u) << "too early";
        EXPECT_EQ(found, 0u) << "nothing to do meanwhile";
    }
    run_until([&] { return wire->sent.size() == 2; });
    EXPECT_EQ(wire->sent.size(), 2u);
    const mlx5::Cqe* cqe = tx_cq.poll();
    ASSERT_NE(cqe, nullptr) << "of the other queue";
    cqe = tx_cq.poll();
    ASSERT_NE(cqe, nullptr);
    EXPECT_EQ(cqe->wqe_counter, 1);
    EXPECT_GE(cqe->timestamp, time);
    EXPECT_EQ(tx_cq.poll(), nullptr) << "the wait asked for none";
}

TEST_F(Wait, NotForTimesThatArePast) {
    const uint64_t now = clock_ns();
    for (const uint64_t past :
         {now, now - 1, now - 1000 * kMillisecond, now + kMask / 2 + 1000 * kMillisecond})
        sq.post(wait_until(past & kMask));
    sq.post(wait_until(now, ~uint64_t{0})); // all bits of the clock
    post_frame(sq);
    sq.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
}

TEST_F(Wait, ForCompletions) {
    TestCq clock(*device, 4);
    TestSq ticking(*device, pd, clock.number, 4);
    sq.post(about(WqeOpcode::wait, clock.number, 2));
    post_frame(sq);
    sq.ring_doorbell();
    for (const size_t sent : {0u, 1u, 1u}) {
        ticking.post(Wqe(WqeOpcode::nop));
        ticking.ring_doorbell();
        run();
        run(); // the waiting queue was polled before the other
        EXPECT_EQ(wire->sent.size(), sent);
    }
    sq.post(about(WqeOpcode::wait, clock.number, 0xfffffe)); // 24 bits, compared cyclically
    sq.post(about(WqeOpcode::wait, clock.number, 4));
    post_frame(sq);
    sq.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(device->poll(), 0u);
    ASSERT_TRUE(device->modify_sq(sq.number, QueueState::reset)) << "as it waits";
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
}

TEST_F(Wait, ForLeave) {
    SqAttr attr = attributes();
    attr.managed = true;
    TestSq managed(*device, attr, 4);
    for (int i = 0; i < 4; i++)
        post_frame(managed);
    managed.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), 0u) << "posted is not enough";
    sq.post(about(WqeOpcode::send_enable, managed.number, 1, mlx5::kCqUpdate));
    sq.ring_doorbell();
    run();
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    sq.post(about(WqeOpcode::send_enable, managed.number, 4));
    sq.ring_doorbell();
    run();
    run();
    EXPECT_EQ(wire->sent.size(), 4u);
}

TEST_F(Wait, Faults) {
    TestSq plain(*device, pd, tx_cq.number, 4);
    expect_fault(wait_until(0, kMask, mlx5::kWaitCyclicSmaller - 1), SendFault::bad_condition);
    Wqe for_data = wait_until(0);
    for_data.bytes[0] = 1;
    expect_fault(for_data, SendFault::bad_condition);
    Wqe cut_off = wait_until(0);
    cut_off.bytes.resize(32);
    expect_fault(cut_off, SendFault::bad_ds);
    expect_fault(Wqe(WqeOpcode::send_enable), SendFault::bad_ds);
    expect_fault(about(WqeOpcode::wait, 0xabcde, 0), SendFault::no_queue);
    expect_fault(about(WqeOpcode::send_enable, 0xabcde, 0), SendFault::no_queue);
    expect_fault(about(WqeOpcode::send_enable, plain.number, 1), SendFault::no_queue);
    SqAttr attr = attributes();
    attr.managed = true;
    attr.pd = device->alloc_pd().value();
    TestSq foreign(*device, attr, 4);
    expect_fault(about(WqeOpcode::send_enable, foreign.number, 1), SendFault::no_queue);
    attr = attributes();
    attr.off_wire = true;
    TestSq off_wire(*device, attr, 4);
    Wqe packet(WqeOpcode::send);
    packet.eth().data(lkey, put(0, frames::pattern(60)), 60);
    expect_fault(off_wire, packet, SendFault::off_wire);
    EXPECT_EQ(wire->sent.size(), 0u);
}

/// Like net_mlx5's: one NOP that repeats at a rate, with its CQEs in the only entry of its CQ.
class ClockQueue : public Wait {
  protected:
    static constexpr uint32_t kRate = 2'000'000, kTick = 500;
    ClockQueue() {
        CqAttr cq;
        cq.ring = entry.area();
        cq.doorbell = cq_doorbell(&record);
        cq.ignore_overrun = cq.collapsed = true;
        cqn = device->create_cq(cq).value();
        SqAttr attr = attributes();
        attr.cqn = cqn;
        attr.managed = attr.repeats = attr.any_index = attr.off_wire = true;
        clock.emplace(*device, attr, uint8_t{0});
        clock->post(Wqe(WqeOpcode::nop));
        EXPECT_TRUE(device->pace_sq_requests(clock->number, kRate));
    }
    /// As the driver sees it: the last tick's index and time.
    [[nodiscard]] std::pair<uint16_t, uint64_t> read() const {
        mlx5::Cqe cqe;
        std::memcpy(&cqe, entry.data(), sizeof cqe);
        return {cqe.wqe_counter, cqe.timestamp};
    }
    void enable(uint16_t ticks) {
        sq.post(about(WqeOpcode::send_enable, clock->number, ticks));
        sq.ring_doorbell();
    }

    Pages entry{sizeof(mlx5::Cqe)};
    mlx5::CqDoorbell record{};
    Number cqn = 0;
    std::optional<TestSq> clock;
};

TEST_F(ClockQueue, TicksAtItsRate) {
    enable(60'000);
    run();
    const uint64_t begin = clock_ns();
    run_until([&] { return read().first != 0; });
    const auto [first, at_first] = read();
    run_until([&] { return read().first == 59'999; });
    const auto [last, at_last] = read();
    ASSERT_EQ(last, 59'999);
    EXPECT_EQ(at_last - at_first, uint64_t{kTick} * (last - first)) << "to the nanosecond";
    EXPECT_GE(clock_ns(), begin + (59'999 - first) * uint64_t{kTick} - kMillisecond);
    EXPECT_LE(at_last, clock_ns());
    EXPECT_EQ(device->sq_counters(clock->number)->wqes, 60'000u);
    EXPECT_EQ(device->sq_counters(clock->number)->cqes, 60'000u);
    run();
    EXPECT_EQ(read().first, last) << "as far as it may go";
    enable(60'001);
    run_until([&] { return read().first == 60'000; });
    EXPECT_GE(read().second, at_last + kTick);
}

TEST_F(ClockQueue, OthersWaitForItsTicks) {
    TestSq waiting(*device, pd, tx_cq.number, 4);
    waiting.post(about(WqeOpcode::wait, cqn, 20'000));
    post_frame(waiting);
    waiting.ring_doorbell();
    enable(19'999);
    run_until([&] { return read().first == 19'998; });
    run();
    EXPECT_EQ(wire->sent.size(), 0u);
    enable(50'000);
    run_until([&] { return !wire->sent.empty(); });
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_GE(read().first, 19'999);
    EXPECT_EQ(device->poll(), 0u) << "a clock alone keeps nobody awake";
}

TEST_F(ClockQueue, IndicesGoRound) {
    uint16_t enabled = 0;
    for (int round = 0; round < 5; round++) {
        enabled = static_cast<uint16_t>(enabled + 20'000);
        enable(enabled);
        run_until([&] { return read().first == static_cast<uint16_t>(enabled - 1); });
    }
    EXPECT_EQ(device->sq_counters(clock->number)->wqes, 100'000u);
    TestSq waiting(*device, pd, tx_cq.number, 4);
    waiting.post(about(WqeOpcode::wait, cqn, 100'000)); // CQ positions have more than 16 bits
    post_frame(waiting);
    waiting.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
}

TEST_F(ClockQueue, WhatRepeatsIsDoneEachTimeIfItIsSeen) {
    SqAttr attr = attributes(); // with a CQ that keeps all CQEs
    attr.managed = attr.repeats = attr.any_index = true;
    TestSq repeating(*device, attr, 0);
    repeating.post(Wqe(WqeOpcode::nop));
    EXPECT_TRUE(device->pace_sq_requests(repeating.number, Limits::kMaxRequestRate));
    sq.post(about(WqeOpcode::send_enable, repeating.number, 10));
    sq.ring_doorbell();
    run_until([&] { return device->sq_counters(repeating.number)->cqes == 10; });
    for (uint16_t i = 0; i < 10; i++) {
        const mlx5::Cqe* const cqe = tx_cq.poll();
        ASSERT_NE(cqe, nullptr) << i;
        EXPECT_EQ(cqe->wqe_counter, i);
    }
}

TEST_F(ClockQueue, Rates) {
    EXPECT_EQ(refusal(device->pace_sq_requests(clock->number, Limits::kMaxRequestRate + 1)),
              Status::bad_parameter);
    EXPECT_EQ(refusal(device->pace_sq_requests(0xfffff, 1)), Status::bad_resource);
    ASSERT_TRUE(device->pace_sq_requests(clock->number, 0)) << "as fast as it can";
    enable(1000);
    run_until([&] { return read().first == 999; });
    EXPECT_EQ(read().first, 999);
}

TEST(RequestPaceTest, DoesNotDrift) {
    constexpr uint64_t kBegin = 1'000'000'007;
    RequestPace pace(3, kBegin);
    EXPECT_EQ(pace.due(kBegin - 1), 0u);
    EXPECT_EQ(pace.due(kBegin), 1u);
    EXPECT_EQ(pace.due(kBegin + 333'333'332), 1u);
    EXPECT_EQ(pace.due(kBegin + 333'333'333), 2u);
    EXPECT_EQ(pace.due(kBegin + 666'666'665), 2u);
    EXPECT_EQ(pace.due(kBegin + 666'666'666), 3u);
    EXPECT_EQ(pace.due(kBegin + 1'000'000'000), 4u);
    for (int second = 1; second <= 1000; second++) {
        pace.spend(1);
        pace.spend(2);
        EXPECT_EQ(pace.time_after(0), kBegin + second * uint64_t{1'000'000'000});
    }
    EXPECT_EQ(pace.time_after(2), kBegin + 1'000'666'666'666);
    pace.idle(kBegin);
    EXPECT_EQ(pace.time_after(0), kBegin + 1'000'000'000'000) << "was not idle";
    pace.idle(kBegin + 1'000'000'000'001);
    EXPECT_EQ(pace.due(kBegin + 1'000'000'000'001), 1u) << "what was not used is lost";
}

TEST_F(Wait, AFullRingIsWrittenOver) {
    Pages ring(sizeof(mlx5::Cqe) << 1);
    mlx5::CqDoorbell record{};
    CqAttr cq;
    cq.ring = ring.area();
    cq.doorbell = cq_doorbell(&record);
    cq.log_entries = 1;
    cq.ignore_overrun = true;
    SqAttr attr = attributes();
    attr.cqn = device->create_cq(cq).value();
    TestSq queue(*device, attr, 4);
    for (int i = 0; i < 5; i++)
        queue.post(Wqe(WqeOpcode::nop));
    queue.ring_doorbell();
    run();
    mlx5::Cqe cqes[2];
    std::memcpy(cqes, ring.data(), sizeof cqes);
    EXPECT_EQ(cqes[0].wqe_counter, 4);
    EXPECT_EQ(cqes[1].wqe_counter, 3);
    EXPECT_EQ(*device->query_sq(queue.number), QueueState::ready);
}

} // namespace
} // namespace testbed
