// SPDX-License-Identifier: BSD-3-Clause
// RAW_PACKET QPs: types, states, sending and receiving, errors.
#include "common/mlx5/formats.hpp"
#include "common/net/endian.hpp"
#include "tests/functional/uverbs/verbs.hpp"

#include <thread>

namespace test {
namespace {

class QpTest : public VerbsTest {
  protected:
    [[nodiscard]] static int modify(ibv_qp* qp, ibv_qp_state state, int mask) {
        ibv_qp_attr attributes{};
        attributes.qp_state = state;
        attributes.port_num = 1;
        return ibv_modify_qp(qp, &attributes, mask);
    }
    [[nodiscard]] static ibv_qp_state state_of(ibv_qp* qp) {
        ibv_qp_attr attributes{};
        ibv_qp_init_attr init{};
        EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init), 0);
        return attributes.qp_state;
    }
};

TEST_F(QpTest, OtherTypesAreNotSupported) {
    const CqHandle cq = make_cq();
    for (const auto type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = cq.get();
        attributes.cap = {16, 16, 1, 1, 0};
        attributes.qp_type = type;
        EXPECT_EQ(ibv_create_qp(pd.get(), &attributes), nullptr);
        EXPECT_EQ(errno, EINVAL) << type;
    }
}

TEST_F(QpTest, StatesFollowEachOtherAsInTheSpecification) {
    const CqHandle cq = make_cq();
    const QpHandle qp = make_qp(pd.get(), cq.get(), cq.get(), 16);
    ASSERT_TRUE(qp);
    EXPECT_EQ(state_of(qp.get()), IBV_QPS_RESET);
    EXPECT_EQ(modify(qp.get(), IBV_QPS_RTR, IBV_QP_STATE), EINVAL);
    EXPECT_EQ(modify(qp.get(), IBV_QPS_ERR, IBV_QP_STATE), EINVAL);
    EXPECT_EQ(modify(qp.get(), IBV_QPS_INIT, IBV_QP_STATE), EINVAL) << "needs a port";
    EXPECT_EQ(modify(qp.get(), IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_QKEY), EINVAL);
    to_state(qp.get(), IBV_QPS_INIT);
    EXPECT_EQ(state_of(qp.get()), IBV_QPS_INIT);
    EXPECT_EQ(modify(qp.get(), IBV_QPS_RTS, IBV_QP_STATE), EINVAL);
    to_state(qp.get(), IBV_QPS_RTR);
    to_state(qp.get(), IBV_QPS_RTS);
    EXPECT_EQ(state_of(qp.get()), IBV_QPS_RTS);
    to_state(qp.get(), IBV_QPS_ERR);
    EXPECT_EQ(state_of(qp.get()), IBV_QPS_ERR);
    EXPECT_EQ(modify(qp.get(), IBV_QPS_RTS, IBV_QP_STATE), EINVAL);
    to_state(qp.get(), IBV_QPS_RESET);
    EXPECT_EQ(state_of(qp.get()), IBV_QPS_RESET);
}

/// The kernel takes IBV_QP_CUR_STATE from QPs of other types only.
TEST_F(QpTest, TheCurrentStateMustNotBePassed) {
    const CqHandle cq = make_cq();
    const QpHandle qp = make_qp(pd.get(), cq.get(), cq.get(), 16);
    const auto from_to = [&](ibv_qp_state from, ibv_qp_state to, int mask = IBV_QP_STATE) {
        ibv_qp_attr attributes{};
        attributes.cur_qp_state = from;
        attributes.qp_state = to;
        attributes.port_num = 1;
        return ibv_modify_qp(qp.get(), &attributes, mask | IBV_QP_CUR_STATE);
    };
    EXPECT_EQ(from_to(IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR})
        to_state(qp.get(), state);
    EXPECT_EQ(from_to(IBV_QPS_RTR, IBV_QPS_RTS), EINVAL);
    to_state(qp.get(), IBV_QPS_RTS);
    EXPECT_EQ(from_to(IBV_QPS_RTS, IBV_QPS_RTS), EINVAL);
    EXPECT_EQ(from_to(IBV_QPS_RTS, IBV_QPS_RESET), EINVAL);
    EXPECT_EQ(state_of(qp.get()), IBV_QPS_RTS);
}

