// SPDX-License-Identifier: BSD-3-Clause
// What a kernel demands of users of raw packets and pinned memory. On softhca, with --enforce.
#include "tests/functional/uverbs/rights.hpp"
#include "tests/functional/uverbs/verbs.hpp"

#include <sys/resource.h>

namespace test {
namespace {

/// Sets the soft limit on pinned memory, in pages, during its lifetime.
class MemoryLimit {
  public:
    explicit MemoryLimit(rlim_t pages) {
        getrlimit(RLIMIT_MEMLOCK, &before_);
        const rlimit lower{.rlim_cur = pages * 4096, .rlim_max = before_.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_MEMLOCK, &lower), 0) << "the hard limit is too low";
    }
    ~MemoryLimit() { setrlimit(RLIMIT_MEMLOCK, &before_); }
    MemoryLimit(const MemoryLimit&) = delete;
    MemoryLimit& operator=(const MemoryLimit&) = delete;

  private:
    rlimit before_{};
};

class RightsTest : public VerbsTest {
  protected:
    [[nodiscard]] MrHandle reg(size_t pages) {
        errno = 0;
        return MrHandle(ibv_reg_mr(pd.get(), memory.data(), pages * 4096, IBV_ACCESS_LOCAL_WRITE));
    }
    [[nodiscard]] static ContextHandle open_devx() {
        int count = 0;
        ibv_device** const devices = ibv_get_device_list(&count);
        mlx5dv_context_attr attributes{};
        attributes.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
        ContextHandle opened(count ? mlx5dv_open_device(devices[0], &attributes) : nullptr);
        ibv_free_device_list(devices);
        return opened;
    }
    [[nodiscard]] ibv_qp* try_qp(ibv_cq* cq, ibv_qp_type type = IBV_QPT_RAW_PACKET,
                                 uint32_t max_recv_wr = 8) {
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = cq;
        attributes.cap = {.max_send_wr = 8,
                          .max_recv_wr = max_recv_wr,
                          .max_send_sge = 1,
                          .max_recv_sge = 1,
                          .max_inline_data = 0};
        attributes.qp_type = type;
        errno = 0;
        return ibv_create_qp(pd.get(), &attributes);
    }

