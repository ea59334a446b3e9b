// SPDX-License-Identifier: BSD-3-Clause
// The SQ executor: what WQEs put on the wire, and what completes.
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <chrono>
#include <thread>

namespace testbed {
namespace {

using mlx5::WqeOpcode;

class Send : public Testbed {
  protected:
    /// Expects one send completion of this WQE.
    void expect_completion(uint16_t index, WqeOpcode opcode = WqeOpcode::send) {
        const mlx5::Cqe* const cqe = tx_cq.poll();
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(TestCq::opcode(*cqe), mlx5::CqeOpcode::req);
        EXPECT_EQ(cqe->wqe_counter, index);
        EXPECT_EQ(cqe->sop_drop_qpn, static_cast<uint32_t>(opcode) << 24 | sq.number);
        EXPECT_EQ(cqe->srqn_uidx, 0x5au);
    }
    uint16_t post_frame(const Bytes& frame, size_t at, uint8_t ce = mlx5::kCqUpdate) {
        return sq.post(Wqe(WqeOpcode::send, ce)
                           .eth()
                           .data(lkey, put(at, frame), static_cast<uint32_t>(frame.size())));
    }
};

TEST_F(Send, OneSegment) {
    const Bytes frame = frames::pattern(100);
    const uint16_t index = post_frame(frame, 0);
    run();
    EXPECT_TRUE(wire->sent.empty()) << "executed before the doorbell rang";
    sq.ring_doorbell();
    run();
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], frame);
    EXPECT_GE(wire->flushes, 1u);
    expect_completion(index);
    EXPECT_EQ(tx_cq.poll(), nullptr);
    const QueueCounters counters = *device->sq_counters(sq.number);
    EXPECT_EQ(counters.packets, 1u);
    EXPECT_EQ(counters.bytes, 100u);
    EXPECT_EQ(counters.wqes, 1u);
    EXPECT_EQ(counters.cqes, 1u);
    EXPECT_EQ(counters.doorbells, 1u);
    EXPECT_EQ(device->counters().wire_tx_packets, 1u);
    EXPECT_EQ(device->counters().wire_tx_bytes, 100u);
}

TEST_F(Send, InlineHeaderAndSegments) {
    const Bytes frame = frames::pattern(200);
    const Bytes header(frame.begin(), frame.begin() + 18);
    std::byte* const at = put(512, frame);
    sq.post(Wqe(WqeOpcode::send).eth(0, header).data(lkey, at + 18, 100).data(lkey, at + 118, 82));
    sq.ring_doorbell();
    run();
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], frame);
}

TEST_F(Send, MulticastAndBroadcastCountApart) {
    for (const uint8_t last : {0xff, 0xfe, 0xff}) {
        Bytes frame(100, 0xff);
        frame[5] = last;
        const std::byte* const at = put(0, frame); // the address is cut in two
        sq.post(Wqe(WqeOpcode::send).eth().data(lkey, at, 3).data(lkey, at + 3, 97));
        sq.ring_doorbell();
        run();
    }
    post_frame(Bytes(20, 0x01), 0); // goes out padded
    sq.ring_doorbell();
    run();
    const GroupCounters groups = device->group_counters();
    EXPECT_EQ(groups.tx_broadcast.packets, 2u);
    EXPECT_EQ(groups.tx_broadcast.bytes, 200u);
    EXPECT_EQ(groups.tx_multicast.packets, 2u);
    EXPECT_EQ(groups.tx_multicast.bytes, 160u);
    EXPECT_EQ(groups.rx_broadcast.packets + groups.rx_multicast.packets, 0u);
}

TEST_F(Send, EveryInlineHeaderSize) {
    const Bytes frame = frames::pattern(300);
    std::byte* const at = put(0, frame);
    for (uint32_t bytes = 1; bytes <= 100; bytes++) {
        const Bytes header(frame.begin(), frame.begin() + bytes);
        sq.post(Wqe(WqeOpcode::send).eth(0, header).data(lkey, at + bytes, 300 - bytes));
        sq.ring_doorbell();
        run();
        ASSERT_EQ(wire->sent.size(), bytes);
        ASSERT_EQ(wire->sent.back(), frame) << bytes;
        ASSERT_NE(tx_cq.poll(), nullptr);
        tx_cq.release();
    }
}

