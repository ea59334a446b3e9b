// SPDX-License-Identifier: BSD-3-Clause
// Completion channels and asynchronous events: none lost, none extra, destroying never blocks.
#include "tests/functional/uverbs/verbs.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace test {
namespace {

using ChannelHandle = Handle<ibv_comp_channel, ibv_destroy_comp_channel>;

bool readable(int fd, int milliseconds) {
    pollfd watched{fd, POLLIN, 0};
    return poll(&watched, 1, milliseconds) == 1 && watched.revents & POLLIN;
}

class EventsTest : public VerbsTest {
  protected:
    void SetUp() override {
        VerbsTest::SetUp();
        channel.reset(ibv_create_comp_channel(context.get()));
        ASSERT_TRUE(channel) << std::strerror(errno);
        cq = make_cq(64, channel.get());
        ASSERT_TRUE(cq);
        endpoint = std::make_unique<Endpoint>(context.get(), pd.get());
        qp = make_qp(pd.get(), cq.get(), endpoint->receive_cq.get(), 16);
        for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
            to_state(qp.get(), state);
    }
    /// Sends once on the QP whose completions go to `cq`.
    void send_one() { send_on(qp.get(), *endpoint); }
    /// Causes six completions in a CQ of four, and waits for the resulting event.
    void overrun(ibv_cq* small) {
        const PdHandle own(ibv_alloc_pd(small->context));
        const Endpoint other(small->context, own.get());
        const QpHandle sender = make_qp(own.get(), small, other.receive_cq.get(), 16);
        for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
            to_state(sender.get(), state);
        for (int i = 0; i < 6; i++)
            send_on(sender.get(), other);
        EXPECT_TRUE(readable(small->context->async_fd, 10000));
    }
    static void send_on(ibv_qp* sender, const Endpoint& from) {
        post_send(sender, reinterpret_cast<uint64_t>(from.memory.data()), 64, from.mr->lkey);
    }
    void expect_event() {
        ASSERT_TRUE(readable(channel->fd, 10000)) << "no event";
        ibv_cq* event_cq = nullptr;
        void* event_context = nullptr;
        ASSERT_EQ(ibv_get_cq_event(channel.get(), &event_cq, &event_context), 0);
        EXPECT_EQ(event_cq, cq.get());
    }
    void expect_completion() {
        ibv_wc wc{};
        ASSERT_TRUE(wait_completion(cq.get(), wc));
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    }

    ChannelHandle channel;
    CqHandle cq;
    std::unique_ptr<Endpoint> endpoint;
    QpHandle qp;
};

TEST_F(EventsTest, OneEventForEachArming) {
    for (int round = 0; round < 50; round++) {
        ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
        send_one();
        expect_event();
        expect_completion();
        EXPECT_FALSE(readable(channel->fd, 0)) << "one arming, one event";
    }
    ibv_ack_cq_events(cq.get(), 50);
}

TEST_F(EventsTest, NoEventWithoutArming) {
    send_one();
    expect_completion();
    EXPECT_FALSE(readable(channel->fd, 0));
}

TEST_F(EventsTest, ArmingBehindACompletionFiresAtOnce) {
    send_one();
    ibv_wc wc{};
    ASSERT_TRUE(wait_completion(cq.get(), wc));
    send_one(); // not polled: the next completion is already there
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    mlx5dv_cq ring{};
    mlx5dv_obj object{};
    object.cq = {cq.get(), &ring};
    ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
    // op_own of the second CQE changes from its initial value once the device has written it.
    const volatile uint8_t* op_own = static_cast<uint8_t*>(ring.buf) + 2 * ring.cqe_size - 1;
    while (*op_own >> 4 == 0xf)
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    expect_event();
    ibv_ack_cq_events(cq.get(), 1);
    expect_completion();
}

/// libibverbs waits in ibv_destroy_cq until the program has acknowledged every event that it has
/// read: the kernel's count must not include those never read.
TEST_F(EventsTest, UnreadEventsDoNotBlockDestroy) {
    for (int round = 0; round < 3; round++) {
        ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
        send_one();
        if (round == 0) {
            expect_event();
            ibv_ack_cq_events(cq.get(), 1);
        }
        expect_completion();
        ASSERT_TRUE(round == 0 || readable(channel->fd, 10000));
    }
    qp.reset();
    cq.reset(); // would block forever
    EXPECT_FALSE(readable(channel->fd, 0)) << "events of a CQ go with it";
}

TEST_F(EventsTest, EventsOfOtherCqsSurviveADestroy) {
    CqHandle other = make_cq(64, channel.get());
    QpHandle other_qp = make_qp(pd.get(), other.get(), endpoint->receive_cq.get(), 16);
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(other_qp.get(), state);
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    send_one();
    expect_completion();
    ASSERT_TRUE(readable(channel->fd, 10000));
    other_qp.reset();
    other.reset();
    expect_event();
    ibv_ack_cq_events(cq.get(), 1);
}

TEST_F(EventsTest, NonBlockingChannel) {
    ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    ibv_cq* event_cq = nullptr;
    void* event_context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel.get(), &event_cq, &event_context), -1);
    EXPECT_EQ(errno, EAGAIN);
    ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
    send_one();
    expect_event();
    ibv_ack_cq_events(cq.get(), 1);
    expect_completion();
}

