// SPDX-License-Identifier: BSD-3-Clause
// Faulty send WQEs: the right error CQE, the queue in error, the rest flushed, recovery.
#include "app/softhca/core/requests.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

namespace testbed {
namespace {

using mlx5::CqeSyndrome;
using mlx5::WqeOpcode;

class SendError : public Testbed {
  protected:
    Wqe good(uint8_t ce = mlx5::kCqUpdate) {
        return Wqe(WqeOpcode::send, ce).eth().data(lkey, memory_at(0), 64);
    }
    /// Runs and expects exactly this error first.
    void expect_error(uint16_t index, CqeSyndrome syndrome, SendFault fault) {
        sq.ring_doorbell();
        run();
        const mlx5::ErrorCqe* const cqe = tx_cq.poll_error(mlx5::CqeOpcode::req_error);
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(syndrome));
        EXPECT_EQ(cqe->vendor_syndrome, static_cast<uint8_t>(fault));
        EXPECT_EQ(cqe->wqe_counter, index);
        EXPECT_EQ(cqe->wqe_opcode_qpn & 0xffffff, sq.number);
        EXPECT_EQ(cqe->srqn_uidx, 0x5au);
        EXPECT_EQ(*device->query_sq(sq.number), QueueState::error);
        EXPECT_EQ(device->counters().tx_error_wqes, 1u);
    }
    void expect_fault(const Wqe& wqe, CqeSyndrome syndrome, SendFault fault) {
        const uint16_t index = sq.post(wqe);
        expect_error(index, syndrome, fault);
        EXPECT_TRUE(wire->sent.empty());
    }
};

TEST_F(SendError, UnknownOpcode) {
    expect_fault(Wqe(static_cast<WqeOpcode>(0x77)).eth(), CqeSyndrome::local_qp_operation,
                 SendFault::bad_opcode);
}

TEST_F(SendError, UnknownLkey) {
    expect_fault(Wqe(WqeOpcode::send).eth().data(lkey + 0x100, memory_at(0), 64),
                 CqeSyndrome::local_protection, SendFault::protection);
}

TEST_F(SendError, StaleVariantOfAnLkey) {
    expect_fault(Wqe(WqeOpcode::send).eth().data(lkey ^ 1, memory_at(0), 64),
                 CqeSyndrome::local_protection, SendFault::protection);
}

TEST_F(SendError, HugeLkey) {
    expect_fault(Wqe(WqeOpcode::send).eth().data(0xffffffff, memory_at(0), 64),
                 CqeSyndrome::local_protection, SendFault::protection);
}

TEST_F(SendError, DestroyedMkey) {
    ASSERT_TRUE(device->destroy_mkey(lkey));
    expect_fault(good(), CqeSyndrome::local_protection, SendFault::protection);
}

TEST_F(SendError, BeforeTheRegion) {
    expect_fault(Wqe(WqeOpcode::send).eth().data(lkey, memory.data() - 1, 64),
                 CqeSyndrome::local_protection, SendFault::protection);
}

TEST_F(SendError, OneByteBehindTheRegion) {
    expect_fault(Wqe(WqeOpcode::send).eth().data(lkey, memory_at(kMemory - 63), 64),
                 CqeSyndrome::local_protection, SendFault::protection);
}

TEST_F(SendError, UpToTheLastByteIsFine) {
    sq.post(Wqe(WqeOpcode::send).eth().data(lkey, memory_at(kMemory - 64), 64));
    sq.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
}

TEST_F(SendError, ForeignProtectionDomain) {
    const Number other = device->alloc_pd().value();
    const uint32_t key = make_key(*device, other, memory);
    expect_fault(Wqe(WqeOpcode::send).eth().data(key, memory_at(0), 64),
                 CqeSyndrome::local_protection, SendFault::protection);
}

TEST_F(SendError, ZeroByteCountMeansTwoGigabytes) {
    expect_fault(Wqe(WqeOpcode::send).eth().data(lkey, memory_at(0), 0), CqeSyndrome::local_length,
                 SendFault::too_long);
}

TEST_F(SendError, MessageTooLong) {
    expect_fault(Wqe(WqeOpcode::send)
                     .eth()
                     .data(lkey, memory_at(0), Limits::kMaxTsoBytes)
                     .data(lkey, memory_at(0), 1),
                 CqeSyndrome::local_length, SendFault::too_long);
}

TEST_F(SendError, NothingToSend) {
    expect_fault(Wqe(WqeOpcode::send).eth(), CqeSyndrome::local_length, SendFault::no_data);
}

TEST_F(SendError, NoEthernetSegment) {
    expect_fault(Wqe(WqeOpcode::send), CqeSyndrome::local_qp_operation, SendFault::bad_eth_segment);
}

TEST_F(SendError, InlineHeaderBeyondTheWqe) {
    Wqe wqe = Wqe(WqeOpcode::send).eth();
    frames::put16(wqe.bytes, 16 + 12, 3);
    expect_fault(wqe, CqeSyndrome::local_qp_operation, SendFault::bad_eth_segment);
}

TEST_F(SendError, InlineDataBeyondTheWqe) {
    Wqe wqe = Wqe(WqeOpcode::send).eth().inline_data(Bytes(12));
    frames::put32(wqe.bytes, 32, mlx5::kInlineFlag | 13);
    expect_fault(wqe, CqeSyndrome::local_qp_operation, SendFault::bad_inline_data);
}

TEST_F(SendError, HugeInlineData) {
    Wqe wqe = Wqe(WqeOpcode::send).eth().inline_data(Bytes(12));
    frames::put32(wqe.bytes, 32, 0xffffffff);
    expect_fault(wqe, CqeSyndrome::local_qp_operation, SendFault::bad_inline_data);
}

TEST_F(SendError, ZeroSize) {
    const uint16_t index = sq.post(good());
    Bytes word(4);
    frames::put32(word, 0, sq.number << 8);
    sq.write(index, 4, word);
    expect_error(index, CqeSyndrome::local_qp_operation, SendFault::bad_ds);
}

TEST_F(SendError, MoreThanTheDoorbellAnnounced) {
    const uint16_t index = sq.post(good());
    Bytes word(4);
    frames::put32(word, 0, sq.number << 8 | 5); // two WQEBBs
    sq.write(index, 4, word);
    expect_error(index, CqeSyndrome::local_qp_operation, SendFault::bad_ds);
}

TEST_F(SendError, WrongIndex) {
    const uint16_t index = sq.post(good());
    Bytes word(4);
    frames::put32(word, 0, 1u << 8 | 0x0a);
    sq.write(index, 0, word);
    expect_error(index, CqeSyndrome::local_qp_operation, SendFault::bad_index);
}

TEST_F(SendError, WrongQpn) {
    const uint16_t index = sq.post(good());
    Bytes word(4);
    frames::put32(word, 0, (sq.number + 1) << 8 | 3);
    sq.write(index, 4, word);
    expect_error(index, CqeSyndrome::local_qp_operation, SendFault::bad_qpn);
}

TEST_F(SendError, DoorbellJumpBeyondTheRing) {
    sq.post(good());
    sq.producer = 33;
    expect_error(0, CqeSyndrome::local_qp_operation, SendFault::doorbell_jump);
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_EQ(tx_cq.poll(), nullptr) << "nothing behind a wild doorbell is flushed";
}

TEST_F(SendError, TsoWithoutMss) {
    const Bytes header = frames::build({.proto = frames::kTcp, .payload = {}});
    expect_fault(Wqe(WqeOpcode::tso).eth(0, header, 0).data(lkey, memory_at(0), 64),
                 CqeSyndrome::local_qp_operation, SendFault::bad_tso);
}

TEST_F(SendError, TsoOfUdp) {
    const Bytes header = frames::build({.proto = frames::kUdp, .payload = {}});
    expect_fault(Wqe(WqeOpcode::tso).eth(0, header, 1000).data(lkey, memory_at(0), 64),
                 CqeSyndrome::local_qp_operation, SendFault::bad_tso);
}

TEST_F(SendError, TsoHeaderInlinedInPart) {
    Bytes header = frames::build({.proto = frames::kTcp, .payload = {}});
    header.resize(50);
    expect_fault(Wqe(WqeOpcode::tso).eth(0, header, 1000).data(lkey, memory_at(0), 64),
                 CqeSyndrome::local_qp_operation, SendFault::bad_tso);
}

TEST_F(SendError, OneBadPacketInAMultiPacketWqeStopsAll) {
    expect_fault(Wqe(WqeOpcode::enhanced_mpw)
                     .eth()
                     .data(lkey, memory_at(0), 64)
                     .data(lkey + 0x100, memory_at(0), 64),
                 CqeSyndrome::local_protection, SendFault::protection);
}

TEST_F(SendError, MultiPacketWithInlineHeader) {
    expect_fault(Wqe(WqeOpcode::enhanced_mpw).eth(0, Bytes(14)).data(lkey, memory_at(0), 64),
                 CqeSyndrome::local_qp_operation, SendFault::bad_eth_segment);
}

TEST_F(SendError, TheRestIsFlushedAndTheQueueRecovers) {
    sq.post(good());
    const uint16_t bad =
        sq.post(Wqe(WqeOpcode::send, 0).eth().data(lkey + 0x100, memory_at(0), 64));
    const uint16_t third = sq.post(good(0));
    sq.post(good(0x04)); // wants a CQE for the first error only
    const uint16_t fifth = sq.post(good());
    sq.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), 1u);
    const mlx5::Cqe* const first = tx_cq.poll();
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(TestCq::opcode(*first), mlx5::CqeOpcode::req);
    for (const auto& [index, syndrome] :
         {std::pair(bad, CqeSyndrome::local_protection), std::pair(third, CqeSyndrome::flushed),
          std::pair(fifth, CqeSyndrome::flushed)}) {
        const mlx5::ErrorCqe* const cqe = tx_cq.poll_error(mlx5::CqeOpcode::req_error);
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(cqe->wqe_counter, index);
        EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(syndrome));
    }
    EXPECT_EQ(tx_cq.poll(), nullptr);
    EXPECT_EQ(device->sq_counters(sq.number)->error_cqes, 3u);

    const uint16_t late = sq.post(good()); // posted while in error: flushed as well
    sq.ring_doorbell();
    run();
    const mlx5::ErrorCqe* const flushed = tx_cq.poll_error(mlx5::CqeOpcode::req_error);
    ASSERT_NE(flushed, nullptr);
    EXPECT_EQ(flushed->wqe_counter, late);

    EXPECT_EQ(refusal(device->modify_sq(sq.number, QueueState::ready)), Status::bad_state);
    ASSERT_TRUE(device->modify_sq(sq.number, QueueState::reset));
    EXPECT_EQ(sq.doorbell.send, 0u);
    ASSERT_TRUE(device->modify_sq(sq.number, QueueState::ready));
    sq.producer = 0;
    sq.post(good());
    sq.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), 2u);
    const mlx5::Cqe* const recovered = tx_cq.poll();
    ASSERT_NE(recovered, nullptr);
    EXPECT_EQ(TestCq::opcode(*recovered), mlx5::CqeOpcode::req);
}

