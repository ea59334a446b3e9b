// SPDX-License-Identifier: BSD-3-Clause
// ICM, and the RC QP, connected to itself, with which programs write and read it.
#include "app/softhca/core/icm.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <cstring>
#include <functional>
#include <utility>
#include <vector>

namespace {

using namespace testbed;
using ::mlx5::WqeOpcode;

class RcTest : public Testbed {
  protected:
    static constexpr uint64_t kBytes = 8192;
    static constexpr uint8_t kLogWqebbs = 6;

    explicit RcTest(bool with_kernel = false)
        : Testbed(default_config(), with_kernel), ring(64 << kLogWqebbs) {
        icm = *device->alloc_icm(IcmKind::steering, kBytes);
        rkey = key(true);
        qpn = *device->create_sq({.pd = pd,
                                  .cqn = tx_cq.number,
                                  .ring = ring.area(),
                                  .doorbell = send_doorbell(&doorbell),
                                  .log_wqebbs = kLogWqebbs,
                                  .rc = true});
        EXPECT_TRUE(device->modify_sq(qpn, QueueState::ready));
    }
    /// For the device's memory, with the right to read it.
    uint32_t key(bool may_be_written) {
        MkeyAttr attr;
        attr.pd = pd;
        attr.remote_read = true;
        attr.remote_write = may_be_written;
        attr.length = kBytes;
        attr.memory = *device->icm_area(icm, kBytes);
        return *device->create_mkey(attr);
    }
    struct Remote {
        uint32_t rkey;
        uint64_t address;
    };
    /// The caller adds the data, inline or in memory.
    static Wqe rdma(WqeOpcode opcode, Remote to) {
        Wqe wqe(opcode);
        ::mlx5::WqeRaddrSeg segment{};
        segment.raddr = to.address;
        segment.rkey = to.rkey;
        const auto* const bytes = reinterpret_cast<const uint8_t*>(&segment);
        wqe.bytes.insert(wqe.bytes.end(), bytes, bytes + sizeof segment);
        return wqe;
    }
    void post(const Wqe& wqe) {
        ring_in(wqe);
        run();
    }
    void ring_in(const Wqe& wqe) {
        ::mlx5::WqeCtrlSeg ctrl;
        std::memcpy(&ctrl, wqe.bytes.data(), sizeof ctrl);
        ctrl.opmod_idx_opcode = ctrl.opmod_idx_opcode | uint32_t{producer} << 8;
        ctrl.qpn_ds = qpn << 8 | static_cast<uint32_t>(wqe.bytes.size() / 16);
        std::byte* const at = ring.data() + size_t{producer} * 64;
        std::memcpy(at, wqe.bytes.data(), wqe.bytes.size());
        std::memcpy(at, &ctrl, sizeof ctrl);
        producer = static_cast<uint16_t>(producer + (wqe.bytes.size() + 63) / 64);
        doorbell.send = producer;
    }
    void expect_done(WqeOpcode opcode) {
        const auto* const cqe = tx_cq.poll();
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(TestCq::opcode(*cqe), ::mlx5::CqeOpcode::req);
        EXPECT_EQ(cqe->sop_drop_qpn, static_cast<uint32_t>(opcode) << 24 | qpn);
    }
    void expect_error(::mlx5::CqeSyndrome syndrome) {
        const auto* const cqe = tx_cq.poll_error(::mlx5::CqeOpcode::req_error);
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(syndrome));
        EXPECT_EQ(*device->query_sq(qpn), QueueState::error);
    }
    [[nodiscard]] Bytes in_icm(uint64_t at, size_t bytes) {
        return get(device->icm_area(icm + at, bytes)->at(0), bytes);
    }

    Pages ring;
    ::mlx5::QueueDoorbell doorbell{};
    uint16_t producer = 0;
    uint64_t icm = 0;
    uint32_t rkey = 0;
    Number qpn = 0;
};

TEST_F(RcTest, WritesInlineAndFromMemoryAndReadsBack) {
    const Bytes few = frames::pattern(48), many = frames::pattern(3000);
    post(rdma(WqeOpcode::rdma_write, {rkey, 64}).inline_data(few));
    expect_done(WqeOpcode::rdma_write);
    EXPECT_EQ(in_icm(64, 48), few);
    post(rdma(WqeOpcode::rdma_write, {rkey, 4096}).data(lkey, put(0, many), 3000));
    expect_done(WqeOpcode::rdma_write);
    EXPECT_EQ(in_icm(4096, 3000), many);
    post(rdma(WqeOpcode::rdma_read, {rkey, 4096}).data(lkey, memory_at(8192), 3000));
    expect_done(WqeOpcode::rdma_read);
    EXPECT_EQ(get(memory_at(8192), 3000), many);
    EXPECT_TRUE(wire->sent.empty());
}

TEST_F(RcTest, IsAwaitedUnlikePackets) {
    ring_in(rdma(WqeOpcode::rdma_write, {rkey, 64}).inline_data({1}));
    EXPECT_NE(device->poll(), 0u);
    EXPECT_TRUE(device->was_awaited());
    EXPECT_EQ(device->poll(), 0u);
    EXPECT_FALSE(device->was_awaited());
    post_packet(frames::pattern(100));
    EXPECT_NE(device->poll(), 0u);
    EXPECT_FALSE(device->was_awaited());
}

