// SPDX-License-Identifier: BSD-3-Clause
// The ioctl itself, with requests that no library makes. Nothing may crash, and the device must
// still work afterwards.
#include "tests/functional/uverbs/requests.hpp"
#include "tests/functional/uverbs/verbs.hpp"

#include <algorithm>
#include <fcntl.h>
#include <random>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <span>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace test {
namespace {

TEST_F(HostileTest, MalformedHeaders) {
    EXPECT_EQ(ioctl(fd(), RDMA_VERBS_IOCTL, nullptr), -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(ioctl(fd(), RDMA_VERBS_IOCTL, 0x1000), -1);
    EXPECT_EQ(errno, EFAULT);
    Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
    const uint64_t port = 1;
    ib_uverbs_query_port_resp_ex answer{};
    request.in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, &port, sizeof port);
    request.pointer(UVERBS_ATTR_QUERY_PORT_RESP, reinterpret_cast<uint64_t>(&answer),
                    sizeof answer);
    EXPECT_EQ(request.send(fd()), 0);
    request.header().length--;
    EXPECT_EQ(request.send(fd()), EINVAL);
    request.header().length++;
    request.header().reserved1 = 1;
    EXPECT_EQ(request.send(fd()), EPROTONOSUPPORT);
    request.header().reserved1 = 0;
    request.header().driver_id++;
    EXPECT_EQ(request.send(fd()), EINVAL);
    request.header().driver_id--;
    request.header().num_attrs = 0xffff;
    EXPECT_EQ(request.send(fd()), EINVAL);
}

TEST_F(HostileTest, UnknownMethodsAndCommands) {
    EXPECT_EQ(Request(0x7777, 0).send(fd()), EPROTONOSUPPORT);
    EXPECT_EQ(Request(UVERBS_OBJECT_DEVICE, 0x77).send(fd()), EPROTONOSUPPORT);
    EXPECT_EQ(write_command(0x7777, nullptr, 0, nullptr, 0).send(fd()), EINVAL);
    EXPECT_EQ(write_command(0x77, nullptr, 0, nullptr, 0).send(fd()), EOPNOTSUPP);
    EXPECT_EQ(
        write_command(IB_USER_VERBS_CMD_FLAG_EXTENDED | 0x77, nullptr, 0, nullptr, 0).send(fd()),
        EOPNOTSUPP);
}

TEST_F(HostileTest, UnknownAttributesAreRefusedOnlyIfMandatory) {
    const uint64_t port = 1;
    ib_uverbs_query_port_resp_ex answer{};
    const auto query = [&] {
        Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
        request.in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, &port, sizeof port).mandatory();
        request.pointer(UVERBS_ATTR_QUERY_PORT_RESP, reinterpret_cast<uint64_t>(&answer),
                        sizeof answer);
        return request;
    };
    constexpr uint16_t kDriver = 1u << UVERBS_ID_NS_SHIFT;
    for (const uint16_t unknown :
         std::initializer_list<uint16_t>{7, 40, 0xfff, kDriver, kDriver + 40, 2 * kDriver}) {
        EXPECT_EQ(query().in(unknown, &port, sizeof port).send(fd()), 0) << unknown;
        EXPECT_EQ(query().in(unknown, &port, sizeof port).mandatory().send(fd()), EPROTONOSUPPORT)
            << unknown;
    }
    EXPECT_EQ(query().in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, &port, sizeof port).send(fd()), EINVAL)
        << "twice the same";
}

