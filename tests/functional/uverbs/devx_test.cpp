// SPDX-License-Identifier: BSD-3-Clause
// DevX: what programs may request from the firmware, and what they get.
#include "tests/functional/uverbs/devx_queues.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace test {
namespace {

constexpr uint16_t kCurrent = 1; // op_mod of QUERY_HCA_CAP: general, current values

TEST_F(DevxTest, CapabilitiesAreForEveryContext) {
    const Request query_caps = REQUEST(QUERY_HCA_CAP, query_hca_cap, kCurrent);
    const Field users = inside({128, 0}, PRM(cmd_hca_cap, log_max_uctx));
    EXPECT_EQ(general(query_caps).error, 0);
    EXPECT_GT(last.answer.get(users), 0u);
    EXPECT_EQ(last.answer.get(inside({128, 0}, PRM(cmd_hca_cap, port_type))), 1u) << "Ethernet";
}

TEST_F(DevxTest, OnlyGeneralCommandsAreGeneral) {
    EXPECT_EQ(general(REQUEST(QUERY_VPORT_STATE, query_vport_state)).error, 0);
    EXPECT_EQ(general(REQUEST(ALLOC_PD, alloc_pd)).error, EINVAL);
    EXPECT_EQ(general(REQUEST(TEARDOWN_HCA, teardown_hca)).error, EINVAL);
    EXPECT_EQ(general(REQUEST(CREATE_UCTX, create_uctx)).error, EINVAL);
    // Allowed, but this device does not have such a command.
    EXPECT_EQ(general(Request(0xbff, 64)).error, EREMOTEIO);
    EXPECT_EQ(last.status(), FwStatus::bad_operation);
}

TEST_F(DevxTest, ObjectsAreMadeQueriedAndDestroyed) {
    EXPECT_FALSE(make(REQUEST(QUERY_ISSI, query_issi)));
    EXPECT_EQ(last.error, EINVAL) << "makes nothing";
    const DevxHandle tis = make_tis();
    ASSERT_TRUE(tis) << std::strerror(last.error);
    const uint32_t tisn = last.number();
    const auto query_tis = [&](uint32_t number) {
        return REQUEST(QUERY_TIS, query_tis).number(number);
    };
    EXPECT_EQ(query(tis.get(), query_tis(tisn)).error, 0);
    EXPECT_EQ(last.answer.get(inside(PRM(query_tis_out, tis_context), PRM(tisc, transport_domain))),
              tdn);
    EXPECT_EQ(query(tis.get(), query_tis(tisn + 1)).error, EINVAL) << "another object";
    EXPECT_EQ(query(domain.get(), query_tis(tisn)).error, EINVAL) << "by another handle";
    EXPECT_EQ(query(tis.get(), REQUEST(MODIFY_TIS, modify_tis).number(tisn)).error, EINVAL);
    EXPECT_EQ(modify(tis.get(), REQUEST(MODIFY_TIS, modify_tis).number(tisn)).error, 0);
    EXPECT_EQ(modify(tis.get(), query_tis(tisn)).error, EINVAL);
}

/// mlx5's kernel driver passes these commands on.
TEST_F(DevxTest, OfObjectsThatDoNotExistTheFirmwareSaysSo) {
    for (const Request& request :
         {REQUEST(CREATE_SCHEDULING_ELEMENT, create_scheduling_element),
          REQUEST(SET_L2_TABLE_ENTRY, set_l2_table_entry), REQUEST(ATTACH_TO_MCG, attach_to_mcg),
          REQUEST(CREATE_PSV, create_psv).set(PRM(create_psv_in, num_psv), 1)}) {
        EXPECT_FALSE(make(request));
        EXPECT_EQ(last.error, EREMOTEIO);
        EXPECT_EQ(last.status(), FwStatus::bad_operation);
    }
    EXPECT_FALSE(make(REQUEST(CREATE_PSV, create_psv).set(PRM(create_psv_in, num_psv), 2)));
    EXPECT_EQ(last.error, EINVAL) << "an object is one";
    EXPECT_EQ(general(REQUEST(QUERY_CONG_STATISTICS, query_cong_statistics)).error, EREMOTEIO);
}

TEST_F(DevxTest, FilesAreOfTheContextThatMadeThem) {
    const ContextHandle other = open_devx();
    ASSERT_TRUE(other);
    const DevxHandle tis = make_tis();
    const Request request = REQUEST(QUERY_TIS, query_tis).number(last.number());
    mlx5dv_devx_cmd_comp* const answers = mlx5dv_devx_create_cmd_comp(other.get());
    ASSERT_TRUE(answers) << std::strerror(errno);
    EXPECT_EQ(mlx5dv_devx_obj_query_async(tis.get(), request.in.data(), request.in.size(), 512, 1,
                                          answers),
              EBADF);
    mlx5dv_devx_destroy_cmd_comp(answers);
    // libmlx5 subscribes through the channel's context: here with another one's descriptor.
    mlx5dv_devx_event_channel* const channel = mlx5dv_devx_create_event_channel(
        context.get(), MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
    mlx5dv_devx_event_channel* const others = mlx5dv_devx_create_event_channel(
        other.get(), MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
    ASSERT_TRUE(channel && others);
    uint16_t port_change = 9;
    std::swap(channel->fd, others->fd);
    EXPECT_EQ(
        mlx5dv_devx_subscribe_devx_event(channel, nullptr, sizeof port_change, &port_change, 1),
        EBADF);
    std::swap(channel->fd, others->fd);
    EXPECT_EQ(
        mlx5dv_devx_subscribe_devx_event(channel, nullptr, sizeof port_change, &port_change, 1), 0);
    mlx5dv_devx_destroy_event_channel(others);
    mlx5dv_devx_destroy_event_channel(channel);
}

TEST_F(DevxTest, WhatIsUsedStays) {
    DevxHandle tis = make_tis();
    ASSERT_TRUE(tis);
    mlx5dv_devx_obj* const used = domain.release();
    EXPECT_NE(mlx5dv_devx_obj_destroy(used), 0);
    tis.reset();
    EXPECT_EQ(mlx5dv_devx_obj_destroy(used), 0);
}

TEST_F(DevxTest, AUserHasHisObjectsToHimself) {
    const ContextHandle other = open_devx();
    ASSERT_TRUE(other);
    EXPECT_FALSE(make(REQUEST(CREATE_TIS, create_tis)
                          .set(inside(PRM(create_tis_in, ctx), PRM(tisc, transport_domain)), tdn),
                      other.get()));
    EXPECT_EQ(last.error, EREMOTEIO);
    EXPECT_EQ(last.status(), FwStatus::bad_resource);
    // A PD of verbs also belongs to its context.
    ibv_pd* const foreign = ibv_alloc_pd(other.get());
    ASSERT_TRUE(foreign);
    mlx5dv_pd dv_pd{};
    mlx5dv_obj object{};
    object.pd = {foreign, &dv_pd};
    ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_PD), 0);
    const DevxHandle cq = make(cq_request(0, 1));
    ASSERT_TRUE(cq);
    pdn = dv_pd.pdn;
    EXPECT_FALSE(make(rq_request(last.number(), 2, 3)));
    EXPECT_EQ(last.status(), FwStatus::bad_resource);
    EXPECT_EQ(ibv_dealloc_pd(foreign), 0);
}

TEST_F(DevxTest, UmemsHoldRingsAndStayWhileTheyDo) {
    DevxHandle cq = make(cq_request(0, 1));
    ASSERT_TRUE(cq) << std::strerror(last.error);
    mlx5dv_devx_umem* const used = umem.release();
    EXPECT_NE(mlx5dv_devx_umem_dereg(used), 0);
    cq.reset();
    EXPECT_EQ(mlx5dv_devx_umem_dereg(used), 0);
}

TEST_F(DevxTest, RingsAreInsideTheirUmem) {
    EXPECT_TRUE(make(cq_request(0, 1)));
    EXPECT_FALSE(make(cq_request(0, 1).set({0x280, 64}, 16 * kPage - 64)));
    EXPECT_EQ(last.error, EREMOTEIO);
    EXPECT_FALSE(make(cq_request(0, 1).set({0x2c0, 32}, 0xabcde)));
    EXPECT_EQ(last.error, EREMOTEIO);
    EXPECT_FALSE(
        make(cq_request(0, 1).set({0x2c0, 32}, 0).set(PRM(create_cq_in, cq_umem_valid), 0)))
        << "programs have no bus addresses";
}

TEST_F(DevxTest, UmemsMayBeginAnywhereButNotTheirRings) {
    umem.reset(
        mlx5dv_devx_umem_reg(context.get(), page(0) + 1, 16 * kPage - 1, IBV_ACCESS_LOCAL_WRITE));
    ASSERT_TRUE(umem) << std::strerror(errno);
    const auto cq_at = [&](uint64_t ring, uint64_t record) {
        return make(cq_request(0, 1)
                        .set(inside(PRM(create_cq_in, cq_context), PRM(cqc, dbr_addr)), record)
                        .set({0x280, 64}, ring));
    };
    EXPECT_FALSE(cq_at(0, kPage));
    EXPECT_EQ(last.status(), FwStatus::bad_parameter) << "the ring";
    EXPECT_FALSE(cq_at(kPage - 1, 8 * kPage));
    EXPECT_EQ(last.status(), FwStatus::bad_parameter) << "the record";
}

TEST_F(DevxTest, UmemsNeedMemoryAndSense) {
    errno = 0;
    EXPECT_FALSE(mlx5dv_devx_umem_reg(context.get(), page(0), 0, IBV_ACCESS_LOCAL_WRITE));
    EXPECT_EQ(errno, EINVAL);
    EXPECT_FALSE(mlx5dv_devx_umem_reg(context.get(), page(0), kPage, IBV_ACCESS_REMOTE_WRITE));
    EXPECT_EQ(errno, EINVAL);
    EXPECT_FALSE(mlx5dv_devx_umem_reg(context.get(), page(0), kPage, IBV_ACCESS_MW_BIND));
    EXPECT_EQ(errno, EINVAL);
    const UmemHandle relaxed(mlx5dv_devx_umem_reg(
        context.get(), page(0), kPage, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
    EXPECT_TRUE(relaxed) << std::strerror(errno);
    void* const nowhere = reinterpret_cast<void*>(uintptr_t{1} << 46);
    EXPECT_FALSE(mlx5dv_devx_umem_reg(context.get(), nowhere, kPage, IBV_ACCESS_LOCAL_WRITE));
    EXPECT_EQ(errno, EFAULT);
    uint32_t none = 0;
    EXPECT_NE(mlx5dv_devx_query_eqn(context.get(), 0xffff, &none), 0);
}

TEST_F(DevxTest, AVerbsPdStaysWhileCommandsUseIt) {
    const DevxHandle cq = make(cq_request(0, 1));
    ASSERT_TRUE(cq);
    DevxHandle rq = make(rq_request(last.number(), 2, 3));
    ASSERT_TRUE(rq) << std::strerror(last.error);
    ibv_pd* const used = pd.release();
    EXPECT_NE(ibv_dealloc_pd(used), 0);
    rq.reset();
    EXPECT_EQ(ibv_dealloc_pd(used), 0);
}

TEST_F(DevxTest, ClosingTakesEverythingAlong) {
    DevxHandle cq = make(cq_request(0, 1));
    ASSERT_TRUE(cq);
    const ContextHandle other = open_devx();
    ASSERT_TRUE(other);
    EXPECT_TRUE(make(REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain), other.get()));
}

TEST_F(DevxTest, UsersThatHaveGoneMakeRoomForOthers) {
    constexpr int kUsers = 1024; // at the same time
    for (int i = 0; i <= kUsers; i++)
        ASSERT_TRUE(open_devx()) << i;
}

TEST_F(DevxTest, SteeringMemoryStaysWhileARegionIsInIt) {
    constexpr size_t kBytes = 4096;
    ibv_alloc_dm_attr wanted{};
    wanted.length = kBytes;
    mlx5dv_alloc_dm_attr kind{};
    kind.type = MLX5DV_DM_TYPE_STEERING_SW_ICM;
    ibv_dm* const memory = mlx5dv_alloc_dm(context.get(), &wanted, &kind);
    ASSERT_TRUE(memory) << std::strerror(errno);
    MrHandle region(
        ibv_reg_dm_mr(pd.get(), memory, 0, kBytes, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE));
    ASSERT_TRUE(region) << std::strerror(errno);
    ASSERT_EQ(ibv_free_dm(memory), EBUSY);
    region.reset();
    EXPECT_EQ(ibv_free_dm(memory), 0);
}

/// Steering memory and its address in the device; null, with the reason in errno, if refused.
class SteeringMemory {
  public:
    SteeringMemory(ibv_context* context, size_t length, uint32_t log_alignment = 0,
                   mlx5_ib_uapi_dm_type type = MLX5_IB_UAPI_DM_TYPE_STEERING_SW_ICM) {
        ibv_alloc_dm_attr wanted{};
        wanted.length = length;
        wanted.log_align_req = log_alignment;
        mlx5dv_alloc_dm_attr kind{};
        kind.type = static_cast<mlx5dv_alloc_dm_type>(type);
        memory_.reset(mlx5dv_alloc_dm(context, &wanted, &kind));
    }
    [[nodiscard]] ibv_dm* get() const { return memory_.get(); }
    [[nodiscard]] uint64_t address() const {
        mlx5dv_dm dm{};
        dm.comp_mask = MLX5DV_DM_MASK_REMOTE_VA;
        mlx5dv_obj object{};
        object.dm = {memory_.get(), &dm};
        EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_DM), 0);
        return dm.remote_va;
    }

