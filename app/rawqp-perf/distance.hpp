// SPDX-License-Identifier: BSD-3-Clause
// How far from the lcore the cache lines are that the device has touched when bursts are timed:
//
//   near  in the lcore's own cache: a software device shares its CPU, and works while we sleep
//   far   in another core's cache, or shared with it: the device has a CPU of its own, on another
//         physical core. This is closest to a NIC that writes into the last level (DDIO)
//   cold  in memory: rings, what the driver keeps alongside them, and mbufs are evicted before
//         bursts are timed, as a busy cache or a NIC without DDIO leaves them
//
// The device never runs while bursts are timed.
#pragma once

#include "app/rawqp-perf/dpdk.hpp"
#include "app/rawqp-perf/steps.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace perf {

enum class Distance : uint8_t { near, far, cold };

/// "near", "far" or "cold"; empty for other words.
std::optional<Distance> parse_distance(const std::string& text);
[[nodiscard]] const char* name_of(Distance distance);

/// The cost of lines that another core has just touched, in TSC cycles per line.
struct LineCosts {
    double load;  ///< of lines that it wrote, one after the other
    double store; ///< to lines that it read, alternating with stores to own lines
};

/// Keeps everything else off a CPU for short periods, by a thread of higher real-time priority that
/// spins there. It shares two lines with its user and touches them only at the start and end of a
/// period; others in line_costs().
class CpuHold {
  public:
    /// Throws std::runtime_error without the right to real-time priorities, or when the CPU is on
    /// the physical core of the calling thread.
    explicit CpuHold(unsigned cpu);
    ~CpuHold();
    CpuHold(const CpuHold&) = delete;
    CpuHold& operator=(const CpuHold&) = delete;

    /// Returns when nothing else runs on the CPU.
    void begin();
    /// Releases the CPU. False: something else has nevertheless run there since begin().
    [[nodiscard]] bool end();

    /// The present costs, seen from the held CPU: a virtual machine's host moves its CPUs close
    /// together and far apart, and the cost of a burst at far changes with that. Empty when the CPU
    /// could not be held meanwhile.
    [[nodiscard]] std::optional<LineCosts> line_costs();

    /// For the report: the CPUs and cores.
    [[nodiscard]] const std::string& proof() const { return proof_; }

  private:
    struct Shared;
    std::unique_ptr<Shared> shared_;
    std::string proof_;
};

/// Addresses that are evicted together.
struct MemorySpan {
    const void* start;
    size_t bytes;
};
/// Writes the lines back and evicts them from all caches. False where the CPU cannot.
bool evict(const std::vector<MemorySpan>& spans);

/// Brackets each timed section.
class TimedSection {
  public:
    /// `hold`: null unless the distance is far; `spans`: what is evicted, empty unless it is cold.
    TimedSection(CpuHold* hold, std::vector<MemorySpan> spans)
        : hold_(hold), spans_(std::move(spans)) {}

    void begin() {
        if (hold_ == nullptr) rte_delay_us_block(kLongestNapUs);
        if (!spans_.empty()) evict(spans_);
        if (hold_ != nullptr) hold_->begin();
        start_ = rte_rdtsc_precise();
        if (steps_ != nullptr) steps_->begin();
    }
    /// Cycles since begin(); empty when they are not valid, as the device may have run.
    std::optional<uint64_t> end() {
        if (steps_ != nullptr) steps_->end();
        const uint64_t cycles = rte_rdtsc_precise() - start_;
        if (hold_ != nullptr && !hold_->end()) return {};
        return cycles;
    }

    /// Records each instruction of the next sections; null: stops. The sections' times are then
    /// meaningless.
    void trace(Steps* steps) { steps_ = steps; }

  private:
    /// A device thread that sleeps on this CPU has set a timer, whose interrupt costs several times
    /// as much as a round, and comes at the same point of each round for some seconds. Once it has
    /// fired, that thread waits for the CPU and sets no other.
    static constexpr unsigned kLongestNapUs = 150;

    CpuHold* hold_;
    Steps* steps_ = nullptr;
    std::vector<MemorySpan> spans_;
    uint64_t start_ = 0;
};

} // namespace perf