TEST_F(EventsTest, ChannelOfNobodyIsRefused) {
    ibv_comp_channel bogus = *channel;
    bogus.fd = 0; // not a completion channel
    EXPECT_EQ(ibv_create_cq(context.get(), 16, nullptr, &bogus, 0), nullptr);
    EXPECT_EQ(errno, EBADF);
    // Nor can another context use it.
    const ContextHandle other = open_device();
    ASSERT_TRUE(other);
    EXPECT_EQ(ibv_create_cq(other.get(), 16, nullptr, channel.get(), 0), nullptr);
    EXPECT_EQ(errno, EBADF);
}

/// Sets the port's netdev up or down.
void set_netdev(bool up) {
    const int socket_fd = socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, netdev_name().c_str());
    ASSERT_EQ(ioctl(socket_fd, SIOCGIFFLAGS, &request), 0);
    request.ifr_flags =
        static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    ASSERT_EQ(ioctl(socket_fd, SIOCSIFFLAGS, &request), 0);
    close(socket_fd);
}

/// Reads the expected event and acknowledges it.
ibv_async_event next_event(ibv_context* context) {
    ibv_async_event event{};
    if (!readable(context->async_fd, 10000)) {
        ADD_FAILURE() << "no event";
        return event;
    }
    EXPECT_EQ(ibv_get_async_event(context, &event), 0);
    ibv_ack_async_event(&event);
    return event;
}

TEST_F(EventsTest, LinkChangesArriveAsPortEvents) {
    for (const auto& [up, type] :
         {std::pair{false, IBV_EVENT_PORT_ERR}, {true, IBV_EVENT_PORT_ACTIVE}}) {
        set_netdev(up);
        const ibv_async_event event = next_event(context.get());
        EXPECT_EQ(event.event_type, type);
        EXPECT_EQ(event.element.port_num, 1);
        ibv_port_attr port{};
        ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
        EXPECT_EQ(port.state, up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
    }
}

/// Port events go to every context, those of an object to its creator only.
TEST_F(EventsTest, AnImportedContextHasEventsOfItsOwn) {
    const ContextHandle imported(ibv_import_device(dup(context->cmd_fd)));
    ASSERT_TRUE(imported) << std::strerror(errno);
    for (const bool up : {false, true}) {
        set_netdev(up);
        for (ibv_context* each : {context.get(), imported.get()})
            EXPECT_EQ(next_event(each).event_type, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
    }
    const CqHandle small(ibv_create_cq(imported.get(), 3, nullptr, nullptr, 0));
    ASSERT_TRUE(small) << std::strerror(errno);
    overrun(small.get());
    const ibv_async_event event = next_event(imported.get());
    EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
    EXPECT_EQ(event.element.cq, small.get());
    EXPECT_FALSE(readable(context->async_fd, 0));
}

TEST_F(EventsTest, CqOverrunIsReportedOnTheCq) {
    const CqHandle small = make_cq(3); // four entries
    overrun(small.get());
    const ibv_async_event event = next_event(context.get());
    EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
    EXPECT_EQ(event.element.cq, small.get());
}

/// The CQ goes around, and so does the queue that completes there.
TEST_F(EventsTest, AnOverrunMayBeIgnored) {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = 3; // four entries
    attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attributes.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    ibv_cq_ex* const made = ibv_create_cq_ex(context.get(), &attributes);
    ASSERT_TRUE(made) << std::strerror(errno);
    const CqHandle small(ibv_cq_ex_to_cq(made));
    const QpHandle sender = make_qp(pd.get(), small.get(), endpoint->receive_cq.get(), 16);
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(sender.get(), state);
    endpoint->start();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint->qp.get());
    ASSERT_TRUE(flow);
    for (int i = 0; i < 6; i++) {
        send_on(sender.get(), *endpoint);
        ASSERT_EQ(endpoint->receive().size(), 64u) << i;
    }
    EXPECT_FALSE(readable(context->async_fd, 0));
}

} // namespace
} // namespace test
