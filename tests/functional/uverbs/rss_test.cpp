// SPDX-License-Identifier: BSD-3-Clause
// WQs, indirection tables, RSS QPs.
#include "tests/functional/uverbs/verbs.hpp"

#include <map>

namespace test {
namespace {

constexpr uint64_t kUdp4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_SRC_PORT_UDP |
                           IBV_RX_HASH_DST_PORT_UDP;

class RssTest : public VerbsTest {
  protected:
    static constexpr unsigned kQueues = 4, kDepth = 64, kBufferBytes = 2048;

    void SetUp() override {
        VerbsTest::SetUp();
        memory.resize(kQueues * kDepth * kBufferBytes);
        mr.reset(ibv_reg_mr(pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
        cq = make_cq(kQueues * kDepth);
        ASSERT_TRUE(mr && cq);
    }
    [[nodiscard]] WqHandle make_wq(uint32_t flags = 0) {
        ibv_wq_init_attr attributes = wq_attributes(pd.get(), cq.get(), kDepth);
        if (flags) {
            attributes.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
            attributes.create_flags = flags;
        }
        return WqHandle(ibv_create_wq(context.get(), &attributes));
    }
    [[nodiscard]] static int set_state(ibv_wq* wq, ibv_wq_state state) {
        ibv_wq_attr attributes{};
        attributes.attr_mask = IBV_WQ_ATTR_STATE;
        attributes.wq_state = state;
        return ibv_modify_wq(wq, &attributes);
    }
    /// Makes a table of `queues` ready WQs with posted buffers; wr_id identifies the queue.
    void make_table(unsigned queues) {
        std::vector<ibv_wq*> list;
        for (unsigned q = 0; q < queues; q++) {
            wqs.push_back(make_wq());
            ASSERT_TRUE(wqs.back());
            ASSERT_EQ(set_state(wqs.back().get(), IBV_WQS_RDY), 0);
            list.push_back(wqs.back().get());
            for (unsigned i = 0; i < kDepth; i++) {
                ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()) +
                                (q * kDepth + i) * kBufferBytes,
                            kBufferBytes, mr->lkey};
                ibv_recv_wr wr{.wr_id = q, .next = nullptr, .sg_list = &sge, .num_sge = 1};
                ibv_recv_wr* bad = nullptr;
                ASSERT_EQ(ibv_post_wq_recv(wqs.back().get(), &wr, &bad), 0);
            }
        }
        ibv_rwq_ind_table_init_attr attributes{};
        attributes.log_ind_tbl_size = static_cast<uint32_t>(__builtin_ctz(queues));
        attributes.ind_tbl = list.data();
        table.reset(ibv_create_rwq_ind_table(context.get(), &attributes));
        ASSERT_TRUE(table) << std::strerror(errno);
    }
    [[nodiscard]] QpHandle make_rss(uint64_t fields, uint8_t key_bytes = 40,
                                    uint8_t function = IBV_RX_HASH_FUNC_TOEPLITZ) {
        std::array<uint8_t, 64> key{};
        for (size_t i = 0; i < key.size(); i++)
            key[i] = static_cast<uint8_t>(i * 37 + 11);
        ibv_qp_init_attr_ex attributes{};
        attributes.qp_type = IBV_QPT_RAW_PACKET;
        attributes.comp_mask =
            IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
        attributes.pd = pd.get();
        attributes.rwq_ind_tbl = table.get();
        attributes.rx_hash_conf = {function, key_bytes, key.data(), fields};
        errno = 0;
        return QpHandle(ibv_create_qp_ex(context.get(), &attributes));
    }

