// SPDX-License-Identifier: BSD-3-Clause
// CQs that have not been armed for long are polled in turn: no request is missed, whenever it
// comes.
#include "app/softhca/core/engine.hpp"
#include "app/softhca/core/turns.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace testbed {
namespace {

class Arm : public Testbed {
  protected:
    static constexpr size_t kMany = 200;

    void SetUp() override {
        while (cqs.size() < kMany) {
            const TestCq& cq = cqs.emplace_back(*device, 4, &listener, true);
            sqs.push_back(std::make_unique<TestSq>(*device, pd, cq.number, uint8_t{4}));
        }
    }
    void TearDown() override {
        for (const auto& queue : sqs)
            EXPECT_TRUE(device->destroy_sq(queue->number));
        for (const TestCq& cq : cqs)
            EXPECT_TRUE(device->destroy_cq(cq.number));
    }
    /// Polls like a thread that does not sleep between rounds.
    void rounds(size_t count) {
        while (count-- != 0)
            device->poll(false);
    }
    void idle() { rounds(kPatience + 2); }
    void complete(size_t index) {
        TestSq& queue = *sqs[index];
        queue.post(Wqe(mlx5::WqeOpcode::send).eth().data(lkey, memory_at(0), 60));
        queue.ring_doorbell();
    }
    /// The consumer's reaction to an event.
    void take(size_t index) {
        TestCq& cq = cqs[index];
        while (cq.poll())
            cq.release();
        cq.events++;
    }
    [[nodiscard]] size_t events() const { return listener.completions.size(); }

    static constexpr size_t kTurn = kMany / looks_of_round(false, 0) + 2; ///< rounds
    std::deque<TestCq> cqs;
    std::vector<std::unique_ptr<TestSq>> sqs;
};

TEST_F(Arm, IsFoundAfterLongIdleness) {
    idle();
    for (size_t i = 0; i < kMany; i++) {
        cqs[i].arm();
        rounds(kTurn);
        complete(i);
        rounds(kTurn);
        ASSERT_EQ(events(), i + 1) << "CQ " << i;
        take(i);
    }
}

TEST_F(Arm, IsFoundBehindACompletionThatCameBefore) {
    idle();
    complete(7);
    rounds(kTurn);
    cqs[7].arm();
    EXPECT_EQ(events(), 0u);
    rounds(kTurn);
    EXPECT_EQ(events(), 1u);
}

TEST_F(Arm, IsFoundWhileTheCqBecomesIdle) {
    for (size_t at = kPatience - 3; at < kPatience + 3u; at++) {
        rounds(kTurn);
        TestCq& cq = cqs.emplace_back(*device, 4, &listener, true);
        sqs.push_back(std::make_unique<TestSq>(*device, pd, cq.number, uint8_t{4}));
        rounds(at);
        cq.arm();
        rounds(kTurn);
        const size_t before = events();
        complete(cqs.size() - 1);
        rounds(kTurn);
        EXPECT_EQ(events(), before + 1) << "armed after " << at << " rounds";
    }
}

/// A CQ that is armed again and again does not have to wait for its turn.
TEST_F(Arm, IsFoundAtOnceOfACqInUse) {
    idle();
    cqs[9].arm();
    complete(9);
    rounds(kTurn);
    for (size_t i = 1; i < 10; i++) {
        EXPECT_EQ(events(), i);
        take(9);
        cqs[9].arm();
        rounds(1);
        complete(9);
        rounds(1);
    }
}

/// The request was in the record when the CQ was resized, twice.
TEST_F(Arm, IsForCompletionsAndNotForEndsOfRings) {
    constexpr uint8_t kLogEntries = 4;
    const std::array rings{std::make_unique<Pages>(64 << kLogEntries),
                           std::make_unique<Pages>(64 << kLogEntries)};
    const auto resize_twice = [&](size_t index) {
        for (const auto& ring : rings)
            ASSERT_TRUE(device->resize_cq(cqs[index].number, ring->area(), kLogEntries, 64));
    };
    for (const bool used : {false, true}) {
        const size_t index = used ? 8 : 7, before = events();
        if (used) { // its completions are no ends
            complete(index);
            rounds(kTurn);
            take(index);
            cqs[index].events--; // it was not armed
        }
        cqs[index].arm();
        resize_twice(index);
        rounds(kTurn);
        EXPECT_EQ(events(), before) << used;
        complete(index);
        rounds(kTurn);
        EXPECT_EQ(events(), before + 1) << used;
    }
    complete(9);
    rounds(kTurn);
    const size_t before = events();
    cqs[9].arm();
    resize_twice(9);
    rounds(kTurn);
    EXPECT_EQ(events(), before + 1) << "of the completion before the ends";
}

TEST_F(Arm, BySolicitedCompletionsOnlyMayBecomeOneForAll) {
    idle();
    cqs[3].arm(true);
    idle();
    complete(3);
    rounds(kTurn);
    EXPECT_EQ(events(), 0u);
    cqs[3].arm();
    rounds(kTurn);
    EXPECT_EQ(events(), 1u) << "for the completion that is there";
}

/// The program's thread arms and completes while the device thread lets CQs become idle.
TEST(ArmBesideAThread, NoneIsMissed) {
    struct Events final : Listener {
        void on_completion(Number, uint64_t) override { seen++; }
        void on_async(AsyncEvent, Number, uint64_t) override {}
        std::atomic<uint32_t> seen{0};
    };
    Events events;
    Engine engine({});
    Device& device =
        engine.add(std::make_unique<Device>(DeviceConfig{}, std::make_unique<FakeWire>(), nullptr));
    Pages memory(4096);
    const Number pd = device.alloc_pd().value();
    const uint32_t key = make_key(device, pd, memory);
    struct Side {
        mlx5::CqDoorbell record{};
        Pages ring{64 << 4};
        Number cqn = 0;
        std::unique_ptr<TestSq> sq;
        uint32_t armed = 0;
    };
    std::deque<Side> sides;
    for (int i = 0; i < 300; i++) {
        Side& side = sides.emplace_back();
        CqAttr attr;
        attr.ring = side.ring.area();
        attr.doorbell = cq_doorbell(&side.record);
        attr.log_entries = 4;
        attr.listener = &events;
        attr.events = true;
        side.cqn = device.create_cq(attr).value();
        side.sq = std::make_unique<TestSq>(device, pd, side.cqn, uint8_t{4});
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (uint32_t i = 0; i < 3000; i++) {
        Side& side = sides[i * 7 % sides.size()];
        const auto to_record = [](auto& word, uint32_t value) {
            __atomic_store_n(&word.raw, net::to_be(value), __ATOMIC_RELEASE);
        };
        const uint32_t request = (side.armed & 3) << mlx5::kCqArmSequenceShift | side.armed;
        const auto complete = [&] {
            side.sq->post(Wqe(mlx5::WqeOpcode::send).eth().data(key, memory.data(), 60));
            to_record(side.sq->doorbell.send, side.sq->producer);
        };
        if (i % 2 == 0) { // in either order
            to_record(side.record.arm, request);
            complete();
        } else {
            complete();
            to_record(side.record.arm, request);
        }
        while (events.seen.load() <= i) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "event " << i;
            std::this_thread::yield();
        }
        side.armed++;
        to_record(side.record.consumer, side.armed);
    }
    for (const Side& side : sides) {
        EXPECT_TRUE(device.destroy_sq(side.sq->number));
        EXPECT_TRUE(device.destroy_cq(side.cqn));
    }
}

} // namespace
} // namespace testbed
