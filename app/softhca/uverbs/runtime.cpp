// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/runtime.hpp"

#include "app/softhca/control/protocol.hpp"
#include "app/softhca/uverbs/census.hpp"
#include "app/softhca/uverbs/fd_table.hpp"
#include "app/softhca/uverbs/paths.hpp"
#include "app/softhca/uverbs/sysfs_tree.hpp"
#include "app/softhca/wire/open.hpp"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <pthread.h>

namespace softhca::uverbs {
namespace {

constinit std::atomic<Runtime*> instance{nullptr};
constinit std::atomic<Runtime*> started{nullptr};
constinit std::mutex create_mutex;
constinit std::atomic<bool> unreadable{false};

void say(const std::string& what) { std::fprintf(stderr, "softhca: %s\n", what.c_str()); }

/// The child has none of the parent's device threads, so it has none of its devices.
void after_fork_in_child() {
    instance.store(nullptr);
    started.store(nullptr);
    new (&create_mutex) std::mutex; // another thread of the parent may have held it
    fd_table::forget_all();
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
        ports_.push_back(
            std::make_unique<Port>(config_.ports[i], i, tree_root(config_.runtime_dir)));
}

Runtime* Runtime::get() {
    Runtime* known = instance.load(std::memory_order_acquire);
    if (known || !*runtime_folder() || unreadable.load(std::memory_order_relaxed)) return known;
    const std::lock_guard lock(create_mutex);
    if (Runtime* other = instance.load(std::memory_order_acquire)) return other;
    auto config = load_config();
    if (!config) {
        unreadable = true;
        say(config.error().what);
        return nullptr;
    }
    static const int at_fork = pthread_atfork(nullptr, nullptr, after_fork_in_child);
    (void)at_fork;
    auto* fresh = new Runtime(std::move(*config));
    instance.store(fresh, std::memory_order_release);
    return fresh;
}

Runtime* Runtime::running() { return started.load(std::memory_order_acquire); }

Port* Runtime::port(size_t index) { return index < ports_.size() ? ports_[index].get() : nullptr; }

Port* Runtime::port_of_netdev(std::string_view name) {
    for (const auto& port : ports_)
        if (port->config.netdev == name) return port.get();
    return nullptr;
}

Result<void> Runtime::start() {
    const std::lock_guard lock(start_mutex_);
    if (engine_) return {};
    if (auto opened = open_devices(); !opened) {
        say(opened.error().what);
        return opened;
    }
    auto control = control::ControlServer::start(
        control::socket_path(config_.runtime_dir, getpid()), *engine_,
        {{kCensusCommand, [this](const auto&) { return describe_process(*this); }}},
        [this](size_t device, const CommandFault* fault) {
            CommandFaults& faults = ports_[device]->faults;
            fault ? faults.add(*fault) : faults.clear();
        });
    if (control)
        control_ = std::move(*control);
    else
        say(control.error().what + " (softhca stat will not see this program)");
    started.store(this, std::memory_order_release);
    if (config_.verbose)
        for (const auto& port : ports_)
            say(fmt::format("{} runs, wire {}, link {}", port->config.device, port->config.wire,
                            port->link_up() ? "up" : "down"));
    std::atexit([] {
        // Takes the socket away. The devices go on: programs may still wait for them in what runs
        // after this, and they end with the process.
        if (Runtime* mine = running()) mine->control_.reset();
    });
    return {};
}

Result<void> Runtime::open_devices() {
    std::vector<std::unique_ptr<core::Device>> devices;
    for (const auto& port : ports_) {
        auto wires = wire::open_port(port->config, config_.runtime_dir);
        if (!wires) return tl::unexpected(wires.error());
        devices.push_back(std::make_unique<core::Device>(
            core::DeviceConfig{.name = port->config.device,
                               .mac = port->netdev.mac(),
                               .mtu = port->netdev.mtu(),
                               .pause = port->config.pause,
                               .carrier_always = port->config.carrier_always,
                               .kernel_promiscuous = port->config.netdev_tap},
            std::move(wires->wire), std::move(wires->kernel)));
    }
    engine_ = std::make_unique<core::Engine>(
        core::EngineConfig{.threads = config_.threads, .cpus = config_.cpus}, std::move(devices));
    for (const auto& port : ports_) {
        core::Device& device = engine_->device(port->index);
        device.set_link(port->netdev.is_up());
        port->device.store(&device, std::memory_order_release);
    }
    return {};
}

} // namespace softhca::uverbs