TEST_F(HostileTest, HandlesHaveNoLength) {
    std::array<uint8_t, 64> memory{};
    const MrHandle mr(ibv_reg_mr(pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
    ASSERT_TRUE(mr);
    const auto query = [&](uint16_t length) {
        uint32_t lkey = 0, rkey = 0;
        uint64_t bytes = 0;
        Request request(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
        request.pointer(UVERBS_ATTR_QUERY_MR_HANDLE, mr->handle, length);
        request.pointer(UVERBS_ATTR_QUERY_MR_RESP_LKEY, reinterpret_cast<uint64_t>(&lkey),
                        sizeof lkey);
        request.pointer(UVERBS_ATTR_QUERY_MR_RESP_RKEY, reinterpret_cast<uint64_t>(&rkey),
                        sizeof rkey);
        request.pointer(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, reinterpret_cast<uint64_t>(&bytes),
                        sizeof bytes);
        const int error = request.send(fd());
        EXPECT_EQ(lkey, error ? 0 : mr->lkey);
        return error;
    };
    EXPECT_EQ(query(0), 0);
    EXPECT_EQ(query(sizeof(uint32_t)), EINVAL);
}

/// QUERY_PORT, whose attributes a test changes.
struct PortQuery {
    uint64_t port = 1;
    std::array<uint8_t, sizeof(ib_uverbs_query_port_resp_ex) + 8> answer{};

    [[nodiscard]] Request request() const {
        return {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT};
    }
    Request& ask(Request& request, uint16_t size = sizeof(uint64_t)) const {
        return request.in(UVERBS_ATTR_QUERY_PORT_PORT_NUM, &port, size);
    }
    Request& answer_to(Request& request, size_t size = sizeof(ib_uverbs_query_port_resp_ex)) const {
        return request.pointer(UVERBS_ATTR_QUERY_PORT_RESP,
                               reinterpret_cast<uint64_t>(answer.data()),
                               static_cast<uint16_t>(size));
    }
};

TEST_F(HostileTest, WhatAMethodNeedsIsThere) {
    const PortQuery query;
    Request neither = query.request(), question = query.request(), answer = query.request();
    EXPECT_EQ(neither.send(fd()), EINVAL);
    EXPECT_EQ(query.ask(question).send(fd()), EINVAL);
    EXPECT_EQ(query.answer_to(answer).send(fd()), EINVAL);
    EXPECT_EQ(query.answer_to(query.ask(neither)).send(fd()), 0);
}

TEST_F(HostileTest, AttributesHaveTheLengthOfTheirType) {
    PortQuery query;
    for (const uint16_t length : {0, 4, 9, 16}) {
        Request request = query.request();
        EXPECT_EQ(query.answer_to(query.ask(request, length)).send(fd()), EINVAL) << length;
    }
    Request shorter = query.request(), longer = query.request();
    EXPECT_EQ(query.answer_to(query.ask(shorter), 8).send(fd()), EINVAL);
    query.answer.fill(0xff);
    EXPECT_EQ(query.answer_to(query.ask(longer), query.answer.size()).send(fd()), 0)
        << "a struct that may grow";
    EXPECT_EQ(query.answer.back(), 0);

    uint64_t number = 0;
    for (const uint16_t length : {sizeof(uint16_t), sizeof(uint64_t)}) {
        Request request(UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY);
        request.pointer(MLX5_IB_ATTR_QUERY_PD_HANDLE, pd->handle, 0);
        request.pointer(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, reinterpret_cast<uint64_t>(&number),
                        length);
        EXPECT_EQ(request.send(fd()), EINVAL) << length;
    }
}

TEST_F(HostileTest, ReservedFieldsOfAttributesAreZero) {
    const PortQuery query;
    Request question = query.request(), answer = query.request();
    EXPECT_EQ(query.answer_to(query.ask(question).reserved()).send(fd()), EINVAL);
    EXPECT_EQ(query.answer_to(query.ask(answer)).reserved().send(fd()), EINVAL);

    uint32_t number = 0;
    Request pd_query(UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY);
    pd_query.pointer(MLX5_IB_ATTR_QUERY_PD_HANDLE, pd->handle, 0).reserved();
    pd_query.pointer(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, reinterpret_cast<uint64_t>(&number),
                     sizeof number);
    EXPECT_EQ(pd_query.send(fd()), EINVAL);
}

TEST_F(HostileTest, CapabilitiesThatNoKernelKnowsAreRefused) {
    const auto create = [&](uint32_t unknown, size_t size) {
        struct {
            ib_uverbs_qp_cap cap{};
            uint32_t unknown = 0;
        } wanted;
        wanted.unknown = unknown;
        ib_uverbs_qp_cap given{};
        const uint64_t type = IB_UVERBS_QPT_RAW_PACKET, user = 0;
        uint32_t number = 0;
        Request request(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
        request.pointer(UVERBS_ATTR_CREATE_QP_HANDLE, 0, 0);
        request.in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, &user, sizeof user);
        request.in(UVERBS_ATTR_CREATE_QP_CAP, &wanted, static_cast<uint16_t>(size));
        request.in(UVERBS_ATTR_CREATE_QP_TYPE, &type, sizeof type);
        request.pointer(UVERBS_ATTR_CREATE_QP_RESP_CAP, reinterpret_cast<uint64_t>(&given),
                        sizeof given);
        request.pointer(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, reinterpret_cast<uint64_t>(&number),
                        sizeof number);
        return request.send(fd());
    };
    EXPECT_EQ(create(1, sizeof(ib_uverbs_qp_cap) + 4), EOPNOTSUPP);
    EXPECT_EQ(create(0, sizeof(ib_uverbs_qp_cap) + 4), ENOENT) << "there is no PD";
    EXPECT_EQ(create(0, sizeof(ib_uverbs_qp_cap) - 4), EINVAL);
}

TEST_F(HostileTest, CommandsThatSayMoreThanIsKnown) {
    constexpr uint32_t kQueryDevice =
        IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE;
    // The structs that are known, and one word behind them.
    std::array<uint64_t, sizeof(ib_uverbs_ex_query_device) / 8 + 1> device_query{};
    std::array<uint64_t, sizeof(ib_uverbs_query_port) / 8 + 1> port_query{0, 1};
    ib_uverbs_ex_query_device_resp device{};
    ib_uverbs_query_port_resp port{};
    for (const auto& [more, error] : {std::pair{0u, 0}, {1u, EOPNOTSUPP}}) {
        device_query.back() = port_query.back() = more;
        EXPECT_EQ(
            write_command(kQueryDevice, &device_query, sizeof device_query, &device, sizeof device)
                .send(fd()),
            error);
        EXPECT_EQ(write_command(IB_USER_VERBS_CMD_QUERY_PORT, &port_query, sizeof port_query, &port,
                                sizeof port)
                      .send(fd()),
                  error);
    }
}

TEST_F(HostileTest, FlowTypesThatDoNotExist) {
    const auto create = [&](uint8_t type, uint8_t reserved, uint16_t length) {
        const std::array<uint8_t, 64> mask{};
        const uint16_t priority = 0;
        const uint8_t criteria = 0;
        Request request(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE);
        request.pointer(MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, 0, 0);
        request.in(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, mask.data(), sizeof mask);
        request.in(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE, &priority, length);
        request.selects(type, reserved);
        request.in(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, &criteria, sizeof criteria);
        const int error = request.send(fd());
        if (error) return error;
        Request destroy(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY);
        destroy.pointer(MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE, request.header().attrs[0].data,
                        0);
        return destroy.send(fd());
    };
    EXPECT_EQ(create(MLX5_IB_FLOW_TYPE_NORMAL, 0, sizeof(uint16_t)), 0);
    EXPECT_EQ(create(MLX5_IB_FLOW_TYPE_MC_DEFAULT + 1, 0, 0), EOPNOTSUPP);
    EXPECT_EQ(create(MLX5_IB_FLOW_TYPE_NORMAL, 1, sizeof(uint16_t)), EINVAL);
    EXPECT_EQ(create(MLX5_IB_FLOW_TYPE_NORMAL, 0, 0), EINVAL);
    EXPECT_EQ(create(MLX5_IB_FLOW_TYPE_ALL_DEFAULT, 0, sizeof(uint16_t)), EINVAL);
}

TEST_F(HostileTest, BadPointers) {
    const ib_uverbs_query_device in{};
    const void* const from = &in;
    const auto query = [&](uint16_t in_size, void* to, uint16_t out_size) {
        return write_command(IB_USER_VERBS_CMD_QUERY_DEVICE, from, in_size, to, out_size)
            .send(fd());
    };
    ib_uverbs_query_device_resp out{};
    EXPECT_EQ(query(sizeof in, reinterpret_cast<void*>(0x1000), 4096), EFAULT);
    EXPECT_EQ(query(sizeof in, &out, 8), ENOSPC);
    EXPECT_EQ(query(0, &out, sizeof out), ENOSPC);
    EXPECT_EQ(query(sizeof in, &out, sizeof out), 0);
    EXPECT_EQ(out.phys_port_cnt, 1);
}

TEST_F(HostileTest, MemoryThatMustNotBeTouched) {
    constexpr size_t kPage = 4096;
    void* const memory =
        mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* const in = static_cast<ib_uverbs_query_device*>(memory);
    *in = {};
    ib_uverbs_query_device_resp out{};
    const auto query = [&](void* to) {
        return write_command(IB_USER_VERBS_CMD_QUERY_DEVICE, in, sizeof out, to, sizeof out)
            .send(fd());
    };
    EXPECT_EQ(query(&out), 0);
    ASSERT_EQ(mprotect(memory, kPage, PROT_READ), 0);
    EXPECT_EQ(query(&out), 0);
    EXPECT_EQ(query(memory), EFAULT) << "written where the program may only read";
    EXPECT_EQ(ioctl(fd(), RDMA_VERBS_IOCTL, memory), -1);
    ASSERT_EQ(mprotect(memory, kPage, PROT_NONE), 0);
    EXPECT_EQ(query(&out), EFAULT);
    EXPECT_EQ(query(memory), EFAULT);
    EXPECT_EQ(ioctl(fd(), RDMA_VERBS_IOCTL, memory), -1);
    EXPECT_EQ(errno, EFAULT);
    munmap(memory, kPage);
}

TEST_F(HostileTest, CommandsBeforeGetContext) {
    const int fresh = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
    const ib_uverbs_query_device in{};
    ib_uverbs_query_device_resp out{};
    EXPECT_EQ(
        write_command(IB_USER_VERBS_CMD_QUERY_DEVICE, &in, sizeof in, &out, sizeof out).send(fresh),
        EINVAL);
    EXPECT_EQ(close(fresh), 0);
}

TEST_F(HostileTest, NothingIsReadFromADevice) {
    uint64_t room = 0;
    EXPECT_EQ(read(fd(), &room, sizeof room), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(HostileTest, CqOfTooManyEntries) {
    ib_uverbs_create_cq in{};
    in.cqe = 1u << 22;
    in.comp_channel = -1;
    ib_uverbs_create_cq_resp out{};
    EXPECT_EQ(
        write_command(IB_USER_VERBS_CMD_CREATE_CQ, &in, sizeof in, &out, sizeof out).send(fd()),
        EINVAL);
}

TEST_F(HostileTest, HandlesOfNothingOrOfAnotherKind) {
    const std::pair<uint32_t, int> cases[] = {
        {pd->handle, EINVAL}, {0x7777, ENOENT}, {0x7fffffff, ENOENT}, {~0u, ENOENT}};
    for (const auto& [handle, error] : cases) {
        const ib_uverbs_destroy_qp in{.response = 0, .qp_handle = handle, .reserved = 0};
        ib_uverbs_destroy_qp_resp out{};
        EXPECT_EQ(write_command(IB_USER_VERBS_CMD_DESTROY_QP, &in, sizeof in, &out, sizeof out)
                      .send(fd()),
                  error)
            << handle;
    }
}

/// libibverbs passes a rate limit by the extended command only.
TEST_F(HostileTest, EachModifyQpHasItsAttributes) {
    const CqHandle cq = make_cq();
    const QpHandle qp = make_qp(pd.get(), cq.get(), cq.get(), 16);
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(qp.get(), state);
    const auto modify = [&](uint32_t command, uint32_t mask) {
        ib_uverbs_ex_modify_qp in{};
        in.base.qp_handle = qp->handle;
        in.base.attr_mask = mask;
        in.base.qp_state = IBV_QPS_RTS;
        const bool extended = command & IB_USER_VERBS_CMD_FLAG_EXTENDED;
        ib_uverbs_ex_modify_qp_resp out{};
        return write_command(command, &in, extended ? sizeof in : sizeof in.base, &out,
                             extended ? sizeof out : 0)
            .send(fd());
    };
    constexpr uint32_t kExtended = IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP;
    EXPECT_EQ(modify(IB_USER_VERBS_CMD_MODIFY_QP, IBV_QP_STATE), 0);
    EXPECT_EQ(modify(IB_USER_VERBS_CMD_MODIFY_QP, IBV_QP_RATE_LIMIT), EOPNOTSUPP);
    EXPECT_EQ(modify(kExtended, IBV_QP_RATE_LIMIT), 0);
    EXPECT_EQ(modify(kExtended, IBV_QP_RATE_LIMIT << 1), EOPNOTSUPP);
}

/// The bytes of a command that ends in a list.
template <class Head> class Listed {
  public:
    Listed(const Head& head, std::initializer_list<uint32_t> list)
        : bytes_(sizeof head + list.size() * sizeof(uint32_t)) {
        std::memcpy(bytes_.data(), &head, sizeof head);
        std::ranges::copy(std::as_bytes(std::span(list)),
                          reinterpret_cast<std::byte*>(bytes_.data() + sizeof head));
    }
    /// Returns 0 or errno.
    int send(int fd, uint32_t number, void* out, uint16_t out_size) const {
        return write_command(IB_USER_VERBS_CMD_FLAG_EXTENDED | number, bytes_.data(),
                             static_cast<uint16_t>(bytes_.size()), out, out_size)
            .send(fd);
    }

  private:
    std::vector<uint8_t> bytes_;
};

/// Creates an RSS table of two WQs, and destroys it again.
int create_table(int fd, std::initializer_list<uint32_t> list) {
    const ib_uverbs_ex_create_rwq_ind_table head{.comp_mask = 0, .log_ind_tbl_size = 1};
    ib_uverbs_ex_create_rwq_ind_table_resp out{};
    if (const int error =
            Listed(head, list).send(fd, IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, &out, sizeof out))
        return error;
    const ib_uverbs_ex_destroy_rwq_ind_table gone{.comp_mask = 0,
                                                  .ind_tbl_handle = out.ind_tbl_handle};
    return Listed(gone, {}).send(fd, IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL, nullptr, 0);
}

/// Creates a flow of one tunnel spec, whose value and mask begin the list, and destroys it again.
int create_flow(int fd, const ibv_qp& qp, uint32_t type, std::initializer_list<uint32_t> list) {
    constexpr uint16_t kSpec = sizeof(ib_uverbs_flow_spec_hdr) + 2 * sizeof(uint32_t);
    struct Head {
        uint32_t comp_mask = 0, qp_handle;
        uint32_t type = IBV_FLOW_ATTR_NORMAL;
        uint16_t size = kSpec, priority = 0;
        uint8_t specs = 1, reserved[2]{}, port = 1;
        uint32_t flags = 0;
        uint32_t spec_type;
        uint16_t spec_size = kSpec, spec_reserved = 0;
    };
    static_assert(sizeof(Head) == sizeof(ib_uverbs_create_flow) + sizeof(ib_uverbs_flow_spec_hdr));
    const Head head{.qp_handle = qp.handle, .spec_type = type};
    ib_uverbs_create_flow_resp out{};
    if (const int error =
            Listed(head, list).send(fd, IB_USER_VERBS_EX_CMD_CREATE_FLOW, &out, sizeof out))
        return error;
    const ib_uverbs_destroy_flow gone{.comp_mask = 0, .flow_handle = out.flow_handle};
    return Listed(gone, {}).send(fd, IB_USER_VERBS_EX_CMD_DESTROY_FLOW, nullptr, 0);
}

TEST_F(HostileTest, ListsEndWhereTheCommandSays) {
    const CqHandle cq = make_cq();
    ibv_wq_init_attr attributes = wq_attributes(pd.get(), cq.get(), 16);
    const WqHandle wq(ibv_create_wq(context.get(), &attributes));
    ASSERT_TRUE(wq);
    const uint32_t handle = wq->handle;
    EXPECT_EQ(create_table(fd(), {handle, handle}), 0);
    EXPECT_EQ(create_table(fd(), {handle}), ENOSPC);
    EXPECT_EQ(create_table(fd(), {handle, handle, 0, 0}), 0);
    EXPECT_EQ(create_table(fd(), {handle, handle, 1, 0}), EOPNOTSUPP);

    const QpHandle qp = make_qp(pd.get(), cq.get(), cq.get(), 16);
    constexpr uint32_t kVxlan = IBV_FLOW_SPEC_VXLAN_TUNNEL;
    EXPECT_EQ(create_flow(fd(), *qp, kVxlan, {0, 0}), 0);
    EXPECT_EQ(create_flow(fd(), *qp, kVxlan, {0}), ENOSPC);
    EXPECT_EQ(create_flow(fd(), *qp, kVxlan, {0, 0, 0, 0}), 0);
    EXPECT_EQ(create_flow(fd(), *qp, kVxlan, {0, 0, 1, 0}), EOPNOTSUPP);
}

TEST_F(HostileTest, NoVxlanInsideATunnel) {
    const CqHandle cq = make_cq();
    const QpHandle qp = make_qp(pd.get(), cq.get(), cq.get(), 16);
    EXPECT_EQ(create_flow(fd(), *qp, IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_VXLAN_TUNNEL, {0, 0}),
              EINVAL);
}

/// Random bytes instead of each command's structs, from fixed seeds.
TEST_F(HostileTest, RandomCommands) {
    std::mt19937 random(20240607);
    std::vector<uint8_t> in(4096), driver(512), out(4096);
    for (int round = 0; round < 4000; round++) {
        for (auto* bytes : {&in, &driver})
            for (auto& byte : *bytes)
                byte = random() % 4 ? 0 : static_cast<uint8_t>(random());
        uint32_t number = random() % 60;
        // Each would use up a descriptor; memory regions and rings at random addresses, however,
        // are meant to be refused.
        if (number == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL) continue;
        if (random() % 2) number |= IB_USER_VERBS_CMD_FLAG_EXTENDED;
        Request request =
            write_command(number, in.data(), static_cast<uint16_t>(random() % in.size()),
                          out.data(), static_cast<uint16_t>(random() % out.size()));
        request.in(UVERBS_ATTR_UHW_IN, driver.data(),
                   static_cast<uint16_t>(random() % driver.size()));
        (void)request.send(fd());
    }
    // Some will have hit the fixture's own objects.
    (void)pd.release();
    pd.reset(ibv_alloc_pd(context.get()));
    ASSERT_TRUE(pd);
}

TEST_F(HostileTest, RandomMethods) {
    std::mt19937 random(20240608);
    std::vector<uint8_t> bytes(4096);
    for (int round = 0; round < 4000; round++) {
        for (auto& byte : bytes)
            byte = random() % 4 ? 0 : static_cast<uint8_t>(random());
        constexpr uint16_t kDriver = 1u << UVERBS_ID_NS_SHIFT;
        const auto object = static_cast<uint16_t>(random() % 20 + (random() % 2 ? kDriver : 0));
        const auto method = static_cast<uint16_t>(random() % 6 + (random() % 2 ? kDriver : 0));
        if (object == UVERBS_OBJECT_ASYNC_EVENT) continue; // creates descriptors
        Request request(object, method);
        for (unsigned i = 0, count = random() % 8; i < count; i++) {
            const auto id = static_cast<uint16_t>(random() % 10 + (random() % 2 ? kDriver : 0));
            // Handles have no length.
            const auto size = static_cast<uint16_t>(random() % 2 ? random() % 200 : 0);
            if (size == 0) {
                request.pointer(id, bytes[i], 0);
                continue;
            }
            // In place of a pointer to write to, more than four bytes might point into this
            // program.
            const bool in_place = size <= sizeof(uint64_t);
            request.in(id, bytes.data(), in_place ? std::min<uint16_t>(size, 4) : size);
        }
        (void)request.send(fd());
    }
    (void)pd.release();
    pd.reset(ibv_alloc_pd(context.get()));
    ASSERT_TRUE(pd);
}

} // namespace
} // namespace test
