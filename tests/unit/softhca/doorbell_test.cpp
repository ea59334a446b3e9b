// SPDX-License-Identifier: BSD-3-Clause
// Doorbells: records in memory that may disappear, and registers of the device.
#include "tests/unit/softhca/testbed.hpp"

#include <bit>
#include <utility>

namespace testbed {
namespace {

TEST(Doorbell, OfARecordLiesInItWhole) {
    mlx5::QueueDoorbell record{};
    record.send = 5;
    const Doorbell doorbell = send_doorbell(&record);
    EXPECT_EQ(doorbell.load(), net::to_be(5u)) << "in its owner's byte order";
    EXPECT_EQ(doorbell.record(), &record);
    EXPECT_TRUE(doorbell.lies_at(&record.receive)) << "the record goes as a whole";
    EXPECT_TRUE(doorbell.lies_at(&record.send));
    EXPECT_FALSE(doorbell.lies_at(&record + 1));
    EXPECT_FALSE(send_doorbell(nullptr));
}

TEST(Doorbell, OfARegisterLiesInNobodysMemory) {
    DoorbellRegister source;
    const Doorbell doorbell(source);
    source.write(7);
    EXPECT_EQ(doorbell.load(), 7u);
    EXPECT_EQ(doorbell.record(), nullptr);
    EXPECT_FALSE(doorbell.lies_at(&source));
    EXPECT_FALSE(doorbell.lies_at(nullptr));
}

/// The same rings, with registers as doorbells.
class Registers : public Testbed {
  protected:
    static void ring(DoorbellRegister& target, uint32_t value) { target.write(net::to_be(value)); }

    /// An SQ and an RQ on the testbed's rings, and a CQ, all with registers as doorbells.
    void SetUp() override {
        CqAttr cq;
        cq.log_entries = 4;
        cq.listener = &listener;
        cq.events = true;
        cq.ring = cq_ring.area();
        cq.doorbell = {Doorbell(consumer), Doorbell(arm)};
        cqn = device->create_cq(cq).value();
        SqAttr send;
        send.pd = pd;
        send.cqn = cqn;
        send.ring = sq.ring.area();
        send.doorbell = Doorbell(send_bell);
        send.log_wqebbs = static_cast<uint8_t>(std::countr_zero(sq.ring.size() / mlx5::kWqebb));
        sqn = device->create_sq(send).value();
        RqAttr receive;
        receive.pd = pd;
        receive.cqn = cqn;
        receive.ring = rq.ring.area();
        receive.doorbell = Doorbell(receive_bell);
        receive.log_wqes = static_cast<uint8_t>(std::countr_zero(rq.ring.size() / kReceiveWqe));
        receive.log_wqe_bytes = std::countr_zero(kReceiveWqe);
        rqn = device->create_rq(receive).value();
        ASSERT_TRUE(device->modify_sq(sqn, QueueState::ready));
        ASSERT_TRUE(device->modify_rq(rqn, QueueState::ready));
    }
    void TearDown() override {
        ASSERT_TRUE(device->destroy_sq(sqn));
        ASSERT_TRUE(device->destroy_rq(rqn));
        ASSERT_TRUE(device->destroy_cq(cqn));
    }
    /// Posts a WQE in the ring that both SQs share, for the one with a register.
    void post(const Bytes& frame) {
        const Number other = std::exchange(sq.number, sqn);
        sq.post(Wqe(mlx5::WqeOpcode::send)
                    .eth()
                    .data(lkey, put(0, frame), static_cast<uint32_t>(frame.size())));
        sq.number = other;
    }

    static constexpr uint32_t kReceiveWqe = 16;
    Pages cq_ring{64 << 4};
    DoorbellRegister send_bell, receive_bell, consumer, arm;
    Number cqn = 0, sqn = 0, rqn = 0;
};

TEST_F(Registers, RingAsRecordsDo) {
    const Bytes frame = frames::build({});
    post(frame);
    run();
    EXPECT_TRUE(wire->sent.empty()) << "before the register was written";
    ring(arm, 0);
    ring(send_bell, sq.producer);
    run();
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], frame);
    EXPECT_EQ(listener.completions.size(), 1u) << "the CQ was armed by its register";
}

TEST_F(Registers, AreResetWithTheQueue) {
    post(frames::build({}));
    ring(send_bell, sq.producer);
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::reset));
    ASSERT_TRUE(device->modify_sq(sqn, QueueState::ready));
    run();
    EXPECT_TRUE(wire->sent.empty()) << "what was posted before is forgotten";
    EXPECT_EQ(*device->query_sq(sqn), QueueState::ready);
}

TEST_F(Registers, MakeNoQp) {
    ring(receive_bell, 0x8000); // more than the ring holds
    TirAttr attr;
    attr.rqn = rqn;
    FlowAttr flow;
    const Number tir = device->create_tir(attr).value();
    flow.tirs = {tir};
    const Number rule = device->create_flow(flow).value();
    wire->incoming.push_back(frames::build({}));
    run();
    EXPECT_EQ(*device->query_rq(rqn), QueueState::error);
    EXPECT_EQ(*device->query_sq(sqn), QueueState::ready) << "no record makes them one QP";
    ASSERT_TRUE(device->destroy_flow(rule));
    ASSERT_TRUE(device->destroy_tir(tir));
}

} // namespace
} // namespace testbed
