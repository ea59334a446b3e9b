// SPDX-License-Identifier: BSD-3-Clause
// Device threads find work by themselves, let control calls in, and stop.
#include "app/softhca/clock.hpp"
#include "app/softhca/core/engine.hpp"
#include "common/fd.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <atomic>
#include <chrono>
#include <pthread.h>
#include <sched.h>
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

std::unique_ptr<Device> device_with(std::unique_ptr<wire::Wire> wire) {
    return std::make_unique<Device>(DeviceConfig{}, std::move(wire), nullptr);
}

/// CPU time, in seconds, that this process takes in half a second of idling.
double cpu_of_idling() {
    std::this_thread::sleep_for(std::chrono::milliseconds(200)); // until it has fallen asleep
    const uint64_t before = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return static_cast<double>(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before) * 1e-9;
}

class EngineTest : public testing::TestWithParam<unsigned> {};

/// Sends packets one by one, each after the previous one has completed; meanwhile calls `wait`.
template <class Wait> void send_packets(Device& device, uint64_t count, Wait&& wait) {
    Pages memory(4096);
    const Number pd = device.alloc_pd().value();
    const uint32_t lkey = make_key(device, pd, memory);
    TestCq cq(device, 4);
    TestSq sq(device, pd, cq.number, 4);
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    for (uint64_t packet = 0; packet < count; packet++) {
        sq.post(Wqe(mlx5::WqeOpcode::send).eth().data(lkey, memory.data(), 64));
        __atomic_store_n(&sq.doorbell.send.raw, net::to_be(uint32_t{sq.producer}),
                         __ATOMIC_RELEASE);
        while (__atomic_load_n(&cq.doorbell.consumer.raw, __ATOMIC_RELAXED), !cq.poll()) {
            ASSERT_LT(Clock::now(), deadline);
            wait();
        }
        __atomic_store_n(&cq.doorbell.consumer.raw, net::to_be(cq.consumer), __ATOMIC_RELEASE);
        if (packet % 100 == 0) {
            EXPECT_LE(device.counters().wire_tx_packets, packet + 1);
        }
    }
    EXPECT_EQ(device.sq_counters(sq.number)->packets, count);
    ASSERT_TRUE(device.destroy_sq(sq.number)); // its ring goes away now
    ASSERT_TRUE(device.destroy_cq(cq.number));
}

TEST_P(EngineTest, ExecutesLetsControlCallsInAndStops) {
    constexpr size_t kDevices = 2;
    constexpr uint64_t kPackets = 2000;
    std::array<std::atomic<uint64_t>, kDevices> sent{};
    {
        Engine engine({.threads = GetParam()});
        for (auto& counter : sent)
            engine.add(device_with(std::make_unique<CountingWire>(counter)));
        ASSERT_EQ(engine.size(), kDevices);
        for (size_t i = 0; i < kDevices; i++)
            send_packets(engine.device(i), kPackets, [] { std::this_thread::yield(); });
    }
    for (const auto& counter : sent)
        EXPECT_EQ(counter, kPackets);
}

/// A program polls without a pause on the only CPU that the device may use: the device gets the CPU
/// at once and gives it back at once. Only the program's own CPU time counts, whatever else runs.
TEST(Engine, SharesACpuWithAProgramThatPolls) {
    cpu_set_t mine;
    ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
    int cpu = 0;
    while (!CPU_ISSET(static_cast<size_t>(cpu), &mine))
        cpu++;
    std::atomic<uint64_t> sent{0};
    Engine engine({.available = {cpu}});
    Device& device = engine.add(device_with(std::make_unique<CountingWire>(sent)));
    std::thread program([&] {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<size_t>(cpu), &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
        const uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        constexpr uint64_t kPackets = 500;
        send_packets(device, kPackets, [] {});
        const uint64_t each = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) / kPackets;
        EXPECT_LT(each, 500'000u) << "ns of waiting for the device; a time slice is some 3 ms";
    });
    program.join();
}

/// Records that a device thread has polled it.
struct WatchedWire final : wire::Wire {
    explicit WatchedWire(std::atomic<bool>& flag) : seen(flag) {}
    std::span<const std::byte> peek() override {
        seen = true;
        return {};
    }
    void pop() override {}
    wire::SendResult send(const wire::OutFrame&) override { return wire::SendResult::lost; }
    std::atomic<bool>& seen;
};

TEST_P(EngineTest, ServesDevicesThatAreAddedLater) {
    std::array<std::atomic<bool>, 3> seen{};
    Engine engine({.threads = GetParam()});
    for (size_t i = 0; i < seen.size(); i++) {
        EXPECT_EQ(engine.size(), i);
        Device& added = engine.add(device_with(std::make_unique<WatchedWire>(seen[i])));
        EXPECT_EQ(&engine.device(i), &added);
        const auto deadline = Clock::now() + std::chrono::seconds(20);
        while (!seen[i] && Clock::now() < deadline)
            std::this_thread::yield();
        EXPECT_TRUE(seen[i]) << i;
    }
}

TEST_P(EngineTest, IsIdleCheap) {
    std::atomic<uint64_t> sent{0};
    Engine engine({.threads = GetParam()});
    engine.add(device_with(std::make_unique<CountingWire>(sent)));
    EXPECT_LT(cpu_of_idling(), 0.25) << "seconds of CPU in half a second of idling";
}

/// Always readable, but never yields a frame: a TAP that was deleted, or a port whose device has
/// died while frames wait.
struct ReadyWire final : wire::Wire {
    ReadyWire() : ready(eventfd(1, EFD_CLOEXEC)) {}
    std::span<const std::byte> peek() override { return {}; }
    void pop() override {}
    wire::SendResult send(const wire::OutFrame&) override { return wire::SendResult::lost; }
    [[nodiscard]] int wait_fd() const override { return ready.get(); }
    Fd ready;
};

TEST_P(EngineTest, IsIdleCheapThoughADescriptorStaysReadable) {
    Engine engine({.threads = GetParam()});
    engine.add(device_with(std::make_unique<ReadyWire>()));
    EXPECT_LT(cpu_of_idling(), 0.25) << "seconds of CPU in half a second of idling";
}

INSTANTIATE_TEST_SUITE_P(Threads, EngineTest, testing::Values(1u, 2u));

} // namespace
} // namespace testbed