TEST_F(QpTest, WrongPortIsRefused) {
    const CqHandle cq = make_cq();
    const QpHandle qp = make_qp(pd.get(), cq.get(), cq.get(), 16);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 0;
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attributes, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
}

TEST_F(QpTest, FramesComeBackByteForByte) {
    Endpoint endpoint(context.get(), pd.get());
    endpoint.start();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint.qp.get());
    ASSERT_TRUE(flow);
    for (size_t size = 60; size <= 1518; size += 27) {
        const Frame frame = UdpFrame{.size = size, .seed = static_cast<uint8_t>(size)}.bytes();
        ASSERT_EQ(endpoint.send(frame), IBV_WC_SUCCESS);
        ASSERT_EQ(endpoint.receive(), frame) << size;
    }
}

TEST_F(QpTest, SendOnlyQpNeedsNoReceiveQueue) {
    const CqHandle cq = make_cq();
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq.get();
    attributes.cap = {16, 0, 1, 0, 0};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    const QpHandle qp(ibv_create_qp(pd.get(), &attributes));
    ASSERT_TRUE(qp);
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(qp.get(), state);
    EXPECT_FALSE(FlowBuilder().add(eth_spec()).create(qp.get())) << "nowhere to put packets";
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(QpTest, BadLkeyEndsInAnErrorCompletionAndResetHeals) {
    Endpoint endpoint(context.get(), pd.get());
    endpoint.start();
    const uint32_t good = endpoint.mr->lkey;
    endpoint.mr->lkey = 0xdead00;
    EXPECT_EQ(endpoint.send(UdpFrame{}.bytes()), IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(state_of(endpoint.qp.get()), IBV_QPS_SQE);
    endpoint.mr->lkey = good;
    EXPECT_EQ(endpoint.send(UdpFrame{}.bytes()), IBV_WC_WR_FLUSH_ERR);
    to_state(endpoint.qp.get(), IBV_QPS_RESET);
    endpoint.start();
    EXPECT_EQ(endpoint.send(UdpFrame{}.bytes()), IBV_WC_SUCCESS);
}

/// mlx5 has no transition from SQE to RTS for RAW_PACKET QPs, and accepting it would promise that
/// sends work.
TEST_F(QpTest, AFailedSendQueueIsNotMadeReady) {
    Endpoint endpoint(context.get(), pd.get());
    endpoint.start();
    const uint32_t good = std::exchange(endpoint.mr->lkey, 0xdead00);
    EXPECT_EQ(endpoint.send(UdpFrame{}.bytes()), IBV_WC_LOC_PROT_ERR);
    endpoint.mr->lkey = good;
    ibv_qp_attr ready{};
    ready.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(endpoint.qp.get(), &ready, IBV_QP_STATE), EINVAL);
    EXPECT_EQ(state_of(endpoint.qp.get()), IBV_QPS_SQE);
    EXPECT_EQ(ibv_modify_qp(endpoint.qp.get(), &ready, IBV_QP_STATE), EINVAL);
    to_state(endpoint.qp.get(), IBV_QPS_RESET);
    endpoint.start();
    EXPECT_EQ(endpoint.send(UdpFrame{}.bytes()), IBV_WC_SUCCESS);
}

TEST_F(QpTest, SizesAreToldAsTheyWereAskedFor) {
    const CqHandle cq = make_cq();
    const QpHandle qp = make_qp(pd.get(), cq.get(), cq.get(), 16); // 2 and 1 segments per WQE
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    ASSERT_EQ(ibv_query_qp(qp.get(), &attributes, IBV_QP_CAP, &made), 0);
    EXPECT_EQ(made.cap.max_recv_wr, 16u);
    EXPECT_EQ(made.cap.max_recv_sge, 1u);
    EXPECT_GE(made.cap.max_send_sge, 2u);
}

/// libmlx5 rounds up what was asked for.
TEST_F(QpTest, SizesAreThoseThatItsCreationTold) {
    const CqHandle cq = make_cq();
    for (const ibv_qp_cap& asked : {ibv_qp_cap{100, 100, 3, 3, 0}, ibv_qp_cap{100, 0, 3, 0, 0},
                                    ibv_qp_cap{0, 100, 0, 3, 0}}) {
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = cq.get();
        attributes.cap = asked;
        attributes.qp_type = IBV_QPT_RAW_PACKET;
        const QpHandle qp(ibv_create_qp(pd.get(), &attributes));
        ASSERT_TRUE(qp) << std::strerror(errno);
        ibv_qp_attr told{};
        ibv_qp_init_attr made{};
        ASSERT_EQ(ibv_query_qp(qp.get(), &told, IBV_QP_CAP, &made), 0);
        EXPECT_EQ(made.cap.max_recv_wr, asked.max_recv_wr ? 128u : 0u);
        EXPECT_EQ(made.cap.max_recv_sge, asked.max_recv_wr ? 4u : 0u);
        EXPECT_EQ(made.cap.max_recv_wr, attributes.cap.max_recv_wr);
        EXPECT_EQ(made.cap.max_recv_sge, attributes.cap.max_recv_sge);
        EXPECT_EQ(made.cap.max_send_wr, attributes.cap.max_send_wr);
        EXPECT_EQ(made.cap.max_send_sge, attributes.cap.max_send_sge);
        EXPECT_EQ(told.cap.max_recv_wr, made.cap.max_recv_wr);
    }
}

TEST_F(QpTest, MrOfAnotherPdIsRefused) {
    Endpoint endpoint(context.get(), pd.get());
    endpoint.start();
    const PdHandle other(ibv_alloc_pd(context.get()));
    const MrHandle foreign(
        ibv_reg_mr(other.get(), endpoint.memory.data(), endpoint.memory.size(), 0));
    const uint32_t own = endpoint.mr->lkey;
    endpoint.mr->lkey = foreign->lkey;
    EXPECT_EQ(endpoint.send(UdpFrame{}.bytes()), IBV_WC_LOC_PROT_ERR);
    endpoint.mr->lkey = own;
}

TEST_F(QpTest, ReceivingIntoReadOnlyMrFails) {
    Endpoint endpoint(context.get(), pd.get());
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(endpoint.qp.get(), state);
    const MrHandle read_only(
        ibv_reg_mr(pd.get(), endpoint.memory.data(), endpoint.memory.size(), 0));
    const uint32_t own = endpoint.mr->lkey;
    endpoint.mr->lkey = read_only->lkey;
    endpoint.post_receive(0);
    endpoint.mr->lkey = own;
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint.qp.get());
    ASSERT_EQ(endpoint.send(UdpFrame{}.bytes()), IBV_WC_SUCCESS);
    ibv_wc wc{};
    ASSERT_TRUE(wait_completion(endpoint.receive_cq.get(), wc));
    EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(state_of(endpoint.qp.get()), IBV_QPS_ERR);
    EXPECT_EQ(endpoint.send(UdpFrame{}.bytes()), IBV_WC_WR_FLUSH_ERR) << "of the whole QP";
}

