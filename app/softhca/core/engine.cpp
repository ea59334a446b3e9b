// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/engine.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace softhca::core {
namespace {

/// How an idle device thread spends its time: it spins, then gives its CPU away between polls, then
/// sleeps for longer and longer. With few CPUs the program needs the CPU that spinning would take.
class Idler {
  public:
    Idler(bool few_cpus, std::vector<pollfd> wait)
        : spins_(few_cpus ? 50 : 20000), yields_(few_cpus ? 200 : 100), wait_(std::move(wait)) {}

    void busy() {
        idle_ = 0;
        was_ready_ = false;
    }
    void idle() {
        if (idle_ < spins_) {
            __builtin_ia32_pause();
        } else if (idle_ < spins_ + yields_) {
            sched_yield();
        } else {
            // Doorbells live in memory, which cannot wake anybody: sleeps must stay short.
            const uint64_t doubled = (idle_ - spins_ - yields_) / kSleepsPerStep;
            sleep(std::min(kMinSleepNs << std::min<uint64_t>(doubled, 8), kMaxSleepNs));
        }
        idle_++;
    }

  private:
    static constexpr uint64_t kMinSleepNs = 20'000, kMaxSleepNs = 100'000;
    static constexpr uint64_t kSleepsPerStep = 50;

    void sleep(uint64_t ns) {
        const timespec time{0, static_cast<long>(ns)};
        // What was ready the last time and led to no work (a TAP that is gone, a device that is
        // dead) would be ready again at once.
        if (wait_.empty() || std::exchange(was_ready_, false))
            nanosleep(&time, nullptr);
        else
            was_ready_ = ppoll(wait_.data(), wait_.size(), &time, nullptr) > 0;
    }

    uint64_t idle_ = 0;
    uint64_t spins_;
    uint64_t yields_;
    std::vector<pollfd> wait_; ///< a frame ends the sleep
    bool was_ready_ = false;
};

cpu_set_t allowed_cpus(const std::vector<int>& cpus, unsigned index) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (!cpus.empty()) {
        CPU_SET(static_cast<size_t>(cpus[index % cpus.size()]), &set);
        return set;
    }
    // Any CPU: the creating thread may be an lcore pinned to its own.
    const long count = sysconf(_SC_NPROCESSORS_CONF);
    for (long cpu = 0; cpu < std::min<long>(count, CPU_SETSIZE); cpu++)
        CPU_SET(static_cast<size_t>(cpu), &set);
    return set;
}

} // namespace

struct Engine::State {
    EngineConfig config;
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<std::thread> threads;
    std::atomic<bool> stop{false};

    void run(unsigned index);
};

void Engine::State::run(unsigned index) {
    const cpu_set_t cpus = allowed_cpus(config.cpus, index);
    // Fails for CPUs that the process may not use: then the thread stays where it may run.
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    pthread_setname_np(pthread_self(), ("softhca-" + std::to_string(index)).c_str());
    prctl(PR_SET_TIMERSLACK, 1000ul); // default: 50 us, more than our sleeps

    std::vector<Device*> mine;
    std::vector<pollfd> wait;
    for (size_t i = index; i < devices.size(); i += config.threads) {
        mine.push_back(devices[i].get());
        for (const int fd : devices[i]->wait_fds())
            if (fd >= 0) wait.push_back({fd, POLLIN, 0});
    }
    Idler idler(std::thread::hardware_concurrency() <= 2, std::move(wait));
    while (!stop.load(std::memory_order_relaxed)) {
        size_t work = 0;
        for (Device* const device : mine)
            work += device->poll();
        if (work != 0)
            idler.busy();
        else
            idler.idle();
    }
}

Engine::Engine(EngineConfig config, std::vector<std::unique_ptr<Device>> devices)
    : state_(std::make_unique<State>()) {
    config.threads = std::clamp<unsigned>(
        config.threads, 1, static_cast<unsigned>(std::max<size_t>(devices.size(), 1)));
    state_->config = std::move(config);
    state_->devices = std::move(devices);
    // Signals are the program's: device threads are born with all of them blocked.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned i = 0; i < state_->config.threads; i++)
        state_->threads.emplace_back([state = state_.get(), i] { state->run(i); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Engine::~Engine() {
    state_->stop = true;
    for (std::thread& thread : state_->threads)
        thread.join();
}

size_t Engine::size() const { return state_->devices.size(); }
Device& Engine::device(size_t index) { return *state_->devices[index]; }

} // namespace softhca::core
