// SPDX-License-Identifier: BSD-3-Clause
// Which send queues a round visits: idle ones that share registers are not visited, and none that
// is rung is missed.
#include "app/softhca/core/send_schedule.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <bit>
#include <set>

namespace testbed {
namespace {

/// The page that a program would map.
struct Uar {
    std::shared_ptr<Pages> page = std::make_shared<Pages>(mlx5_rings::kUarBytes);
    std::shared_ptr<SendRegisters> registers = mlx5_rings::send_registers(page->data(), page);

    /// As drivers do: writes the first eight bytes of a WQE to one buffer.
    void ring(Number sqn, size_t buffer = 0) const {
        mlx5::WqeCtrlSeg ctrl{};
        ctrl.qpn_ds = sqn << 8 | 2;
        __atomic_store_n(word(buffer), std::bit_cast<std::array<uint64_t, 2>>(ctrl)[0],
                         __ATOMIC_RELEASE);
    }
    [[nodiscard]] uint64_t* word(size_t buffer) const {
        return reinterpret_cast<uint64_t*>(page->data() + mlx5_rings::kSendRegistersAt +
                                           buffer * mlx5_rings::kSendRegisterStride);
    }
};

class Schedule : public testing::Test {
  protected:
    static constexpr size_t kMany = 1000;

    /// Adds SQs in ready that are rung by the same registers.
    void make(size_t count, const std::shared_ptr<SendRegisters>& registers) {
        for (; count != 0; count--) {
            Sq& sq = sqs.emplace_back();
            sq.number = static_cast<Number>(sqs.size());
            sq.registers = registers;
            sq.state = QueueState::ready;
            sq.doorbell = Doorbell(bells.emplace_back());
            schedule.start(sq);
        }
    }
    /// One round, which executes what is posted to the SQs that it visits.
    size_t round() {
        visited.clear();
        return schedule.round(looks, [&](Sq& sq) -> size_t {
            visited.push_back(sq.number);
            if (posted.erase(sq.number) == 0) {
                if (sq.number == ring_behind) post(std::exchange(ring_behind, 0));
                return 0;
            }
            executed.insert(sq.number);
            return 1;
        });
    }
    void fall_asleep() {
        for (int i = 0; i < kPatience + 2; i++)
            round();
    }
    /// As drivers do: writes the doorbell record, then the register.
    void post(Number number) {
        posted.insert(number);
        bells[number - 1].write(++posts);
        uar.ring(number);
    }
    void end_all() {
        for (Sq& sq : sqs)
            schedule.stop(sq);
        sqs.clear();
        bells.clear();
    }
    [[nodiscard]] Sq& sq(Number number) { return sqs[number - 1]; }

