// SPDX-License-Identifier: BSD-3-Clause
// Who on a port hears what is sent there. The port is cabled to itself, so a frame that leaves
// comes back: it is heard once through the wire, and once more if it was looped back inside.
#include "tests/functional/uverbs/verbs.hpp"

namespace test {
namespace {

constexpr std::array<uint8_t, 6> kMulticast{0x01, 0x50, 0x56, 0x19, 0x20, 0xa7};

std::array<uint8_t, 6> own_address() {
    std::array<uint8_t, 6> mac{};
    const std::string text = first_line("/sys/class/net/" + netdev_name() + "/address");
    unsigned bytes[6] = {};
    EXPECT_EQ(std::sscanf(text.c_str(), "%x:%x:%x:%x:%x:%x", &bytes[0], &bytes[1], &bytes[2],
                          &bytes[3], &bytes[4], &bytes[5]),
              6)
        << text;
    std::copy(std::begin(bytes), std::end(bytes), mac.begin());
    return mac;
}

/// A separate context with a QP.
struct Side {
    explicit Side(uint32_t mlx5_flags = 0)
        : context(open_device()), pd(ibv_alloc_pd(context.get())),
          endpoint(context.get(), pd.get()) {
        if (mlx5_flags != 0) endpoint.qp = self_hearing_qp(mlx5_flags);
        endpoint.start();
        last_flow = FlowBuilder().add(dst_mac_spec(kLast)).create(endpoint.qp.get());
    }
    void listen(const std::array<uint8_t, 6>& mac) {
        flow = FlowBuilder().add(dst_mac_spec(mac)).create(endpoint.qp.get());
        ASSERT_TRUE(flow) << std::strerror(errno);
    }
    [[nodiscard]] QpHandle self_hearing_qp(uint32_t flags) {
        ibv_qp_init_attr_ex attributes{};
        attributes.send_cq = endpoint.send_cq.get();
        attributes.recv_cq = endpoint.receive_cq.get();
        attributes.cap = {Endpoint::kDepth, Endpoint::kDepth, 2, 1, 0};
        attributes.qp_type = IBV_QPT_RAW_PACKET;
        attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
        attributes.pd = pd.get();
        mlx5dv_qp_init_attr driver{};
        driver.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
        driver.create_flags = flags;
        return QpHandle(mlx5dv_create_qp(context.get(), &attributes, &driver));
    }
    /// How many copies of a frame that this side sends to this address `hearer` gets.
    [[nodiscard]] int copies(const std::array<uint8_t, 6>& to, Side& hearer) {
        EXPECT_EQ(endpoint.send(UdpFrame{.dst_mac = to}.bytes()), IBV_WC_SUCCESS);
        // A frame to an unused address follows: what precedes it has arrived by then.
        const UdpFrame last{.dst_mac = kLast};
        EXPECT_EQ(endpoint.send(last.bytes()), IBV_WC_SUCCESS);
        for (int copies = 0;; copies++) {
            const Frame frame = hearer.endpoint.receive();
            if (frame.empty() || frame == last.bytes()) return frame.empty() ? -1 : copies;
        }
    }

    static constexpr std::array<uint8_t, 6> kLast{0x02, 0, 0, 0, 0xff, 0xff};
    ContextHandle context;
    PdHandle pd;
    Endpoint endpoint;
    FlowHandle flow, last_flow;
};

TEST(LoopbackTest, AContextAloneHearsTheWireOnly) {
    Side only;
    only.listen(kMulticast);
    EXPECT_EQ(only.copies(kMulticast, only), 1);
    only.listen(own_address());
    EXPECT_EQ(only.copies(own_address(), only), 1);
}

TEST(LoopbackTest, TwoContextsHearEachOther) {
    Side sender, receiver;
    receiver.listen(kMulticast);
    EXPECT_EQ(sender.copies(kMulticast, receiver), 2) << "turned round, and by the wire";
    EXPECT_EQ(receiver.copies(kMulticast, receiver), 1) << "not itself";
    receiver.listen(own_address());
    EXPECT_EQ(sender.copies(own_address(), receiver), 1) << "it does not leave";
    EXPECT_EQ(receiver.copies(own_address(), receiver), 0) << "nor is it heard by who sent it";
    const std::array<uint8_t, 6> elsewhere{0x02, 0, 0, 0, 0, 0x55};
    receiver.listen(elsewhere);
    EXPECT_EQ(sender.copies(elsewhere, receiver), 1) << "by the wire";
}

TEST(LoopbackTest, TheLastOfTwoContextsIsAloneAgain) {
    Side first;
    { const Side second; }
    first.listen(own_address());
    EXPECT_EQ(first.copies(own_address(), first), 1);
}

TEST(LoopbackTest, AQpMayHearItsOwnContext) {
    Side unicast(MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC);
    unicast.listen(own_address());
    EXPECT_EQ(unicast.copies(own_address(), unicast), 1);
    unicast.listen(kMulticast);
    EXPECT_EQ(unicast.copies(kMulticast, unicast), 1) << "by the wire";
    Side multicast(MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC);
    multicast.listen({0x01, 0, 0, 0, 0, 9});
    EXPECT_EQ(multicast.copies({0x01, 0, 0, 0, 0, 9}, multicast), 2);
}

TEST(LoopbackTest, BlockingItsOwnMulticastIsAccepted) {
    const ContextHandle context = open_device();
    const PdHandle pd(ibv_alloc_pd(context.get()));
    const CqHandle cq(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0));
    ibv_qp_init_attr_ex attributes{};
    attributes.send_cq = attributes.recv_cq = cq.get();
    attributes.cap = {16, 16, 1, 1, 0};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attributes.pd = pd.get();
    attributes.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    EXPECT_TRUE(QpHandle(ibv_create_qp_ex(context.get(), &attributes))) << std::strerror(errno);
}

} // namespace
} // namespace test
