// SPDX-License-Identifier: BSD-3-Clause
// How the doctor finds running DPDK programs.
#include "app/rawqp-doctor/telemetry.hpp"
#include "common/fd.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <vector>

namespace doctor {
namespace {

namespace fs = std::filesystem;

/// The telemetry of a program with one port.
class Program {
  public:
    Program(const fs::path& path, int pid)
        : pid_(pid), listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.string().copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(
            bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(listen(listener_.get(), 1), 0);
        thread_ = std::thread([this] { serve(); });
    }
    ~Program() {
        shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

  private:
    void serve() const {
        const Fd client(accept(listener_.get(), nullptr, nullptr));
        const auto tell = [&](const std::string& text) {
            return send(client.get(), text.data(), text.size(), MSG_NOSIGNAL) > 0;
        };
        std::array<char, 256> request;
        ssize_t size = 0;
        bool told = tell(fmt::format(R"({{"pid":{}}})", pid_));
        while (told && (size = recv(client.get(), request.data(), request.size(), 0)) > 0) {
            const std::string_view asked(request.data(), static_cast<size_t>(size));
            told = tell(asked == "/ethdev/list"     ? R"({"/ethdev/list":[0]})"
                        : asked == "/ethdev/info,0" ? R"({"/ethdev/info":{"name":"net_rawqp0"}})"
                                                    : R"({"/ethdev/xstats":{"rx_errors":3}})");
        }
    }

    int pid_;
    Fd listener_;
    std::thread thread_;
};

/// The variable names the folder; systemd sets the second one for its services.
class Telemetry : public testing::TestWithParam<const char*> {};

/// EAL numbers the sockets of programs with the same file prefix, which --in-memory allows.
TEST_P(Telemetry, ProgramsWithOneFilePrefix) {
    std::string folder = fs::temp_directory_path() / "doctor.XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    fs::create_directories(folder + "/dpdk/rte");
    setenv(GetParam(), folder.c_str(), 1);
    std::vector<std::string> names;
    {
        const Program first(folder + "/dpdk/rte/dpdk_telemetry.v2", 7);
        const Program second(folder + "/dpdk/rte/dpdk_telemetry.v2:1", 8);
        for (const DpdkPort& port : running_ports()) // of this machine, too
            names.push_back(port.name);
    }
    unsetenv(GetParam());
    fs::remove_all(folder);
    EXPECT_THAT(names, testing::IsSupersetOf({"net_rawqp0 (pid 7)", "net_rawqp0 (pid 8)"}));
}
INSTANTIATE_TEST_SUITE_P(Folders, Telemetry,
                         testing::Values("XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY"));

} // namespace
} // namespace doctor
