// SPDX-License-Identifier: BSD-3-Clause
// Control calls beside other threads: that of events.
#include "tests/unit/ethdev/port_fixture.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace rawqp::test {
namespace {

void wait_for(const std::atomic<bool>& what) {
    for (int i = 0; i < 2000 && !what; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(what);
}

/// A handler that asks the port for something while another thread closes it.
TEST_F(PortTest, IsClosedWhileItsApplicationIsTold) {
    struct Handler {
        std::atomic<bool> called = false, closing = false, answered = false;
    } handler;
    bring_up();
    const auto ask = [](uint16_t port, rte_eth_event_type, void* opaque, void*) {
        auto& of = *static_cast<Handler*>(opaque);
        of.called = true;
        while (!of.closing)
            std::this_thread::yield();
        // The other thread is to be waiting by then.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        rte_eth_stats stats{};
        of.answered = rte_eth_stats_get(port, &stats) == 0;
        return 0;
    };
    rte_eth_dev_callback_register(id(), RTE_ETH_EVENT_INTR_RMV, ask, &handler);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ibv_async_event fatal{};
    fatal.event_type = IBV_EVENT_DEVICE_FATAL;
    rdma.raise(fatal);
    wait_for(handler.called);
    handler.closing = true;
    close();
    EXPECT_TRUE(handler.answered);
}

} // namespace
} // namespace rawqp::test
