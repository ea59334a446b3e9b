// SPDX-License-Identifier: BSD-3-Clause
// How far from the lcore the lines are that the device has written or read when bursts are timed.
//
//   near  in the lcore's own cache: a software device shares its CPU, and works while we sleep
//   far   in another core's cache, or shared with it: the device has a CPU of its own, on another
//         physical core. This is closest to a NIC that writes into the last level (DDIO)
//   cold  in memory: rings, what the driver keeps beside them, and mbufs are evicted before bursts
//         are timed, as a busy cache or a NIC without DDIO leaves them
//
// In no case does the device run while bursts are timed.
#pragma once

#include "app/rawqp-perf/dpdk.hpp"
#include "app/rawqp-perf/steps.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace perf {

enum class Distance : uint8_t { near, far, cold };

/// "near", "far" or "cold"; nothing for other words.
std::optional<Distance> parse_distance(const std::string& text);
[[nodiscard]] const char* name_of(Distance distance);

/// What lines cost that another core has just touched, in cycles of the time stamp for each.
struct LineCosts {
    double load;  ///< of those that it wrote, one after the other
    double store; ///< into those that it read, with stores to own lines between them
};

/// Keeps everything else off a CPU for moments, by a thread of higher real-time priority that spins
/// there. It shares two lines with its user and touches them at the borders only; others in
/// line_costs().
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
    /// Lets the CPU go. False: something else has run there since begin() all the same.
    [[nodiscard]] bool end();

    /// As they are now, from the CPU that is held: a virtual machine's host moves its CPUs close to
    /// each other and far apart, and what a burst costs at far goes with that. Nothing when the CPU
    /// could never be held meanwhile.
    [[nodiscard]] std::optional<LineCosts> line_costs();

    /// For the report: which CPUs and cores.
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
/// Writes the lines back and takes them out of all caches. False where the CPU cannot.
bool evict(const std::vector<MemorySpan>& spans);

/// What surrounds each timed section.
class TimedSection {
  public:
    /// `hold`: null unless the distance is far; `spans`: what is evicted, none unless it is cold.
    TimedSection(CpuHold* hold, std::vector<MemorySpan> spans)
        : hold_(hold), spans_(std::move(spans)) {}

    void begin() {
        if (hold_ == nullptr) rte_delay_us_block(kLongestNapUs);
        if (!spans_.empty()) evict(spans_);
        if (hold_ != nullptr) hold_->begin();
        start_ = rte_rdtsc_precise();
        if (steps_ != nullptr) steps_->begin();
    }
    /// Cycles since begin(); nothing when they are no measure, as the device may have run.
    std::optional<uint64_t> end() {
        if (steps_ != nullptr) steps_->end();
        const uint64_t cycles = rte_rdtsc_precise() - start_;
        if (hold_ != nullptr && !hold_->end()) return {};
        return cycles;
    }

    /// Each instruction of the next sections is written down; null: no more. Their times say
    /// nothing.
    void trace(Steps* steps) { steps_ = steps; }

  private:
    /// A device thread that sleeps on this CPU has set a timer, whose interrupt costs several times
    /// what a round does, and comes at the same point of each round for some seconds. Once it has
    /// come, that thread waits for the CPU and sets no other.
    static constexpr unsigned kLongestNapUs = 150;

    CpuHold* hold_;
    Steps* steps_ = nullptr;
    std::vector<MemorySpan> spans_;
    uint64_t start_ = 0;
};

} // namespace perf
