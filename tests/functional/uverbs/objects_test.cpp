// SPDX-License-Identifier: BSD-3-Clause
// Device attributes, protection domains, memory regions, CQs: what is accepted and what is refused.
#include "tests/functional/uverbs/verbs.hpp"

#include <fcntl.h>
#include <sys/mman.h>

namespace test {
namespace {

TEST_F(VerbsTest, DeviceAttributes) {
    ibv_device_attr_ex attributes{};
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &attributes), 0);
    EXPECT_EQ(attributes.orig_attr.vendor_id, 0x2c9u);
    EXPECT_EQ(attributes.orig_attr.phys_port_cnt, 1);
    EXPECT_EQ(attributes.orig_attr.max_cqe, (1 << 22) - 1);
    EXPECT_TRUE(attributes.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING);
    EXPECT_TRUE(attributes.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM);
    EXPECT_GE(attributes.tso_caps.max_tso, 65536u);
    EXPECT_TRUE(ibv_is_qpt_supported(attributes.rss_caps.supported_qpts, IBV_QPT_RAW_PACKET));
    EXPECT_EQ(attributes.rss_caps.max_rwq_indirection_table_size, 2048u);
    EXPECT_EQ(attributes.hca_core_clock, 1000000u); // kHz
}

TEST_F(VerbsTest, PortAttributes) {
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.active_mtu, IBV_MTU_1024);
    EXPECT_NE(ibv_query_port(context.get(), 2, &port), 0);
}

TEST_F(VerbsTest, Mlx5Attributes) {
    mlx5dv_context attributes{};
    attributes.comp_mask = MLX5DV_CONTEXT_MASK_STRIDING_RQ | MLX5DV_CONTEXT_MASK_CQE_COMPRESION;
    ASSERT_TRUE(mlx5dv_is_supported(context->device));
    ASSERT_EQ(mlx5dv_query_device(context.get(), &attributes), 0);
    EXPECT_TRUE(attributes.flags & MLX5DV_CONTEXT_FLAGS_CQE_V1);
    EXPECT_TRUE(attributes.flags & MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW);
    EXPECT_EQ(attributes.striding_rq_caps.min_single_stride_log_num_of_bytes, 6u);
}

