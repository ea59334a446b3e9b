// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/remote.hpp"

#include "app/softhca/control/client.hpp"
#include "app/softhca/launcher/runtime_dir.hpp"
#include "app/softhca/launcher/stat_table.hpp"

#include <cerrno>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace softhca::launcher {
namespace {

using control::ask;
using control::Instance;
using nlohmann::json;

/// `only` = 0: all.
std::vector<Instance> find_instances(pid_t only) {
    std::vector<Instance> found;
    for (const std::string& folder : find_runtime_dirs())
        for (const Instance& instance : control::find_instances(folder))
            if (!only || instance.pid == only) found.push_back(instance);
    return found;
}

struct Answer {
    Instance instance;
    json stat;
};

/// Statistics of every program that answers; the others are named on stderr.
std::vector<Answer> ask_all(pid_t only) {
    std::vector<Answer> answers;
    for (const Instance& instance : find_instances(only)) {
        auto stat = ask(instance, {{"cmd", "stat"}});
        if (stat)
            answers.push_back({instance, std::move(*stat)});
        else if (stat.error().code != ECONNREFUSED)
            fmt::print(stderr, "softhca: {}\n", stat.error().what);
    }
    return answers;
}

int none_running(pid_t only) {
    if (only)
        fmt::print(stderr, "softhca: process {} has no softhca device open\n", only);
    else
        fmt::print(stderr, "softhca: no running program of this user has a softhca device open\n");
    return kExitFailed;
}

bool has_device(const json& stat, const std::string& name) {
    for (const json& device : stat.value("devices", json::array()))
        if (device.value("device", "") == name) return true;
    return false;
}

/// Sends a request to the one program that has such a device open. `or_will`: the only program that
/// runs may as well be asked about one that it has not opened yet.
int ask_owner(const std::string& device, pid_t only, const json& request, bool or_will = false) {
    const auto answers = ask_all(only);
    if (answers.empty()) return none_running(only);
    std::vector<Instance> owners;
    std::vector<pid_t> pids;
    for (const Answer& answer : answers) {
        if (!has_device(answer.stat, device)) continue;
        owners.push_back(answer.instance);
        pids.push_back(answer.instance.pid);
    }
    if (owners.empty() && or_will && answers.size() == 1) owners.push_back(answers[0].instance);
    if (owners.size() != 1) {
        if (owners.empty())
            fmt::print(stderr, "softhca: no running program has a device {}\n", device);
        else
            fmt::print(stderr, "softhca: processes {} each have a device {}; choose by --pid\n",
                       fmt::join(pids, ", "), device);
        return kExitFailed;
    }
    const auto done = ask(owners[0], request);
    if (done) return 0;
    fmt::print(stderr, "softhca: {}\n", done.error().what);
    return kExitFailed;
}

} // namespace

int show_stats(const StatCommand& command) {
    const auto answers = ask_all(command.pid);
    if (command.json) {
        json instances = json::array();
        for (const Answer& answer : answers)
            instances.push_back(answer.stat);
        fmt::print("{}\n", json{{"instances", instances}}.dump(2));
        return command.pid && answers.empty() ? kExitFailed : 0;
    }
    if (answers.empty()) return none_running(command.pid);
    for (const Answer& answer : answers)
        fmt::print("{}", format_stat(answer.stat));
    return 0;
}

int set_link(const LinkCommand& command) {
    return ask_owner(command.device, command.pid,
                     {{"cmd", "link"}, {"device", command.device}, {"up", command.up}});
}

int inject_fault(const FaultCommand& command) {
    return ask_owner(command.device, command.pid,
                     {{"cmd", "fault"}, {"device", command.device}, {"fault", command.fault}},
                     /*or_will=*/true);
}

} // namespace softhca::launcher
