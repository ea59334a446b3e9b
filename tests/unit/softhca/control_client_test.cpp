// SPDX-License-Identifier: BSD-3-Clause
// How a client of the control socket finds programs, and how long it waits for one.
#include "app/softhca/control/client.hpp"
#include "app/softhca/control/protocol.hpp"
#include "common/fd.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using softhca::control::Instance;
using softhca::control::Session;
using namespace std::chrono_literals;

class ControlClient : public testing::Test {
  protected:
    ControlClient() {
        std::string pattern = std::filesystem::temp_directory_path() / "control-XXXXXX";
        folder_ = mkdtemp(pattern.data());
        instance = {.pid = getpid(), .socket = folder_ + "/it.sock"};
        listener = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    }
    ~ControlClient() override { std::filesystem::remove_all(folder_); }
    /// The calling process becomes the server.
    void listen_here() {
        const auto address = softhca::control::socket_address(instance.socket);
        ASSERT_TRUE(address);
        ASSERT_EQ(
            bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
        ASSERT_EQ(listen(listener.get(), 1), 0);
    }

    Instance instance;
    Fd listener;

  private:
    std::string folder_;
};

TEST_F(ControlClient, WaitsForAProgramThatHasMuchToDo) {
    listen_here();
    std::thread program([&] {
        const Fd client(accept(listener.get(), nullptr, nullptr));
        std::array<char, 64> request{};
        EXPECT_GT(recv(client.get(), request.data(), request.size(), 0), 0);
        std::this_thread::sleep_for(2500ms);
        const std::string answer = "{\"much\":1}\n";
        EXPECT_EQ(send(client.get(), answer.data(), answer.size(), 0), ssize_t(answer.size()));
    });
    auto session = Session::open(instance);
    ASSERT_TRUE(session);
    const auto answer = session->ask({{"cmd", "dump"}});
    EXPECT_TRUE(answer) << answer.error().what;
    program.join();
}

/// A recv() with a timeout fails with EINTR after a stop, even in a process without signal
/// handlers.
TEST_F(ControlClient, WaitsOnAfterItWasStoppedItself) {
    listen_here();
    const pid_t asking = fork();
    if (asking == 0) {
        auto session = Session::open(instance);
        _exit(session && session->ask({{"cmd", "dump"}}) ? 0 : 1);
    }
    const Fd client(accept(listener.get(), nullptr, nullptr));
    std::array<char, 64> request{};
    EXPECT_GT(recv(client.get(), request.data(), request.size(), 0), 0);
    std::this_thread::sleep_for(100ms); // by now it waits
    int status = 0;
    kill(asking, SIGSTOP);
    ASSERT_EQ(waitpid(asking, &status, WUNTRACED), asking);
    kill(asking, SIGCONT);
    const std::string answer = "{\"much\":1}\n";
    EXPECT_EQ(send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL),
              ssize_t(answer.size()));
    ASSERT_EQ(waitpid(asking, &status, 0), asking);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(ControlClient, FindsProgramsByTheirSockets) {
    for (const char* name : {"12.sock", "12.lock", "12x.sock", "x12.sock", ".sock", "12"})
        std::ofstream(std::filesystem::path(instance.socket).replace_filename(name));
    const std::filesystem::path folder = std::filesystem::path(instance.socket).parent_path();
    const std::vector<Instance> found = softhca::control::find_instances(folder);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found.front().pid, 12);
    EXPECT_EQ(found.front().socket, folder / "12.sock");
    EXPECT_TRUE(softhca::control::find_instances(folder / "missing").empty());
}

TEST_F(ControlClient, ATooLongPathIsTheUsersOwn) {
    const auto session = Session::open({.pid = 0, .socket = "/" + std::string(107, 'a')});
    ASSERT_FALSE(session);
    EXPECT_TRUE(session.error().what.ends_with("use a path of at most 107 bytes"))
        << session.error().what;
}

TEST_F(ControlClient, GivesUpOnAProgramThatIsStopped) {
    const pid_t program = fork();
    if (program == 0) {
        listen_here();
        raise(SIGSTOP);
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(program, &status, WUNTRACED), program);
    ASSERT_TRUE(WIFSTOPPED(status));
    auto session = Session::open(instance);
    ASSERT_TRUE(session);
    const auto begun = std::chrono::steady_clock::now();
    const auto answer = session->ask({{"cmd", "dump"}});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, EAGAIN);
    EXPECT_NE(answer.error().what.find("is it stopped,"), std::string::npos);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
    kill(program, SIGKILL);
    waitpid(program, &status, 0);
}

/// Each client that gives up leaves its connection in the listen queue of a program that is
/// stopped.
TEST_F(ControlClient, GivesUpOnAProgramThatManyWaitForAlready) {
    listen_here();
    std::vector<Session> waiting;
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < 8; i++) {
        auto session = Session::open(instance);
        if (session) {
            waiting.push_back(std::move(*session));
            continue;
        }
        EXPECT_EQ(session.error().code, EAGAIN);
        EXPECT_NE(session.error().what.find("is it stopped,"), std::string::npos);
        EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
        return;
    }
    FAIL() << "the queue has no end";
}

} // namespace