  private:
    struct Free {
        void operator()(ibv_dm* memory) const { ibv_free_dm(memory); }
    };
    std::unique_ptr<ibv_dm, Free> memory_;
};

/// As mlx5_ib does; regions are of what was asked for.
TEST_F(DevxTest, SteeringMemoryIsRoundedUp) {
    for (const size_t length : {size_t{64}, size_t{3 * 4096}, size_t{5 * 4096 + 8}}) {
        SCOPED_TRACE(length);
        const SteeringMemory memory(context.get(), length);
        ASSERT_TRUE(memory.get()) << std::strerror(errno);
        const auto region = [&](size_t bytes, int access) {
            return MrHandle(ibv_reg_dm_mr(pd.get(), memory.get(), 0, bytes,
                                          IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | access));
        };
        EXPECT_TRUE(region(length, IBV_ACCESS_REMOTE_WRITE)) << std::strerror(errno);
        EXPECT_FALSE(region(length + 1, 0));
        EXPECT_EQ(errno, EINVAL);
        EXPECT_FALSE(region(length, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
        EXPECT_EQ(errno, EINVAL);
    }
    EXPECT_FALSE(SteeringMemory(context.get(), 0).get());
    EXPECT_EQ(errno, EINVAL);
    EXPECT_FALSE(SteeringMemory(context.get(), ~size_t{0}).get());
    EXPECT_EQ(errno, ENOMEM);
}

TEST_F(DevxTest, SteeringMemoryIsAligned) {
    const SteeringMemory first(context.get(), 4096), aligned(context.get(), 4096, 16),
        small(context.get(), 4096, 1);
    ASSERT_TRUE(first.get() && aligned.get() && small.get()) << std::strerror(errno);
    EXPECT_EQ(aligned.address() % (1u << 16), 0u);
    EXPECT_EQ(small.address(), first.address() + 4096);
    EXPECT_FALSE(SteeringMemory(context.get(), 4096, 100).get());
    EXPECT_EQ(errno, ENOMEM) << "only the first block is aligned so much";
}

/// Format 0, which this port has, knows no patterns of header edits.
TEST_F(DevxTest, PatternsOfEditsNeedASteeringFormat) {
    EXPECT_FALSE(
        SteeringMemory(context.get(), 4096, 0, MLX5_IB_UAPI_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM)
            .get());
    EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(DevxTest, AnswersToAsynchronousQueriesComeByAFile) {
    mlx5dv_devx_cmd_comp* const file = mlx5dv_devx_create_cmd_comp(context.get());
    ASSERT_TRUE(file) << std::strerror(errno);
    const DevxHandle tis = make_tis();
    const uint32_t tisn = last.number();
    const Request request = REQUEST(QUERY_TIS, query_tis).number(tisn);
    constexpr size_t kOut = PRM_BYTES(query_tis_out);
    for (const uint64_t id : {7u, 8u})
        ASSERT_EQ(mlx5dv_devx_obj_query_async(tis.get(), request.in.data(), request.in.size(), kOut,
                                              id, file),
                  0);
    for (const uint64_t id : {7u, 8u}) {
        std::array<uint64_t, 64> room{};
        auto* const answer = reinterpret_cast<mlx5dv_devx_async_cmd_hdr*>(room.data());
        ASSERT_EQ(mlx5dv_devx_get_async_cmd_comp(file, answer, sizeof *answer + kOut), 0);
        EXPECT_EQ(answer->wr_id, id);
        last.answer.out.assign(answer->out_data, answer->out_data + kOut);
        EXPECT_EQ(last.status(), FwStatus::ok);
        EXPECT_EQ(
            last.answer.get(inside(PRM(query_tis_out, tis_context), PRM(tisc, transport_domain))),
            tdn);
    }
    mlx5dv_devx_destroy_cmd_comp(file);
}

TEST_F(DevxQueueTest, FramesPassQueuesMadeByCommands) {
    lead_to_tir();
    post_receive();
    const Frame frame = UdpFrame{.size = 200, .seed = 5}.bytes();
    send(frame);
    ASSERT_TRUE(wait_cqe(kSendCq));
    ASSERT_TRUE(wait_cqe(kReceiveCq));
    EXPECT_EQ(Frame(buffer.begin() + 2048, buffer.begin() + 2048 + 200), frame);
}

/// A kernel pins the pages of a umem: the device then finds no WQE there. softhca finds no memory.
/// Either way the queue stops, nobody crashes, and others work as before.
TEST_F(DevxQueueTest, AUmemThatIsTakenAwayEndsItsQueueOnly) {
    void* const region =
        mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(region, MAP_FAILED);
    UmemHandle other(mlx5dv_devx_umem_reg(context.get(), region, kPage, IBV_ACCESS_LOCAL_WRITE));
    ASSERT_TRUE(other) << std::strerror(errno);
    constexpr Field kWq = inside(PRM(create_sq_in, ctx), PRM(sqc, wq));
    sq.reset();
    ASSERT_NO_FATAL_FAILURE(use_sq(sq_request(number_of_send_cq, tisn, 0, kSendRecord)
                                       .set(inside(kWq, Field{0x160, 32}), other->umem_id)));
    ASSERT_EQ(mprotect(region, kPage, PROT_NONE), 0);
    send(Frame(100, 0x5a)); // only the doorbell matters: the WQE is elsewhere
    constexpr uint32_t kError = 3;
    const Field state = inside(PRM(query_sq_out, sq_context), PRM(sqc, state));
    EXPECT_TRUE(wait_until([&] {
        return query(sq.get(), REQUEST(QUERY_SQ, query_sq).number(sqn)).answer.get(state) == kError;
    }));
    ASSERT_EQ(mprotect(region, kPage, PROT_READ | PROT_WRITE), 0);
    sq.reset();
    other.reset();
    EXPECT_EQ(munmap(region, kPage), 0);
    expect_working(context.get(), pd.get());
}

TEST_F(DevxQueueTest, KeysAreMadeOfKeys) {
    lead_to_tir();
    post_receive();
    const Frame frame = UdpFrame{.size = 200, .seed = 6}.bytes();
    std::copy(frame.begin(), frame.begin() + 70, buffer.begin() + 1024);
    std::copy(frame.begin() + 70, frame.end(), buffer.begin());
    const DevxHandle key = make_indirect_key({{1024, 70}, {0, 130}});
    send(indirect_key, 0, 200);
    ASSERT_TRUE(wait_cqe(kSendCq));
    ASSERT_TRUE(wait_cqe(kReceiveCq));
    EXPECT_EQ(Frame(buffer.begin() + 2048, buffer.begin() + 2048 + 200), frame);
}

TEST_F(DevxQueueTest, ATirStaysWhileAFlowLeadsThere) {
    lead_to_tir();
    mlx5dv_devx_obj* const used = tir.release();
    EXPECT_NE(mlx5dv_devx_obj_destroy(used), 0);
    flow.reset();
    EXPECT_EQ(mlx5dv_devx_obj_destroy(used), 0);
}

TEST_F(DevxQueueTest, CompletionsAreEvents) {
    using Channel = mlx5dv_devx_event_channel;
    Channel* const channel = mlx5dv_devx_create_event_channel(
        context.get(), MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
    ASSERT_TRUE(channel) << std::strerror(errno);
    uint16_t completion = 0, unknown = 0x33;
    ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, receive_cq.get(), sizeof completion,
                                               &completion, 0xc0ffee),
              0);
    EXPECT_NE(
        mlx5dv_devx_subscribe_devx_event(channel, receive_cq.get(), sizeof unknown, &unknown, 1),
        0);
    uint16_t port_change = 9;
    EXPECT_EQ(
        mlx5dv_devx_subscribe_devx_event(channel, nullptr, sizeof port_change, &port_change, 2), 0);
    const int full = eventfd(0, 0); // writing to it would block
    const uint64_t most = UINT64_MAX - 1;
    ASSERT_EQ(write(full, &most, sizeof most), ssize_t{sizeof most});
    EXPECT_EQ(mlx5dv_devx_subscribe_devx_event_fd(channel, full, receive_cq.get(), 0), 0);
    const int eventfd_number = eventfd(0, EFD_NONBLOCK);
    EXPECT_EQ(mlx5dv_devx_subscribe_devx_event_fd(channel, eventfd_number, receive_cq.get(), 0), 0);
    const int file = memfd_create("not-an-eventfd", MFD_CLOEXEC);
    EXPECT_EQ(mlx5dv_devx_subscribe_devx_event_fd(channel, file, receive_cq.get(), 0), EINVAL);
    lead_to_tir();
    post_receive();
    arm(receive_cqn);
    send(UdpFrame{}.bytes());
    ASSERT_TRUE(wait_cqe(kReceiveCq));
    pollfd waiting{.fd = channel->fd, .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&waiting, 1, 10000), 1);
    std::array<uint64_t, 16> event{}; // with room for the data that were not requested
    EXPECT_EQ(mlx5dv_devx_get_event(channel,
                                    reinterpret_cast<mlx5dv_devx_async_event_hdr*>(event.data()),
                                    sizeof event),
              ssize_t{sizeof event[0]});
    EXPECT_EQ(event[0], 0xc0ffeeu);
    uint64_t times = 0;
    EXPECT_TRUE(wait_until([&] { return read(eventfd_number, &times, sizeof times) > 0; }));
    EXPECT_EQ(times, 1u);
    EXPECT_EQ(lseek(file, 0, SEEK_END), 0) << "nothing was written there";
    EXPECT_EQ(read(full, &times, sizeof times), ssize_t{sizeof times});
    EXPECT_GE(times, most); // a kernel may count one more
    for (const int number : {file, full, eventfd_number})
        close(number);
    mlx5dv_devx_destroy_event_channel(channel);
}

} // namespace
} // namespace test