    std::vector<uint8_t> memory = std::vector<uint8_t>(100 * 4096);
};

TEST_F(RightsTest, RawQpsNeedCapNetRaw) {
    const CqHandle cq = make_cq();
    EXPECT_EQ(QpHandle(try_qp(cq.get())) != nullptr, has(CAP_NET_RAW));
    const Without raw(CAP_NET_RAW);
    EXPECT_EQ(try_qp(cq.get()), nullptr);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(try_qp(cq.get(), IBV_QPT_UD), nullptr);
    EXPECT_EQ(errno, EINVAL) << "not for want of rights";
}

TEST_F(RightsTest, FlowsNeedCapNetRaw) {
    const CqHandle cq = make_cq();
    const QpHandle qp(try_qp(cq.get()));
    if (!has(CAP_NET_RAW)) return; // without a QP there is no flow
    ASSERT_TRUE(qp);
    to_state(qp.get(), IBV_QPS_INIT);
    EXPECT_TRUE(FlowBuilder().add(eth_spec()).create(qp.get()));
    const Without raw(CAP_NET_RAW);
    EXPECT_FALSE(FlowBuilder().add(eth_spec()).create(qp.get()));
    EXPECT_EQ(errno, EPERM);
}

TEST_F(RightsTest, FlowsInTheDevicesLayoutNeedCapNetRaw) {
    if (!has(CAP_NET_RAW)) return; // without a QP there is no flow
    const CqHandle cq = make_cq();
    const QpHandle qp(try_qp(cq.get()));
    ASSERT_TRUE(qp);
    to_state(qp.get(), IBV_QPS_INIT);
    std::array<uint64_t, 9> none{64}; // mlx5dv_flow_match_parameters: all packets
    auto* const match = reinterpret_cast<mlx5dv_flow_match_parameters*>(none.data());
    mlx5dv_flow_matcher_attr attributes{};
    attributes.type = IBV_FLOW_ATTR_NORMAL;
    attributes.match_mask = match;
    const Handle<mlx5dv_flow_matcher, mlx5dv_destroy_flow_matcher> matcher(
        mlx5dv_create_flow_matcher(context.get(), &attributes));
    ASSERT_TRUE(matcher) << std::strerror(errno);
    mlx5dv_flow_action_attr action{};
    action.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP;
    action.qp = qp.get();
    const auto create = [&] {
        errno = 0;
        return FlowHandle(mlx5dv_create_flow(matcher.get(), match, 1, &action));
    };
    EXPECT_TRUE(create()) << std::strerror(errno);
    const Without raw(CAP_NET_RAW);
    EXPECT_FALSE(create());
    EXPECT_EQ(errno, EPERM);
}

/// Both rights are needed.
TEST_F(RightsTest, SteeringMemoryNeedsCapNetRawAndCapSysRawio) {
    const ContextHandle devx = open_devx();
    ASSERT_TRUE(devx) << std::strerror(errno);
    const auto allocate = [&] {
        ibv_alloc_dm_attr wanted{};
        wanted.length = 4096;
        mlx5dv_alloc_dm_attr kind{};
        kind.type = MLX5DV_DM_TYPE_STEERING_SW_ICM;
        errno = 0;
        ibv_dm* const memory = mlx5dv_alloc_dm(devx.get(), &wanted, &kind);
        if (!memory) return errno;
        EXPECT_EQ(ibv_free_dm(memory), 0);
        return 0;
    };
    EXPECT_EQ(allocate(), has(CAP_NET_RAW) && has(CAP_SYS_RAWIO) ? 0 : EPERM);
    for (const unsigned capability : {CAP_NET_RAW, CAP_SYS_RAWIO}) {
        const Without right(capability);
        EXPECT_EQ(allocate(), EPERM) << capability;
    }
}

TEST_F(RightsTest, PinnedMemoryIsLimited) {
    const MemoryLimit limit(64);
    EXPECT_EQ(reg(100) != nullptr, has(CAP_IPC_LOCK));
    const Without lock(CAP_IPC_LOCK);
    EXPECT_FALSE(reg(100));
    EXPECT_EQ(errno, ENOMEM);
    {
        const MrHandle first = reg(40);
        EXPECT_TRUE(first) << std::strerror(errno);
        EXPECT_FALSE(reg(40)) << "the same pages count again";
        EXPECT_EQ(errno, ENOMEM);
    }
    EXPECT_TRUE(reg(40)) << "given back";
}

/// The new pages are pinned before the old ones are given back.
TEST_F(RightsTest, ARegionThatMovesIsPinnedTwiceMeanwhile) {
    const MemoryLimit limit(64);
    const Without lock(CAP_IPC_LOCK);
    const MrHandle mr = reg(20);
    ASSERT_TRUE(mr) << std::strerror(errno);
    const auto move = [&](size_t pages) {
        errno = 0;
        return ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(),
                            pages * 4096, 0);
    };
    EXPECT_EQ(move(40), 0) << std::strerror(errno);
    EXPECT_EQ(move(30), IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_TRUE(reg(20)) << "only 40 are pinned";
    EXPECT_EQ(move(20), 0);
    EXPECT_TRUE(reg(40)) << "only 20 are";
}

TEST_F(RightsTest, ARegionThatStaysIsNotPinnedAgain) {
    const MemoryLimit limit(64);
    const Without lock(CAP_IPC_LOCK);
    const MrHandle mr = reg(40);
    ASSERT_TRUE(mr) << std::strerror(errno);
    EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
    EXPECT_FALSE(reg(30)) << "it remains pinned";
    EXPECT_TRUE(reg(20)) << "once";
}

TEST_F(RightsTest, RingsArePinnedMemory) {
    const MemoryLimit limit(64);
    const Without lock(CAP_IPC_LOCK);
    const CqHandle small = make_cq(512); // 16 pages
    EXPECT_TRUE(small) << std::strerror(errno);
    EXPECT_FALSE(make_cq(8192));
    EXPECT_EQ(errno, ENOMEM);
}

/// A leftover queue would keep its CQ in use, which is destroyed at the end.
TEST_F(RightsTest, AQpThatIsRefusedLeavesNoQueueBehind) {
    const CqHandle cq = make_cq();
    const MemoryLimit limit(64);
    const Without lock(CAP_IPC_LOCK);
    EXPECT_EQ(try_qp(cq.get(), IBV_QPT_RAW_PACKET, 16384), nullptr); // 64 pages, and the SQ's
    EXPECT_EQ(errno, ENOMEM);
}

TEST_F(RightsTest, WithoutALimitNothingIsPinned) {
    const MemoryLimit limit(0);
    const Without lock(CAP_IPC_LOCK);
    EXPECT_FALSE(reg(1));
    EXPECT_EQ(errno, EPERM);
}

} // namespace
} // namespace test
