// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/engine.hpp"

#include "app/softhca/core/idle_rest.hpp"
#include "app/softhca/epoll.hpp"
#include "app/softhca/own_thread.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <mutex>
#include <numeric>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace softhca::core {
namespace {

/// Sleeps no longer than until a frame arrives.
class Sleeper {
  public:
    /// A frame on one of these ends a sleep.
    void wait_for(std::vector<pollfd> wakers) { wait_ = std::move(wakers); }
    void busy() { was_ready_ = false; }
    void sleep(uint64_t ns) {
        const timespec time{0, static_cast<long>(ns)};
        // A descriptor that was ready last time and led to no work (a TAP that is gone, a device
        // that is dead) would be ready again at once, and one that could not be waited for would
        // fail again.
        if (wait_.empty() || std::exchange(was_ready_, false))
            nanosleep(&time, nullptr);
        else
            was_ready_ = poll_files(wait_.data(), wait_.size(), &time) != 0;
    }

  private:
    std::vector<pollfd> wait_;
    bool was_ready_ = false;
};

cpu_set_t allowed_cpus(const EngineConfig& config, unsigned index) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (!config.cpus.empty())
        CPU_SET(static_cast<size_t>(config.cpus[index % config.cpus.size()]), &set);
    else
        for (const int cpu : config.available)
            CPU_SET(static_cast<size_t>(cpu), &set);
    return set;
}

std::vector<int> all_cpus() {
    std::vector<int> cpus(static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF)));
    std::iota(cpus.begin(), cpus.end(), 0);
    return cpus;
}

/// A device thread. It takes over new devices between two rounds.
class Worker {
  public:
    Worker(unsigned index, const EngineConfig& config) : index_(index), config_(config) {
        // These report missing memory (see memory_guard.hpp).
        thread_ = own_thread([this] { run(); }, {SIGSEGV, SIGBUS});
    }
    ~Worker() {
        stop_ = true;
        thread_.join();
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void serve(Device& device) {
        const std::lock_guard lock(mutex_);
        devices_.push_back(&device);
        changed_.store(true, std::memory_order_release);
    }

  private:
    void run();
    [[nodiscard]] std::vector<Device*> devices() {
        const std::lock_guard lock(mutex_);
        changed_.store(false, std::memory_order_relaxed);
        return devices_;
    }

    const unsigned index_;
    const EngineConfig& config_;
    std::mutex mutex_;
    std::vector<Device*> devices_;
    std::atomic<bool> changed_{false};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

std::vector<pollfd> wakers(const std::vector<Device*>& devices) {
    std::vector<pollfd> wait;
    for (const Device* const device : devices)
        for (const int fd : device->wait_fds())
            if (fd >= 0) wait.push_back({fd, POLLIN, 0});
    return wait;
}

void Worker::run() {
    const cpu_set_t cpus = allowed_cpus(config_, index_);
    // Fails for CPUs that the process may not use: then the thread stays where it may run.
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    pthread_setname_np(pthread_self(), ("softhca-" + std::to_string(index_)).c_str());
    prctl(PR_SET_TIMERSLACK, 1000ul); // default: 50 us, more than our sleeps

    std::vector<Device*> mine;
    Sleeper sleeper;
    IdleRest rest(config_.available.size(), config_.threads);
    while (!stop_.load(std::memory_order_relaxed)) {
        if (changed_.load(std::memory_order_acquire)) {
            mine = devices();
            sleeper.wait_for(wakers(mine));
        }
        size_t work = 0;
        bool awaited = false;
        for (Device* const device : mine) {
            work += device->poll(rest.rested());
            awaited |= device->was_awaited();
        }
        if (work != 0) {
            rest.busy(awaited);
            sleeper.busy();
        } else if (const uint64_t ns = rest.idle(); ns != 0) {
            sleeper.sleep(ns);
        } else {
            __builtin_ia32_pause();
        }
    }
}

} // namespace

struct Engine::State {
    EngineConfig config;
    mutable std::mutex mutex;
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<std::unique_ptr<Worker>> workers; // end before the devices

    /// Call with the mutex held.
    void start_workers(size_t devices) {
        while (workers.size() < std::min<size_t>(devices, config.threads))
            workers.push_back(
                std::make_unique<Worker>(static_cast<unsigned>(workers.size()), config));
    }
};

Engine::Engine(EngineConfig config) : state_(std::make_unique<State>()) {
    config.threads = std::max(config.threads, 1u);
    if (config.available.empty()) config.available = all_cpus();
    state_->config = std::move(config);
}

Engine::~Engine() = default;

Result<void> Engine::make_room(size_t devices) try {
    const std::lock_guard lock(state_->mutex);
    state_->start_workers(state_->devices.size() + devices);
    return {};
} catch (const std::system_error& error) {
    return fail(error.code().value(), "cannot start a device thread ({}): {}",
                error.code().message(), kThreadLimits);
}

Device& Engine::add(std::unique_ptr<Device> device) {
    const std::lock_guard lock(state_->mutex);
    state_->start_workers(state_->devices.size() + 1);
    const size_t worker = state_->devices.size() % state_->config.threads;
    Device& added = *state_->devices.emplace_back(std::move(device));
    state_->workers[worker]->serve(added);
    return added;
}

size_t Engine::size() const {
    const std::lock_guard lock(state_->mutex);
    return state_->devices.size();
}

Device& Engine::device(size_t index) {
    const std::lock_guard lock(state_->mutex);
    return *state_->devices[index];
}

} // namespace softhca::core
