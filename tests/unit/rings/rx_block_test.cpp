// SPDX-License-Identifier: BSD-3-Clause
// Compressed blocks: leftovers in a CQ never look like a completion of a later lap.
#include "drivers/net/rawqp/rings/mlx5/rx_block.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mlx5.hpp"

#include <random>

namespace rings_test {
namespace {

using rawqp::mlx5rings::Cq;
using rawqp::mlx5rings::CqeState;
using rawqp::mlx5rings::RxBlock;

class RxBlocks : public test_eal::EalTest, public testing::WithParamInterface<uint32_t> {
  protected:
    RxBlocks() : device(GetParam()) {
        cq.entries = device.ring.data();
        cq.doorbell = &device.doorbell;
        cq.mask = GetParam() - 1;
        cq.log_entries = static_cast<uint8_t>(std::countr_zero(GetParam()));
    }
    void SetUp() override {
        ASSERT_TRUE(block.create(cq, SOCKET_ID_ANY));
        EXPECT_EQ(block.drain(cq), 0u);
    }

    [[nodiscard]] static uint32_t longest() { return std::min(GetParam(), mlx5::kMaxCompressed); }
    void write_plain() { device.write({}, mlx5::CqeOpcode::resp_send); }
    /// Mini CQEs that look like a good completion of either lap where an entry has its owner bit.
    void write_block(uint32_t count) {
        mlx5::MiniCqe mini{};
        const auto good = static_cast<uint32_t>(mlx5::CqeOpcode::resp_send) << 4;
        mini.byte_count = good | (count & mlx5::kOwnerMask);
        device.write_block({}, std::vector<mlx5::MiniCqe>(count, mini));
    }
    void take(CqeState expected) {
        ASSERT_EQ(cq.state(cq.consumer), expected) << "entry " << cq.consumer;
        if (expected == CqeState::complete) {
            ++cq.consumer;
            return;
        }
        const uint32_t count = Cq::completions(cq.at(cq.consumer));
        if (count == 0) FAIL() << "a block of no completions";
        block.open(cq, count);
        block.leave(cq);
    }
    /// No entry looks new unless the device has written it.
    void expect_all_empty() {
        ASSERT_EQ(cq.consumer, device.producer);
        for (uint32_t i = 0; i <= cq.mask; ++i)
            ASSERT_EQ(cq.state(cq.consumer + i), CqeState::empty)
                << i << " entries ahead of " << cq.consumer;
    }

    FakeCq device;
    Cq cq;
    RxBlock block;
};

TEST_P(RxBlocks, LeaveNothingThatLooksNew) {
    std::mt19937 random(7);
    const auto pick = [&](uint32_t least, uint32_t most) {
        return std::uniform_int_distribution<uint32_t>(least, most)(random);
    };
    for (int step = 0; step < 2000; ++step) {
        if (pick(0, 2) == 0) {
            for (uint32_t plain = pick(1, 2 * GetParam()); plain > 0; --plain) {
                write_plain();
                ASSERT_NO_FATAL_FAILURE(take(CqeState::complete));
            }
        } else {
            write_block(pick(2, longest()));
            ASSERT_NO_FATAL_FAILURE(take(CqeState::compressed));
        }
        ASSERT_NO_FATAL_FAILURE(expect_all_empty()) << "step " << step << ", seed 7";
    }
}

TEST_P(RxBlocks, ADrainForgetsWhatWasKnown) {
    for (uint32_t i = 0; i < 5; ++i) {
        write_block(longest());
        ASSERT_NO_FATAL_FAILURE(take(CqeState::compressed));
        for (uint32_t k = 0; k <= cq.mask; ++k)
            write_plain();
        EXPECT_EQ(block.drain(cq), GetParam());
        write_block(std::min(longest(), 40u));
        ASSERT_NO_FATAL_FAILURE(take(CqeState::compressed));
        ASSERT_NO_FATAL_FAILURE(expect_all_empty());
    }
}

TEST_P(RxBlocks, StoreOnlyWhereTheDeviceHasWritten) {
    for (uint32_t i = 0; i < 4 * GetParam(); i += longest()) { // whole laps of blocks
        write_block(longest());
        take(CqeState::compressed);
    }
    if (GetParam() < 64) return; // every entry of such a CQ is written
    write_block(longest());
    const uint32_t skipped = cq.consumer + 3;
    device.ring[skipped & cq.mask].op_own = 0xab; // a value that nobody writes
    take(CqeState::compressed);
    EXPECT_EQ(device.ring[skipped & cq.mask].op_own, 0xab);
}

INSTANTIATE_TEST_SUITE_P(Entries, RxBlocks, testing::Values(16, 64, 128, 512),
                         testing::PrintToStringParamName());

} // namespace
} // namespace rings_test
