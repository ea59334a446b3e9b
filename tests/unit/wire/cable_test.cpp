// SPDX-License-Identifier: BSD-3-Clause
// loop, pair and sink: the wires within one process.
#include "tests/unit/wire/traffic.hpp"

namespace {

using namespace wire_test;
using softhca::wire::Recipient;

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

TEST(PairWire, WhatAnEndTookArrivesThoughItGoesAtOnce) {
    const auto a = open("pair:t8");
    ASSERT_EQ(send(*open("pair:t8"), numbered(0)), SendResult::sent);
    EXPECT_EQ(await_frame(*a, std::chrono::seconds(1)).size(), numbered(0).size());
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
    EXPECT_EQ(receive_numbered(*a, 0, 10), 10u); // b's last frames still arrive
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

/// Takes up to `room` of the numbered frames that it is offered.
struct Taker final : Recipient {
    size_t take(std::span<const iovec> frames) override {
        asked++;
        size_t taken = 0;
        for (; taken < std::min(room, frames.size()); taken++) {
            const auto wanted = numbered(seen++);
            EXPECT_EQ(frames[taken].iov_len, wanted.size());
            EXPECT_EQ(std::memcmp(frames[taken].iov_base, wanted.data(), wanted.size()), 0);
        }
        room -= taken;
        return taken;
    }
    size_t room = 0;
    uint64_t seen = 0;
    int asked = 0;
};

/// Sends frames [first, end) in one call.
SendResult send_batch(Wire& wire, uint64_t first, uint64_t end, size_t& sent) {
    std::vector<std::vector<std::byte>> frames;
    std::vector<iovec> pieces;
    for (; first < end; first++) {
        auto& frame = frames.emplace_back(numbered(first));
        pieces.push_back({frame.data(), frame.size()});
    }
    return wire.send_batch(pieces, sent);
}

TEST(PairWire, GivesFramesToWhoTakesThemAndTheRestToTheRing) {
    const auto a = open("pair:t8"), b = open("pair:t8");
    Taker taker;
    b->set_recipient(&taker);
    taker.room = 15;
    size_t sent = 0;
    EXPECT_EQ(send_batch(*a, 0, 10, sent), SendResult::sent);
    EXPECT_EQ(sent, 10u);
    EXPECT_EQ(taker.seen, 10u);
    EXPECT_TRUE(b->peek().empty());
    EXPECT_EQ(send_batch(*a, 10, 20, sent), SendResult::sent);
    EXPECT_EQ(sent, 20u);
    EXPECT_EQ(taker.seen, 15u);
    a->flush();
    taker.room = 100;
    EXPECT_EQ(receive_numbered(*b, 15, 19), 19u);
    EXPECT_EQ(send_batch(*a, 20, 30, sent), SendResult::sent);
    EXPECT_EQ(taker.asked, 2) << "one is in the ring, which they would overtake";
    a->flush();
    EXPECT_EQ(receive_numbered(*b, 19, 30), 30u);
    EXPECT_TRUE(b->peek().empty());
    taker.seen = 30;
    EXPECT_EQ(send_batch(*a, 30, 40, sent), SendResult::sent);
    EXPECT_EQ(taker.seen, 40u);
    EXPECT_EQ(sent, 40u);
}

TEST(PairWire, TheRingHasWhatNobodyTakesAnyMore) {
    const auto a = open("pair:t9"), b = open("pair:t9");
    Taker taker;
    taker.room = 100;
    b->set_recipient(&taker);
    b->set_recipient(nullptr);
    a->set_recipient(&taker); // of what b sends
    size_t sent = 0;
    EXPECT_EQ(send_batch(*a, 0, 10, sent), SendResult::sent);
    a->flush();
    EXPECT_EQ(taker.asked, 0);
    EXPECT_EQ(receive_numbered(*b, 0, 10), 10u);
}

} // namespace
