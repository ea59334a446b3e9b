// SPDX-License-Identifier: BSD-3-Clause
// loop, pair and sink: the wires within one process.
#include "tests/unit/wire/traffic.hpp"

namespace {

using namespace wire_test;

TEST(LoopWire, EverythingComesBackInOrder) {
    const auto wire = open("loop");
    uint64_t sent = 0, received = 0;
    constexpr uint64_t kCount = 1'000'000;
    while (received < kCount) {
        while (sent < kCount && send(*wire, numbered(sent)) == SendResult::sent)
            ++sent;
        wire->flush();
        ASSERT_EQ(receive_numbered(*wire, received, sent), sent);
        received = sent;
    }
    EXPECT_TRUE(wire->peek().empty());
}

TEST(SinkWire, TakesAllGivesNone) {
    const auto wire = open("sink");
    EXPECT_TRUE(send_numbered(*wire, 0, 1000));
    EXPECT_TRUE(wire->peek().empty());
    EXPECT_TRUE(wire->carrier());
}

TEST(PairWire, LosesNothingInBothDirections) {
    const auto a = open("pair:t1"), b = open("pair:t1");
    expect_lossless(*a, *b, 1'000'000);
}

TEST(PairWire, HasTwoEnds) {
    const auto a = open("pair:t2"), b = open("pair:t2");
    EXPECT_NE(error_of("pair:t2").find("two ends"), std::string::npos);
    const auto other = open("pair:t3");
    EXPECT_FALSE(other->carrier());
    EXPECT_TRUE(a->carrier() && b->carrier());
}

TEST(PairWire, FramesToNobodyAreLostAndSaidSo) {
    const auto a = open("pair:t4");
    EXPECT_FALSE(a->carrier());
    EXPECT_EQ(send(*a, numbered(1)), SendResult::lost);
}

TEST(PairWire, AnEndMayLeaveAndComeBack) {
    const auto a = open("pair:t5");
    {
        const auto b = open("pair:t5");
        ASSERT_TRUE(a->carrier());
        ASSERT_TRUE(send_numbered(*a, 0, 10)); // for this b
        ASSERT_TRUE(send_numbered(*b, 0, 10));
    }
    EXPECT_FALSE(a->carrier());
    EXPECT_EQ(send(*a, numbered(0)), SendResult::lost);
    EXPECT_EQ(receive_numbered(*a, 0, 10), 10u); // b's last frames arrive all the same
    const auto b = open("pair:t5");
    EXPECT_TRUE(b->peek().empty()); // nothing left from before
    expect_lossless(*a, *b, 10'000);
}

TEST(PairWire, PortStateIsSeenAcross) {
    const auto a = open("pair:t6"), b = open("pair:t6");
    a->set_carrier(false);
    EXPECT_FALSE(b->carrier());
    EXPECT_TRUE(a->carrier());
    a->set_carrier(true);
    EXPECT_TRUE(b->carrier());
}

TEST(PairWire, FullIsBusy) {
    const auto a = open("pair:t7"), b = open("pair:t7");
    uint64_t sent = 0;
    while (send(*a, numbered(sent)) == SendResult::sent)
        ++sent;
    EXPECT_EQ(send(*a, numbered(sent)), SendResult::busy);
    EXPECT_EQ(receive_numbered(*b, 0, sent), sent);
    EXPECT_TRUE(b->peek().empty());
    EXPECT_EQ(send(*a, numbered(sent)), SendResult::sent);
}

} // namespace
