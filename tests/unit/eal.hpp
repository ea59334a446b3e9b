// SPDX-License-Identifier: BSD-3-Clause
// EAL for unit tests: started once per process, without hugepages, devices or files.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace test_eal {

/// Returns true if EAL runs. EAL pins the calling thread to a CPU, which is undone: other tests in
/// the process start threads that would inherit it.
inline bool start() {
    static const bool started = [] {
        cpu_set_t cpus;
        pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus);
        const char* arguments[] = {"rawqp-unit", "--no-huge",      "-m", "64", "--no-shconf",
                                   "--no-pci",   "--no-telemetry", "-l", "0",  "--log-level=error"};
        const int count = static_cast<int>(std::size(arguments));
        const bool ok = rte_eal_init(count, const_cast<char**>(arguments)) >= 0;
        pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
        return ok;
    }();
    return started;
}

struct FreePool {
    void operator()(rte_mempool* pool) const { rte_mempool_free(pool); }
};
using Pool = std::unique_ptr<rte_mempool, FreePool>;

/// A pool of exactly `count` mbufs with `data_room` bytes (headroom included); no cache unless
/// asked for. Names are unique.
inline Pool make_pool(unsigned count, uint16_t data_room = RTE_MBUF_DEFAULT_BUF_SIZE,
                      unsigned cache = 0) {
    static int serial = 0;
    const std::string name = "pool" + std::to_string(serial++);
    return Pool(rte_pktmbuf_pool_create(name.c_str(), count, cache, 0, data_room, SOCKET_ID_ANY));
}

/// Base class of tests that need mbufs.
class EalTest : public testing::Test {
  protected:
    static void SetUpTestSuite() { ASSERT_TRUE(start()) << "rte_eal_init failed"; }
};

} // namespace test_eal
