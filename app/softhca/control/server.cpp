// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/control/server.hpp"

#include "app/softhca/control/observation.hpp"
#include "app/softhca/control/protocol.hpp"
#include "app/softhca/epoll.hpp"
#include "app/softhca/own_thread.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <system_error>
#include <vector>

namespace softhca::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kMaxRequest = 4096;
constexpr size_t kMaxClients = 16;
constexpr timeval kClientPatience{1, 0}; // for a client that does not read its answer
constexpr milliseconds kQuiet{1000};     // after that, a client gives its place to one that waits
constexpr milliseconds kAcceptAgain{100};

json error_answer(const std::string& what) { return {{"error", what}}; }

json no_device(const std::string& name) {
    return error_answer("no device " + name + " that this program has opened");
}

/// What requests operate on.
struct Target {
    core::Engine& engine;
    ControlServer::FindCommandFaults find_command_faults;
};

std::optional<size_t> find_device(core::Engine& engine, const std::string& name) {
    for (size_t i = 0; i < engine.size(); ++i)
        if (engine.device(i).config().name == name) return i;
    return std::nullopt;
}

/// Collects what each device reports.
json answer_all(core::Engine& engine, json (core::Device::*say)() const) {
    json devices = json::array();
    for (size_t i = 0; i < engine.size(); ++i)
        devices.push_back((engine.device(i).*say)());
    return {{"pid", getpid()}, {"program", program_invocation_short_name}, {"devices", devices}};
}

json answer_link(core::Engine& engine, const json& request) {
    const auto device = request.find("device");
    const auto up = request.find("up");
    if (device == request.end() || !device->is_string() || up == request.end() || !up->is_boolean())
        return error_answer("link needs \"device\": a name, and \"up\": true or false");
    const auto found = find_device(engine, device->get<std::string>());
    if (!found) return no_device(device->get<std::string>());
    engine.device(*found).set_cable(up->get<bool>());
    return {{"ok", true}};
}

/// Injects a fault into one device; false: there is no such object, or it cannot break now.
struct Inject {
    core::Device& device;

    bool operator()(const CommandFault&) const { return false; } // not the device's
    bool operator()(const NoCommandFaults&) const { return false; }
    bool operator()(const CompletionFault& fault) const {
        return device.inject_error(fault.queue, fault.cause).has_value();
    }
    bool operator()(const FatalFault& fault) const {
        return device.inject_fatal(fault.number).has_value();
    }
    bool operator()(const OverrunFault& fault) const {
        return device.inject_overrun(fault.cq).has_value();
    }
    bool operator()(const StallFault& fault) const {
        device.stall(fault.duration);
        return true;
    }
    bool operator()(const DeviceFault&) const {
        device.inject_device_fatal();
        return true;
    }
};

json answer_fault(const Target& target, const json& request) {
    const auto device = request.find("device");
    const auto text = request.find("fault");
    if (device == request.end() || !device->is_string() || text == request.end() ||
        !text->is_string())
        return error_answer("fault needs \"device\": a name, and \"fault\": what is to happen");
    const auto name = device->get<std::string>();
    const auto fault = parse_fault(text->get<std::string>());
    if (!fault) return error_answer(fault.error().what);
    const auto* const command = std::get_if<CommandFault>(&*fault);
    if (command || std::holds_alternative<NoCommandFaults>(*fault)) {
        if (!target.find_command_faults)
            return error_answer("verbs commands pass through the kernel here: see \"inject\"");
        CommandFaults* const faults = target.find_command_faults(name);
        if (!faults) return no_device(name);
        if (!command) return {{"ok", true}, {"ended", to_text(faults->clear())}};
        faults->add(*command);
        return {{"ok", true}};
    }
    const auto found = find_device(target.engine, name);
    if (!found) return no_device(name);
    if (!std::visit(Inject{target.engine.device(*found)}, *fault))
        return error_answer(text->get<std::string>() +
                            ": there is no such queue or CQ, or it is in reset");
    return {{"ok", true}};
}

/// The server's own requests, which are looked up after those of the front.
Commands with_own(Commands commands, const Target& target) {
    commands.try_emplace(
        "stat", [target](const json&) { return answer_all(target.engine, &core::Device::stats); });
    commands.try_emplace(
        "dump", [target](const json&) { return answer_all(target.engine, &core::Device::dump); });
    commands.try_emplace(
        "link", [target](const json& request) { return answer_link(target.engine, request); });
    commands.try_emplace("fault",
                         [target](const json& request) { return answer_fault(target, request); });
    return commands;
}

