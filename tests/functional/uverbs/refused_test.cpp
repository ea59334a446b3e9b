// SPDX-License-Identifier: BSD-3-Clause
// What a kernel makes of well-formed requests with contents that it does not expect.
#include "tests/functional/uverbs/requests.hpp"
#include "tests/functional/uverbs/verbs.hpp"

#include <array>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <sys/mman.h>
#include <utility>

namespace test {
namespace {

using RefusedTest = HostileTest;

/// Only the plain ones are as long as their structs at least.
TEST_F(RefusedTest, ExtendedCommandsMayBeShort) {
    const std::array<uint8_t, 512> zeros{};
    std::array<uint8_t, 512> answer{};
    const auto run = [&](uint32_t number, uint16_t in, uint16_t out) {
        return write_command(IB_USER_VERBS_CMD_FLAG_EXTENDED | number, zeros.data(), in,
                             answer.data(), out)
            .send(fd());
    };
    for (const uint16_t in : {0, 4, 8, 400})
        for (const uint16_t out : {0, 8, 400})
            EXPECT_EQ(run(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, in, out), 0) << in << " " << out;
    for (const uint16_t in : {0, 8, 400}) {
        EXPECT_EQ(run(IB_USER_VERBS_EX_CMD_CREATE_CQ, in, 0), EBADF) << in; // 0 is no channel
        EXPECT_EQ(run(IB_USER_VERBS_EX_CMD_MODIFY_CQ, in, 0), EINVAL) << in;
        EXPECT_EQ(run(IB_USER_VERBS_EX_CMD_CREATE_QP, in, 0), EINVAL) << in;
        EXPECT_EQ(run(IB_USER_VERBS_EX_CMD_CREATE_WQ, in, 0), EINVAL) << in;
        EXPECT_EQ(run(IB_USER_VERBS_EX_CMD_MODIFY_WQ, in, 0), EINVAL) << in;
    }
    for (const uint32_t with_list :
         {IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, IB_USER_VERBS_EX_CMD_CREATE_FLOW}) {
        EXPECT_EQ(run(with_list, 4, 400), ENOSPC) << with_list;
        EXPECT_EQ(run(with_list, 8, 400), ENOSPC) << with_list << ": its list is not there";
    }
    EXPECT_EQ(run(IB_USER_VERBS_EX_CMD_CREATE_FLOW, 400, 0), EINVAL) << "of no port";
    std::array<uint32_t, 4> table{}; // comp_mask, log_ind_tbl_size, a handle, and more
    table.back() = 1;
    EXPECT_EQ(
        write_command(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL,
                      table.data(), sizeof table, answer.data(), 400)
            .send(fd()),
        EOPNOTSUPP);
}

/// Of those that a kernel gives to nobody, and of objects of another kind.
TEST_F(RefusedTest, HandlesThatAreOfNoSuchObject) {
    constexpr uint32_t kNobodys = 0x7fffffff;
    for (const auto& [handle, error] : {std::pair{kNobodys, ENOENT}, {pd->handle, EINVAL}}) {
        const auto run = [&](uint32_t number, const auto& request) {
            std::array<uint64_t, 64> answer{};
            return write_command(number, &request, sizeof request, answer.data(), sizeof answer)
                .send(fd());
        };
        ib_uverbs_query_qp query{};
        query.qp_handle = handle;
        EXPECT_EQ(run(IB_USER_VERBS_CMD_QUERY_QP, query), error) << handle;
        ib_uverbs_modify_qp modify{};
        modify.qp_handle = handle;
        EXPECT_EQ(run(IB_USER_VERBS_CMD_MODIFY_QP, modify), error) << handle;
        ib_uverbs_resize_cq resize{};
        resize.cq_handle = handle;
        resize.cqe = 63;
        EXPECT_EQ(run(IB_USER_VERBS_CMD_RESIZE_CQ, resize), error) << handle;
        ib_uverbs_ex_modify_cq moderate{};
        moderate.cq_handle = handle;
        moderate.attr_mask = IBV_CQ_ATTR_MODERATE;
        EXPECT_EQ(run(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_CQ, moderate),
                  error)
            << handle;
        ib_uverbs_ex_modify_wq start{};
        start.wq_handle = handle;
        start.attr_mask = IBV_WQ_ATTR_STATE;
        start.wq_state = IBV_WQS_RDY;
        EXPECT_EQ(run(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_WQ, start),
                  error)
            << handle;
    }
    Request query(UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY);
    uint32_t pdn = 0;
    query.pointer(MLX5_IB_ATTR_QUERY_PD_HANDLE, ~uint64_t{0}, 0);
    query.out(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, pdn);
    EXPECT_EQ(query.send(fd()), EINVAL) << "no number of a handle";
}

/// Allocates a UAR; 0 or errno. `page_id`: where its number goes.
int alloc_uar(int fd, uint64_t type, uint64_t page_id) {
    uint64_t offset = 0;
    uint32_t length = 0;
    Request alloc(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC);
    alloc.in(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, &length, 0)
        .in(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, &type, sizeof type)
        .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset)
        .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, length)
        .pointer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, page_id, sizeof length);
    return alloc.send(fd);
}

