// SPDX-License-Identifier: BSD-3-Clause
// The device has as much as it announces: one more is refused. And what it does not have is not
// announced.
#include "tests/functional/uverbs/verbs.hpp"

#include <bit>

namespace test {
namespace {

class LimitsTest : public VerbsTest {
  protected:
    void SetUp() override {
        VerbsTest::SetUp();
        if (HasFatalFailure()) return;
        ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &device), 0);
    }
    [[nodiscard]] ibv_qp* try_qp(ibv_cq* cq, const ibv_qp_cap& cap) {
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = cq;
        attributes.cap = cap;
        attributes.qp_type = IBV_QPT_RAW_PACKET;
        errno = 0;
        return ibv_create_qp(pd.get(), &attributes);
    }
    ibv_device_attr_ex device{};
};

/// The kernel driver uses a few of them itself.
TEST_F(LimitsTest, QueuePairs) {
    const CqHandle cq = make_cq();
    const auto most = static_cast<size_t>(device.orig_attr.max_qp);
    std::vector<QpHandle> qps;
    while (qps.size() <= most) {
        QpHandle qp(try_qp(cq.get(), {1, 0, 1, 0, 0}));
        if (!qp) break;
        qps.push_back(std::move(qp));
    }
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_LE(qps.size(), most);
    EXPECT_GE(qps.size(), most - 64);
    qps.pop_back();
    EXPECT_TRUE(QpHandle(try_qp(cq.get(), {1, 0, 1, 0, 0}))) << "one that went makes room";
}

TEST_F(LimitsTest, WorkRequests) {
    const CqHandle cq = make_cq();
    const auto most = static_cast<uint32_t>(device.orig_attr.max_qp_wr);
    EXPECT_TRUE(QpHandle(try_qp(cq.get(), {most, 0, 1, 0, 0})));
    EXPECT_EQ(try_qp(cq.get(), {most + 1, 0, 1, 0, 0}), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_TRUE(QpHandle(try_qp(cq.get(), {0, most, 0, 1, 0})));
    EXPECT_EQ(try_qp(cq.get(), {0, most + 1, 0, 1, 0}), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

/// Each costs the same, however many there are: with a look at all others they take minutes to go.
TEST_F(LimitsTest, ProtectionDomains) {
    const auto most = static_cast<size_t>(device.orig_attr.max_pd);
    std::vector<PdHandle> pds;
    while (pds.size() <= most) {
        PdHandle one(ibv_alloc_pd(context.get()));
        if (!one) break;
        pds.push_back(std::move(one));
    }
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(pds.size(), most - 1) << "the test has one";
    const auto begin = std::chrono::steady_clock::now();
    pds.clear();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    EXPECT_TRUE(PdHandle(ibv_alloc_pd(context.get())));
}

TEST_F(LimitsTest, IndirectionTables) {
    const CqHandle cq = make_cq();
    ibv_wq_init_attr attributes = wq_attributes(pd.get(), cq.get(), 1);
    const WqHandle wq(ibv_create_wq(context.get(), &attributes));
    ASSERT_TRUE(wq);
    const uint32_t most = device.rss_caps.max_rwq_indirection_table_size;
    std::vector<ibv_wq*> entries(size_t{2} * most, wq.get());
    const auto make = [&](uint32_t size) {
        ibv_rwq_ind_table_init_attr table{};
        table.log_ind_tbl_size = static_cast<uint32_t>(std::countr_zero(size));
        table.ind_tbl = entries.data();
        errno = 0;
        return TableHandle(ibv_create_rwq_ind_table(context.get(), &table));
    };
    EXPECT_TRUE(make(most));
    EXPECT_FALSE(make(2 * most));
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(LimitsTest, GidTableWithoutRoom) {
    std::array<ibv_gid_entry, 4> entries{};
    EXPECT_EQ(ibv_query_gid_table(context.get(), entries.data(), entries.size(), 0), 0);
    EXPECT_EQ(ibv_query_gid_table(context.get(), entries.data(), 0, 0), -EINVAL);
    EXPECT_EQ(ibv_query_gid_table(context.get(), entries.data(), entries.size(), 1), -EINVAL);
}

/// The kernel's mlx5_ib announces these for every device.
TEST_F(LimitsTest, NoCapabilityOfTransportsThatAreNotThere) {
    EXPECT_EQ(device.orig_attr.device_cap_flags &
                  (IBV_DEVICE_XRC | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_CHANGE_PHY_PORT),
              0u);
}

} // namespace
} // namespace test
