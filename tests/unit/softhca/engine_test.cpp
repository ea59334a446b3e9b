// SPDX-License-Identifier: BSD-3-Clause
// Device threads: they find work by themselves, let control calls in, and stop.
#include "app/softhca/clock.hpp"
#include "app/softhca/core/engine.hpp"
#include "app/softhca/fd.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <atomic>
#include <chrono>
#include <pthread.h>
#include <sys/eventfd.h>
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

/// Seconds of CPU that this process takes while it idles for half a second.
double cpu_of_idling() {
    std::this_thread::sleep_for(std::chrono::milliseconds(200)); // lets it fall asleep
    const uint64_t before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return static_cast<double>(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before) * 1e-9;
}

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
    EXPECT_LT(cpu_of_idling(), 0.25) << "seconds of CPU in half a second of idling";
}

/// There is always something to read, of which no frame ever comes: a TAP that was deleted, or a
/// port whose device has died while frames wait.
struct ReadyWire final : wire::Wire {
    ReadyWire() : ready(eventfd(1, EFD_CLOEXEC)) {}
    std::span<const std::byte> peek() override { return {}; }
    void pop() override {}
    wire::SendResult send(const wire::OutFrame&) override { return wire::SendResult::lost; }
    [[nodiscard]] int wait_fd() const override { return ready.get(); }
    Fd ready;
};

TEST_P(EngineTest, IsIdleCheapThoughADescriptorStaysReadable) {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(
        std::make_unique<Device>(DeviceConfig{}, std::make_unique<ReadyWire>(), nullptr));
    Engine engine({.threads = GetParam()}, std::move(devices));
    EXPECT_LT(cpu_of_idling(), 0.25) << "seconds of CPU in half a second of idling";
}

INSTANTIATE_TEST_SUITE_P(Threads, EngineTest, testing::Values(1u, 2u));

} // namespace
} // namespace testbed
