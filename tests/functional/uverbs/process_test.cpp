// SPDX-License-Identifier: BSD-3-Clause
// Descriptors and processes: close, dup2, fork, vfork.
#include "tests/functional/uverbs/verbs.hpp"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace test {
namespace {

int exit_status(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class ProcessTest : public VerbsTest {
  protected:
    void SetUp() override {
        VerbsTest::SetUp();
        endpoint = make_endpoint(context.get(), pd.get());
        flow = FlowBuilder().add(eth_spec()).create(endpoint->qp.get());
        ASSERT_TRUE(flow);
    }
    void expect_working() {
        const Frame frame = UdpFrame{.seed = seed++}.bytes();
        ASSERT_EQ(endpoint->send(frame), IBV_WC_SUCCESS);
        EXPECT_EQ(endpoint->receive(), frame);
    }

    std::unique_ptr<Endpoint> endpoint;
    FlowHandle flow;
    uint8_t seed = 0;
};

TEST_F(ProcessTest, ForkedChildLeavesTheParentsDeviceAlone) {
    const pid_t child = fork();
    if (child == 0) {
        close(context->cmd_fd);
        close(context->async_fd);
        _exit(0);
    }
    EXPECT_EQ(exit_status(child), 0);
    expect_working();
}

/// The device exists in the parent process, whereas a kernel serves whoever has the descriptor.
TEST_F(ProcessTest, ForkedChildCannotUseTheParentsDevice) {
    const pid_t child = fork();
    if (child == 0) {
        ibv_device_attr attributes{};
        _exit(ibv_query_device(context.get(), &attributes) != 0 ? 0 : 1);
    }
    EXPECT_EQ(exit_status(child), 0);
    expect_working();
}

TEST_F(ProcessTest, ForkedChildMayHaveDevicesOfItsOwn) {
    const pid_t child = fork();
    if (child == 0) {
        {
            ContextHandle own = open_device();
            if (!own) _exit(2);
            PdHandle own_pd(ibv_alloc_pd(own.get()));
            Endpoint own_endpoint(own.get(), own_pd.get());
            own_endpoint.start();
            const FlowHandle own_flow = FlowBuilder().add(eth_spec()).create(own_endpoint.qp.get());
            const Frame frame = UdpFrame{}.bytes();
            if (own_endpoint.send(frame) != IBV_WC_SUCCESS) _exit(3);
            if (own_endpoint.receive() != frame) _exit(4);
        }
        _exit(HasFailure() ? 5 : 0);
    }
    EXPECT_EQ(exit_status(child), 0);
    expect_working();
}

TEST_F(ProcessTest, VforkedChildThatClosesDescriptors) {
    const int device = context->cmd_fd;
    const pid_t child = vfork();
    if (child == 0) {    // shares our memory, but not our descriptors
        close(device);   // NOLINT(clang-analyzer-unix.Vfork): as Python's subprocess does
        dup2(0, device); // NOLINT(clang-analyzer-unix.Vfork)
        execl("/bin/true", "true", nullptr);
        _exit(127);
    }
    EXPECT_EQ(exit_status(child), 0);
    expect_working();
}

TEST_F(ProcessTest, ManyProgramsStartedMeanwhile) {
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(std::system("ls / > /dev/null"), 0);
    expect_working();
}

int ask_own_control_socket() {
    const auto folder = std::filesystem::path(std::getenv("SOFTHCA_CONFIG")).parent_path();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder / (std::to_string(getpid()) + ".sock")).string().copy(address.sun_path, 107);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    constexpr std::string_view kQuestion = "{\"cmd\":\"stat\"}\n";
    EXPECT_EQ(write(fd, kQuestion.data(), kQuestion.size()), ssize_t{kQuestion.size()});
    char first = 0;
    EXPECT_EQ(read(fd, &first, 1), 1);
    EXPECT_EQ(first, '{');
    return fd;
}

TEST_F(ProcessTest, AForkedChildMayHoldWhatTheControlSocketHasClosed) {
    const int client = ask_own_control_socket();
    const pid_t child = fork();
    close(client);
    if (child == 0) {
        pause();
        _exit(0);
    }
    for (int i = 0; i < 3; i++)
        close(ask_own_control_socket());
    kill(child, SIGKILL);
    EXPECT_EQ(exit_status(child), 128 + SIGKILL);
    expect_working();
}

TEST_F(ProcessTest, SignalsAreForTheProgramsOwnThreads) {
    size_t threads = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        if (!first_line(task.path() / "comm").starts_with("softhca")) continue;
        threads++;
        std::ifstream status(task.path() / "status");
        for (std::string line; std::getline(status, line);)
            if (line.starts_with("SigBlk:")) {
                EXPECT_EQ(std::stoull(line.substr(8), nullptr, 16) >> (SIGUSR1 - 1) & 1, 1u)
                    << first_line(task.path() / "comm");
            }
    }
    EXPECT_GE(threads, 2u) << "of the device, and of the control socket";
}

