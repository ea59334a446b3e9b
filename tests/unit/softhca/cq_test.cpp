// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: ownership, counters that wrap around, arming, events.
#include "app/softhca/core/rings/mlx5/cq.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>
#include <random>

namespace testbed {
namespace {

using mlx5_rings::Cq;

/// A CQ without a device.
class CqTest : public testing::Test {
  protected:
    static constexpr uint8_t kLog = 3;

    Cq make(bool events) { return make(events, ring.area()); }
    Cq make(bool events, DmaArea area) {
        CqAttr attr;
        attr.ring = std::move(area);
        attr.doorbell = cq_doorbell(&doorbell);
        attr.log_entries = kLog;
        attr.listener = &listener;
        attr.cookie = 5;
        attr.events = events;
        return Cq(9, attr);
    }
    static bool write(Cq& cq, mlx5::CqeOpcode opcode = mlx5::CqeOpcode::req) {
        return cq.write<mlx5::Cqe>(opcode, 0, 0, [](mlx5::Cqe&) {});
    }
    Pages ring{64 << kLog}, other_ring{64 << kLog};
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

TEST_F(CqTest, OverrunsAreIgnoredAsLongAsTheOwnerWants) {
    Cq cq = make(false);
    cq.ignore_overrun(true);
    for (int i = 0; i < 24; i++)
        ASSERT_TRUE(write(cq));
    EXPECT_TRUE(listener.events.empty());
    cq.ignore_overrun(false);
    EXPECT_FALSE(cq.has_room(1)) << "eight have not been read";
    doorbell.consumer = 24;
    EXPECT_TRUE(cq.has_room(8));
}

TEST_F(CqTest, RowsAreWhatSingleEntriesAre) {
    Cq rows = make(false), single = make(false, other_ring.area());
    std::mt19937 random(1);
    uint16_t produced = 0, consumed = 0;
    for (int round = 0; round < 2000; round++) {
        consumed = static_cast<uint16_t>(consumed + random() % (produced - consumed + 1u));
        doorbell.consumer = consumed;
        const uint32_t most = 1 + random() % 10;
        const Cq::Row row = rows.row(most);
        const uint32_t free = 8u - (produced - consumed), to_end = 8u - produced % 8u;
        // The row may be shorter than the room that is free by now, but not empty.
        ASSERT_EQ(row.size() == 0, free == 0);
        ASSERT_LE(row.size(), std::min({most, free, to_end}));
        for (uint32_t i = 0; i < row.size(); i++, produced++) {
            const auto fill = [&](mlx5::Cqe& cqe) {
                cqe = {};
                cqe.byte_count = produced;
            };
            row.write(i, mlx5::be32(7), produced, fill);
            ASSERT_TRUE(single.write<mlx5::Cqe>(mlx5::CqeOpcode::resp_send, 7, produced, fill));
        }
        rows.end_row(row.size());
        ASSERT_EQ(std::memcmp(ring.data(), other_ring.data(), 64 << kLog), 0) << round;
    }
    EXPECT_GT(produced, 2000);
}

TEST_F(CqTest, RowsEndWhereTheRingDoes) {
    const Pages longer(2 * 64 << kLog);
    Cq cq = make(false, longer.area());
    EXPECT_EQ(cq.row(100).size(), 8u);
    cq.end_row(8);
    doorbell.consumer = 3;
    cq.end_row(cq.row(100).size());
    doorbell.consumer = 11; // all are free
    EXPECT_EQ(cq.row(100).size(), 5u);
}

TEST_F(CqTest, RowsEndWithTheirPage) {
    constexpr uint8_t kEntries = 7; // in two pages
    const Pages pages(64 << kEntries);
    CqAttr attr;
    attr.ring = pages.paged_area();
    attr.doorbell = cq_doorbell(&doorbell);
    attr.log_entries = kEntries;
    attr.listener = &listener;
    Cq cq(9, attr);
    cq.end_row(cq.row(60).size());
    EXPECT_EQ(cq.row(100).size(), 4u);
    cq.end_row(4);
    EXPECT_EQ(cq.row(100).size(), 64u);
}

TEST_F(CqTest, NonsenseInTheConsumerRecordCountsAsFull) {
    Cq cq = make(false);
    doorbell.consumer = 5; // nothing has been produced yet
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

TEST_F(CqTest, AnArmWithAnotherSequenceIsNoRequest) {
    Cq cq = make(true);
    doorbell.arm = 2u << 28; // Linux, after CREATE_CQ: no events until the CQ is armed
    cq.poll_arm();
    write(cq);
    cq.poll_arm();
    EXPECT_TRUE(listener.completions.empty());
    doorbell.arm = 0;
    cq.poll_arm();
    EXPECT_EQ(listener.completions.size(), 1u);
    doorbell.arm = 1; // the event has not been taken yet
    cq.poll_arm();
    write(cq);
    EXPECT_EQ(listener.completions.size(), 1u);
    for (uint32_t events = 1; events < 9; events++) {
        doorbell.consumer = events + 1;
        doorbell.arm = (events & 3) << 28 | (events + 1);
        cq.poll_arm();
        EXPECT_EQ(listener.completions.size(), events);
        write(cq);
        EXPECT_EQ(listener.completions.size(), events + 1);
    }
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

// ---------------------------------------------------------------- compression

class CqBlockTest : public CqTest {
  protected:
    static constexpr uint8_t kLogLarge = 7;

    Cq make_compressing(MiniFormat format) {
        CqAttr attr;
        attr.ring = large.area();
        attr.doorbell = cq_doorbell(&doorbell);
        attr.log_entries = kLogLarge;
        attr.listener = &listener;
        attr.compress = format;
        return Cq(9, attr);
    }
    bool receive(Cq& cq, uint32_t bytes, uint32_t hash = 0, uint8_t type = 0) {
        return cq.write<mlx5::Cqe>(mlx5::CqeOpcode::resp_send, 7, counter++, [&](mlx5::Cqe& cqe) {
            cqe.byte_count = bytes;
            cqe.rx_hash_result = hash;
            cqe.check_sum = static_cast<uint16_t>(bytes + 1);
            cqe.l4_l3_type = type;
            cqe.timestamp = counter;
        });
    }
    [[nodiscard]] const mlx5::Cqe& entry(uint32_t index) const {
        return reinterpret_cast<const mlx5::Cqe*>(large.data())[index % (1u << kLogLarge)];
    }
    [[nodiscard]] const mlx5::MiniCqe& mini(uint32_t title, uint32_t number) const {
        const uint32_t at = title + (number < 8 ? 1 : number / 8 * 8);
        return reinterpret_cast<const mlx5::MiniCqe*>(&entry(at))[number % 8];
    }
    Pages large{64 << kLogLarge};
    uint16_t counter = 0;
};

TEST_F(CqBlockTest, AlikeCompletionsBecomeOneBlock) {
    Cq cq = make_compressing(MiniFormat::hash);
    for (uint32_t i = 0; i < 19; i++)
        ASSERT_TRUE(receive(cq, 60 + i, 1000 + i, 0x28));
    EXPECT_EQ(cq.producer(), 0u) << "kept until the round ends";
    cq.write_block();
    EXPECT_EQ(cq.producer(), 19u);
    EXPECT_EQ(entry(0).op_own, 0x2c);
    EXPECT_EQ(entry(0).byte_count, 19u);
    EXPECT_EQ(entry(0).l4_l3_type, 0x28);
    EXPECT_EQ(entry(0).sop_drop_qpn, 7u);
    for (uint32_t i = 0; i < 19; i++) {
        EXPECT_EQ(mini(0, i).byte_count, 60 + i);
        EXPECT_EQ(mini(0, i).result, 1000 + i);
    }
}

TEST_F(CqBlockTest, OneAloneIsAPlainCqe) {
    Cq cq = make_compressing(MiniFormat::hash);
    receive(cq, 60, 5);
    cq.write_block();
    EXPECT_EQ(entry(0).op_own, 0x20);
    EXPECT_EQ(entry(0).byte_count, 60u);
    EXPECT_EQ(entry(0).rx_hash_result, 5u);
}

TEST_F(CqBlockTest, WhatDiffersEndsTheBlock) {
    Cq cq = make_compressing(MiniFormat::hash);
    receive(cq, 60, 0, 1);
    receive(cq, 60, 0, 1);
    receive(cq, 60, 0, 2);
    receive(cq, 60, 0, 2);
    counter++; // a WQE was lost, which the block could not express
    receive(cq, 60, 0, 2);
    cq.write<mlx5::ErrorCqe>(mlx5::CqeOpcode::resp_error, 0, counter, [](mlx5::ErrorCqe&) {});
    EXPECT_EQ(entry(0).op_own, 0x2c);
    EXPECT_EQ(entry(2).op_own, 0x2c);
    EXPECT_EQ(entry(4).op_own, 0x20);
    EXPECT_EQ(entry(5).op_own, 0xe0);
    EXPECT_EQ(cq.producer(), 6u);
}

TEST_F(CqBlockTest, ChecksumFormats) {
    for (const auto format : {MiniFormat::checksum, MiniFormat::checksum_stride}) {
        counter = 5;
        Cq cq = make_compressing(format);
        receive(cq, 60);
        receive(cq, 64);
        cq.write_block();
        const bool stride = format == MiniFormat::checksum_stride;
        EXPECT_EQ(mini(0, 0).result, 61u << 16 | (stride ? 5 : 0));
        EXPECT_EQ(mini(0, 1).result, 65u << 16 | (stride ? 6 : 0));
    }
}

TEST_F(CqBlockTest, KeptCompletionsTakeRoom) {
    Cq cq = make_compressing(MiniFormat::hash);
    for (uint32_t i = 0; i < 128; i++)
        ASSERT_TRUE(receive(cq, 60));
    EXPECT_EQ(cq.producer(), 64u) << "a block has 64 at most";
    EXPECT_FALSE(cq.has_room(1));
    cq.write_block();
    EXPECT_EQ(cq.producer(), 128u);
    doorbell.consumer = 128;
    EXPECT_TRUE(cq.has_room(128));
    receive(cq, 60);
    receive(cq, 60);
    cq.write_block();
    EXPECT_EQ(entry(0).op_own, 0x2d) << "second lap";
}

TEST_F(CqBlockTest, NoBlockCrossesTheEndOfTheRing) {
    Cq cq = make_compressing(MiniFormat::hash);
    for (uint32_t i = 0; i < 100; i++)
        receive(cq, 60);
    cq.write_block();
    doorbell.consumer = 100;
    for (uint32_t i = 0; i < 40; i++)
        receive(cq, 60);
    cq.write_block();
    EXPECT_EQ(entry(100).byte_count, 28u);
    EXPECT_EQ(entry(100).op_own, 0x2c);
    EXPECT_EQ(entry(0).byte_count, 12u);
    EXPECT_EQ(entry(0).op_own, 0x2d);
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
    armed.events++;
    armed.arm();
    run();
    wire->incoming.push_back(frames::build({}));
    run();
    EXPECT_EQ(listener.completions.size(), 2u);
}

} // namespace
} // namespace testbed
