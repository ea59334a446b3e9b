// SPDX-License-Identifier: BSD-3-Clause
// RQs without WQEs that make the wire wait: by pause frames, and by delay drop.
#include "tests/unit/softhca/testbed.hpp"

#include <chrono>
#include <functional>
#include <thread>

namespace testbed {
namespace {

DeviceConfig pausing() {
    DeviceConfig config;
    config.mac = frames::kOurMac;
    config.pause = true;
    return config;
}

class Pause : public Testbed {
  protected:
    Pause() : Testbed(pausing(), false), queue(*device, pd, rx_cq.number) { steer_all(queue); }
    /// `frame` returns a different frame for each number.
    void expect_bounded(const std::function<Bytes(uint8_t number)>& frame);
    TestRq queue;
};

void Pause::expect_bounded(const std::function<Bytes(uint8_t number)>& frame) {
    for (uint8_t i = 0; i < 3; i++)
        wire->incoming.push_back(frame(i));
    run();
    const auto begin = std::chrono::steady_clock::now();
    while (!wire->incoming.empty() &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(10)) {
        device->poll();
        std::this_thread::yield();
    }
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
    post_buffer(queue);
    wire->incoming.push_back(frame(9));
    wire->incoming.push_back(frame(10));
    run();
    EXPECT_EQ(packet_of(expect_packet(rx_cq)), frame(9));
    EXPECT_EQ(wire->incoming.size(), 1u) << "it holds again";
    // At the end, as this makes the device forget known flows.
    EXPECT_EQ(device->counters().drop_out_of_buffer, 3u)
        << "after one timeout the queue no longer holds";
}

TEST_F(Pause, EmptyQueueHoldsTheWireAndLosesNothing) {
    for (uint8_t i = 0; i < 10; i++)
        wire->incoming.push_back(frames::pattern(60, i));
    run();
    EXPECT_EQ(wire->incoming.size(), 10u);
    for (uint8_t i = 0; i < 10; i++) {
        post_buffer(queue);
        run();
        EXPECT_EQ(packet_of(expect_packet(rx_cq)), frames::pattern(60, i));
    }
    EXPECT_EQ(device->counters().drop_out_of_buffer, 0u);
    EXPECT_EQ(device->counters().wire_rx_packets, 10u);
}

TEST_F(Pause, HoldingIsBoundedAndEndsWhenBuffersCome) {
    expect_bounded([](uint8_t number) { return frames::pattern(60, number); });
}

TEST_F(Pause, ItIsBoundedForPacketsOfAKnownFlow) {
    const auto frame = [](uint8_t number) {
        frames::Spec spec;
        spec.payload = Bytes(40, number);
        return frames::build(spec);
    };
    post_buffer(queue);
    wire->incoming.push_back(frame(0));
    run();
    EXPECT_EQ(packet_of(expect_packet(rx_cq)), frame(0));
    expect_bounded(frame);
}

TEST_F(Pause, BeginsAndEndsWhileTheDeviceRuns) {
    wire->incoming.push_back(frames::pattern(60, 1));
    run();
    EXPECT_EQ(wire->incoming.size(), 1u) << "held";
    device->set_pause(false);
    EXPECT_FALSE(device->pause());
    run();
    EXPECT_TRUE(wire->incoming.empty());
    EXPECT_EQ(device->counters().drop_out_of_buffer, 1u);
    device->set_pause(true);
    wire->incoming.push_back(frames::pattern(60, 2));
    run();
    EXPECT_EQ(wire->incoming.size(), 1u);
    post_buffer(queue);
    run();
    EXPECT_EQ(packet_of(expect_packet(rx_cq)), frames::pattern(60, 2));
    EXPECT_EQ(device->counters().drop_out_of_buffer, 1u);
}

TEST_F(Pause, AllDestinationsOfARuleAreAskedFirst) {
    TestRq second(*device, pd, rx_cq.number);
    steer_all(second);
    post_buffer(queue);
    wire->incoming.push_back(frames::pattern(60));
    run();
    EXPECT_EQ(device->counters().delivered, 0u) << "a copy would be delivered twice";
    post_buffer(second);
    run();
    EXPECT_EQ(device->counters().delivered, 2u);
}

TEST_F(Pause, QueueThatIsNotReadyHoldsNothing) {
    ASSERT_TRUE(device->modify_rq(queue.number, QueueState::error));
    wire->incoming.push_back(frames::pattern(60));
    run();
    EXPECT_EQ(device->counters().drop_queue_not_ready, 1u);
}

constexpr uint64_t kLongNs = 3'600'000'000'000, kShortNs = 1;

/// An RQ with delay drop and no WQEs, which gets every packet.
class DelayDrop : public Testbed {
  protected:
    DelayDrop() : holding(*device, pd, rx_cq.number, {.delay_drop = true}) {
        FlowAttr all;
        all.tirs = {direct_tir(holding)};
        EXPECT_TRUE(device->create_flow(all));
        device->add_listener(&listener);
    }
    ~DelayDrop() override { device->remove_listener(&listener); }
    void arrive() {
        wire->incoming.push_back(frames::pattern(60));
        run();
    }
    [[nodiscard]] uint64_t drops() const { return device->counters().drop_out_of_buffer; }

