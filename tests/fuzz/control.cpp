// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/control/server.hpp"
#include "app/softhca/core/device.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace fuzz {
namespace {

using namespace softhca;

constexpr size_t kLongest = 2048; ///< half of what the server reads before it closes the connection
constexpr timeval kPatience{10, 0};

/// A program with a device, and its control socket.
class Program {
  public:
    Program() {
        path_ = fmt::format("/tmp/rawqp-fuzz-{}.sock", getpid());
        engine_.add(std::make_unique<core::Device>(
            core::DeviceConfig{.name = "mlx5_0", .mac = {2, 0, 0, 0, 0, 1}},
            std::make_unique<testbed::FakeWire>(), nullptr));
        auto server = control::ControlServer::start(
            path_, engine_, {}, [this](const std::string&) { return &faults_; });
        if (server) server_ = std::move(*server);
    }
    ~Program() {
        server_.reset();
        unlink(path_.c_str());
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    /// All that the program answers to `request`, after which the client disconnects.
    [[nodiscard]] std::string ask(const std::string& request) const {
        const Fd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
        path_.copy(address.sun_path, sizeof address.sun_path - 1);
        setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
        if (connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
            return "";
        (void)send(client.get(), request.data(), request.size(), MSG_NOSIGNAL);
        shutdown(client.get(), SHUT_WR);
        std::string answer;
        std::array<char, 4096> part;
        for (ssize_t got; (got = recv(client.get(), part.data(), part.size(), 0)) > 0;)
            answer.append(part.data(), static_cast<size_t>(got));
        return answer;
    }

  private:
    std::string path_;
    CommandFaults faults_;
    core::Engine engine_{{.threads = 1, .cpus = {}}};
    std::unique_ptr<control::ControlServer> server_;
};

} // namespace

std::string play_control(std::span<const uint8_t> bytes) {
    static const Program program;
    Input input(bytes);
    std::string lines = input.text().substr(0, kLongest);
    if (lines.find("stall") != std::string::npos) return ""; // it would, for a second
    lines += "\n{\"cmd\":\"link\",\"device\":\"mlx5_0\",\"up\":true}\n";
    const std::string answer = program.ask(lines);
    const auto asked = std::count(lines.begin(), lines.end(), '\n');
    const auto answered = std::count(answer.begin(), answer.end(), '\n');
    if (asked != answered) return fmt::format("{} answers to {} lines", answered, asked);
    return answer.ends_with("{\"ok\":true}\n") ? "" : "the last line was not understood";
}

} // namespace fuzz