TEST_F(Send, InlineDataSegments) {
    const Bytes first = frames::pattern(61), second = frames::pattern(40, 99);
    sq.post(Wqe(WqeOpcode::send).eth().inline_data(first).inline_data(second));
    sq.ring_doorbell();
    run();
    ASSERT_EQ(wire->sent.size(), 1u);
    Bytes expected = first;
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_EQ(wire->sent[0], expected);
}

TEST_F(Send, LargestWqe) {
    Wqe wqe(WqeOpcode::send);
    wqe.eth();
    Bytes expected;
    for (uint8_t i = 0; i < 61; i++) {
        const Bytes piece = frames::pattern(20, i);
        wqe.data(lkey, put(i * 64u, piece), 20);
        expected.insert(expected.end(), piece.begin(), piece.end());
    }
    sq.post(wqe);
    sq.ring_doorbell();
    run();
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], expected);
    expect_completion(0);
}

TEST_F(Send, WqeAcrossTheEndOfTheRing) {
    // 31 of 32 WQEBBs, then one WQE of two, its second half at the start of the ring.
    for (int i = 0; i < 31; i++)
        sq.post(Wqe(WqeOpcode::nop, 0));
    sq.ring_doorbell();
    run();
    const Bytes frame = frames::pattern(120);
    std::byte* const at = put(0, frame);
    Wqe wqe(WqeOpcode::send);
    wqe.eth().data(lkey, at, 30).data(lkey, at + 30, 30).data(lkey, at + 60, 60);
    const uint16_t index = sq.post(wqe);
    EXPECT_EQ(sq.producer, 33);
    sq.ring_doorbell();
    run();
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], frame);
    expect_completion(index);
}

TEST_F(Send, IndicesRunOver16Bits) {
    const Bytes frame = frames::pattern(80);
    std::byte* const at = put(0, frame);
    for (uint32_t i = 0; i < 70000; i++) {
        sq.post(Wqe(WqeOpcode::send, i % 16 == 15 ? mlx5::kCqUpdate : 0).eth().data(lkey, at, 80));
        if (i % 16 != 15) continue;
        sq.ring_doorbell();
        run();
        const mlx5::Cqe* const cqe = tx_cq.poll();
        ASSERT_NE(cqe, nullptr);
        ASSERT_EQ(cqe->wqe_counter, static_cast<uint16_t>(i));
        tx_cq.release();
    }
    EXPECT_EQ(wire->sent.size(), 70000u);
}

TEST_F(Send, RingInPages) {
    TestSq paged(*device, pd, tx_cq.number, 8, nullptr, true);
    const Bytes frame = frames::pattern(90);
    std::byte* const at = put(0, frame);
    paged.post(
        Wqe(WqeOpcode::nop, 0)); // WQEs of two WQEBBs now start at odd ones: some cross pages
    for (int i = 0; i < 400; i++) {
        paged.post(Wqe(WqeOpcode::send, 0)
                       .eth()
                       .data(lkey, at, 30)
                       .data(lkey, at + 30, 30)
                       .data(lkey, at + 60, 30));
        if (i % 100 != 99) continue;
        paged.ring_doorbell();
        run();
    }
    EXPECT_EQ(wire->sent.size(), 400u);
    for (const Bytes& sent : wire->sent)
        ASSERT_EQ(sent, frame);
}

TEST_F(Send, MemoryRegionInPages) {
    Pages region(8 * 4096);
    const uint32_t key =
        device
            ->create_mkey(
                {.pd = pd, .iova = 0x7000123, .length = 6 * 4096, .memory = region.paged_area()})
            .value();
    const Bytes frame = frames::pattern(1400);
    std::memcpy(region.data() + 4000, frame.data(), frame.size()); // across the end of a page
    sq.post(Wqe(WqeOpcode::send).eth().data(key, reinterpret_cast<void*>(0x7000123 + 4000), 1400));
    sq.ring_doorbell();
    run();
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], frame);
}

TEST_F(Send, ShortFramesArePadded) {
    post_frame(frames::pattern(20), 0);
    sq.ring_doorbell();
    run();
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], frames::padded(frames::pattern(20)));
    EXPECT_EQ(device->counters().wire_tx_bytes, 60u);
}

