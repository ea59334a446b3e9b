// SPDX-License-Identifier: BSD-3-Clause
// Device threads: they find work by themselves, let control calls in, and stop.
#include "app/softhca/core/engine.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <atomic>
#include <chrono>
#include <pthread.h>
#include <thread>

namespace testbed {
namespace {

using Clock = std::chrono::steady_clock;

/// Counts frames; safe to read while the device thread runs.
struct CountingWire final : wire::Wire {
    explicit CountingWire(std::atomic<uint64_t>& counter) : sent(counter) {}
    std::span<const std::byte> peek() override { return {}; }
    void pop() override {}
    wire::SendResult send(const wire::OutFrame&) override {
        sent++;
        return wire::SendResult::sent;
    }
    std::atomic<uint64_t>& sent;
};

class EngineTest : public testing::TestWithParam<unsigned> {};

TEST_P(EngineTest, ExecutesLetsControlCallsInAndStops) {
    constexpr size_t kDevices = 2;
    constexpr uint64_t kPackets = 2000;
    std::array<std::atomic<uint64_t>, kDevices> sent{};
    std::vector<std::unique_ptr<Device>> devices;
    devices.reserve(kDevices);
    for (auto& counter : sent)
        devices.push_back(std::make_unique<Device>(
            DeviceConfig{}, std::make_unique<CountingWire>(counter), nullptr));
    {
        Engine engine({.threads = GetParam()}, std::move(devices));
        ASSERT_EQ(engine.size(), kDevices);
        Pages memory(4096);
        for (size_t i = 0; i < kDevices; i++) {
            Device& device = engine.device(i);
            const Number pd = device.alloc_pd().value();
            const uint32_t lkey =
                device
                    .create_mkey({.pd = pd,
                                  .iova = reinterpret_cast<uint64_t>(memory.data()),
                                  .length = 4096,
                                  .memory = memory.area()})
                    .value();
            TestCq cq(device, 4);
            TestSq sq(device, pd, cq.number, 4);
            const auto deadline = Clock::now() + std::chrono::seconds(20);
            for (uint64_t packet = 0; packet < kPackets; packet++) {
                sq.post(Wqe(mlx5::WqeOpcode::send).eth().data(lkey, memory.data(), 64));
                __atomic_store_n(&sq.doorbell.send.raw, net::to_be(uint32_t{sq.producer}),
                                 __ATOMIC_RELEASE);
                while (__atomic_load_n(&cq.doorbell.consumer.raw, __ATOMIC_RELAXED), !cq.poll()) {
                    ASSERT_LT(Clock::now(), deadline);
                    std::this_thread::yield();
                }
                __atomic_store_n(&cq.doorbell.consumer.raw, net::to_be(cq.consumer),
                                 __ATOMIC_RELEASE);
                if (packet % 100 == 0) {
                    EXPECT_LE(device.counters().wire_tx_packets, packet + 1);
                }
            }
            EXPECT_EQ(device.sq_counters(sq.number)->packets, kPackets);
            ASSERT_TRUE(device.destroy_sq(sq.number)); // its ring goes away now
            ASSERT_TRUE(device.destroy_cq(cq.number));
        }
    }
    for (const auto& counter : sent)
        EXPECT_EQ(counter, kPackets);
}

TEST_P(EngineTest, IsIdleCheap) {
    std::atomic<uint64_t> sent{0};
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(
        std::make_unique<Device>(DeviceConfig{}, std::make_unique<CountingWire>(sent), nullptr));
    Engine engine({.threads = GetParam()}, std::move(devices));
    std::this_thread::sleep_for(std::chrono::milliseconds(200)); // lets it fall asleep
    timespec before{}, after{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double used = static_cast<double>(after.tv_sec - before.tv_sec) +
                        static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
    EXPECT_LT(used, 0.25) << "seconds of CPU in half a second of idling";
}

INSTANTIATE_TEST_SUITE_P(Threads, EngineTest, testing::Values(1u, 2u));

} // namespace
} // namespace testbed
