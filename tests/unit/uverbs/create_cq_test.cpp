// SPDX-License-Identifier: BSD-3-Clause
// CQs by the ioctl's method, with an attribute that the guest's kernel does not know yet.
#include "app/softhca/uverbs/commands.hpp"
#include "tests/functional/uverbs/requests.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

namespace softhca::uverbs {
namespace {

class CreateCqTest : public testing::Test {
  protected:
    CreateCqTest() {
        port.device = &device;
        EXPECT_EQ(attach(context, device, /*devx=*/false), 0);
    }
    ~CreateCqTest() override { port.device = nullptr; }

    /// 0 or errno.
    int send(test::Request& request) { return context.ioctl(&request.header()); }
    uint32_t alloc_uar() {
        uint64_t offset = 0, type = MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC;
        uint32_t length = 0, number = 0;
        test::Request alloc(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC);
        alloc.pointer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, 0, 0)
            .in(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, &type, sizeof type)
            .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset)
            .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, length)
            .out(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, number);
        EXPECT_EQ(send(alloc), 0);
        return number;
    }
    int create_cq(uint16_t flags, uint16_t named, std::optional<uint32_t> uar) {
        mlx5_ib_create_cq driver{};
        driver.buf_addr = reinterpret_cast<uint64_t>(ring.data());
        driver.db_addr = reinterpret_cast<uint64_t>(record.data());
        driver.cqe_size = 64;
        driver.flags = flags;
        driver.uar_page_index = named;
        mlx5_ib_create_cq_resp answer{};
        const uint32_t entries = 63, zero = 0;
        const uint64_t user_handle = 0;
        uint32_t made = 0;
        test::Request create(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
        create.pointer(UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 0)
            .in(UVERBS_ATTR_CREATE_CQ_CQE, &entries, sizeof entries)
            .in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, &user_handle, sizeof user_handle)
            .in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, &zero, sizeof zero)
            .in(UVERBS_ATTR_CREATE_CQ_FLAGS, &zero, sizeof zero)
            .out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, made)
            .in(UVERBS_ATTR_UHW_IN, &driver, sizeof driver)
            .out(UVERBS_ATTR_UHW_OUT, answer);
        if (uar) create.in(kCreateCqUarIndex, &*uar, sizeof *uar);
        return send(create);
    }

    testbed::Pages ring{64 * 64}, record{4096};
    PortConfig config;
    ClockPage clock;
    core::Device device{{.name = "mlx5_0", .mac = {2, 0, 0, 0, 0, 1}},
                        std::make_unique<testbed::FakeWire>(),
                        nullptr};
    Port port{config, 0, "/nonexistent", clock};
    Context context{port};
};

TEST_F(CreateCqTest, TheUarOfTheAttributeIsMeant) {
    constexpr uint16_t kNamed = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, kUnknown = 0xfff;
    const uint32_t uar = alloc_uar();
    EXPECT_EQ(create_cq(kNamed, static_cast<uint16_t>(uar), {}), 0);
    EXPECT_EQ(create_cq(kNamed, kUnknown, {}), EINVAL);
    EXPECT_EQ(create_cq(0, 0, {}), EINVAL) << "none is named";
    EXPECT_EQ(create_cq(0, 0, uar), 0);
    EXPECT_EQ(create_cq(kNamed, kUnknown, uar), 0);
    EXPECT_EQ(create_cq(kNamed, static_cast<uint16_t>(uar), kUnknown), EINVAL);
}

} // namespace
} // namespace softhca::uverbs
