// SPDX-License-Identifier: BSD-3-Clause
// RC QPs by command: in a user's umem, connected to themselves and to no other.
#include "app/softhca/uverbs/devx/record_file.hpp"
#include "tests/unit/prm/users.hpp"

#include <sys/socket.h>

namespace prm_test {
namespace {

class RcQpTest : public UsersTest {
  protected:
    RcQpTest() { cq = made(by(mine, cq_request(umem))); }

    Request create() { return by(mine, rc_qp_request(cq)); }
    Request to_rtr(Number qpn, Number peer, bool force_loopback) {
        return by(mine, init2rtr_request(qpn, peer, force_loopback));
    }
    FwStatus step(Request request, Number qpn) { return status(by(mine, request.number(qpn))); }

    Number cq = 0;
};

TEST_P(RcQpTest, ItGoesThroughItsStatesAndWithItsUsersLeave) {
    const Number qpn = made(create());
    EXPECT_EQ(status(to_rtr(qpn, qpn, true)), FwStatus::bad_resource_state) << "it is in reset";
    EXPECT_EQ(step(REQUEST(RST2INIT_QP, rst2init_qp), qpn), FwStatus::ok);
    EXPECT_EQ(status(to_rtr(qpn, qpn, true)), FwStatus::ok);
    EXPECT_EQ(*transport->device().query_sq(qpn), core::QueueState::reset);
    EXPECT_EQ(step(REQUEST(RTR2RTS_QP, rtr2rts_qp), qpn), FwStatus::ok);
    EXPECT_EQ(*transport->device().query_sq(qpn), core::QueueState::ready);
    EXPECT_EQ(step(REQUEST(DESTROY_CQ, destroy_cq), cq), FwStatus::resource_busy);
    EXPECT_EQ(step(REQUEST(2ERR_QP, qp_2err), qpn), FwStatus::ok);
    EXPECT_EQ(*transport->device().query_sq(qpn), core::QueueState::error);
    EXPECT_EQ(step(REQUEST(DESTROY_QP, destroy_qp), qpn), FwStatus::ok);
    EXPECT_EQ(step(REQUEST(DESTROY_CQ, destroy_cq), cq), FwStatus::ok);
}

TEST_P(RcQpTest, AQueueThatFailsTakesItIntoError) {
    constexpr uint32_t kReadyToSend = 3, kError = 6;
    const Number qpn = made(create());
    const auto state = [&] {
        return run(by(mine, REQUEST(QUERY_QP, query_qp).number(qpn)))
            .get(inside(PRM(query_qp_out, qpc), PRM(qpc, state)));
    };
    ASSERT_EQ(step(REQUEST(RST2INIT_QP, rst2init_qp), qpn), FwStatus::ok);
    ASSERT_EQ(status(to_rtr(qpn, qpn, true)), FwStatus::ok);
    ASSERT_EQ(step(REQUEST(RTR2RTS_QP, rtr2rts_qp), qpn), FwStatus::ok);
    EXPECT_EQ(state(), kReadyToSend);
    ASSERT_TRUE(transport->device().inject_fatal(qpn));
    EXPECT_EQ(state(), kError);
    EXPECT_EQ(step(REQUEST(RTS2RTS_QP, rts2rts_qp), qpn), FwStatus::bad_resource_state);
    EXPECT_EQ(step(REQUEST(2RST_QP, qp_2rst), qpn), FwStatus::ok);
    EXPECT_EQ(state(), 0u);
}

TEST_P(RcQpTest, NobodyElseIsItsPeer) {
    const Number qpn = made(create());
    ASSERT_EQ(step(REQUEST(RST2INIT_QP, rst2init_qp), qpn), FwStatus::ok);
    EXPECT_EQ(status(to_rtr(qpn, qpn + 1, true)), FwStatus::bad_parameter);
    EXPECT_EQ(status(to_rtr(qpn, qpn, false)), FwStatus::bad_parameter);
}

TEST_P(RcQpTest, QueuesOfQpsDoNotWaitForEachOther) {
    constexpr Field kContext = PRM(create_qp_in, qpc);
    for (const Field role :
         {PRM(qpc, cd_master), PRM(qpc, cd_slave_send), PRM(qpc, cd_slave_receive)})
        EXPECT_EQ(status(create().set(inside(kContext, role), 1)), FwStatus::bad_parameter);
}

TEST_P(RcQpTest, ItsRingIsInsideTheUmem) {
    constexpr Field kContext = PRM(create_qp_in, qpc);
    EXPECT_EQ(status(create().set(inside(kContext, PRM(qpc, log_sq_size)), 12)),
              FwStatus::bad_parameter);
    EXPECT_EQ(status(create().set(inside(kContext, PRM(qpc, dbr_addr)), kPage + 4)),
              FwStatus::bad_parameter);
}

/// As Linux lays QPs out: the send queue comes after the receive queue, if there is one.
TEST_P(RcQpTest, WithoutAReceiveQueueItsRingIsFirst) {
    constexpr Field kContext = PRM(create_qp_in, qpc);
    constexpr uint64_t kShared = 1, kNone = 3; // MLX5_SRQ_RQ, MLX5_ZERO_LEN_RQ
    for (const uint64_t rq : {kShared, kNone})
        EXPECT_EQ(status(create()
                             .set(inside(kContext, PRM(qpc, rq_type)), rq)
                             .set(inside(kContext, PRM(qpc, log_rq_size)), 0)),
                  FwStatus::ok);
}

INSTANTIATE_TEST_SUITE_P(Transports, RcQpTest, transports(), name_of);

/// What a program learns about its QP through an event file.
class RcQpEventTest : public RcQpTest {
  protected:
    static constexpr uint32_t kEntries = 16;