TEST(DescriptorTest, Dup2OverTheDescriptorClosesTheDevice) {
    const int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0) << std::strerror(errno);
    const int zero = open("/dev/zero", O_RDWR);
    ASSERT_EQ(dup2(zero, fd), fd);
    // Now it is /dev/zero in every respect, including mmap(2).
    void* memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    EXPECT_NE(memory, MAP_FAILED);
    munmap(memory, 4096);
    close(zero);
    close(fd);
}

/// Programs that become daemons close all descriptors like this.
TEST(DescriptorTest, CloseRangeAndClosefromCloseTheDevice) {
    for (const bool from : {false, true}) {
        const int low = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
        ASSERT_GE(low, 0) << std::strerror(errno);
        ASSERT_EQ(close_range(static_cast<unsigned>(low), static_cast<unsigned>(low),
                              CLOSE_RANGE_CLOEXEC),
                  0);
        EXPECT_EQ(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, low, 0), MAP_FAILED)
            << "close-on-exec closes nothing now";
        if (from)
            closefrom(low);
        else
            ASSERT_EQ(close_range(static_cast<unsigned>(low), ~0u, 0), 0);
        ASSERT_EQ(open("/dev/zero", O_RDWR), low);
        void* const memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, low, 0);
        EXPECT_NE(memory, MAP_FAILED);
        munmap(memory, 4096);
        close(low);
    }
}

TEST(DescriptorTest, EveryWayToOpen) {
    const char* node = "/dev/infiniband/uverbs0";
    const int plain = open(node, O_RDWR), at = openat(AT_FDCWD, node, O_RDWR | O_CLOEXEC);
    const int wide = open64(node, O_RDWR);
    for (const int fd : {plain, at, wide}) {
        EXPECT_GE(fd, 0);
        EXPECT_EQ(mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
        EXPECT_EQ(errno, EINVAL) << "answered as an RDMA device answers, not as /dev/null";
        EXPECT_EQ(close(fd), 0);
    }
    EXPECT_EQ(open("/dev/infiniband/uverbs9", O_RDWR), -1);
    EXPECT_EQ(errno, ENOENT);
}

/// Whatever a driver keeps about doorbell pages, it is no large file.
TEST(DescriptorTest, AProgramMayWriteNoLargeFiles) {
    const pid_t child = fork();
    if (child == 0) {
        constexpr rlimit kOneMegabyte{1 << 20, 1 << 20};
        if (setrlimit(RLIMIT_FSIZE, &kOneMegabyte) != 0) _exit(2);
        {
            const ContextHandle context = open_device();
            if (!context) _exit(3);
            const PdHandle pd(ibv_alloc_pd(context.get()));
            test::expect_working(context.get(), pd.get());
        }
        _exit(testing::Test::HasFailure() ? 4 : 0);
    }
    EXPECT_EQ(exit_status(child), 0);
}

TEST(DescriptorTest, OpenManyTimes) {
    std::vector<ContextHandle> contexts;
    for (int i = 0; i < 40; i++) {
        contexts.push_back(open_device());
        ASSERT_TRUE(contexts.back()) << i;
    }
}

} // namespace
} // namespace test
