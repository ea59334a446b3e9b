// SPDX-License-Identifier: BSD-3-Clause
// Hairpin queues whose peers are on another device, each device with its own thread.
#include "tests/unit/softhca/hairpin_fixture.hpp"
#include "tests/unit/softhca/refusal.hpp"

#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <thread>

namespace testbed {
namespace {

/// The RQ is on one device, the SQ on another one.
class HairpinBetweenDevices : public Hairpin {
  protected:
    class Second : public Testbed {
      public:
        Second() : Testbed(named_second()) {}
        using Testbed::device, Testbed::wire, Testbed::run, Testbed::listener;

      private:
        void TestBody() override {}
        static DeviceConfig named_second() {
            DeviceConfig config = default_config();
            config.name = "mlx5_1";
            return config;
        }
    };

    HairpinBetweenDevices() { there = make_there(); }
    Number make_there() {
        return second.device
            ->create_hairpin_sq(
                {.size = kSmall, .transport_domain = kDomain, .listener = &second.listener})
            .value();
    }
    void pair_devices() {
        ASSERT_TRUE(second.device->modify_sq(there, QueueState::ready, {rqn, device.get()}));
        ASSERT_TRUE(device->modify_rq(rqn, QueueState::ready, {there, second.device.get()}));
    }
    /// Frames arrive, and the second device sends them.
    std::vector<Bytes> pass(uint8_t count) {
        std::vector<Bytes> frames = arrive(count);
        second.run();
        return frames;
    }

    Second second;
    Number there;
};

TEST_F(HairpinBetweenDevices, TheOtherPortSends) {
    pair_devices();
    std::vector<Bytes> all;
    for (int round = 0; round < 20; round++)
        for (const Bytes& frame : pass(10))
            all.push_back(frame);
    EXPECT_EQ(second.wire->sent, all);
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_EQ(second.device->sq_counters(there)->packets, 200u);
    EXPECT_EQ(second.device->counters().wire_tx_packets, 200u);
    EXPECT_EQ(device->rq_counters(rqn)->packets, 200u);
    EXPECT_EQ(device->counters().wire_tx_packets, 0u);
}

TEST_F(HairpinBetweenDevices, BothSayWhereThePeerIs) {
    pair_devices();
    const nlohmann::json receives = row_of(device->dump(), "rqs", rqn);
    EXPECT_EQ(receives["hairpin_peer"], there);
    EXPECT_EQ(receives["hairpin_peer_device"], "mlx5_1");
    const nlohmann::json sends = row_of(second.device->dump(), "sqs", there);
    EXPECT_EQ(sends["hairpin_peer"], rqn);
    EXPECT_EQ(sends["hairpin_peer_device"], default_config().name);
}

TEST_F(HairpinBetweenDevices, QueuesOfOneNumberAreNotTheSame) {
    const Number twin = make_there();
    ASSERT_EQ(twin, sqn);
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::ready, {twin, second.device.get()}));
    EXPECT_EQ(refusal(device->modify_sq(sqn, QueueState::ready, rqn)), Status::busy);
    EXPECT_TRUE(second.device->modify_sq(twin, QueueState::ready, {rqn, device.get()}));
}

TEST_F(HairpinBetweenDevices, OnlyHairpinsOfNobodyElseArePeers) {
    using enum QueueState;
    Device* const other = second.device.get();
    EXPECT_EQ(refusal(device->modify_rq(rqn, ready, {0xfffff, other})), Status::bad_resource);
    EXPECT_EQ(refusal(device->modify_sq(sqn, ready, {0xfffff, other})), Status::bad_resource);
    EXPECT_EQ(refusal(other->modify_sq(there, ready, {rq.number, device.get()})),
              Status::bad_parameter);
    pair_devices();
    EXPECT_EQ(refusal(other->modify_sq(make_there(), ready, {rqn, device.get()})), Status::busy);
    EXPECT_EQ(refusal(device->modify_rq(make_rq(kSmall), ready, {there, other})), Status::busy);
    EXPECT_EQ(refusal(device->modify_sq(sqn, ready, rqn)), Status::busy);
}

TEST_F(HairpinBetweenDevices, OneThatGoesLeavesTheOther) {
    pair_devices();
    ASSERT_TRUE(second.device->destroy_sq(there));
    pass(17);
    EXPECT_EQ(held(), 16u);
    EXPECT_EQ(dropped(), 1u);
    EXPECT_EQ(row_of(device->stats(), "rqs", rqn)["hairpin_peer"], 0);
    ASSERT_TRUE(device->modify_rq(rqn, QueueState::reset));
    EXPECT_EQ(device->counters().drop_tx_hairpin, 16u);
    there = make_there();
    pair_devices();
    const std::vector<Bytes> frames = pass(3);
    EXPECT_EQ(second.wire->sent, frames);
    ASSERT_TRUE(device->destroy_flow(rule));
    ASSERT_TRUE(device->destroy_tir(tir));
    ASSERT_TRUE(device->destroy_rq(rqn));
    second.run();
    EXPECT_EQ(row_of(second.device->stats(), "sqs", there)["hairpin_peer"], 0);
    const Number another = make_rq(kSmall);
    EXPECT_TRUE(device->modify_rq(another, QueueState::ready, {there, second.device.get()}))
        << "the SQ's peer is gone";
}

TEST_F(HairpinBetweenDevices, NothingIsLostUncountedAsTheyPartUnderLoad) {
    // Each device has its own thread, like device threads; this thread unpairs and pairs them.
    std::atomic<bool> end{false};
    pair_devices();
    std::atomic<size_t> polls_of_second{0};
    const auto poll_first = [&] {
        while (!end.load()) {
            const size_t before = polls_of_second;
            device->poll();
            // On a busy machine all frames could arrive before the other thread has run once.
            while (polls_of_second == before && !end.load())
                std::this_thread::yield();
        }
    };
    const auto poll_second = [&] {
        for (; !end.load(); polls_of_second++)
            if (second.device->poll() == 0) std::this_thread::yield();
    };
    constexpr size_t kFrames = 30000;
    for (size_t i = 0; i < kFrames; i++)
        wire->incoming.push_back(numbered(static_cast<uint8_t>(i)));
    std::thread first(poll_first), other(poll_second);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    int round = 0;
    while (device->counters().wire_rx_packets < kFrames &&
           std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        if (round++ % 2 == 0) {
            EXPECT_TRUE(second.device->modify_sq(there, QueueState::reset));
            EXPECT_TRUE(second.device->modify_sq(there, QueueState::ready, {rqn, device.get()}));
        } else {
            EXPECT_TRUE(device->modify_rq(rqn, QueueState::reset));
            EXPECT_TRUE(device->modify_rq(rqn, QueueState::ready, {there, second.device.get()}));
        }
    }
    while (held() != 0 && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    end = true;
    first.join();
    other.join();
    const PortCounters counted = device->counters();
    EXPECT_EQ(counted.wire_rx_packets, kFrames);
    EXPECT_EQ(second.wire->sent.size() + counted.drop_tx_hairpin + counted.drop_out_of_buffer +
                  counted.drop_queue_not_ready,
              kFrames);
    EXPECT_EQ(second.device->sq_counters(there)->packets, second.wire->sent.size());
    EXPECT_GT(second.wire->sent.size(), 0u);
}

} // namespace
} // namespace testbed