TEST_F(SendError, FlushWaitsForRoomInTheCq) {
    TestCq small(*device, 1, &listener);
    TestSq queue(*device, pd, small.number, 4);
    ASSERT_TRUE(device->modify_sq(queue.number, QueueState::error));
    for (int i = 0; i < 5; i++)
        queue.post(good());
    queue.ring_doorbell();
    int seen = 0;
    for (int round = 0; round < 4; round++) {
        run();
        while (const auto* const cqe = small.poll_error(mlx5::CqeOpcode::req_error)) {
            EXPECT_EQ(cqe->wqe_counter, seen);
            seen++;
        }
        small.release();
    }
    EXPECT_EQ(seen, 5);
    EXPECT_TRUE(listener.events.empty());
}

TEST_F(SendError, CompletionQueueOverrun) {
    TestCq small(*device, 1, &listener);
    TestSq queue(*device, pd, small.number, 4, &listener);
    for (int i = 0; i < 3; i++)
        queue.post(good());
    queue.ring_doorbell();
    run();
    EXPECT_TRUE(listener.saw(AsyncEvent::cq_error));
    EXPECT_TRUE(listener.saw(AsyncEvent::sq_fatal));
    EXPECT_EQ(*device->query_sq(queue.number), QueueState::error);
    EXPECT_NE(small.poll(), nullptr);
    EXPECT_NE(small.poll(), nullptr);
    EXPECT_EQ(small.poll(), nullptr); // the earlier ones are not overwritten
}