/// A program gives the RC QP something to write, and then lets a packet come, while the device is
/// between its look at the RC QP and its look at what brings the packet.
class RcOrderTest : public RcTest {
  protected:
    RcOrderTest() : RcTest(true) {}
    void write_once() {
        if (std::exchange(written, true)) return;
        ring_in(rdma(WqeOpcode::rdma_write, {rkey, 64}).inline_data({1}));
    }
    /// Whether it is there when the device sends.
    void look_when_sending() {
        const std::byte* const at = device->icm_area(icm + 64, 1)->at(0);
        wire->on_send = [this, at] { seen.push_back(*at == std::byte{1}); };
    }
    /// In one CQ, the write completes before the packet does.
    void receive_after_writing(const std::function<void()>& bring) {
        TestRq late(*device, pd, tx_cq.number);
        post_buffer(late);
        steer_all(late);
        bring();
        expect_done(WqeOpcode::rdma_write);
        expect_packet(tx_cq);
    }

    const Bytes frame = frames::pattern(100);
    bool written = false;
    std::vector<bool> seen;
};

TEST_F(RcOrderTest, WritesComeBeforeWhatArrivesAfterThem) {
    receive_after_writing([this] {
        wire->incoming.push_back(frame);
        wire->on_arrival = [this] { write_once(); };
        run();
    });
}

TEST_F(RcOrderTest, WritesComeBeforeWhatAnotherDeviceSendsAfterThem) {
    receive_after_writing([this] {
        run();
        write_once();
        Bytes sent = frame;
        const iovec piece{sent.data(), sent.size()};
        ASSERT_EQ(wire->recipient->take({&piece, 1}), 1u);
    });
}

TEST_F(RcOrderTest, WritesComeBeforeWhatTheKernelSendsAfterThem) {
    look_when_sending();
    kernel->incoming.push_back(frame);
    kernel->on_arrival = [this] { write_once(); };
    run();
    EXPECT_EQ(seen, std::vector{true});
}

TEST_F(RcOrderTest, WritesComeBeforeWhatIsPostedAfterThem) {
    TestSq later(*device, pd, tx_cq.number, 4);
    look_when_sending();
    wire->on_send = [this, &later, look = wire->on_send] {
        look();
        if (written) return;
        write_once();
        later.post(Wqe(WqeOpcode::send).eth().data(lkey, put(0, frame), 100));
        later.ring_doorbell();
    };
    post_packet(frame);
    run();
    EXPECT_EQ(seen, (std::vector{false, true}));
}

TEST_F(RcTest, KeysAllowItOrTheQpFails) {
    const uint32_t read_only = key(false);
    post(rdma(WqeOpcode::rdma_write, {read_only, 0}).inline_data({1}));
    expect_error(::mlx5::CqeSyndrome::remote_access);
    EXPECT_EQ(in_icm(0, 1), Bytes{0});
}

TEST_F(RcTest, NothingBeyondTheRegionIsRead) {
    post(rdma(WqeOpcode::rdma_read, {rkey, kBytes - 8}).data(lkey, memory_at(0), 16));
    expect_error(::mlx5::CqeSyndrome::remote_access);
}

TEST_F(RcTest, ReadsGoToMemoryThatMayBeWritten) {
    MkeyAttr attr;
    attr.pd = pd;
    attr.length = 64;
    attr.memory = memory.area().part(0, 64);
    const uint32_t constant = *device->create_mkey(attr);
    post(rdma(WqeOpcode::rdma_read, {rkey, 0}).data(constant, nullptr, 16));
    expect_error(::mlx5::CqeSyndrome::local_protection);
}

TEST_F(RcTest, PacketsAreNoneOfItsRequests) {
    post(Wqe(WqeOpcode::send).eth().data(lkey, put(0, frames::pattern(100)), 100));
    expect_error(::mlx5::CqeSyndrome::local_qp_operation);
}

TEST_F(RcTest, SendQueuesOfPacketsHaveNoRdma) {
    sq.post(rdma(WqeOpcode::rdma_write, {rkey, 0}).inline_data({1}));
    sq.ring_doorbell();
    run();
    ASSERT_NE(tx_cq.poll_error(::mlx5::CqeOpcode::req_error), nullptr);
    EXPECT_EQ(in_icm(0, 1), Bytes{0});
}

TEST_F(RcTest, IcmIsAlignedToItsSizeAndZeroAgainWhenItWasFreed) {
    EXPECT_EQ(refusal(device->alloc_icm(IcmKind::steering, 3 * 4096)), Status::bad_parameter);
    EXPECT_EQ(refusal(device->alloc_icm(IcmKind::steering, 64)), Status::bad_parameter);
    EXPECT_EQ(refusal(device->alloc_icm(IcmKind::steering, uint64_t{1} << 40)), Status::limit);
    const uint64_t large = *device->alloc_icm(IcmKind::steering, 1 << 20);
    EXPECT_EQ(large % (1 << 20), 0u);
    const auto area = device->icm_area(large, 1 << 20);
    ASSERT_TRUE(area);
    *area->at(5) = std::byte{7};
    EXPECT_FALSE(device->icm_area(large, (1 << 20) + 1)) << "part of nothing allocated";
    ASSERT_TRUE(device->free_icm(large));
    EXPECT_EQ(refusal(device->free_icm(large)), Status::bad_resource);
    EXPECT_EQ(*device->alloc_icm(IcmKind::steering, 1 << 20), large);
    EXPECT_EQ(*device->icm_area(large, 8)->at(5), std::byte{0});
}

} // namespace