    Uar uar;
    std::deque<DoorbellRegister> bells;
    std::deque<Sq> sqs;
    SendSchedule schedule;
    size_t looks = looks_of_round(false, 0);
    std::vector<Number> visited;
    std::set<Number> posted, executed;
    uint32_t posts = 0;
    Number ring_behind = 0; ///< this SQ is rung just after its visit
};

TEST_F(Schedule, IdleQueuesAreNotVisited) {
    make(kMany, uar.registers);
    EXPECT_EQ(round(), 0u);
    EXPECT_EQ(visited.size(), kMany) << "at first nobody is known to be idle";
    fall_asleep();
    EXPECT_EQ(round(), 0u);
    EXPECT_TRUE(visited.empty());
}

TEST_F(Schedule, VisitsDoNotGrowWithIdleQueuesBesideABusyOne) {
    for (const size_t idle : {size_t{64}, kMany}) {
        make(idle, uar.registers);
        fall_asleep();
        size_t most = 0;
        for (int i = 0; i < 100; i++) {
            posted = {1};
            uar.ring(1, i % 2);
            round();
            most = std::max(most, visited.size());
            EXPECT_TRUE(executed.contains(1));
            executed.clear();
        }
        EXPECT_LE(most, SendSchedule::kSweep + 1) << "beside " << idle;
    }
}

TEST_F(Schedule, ARungQueueIsVisitedInTheNextRound) {
    make(kMany, uar.registers);
    fall_asleep();
    for (const Number number : {1u, 345u, 1000u}) {
        for (size_t buffer = 0; buffer < SendRegisters::kCount; buffer++) {
            fall_asleep();
            posted = {number};
            uar.ring(number, buffer);
            EXPECT_NE(round(), 0u);
            EXPECT_TRUE(executed.contains(number)) << number << " by " << buffer;
            executed.clear();
        }
    }
}

TEST_F(Schedule, TheSameValueRingsAgain) {
    make(kMany, uar.registers);
    for (int i = 0; i < 3; i++) {
        fall_asleep();
        posted = {77};
        uar.ring(77);
        round();
        EXPECT_TRUE(executed.contains(77));
        executed.clear();
    }
}

TEST_F(Schedule, RingsThatWereWrittenOverAreFound) {
    make(kMany, uar.registers);
    fall_asleep();
    posted = {5, 500, 999, 1000};
    for (const Number number : {5u, 500u, 999u, 1000u})
        uar.ring(number); // the same register
    size_t rounds = 0;
    while (round() != 0) // a device thread that has no work would rest
        rounds++;
    EXPECT_EQ(executed, (std::set<Number>{5, 500, 999, 1000}));
    EXPECT_LE(rounds, kMany / SendSchedule::kSweep + 4);
}

TEST_F(Schedule, ARingForNobodyIsNoWorkForEver) {
    make(kMany, uar.registers);
    fall_asleep();
    uar.ring(0xabcdef);
    size_t rounds = 0;
    while (round() != 0)
        ASSERT_LT(rounds++, kMany);
    fall_asleep();
    round();
    EXPECT_TRUE(visited.empty());
}

/// A queue is removed while others are checked after a ring: none of these is skipped.
TEST_F(Schedule, QueuesThatGoLeaveNoneOut) {
    make(64, uar.registers);
    fall_asleep();
    for (int stop = 1; stop < 32; stop++) {
        posted = {64};
        uar.ring(40); // overwrites the ring of the last one
        round();
        schedule.stop(sq(static_cast<Number>(stop)));
        while (round() != 0) {
        }
        EXPECT_TRUE(executed.contains(64)) << stop;
        executed.clear();
        fall_asleep();
    }
    EXPECT_EQ(round(), 0u);
    EXPECT_TRUE(visited.empty());
}

/// Likewise if queues are added between those that have been checked and those that have not.
TEST_F(Schedule, QueuesThatComeLeaveNoneOut) {
    constexpr size_t kSome = 64, kMore = 30;
    const auto ring_while_some_come = [&](size_t count) {
        uar.ring(40); // and others, whose rings were overwritten
        round();
        make(count, uar.registers);
        while (round() != 0) {
        }
    };
    make(kSome, uar.registers);
    fall_asleep();
    ring_while_some_come(kMore);
    fall_asleep(); // now it is the turn of the first of these
    for (Number number = 1; number <= kSome + kMore; number++)
        posted.insert(number);
    ring_while_some_come(1);
    EXPECT_EQ(posted, std::set<Number>{}) << "were left out";
}

TEST_F(Schedule, WhatIsPostedWhileAQueueFallsAsleepIsFound) {
    constexpr int kFirst = kPatience - 3, kLast = kPatience + 3;
    for (int at = kFirst; at < kLast; at++)
        for (const bool by_register : {true, false})
            for (const Number number : {1u, 3u}) { // the first one to sleep, and a later one
                make(SendRegisters::kCount + 4, by_register ? uar.registers : nullptr);
                for (int i = 0; i < at; i++)
                    round();
                ring_behind = number;
                for (int i = 0; i < 3; i++)
                    round();
                if (ring_behind != 0) { // it was asleep already
                    post(std::exchange(ring_behind, 0));
                    round();
                }
                EXPECT_TRUE(executed.contains(number)) << "after " << at << " rounds";
                executed.clear();
                end_all();
            }
}

/// With registers that they do not share, or without any: only their records show new work.
TEST_F(Schedule, RecordsAreLookedAtInTurns) {
    make(kMany, nullptr);
    fall_asleep();
    EXPECT_EQ(round(), 0u);
    EXPECT_TRUE(visited.empty()) << "their records tell that there is nothing";
    for (const Number number : {1u, 345u, 1000u}) {
        post(number);
        size_t rounds = 0;
        for (; !executed.contains(number); rounds++) {
            ASSERT_LT(rounds, kMany);
            round();
            EXPECT_LE(visited.size(), 1u);
        }
        EXPECT_LE(rounds, kMany / looks + 1);
        executed.clear();
        fall_asleep();
    }
}

TEST_F(Schedule, AThreadThatHasSleptFindsThemAtOnce) {
    make(kMany, nullptr);
    fall_asleep();
    looks = looks_of_round(true, 0);
    for (const Number number : {7u, 77u, 777u})
        post(number);
    round();
    EXPECT_EQ(executed, (std::set<Number>{7, 77, 777}));
}

TEST_F(Schedule, QueuesThatGoLeaveNoTurnOut) {
    constexpr size_t kSome = 64;
    for (Number stop = 1; stop < kSome; stop++) {
        make(kSome, nullptr);
        fall_asleep();
        round(); // moves the turn on
        schedule.stop(sq(stop));
        post(kSome);
        for (size_t i = 0; i < kSome / looks + 1; i++)
            round();
        EXPECT_TRUE(executed.contains(kSome)) << stop;
        EXPECT_FALSE(executed.contains(stop));
        executed.clear();
        end_all();
    }
}

/// SQs that become due without being rung.
TEST_F(Schedule, SomeNeverSleep) {
    std::set<Number> awake;
    make(16, uar.registers);
    const auto last = static_cast<Number>(sqs.size());
    sq(last - 2).managed = sq(last - 1).repeats = true;
    sq(last).pace = RequestPace(1000, 0);
    awake.insert({last - 2, last - 1, last});
    fall_asleep();
    round();
    EXPECT_EQ(std::set(visited.begin(), visited.end()), awake);
}

TEST_F(Schedule, FewThatAreLeftAreLookedAtAgain) {
    constexpr size_t kFew = SendRegisters::kCount;
    make(kFew + 4, uar.registers);
    fall_asleep();
    for (Number number = 1; number <= 4; number++)
        schedule.stop(sq(number));
    round();
    EXPECT_EQ(visited.size(), kFew);
    fall_asleep();
    post(7);
    round();
    EXPECT_TRUE(executed.contains(7)) << "by its record";
}

TEST_F(Schedule, PagesAreApart) {
    const Uar other;
    make(100, uar.registers);
    make(100, other.registers);
    fall_asleep();
    posted = {5, 105};
    other.ring(105);
    while (round() != 0) {
    }
    EXPECT_EQ(executed, std::set<Number>{105}) << "5 was not rung";
}

// ---------------------------------------------------------------- in a device

class Sleepers : public Testbed {
  protected:
    void SetUp() override {
        for (int i = 0; i < 64; i++) {
            SqAttr attr;
            attr.pd = pd;
            attr.cqn = tx_cq.number;
            attr.registers = uar.registers;
            attr.listener = &listener;
            sqs.push_back(std::make_unique<TestSq>(*device, attr, uint8_t{4}));
        }
        fall_asleep();
    }
    void TearDown() override {
        for (const auto& queue : sqs)
            EXPECT_TRUE(device->destroy_sq(queue->number));
    }
    void fall_asleep() {
        for (int i = 0; i < kPatience + 2; i++)
            device->poll();
    }
    /// Posts a frame, and writes the doorbell record.
    void post(TestSq& queue) {
        queue.post(Wqe(mlx5::WqeOpcode::send)
                       .eth()
                       .data(lkey, put(0, frame), static_cast<uint32_t>(frame.size())));
        queue.ring_doorbell();
    }