    TestRq holding;
    FakeListener listener;
};

TEST_F(DelayDrop, IsOffUntilTheDeviceMay) {
    arrive();
    EXPECT_EQ(drops(), 1u);
    EXPECT_FALSE(listener.saw(AsyncEvent::delay_drop_timeout));
}

TEST_F(DelayDrop, TimeoutIsToldAndEndsIt) {
    device->set_delay_drop(kShortNs);
    arrive();
    while (drops() == 0)
        run();
    EXPECT_TRUE(listener.saw(AsyncEvent::delay_drop_timeout));
    arrive();
    EXPECT_EQ(drops(), 2u) << "no holding any more";
    device->set_delay_drop(kLongNs);
    arrive();
    EXPECT_EQ(drops(), 2u);
    EXPECT_EQ(wire->incoming.size(), 1u);
}

TEST_F(DelayDrop, TheNextPacketHasAllOfTheTime) {
    using Clock = std::chrono::steady_clock;
    constexpr auto kTimeout = std::chrono::milliseconds(2);
    for (uint64_t wanted = 1; wanted <= 3; wanted++) {
        device->set_delay_drop(std::chrono::nanoseconds(kTimeout).count());
        const auto start = Clock::now();
        arrive();
        while (drops() < wanted)
            run();
        EXPECT_GE(Clock::now() - start, kTimeout) << wanted;
    }
}

TEST_F(DelayDrop, RearmsByItselfWhenToldSo) {
    device->set_delay_drop(kShortNs, kLongNs);
    arrive();
    while (drops() == 0)
        run();
    arrive();
    EXPECT_EQ(drops(), 2u) << "not rearmed yet";
    device->set_delay_drop(kShortNs, kShortNs);
    for (uint64_t wanted = 3; wanted <= 4; wanted++) {
        listener.events.clear();
        arrive();
        while (drops() < wanted)
            run();
        EXPECT_TRUE(listener.saw(AsyncEvent::delay_drop_timeout)) << "it held each packet";
    }
}

TEST_F(DelayDrop, APacketOfAKnownFlowEndsTheWait) {
    constexpr auto kTimeout = std::chrono::milliseconds(1000), kWait = kTimeout * 6 / 10;
    device->set_delay_drop(std::chrono::nanoseconds(kTimeout).count());
    const auto arrive_known = [&] {
        wire->incoming.push_back(frames::padded(frames::build({})));
        run();
    };
    post_buffer(holding);
    arrive_known();
    arrive_known(); // waits for a buffer
    std::this_thread::sleep_for(kWait);
    post_buffer(holding);
    arrive_known(); // the previous one is received, this one waits anew
    std::this_thread::sleep_for(kWait);
    run();
    EXPECT_EQ(device->counters().delivered, 2u);
    EXPECT_EQ(drops(), 0u);
    EXPECT_EQ(wire->incoming.size(), 1u);
}

class DelayDropOfOneQueue : public Testbed {};

TEST_F(DelayDropOfOneQueue, HoldsForThatQueueOnly) {
    device->set_delay_drop(kLongNs);
    TestRq holding(*device, pd, rx_cq.number, {.delay_drop = true});
    FlowAttr attr;
    attr.mask.outer.ether_type = 0xffff;
    attr.value.outer.ether_type = 0x0800;
    attr.tirs = {direct_tir(holding)};
    ASSERT_TRUE(device->create_flow(attr));
    FlowAttr rest;
    rest.priority = 1;
    rest.tirs = {direct_tir(rq)};
    ASSERT_TRUE(device->create_flow(rest));
    wire->incoming.push_back(frames::build({.ip = 0}));
    run();
    EXPECT_EQ(device->counters().drop_out_of_buffer, 1u);
    wire->incoming.push_back(frames::build({}));
    run();
    EXPECT_EQ(wire->incoming.size(), 1u);
    post_buffer(holding);
    run();
    EXPECT_EQ(device->counters().delivered, 1u);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 1u);
}

} // namespace
} // namespace testbed