struct Client {
    OwnFd socket;
    std::string received;
    std::unique_ptr<Observation> observation; ///< what it observes, until the client goes
    steady_clock::time_point heard = steady_clock::now();
};
using Clients = std::map<int, Client>; ///< by their sockets

json answer_watch(core::Engine& engine, Client& client, const json& request) {
    const auto device = request.find("device");
    const auto steps = request.find("steps");
    const auto count = request.find("count");
    if ((device != request.end() && !device->is_string()) ||
        (steps != request.end() && !steps->is_boolean()) ||
        (count != request.end() && !count->is_number_unsigned()))
        return error_answer("watch takes \"device\": a name, \"steps\": true or false, and "
                            "\"count\": a number");
    const std::string name = request.value("device", "");
    std::vector<core::Device*> devices;
    for (size_t i = 0; i < engine.size(); ++i)
        if (name.empty() || engine.device(i).config().name == name)
            devices.push_back(&engine.device(i));
    if (devices.empty()) return no_device(name);
    client.observation.reset(); // of an earlier request
    client.observation = std::make_unique<Observation>(
        std::move(devices), ObservationOptions{.steps = request.value("steps", false),
                                               .count = request.value("count", uint64_t{0})});
    return {{"ok", true}};
}

json answer_next(const Client& client) {
    return client.observation ? client.observation->take() : error_answer("watch comes first");
}

json answer_request(core::Engine& engine, const Commands& commands, Client& client,
                    const json& request) {
    const auto cmd = request.is_object() ? request.find("cmd") : request.end();
    if (!request.is_object() || cmd == request.end() || !cmd->is_string())
        return error_answer("expected one JSON object a line, with the key \"cmd\"");
    if (*cmd == "watch") return answer_watch(engine, client, request);
    if (*cmd == "next") return answer_next(client);
    if (const auto found = commands.find(cmd->get<std::string>()); found != commands.end())
        return found->second(request);
    std::string known = "next, watch";
    for (const auto& [name, command] : commands)
        known += ", " + name;
    return error_answer("unknown cmd; known are " + known);
}

std::string answer(core::Engine& engine, const Commands& commands, Client& client,
                   const std::string& line) {
    const json request = json::parse(line, nullptr, /*allow_exceptions=*/false);
    const json reply = answer_request(engine, commands, client, request);
    return reply.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

bool send_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        text.remove_prefix(size_t(sent));
    }
    return true;
}

/// Events on a descriptor carry its number.
bool watch(const Fd& epoll, int operation, const auto& what, uint32_t events) {
    epoll_event event{.events = events, .data = {.fd = what.get()}};
    return control_epoll(epoll.get(), operation, what.get(), event) == 0;
}

