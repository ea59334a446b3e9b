// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/runtime.hpp"
#include "app/softhca/uverbs/ethtool_phy.hpp"

#include "app/softhca/control/protocol.hpp"
#include "app/softhca/uverbs/census.hpp"
#include "app/softhca/uverbs/fault_signals.hpp"
#include "app/softhca/uverbs/fd_table.hpp"
#include "app/softhca/uverbs/paths.hpp"
#include "app/softhca/uverbs/sysfs_tree.hpp"
#include "app/softhca/uverbs/within_memory.hpp"
#include "app/softhca/wire/open.hpp"
#include "app/softhca/wire/spec.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <new>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <utility>

namespace softhca::uverbs {
namespace {

constinit std::atomic<Runtime*> instance{nullptr};
constinit std::atomic<Runtime*> started{nullptr};
constinit std::mutex create_mutex;
constinit std::atomic<bool> unreadable{false};
constinit cpu_set_t cpus_at_start{};

std::vector<int> available_cpus() {
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(static_cast<size_t>(cpu), &cpus_at_start)) cpus.push_back(cpu);
    return cpus;
}

void say(const std::string& what) { std::fprintf(stderr, "softhca: %s\n", what.c_str()); }

/// The child has none of the parent's device threads, hence none of its devices.
void after_fork_in_child() {
    instance.store(nullptr);
    started.store(nullptr);
    new (&create_mutex) std::mutex; // another thread of the parent may have held it
    fd_table::forget_all();
    fault_signals::after_fork_in_child();
}

} // namespace

void ContextList::add(Context& context) {
    const std::lock_guard lock(mutex_);
    contexts_.emplace(next_++, &context);
}

void ContextList::remove(const Context& context) {
    const std::lock_guard lock(mutex_);
    std::erase_if(contexts_, [&](const auto& entry) { return entry.second == &context; });
}

Runtime::Runtime(Config config) : config_(std::move(config)) {
    for (size_t i = 0; i < config_.ports.size(); i++)
        ports_.push_back(std::make_unique<Port>(config_.ports[i], i, tree_root(config_.runtime_dir),
                                                clock_for_port()));
}

/// Ports of one card have one clock: who reads it at one port has seen all time stamps of the
/// others. Where several threads serve the ports, each port shows its own: in the middle of a round
/// a port goes by an earlier time than another one shows.
ClockPage& Runtime::clock_for_port() {
    if (clocks_.empty() || config_.threads.value_or(1) > 1)
        clocks_.push_back(std::make_unique<ClockPage>());
    return *clocks_.back();
}

Runtime* Runtime::get() try {
    Runtime* known = instance.load(std::memory_order_acquire);
    if (known || !*runtime_folder() || unreadable.load(std::memory_order_relaxed)) return known;
    const std::lock_guard lock(create_mutex);
    if (Runtime* other = instance.load(std::memory_order_acquire)) return other;
    auto config = load_config();
    if (!config) {
        unreadable = true;
        say(config.error().code == EACCES
                ? fmt::format(
                      "process {} runs as user {}, and has no access to {}: devices are for "
                      "programs of the user who started softhca; start it as that user",
                      getpid(), geteuid(), runtime_folder())
                : config.error().what);
        return nullptr;
    }
    static const int at_fork = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    (void)at_fork;
    auto* fresh = new Runtime(std::move(*config));
    instance.store(fresh, std::memory_order_release);
    return fresh;
} catch (const std::bad_alloc&) {
    report_no_memory();
    return nullptr;
}

void Runtime::note_cpus() { (void)sched_getaffinity(0, sizeof cpus_at_start, &cpus_at_start); }

Runtime* Runtime::running() { return started.load(std::memory_order_acquire); }

Port* Runtime::port(size_t index) { return index < ports_.size() ? ports_[index].get() : nullptr; }

Port* Runtime::port_of_netdev(std::string_view name) {
    for (const auto& port : ports_)
        if (port->config.netdev == name) return port.get();
    return nullptr;
}

