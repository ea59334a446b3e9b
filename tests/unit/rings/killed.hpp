// SPDX-License-Identifier: BSD-3-Clause
// Code that is stopped after some of its instructions, like that of a killed process: what it
// shares with other processes stays as it was at that moment.
#pragma once

#if defined(__x86_64__)

#include "tests/unit/eal.hpp"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <fmt/format.h>
#include <set>
#include <vector>
#include <x86intrin.h>

extern "C" const char __executable_start; // from the linker. NOLINT(bugprone-reserved-identifier)

namespace rings_test {

/// Single-steps with the CPU's trap flag: the kernel sends SIGTRAP after each instruction.
class StepByStep {
  public:
    StepByStep() {
        struct sigaction step {};
        step.sa_sigaction = on_step;
        step.sa_flags = SA_SIGINFO | SA_NODEFER; // the handler may never return
        sigaction(SIGTRAP, &step, &before_);
    }
    ~StepByStep() { sigaction(SIGTRAP, &before_, nullptr); }
    StepByStep(const StepByStep&) = delete;
    StepByStep& operator=(const StepByStep&) = delete;

    /// Runs that many instructions of `code`. Returns true if it ended before.
    template <class Code> bool run(uint64_t instructions, const Code& code) {
        left = instructions;
        if (sigsetjmp(killed, 0) != 0) return false;
        __writeeflags(__readeflags() | kTrap);
        code();
        __writeeflags(__readeflags() & ~kTrap);
        return true;
    }
    /// Called within `code`: does what another process would do, without counting its instructions.
    /// Returns its result.
    template <class Other> static auto elsewhere(const Other& other) {
        const uint64_t flags = __readeflags();
        __writeeflags(flags & ~kTrap);
        const auto result = other();
        __writeeflags(flags);
        return result;
    }

    static inline uint64_t steps = 0; ///< in all runs
    /// The first instruction that was not executed, for `addr2line -Cfipe rawqp-unit`.
    [[nodiscard]] static std::string where() { return fmt::format("{:#x}", at); }

  private:
    static constexpr uint64_t kTrap = 0x100; ///< in EFLAGS
    static void on_step(int, siginfo_t*, void* context) {
        ++steps;
        left = left - 1;
        if (left != 0) return;
        const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
        at = static_cast<uint64_t>(registers[REG_RIP]) -
             reinterpret_cast<uint64_t>(&__executable_start);
        siglongjmp(killed, 1);
    }
    static inline volatile uint64_t left;
    static inline uint64_t at;
    static inline sigjmp_buf killed;
    struct sigaction before_ {};
};

/// Calls `killed_after(steps)`, which returns whether the code ended before that, with steps spread
/// over the whole code. Each step costs a trap, so not every instruction is tried unless the
/// environment has RAWQP_EVERY_INSTRUCTION=1.
template <class Killed> void kill_everywhere(const Killed& killed_after) {
    constexpr uint64_t kToItsEnd = UINT64_MAX, kPoints = 100, kSteps = 100'000; // approximate total
    const uint64_t before = StepByStep::steps;
    ASSERT_TRUE(killed_after(kToItsEnd));
    const uint64_t all = StepByStep::steps - before;
    const bool each = getenv("RAWQP_EVERY_INSTRUCTION") != nullptr;
    const uint64_t points = std::clamp<uint64_t>(2 * kSteps / all, 10, kPoints);
    const uint64_t stride = each ? 1 : std::max<uint64_t>(all / points, 1);
    for (uint64_t steps = 1; steps <= all && !testing::Test::HasFailure(); steps += stride) {
        SCOPED_TRACE(testing::Message() << "killed after instruction " << steps << " of " << all);
        killed_after(steps);
    }
}

/// A pool that a killed process does not leave locked, as it would DPDK's rings: what its code was
/// taking or giving back is either lost or still there. Only one at a time.
class SturdyPool {
  public:
    explicit SturdyPool(unsigned count, unsigned cache = 0) {
        if (driver() < 0) return;
        pool = test_eal::Pool(rte_pktmbuf_pool_create_by_ops(
            kName, count, cache, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY, kName));
        everything_ = objects;
    }
    /// Restores the initial state: nothing is lost.
    void restore() {
        if (auto* const cache = rte_mempool_default_cache(pool.get(), rte_lcore_id()))
            cache->len = 0;
        for (void* const object : everything_) {
            rte_pktmbuf_reset(static_cast<rte_mbuf*>(object));
            rte_mbuf_refcnt_set(static_cast<rte_mbuf*>(object), 1);
        }
        objects = everything_;
        available = objects.size();
    }
    /// The number of mbufs that are missing. Fails the test if one is there twice.
    [[nodiscard]] size_t lacking() const {
        rte_mempool_cache_flush(nullptr, pool.get());
        const std::set<void*> different(objects.begin(), objects.begin() + available);
        EXPECT_EQ(different.size(), available) << "freed twice";
        return objects.size() - available;
    }

    test_eal::Pool pool;

  private:
    static constexpr char kName[] = "sturdy";
    /// Registered on first use.
    static int driver() {
        static const int index = [] {
            rte_mempool_ops ops{};
            rte_strscpy(ops.name, kName, sizeof ops.name);
            ops.alloc = [](rte_mempool* mempool) {
                objects.assign(mempool->size, nullptr);
                available = 0;
                return 0;
            };
            ops.free = [](rte_mempool*) {};
            ops.enqueue = [](rte_mempool*, void* const* from, unsigned count) {
                if (count > objects.size() - available) return -ENOBUFS; // see lacking()
                memcpy(&objects[available], from, count * sizeof *from);
                rte_compiler_barrier();
                available += count;
                return 0;
            };
            ops.dequeue = [](rte_mempool*, void** to, unsigned count) {
                if (count > available) return -ENOBUFS;
                memcpy(to, &objects[available - count], count * sizeof *to);
                rte_compiler_barrier();
                available -= count;
                return 0;
            };
            ops.get_count = [](const rte_mempool*) { return static_cast<unsigned>(available); };
            return rte_mempool_register_ops(&ops);
        }();
        return index;
    }

    static inline std::vector<void*> objects;
    static inline size_t available; ///< that many, from the front
    std::vector<void*> everything_;
};

} // namespace rings_test

#endif
