// SPDX-License-Identifier: BSD-3-Clause
// Code that is stopped after some of its instructions, like that of a killed process: what it
// shares with other processes stays as it was at that moment.
#pragma once

#if defined(__x86_64__)

#include "common/poison.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mrs.hpp"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <fmt/format.h>
#include <set>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
#include <x86intrin.h>

extern "C" const char __executable_start; // from the linker. NOLINT(bugprone-reserved-identifier)

namespace rings_test {

/// Makes EAL's memory private to each process that fork() creates: EAL maps a file, shared.
inline bool own_memory_after_fork() {
    static const bool own =
        test_eal::start() &&
        rte_memseg_list_walk(
            [](const rte_memseg_list* list, void*) {
                auto* const first = static_cast<rte_memseg*>(rte_fbarray_get(&list->memseg_arr, 0));
                const int fd = rte_memseg_get_fd_thread_unsafe(first);
                if (fd < 0) return 0; // private already
                const void* const mapped = mmap(list->base_va, list->len, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_FIXED, fd, 0);
                return mapped == list->base_va ? 0 : -1;
            },
            nullptr) == 0;
    return own;
}

/// Single-steps with the CPU's trap flag: the kernel sends SIGTRAP after each instruction. A child
/// is forked after each of the chosen ones, and goes on as if the process had been killed there.
class StepByStep {
  public:
    /// `mrs` is of the process.
    explicit StepByStep(FakeMrs& mrs) : mrs_(mrs) {
        struct sigaction step {};
        step.sa_sigaction = on_step;
        step.sa_flags = SA_SIGINFO | SA_NODEFER; // the handler may never return
        sigaction(SIGTRAP, &step, &before_);
    }
    ~StepByStep() { sigaction(SIGTRAP, &before_, nullptr); }
    StepByStep(const StepByStep&) = delete;
    StepByStep& operator=(const StepByStep&) = delete;

    /// Runs `code`. Returns true in this process, and false in a child in which it was killed, and
    /// which goes on as another process.
    template <class Code> bool run(const Code& code) {
        steps = 0;
        if (sigsetjmp(killed, 0) != 0) {
            mrs_.start_process();
            return false;
        }
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

    static inline uint64_t steps = 0;  ///< in this run
    static inline uint64_t stride = 1; ///< a child after every so many
    static inline bool in_child = false;
    static inline uint64_t failed = 0; ///< the number of steps after which a child found a fault
    /// The first instruction that was not executed, for `addr2line -Cfipe rawqp-unit-rings`.
    [[nodiscard]] static std::string where() { return fmt::format("{:#x}", at); }

  private:
    static constexpr uint64_t kTrap = 0x100; ///< in EFLAGS
    static void on_step(int, siginfo_t*, void* context) {
        ++steps;
        if (steps % stride != 0 || failed != 0) return;
        const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
        at = static_cast<uint64_t>(registers[REG_RIP]) -
             reinterpret_cast<uint64_t>(&__executable_start);
        const pid_t child = _Fork(); // fork() would wait for locks that `code` may hold
        if (child == 0) {
            in_child = true;
            siglongjmp(killed, 1);
        }
        int status = -1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) failed = steps;
    }
    static inline uint64_t at;
    static inline sigjmp_buf killed;
    FakeMrs& mrs_;
    struct sigaction before_ {};
};

/// Calls `attempt`, which runs code with StepByStep and checks what it leaves behind: as it ends,
/// and killed after some of its instructions, or after each if the environment has
/// RAWQP_EVERY_INSTRUCTION=1.
template <class Attempt> void kill_everywhere(const Attempt& attempt) {
    // Primes, so that loops are left in different places. A step takes 15 us, a fork 1 ms; with
    // AddressSanitizer, whose page tables are copied too, 10 ms.
    constexpr uint64_t kUsualStride = RAWQP_POISONS ? 499 : 23;
    ASSERT_TRUE(own_memory_after_fork());
    StepByStep::stride = getenv("RAWQP_EVERY_INSTRUCTION") != nullptr ? 1 : kUsualStride;
    StepByStep::failed = 0;
    fflush(nullptr); // a child writes what is buffered, too
    attempt();
    if (StepByStep::in_child) {
        fflush(nullptr);
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    EXPECT_GT(StepByStep::steps, 0u);
    EXPECT_EQ(StepByStep::failed, 0u)
        << "killed after that many of " << StepByStep::steps << " instructions, at "
        << StepByStep::where() << ", see above";
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
    /// Nobody goes on with the cache of a killed process's lcore, which it may have left while it
    /// emptied it.
    void lose_cache() {
        if (auto* const cache = rte_mempool_default_cache(pool.get(), rte_lcore_id()))
            cache->len = 0;
    }
    /// Restores the initial state: nothing is lost.
    void restore() {
        lose_cache();
        for (void* const object : everything_) {
            rte_pktmbuf_reset(static_cast<rte_mbuf*>(object));
            rte_mbuf_refcnt_set(static_cast<rte_mbuf*>(object), 1);
        }
        objects = everything_;
        available = objects.size();
        overfilled = false;
    }
    /// The number of mbufs that are missing. Fails the test if one is there twice.
    [[nodiscard]] size_t lacking() const {
        rte_mempool_cache_flush(nullptr, pool.get());
        const std::set<void*> different(objects.begin(), objects.begin() + available);
        EXPECT_EQ(different.size(), available) << "freed twice";
        EXPECT_FALSE(overfilled) << "freed twice";
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
                overfilled |= count > objects.size() - available;
                if (overfilled) return -ENOBUFS; // see lacking()
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
    static inline bool overfilled;  ///< by mbufs that were there already
    std::vector<void*> everything_;
};

} // namespace rings_test

#endif