TEST_F(SendError, NothingRunsInReset) {
    ASSERT_TRUE(device->modify_sq(sq.number, QueueState::reset));
    sq.post(good());
    sq.ring_doorbell();
    run();
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_EQ(tx_cq.poll(), nullptr);
}

/// Requests with several packets, of which the first is valid: all are checked before it leaves.
class SendErrorInABatch : public SendError {
  protected:
    Wqe with_a_good_packet() {
        Wqe wqe(WqeOpcode::enhanced_mpw);
        return wqe.eth().data(lkey, put(0, frames::pattern(60)), 60);
    }
};

TEST_F(SendErrorInABatch, NoPacketAtAll) {
    Wqe wqe(mlx5::WqeOpcode::enhanced_mpw);
    expect_fault(wqe.eth(), CqeSyndrome::local_length, SendFault::no_data);
}

TEST_F(SendErrorInABatch, APacketOfNoBytes) {
    expect_fault(with_a_good_packet().inline_data({}), CqeSyndrome::local_length,
                 SendFault::no_data);
}

TEST_F(SendErrorInABatch, APacketBeyondAllLimits) {
    static_assert(kMemory > Limits::kMaxTsoBytes);
    expect_fault(with_a_good_packet().data(lkey, memory_at(0), Limits::kMaxTsoBytes + 1),
                 CqeSyndrome::local_length, SendFault::too_long);
}

TEST_F(SendErrorInABatch, APacketOutsideOfTheKey) {
    expect_fault(with_a_good_packet().data(lkey, memory_at(kMemory - 59), 60),
                 CqeSyndrome::local_protection, SendFault::protection);
}

TEST_F(SendErrorInABatch, APacketThatLeavesTheKeyWithinItsPage) {
    constexpr size_t kPage = 4096, kBytes = 2 * kPage - 100;
    const Pages region(2 * kPage);
    const uint32_t key = device
                             ->create_mkey({.pd = pd,
                                            .iova = reinterpret_cast<uint64_t>(region.data()),
                                            .length = kBytes,
                                            .memory = region.paged_area()})
                             .value();
    Wqe wqe(mlx5::WqeOpcode::enhanced_mpw);
    wqe.eth().data(key, region.data() + kPage, 60).data(key, region.data() + kBytes - 59, 60);
    expect_fault(wqe, CqeSyndrome::local_protection, SendFault::protection);
}

} // namespace
} // namespace testbed
