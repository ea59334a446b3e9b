// SPDX-License-Identifier: BSD-3-Clause
// CQs by the ioctl's method, with an attribute that the guest's kernel does not know yet.
#include "app/softhca/uverbs/commands.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <array>
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

    using Attributes = std::vector<ib_uverbs_attr>;
    static ib_uverbs_attr attribute(uint16_t id, uint64_t data, size_t bytes) {
        ib_uverbs_attr made{};
        made.attr_id = id;
        made.len = static_cast<uint16_t>(bytes);
        made.data = data;
        return made;
    }
    template <class T> static ib_uverbs_attr place(uint16_t id, T& of) {
        return attribute(id, reinterpret_cast<uint64_t>(&of), sizeof of);
    }
    /// 0 or errno.
    int call(uint16_t object, uint16_t method, const Attributes& attributes) {
        std::vector<uint64_t> words(
            (sizeof(ib_uverbs_ioctl_hdr) + attributes.size() * sizeof(ib_uverbs_attr)) /
            sizeof(uint64_t));
        auto& header = *reinterpret_cast<ib_uverbs_ioctl_hdr*>(words.data());
        header.length = static_cast<uint16_t>(words.size() * sizeof words[0]);
        header.object_id = object;
        header.method_id = method;
        header.num_attrs = static_cast<uint16_t>(attributes.size());
        header.driver_id = RDMA_DRIVER_MLX5;
        std::ranges::copy(attributes, header.attrs);
        return context.ioctl(&header);
    }
    uint32_t alloc_uar() {
        uint64_t offset = 0;
        uint32_t length = 0, number = 0;
        EXPECT_EQ(call(MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC,
                       {attribute(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, 0, 0),
                        attribute(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC,
                                  sizeof(uint64_t)),
                        place(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset),
                        place(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, length),
                        place(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, number)}),
                  0);
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
        uint32_t entries = 0;
        Attributes attributes{attribute(UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 0),
                              attribute(UVERBS_ATTR_CREATE_CQ_CQE, 63, sizeof(uint32_t)),
                              attribute(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 0, sizeof(uint64_t)),
                              attribute(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0, sizeof(uint32_t)),
                              attribute(UVERBS_ATTR_CREATE_CQ_FLAGS, 0, sizeof(uint32_t)),
                              place(UVERBS_ATTR_CREATE_CQ_RESP_CQE, entries),
                              place(UVERBS_ATTR_UHW_IN, driver),
                              place(UVERBS_ATTR_UHW_OUT, answer)};
        if (uar) attributes.push_back(attribute(kCreateCqUarIndex, *uar, sizeof *uar));
        return call(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, attributes);
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