    const Bytes frame = frames::build({});
    Uar uar;
    std::vector<std::unique_ptr<TestSq>> sqs;
};

TEST_F(Sleepers, SendWhenTheyAreRung) {
    post(*sqs[33]);
    device->poll();
    EXPECT_TRUE(wire->sent.empty()) << "a doorbell record alone wakes no device";
    uar.ring(sqs[33]->number);
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
}

TEST_F(Sleepers, StartAgainAfterAReset) {
    TestSq& queue = *sqs[7];
    ASSERT_TRUE(device->modify_sq(queue.number, QueueState::reset));
    ASSERT_TRUE(device->modify_sq(queue.number, QueueState::ready));
    post(queue);
    run();
    EXPECT_EQ(wire->sent.size(), 1u) << "awake, as any queue is at first";
}

TEST_F(Sleepers, FlushWhenTheyAreRung) {
    TestSq& queue = *sqs[7];
    ASSERT_TRUE(device->modify_sq(queue.number, QueueState::error));
    fall_asleep();
    post(queue);
    uar.ring(queue.number);
    run();
    const mlx5::ErrorCqe* const cqe = tx_cq.poll_error(mlx5::CqeOpcode::req_error);
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(mlx5::CqeSyndrome::flushed));
}

/// An SQ does not save up for a burst while it sleeps.
TEST_F(Sleepers, KeepTheirRate) {
    TestSq& queue = *sqs[7];
    constexpr uint32_t kMegabit = 1000;
    ASSERT_TRUE(device->pace_sq(queue.number, kMegabit));
    fall_asleep();
    const timespec rest{0, 30'000'000}; // worth 4 kB; an idle queue keeps credit for 0.5 ms
    nanosleep(&rest, nullptr);
    const auto frames_of = [&](uint64_t bytes) { return bytes / frame.size(); };
    for (int i = 0; i < 15; i++)
        post(queue);
    uar.ring(queue.number);
    device->poll();
    EXPECT_LE(wire->sent.size(), frames_of(kMegabit / 8 / 2) + 2);
}

} // namespace
} // namespace testbed