/// Also small ones, whose place is a pointer nevertheless.
TEST_F(RefusedTest, AnswersOfMethodsNeedMemory) {
    for (const uint64_t place : {uint64_t{0}, uint64_t{0x1000}, ~uint64_t{0}})
        EXPECT_EQ(alloc_uar(fd(), MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC, place), EFAULT) << place;
}

TEST_F(RefusedTest, AUarIsOfAKnownType) {
    uint32_t page_id = 0;
    const auto place = reinterpret_cast<uint64_t>(&page_id);
    EXPECT_EQ(alloc_uar(fd(), MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC, place), 0);
    EXPECT_EQ(alloc_uar(fd(), MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC + 1, place), EOPNOTSUPP);
    EXPECT_EQ(alloc_uar(fd(), ~uint64_t{0}, place), EINVAL);
}

/// What libmlx5 says about a CQ: a record at an aligned address, and the UAR by which it is armed.
TEST_F(RefusedTest, CqsThatNoLibraryAsksFor) {
    uint32_t page_id = 0;
    ASSERT_EQ(alloc_uar(fd(), MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC, reinterpret_cast<uint64_t>(&page_id)),
              0);
    constexpr size_t kRing = 64 * 64;
    void* const memory = mmap(nullptr, 2 * kRing, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto create = [&](const auto& change) {
        ib_uverbs_create_cq request{};
        request.cqe = 63;
        request.comp_channel = -1;
        mlx5_ib_create_cq driver{};
        driver.buf_addr = reinterpret_cast<uint64_t>(memory);
        driver.db_addr = driver.buf_addr + kRing;
        driver.cqe_size = 64;
        driver.flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX;
        driver.uar_page_index = static_cast<uint16_t>(page_id);
        change(driver);
        std::array<uint32_t, 16> answer{};
        mlx5_ib_create_cq_resp more{};
        Request create = write_command(IB_USER_VERBS_CMD_CREATE_CQ, &request, sizeof request,
                                       answer.data(), sizeof(ib_uverbs_create_cq_resp));
        create.in(UVERBS_ATTR_UHW_IN, &driver, sizeof driver).out(UVERBS_ATTR_UHW_OUT, more);
        return create.send(fd());
    };
    EXPECT_EQ(create([](mlx5_ib_create_cq&) {}), 0);
    EXPECT_EQ(create([](mlx5_ib_create_cq& of) { of.flags = 0; }), EINVAL);
    EXPECT_EQ(create([](mlx5_ib_create_cq& of) { of.uar_page_index = 0xfff; }), EINVAL);
    EXPECT_EQ(create([](mlx5_ib_create_cq& of) { of.reserved0 = 1; }), EINVAL);
    EXPECT_EQ(create([](mlx5_ib_create_cq& of) { of.reserved1 = 1; }), EINVAL);
    EXPECT_EQ(create([](mlx5_ib_create_cq& of) { of.db_addr += 4; }), EINVAL);
    EXPECT_EQ(create([](mlx5_ib_create_cq& of) { of.cqe_comp_en = 1; }), EINVAL);
    munmap(memory, 2 * kRing);
}

/// A context brings no doorbell pages of its own, whose numbers these would be.
TEST_F(RefusedTest, NumbersOfDoorbellPagesThatAContextDoesNotHave) {
    for (const uint32_t index : {0u, 1u, ~0u}) {
        uint32_t number = 0;
        EXPECT_EQ(Request(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_UAR)
                      .in(MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX, &index, sizeof index)
                      .out(MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX, number)
                      .send(fd()),
                  EINVAL)
            << index;
    }
}

} // namespace
} // namespace test
