// SPDX-License-Identifier: BSD-3-Clause
// Features of the mapped rings that libibverbs alone does not use: striding receive queues,
// compressed completions; also how the device paces queues.
#include "common/mlx5/formats.hpp"
#include "tests/functional/uverbs/verbs.hpp"

namespace test {
namespace {

using Clock = std::chrono::steady_clock;

/// A receive WQ whose ring the test writes itself, and a QP that leads to this one queue.
class RingTest : public VerbsTest {
  protected:
    static constexpr uint32_t kRoom = 4096;

    void SetUp() override {
        VerbsTest::SetUp();
        sender = std::make_unique<Endpoint>(context.get(), pd.get());
        sender->start();
        memory.resize(kRoom);
        mr.reset(ibv_reg_mr(pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
        ASSERT_TRUE(mr);
    }
    void make_cq(mlx5dv_cq_init_attr attributes) {
        ibv_cq_init_attr_ex plain{};
        plain.cqe = 16;
        plain.wc_flags = IBV_WC_STANDARD_FLAGS;
        ibv_cq_ex* const made = mlx5dv_create_cq(context.get(), &plain, &attributes);
        ASSERT_TRUE(made) << std::strerror(errno);
        cq.reset(ibv_cq_ex_to_cq(made));
        mlx5dv_obj object{};
        object.cq = {cq.get(), &cq_ring};
        ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
    }
    void make_queue(uint32_t flags, mlx5dv_wq_init_attr dv) {
        ibv_wq_init_attr attributes = wq_attributes(pd.get(), cq.get(), 16);
        attributes.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
        attributes.create_flags = flags;
        wq.reset(mlx5dv_create_wq(context.get(), &attributes, &dv));
        ASSERT_TRUE(wq) << std::strerror(errno);
        ibv_wq_attr ready{};
        ready.attr_mask = IBV_WQ_ATTR_STATE;
        ready.wq_state = IBV_WQS_RDY;
        ASSERT_EQ(ibv_modify_wq(wq.get(), &ready), 0);
        mlx5dv_obj object{};
        object.rwq = {wq.get(), &ring};
        ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_RWQ), 0);

        ibv_wq* list[] = {wq.get()};
        ibv_rwq_ind_table_init_attr one{};
        one.ind_tbl = list;
        table.reset(ibv_create_rwq_ind_table(context.get(), &one));
        std::array<uint8_t, 40> key{};
        ibv_qp_init_attr_ex rss{};
        rss.qp_type = IBV_QPT_RAW_PACKET;
        rss.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
        rss.pd = pd.get();
        rss.rwq_ind_tbl = table.get();
        rss.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, 40, key.data(), 0};
        qp.reset(ibv_create_qp_ex(context.get(), &rss));
        ASSERT_TRUE(table && qp) << std::strerror(errno);
        flow = FlowBuilder().add(eth_spec()).create(qp.get());
        ASSERT_TRUE(flow);
    }
    /// Posts a WQE with one data segment, `header` bytes into the WQE.
    void post(size_t header, uint32_t offset, uint32_t bytes) {
        auto* const wqe = static_cast<uint8_t*>(ring.buf) + posted * ring.stride;
        std::memset(wqe, 0, header);
        const mlx5::WqeDataSeg segment{bytes, mr->lkey,
                                       reinterpret_cast<uint64_t>(memory.data()) + offset};
        std::memcpy(wqe + header, &segment, sizeof segment);
        __atomic_store_n(ring.dbrec, net::to_be(++posted), __ATOMIC_RELEASE);
    }
    [[nodiscard]] const mlx5::Cqe& cqe(uint32_t index) const {
        const auto* const at = static_cast<const uint8_t*>(cq_ring.buf) + index * cq_ring.cqe_size;
        return *reinterpret_cast<const mlx5::Cqe*>(at);
    }
    [[nodiscard]] bool wait_cqe(uint32_t index) const {
        constexpr int kInvalid = 0xf;
        return wait_until([&] {
            const uint8_t op_own = __atomic_load_n(&cqe(index).op_own, __ATOMIC_ACQUIRE);
            return op_own >> 4 != kInvalid;
        });
    }

