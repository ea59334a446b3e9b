// SPDX-License-Identifier: BSD-3-Clause
// write(2) on the device: how a libibverbs that was built without the ioctl passes commands.
#include "tests/functional/uverbs/verbs.hpp"

#include <cerrno>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <unistd.h>

namespace test {
namespace {

constexpr uint32_t kExtended = IB_USER_VERBS_CMD_FLAG_EXTENDED;

/// A command as one write passes it.
class Command {
  public:
    Command(uint32_t number, size_t answer_bytes) : answer_(answer_bytes) {
        header().command = number;
        header().out_words = static_cast<uint16_t>(answer_bytes / word());
    }
    Command(Command&&) = default; // the answer stays where it is
    Command& operator=(Command&&) = default;

    /// Adds a struct. One that says where the answer goes says that.
    template <class Part> [[nodiscard]] Command with(Part part) && {
        if constexpr (requires { part.response; })
            part.response = reinterpret_cast<uint64_t>(answer_.data());
        const auto* const bytes = reinterpret_cast<const std::byte*>(&part);
        frame_.insert(frame_.end(), bytes, bytes + sizeof part);
        size_t counted = frame_.size();
        if (extended())
            counted -= std::min(counted, sizeof header() + sizeof(ib_uverbs_ex_cmd_hdr));
        header().in_words = static_cast<uint16_t>(counted / word());
        return std::move(*this);
    }
    [[nodiscard]] ib_uverbs_cmd_hdr& header() { return part<ib_uverbs_cmd_hdr>(0); }
    /// What is there in the frame.
    template <class Part> [[nodiscard]] Part& part(size_t at) {
        return *reinterpret_cast<Part*>(frame_.data() + at);
    }
    template <class Part> [[nodiscard]] const Part& answer(size_t at = 0) const {
        return *reinterpret_cast<const Part*>(answer_.data() + at);
    }
    [[nodiscard]] size_t size() const { return frame_.size(); }
    /// The first `bytes` of it; 0 or errno.
    [[nodiscard]] int send(int fd, size_t bytes) const {
        const ssize_t taken = ::write(fd, frame_.data(), bytes);
        EXPECT_TRUE(taken < 0 || static_cast<size_t>(taken) == bytes);
        return taken < 0 ? errno : 0;
    }
    [[nodiscard]] int send(int fd) const { return send(fd, size()); }

  private:
    [[nodiscard]] bool extended() { return header().command & kExtended; }
    [[nodiscard]] size_t word() { return extended() ? 8 : 4; }

    std::vector<std::byte> frame_ = std::vector<std::byte>(sizeof(ib_uverbs_cmd_hdr));
    std::vector<std::byte> answer_;
};

constexpr size_t kRequest = sizeof(ib_uverbs_cmd_hdr); ///< its place in a frame

Command alloc_pd(uint32_t number = IB_USER_VERBS_CMD_ALLOC_PD) {
    return Command(number, sizeof(ib_uverbs_alloc_pd_resp) + sizeof(mlx5_ib_alloc_pd_resp))
        .with(ib_uverbs_alloc_pd{});
}
Command dealloc_pd(const Command& allocated) {
    const auto handle = allocated.answer<ib_uverbs_alloc_pd_resp>().pd_handle;
    return Command(IB_USER_VERBS_CMD_DEALLOC_PD, 0).with(ib_uverbs_dealloc_pd{handle});
}

Command extended_query() {
    return Command(kExtended | IB_USER_VERBS_EX_CMD_QUERY_DEVICE,
                   sizeof(ib_uverbs_ex_query_device_resp))
        .with(ib_uverbs_ex_cmd_hdr{})
        .with(ib_uverbs_ex_query_device{});
}

class WriteTest : public HostileTest {
  protected:
    /// The device opened once more, by no library.
    [[nodiscard]] int open_node() const {
        return ::open((std::string("/dev/infiniband/") + context->device->dev_name).c_str(),
                      O_RDWR | O_CLOEXEC);
    }
};

TEST_F(WriteTest, ObjectsAreMadeAndDestroyed) {
    const Command alloc = alloc_pd();
    ASSERT_EQ(alloc.send(fd()), 0);
    mlx5dv_pd known{};
    mlx5dv_obj object{};
    object.pd.in = pd.get();
    object.pd.out = &known;
    ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_PD), 0);
    const auto pdn = alloc.answer<mlx5_ib_alloc_pd_resp>(sizeof(ib_uverbs_alloc_pd_resp)).pdn;
    EXPECT_NE(pdn, known.pdn);
    EXPECT_NE(pdn, 0u);
    const Command dealloc = dealloc_pd(alloc);
    EXPECT_EQ(dealloc.send(fd()), 0);
    EXPECT_EQ(dealloc.send(fd()), ENOENT);
}

