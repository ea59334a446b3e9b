// SPDX-License-Identifier: BSD-3-Clause
// A program that takes away memory it has given to the device. A kernel pins registered memory, so
// the device continues; softhca finds it missing and reports an error CQE or event. Nobody crashes,
// and the device serves others as before.
#include "tests/functional/uverbs/verbs.hpp"

#include <csetjmp>
#include <csignal>
#include <endian.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace test {
namespace {

constexpr size_t kPage = 4096;

/// Where no program has memory.
void* nowhere() { return reinterpret_cast<void*>(kPage / 2); }

void* map_pages(size_t bytes, void* where = nullptr) {
    void* const address = mmap(where, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);
    EXPECT_NE(address, MAP_FAILED);
    return address;
}

/// Takes away the whole pages around a range; at the end they return for whoever must free them.
class Hole {
  public:
    Hole(const void* address, size_t bytes) {
        const auto first = reinterpret_cast<uintptr_t>(address) & ~(kPage - 1);
        const auto end = (reinterpret_cast<uintptr_t>(address) + bytes + kPage - 1) & ~(kPage - 1);
        start_ = reinterpret_cast<void*>(first);
        bytes_ = end - first;
        // Unreadable rather than unmapped, so that nobody else maps something here meanwhile.
        EXPECT_EQ(mprotect(start_, bytes_, PROT_NONE), 0);
    }
    ~Hole() { EXPECT_EQ(mprotect(start_, bytes_, PROT_READ | PROT_WRITE), 0); }
    Hole(const Hole&) = delete;
    Hole& operator=(const Hole&) = delete;

  private:
    void* start_;
    size_t bytes_;
};

class UnmappedTest : public VerbsTest {
  protected:
    void SetUp() override {
        VerbsTest::SetUp();
        if (HasFatalFailure()) return;
        region = map_pages(kBytes);
        mr.reset(ibv_reg_mr(pd.get(), region, kBytes, IBV_ACCESS_LOCAL_WRITE));
        ASSERT_TRUE(mr);
        endpoint = std::make_unique<Endpoint>(context.get(), pd.get());
    }
    void TearDown() override { // whatever happened, the device must still move packets
        endpoint.reset();
        if (mr) mr.reset();
        munmap(region, kBytes);
        expect_working(context.get(), pd.get());
    }
    void send_from_region() { send_from(reinterpret_cast<uint64_t>(region), mr->lkey); }
    void send_from(uint64_t address, uint32_t lkey) {
        post_send(endpoint->qp.get(), address, 100, lkey);
    }
    void receive_into_region() {
        post_receive(endpoint->qp.get(), reinterpret_cast<uint64_t>(region), Endpoint::kBufferBytes,
                     mr->lkey, 7);
    }
    static void expect_done_or_refused(ibv_cq* cq) {
        ibv_wc wc{};
        ASSERT_TRUE(wait_completion(cq, wc));
        EXPECT_TRUE(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_LOC_PROT_ERR)
            << ibv_wc_status_str(wc.status);
    }
    /// Waits for an event of the device; returns whether one came in time.
    bool poll_async(std::chrono::milliseconds patience) {
        pollfd waiting{context->async_fd, POLLIN, 0};
        if (::poll(&waiting, 1, static_cast<int>(patience.count())) != 1) return false;
        ibv_async_event event{};
        if (ibv_get_async_event(context.get(), &event) != 0) return false;
        ibv_ack_async_event(&event);
        return true;
    }

    static constexpr size_t kBytes = 4 * kPage;
    void* region = nullptr;
    MrHandle mr;
    std::unique_ptr<Endpoint> endpoint;
};

TEST_F(UnmappedTest, SendingWhatWasUnmapped) {
    endpoint->start();
    munmap(region, kBytes);
    send_from_region();
    expect_done_or_refused(endpoint->send_cq.get());
    map_pages(kBytes, region);
}

TEST_F(UnmappedTest, SendingWhatIsProtected) {
    endpoint->start();
    const Hole hole(region, kBytes);
    send_from_region();
    expect_done_or_refused(endpoint->send_cq.get());
}

TEST_F(UnmappedTest, SendingWhatWasMovedOrGivenBack) {
    endpoint->start();
    void* const elsewhere = map_pages(kBytes);
    ASSERT_EQ(mremap(region, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere), elsewhere);
    send_from_region();
    expect_done_or_refused(endpoint->send_cq.get());
    ASSERT_EQ(mremap(elsewhere, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, region), region);
    to_state(endpoint->qp.get(), IBV_QPS_RESET);
    endpoint->start();
    ASSERT_EQ(madvise(region, kBytes, MADV_DONTNEED), 0);
    send_from_region();
    expect_done_or_refused(endpoint->send_cq.get());
}

TEST_F(UnmappedTest, ReceivingIntoWhatWasUnmapped) {
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(endpoint->qp.get(), state);
    receive_into_region();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint->qp.get());
    munmap(region, kBytes);
    ASSERT_EQ(endpoint->send(UdpFrame{}.bytes()), IBV_WC_SUCCESS);
    expect_done_or_refused(endpoint->receive_cq.get());
    map_pages(kBytes, region);
}