class Pages {
  public:
    explicit Pages(size_t count, int protection = PROT_READ | PROT_WRITE) : bytes_(count * 4096) {
        address_ = mmap(nullptr, bytes_, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    ~Pages() { munmap(address_, bytes_); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    [[nodiscard]] uint8_t* at(size_t byte) const { return static_cast<uint8_t*>(address_) + byte; }
    [[nodiscard]] size_t bytes() const { return bytes_; }

  private:
    size_t bytes_;
    void* address_;
};

TEST_F(VerbsTest, MrOfMappedMemory) {
    const Pages pages(4);
    const MrHandle first(ibv_reg_mr(pd.get(), pages.at(0), pages.bytes(), IBV_ACCESS_LOCAL_WRITE));
    const MrHandle second(ibv_reg_mr(pd.get(), pages.at(100), 5000, 0));
    const MrHandle moved(ibv_reg_mr_iova(pd.get(), pages.at(0), 4096, 0x7000'0000'0000, 0));
    ASSERT_TRUE(first && second && moved);
    EXPECT_NE(first->lkey, second->lkey);
    EXPECT_NE(second->lkey, moved->lkey);
}

TEST_F(VerbsTest, MrOfMemoryThatIsNotThere) {
    const Pages pages(4);
    ASSERT_EQ(munmap(pages.at(8192), 4096), 0); // leaves a hole in the third page
    EXPECT_TRUE(MrHandle(ibv_reg_mr(pd.get(), pages.at(0), 8192, 0)));
    EXPECT_EQ(ibv_reg_mr(pd.get(), pages.at(0), 8193, 0), nullptr);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(ibv_reg_mr(pd.get(), pages.at(0), pages.bytes(), 0), nullptr);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(ibv_reg_mr(pd.get(), reinterpret_cast<void*>(0x1000), 4096, 0), nullptr);
    EXPECT_EQ(errno, EFAULT);
}

TEST_F(VerbsTest, MrOfProtectedMemory) {
    const Pages constant(1, PROT_READ);
    EXPECT_TRUE(MrHandle(ibv_reg_mr(pd.get(), constant.at(0), 4096, 0)));
    EXPECT_EQ(ibv_reg_mr(pd.get(), constant.at(0), 4096, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_EQ(errno, EFAULT);
}

/// Kernels up to 6.1 can still access memory that the program itself may not read.
TEST_F(VerbsTest, MrOfUnreadableMemory) {
    const Pages none(1, PROT_NONE);
    EXPECT_EQ(ibv_reg_mr(pd.get(), none.at(0), 4096, 0), nullptr);
    EXPECT_EQ(errno, EFAULT);
}

TEST_F(VerbsTest, MrWithImpossibleAccess) {
    const Pages pages(1);
    for (const int access :
         {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_ON_DEMAND}) {
        EXPECT_EQ(ibv_reg_mr(pd.get(), pages.at(0), 4096, access), nullptr) << access;
        EXPECT_EQ(errno, EINVAL);
    }
    EXPECT_TRUE(MrHandle(ibv_reg_mr(pd.get(), pages.at(0), 4096,
                                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING)));
}

TEST_F(VerbsTest, TheNullMrGivesZerosAndTakesAnything) {
    constexpr uint64_t kAnywhere = 0x1234567;
    const MrHandle nothing(ibv_alloc_null_mr(pd.get()));
    ASSERT_TRUE(nothing) << std::strerror(errno);
    const auto endpoint = make_endpoint(context.get(), pd.get());
    FlowHandle all = FlowBuilder().add(eth_spec()).create(endpoint->qp.get());
    ASSERT_TRUE(all);
    post_send(endpoint->qp.get(), kAnywhere, 60, nothing->lkey);
    ibv_wc wc{};
    ASSERT_TRUE(wait_completion(endpoint->send_cq.get(), wc));
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint->receive(), Frame(60, 0));
    all.reset();

    const CqHandle send_cq = make_cq(), receive_cq = make_cq();
    const QpHandle deaf = make_qp(pd.get(), send_cq.get(), receive_cq.get(), 16);
    ASSERT_TRUE(deaf);
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(deaf.get(), state);
    const UdpFrame frame{.dst_mac = {2, 0, 0, 0, 0, 9}, .size = 1000};
    const FlowHandle flow = FlowBuilder().add(dst_mac_spec(frame.dst_mac)).create(deaf.get());
    ASSERT_TRUE(flow);
    post_receive(deaf.get(), kAnywhere, 2048, nothing->lkey, 7);
    ASSERT_EQ(endpoint->send(frame.bytes()), IBV_WC_SUCCESS);
    ASSERT_TRUE(wait_completion(receive_cq.get(), wc));
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, 7u);
    EXPECT_EQ(wc.byte_len, 1000u);
}

TEST_F(VerbsTest, TheDeviceHasNoMemoryToGive) {
    ibv_device_attr_ex attributes{};
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &attributes), 0);
    EXPECT_EQ(attributes.max_dm_size, 0u);
    ibv_alloc_dm_attr wanted{};
    wanted.length = 64;
    EXPECT_EQ(ibv_alloc_dm(context.get(), &wanted), nullptr);
}

TEST_F(VerbsTest, PdInUseIsBusy) {
    const Pages pages(1);
    const MrHandle mr(ibv_reg_mr(pd.get(), pages.at(0), 4096, 0));
    ASSERT_TRUE(mr);
    EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
}

TEST_F(VerbsTest, CqSizes) {
    const CqHandle cq = make_cq(100);
    ASSERT_TRUE(cq);
    EXPECT_EQ(cq->cqe, 127);
    EXPECT_FALSE(make_cq(0));
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(VerbsTest, LargeCqesAreNotCompressed) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 16;
    mlx5dv_cq_init_attr driver{};
    driver.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE | MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
    driver.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH;
    driver.cqe_size = 128;
    EXPECT_EQ(mlx5dv_create_cq(context.get(), &wanted, &driver), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

/// A CQE that occupies 128 bytes, however little it contains.
TEST_F(VerbsTest, LargeCqesMayBePadded) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 16;
    mlx5dv_cq_init_attr driver{};
    driver.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_FLAGS | MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
    driver.flags = MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD;
    driver.cqe_size = 64;
    EXPECT_EQ(mlx5dv_create_cq(context.get(), &wanted, &driver), nullptr);
    driver.cqe_size = 128;
    ibv_cq_ex* const padded = mlx5dv_create_cq(context.get(), &wanted, &driver);
    ASSERT_TRUE(padded) << std::strerror(errno);
    const CqHandle cq(ibv_cq_ex_to_cq(padded));
    mlx5dv_cq rings{};
    mlx5dv_obj object{};
    object.cq = {cq.get(), &rings};
    ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
    EXPECT_EQ(rings.cqe_size, 128u);
}

TEST_F(VerbsTest, CqOfQpIsBusy) {
    Endpoint endpoint(context.get(), pd.get());
    EXPECT_EQ(ibv_destroy_cq(endpoint.send_cq.get()), EBUSY);
}

TEST_F(VerbsTest, CqWithBadVectorIsRefused) {
    EXPECT_EQ(ibv_create_cq(context.get(), 16, nullptr, nullptr, context->num_comp_vectors),
              nullptr);
    EXPECT_EQ(errno, EINVAL);
}

/// Everything that a context owns is destroyed with it, in whatever order it was created.
TEST(ContextTest, CloseTakesEverythingAlong) {
    static std::vector<uint8_t> memory(8192);
    for (int round = 0; round < 20; round++) {
        ContextHandle context = open_device();
        ASSERT_TRUE(context);
        ibv_pd* pd = ibv_alloc_pd(context.get());
        ibv_cq* cq = ibv_create_cq(context.get(), 16, nullptr, nullptr, 0);
        ASSERT_TRUE(pd && cq);
        for (int i = 0; i < 50; i++)
            ASSERT_TRUE(ibv_reg_mr(pd, memory.data(), memory.size(), 0)) << round;
        ibv_qp* qp = make_qp(pd, cq, cq, 16).release();
        ASSERT_TRUE(qp);
        for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
            to_state(qp, state);
        ASSERT_TRUE(FlowBuilder().add(eth_spec()).create(qp).release());
    }
    // The rules of the closed contexts are gone: an endpoint gets what it sends.
    ContextHandle context = open_device();
    const PdHandle pd(ibv_alloc_pd(context.get()));
    expect_working(context.get(), pd.get());
}

TEST(ContextTest, TwoContextsOfOneDevice) {
    const ContextHandle first = open_device(), second = open_device();
    ASSERT_TRUE(first && second);
    const PdHandle pd1(ibv_alloc_pd(first.get())), pd2(ibv_alloc_pd(second.get()));
    Endpoint sender(first.get(), pd1.get()), receiver(second.get(), pd2.get());
    sender.start();
    receiver.start();
    const UdpFrame frame{.dst_mac = {2, 0, 0, 0, 0, 9}};
    const FlowHandle flow =
        FlowBuilder().add(dst_mac_spec(frame.dst_mac)).create(receiver.qp.get());
    ASSERT_TRUE(flow);
    ASSERT_EQ(sender.send(frame.bytes()), IBV_WC_SUCCESS);
    EXPECT_EQ(receiver.receive(), frame.bytes());
    EXPECT_TRUE(sender.is_empty());
}

/// mlx5_ib uses one of each type itself. No packet of an Ethernet port would use others, so the
/// device has no more.
TEST_F(VerbsTest, SrqsAreTheKernels) {
    ibv_device_attr device{};
    ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
    EXPECT_EQ(device.max_srq, 1);
    ibv_srq_init_attr srq{};
    srq.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
    errno = 0;
    EXPECT_EQ(ibv_create_srq(pd.get(), &srq), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    ibv_xrcd_init_attr xrc{};
    xrc.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    xrc.fd = -1;
    xrc.oflags = O_CREAT;
    errno = 0;
    EXPECT_EQ(ibv_open_xrcd(context.get(), &xrc), nullptr);
    EXPECT_EQ(errno, ENOMEM);
}

/// As opposed to addresses where nothing is.
TEST_F(VerbsTest, MrBeyondTheEndOfAddresses) {
    const auto refusal = [&](uint64_t start, size_t length) {
        errno = 0;
        EXPECT_EQ(ibv_reg_mr(pd.get(), reinterpret_cast<void*>(start), length, 0), nullptr);
        return errno;
    };
    constexpr uint64_t kPage = 4096;
    EXPECT_EQ(refusal(-kPage, 2 * kPage), EINVAL);
    EXPECT_EQ(refusal(-kPage, kPage), EINVAL);
    EXPECT_EQ(refusal(-2 * kPage, kPage + 1), EINVAL) << "its last page ends there";
    EXPECT_EQ(refusal(kPage, kPage), EFAULT);
}

/// Events may be delayed up to these values; this device never delays them.
TEST_F(VerbsTest, CqModerationIsTaken) {
    const CqHandle cq = make_cq();
    ibv_modify_cq_attr attributes{};
    attributes.attr_mask = IBV_CQ_ATTR_MODERATE;
    attributes.moderate = {.cq_count = 16, .cq_period = 4095};
    EXPECT_EQ(ibv_modify_cq(cq.get(), &attributes), 0);
    attributes.moderate.cq_period = 4096;
    EXPECT_EQ(ibv_modify_cq(cq.get(), &attributes), EINVAL);
}

} // namespace
} // namespace test