TEST_F(QpTest, RateLimitsAreThoseOfTheDevice) {
    Endpoint endpoint(context.get(), pd.get());
    endpoint.start();
    ibv_device_attr_ex attributes{};
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &attributes), 0);
    const ibv_packet_pacing_caps& caps = attributes.packet_pacing_caps;
    const auto set = [&](uint32_t kbps) {
        ibv_qp_rate_limit_attr limit{};
        limit.rate_limit = kbps;
        return ibv_modify_qp_rate_limit(endpoint.qp.get(), &limit);
    };
    const bool paces = (caps.supported_qpts & 1u << IBV_QPT_RAW_PACKET) != 0;
    EXPECT_EQ(set(1000) == 0, paces);
    if (!paces) return;
    EXPECT_EQ(set(caps.qp_rate_limit_max), 0);
    EXPECT_NE(set(caps.qp_rate_limit_max + 1), 0);
    EXPECT_EQ(set(caps.qp_rate_limit_min), 0);
    EXPECT_EQ(set(0), 0) << "unlimited again";
}

class RateLimitTest : public QpTest {
  protected:
    void SetUp() override {
        QpTest::SetUp();
        ibv_device_attr_ex attributes{};
        ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &attributes), 0);
        caps = attributes.packet_pacing_caps;
        if (!(caps.supported_qpts & 1u << IBV_QPT_RAW_PACKET)) GTEST_SKIP() << "no packet pacing";
    }
    [[nodiscard]] static int limit_and_modify(ibv_qp* qp, ibv_qp_state state, uint32_t kbps) {
        ibv_qp_attr attributes{};
        attributes.qp_state = state;
        attributes.rate_limit = kbps;
        return ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_RATE_LIMIT);
    }
    ibv_packet_pacing_caps caps{};
};

