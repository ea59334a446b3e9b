// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/distance.hpp"

#include "app/rawqp-perf/report.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <numeric>
#include <pthread.h>
#include <random>
#include <sched.h>
#include <stdexcept>
#include <sys/resource.h>
#include <thread>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace perf {
namespace {

constexpr std::array kNames{"near", "far", "cold"};

/// The first CPU of the physical core that `cpu` is on.
std::string core_of(unsigned cpu) {
    std::ifstream file(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    std::string siblings;
    if (!std::getline(file, siblings))
        throw std::runtime_error(fmt::format("CPU {}: is there one? sysfs does not show it", cpu));
    return siblings.substr(0, siblings.find_first_of(",-"));
}

/// How often the calling thread has left its CPU. The TSC would not tell: a virtual machine's host
/// interrupts its CPUs for longer than a device needs for a packet, and may do so every 50 µs.
uint64_t context_switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return static_cast<uint64_t>(usage.ru_nvcsw) + static_cast<uint64_t>(usage.ru_nivcsw);
}

/// Lines that two cores touch alternately.
class FarLines {
  public:
    static constexpr uint32_t kLines = 256;

    FarLines() {
        // A chain through all of them, in an order that no prefetcher predicts.
        std::array<uint32_t, kLines> order;
        std::iota(order.begin(), order.end(), 0u);
        std::shuffle(order.begin() + 1, order.end(), std::mt19937(1));
        for (uint32_t i = 0; i < kLines; ++i)
            next_[order[i]] = order[(i + 1) % kLines];
    }
    /// By the other core.
    void touch() {
        for (uint32_t i = 0; i < kLines; ++i) {
            written_[i].value.store(next_[i], std::memory_order_relaxed);
            (void)read_[i].value.load(std::memory_order_relaxed);
        }
    }
    /// By this core, right afterwards.
    LineCosts costs() {
        const uint64_t begin = rte_rdtsc_precise();
        for (uint32_t i = 0, at = 0; i < kLines; ++i)
            at = written_[at].value.load(std::memory_order_relaxed);
        const uint64_t loaded = rte_rdtsc_precise();
        for (uint32_t i = 0; i < kLines; ++i) {
            read_[i].value.store(i, std::memory_order_relaxed);
            own_[i].value.store(i, std::memory_order_relaxed);
        }
        const uint64_t stored = rte_rdtsc_precise();
        return {static_cast<double>(loaded - begin) / kLines,
                static_cast<double>(stored - loaded) / kLines};
    }

  private:
    struct alignas(RTE_CACHE_LINE_SIZE) Line {
        std::atomic<uint32_t> value;
    };
    std::array<uint32_t, kLines> next_;
    std::array<Line, kLines> written_{}, read_{}, own_{};
};

} // namespace

std::optional<Distance> parse_distance(const std::string& text) {
    const auto* const found = std::find(kNames.begin(), kNames.end(), text);
    if (found == kNames.end()) return {};
    return static_cast<Distance>(found - kNames.begin());
}

const char* name_of(Distance distance) { return kNames.at(static_cast<size_t>(distance)); }

struct CpuHold::Shared {
    enum Wish : uint32_t { rest, hold, touch_and_hold, leave };
    alignas(RTE_CACHE_LINE_SIZE) std::atomic<uint32_t> wish{rest};
    alignas(RTE_CACHE_LINE_SIZE) std::atomic<uint32_t> state{rest};
    bool left = false; ///< another thread has run on the CPU meanwhile; read when state is rest
    std::thread thread;
    FarLines lines;

    void ask(Wish asked) {
        wish.store(asked, std::memory_order_release);
        wish.notify_one();
        while (state.load(std::memory_order_acquire) != hold)
            rte_pause();
    }
    void work() {
        for (;;) {
            wish.wait(rest, std::memory_order_acquire);
            const uint32_t asked = wish.load(std::memory_order_acquire);
            if (asked == leave) return;
            if (asked == touch_and_hold) lines.touch();
            const uint64_t before = context_switches();
            state.store(hold, std::memory_order_release);
            while (wish.load(std::memory_order_acquire) == asked)
                rte_pause();
            left = context_switches() != before;
            state.store(rest, std::memory_order_release);
            state.notify_one();
        }
    }
};

CpuHold::CpuHold(unsigned cpu) : shared_(std::make_unique<Shared>()) {
    const auto own = static_cast<unsigned>(sched_getcpu());
    if (core_of(own) == core_of(cpu))
        throw std::runtime_error(fmt::format("distance far: CPU {} is on the physical core of the "
                                             "lcore, CPU {}: choose another --device-cpu",
                                             cpu, own));
    proof_ = fmt::format("lcore on CPU {} (core {}), device on CPU {} (core {}), held while timed",
                         own, core_of(own), cpu, core_of(cpu));
    Shared& shared = *shared_;
    shared.thread = std::thread([&shared] { shared.work(); });
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    int policy = SCHED_OTHER;
    sched_param priority{};
    pthread_getschedparam(pthread_self(), &policy, &priority);
    priority.sched_priority = policy == SCHED_OTHER ? 2 : priority.sched_priority + 1;
    const pthread_t thread = shared.thread.native_handle();
    int status = pthread_setaffinity_np(thread, sizeof cpus, &cpus);
    if (status == 0) status = pthread_setschedparam(thread, SCHED_FIFO, &priority);
    if (status == 0) return;
    shared.wish.store(Shared::leave);
    shared.wish.notify_one();
    shared.thread.join();
    throw std::runtime_error(fmt::format("distance far: cannot hold CPU {}: {} (CAP_SYS_NICE, "
                                         "and the CPU must be one of this process's)",
                                         cpu, strerror(status)));
}

CpuHold::~CpuHold() {
    shared_->wish.store(Shared::leave);
    shared_->wish.notify_one();
    shared_->thread.join();
}

void CpuHold::begin() { shared_->ask(Shared::hold); }

bool CpuHold::end() {
    shared_->wish.store(Shared::rest, std::memory_order_release);
    while (shared_->state.load(std::memory_order_acquire) != Shared::rest)
        rte_pause();
    return !shared_->left;
}

std::optional<LineCosts> CpuHold::line_costs() {
    constexpr unsigned kTurns = 32;
    std::vector<double> loads, stores;
    for (unsigned turn = 0; turn < kTurns; ++turn) {
        shared_->ask(Shared::touch_and_hold);
        const LineCosts costs = shared_->lines.costs();
        if (!end()) continue;
        loads.push_back(costs.load);
        stores.push_back(costs.store);
    }
    if (loads.empty()) return {};
    return LineCosts{percentile(loads, 0.5), percentile(stores, 0.5)};
}

#if defined(__x86_64__)
namespace {

[[gnu::target("clflushopt")]] void flush(const MemorySpan& span) {
    const auto* const start = static_cast<const char*>(span.start);
    for (size_t at = 0; at < span.bytes; at += RTE_CACHE_LINE_SIZE)
        _mm_clflushopt(const_cast<char*>(start + at));
}

} // namespace

bool evict(const std::vector<MemorySpan>& spans) {
    static const bool can = [] {
        unsigned a = 0, b = 0, c = 0, d = 0;
        return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
    }();
    if (!can) return false;
    for (const MemorySpan& span : spans)
        flush(span);
    _mm_mfence();
    return true;
}
#else
bool evict(const std::vector<MemorySpan>&) { return false; }
#endif

} // namespace perf
