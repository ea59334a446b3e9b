// SPDX-License-Identifier: BSD-3-Clause
// ibv_resize_cq: libmlx5 brings another ring, and moves there what has not been polled.
#include "tests/functional/uverbs/verbs.hpp"

#include <poll.h>

namespace test {
namespace {

/// A QP whose sends complete in a small CQ.
class ResizeTest : public VerbsTest {
  protected:
    void SetUp() override {
        VerbsTest::SetUp();
        if (HasFatalFailure()) return;
        channel.reset(ibv_create_comp_channel(context.get()));
        endpoint = std::make_unique<Endpoint>(context.get(), pd.get());
        cq = make_cq(3, channel.get());
        ASSERT_TRUE(cq) << std::strerror(errno);
        qp = make_qp(pd.get(), cq.get(), endpoint->receive_cq.get(), 64);
        for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
            to_state(qp.get(), state);
    }
    /// Returns once they have completed. Each has the next number as its ID.
    void send(uint32_t count) {
        if (count == 0) return;
        for (uint32_t i = 0; i < count; i++) {
            ibv_sge sge{reinterpret_cast<uint64_t>(endpoint->memory.data()), 64,
                        endpoint->mr->lkey};
            ibv_send_wr wr{}, *bad = nullptr;
            wr.wr_id = sent++;
            wr.sg_list = &sge;
            wr.num_sge = 1;
            wr.opcode = IBV_WR_SEND;
            wr.send_flags = IBV_SEND_SIGNALED;
            ASSERT_EQ(ibv_post_send(qp.get(), &wr, &bad), 0);
        }
        written += count;
        mlx5dv_cq ring{};
        mlx5dv_obj object{};
        object.cq = {cq.get(), &ring};
        ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
        const uint32_t last = written - 1;
        const volatile uint8_t* const op_own =
            static_cast<uint8_t*>(ring.buf) + (last % ring.cqe_cnt + 1) * ring.cqe_size - 1;
        const uint8_t owner = last / ring.cqe_cnt & 1;
        ASSERT_TRUE(wait_until([&] { return *op_own >> 4 != 0xf && (*op_own & 1) == owner; }));
    }
    void resize(int entries) {
        ASSERT_EQ(ibv_resize_cq(cq.get(), entries), 0);
        written++; // the end of the old ring
    }
    void expect_completions(uint32_t count) {
        for (uint32_t i = 0; i < count; i++) {
            ibv_wc wc{};
            ASSERT_TRUE(wait_completion(cq.get(), wc));
            EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
            EXPECT_EQ(wc.wr_id, polled++);
        }
        ibv_wc none{};
        EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &none), 0);
    }
    [[nodiscard]] bool has_event() const {
        pollfd waiting{channel->fd, POLLIN, 0};
        return ::poll(&waiting, 1, 0) == 1;
    }

    Handle<ibv_comp_channel, ibv_destroy_comp_channel> channel;
    std::unique_ptr<Endpoint> endpoint;
    CqHandle cq;
    QpHandle qp;
    uint64_t sent = 0, polled = 0;
    uint32_t written = 0; ///< CQEs
};

TEST_F(ResizeTest, TheSizeIsRoundedUp) {
    EXPECT_EQ(cq->cqe, 3);
    for (const auto& [wanted, had] : {std::pair{1, 1}, {100, 127}, {127, 127}, {7, 7}}) {
        EXPECT_EQ(ibv_resize_cq(cq.get(), wanted), 0) << wanted;
        EXPECT_EQ(cq->cqe, had);
    }
}

TEST_F(ResizeTest, SizesThatNoCqHas) {
    ibv_device_attr device{};
    ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
    EXPECT_EQ(ibv_resize_cq(cq.get(), 0), EINVAL);
    EXPECT_EQ(ibv_resize_cq(cq.get(), device.max_cqe + 1), EINVAL);
    EXPECT_EQ(cq->cqe, 3);
    send(2);
    expect_completions(2);
}

TEST_F(ResizeTest, NoCompletionIsLostOrComesTwice) {
    for (const int entries : {15, 63, 3, 7, 1, 31, 5}) {
        SCOPED_TRACE(entries);
        send(1);
        resize(entries);
        send(static_cast<uint32_t>(cq->cqe) - 1);
        expect_completions(static_cast<uint32_t>(cq->cqe));
        for (int i = 0; i < 3; i++) { // around the ring
            send(static_cast<uint32_t>(cq->cqe));
            expect_completions(static_cast<uint32_t>(cq->cqe));
        }
    }
}

TEST_F(ResizeTest, WhatWaitsMustHaveRoom) {
    resize(15);
    send(8);
    EXPECT_EQ(ibv_resize_cq(cq.get(), 7), EINVAL);
    EXPECT_EQ(cq->cqe, 15);
    send(2);
    expect_completions(10);
    resize(7);
    send(7);
    expect_completions(7);
}

TEST_F(ResizeTest, TheEndOfTheOldRingIsNoEvent) {
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    resize(15);
    EXPECT_FALSE(has_event());
    send(1);
    ASSERT_TRUE(wait_until([&] { return has_event(); }));
    ibv_cq* event_cq = nullptr;
    void* event_context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel.get(), &event_cq, &event_context), 0);
    ibv_ack_cq_events(cq.get(), 1);
    expect_completions(1);
}

} // namespace
} // namespace test