TEST_F(RateLimitTest, ARefusedOneLeavesTheState) {
    const CqHandle cq = make_cq();
    const QpHandle qp = make_qp(pd.get(), cq.get(), cq.get(), 16);
    to_state(qp.get(), IBV_QPS_INIT);
    to_state(qp.get(), IBV_QPS_RTR);
    EXPECT_NE(limit_and_modify(qp.get(), IBV_QPS_RTS, caps.qp_rate_limit_max + 1), 0);
    EXPECT_EQ(state_of(qp.get()), IBV_QPS_RTR);
    EXPECT_EQ(limit_and_modify(qp.get(), IBV_QPS_RTS, caps.qp_rate_limit_max), 0);
    EXPECT_EQ(state_of(qp.get()), IBV_QPS_RTS);
}

TEST_F(RateLimitTest, AResetEndsIt) {
    constexpr std::chrono::seconds kPatience(5);
    constexpr uint32_t kKbps = 1; // a frame of this size takes 12 seconds
    const Frame frame = UdpFrame{.size = 1500}.bytes();
    Endpoint endpoint(context.get(), pd.get());
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR})
        to_state(endpoint.qp.get(), state);
    ASSERT_EQ(limit_and_modify(endpoint.qp.get(), IBV_QPS_RTS, kKbps), 0);
    to_state(endpoint.qp.get(), IBV_QPS_RESET);
    endpoint.start();
    std::memcpy(endpoint.memory.data(), frame.data(), frame.size());
    for (int i = 0; i < 2; i++) {
        post_send(endpoint.qp.get(), reinterpret_cast<uint64_t>(endpoint.memory.data()),
                  static_cast<uint32_t>(frame.size()), endpoint.mr->lkey);
        ibv_wc wc{};
        ASSERT_TRUE(wait_completion(endpoint.send_cq.get(), wc, kPatience)) << i;
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    }
}

/// QPs share doorbell registers, and if several ring at the same time, the device sees only one.
TEST_F(QpTest, ManyThatIdledAllSend) {
    constexpr int kQps = 96;
    Endpoint endpoint(context.get(), pd.get());
    const CqHandle cq(ibv_create_cq(context.get(), 2 * kQps, nullptr, nullptr, 0));
    ASSERT_TRUE(cq);
    std::vector<QpHandle> qps;
    for (int i = 0; i < kQps; i++) {
        qps.push_back(make_qp(pd.get(), cq.get(), cq.get(), 4));
        for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
            to_state(qps.back().get(), state);
    }
    const Frame frame = UdpFrame{}.bytes();
    std::memcpy(endpoint.memory.data(), frame.data(), frame.size());
    for (int turn = 0; turn < 3; turn++) {
        // Time for the device to find all of them idle.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        for (const QpHandle& qp : qps)
            post_send(qp.get(), reinterpret_cast<uint64_t>(endpoint.memory.data()),
                      static_cast<uint32_t>(frame.size()), endpoint.mr->lkey);
        for (int i = 0; i < kQps; i++) {
            ibv_wc wc{};
            ASSERT_TRUE(wait_completion(cq.get(), wc)) << i << " of turn " << turn;
            EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        }
    }
}

