// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: ownership, counters that run over, arming, events.
#include "app/softhca/core/cq.hpp"
#include "tests/unit/softhca/testbed.hpp"

namespace testbed {
namespace {

/// A CQ without a device.
class CqTest : public testing::Test {
  protected:
    static constexpr uint8_t kLog = 3;

    Cq make(bool events) {
        CqAttr attr;
        attr.ring = ring.area();
        attr.doorbell = &doorbell;
        attr.log_entries = kLog;
        attr.listener = &listener;
        attr.cookie = 5;
        attr.events = events;
        return Cq(9, attr);
    }
    static bool write(Cq& cq, mlx5::CqeOpcode opcode = mlx5::CqeOpcode::req) {
        return cq.write<mlx5::Cqe>(opcode, 0, 0, [](mlx5::Cqe&) {});
    }
    Pages ring{64 << kLog};
    mlx5::CqDoorbell doorbell{};
    FakeListener listener;
};

TEST_F(CqTest, OwnerBitFlipsEachTimeRound) {
    Cq cq = make(false);
    for (uint32_t i = 0; i < 40; i++) {
        ASSERT_TRUE(write(cq));
        const auto* const cqe = reinterpret_cast<const mlx5::Cqe*>(ring.data()) + i % 8;
        ASSERT_EQ(cqe->op_own & mlx5::kOwnerMask, (i >> kLog) & 1);
        doorbell.consumer = i + 1;
    }
}

TEST_F(CqTest, FullIsNoticedWith24And16BitConsumers) {
    for (const uint32_t consumer_mask : {0xffffffu, 0xffffu}) {
        doorbell = {};
        Cq cq = make(false);
        uint32_t consumed = 0;
        for (uint32_t round = 0; round < 20000; round++) { // beyond 2^17 CQEs
            for (int i = 0; i < 8; i++)
                ASSERT_TRUE(write(cq));
            ASSERT_FALSE(cq.has_room(1));
            consumed += 8;
            doorbell.consumer = consumed & consumer_mask;
            ASSERT_TRUE(cq.has_room(8));
        }
    }
}

TEST_F(CqTest, OverrunIsToldOnceAndForGood) {
    Cq cq = make(false);
    for (int i = 0; i < 8; i++)
        ASSERT_TRUE(write(cq));
    EXPECT_FALSE(write(cq));
    EXPECT_FALSE(write(cq));
    ASSERT_EQ(listener.events.size(), 1u);
    EXPECT_EQ(listener.events[0], std::pair(AsyncEvent::cq_error, Number{9}));
    doorbell.consumer = 8;
    EXPECT_FALSE(write(cq));
    EXPECT_FALSE(cq.has_room(1));
}

TEST_F(CqTest, NonsenseInTheConsumerRecordCountsAsFull) {
    Cq cq = make(false);
    doorbell.consumer = 5; // nothing was produced yet
    EXPECT_FALSE(cq.has_room(1));
}

TEST_F(CqTest, ArmWithTheInitialValueOfTheRecordIsSeen) {
    Cq cq = make(true);
    cq.poll_arm();
    EXPECT_TRUE(write(cq));
    EXPECT_TRUE(listener.completions.empty()) << "not armed yet";
    doorbell.consumer = 1;
    doorbell.arm = 1;
    cq.poll_arm();
    EXPECT_TRUE(listener.completions.empty());
    write(cq);
    EXPECT_EQ(listener.completions, std::vector<uint64_t>{5});
    write(cq);
    EXPECT_EQ(listener.completions.size(), 1u) << "one event for one arm";
}

TEST_F(CqTest, FirstArmOfAFreshCq) {
    Cq cq = make(true);
    doorbell.arm = 0; // sequence 0, counter 0: what libmlx5 writes first
    cq.poll_arm();
    write(cq);
    EXPECT_EQ(listener.completions.size(), 1u);
}

TEST_F(CqTest, CompletionsThatCameBeforeTheArmAreToldAtOnce) {
    Cq cq = make(true);
    write(cq);
    doorbell.arm = 0;
    cq.poll_arm();
    EXPECT_EQ(listener.completions.size(), 1u);
    cq.poll_arm();
    EXPECT_EQ(listener.completions.size(), 1u);
}

TEST_F(CqTest, SolicitedOnlyHearsOfErrors) {
    Cq cq = make(true);
    doorbell.arm = mlx5::kCqArmSolicited;
    cq.poll_arm();
    write(cq, mlx5::CqeOpcode::resp_send);
    EXPECT_TRUE(listener.completions.empty());
    write(cq, mlx5::CqeOpcode::resp_error);
    EXPECT_EQ(listener.completions.size(), 1u);
}

TEST_F(CqTest, WithoutEventsTheArmRecordIsLeftAlone) {
    const Cq cq = make(false);
    EXPECT_FALSE(cq.has_events());
    EXPECT_EQ(doorbell.arm, 0u);
}

class CqOnDevice : public Testbed {};

TEST_F(CqOnDevice, ReceiveRaisesTheEvent) {
    TestCq armed(*device, 4, &listener, true);
    TestRq queue(*device, pd, armed.number);
    steer_all(queue);
    post_buffers(queue, 4);
    armed.arm();
    run();
    EXPECT_TRUE(listener.completions.empty());
    wire->incoming.push_back(frames::build({}));
    run();
    EXPECT_EQ(listener.completions, std::vector<uint64_t>{77});
    EXPECT_NE(armed.poll(), nullptr);
    armed.release();
    armed.arm();
    run();
    wire->incoming.push_back(frames::build({}));
    run();
    EXPECT_EQ(listener.completions.size(), 2u);
}

} // namespace
} // namespace testbed
