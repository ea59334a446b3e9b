// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/remote.hpp"

#include "app/softhca/control/client.hpp"
#include "app/softhca/launcher/output.hpp"
#include "app/softhca/launcher/runtime_dir.hpp"
#include "app/softhca/launcher/stat_table.hpp"

#include <cerrno>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>

namespace softhca::launcher {
namespace {

using control::ask;
using control::Instance;
using nlohmann::json;

std::vector<Instance> find_instances(const Where& where) {
    if (!where.socket.empty()) return {{.pid = 0, .socket = where.socket}};
    std::vector<Instance> found;
    for (const std::string& folder : find_runtime_dirs())
        for (const Instance& instance : control::find_instances(folder))
            if (!where.pid || instance.pid == where.pid) found.push_back(instance);
    return found;
}

struct Answer {
    Instance instance;
    json answer;
};
struct Answers {
    std::vector<Answer> given;
    bool lacking = false; ///< some programs did not answer, which has been reported
};

/// It ended before it could answer; its socket may have outlived it.
bool has_gone(const Error& error) {
    return error.code == ECONNREFUSED || error.code == ENOENT || error.code == EPIPE;
}

/// The answers of all programs that answer; the others are named on stderr.
Answers ask_all(const Where& where, const std::string& command = "stat") {
    Answers answers;
    for (const Instance& instance : find_instances(where)) {
        auto answer = ask(instance, {{"cmd", command}});
        if (answer) {
            answers.given.push_back({instance, std::move(*answer)});
        } else if (!has_gone(answer.error()) || !where.socket.empty()) {
            fmt::print(stderr, "softhca: {}\n", answer.error().what);
            answers.lacking = true;
        }
    }
    return answers;
}

int none_running(const Where& where, const Answers& answers) {
    if (answers.lacking) return kExitFailed;
    if (where.pid)
        fmt::print(stderr, "softhca: process {} has no softhca device open\n", where.pid);
    else
        fmt::print(stderr, "softhca: no running program of this user has a softhca device open\n");
    return kExitFailed;
}

bool has_device(const json& stat, const std::string& name) {
    for (const json& device : stat.value("devices", json::array()))
        if (device.value("device", "") == name) return true;
    return false;
}

/// The one program that has this device open; any device if the name is empty. `or_will`: the only
/// running program may be asked about a device that it has not opened yet. Errors are reported on
/// stderr.
std::optional<Instance> owner_of(const std::string& device, const Where& where,
                                 bool or_will = false) {
    const Answers all = ask_all(where);
    const std::vector<Answer>& answers = all.given;
    if (answers.empty()) {
        (void)none_running(where, all);
        return {};
    }
    std::vector<Instance> owners;
    std::vector<pid_t> pids;
    for (const Answer& answer : answers) {
        if (!device.empty() && !has_device(answer.answer, device)) continue;
        owners.push_back(answer.instance);
        pids.push_back(answer.instance.pid);
    }
    if (owners.empty() && or_will && answers.size() == 1) owners.push_back(answers[0].instance);
    if (owners.size() == 1) return owners[0];
    if (owners.empty())
        fmt::print(stderr, "softhca: no running program has a device {}\n", device);
    else
        fmt::print(stderr, "softhca: processes {} each have a device {}; choose by --pid\n",
                   fmt::join(pids, ", "), device.empty() ? "open" : device);
    return {};
}

/// Sends a request to the one program that has this device open; empty after an error, which is
/// reported.
std::optional<json> ask_owner(const std::string& device, pid_t only, const json& request,
                              bool or_will = false) {
    const auto owner = owner_of(device, {.pid = only}, or_will);
    if (!owner) return {};
    auto done = ask(*owner, request);
    if (done) return std::move(*done);
    fmt::print(stderr, "softhca: {}\n", done.error().what);
    return {};
}

} // namespace

int show(const ShowCommand& command) {
    const Answers answers = ask_all(command.where, command.what);
    const bool one = command.where.pid || !command.where.socket.empty();
    const bool none = answers.given.empty();
    std::string text;
    if (command.json) {
        json instances = json::array();
        for (const Answer& answer : answers.given)
            instances.push_back(answer.answer);
        text = json{{"instances", instances}}.dump(2) + "\n";
    } else {
        for (const Answer& answer : answers.given)
            text += format_stat(answer.answer);
    }
    if (!put_out(text) || answers.lacking) return kExitFailed;
    return none && (one || !command.json) ? none_running(command.where, answers) : 0;
}

std::optional<control::Session> find_owner(const std::string& device, const Where& where) {
    const auto owner = owner_of(device, where);
    if (!owner) return {};
    auto session = control::Session::open(*owner);
    if (session) return std::move(*session);
    fmt::print(stderr, "softhca: {}\n", session.error().what);
    return {};
}

int set_link(const LinkCommand& command) {
    const auto done = ask_owner(command.device, command.pid,
                                {{"cmd", "link"}, {"device", command.device}, {"up", command.up}});
    return done ? 0 : kExitFailed;
}

int inject_fault(const FaultCommand& command) {
    const auto done =
        ask_owner(command.device, command.pid,
                  {{"cmd", "fault"}, {"device", command.device}, {"fault", command.fault}},
                  /*or_will=*/true);
    if (!done) return kExitFailed;
    if (const std::string ended = done->value("ended", ""); !ended.empty())
        return put_out(fmt::format("ended: {}\n", ended)) ? 0 : kExitFailed;
    return 0;
}

} // namespace softhca::launcher