TEST_F(UnmappedTest, ReceivingIntoWhatIsReadOnly) {
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(endpoint->qp.get(), state);
    receive_into_region();
    const FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint->qp.get());
    ASSERT_EQ(mprotect(region, kBytes, PROT_READ), 0);
    ASSERT_EQ(endpoint->send(UdpFrame{}.bytes()), IBV_WC_SUCCESS);
    expect_done_or_refused(endpoint->receive_cq.get());
}

TEST_F(UnmappedTest, SendingFromAThreadsStackThatIsGone) {
    endpoint->start();
    MrHandle on_stack;
    uint64_t address = 0;
    std::thread([&] {
        std::array<uint8_t, kPage> buffer{};
        on_stack.reset(ibv_reg_mr(pd.get(), buffer.data(), buffer.size(), 0));
        address = reinterpret_cast<uint64_t>(buffer.data());
    }).join();
    ASSERT_TRUE(on_stack);
    send_from(address, on_stack->lkey);
    expect_done_or_refused(endpoint->send_cq.get());
}

/// The rings and doorbell records of a QP and its CQs, as pairs of address and size.
std::vector<std::pair<void*, size_t>> rings_of(const Endpoint& endpoint) {
    mlx5dv_qp qp{};
    mlx5dv_cq cqs[2]{};
    mlx5dv_obj object{};
    object.qp = {endpoint.qp.get(), &qp};
    EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP), 0);
    std::vector<std::pair<void*, size_t>> rings = {
        {qp.sq.buf, size_t{qp.sq.wqe_cnt} * qp.sq.stride},
        {qp.rq.buf, size_t{qp.rq.wqe_cnt} * qp.rq.stride},
        {qp.dbrec, sizeof(uint64_t)}};
    for (int i = 0; ibv_cq* const cq : {endpoint.send_cq.get(), endpoint.receive_cq.get()}) {
        object.cq = {cq, &cqs[i]};
        EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
        rings.emplace_back(cqs[i].buf, size_t{cqs[i].cqe_cnt} * cqs[i].cqe_size);
        rings.emplace_back(cqs[i++].dbrec, sizeof(uint64_t));
    }
    return rings;
}

TEST_F(UnmappedTest, RingsThatAreGone) {
    for (size_t i = 0; i < rings_of(*endpoint).size(); i++) {
        endpoint = make_endpoint(context.get(), pd.get());
        FlowHandle flow = FlowBuilder().add(eth_spec()).create(endpoint->qp.get());
        const auto [address, bytes] = rings_of(*endpoint)[i];
        mlx5dv_qp qp{};
        mlx5dv_obj object{};
        object.qp = {endpoint->qp.get(), &qp};
        ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP), 0);
        {
            // One WQE is under way when the hole appears, and one is surely announced afterwards.
            send_from_region();
            const Hole hole(address, bytes);
            const bool has_record = address != qp.dbrec && bytes != sizeof(uint64_t);
            if (has_record) qp.dbrec[1] = htobe32(2);
            (void)poll_async(std::chrono::milliseconds(200));
        }
        flow.reset();
        to_state(endpoint->qp.get(), IBV_QPS_RESET);
        endpoint->start(); // what is back can be used again, except for a CQ
        SCOPED_TRACE(i);
        const bool is_cq = i >= 3;
        if (is_cq) continue;
        EXPECT_EQ(endpoint->send(UdpFrame{}.bytes()), IBV_WC_SUCCESS);
    }
    while (poll_async(std::chrono::milliseconds(0))) {
    }
}

// -- a program that handles SIGSEGV itself
// ---------------------------------------------------------

sigjmp_buf back;
int handled = 0;

void on_fault(int) {
    handled++;
    siglongjmp(back, 1);
}

void* touch(void* address) {
    if (sigsetjmp(back, 1) == 0) *static_cast<volatile uint8_t*>(address) = 1;
    return address;
}

TEST_F(UnmappedTest, TheProgramsOwnHandlerIsCalled) {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = on_fault;
    ASSERT_EQ(sigaction(SIGSEGV, &action, &before), 0);
    handled = 0;
    touch(nowhere());
    touch(nowhere());
    EXPECT_EQ(handled, 2);

    endpoint->start();
    munmap(region, kBytes);
    send_from_region();
    expect_done_or_refused(endpoint->send_cq.get());
    EXPECT_EQ(handled, 2) << "the device's faults are none of the program's";
    touch(region);
    EXPECT_EQ(handled, 3) << "its own are, also where the device may be";
    map_pages(kBytes, region);

    struct sigaction mine {};
    ASSERT_EQ(sigaction(SIGSEGV, &before, &mine), 0);
    EXPECT_EQ(mine.sa_handler, on_fault);
    ASSERT_EQ(sigaction(SIGBUS, nullptr, &before), 0);
    EXPECT_NE(signal(SIGBUS, on_fault), SIG_ERR);
    EXPECT_EQ(signal(SIGBUS, SIG_DFL), on_fault);
    ASSERT_EQ(sigaction(SIGBUS, &before, nullptr), 0);
}

TEST_F(UnmappedTest, AProgramThatFaultsDiesOfIt) {
    for (const bool by_kill : {false, true}) {
        const pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            if (by_kill)
                raise(SIGSEGV);
            else
                *static_cast<volatile uint8_t*>(nowhere()) = 1;
            _exit(0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << by_kill;
    }
}

} // namespace
} // namespace test
