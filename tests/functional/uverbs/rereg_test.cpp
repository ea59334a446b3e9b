// SPDX-License-Identifier: BSD-3-Clause
// ibv_rereg_mr: a region moves, and changes its protection domain and access.
#include "tests/functional/uverbs/verbs.hpp"

#include <sys/mman.h>

namespace test {
namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kFrameBytes = 100;

/// A region of the first of four pages.
class ReregTest : public VerbsTest {
  protected:
    ReregTest()
        : pages_(static_cast<uint8_t*>(mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
    ~ReregTest() override { munmap(pages_, kPages * kPage); }
    void SetUp() override {
        VerbsTest::SetUp();
        mr.reset(ibv_reg_mr(pd.get(), page(0), kPage, 0));
        ASSERT_TRUE(mr) << std::strerror(errno);
        first_key = mr->lkey;
    }

    [[nodiscard]] uint8_t* page(size_t number) const { return pages_ + number * kPage; }
    int rereg(int flags, ibv_pd* new_pd = nullptr, void* address = nullptr, size_t length = 0,
              int access = 0) {
        errno = 0;
        return ibv_rereg_mr(mr.get(), flags, new_pd, address, length, access);
    }
    /// What becomes of a frame there, as a QP of that PD sends it.
    [[nodiscard]] ibv_wc_status sent_from(const void* address, uint32_t lkey, ibv_pd* of) {
        const auto endpoint = make_endpoint(context.get(), of);
        post_send(endpoint->qp.get(), reinterpret_cast<uint64_t>(address), kFrameBytes, lkey);
        ibv_wc wc{};
        EXPECT_TRUE(wait_completion(endpoint->send_cq.get(), wc));
        return wc.status;
    }
    [[nodiscard]] ibv_wc_status sent_from(const void* address) {
        return sent_from(address, mr->lkey, pd.get());
    }
    /// What becomes of a frame that is received into the region.
    [[nodiscard]] ibv_wc_status received() {
        Endpoint endpoint(context.get(), mr->pd);
        for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
            to_state(endpoint.qp.get(), state);
        const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint.qp.get());
        post_receive(endpoint.qp.get(), reinterpret_cast<uint64_t>(mr->addr), kPage, mr->lkey, 1);
        EXPECT_EQ(endpoint.send(UdpFrame{}.bytes()), IBV_WC_SUCCESS);
        ibv_wc wc{};
        EXPECT_TRUE(wait_completion(endpoint.receive_cq.get(), wc));
        return wc.status;
    }

    MrHandle mr;
    uint32_t first_key = 0;

  private:
    static constexpr size_t kPages = 4;
    uint8_t* pages_;
};

TEST_F(ReregTest, OtherMemory) {
    ASSERT_EQ(rereg(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, page(1) + 8, kPage), 0)
        << std::strerror(errno);
    EXPECT_EQ(mr->addr, page(1) + 8);
    EXPECT_EQ(mr->length, kPage);
    EXPECT_EQ(mr->rkey, mr->lkey);
    EXPECT_EQ(sent_from(page(1) + 8), IBV_WC_SUCCESS);
    EXPECT_EQ(sent_from(page(2) + 8 - kFrameBytes), IBV_WC_SUCCESS) << "its end";
    EXPECT_EQ(sent_from(page(1)), IBV_WC_LOC_PROT_ERR) << "before it";
    EXPECT_EQ(sent_from(page(2)), IBV_WC_LOC_PROT_ERR) << "beyond it";
    EXPECT_EQ(sent_from(page(0)), IBV_WC_LOC_PROT_ERR) << "where it was";
    EXPECT_EQ(sent_from(page(0), first_key, pd.get()), IBV_WC_LOC_PROT_ERR);
    ASSERT_EQ(rereg(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, page(0), kPage), 0);
    EXPECT_EQ(sent_from(page(0)), IBV_WC_SUCCESS);
}

TEST_F(ReregTest, AllAtOnce) {
    const PdHandle other(ibv_alloc_pd(context.get()));
    ASSERT_EQ(
        rereg(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS,
              other.get(), page(2), kPage, IBV_ACCESS_LOCAL_WRITE),
        0)
        << std::strerror(errno);
    EXPECT_EQ(mr->pd, other.get());
    EXPECT_EQ(sent_from(page(2), mr->lkey, other.get()), IBV_WC_SUCCESS);
    EXPECT_EQ(sent_from(page(2)), IBV_WC_LOC_PROT_ERR) << "of the PD that it has left";
    EXPECT_EQ(received(), IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dealloc_pd(other.get()), EBUSY);
    mr.reset();
}

TEST_F(ReregTest, MemoryThatIsNotThereLeavesTheRegionAsItWas) {
    ASSERT_EQ(munmap(page(3), kPage), 0);
    EXPECT_EQ(rereg(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, page(2), kPage + 1),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(mr->addr, page(0));
    EXPECT_EQ(mr->lkey, first_key);
    EXPECT_EQ(sent_from(page(0)), IBV_WC_SUCCESS);
}

TEST_F(ReregTest, WhatCannotBeIsRefused) {
    EXPECT_EQ(rereg(0), IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(rereg(IBV_REREG_MR_CHANGE_TRANSLATION), IBV_REREG_MR_ERR_INPUT) << "to nowhere";
    EXPECT_EQ(rereg(IBV_REREG_MR_CHANGE_PD, pd.get(), nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
              IBV_REREG_MR_ERR_INPUT)
        << "access that is not to change";
    EXPECT_EQ(rereg(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
              IBV_REREG_MR_ERR_CMD)
        << "without local write";
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(mr->lkey, first_key);
    EXPECT_EQ(sent_from(page(0)), IBV_WC_SUCCESS);
}

TEST_F(ReregTest, AnotherPd) {
    const PdHandle first(ibv_alloc_pd(context.get()));
    mr.reset(ibv_reg_mr(first.get(), page(0), kPage, 0));
    ASSERT_EQ(rereg(IBV_REREG_MR_CHANGE_PD, pd.get()), 0) << std::strerror(errno);
    EXPECT_EQ(mr->pd, pd.get());
    EXPECT_EQ(sent_from(page(0)), IBV_WC_SUCCESS);
    EXPECT_EQ(sent_from(page(0), mr->lkey, first.get()), IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY) << "used by the region";
}

TEST_F(ReregTest, OtherAccess) {
    EXPECT_EQ(received(), IBV_WC_LOC_PROT_ERR);
    const auto allow = [&](int access) {
        return rereg(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access);
    };
    ASSERT_EQ(allow(IBV_ACCESS_LOCAL_WRITE), 0) << std::strerror(errno);
    EXPECT_EQ(received(), IBV_WC_SUCCESS);
    ASSERT_EQ(allow(0), 0);
    EXPECT_EQ(received(), IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(sent_from(page(0)), IBV_WC_SUCCESS);
}

TEST_F(ReregTest, AccessThatTheProgramItselfLacks) {
    ASSERT_EQ(mprotect(page(0), kPage, PROT_READ), 0);
    EXPECT_EQ(rereg(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(errno, EFAULT) << "the program itself may not write there";
    EXPECT_EQ(sent_from(page(0)), IBV_WC_SUCCESS);
}

} // namespace
} // namespace test
