// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/control/client.hpp"

#include "app/softhca/control/protocol.hpp"
#include "common/fd.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <sys/time.h>

namespace softhca::control {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr timeval kPatience{2, 0}; // a stopped program does not answer …
constexpr int kMostPatience = 15;  // … times this for one that runs and has much to report

/// As in socket_path().
std::optional<pid_t> pid_of(const fs::path& socket) {
    const std::string name = socket.stem().string();
    const std::string number = name.substr(0, name.find('-'));
    pid_t pid = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), pid);
    if (socket.extension() != ".sock" || error != std::errc{} || *stop) return std::nullopt;
    return pid;
}

/// Whether the process at the other end of a connection is working on an answer.
bool is_running(int fd) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return false;
    std::ifstream file(fmt::format("/proc/{}/stat", peer.pid));
    std::string stat;
    std::getline(file, stat); // "PID (NAME) STATE …", where NAME may be anything
    const size_t name_end = stat.rfind(") ");
    const char state = name_end == std::string::npos ? 'X' : stat[name_end + 2];
    return std::string_view("TtZX").find(state) == std::string_view::npos;
}

} // namespace

std::vector<Instance> find_instances(const std::string& runtime_dir) {
    std::vector<Instance> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(runtime_dir, ignored))
        if (const auto pid = pid_of(entry.path())) found.push_back({*pid, entry.path()});
    return found;
}

Result<Session> Session::open(const Instance& instance) {
    Session session;
    session.name_ = instance.pid ? fmt::format("process {}", instance.pid) : instance.socket;
    const auto address = socket_address(instance.socket);
    if (!address) return tl::unexpected(address.error());
    session.socket_ = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int fd = session.socket_.get();
    for (const int way : {SO_RCVTIMEO, SO_SNDTIMEO})
        setsockopt(fd, SOL_SOCKET, way, &kPatience, sizeof kPatience);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0)
        return session;
    return errno == EAGAIN ? session.silent() : session.failed("cannot connect");
}

tl::unexpected<Error> Session::silent() const {
    return fail(
        EAGAIN,
        "{}: does not answer; is it stopped, or are too many clients connected to it already?",
        name_);
}

tl::unexpected<Error> Session::failed(const char* what) const {
    if (errno == EPIPE || errno == ECONNRESET) return fail(EPIPE, "{}: ended", name_);
    return fail(errno, "{}: {} ({})", name_, what, std::strerror(errno));
}

Result<json> Session::ask(const json& request) {
    const std::string line = request.dump() + "\n";
    if (send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) != ssize_t(line.size()))
        return failed("cannot ask");
    std::string answer;
    for (int patience = kMostPatience; !answer.ends_with('\n');) {
        char buffer[65536];
        const ssize_t got = recv(socket_.get(), buffer, sizeof buffer, 0);
        if (got == 0) return fail(EPIPE, "{}: ended", name_);
        if (got < 0 && errno == EAGAIN) {
            if (--patience > 0 && is_running(socket_.get())) continue;
            return silent();
        }
        if (got < 0 && errno == EINTR) continue; // it was stopped, and goes on
        if (got < 0) return failed("no answer");
        answer.append(buffer, size_t(got));
    }
    json reply = json::parse(answer, nullptr, /*allow_exceptions=*/false);
    if (!reply.is_object()) return fail(EPROTO, "{}: answers nonsense", name_);
    if (const auto error = reply.find("error"); error != reply.end())
        return fail(EINVAL, "{}: {}", name_,
                    error->is_string() ? error->get<std::string>() : error->dump());
    return reply;
}

Result<json> ask(const Instance& instance, const json& request) {
    auto session = Session::open(instance);
    if (!session) return tl::unexpected(session.error());
    return session->ask(request);
}

} // namespace softhca::control