TEST_F(QpTest, RingsAreWhereMlx5dvSays) {
    Endpoint endpoint(context.get(), pd.get());
    endpoint.start();
    mlx5dv_qp qp{};
    mlx5dv_cq cq{};
    mlx5dv_obj object{};
    object.qp = {endpoint.qp.get(), &qp};
    object.cq = {endpoint.receive_cq.get(), &cq};
    ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
    EXPECT_EQ(qp.sq.stride, 64u);
    EXPECT_GE(qp.sq.wqe_cnt, Endpoint::kDepth);
    EXPECT_EQ(qp.rq.wqe_cnt, Endpoint::kDepth);
    ASSERT_NE(qp.bf.reg, nullptr);
    *static_cast<volatile uint64_t*>(qp.bf.reg) = 1; // mapped, and writing to it is harmless
    EXPECT_EQ(cq.cqe_size, 64u);
}

/// An endpoint that receives in a QP created with these flags of mlx5dv; null if it is refused.
[[nodiscard]] std::unique_ptr<Endpoint> endpoint_with(ibv_context* context, ibv_pd* pd,
                                                      uint32_t flags) {
    auto endpoint = std::make_unique<Endpoint>(context, pd);
    ibv_qp_init_attr_ex attributes{};
    attributes.send_cq = endpoint->send_cq.get();
    attributes.recv_cq = endpoint->receive_cq.get();
    attributes.cap = {Endpoint::kDepth, Endpoint::kDepth, 2, 1, 0};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
    attributes.pd = pd;
    mlx5dv_qp_init_attr dv{};
    dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    dv.create_flags = flags;
    errno = 0;
    endpoint->qp.reset(mlx5dv_create_qp(context, &attributes, &dv));
    if (!endpoint->qp) return nullptr;
    endpoint->start();
    return endpoint;
}

/// Whether the first completion of the CQ says that the packet was tunnelled.
[[nodiscard]] bool told_tunnelled(ibv_cq* cq) {
    mlx5dv_cq ring{};
    mlx5dv_obj object{};
    object.cq = {cq, &ring};
    EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
    return (static_cast<const uint8_t*>(ring.buf)[0] & mlx5::kTunnelled) != 0;
}

TEST_F(QpTest, TunnelsAreLookedIntoWhenAskedFor) {
    Frame frame = UdpFrame{.dst_port = 4789, .size = 42}.bytes();
    for (const uint8_t byte : {0x08, 0, 0, 0, 0, 0, 7, 0}) // VXLAN
        frame.push_back(byte);
    const Frame inner = UdpFrame{.protocol = 6}.bytes();
    frame.insert(frame.end(), inner.begin(), inner.end());
    net::store_be<uint16_t>(frame.data() + 16, static_cast<uint16_t>(frame.size() - 14));
    net::store_be<uint16_t>(frame.data() + 38, static_cast<uint16_t>(frame.size() - 34));
    for (const uint32_t flags : {0u, uint32_t{MLX5DV_QP_CREATE_TUNNEL_OFFLOADS}}) {
        const auto endpoint = endpoint_with(context.get(), pd.get(), flags);
        ASSERT_TRUE(endpoint) << std::strerror(errno);
        const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint->qp.get());
        ASSERT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
        ASSERT_EQ(endpoint->receive(), frame);
        EXPECT_EQ(told_tunnelled(endpoint->receive_cq.get()), flags != 0);
    }
}

} // namespace
} // namespace test