    std::vector<uint8_t> memory;
    MrHandle mr;
    CqHandle cq;
    std::vector<WqHandle> wqs;
    TableHandle table;
};

TEST_F(RssTest, WqStates) {
    const WqHandle wq = make_wq();
    ASSERT_TRUE(wq);
    EXPECT_EQ(set_state(wq.get(), IBV_WQS_ERR), 0) << "from reset";
    EXPECT_EQ(set_state(wq.get(), IBV_WQS_RDY), EINVAL) << "only by way of reset";
    EXPECT_EQ(set_state(wq.get(), IBV_WQS_RESET), 0);
    EXPECT_EQ(set_state(wq.get(), IBV_WQS_RDY), 0);
    EXPECT_EQ(set_state(wq.get(), IBV_WQS_ERR), 0);
    EXPECT_EQ(set_state(wq.get(), IBV_WQS_RDY), EINVAL);
    EXPECT_EQ(set_state(wq.get(), IBV_WQS_RESET), 0);
    EXPECT_EQ(set_state(wq.get(), IBV_WQS_RDY), 0);
}

int change_state(ibv_wq* wq, ibv_wq_state from, ibv_wq_state to) {
    ibv_wq_attr attributes{};
    attributes.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
    attributes.curr_wq_state = from;
    attributes.wq_state = to;
    return ibv_modify_wq(wq, &attributes);
}

TEST_F(RssTest, WqCurrentState) {
    const WqHandle wq = make_wq();
    EXPECT_EQ(change_state(wq.get(), IBV_WQS_RDY, IBV_WQS_ERR), EINVAL) << "it is in reset";
    EXPECT_EQ(change_state(wq.get(), IBV_WQS_RESET, IBV_WQS_RDY), 0);
    EXPECT_EQ(change_state(wq.get(), IBV_WQS_RESET, IBV_WQS_ERR), EINVAL) << "it is ready";
    EXPECT_EQ(change_state(wq.get(), IBV_WQS_RDY, IBV_WQS_ERR), 0);
    EXPECT_EQ(change_state(wq.get(), IBV_WQS_RDY, IBV_WQS_RESET), 0)
        << "the program may not know of the error yet";
}

TEST_F(RssTest, WqCurrentStateThatIsNone) {
    const WqHandle wq = make_wq();
    EXPECT_EQ(change_state(wq.get(), IBV_WQS_RESET, IBV_WQS_RDY), 0);
    EXPECT_EQ(change_state(wq.get(), IBV_WQS_UNKNOWN, IBV_WQS_ERR), EINVAL);
    EXPECT_EQ(change_state(wq.get(), IBV_WQS_RDY, IBV_WQS_ERR), 0);
    EXPECT_EQ(change_state(wq.get(), IBV_WQS_UNKNOWN, IBV_WQS_RESET), EINVAL);
}

TEST_F(RssTest, WqFlags) {
    EXPECT_TRUE(
        make_wq(IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS | IBV_WQ_FLAGS_DELAY_DROP));
    const WqHandle wq = make_wq();
    ibv_wq_attr attributes{};
    attributes.attr_mask = IBV_WQ_ATTR_FLAGS;
    attributes.flags_mask = attributes.flags = IBV_WQ_FLAGS_CVLAN_STRIPPING;
    EXPECT_EQ(ibv_modify_wq(wq.get(), &attributes), 0);
    attributes.flags_mask = attributes.flags = IBV_WQ_FLAGS_SCATTER_FCS;
    EXPECT_EQ(ibv_modify_wq(wq.get(), &attributes), 0) << "fixed at creation: not looked at";
    attributes.flags_mask = attributes.flags = IBV_WQ_FLAGS_PCI_WRITE_END_PADDING;
    EXPECT_EQ(ibv_modify_wq(wq.get(), &attributes), EOPNOTSUPP);
}

TEST_F(RssTest, ObjectsInUseAreBusy) {
    make_table(2);
    QpHandle rss = make_rss(kUdp4);
    ASSERT_TRUE(rss);
    EXPECT_EQ(ibv_destroy_wq(wqs[0].get()), EBUSY);
    EXPECT_EQ(ibv_destroy_rwq_ind_table(table.get()), EBUSY);
    FlowHandle flow = FlowBuilder().add(eth_spec()).create(rss.get());
    ASSERT_TRUE(flow);
    EXPECT_EQ(ibv_destroy_qp(rss.get()), EBUSY);
    flow.reset();
    rss.reset();
    table.reset();
}

TEST_F(RssTest, ThePdOfAnRssQpIsBusy) {
    make_table(2);
    PdHandle own(ibv_alloc_pd(context.get()));
    ASSERT_TRUE(own);
    std::swap(pd, own);
    QpHandle rss = make_rss(kUdp4);
    std::swap(pd, own);
    ASSERT_TRUE(rss);
    EXPECT_EQ(ibv_dealloc_pd(own.get()), EBUSY);
    rss.reset();
    EXPECT_EQ(ibv_dealloc_pd(own.release()), 0);
    table.reset();
}

TEST_F(RssTest, ContradictoryHashesAreRefused) {
    make_table(2);
    const struct {
        uint64_t fields;
        int error;
        const char* why;
    } cases[] = {
        {IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_IPV6, EINVAL, "two L3 types"},
        {IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_SRC_PORT_UDP, EINVAL,
         "two L4 types"},
        {IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_IPSEC_SPI, EINVAL,
         "the SPI of IPsec beside ports of TCP"},
        {IBV_RX_HASH_IPSEC_SPI | IBV_RX_HASH_DST_PORT_UDP, EINVAL, "beside ports of UDP"},
        {0, EINVAL, "nothing to hash, two queues"},
        {IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_INNER, EOPNOTSUPP, "inner headers"},
    };
    for (const auto& c : cases) {
        EXPECT_FALSE(make_rss(c.fields)) << c.why;
        EXPECT_EQ(errno, c.error) << c.why;
    }
    EXPECT_FALSE(make_rss(kUdp4, 39));
    EXPECT_EQ(errno, EINVAL) << "length of the key";
    EXPECT_FALSE(make_rss(kUdp4, 40, 2));
    EXPECT_EQ(errno, EOPNOTSUPP) << "another hash function";
}

TEST_F(RssTest, OneQueueNeedsNoHash) {
    make_table(1);
    const QpHandle rss = make_rss(0);
    ASSERT_TRUE(rss);
    Endpoint sender(context.get(), pd.get());
    sender.start();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(rss.get());
    ASSERT_EQ(sender.send(UdpFrame{}.bytes()), IBV_WC_SUCCESS);
    ibv_wc wc{};
    EXPECT_TRUE(wait_completion(cq.get(), wc));
}

TEST_F(RssTest, FlowsSpreadAndStayWhereTheyAre) {
    make_table(kQueues);
    const QpHandle rss = make_rss(kUdp4);
    ASSERT_TRUE(rss);
    Endpoint sender(context.get(), pd.get());
    sender.start();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(rss.get());
    std::map<uint16_t, uint64_t> queue_of; // source port to queue
    std::map<uint64_t, unsigned> used;
    for (int round = 0; round < 2; round++) {
        for (uint16_t port = 1; port <= 32; port++) {
            ASSERT_EQ(sender.send(UdpFrame{.src_port = port}.bytes()), IBV_WC_SUCCESS);
            ibv_wc wc{};
            ASSERT_TRUE(wait_completion(cq.get(), wc));
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
            const auto [known, fresh] = queue_of.try_emplace(port, wc.wr_id);
            EXPECT_EQ(known->second, wc.wr_id) << "flow " << port << " has moved";
            if (fresh) used[wc.wr_id]++;
        }
    }
    EXPECT_EQ(used.size(), kQueues) << "32 flows leave no queue of four empty";
}

TEST_F(RssTest, EspSpreadsByItsSpi) {
    constexpr uint8_t kEsp = 50;
    make_table(kQueues);
    const QpHandle rss =
        make_rss(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 | IBV_RX_HASH_IPSEC_SPI);
    ASSERT_TRUE(rss) << std::strerror(errno);
    Endpoint sender(context.get(), pd.get());
    sender.start();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(rss.get());
    std::map<uint64_t, unsigned> used;
    for (uint16_t spi = 1; spi <= 32; spi++) {
        const UdpFrame esp{.src_port = 7, .dst_port = spi, .protocol = kEsp}; // where the SPI is
        uint64_t queue = 0;
        for (int turn = 0; turn < 2; turn++) {
            ASSERT_EQ(sender.send(esp.bytes()), IBV_WC_SUCCESS);
            ibv_wc wc{};
            ASSERT_TRUE(wait_completion(cq.get(), wc));
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
            if (turn == 0) queue = wc.wr_id;
            EXPECT_EQ(wc.wr_id, queue) << "SPI " << spi << " has moved";
        }
        used[queue]++;
    }
    EXPECT_EQ(used.size(), kQueues) << "32 SPIs leave no queue of four empty";
}

TEST_F(RssTest, StridingQueuesWithinTheLimits) {
    for (const auto& [log_strides, log_bytes, error] : {std::tuple{6u, 11u, 0},
                                                        {3u, 6u, 0},
                                                        {2u, 6u, EINVAL},
                                                        {6u, 5u, EINVAL},
                                                        {6u, 14u, EINVAL}}) {
        ibv_wq_init_attr attributes = wq_attributes(pd.get(), cq.get(), 8);
        mlx5dv_wq_init_attr dv{};
        dv.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ;
        dv.striding_rq_attrs.single_wqe_log_num_of_strides = log_strides;
        dv.striding_rq_attrs.single_stride_log_num_of_bytes = log_bytes;
        const WqHandle wq(mlx5dv_create_wq(context.get(), &attributes, &dv));
        EXPECT_EQ(bool(wq), error == 0) << log_strides << ' ' << log_bytes;
        if (error) {
            EXPECT_EQ(errno, error);
        }
    }
}

} // namespace
} // namespace test