    std::unique_ptr<Endpoint> sender;
    std::vector<uint8_t> memory;
    MrHandle mr;
    CqHandle cq;
    WqHandle wq;
    TableHandle table;
    QpHandle qp;
    FlowHandle flow;
    mlx5dv_cq cq_ring{};
    mlx5dv_rwq ring{};
    uint32_t posted = 0;
};

TEST_F(RingTest, FramesShareAStridingWqe) {
    make_cq({});
    mlx5dv_wq_init_attr striding{};
    striding.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
    striding.striding_rq_attrs = {.single_stride_log_num_of_bytes = 8,
                                  .single_wqe_log_num_of_strides = 4,
                                  .two_byte_shift_en = 0};
    make_queue(0, striding);
    post(sizeof(mlx5::WqeNextSeg), 0, kRoom);
    const Frame one = UdpFrame{.size = 100, .seed = 1}.bytes(),
                two = UdpFrame{.size = 300, .seed = 2}.bytes(),
                three = UdpFrame{.size = 64, .seed = 3}.bytes();
    for (const Frame* frame : {&one, &two, &three})
        ASSERT_EQ(sender->send(*frame), IBV_WC_SUCCESS);
    const struct {
        const Frame& frame;
        uint32_t stride, strides;
    } expected[] = {{one, 0, 1}, {two, 1, 2}, {three, 3, 1}};
    for (uint32_t i = 0; i < 3; i++) {
        const auto& [frame, stride, strides] = expected[i];
        ASSERT_TRUE(wait_cqe(i)) << i;
        EXPECT_EQ(cqe(i).wqe_counter, stride);
        EXPECT_EQ(cqe(i).byte_count, strides << 16 | frame.size());
        EXPECT_EQ(std::memcmp(memory.data() + stride * 256, frame.data(), frame.size()), 0) << i;
    }
}

/// What one doorbell sends arrives together, and makes a block of mini CQEs.
TEST_F(RingTest, CompletionsAreCompressed) {
    mlx5dv_cq_init_attr compressed{};
    compressed.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
    compressed.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH;
    make_cq(compressed);
    make_queue(0, {});
    constexpr uint32_t kFrames = 8, kBytes = 256;
    for (uint32_t i = 0; i < kFrames; i++)
        post(0, i * kBytes, kBytes);
    const Frame frame = UdpFrame{}.bytes();
    std::copy(frame.begin(), frame.end(), sender->memory.data());
    ibv_sge sge{reinterpret_cast<uint64_t>(sender->memory.data()),
                static_cast<uint32_t>(frame.size()), sender->mr->lkey};
    std::array<ibv_send_wr, kFrames> wrs{};
    for (uint32_t i = 0; i < kFrames; i++) {
        wrs[i].next = i + 1 < kFrames ? &wrs[i + 1] : nullptr;
        wrs[i].sg_list = &sge;
        wrs[i].num_sge = 1;
        wrs[i].opcode = IBV_WR_SEND;
    }
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(sender->qp.get(), wrs.data(), &bad), 0);
    ASSERT_TRUE(wait_cqe(0));
    ASSERT_EQ(cqe(0).op_own & mlx5::kCqeFormatMask, mlx5::kCqeFormatCompressed);
    EXPECT_EQ(cqe(0).byte_count, kFrames) << "mini CQEs";
    const auto* const minis = reinterpret_cast<const mlx5::MiniCqe*>(&cqe(1));
    for (uint32_t i = 0; i < kFrames; i++)
        EXPECT_EQ(minis[i].byte_count, frame.size()) << i;
}

/// Without delay drop the frame would be lost: there is no buffer for it when it arrives.
TEST_F(RingTest, DelayDropHoldsFramesUntilThereIsRoom) {
    make_cq({});
    make_queue(IBV_WQ_FLAGS_DELAY_DROP, {});
    const Frame frame = UdpFrame{}.bytes();
    ASSERT_EQ(sender->send(frame), IBV_WC_SUCCESS);
    post(0, 0, kRoom);
    ASSERT_TRUE(wait_cqe(0));
    EXPECT_EQ(std::memcmp(memory.data(), frame.data(), frame.size()), 0);
}

TEST_F(RingTest, PacedQueueTakesItsTime) {
    constexpr uint32_t kKbps = 1000, kFrames = 5, kBytes = 1250; // 10 ms each
    ibv_qp_rate_limit_attr limit{};
    limit.rate_limit = kKbps;
    ASSERT_EQ(ibv_modify_qp_rate_limit(sender->qp.get(), &limit), 0);
    const auto begin = Clock::now();
    for (uint32_t i = 0; i < kFrames; i++)
        ASSERT_EQ(sender->send(UdpFrame{.size = kBytes}.bytes()), IBV_WC_SUCCESS);
    // The first leaves at once. A tenth less: the device reads its clock once per poll round.
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(9 * (kFrames - 1)));
}

} // namespace
} // namespace test