Result<core::Device*> Runtime::start(Port& port) {
    const std::lock_guard lock(start_mutex_);
    if (core::Device* const device = port.device.load()) return device;
    fault_signals::take_over();
    if (auto opened = open_devices(opened_together(port)); !opened) {
        // libmlx5 retries at once, without DevX.
        if (std::exchange(port.why_not, opened.error().what) != opened.error().what)
            say(port.why_not);
        return tl::unexpected(opened.error());
    }
    port.why_not.clear();
    if (!control_) start_control();
    started.store(this, std::memory_order_release);
    return port.device.load();
}

/// Both ends of a pair are in one process, and there is a link only when both are plugged in.
std::vector<Port*> Runtime::opened_together(Port& port) {
    std::vector<Port*> together;
    const bool pair = wire::is_pair(port.config.wire);
    for (const auto& other : ports_)
        if (other.get() == &port || (pair && other->config.wire == port.config.wire))
            together.push_back(other.get());
    return together;
}

Result<void> Runtime::open_devices(const std::vector<Port*>& ports) {
    std::vector<wire::PortWires> wires;
    for (const Port* port : ports) {
        auto opened = wire::open_port(port->config, config_.runtime_dir);
        if (!opened) return tl::unexpected(opened.error());
        wires.push_back(std::move(*opened));
    }
    if (!engine_)
        engine_ = std::make_unique<core::Engine>(
            core::EngineConfig{.threads = config_.threads.value_or(1),
                               .cpus = config_.cpus,
                               .available = available_cpus()});
    // All or none: one end of a pair alone would never have a link.
    if (auto room = engine_->make_room(ports.size()); !room) return room;
    for (size_t i = 0; i < ports.size(); i++) {
        Port& port = *ports[i];
        auto device = std::make_unique<core::Device>(
            core::DeviceConfig{.name = port.config.device,
                               .mac = port.netdev.mac(),
                               .mtu = port.netdev.mtu(),
                               .pause = active_pause(port),
                               .carrier_always = port.config.carrier_always,
                               .steering_format = port.config.steering_format.value_or(0),
                               .kernel_promiscuous = port.config.netdev_tap},
            std::move(wires[i].wire), std::move(wires[i].kernel));
        device->set_link(port.netdev.is_up());
        port.device.store(&engine_->add(std::move(device)), std::memory_order_release);
        if (config_.verbose)
            say(fmt::format("{} runs, wire {}, link {}", port.config.device, port.config.wire,
                            port.link_up() ? "up" : "down"));
    }
    return {};
}

void Runtime::start_control() {
    const auto faults_of = [this](const std::string& device) -> CommandFaults* {
        for (const auto& port : ports_)
            if (port->config.device == device) return &port->faults;
        return nullptr;
    };
    const auto reread_netdev = [this](const nlohmann::json& request) -> nlohmann::json {
        for (const auto& port : ports_)
            if (request.value("device", nlohmann::json()) == port->config.device)
                port->netdev.reread();
        return {{"ok", true}};
    };
    // A daemon is not the launcher's child, so the kernel would not kill it along with the
    // launcher.
    const std::string alive = config_.runtime_dir + "/" + kAliveFile;
    const auto start = [&](unsigned nth) {
        return control::ControlServer::start(
            control::socket_path(config_.runtime_dir, getpid(), nth), *engine_,
            {{kCensusCommand, [this](const auto&) { return describe_process(*this); }},
             {kNetdevCommand, reread_netdev}},
            faults_of, Fd(open(alive.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)));
    };
    auto control = start(0);
    for (unsigned nth = 1; !control && control.error().code == EADDRINUSE; ++nth)
        control = start(nth);
    if (!control)
        return say(fmt::format(
            "{} (softhca stat will not see this program){}", control.error().what,
            control.error().code == ENAMETOOLONG ? "; XDG_RUNTIME_DIR can name another place"
                                                 : ""));
    control_ = std::move(*control);
    std::atexit([] {
        // Removes the socket. The devices keep running: code that runs after this may still wait
        // for them, and they end with the process.
        if (Runtime* mine = running()) mine->control_.reset();
    });
}

} // namespace softhca::uverbs