TEST_F(Send, CompletionOnlyWhenAsked) {
    post_frame(frames::pattern(60), 0, 0);
    post_frame(frames::pattern(60), 0, 0x04);
    const uint16_t last = post_frame(frames::pattern(60), 0);
    sq.ring_doorbell();
    run();
    expect_completion(last);
    EXPECT_EQ(tx_cq.poll(), nullptr);
}

TEST_F(Send, NopCompletes) {
    const uint16_t index = sq.post(Wqe(WqeOpcode::nop));
    sq.ring_doorbell();
    run();
    expect_completion(index, WqeOpcode::nop);
    EXPECT_TRUE(wire->sent.empty());
}

TEST_F(Send, EnhancedMultiPacketWrite) {
    std::vector<Bytes> expected;
    Wqe wqe(WqeOpcode::enhanced_mpw);
    wqe.eth();
    for (uint8_t i = 0; i < 5; i++) {
        expected.push_back(frames::pattern(60 + i * 13u, i));
        if (i % 2)
            wqe.inline_data(expected.back());
        else
            wqe.data(lkey, put(i * 256u, expected.back()),
                     static_cast<uint32_t>(expected.back().size()));
    }
    const uint16_t index = sq.post(wqe);
    sq.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent, expected);
    expect_completion(index, WqeOpcode::enhanced_mpw);
    EXPECT_EQ(device->sq_counters(sq.number)->packets, 5u);
    EXPECT_EQ(device->sq_counters(sq.number)->wqes, 1u);
}

TEST_F(Send, BusyWireHoldsTheQueueAndLosesNothing) {
    std::vector<Bytes> expected;
    Wqe wqe(WqeOpcode::enhanced_mpw);
    wqe.eth();
    for (uint8_t i = 0; i < 6; i++) {
        expected.push_back(frames::pattern(64, i));
        wqe.data(lkey, put(i * 64u, expected.back()), 64);
    }
    sq.post(wqe);
    expected.push_back(frames::pattern(70));
    post_frame(expected.back(), 4096);
    sq.ring_doorbell();
    for (size_t room = 0; room < expected.size(); room++) {
        wire->room = room;
        run();
        EXPECT_EQ(wire->sent.size(), room);
        EXPECT_EQ(tx_cq.poll() != nullptr, room == 6) << room;
    }
    wire->room = SIZE_MAX;
    run();
    EXPECT_EQ(wire->sent, expected);
    EXPECT_EQ(device->sq_counters(sq.number)->packets, expected.size());
}

TEST_F(Send, ARoundHasItsLimitAlsoWithinARequest) {
    constexpr size_t kEach = 50, kRound = 128; // packets of a request; of an SQ per turn
    TestSq large(*device, pd, tx_cq.number, 6);
    Wqe wqe(WqeOpcode::enhanced_mpw);
    wqe.eth();
    for (size_t i = 0; i < kEach; i++)
        wqe.data(lkey, memory_at(0), 64);
    for (int i = 0; i < 3; i++)
        large.post(wqe);
    large.ring_doorbell();
    (void)device->poll();
    EXPECT_EQ(wire->sent.size(), kRound);
    run();
    EXPECT_EQ(wire->sent.size(), 3 * kEach);
    EXPECT_EQ(device->sq_counters(large.number)->wqes, 3u);
}

TEST_F(Send, WhatWaitsIsLookedUpAgain) {
    const uint32_t key = make_key(*device, pd, memory);
    Wqe wqe(WqeOpcode::enhanced_mpw);
    wqe.eth().data(key, memory_at(0), 64).data(key, memory_at(64), 64);
    sq.post(wqe);
    sq.ring_doorbell();
    wire->room = 1;
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    ASSERT_TRUE(device->destroy_mkey(key));
    wire->room = SIZE_MAX;
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_NE(tx_cq.poll_error(mlx5::CqeOpcode::req_error), nullptr);
}