TEST_F(WriteTest, AnswersAreThoseOfTheIoctl) {
    ibv_device_attr known{};
    ASSERT_EQ(ibv_query_device(context.get(), &known), 0);
    const Command query =
        Command(IB_USER_VERBS_CMD_QUERY_DEVICE, sizeof(ib_uverbs_query_device_resp))
            .with(ib_uverbs_query_device{});
    ASSERT_EQ(query.send(fd()), 0);
    const auto& plain = query.answer<ib_uverbs_query_device_resp>();
    EXPECT_EQ(plain.max_qp, static_cast<uint32_t>(known.max_qp));
    EXPECT_EQ(plain.node_guid, known.node_guid);

    const Command more = extended_query();
    ASSERT_EQ(more.send(fd()), 0);
    const auto& answer = more.answer<ib_uverbs_ex_query_device_resp>();
    EXPECT_EQ(answer.base.max_qp, plain.max_qp);
    EXPECT_NE(answer.raw_packet_caps, 0u);
}

TEST_F(WriteTest, AnExtendedFrameSaysWhatItHas) {
    Command query = extended_query();
    auto& more = query.part<ib_uverbs_ex_cmd_hdr>(kRequest);
    more.cmd_hdr_reserved = 1;
    EXPECT_EQ(query.send(fd()), EINVAL);
    more.cmd_hdr_reserved = 0;
    more.provider_in_words = 1; // which do not come
    EXPECT_EQ(query.send(fd()), EINVAL);
    more.provider_in_words = 0;
    query.header().out_words = 1; // fewer than there are answers
    EXPECT_EQ(query.send(fd()), 0);
    query.header().out_words = 0; // an answer without room
    EXPECT_EQ(query.send(fd()), EINVAL);
    EXPECT_EQ(query.send(fd(), kRequest), EINVAL) << "without the second header";
}

TEST_F(WriteTest, AFrameIsAsLongAsItSays) {
    Command alloc = alloc_pd();
    for (const size_t bytes : {size_t{0}, kRequest - 1, alloc.size() - 4})
        EXPECT_EQ(alloc.send(fd(), bytes), EINVAL) << bytes;
    alloc.header().in_words = kRequest / 4;
    EXPECT_EQ(alloc.send(fd(), kRequest), ENOSPC);
    alloc = alloc_pd();
    alloc.header().out_words = 0;
    EXPECT_EQ(alloc.send(fd()), ENOSPC);
}

TEST_F(WriteTest, FrameAndAnswerNeedMemory) {
    const auto* const nowhere = reinterpret_cast<const void*>(0x1000);
    EXPECT_EQ(::write(fd(), nowhere, 16), -1);
    EXPECT_EQ(errno, EFAULT);
    Command alloc = alloc_pd();
    alloc.part<ib_uverbs_alloc_pd>(kRequest).response = 0x1000;
    EXPECT_EQ(alloc.send(fd()), EFAULT);
}

TEST_F(WriteTest, UnknownCommands) {
    EXPECT_EQ(alloc_pd(0xfe).send(fd()), EOPNOTSUPP);
    EXPECT_EQ(alloc_pd(1u << 30).send(fd()), EINVAL);
}

TEST_F(WriteTest, ADeviceCanBeOpenedWithoutTheIoctl) {
    const int node = open_node();
    ASSERT_GE(node, 0) << strerror(errno);
    EXPECT_EQ(alloc_pd().send(node), EINVAL) << "it has no context yet";

    mlx5_ib_alloc_ucontext_req_v2 driver{};
    driver.lib_caps = MLX5_LIB_CAP_4K_UAR | MLX5_LIB_CAP_DYN_UAR;
    driver.max_cqe_version = 1;
    using Answer = ib_uverbs_get_context_resp;
    const Command get =
        Command(IB_USER_VERBS_CMD_GET_CONTEXT, sizeof(Answer) + sizeof(mlx5_ib_alloc_ucontext_resp))
            .with(ib_uverbs_get_context{})
            .with(driver);
    ASSERT_EQ(get.send(node), 0);
    EXPECT_EQ(get.answer<mlx5_ib_alloc_ucontext_resp>(sizeof(Answer)).cqe_version, 1);
    EXPECT_GT(get.answer<Answer>().num_comp_vectors, 0u);
    const auto events = static_cast<int>(get.answer<Answer>().async_fd);
    EXPECT_EQ(fcntl(events, F_SETFL, O_NONBLOCK), 0);
    ib_uverbs_async_event_desc event{};
    EXPECT_EQ(::read(events, &event, sizeof event), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_EQ(get.send(node), EINVAL) << "it has one";

    const Command alloc = alloc_pd();
    ASSERT_EQ(alloc.send(node), 0);
    EXPECT_EQ(dealloc_pd(alloc).send(node), 0);
    EXPECT_EQ(::close(events), 0);
    EXPECT_EQ(::close(node), 0);
}

} // namespace
} // namespace test
