// SPDX-License-Identifier: BSD-3-Clause
// Objects destroyed by methods of the ioctl ABI, which libibverbs prefers to commands, called here
// without it.
#include "tests/functional/uverbs/requests.hpp"
#include "tests/functional/uverbs/verbs.hpp"

#include <array>

namespace test {
namespace {

struct Method {
    uint16_t object, method;
    uint16_t handle;                      ///< the attribute
    uint16_t answer = 0, answer_size = 0; ///< likewise, and its bytes
};

constexpr Method kPd{UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, UVERBS_ATTR_DESTROY_PD_HANDLE};
constexpr Method kMr{UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, UVERBS_ATTR_DESTROY_MR_HANDLE};
constexpr Method kCq{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, UVERBS_ATTR_DESTROY_CQ_HANDLE,
                     UVERBS_ATTR_DESTROY_CQ_RESP, sizeof(ib_uverbs_destroy_cq_resp)};
constexpr Method kQp{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, UVERBS_ATTR_DESTROY_QP_HANDLE,
                     UVERBS_ATTR_DESTROY_QP_RESP, sizeof(ib_uverbs_destroy_qp_resp)};
constexpr Method kWq{UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, UVERBS_ATTR_DESTROY_WQ_HANDLE,
                     UVERBS_ATTR_DESTROY_WQ_RESP, sizeof(uint32_t)};
constexpr Method kTable{UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
                        UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE};
constexpr Method kFlow{UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY,
                       UVERBS_ATTR_DESTROY_FLOW_HANDLE};

/// What the library has of objects that are gone: it would only free that after destroying them.
/// Kept here so that it is not reported as leaked.
std::vector<const void*>& forgotten() {
    static auto* const all = new std::vector<const void*>; // is never destroyed
    return *all;
}

class DestroyTest : public HostileTest {
  protected:
    [[nodiscard]] int destroy(const Method& of, uint64_t handle, uint64_t answer) const {
        Request request(of.object, of.method);
        request.pointer(of.handle, handle, 0);
        if (of.answer_size) request.pointer(of.answer, answer, of.answer_size);
        return request.send(fd());
    }
    [[nodiscard]] int destroy(const Method& of, uint64_t handle) {
        return destroy(of, handle, reinterpret_cast<uint64_t>(answer.data()));
    }
    /// The library does not know that the object is gone.
    template <class Owner>
    void expect_destroyed_once(const Method& of, uint64_t handle, Owner& object) {
        EXPECT_EQ(destroy(of, handle), 0) << of.object;
        EXPECT_EQ(destroy(of, handle), ENOENT) << of.object;
        forgotten().push_back(object.release());
    }

    std::array<uint32_t, 8> answer{};
};

TEST_F(DestroyTest, EachKindOnce) {
    PdHandle own_pd(ibv_alloc_pd(context.get()));
    ASSERT_TRUE(own_pd);
    std::array<uint8_t, 64> memory{};
    MrHandle mr(ibv_reg_mr(own_pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
    CqHandle cq = make_cq();
    QpHandle qp = make_qp(own_pd.get(), cq.get(), cq.get(), 16);
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(qp.get(), state);
    FlowHandle flow = FlowBuilder().add(eth_spec()).create(qp.get());
    CqHandle wq_cq = make_cq();
    ibv_wq_init_attr attributes = wq_attributes(own_pd.get(), wq_cq.get(), 16);
    WqHandle wq(ibv_create_wq(context.get(), &attributes));
    ASSERT_TRUE(mr && flow && wq);
    ibv_wq* const entries[] = {wq.get()};
    ibv_rwq_ind_table_init_attr of_table{};
    of_table.ind_tbl = const_cast<ibv_wq**>(entries);
    TableHandle table(ibv_create_rwq_ind_table(context.get(), &of_table));
    ASSERT_TRUE(table);

    EXPECT_EQ(destroy(kPd, own_pd->handle), EBUSY);
    EXPECT_EQ(destroy(kCq, cq->handle), EBUSY);
    EXPECT_EQ(destroy(kWq, wq->handle), EBUSY) << "in a table";
    for (const Method& of : {kMr, kCq, kQp, kWq, kTable, kFlow})
        EXPECT_EQ(destroy(of, own_pd->handle), EINVAL) << of.object << ": not of a PD";

    expect_destroyed_once(kFlow, flow->handle, flow);
    expect_destroyed_once(kTable, table->ind_tbl_handle, table);
    expect_destroyed_once(kQp, qp->handle, qp);
    expect_destroyed_once(kWq, wq->handle, wq);
    expect_destroyed_once(kCq, cq->handle, cq);
    expect_destroyed_once(kCq, wq_cq->handle, wq_cq);
    expect_destroyed_once(kMr, mr->handle, mr);
    expect_destroyed_once(kPd, own_pd->handle, own_pd);
}

/// It has a place, or nothing is done. If nothing can be written there, all is done nevertheless.
TEST_F(DestroyTest, TheAnswerNeedsAPlace) {
    CqHandle cq = make_cq();
    Method without = kCq;
    without.answer_size = 0;
    EXPECT_EQ(destroy(without, cq->handle), EINVAL);
    Method shorter = kCq;
    shorter.answer_size -= 4;
    EXPECT_EQ(destroy(shorter, cq->handle), EINVAL);
    EXPECT_EQ(destroy(kCq, cq->handle, 0x1000), EFAULT);
    EXPECT_EQ(destroy(kCq, cq->handle), ENOENT);
    forgotten().push_back(cq.release());
}

} // namespace
} // namespace test
