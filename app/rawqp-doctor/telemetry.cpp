// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-doctor/telemetry.hpp"

#include "common/fd.hpp"
#include "common/files.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/un.h>

namespace doctor {
namespace {

using nlohmann::json;

/// A connection to one program; each answer is one message.
class Telemetry {
  public:
    explicit Telemetry(const std::string& path) : fd_(socket(AF_UNIX, SOCK_SEQPACKET, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (path.size() >= sizeof address.sun_path) return;
        path.copy(address.sun_path, path.size());
        constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};
        setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
        if (connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
            greeting_ = receive();
    }
    [[nodiscard]] bool answers() const { return greeting_.contains("pid"); }
    [[nodiscard]] long pid() const { return greeting_.value("pid", 0L); }

    /// The value under the command's own name; null when there is none.
    [[nodiscard]] json ask(const std::string& command, const std::string& argument = "") {
        const std::string request = argument.empty() ? command : command + "," + argument;
        if (send(fd_.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return nullptr;
        const json answer = receive();
        return answer.contains(command) ? answer[command] : json();
    }

  private:
    [[nodiscard]] json receive() const {
        std::string text(size_t{1} << 20, '\0');
        const ssize_t size = recv(fd_.get(), text.data(), text.size(), 0);
        if (size <= 0) return json::object();
        const json parsed =
            json::parse(text.begin(), text.begin() + size, nullptr, /*allow_exceptions=*/false);
        return parsed.is_object() ? parsed : json::object();
    }

    Fd fd_;
    json greeting_ = json::object();
};

std::vector<std::string> sockets() {
    std::vector<std::string> folders = {"/var/run/dpdk", "/tmp/dpdk"};
    for (const char* const variable : {"XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY"}) // of systemd
        if (const char* const own = std::getenv(variable))
            folders.push_back(fmt::format("{}/dpdk", own));
    std::vector<std::string> found;
    for (const std::string& folder : folders)
        for (const std::string& prefix : files::entries(folder))
            for (const std::string& name : files::entries(fmt::format("{}/{}", folder, prefix)))
                if (name.starts_with("dpdk_telemetry.v2")) // of further programs: with a number
                    found.push_back(fmt::format("{}/{}/{}", folder, prefix, name));
    return found;
}

void add_ports(Telemetry& program, std::vector<DpdkPort>& ports) {
    for (const json& id : program.ask("/ethdev/list")) {
        const json info = program.ask("/ethdev/info", id.dump());
        const std::string name = info.is_object() ? info.value("name", "") : "";
        if (name.empty()) continue;
        DpdkPort port{fmt::format("{} (pid {})", name, program.pid()), {}};
        const json xstats = program.ask("/ethdev/xstats", id.dump());
        for (const auto& [counter, value] : xstats.items())
            if (value.is_number_unsigned()) port.xstats[counter] = value.get<uint64_t>();
        ports.push_back(std::move(port));
    }
}

} // namespace

std::vector<DpdkPort> running_ports() {
    std::vector<DpdkPort> ports;
    for (const std::string& path : sockets())
        if (Telemetry program(path); program.answers()) add_ports(program, ports);
    return ports;
}

} // namespace doctor
