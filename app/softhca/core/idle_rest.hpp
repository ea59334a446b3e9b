// SPDX-License-Identifier: BSD-3-Clause
// How an idle device thread spends its time: it spins, if it may, then sleeps for longer and
// longer. It never yields: that would give the CPU away for a whole time slice of whichever thread
// waits for it, possibly the program that waits for the device, whereas a short sleep ends when it
// should.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace softhca::core {

/// For one device thread. Decides only; the thread does the sleeping.
class IdleRest {
  public:
    /// Spinning is for threads with a CPU of their own. The program has at least one polling
    /// thread, and the machine has other work: with fewer CPUs than that, device threads give way.
    IdleRest(size_t cpus, size_t device_threads)
        : spins_(cpus > device_threads + 1 ? kSpins : kFewSpins),
          spins_awaited_(cpus > device_threads ? kSpinsAwaited : 0) {}

    /// After a round with work. `awaited`: its owner does nothing until the device has done it, and
    /// then has more (Device::was_awaited). A sleep in between would cost more than all that work,
    /// so where there is a CPU for each of the two, the thread spins for a while. Traffic in the
    /// meantime does not shorten that.
    void busy(bool awaited) {
        idle_ = 0;
        rested_ = false;
        if (awaited) awaited_ = spins_awaited_;
    }
    /// After a round without work. Returns how long to sleep, in ns; 0: not at all.
    uint64_t idle() {
        if (awaited_ != 0) {
            awaited_--;
            return 0;
        }
        const uint64_t rounds = idle_++;
        rested_ = rounds >= spins_;
        if (!rested_) return 0;
        // Doorbells are in memory, which cannot wake a thread: sleeps must stay short.
        const uint64_t doubled = (rounds - spins_) / kSleepsPerStep;
        return std::min(kMinSleepNs << std::min<uint64_t>(doubled, 8), kMaxSleepNs);
    }
    /// Whether the thread has slept since it was last busy.
    [[nodiscard]] bool rested() const { return rested_; }

    static constexpr uint64_t kFewSpins = 50, kSpinsAwaited = 2000, kSpins = 20000;
    static constexpr uint64_t kMinSleepNs = 20'000, kMaxSleepNs = 100'000;
    static constexpr uint64_t kSleepsPerStep = 50;

  private:
    uint64_t spins_, spins_awaited_;
    uint64_t awaited_ = 0; ///< rounds in which awaited work is still expected
    uint64_t idle_ = 0;    ///< rounds without work, apart from those
    bool rested_ = false;
};

} // namespace softhca::core