TEST_F(Send, LossAndLimitsAreCounted) {
    wire->lossy = true;
    post_frame(frames::pattern(60), 0);
    sq.ring_doorbell();
    run();
    EXPECT_EQ(device->counters().drop_tx_wire, 1u);
    wire->lossy = false;

    post_frame(frames::pattern(1518), 0);
    post_frame(frames::pattern(1519), 0);
    sq.ring_doorbell();
    run();
    EXPECT_EQ(device->counters().drop_tx_oversize, 1u);
    EXPECT_EQ(wire->sent.size(), 1u);

    device->set_mtu(9000);
    post_frame(frames::pattern(9018), 0);
    sq.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), 2u);

    wire->plugged = false;
    post_frame(frames::pattern(60), 0);
    sq.ring_doorbell();
    run();
    EXPECT_EQ(device->counters().drop_link_down, 1u);
    EXPECT_EQ(wire->sent.size(), 2u);
    for (int i = 0; i < 5; i++)
        EXPECT_NE(tx_cq.poll(), nullptr); // all of them completed
}

TEST_F(Send, ManyQueuesShareTheWire) {
    std::vector<std::unique_ptr<TestSq>> queues;
    for (uint8_t i = 0; i < 20; i++) {
        queues.push_back(std::make_unique<TestSq>(*device, pd, tx_cq.number, 4));
        queues.back()->post(
            Wqe(WqeOpcode::send, 0).eth().data(lkey, put(i * 64u, frames::pattern(64, i)), 64));
        queues.back()->ring_doorbell();
    }
    run();
    EXPECT_EQ(wire->sent.size(), 20u);
}

/// On a busy machine the device's thread may be late. It then sends what it could not send
/// meanwhile, up to 20 ms of it.
TEST_F(Send, PacingKeepsTheRateOfALateDevice) {
    using Clock = std::chrono::steady_clock;
    using Time = std::chrono::duration<double, std::milli>;
    constexpr Time kMost(20);
    run();
    const auto begin = Clock::now();
    ASSERT_TRUE(device->pace_sq(sq.number, 10'000)); // a frame a millisecond
    for (size_t i = 0; i < 31; i++)
        post_frame(frames::pattern(1250), 0, 0);
    sq.ring_doorbell();
    auto last = Clock::now();
    Time due(0);
    for (const int late : {7, 5, 3}) {
        std::this_thread::sleep_for(std::chrono::milliseconds(late));
        run();
        const auto now = Clock::now();
        due += std::min<Time>(now - last, kMost);
        last = now;
        const auto sent = static_cast<double>(wire->sent.size());
        EXPECT_GE(sent, std::min(due.count() - 1, 31.0));
        EXPECT_LE(sent, Time(now - begin).count() + 2);
    }
    const size_t before = wire->sent.size();
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    run();
    EXPECT_LE(wire->sent.size() - before, 22u) << "no larger burst";
}

TEST_F(Send, PacingKeepsTheRate) {
    using Clock = std::chrono::steady_clock;
    EXPECT_TRUE(device->pace_sq(sq.number, Limits::kMinRateKbps));
    EXPECT_EQ(refusal(device->pace_sq(sq.number, Limits::kMaxRateKbps + 1)), Status::bad_parameter);
    EXPECT_EQ(refusal(device->pace_sq(0xfffff, 1000)), Status::bad_resource);
    const auto begin = Clock::now();
    ASSERT_TRUE(device->pace_sq(sq.number, 10'000));
    for (size_t i = 0; i < 5; i++)
        post_frame(frames::pattern(1250), i * 2048);
    // Five more in one WQE, which stops in the middle.
    Wqe several(WqeOpcode::enhanced_mpw);
    several.eth();
    for (size_t i = 0; i < 5; i++)
        several.data(lkey, put(i * 2048, frames::pattern(1250)), 1250);
    sq.post(several);
    sq.ring_doorbell();
    while (wire->sent.size() < 10 && Clock::now() - begin < std::chrono::seconds(10))
        run();
    const auto elapsed = Clock::now() - begin;
    ASSERT_EQ(wire->sent.size(), 10u);
    // A millisecond each; the first leaves at once, and there is half a millisecond of credit.
    EXPECT_GE(elapsed, std::chrono::microseconds(8500));
    for (const Bytes& frame : wire->sent)
        EXPECT_EQ(frame, frames::pattern(1250));

    ASSERT_TRUE(device->pace_sq(sq.number, 0));
    for (size_t i = 0; i < 10; i++)
        post_frame(frames::pattern(1250), i * 2048);
    sq.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), 20u);
}

} // namespace
} // namespace testbed