    /// Fills the ring with requests that do nothing and want a CQE.
    void post_nops(Number qpn) {
        constexpr size_t kRing = 64; // after the RQ
        for (uint32_t i = 0; i < kEntries; i++, producer++) {
            mlx5::WqeCtrlSeg ctrl{};
            ctrl.opmod_idx_opcode = producer << 8;
            ctrl.qpn_ds = qpn << 8 | 1;
            ctrl.fm_ce_se = mlx5::kCqUpdate;
            std::memcpy(transport->pages() + kRing + 64 * i, &ctrl, sizeof ctrl);
        }
        net::store_be<uint32_t>(transport->pages() + kPage + 4, producer);
        while (transport->device().poll() != 0) {
        }
    }
    uint32_t producer = 0;
};

TEST_P(RcQpEventTest, AnOverrunOfItsCqIsAnEventOfTheQp) {
    using namespace uverbs::devx;
    constexpr uint16_t kCatastrophic = 5, kQp = 0; // MLX5_EVENT_QUEUE_TYPE_QP
    auto& process = dynamic_cast<ProcessTransport&>(*transport);
    cq = made(by(mine, cq_request(umem, 2 * kPage)));
    const Number qpn = made(create());
    ASSERT_EQ(step(REQUEST(RST2INIT_QP, rst2init_qp), qpn), FwStatus::ok);
    ASSERT_EQ(status(to_rtr(qpn, qpn, true)), FwStatus::ok);
    ASSERT_EQ(step(REQUEST(RTR2RTS_QP, rtr2rts_qp), qpn), FwStatus::ok);
    Fd program;
    const auto file = RecordFile::create(RecordFile::Kind::events, 1, true, program).value();
    process.firmware().events.subscribe({kCatastrophic, kQp, qpn}, {.cookie = 77, .file = file});
    for (uint32_t posted = 0; posted <= 64; posted += kEntries) // the CQ has 64
        post_nops(qpn);
    uint64_t cookie = 0;
    EXPECT_EQ(recv(program.get(), &cookie, sizeof cookie, MSG_DONTWAIT), 8);
    EXPECT_EQ(cookie, 77u);
}

INSTANTIATE_TEST_SUITE_P(Transports, RcQpEventTest,
                         testing::Values(Named{
                             "Process", [] { return std::make_unique<ProcessTransport>(); }}),
                         name_of);

} // namespace
} // namespace prm_test