/// False when the client must be dropped: it closed, hangs, or writes an endless line.
bool serve_client(Client& client, core::Engine& engine, const Commands& commands) {
    char buffer[1024];
    const ssize_t got = recv(client.socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    client.heard = steady_clock::now();
    client.received.append(buffer, size_t(got));
    size_t end;
    while ((end = client.received.find('\n')) != std::string::npos) {
        const std::string reply = answer(engine, commands, client, client.received.substr(0, end));
        client.received.erase(0, end + 1);
        if (!send_all(client.socket.get(), reply)) return false;
    }
    return client.received.size() <= kMaxRequest;
}

void drop(Clients& clients, Clients::iterator client, const Fd& epoll) {
    watch(epoll, EPOLL_CTL_DEL, client->second.socket, 0); // a child may still hold it open
    clients.erase(client);
}

/// Whether there is something to read from it, or it has gone.
bool has_sent(const Client& client) {
    char byte;
    return recv(client.socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

/// Makes room for a client that waits. Returns how long it must wait at least: 0 if there is room.
milliseconds make_room(Clients& clients, const Fd& epoll) {
    if (clients.size() < kMaxClients) return {};
    const auto quietest =
        std::ranges::min_element(clients, {}, [](const auto& each) { return each.second.heard; });
    const auto quiet = steady_clock::now() - quietest->second.heard;
    if (quiet < kQuiet) return std::chrono::ceil<milliseconds>(kQuiet - quiet);
    if (has_sent(quietest->second)) return milliseconds(1); // it is served first
    drop(clients, quietest, epoll);
    return {};
}

/// False: the program has no descriptor left.
bool accept_client(Clients& clients, int listener, const Fd& epoll) {
    OwnFd accepted(Fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)));
    if (!accepted || !watch(epoll, EPOLL_CTL_ADD, accepted, EPOLLIN)) return false;
    setsockopt(accepted.get(), SOL_SOCKET, SO_SNDTIMEO, &kClientPatience, sizeof kClientPatience);
    const int socket = accepted.get();
    clients.emplace(socket,
                    Client{.socket = std::move(accepted), .received = {}, .observation = {}});
    return true;
}

/// Whether a process listens there.
bool is_served(const sockaddr_un& address) {
    const Fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    return probe && (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address),
                             sizeof address) == 0 ||
                     errno == EAGAIN); // its queue is full
}

} // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::start(const std::string& path,
                                                            core::Engine& engine, Commands commands,
                                                            FindCommandFaults find_command_faults,
                                                            Fd keeper) {
    const auto address = socket_address(path);
    if (!address) return tl::unexpected(address.error());
    if (is_served(*address))
        return fail(EADDRINUSE, "{}: another process serves this control socket", path);
    if (auto removed = remove_old_socket(path); !removed) return tl::unexpected(removed.error());
    Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    Fd stop(eventfd(0, EFD_CLOEXEC));
    Fd epoll(create_epoll());
    if (!listener || !stop || !epoll ||
        bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) < 0 ||
        listen(listener.get(), int(kMaxClients)) < 0 ||
        !watch(epoll, EPOLL_CTL_ADD, stop, EPOLLIN) ||
        !watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN) ||
        (keeper && !watch(epoll, EPOLL_CTL_ADD, keeper, 0))) // its end is always reported
        return fail(errno, "{}: cannot make the control socket ({})", path, std::strerror(errno));
    try {
        return std::unique_ptr<ControlServer>(new ControlServer(
            path, engine, with_own(std::move(commands), {engine, std::move(find_command_faults)}),
            std::move(listener), std::move(stop), std::move(epoll), std::move(keeper)));
    } catch (const std::system_error& error) {
        unlink(path.c_str());
        return fail(error.code().value(), "cannot start the control thread ({}): {}",
                    error.code().message(), kThreadLimits);
    }
}

ControlServer::ControlServer(std::string path, core::Engine& engine, Commands commands, Fd listener,
                             Fd stop, Fd epoll, Fd keeper)
    : path_(std::move(path)), engine_(engine), commands_(std::move(commands)),
      listener_(std::move(listener)), stop_(std::move(stop)), epoll_(std::move(epoll)),
      keeper_(std::move(keeper)) {
    thread_ = own_thread([this] { serve(); });
    pthread_setname_np(thread_.native_handle(), "softhca-ctl");
}

ControlServer::~ControlServer() {
    unlink(path_.c_str());
    eventfd_write(stop_.get(), 1);
    thread_.join();
}

void ControlServer::serve() {
    Clients clients;
    milliseconds pause{}; // nobody can be accepted meanwhile
    for (;;) {
        const bool paused = pause > milliseconds::zero();
        watch(epoll_, EPOLL_CTL_MOD, listener_, paused ? 0 : uint32_t{EPOLLIN});
        epoll_event event{};
        const int got = wait_epoll(epoll_.get(), event, paused ? int(pause.count()) : -1);
        if (got < 0 && errno != EINTR) return; // the program closed what is not its own
        pause = {};
        if (got <= 0) continue;
        const int fd = event.data.fd;
        if (fd == stop_.get()) return;
        if (fd == keeper_.get()) {
            kill(getpid(), SIGKILL);
        } else if (fd == listener_.get()) {
            pause = make_room(clients, epoll_);
            if (pause == milliseconds::zero() && !accept_client(clients, fd, epoll_))
                pause = kAcceptAgain;
        } else if (const auto client = clients.find(fd);
                   !serve_client(client->second, engine_, commands_)) {
            drop(clients, client, epoll_);
        }
    }
}

} // namespace softhca::control
