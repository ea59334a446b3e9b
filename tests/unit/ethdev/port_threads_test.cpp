// SPDX-License-Identifier: BSD-3-Clause
// Control calls next to other threads: the event thread, and those that create flow rules.
#include "tests/unit/ethdev/port_fixture.hpp"
#include "tests/unit/flow/rule.hpp"

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

/// A handler that queries the port while another thread closes it.
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
        // The other thread should be waiting by then.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        rte_eth_stats stats{};
        of.answered = rte_eth_stats_get(port, &stats) == 0;
        return 0;
    };
    const EventHandler on_removal(RTE_ETH_EVENT_INTR_RMV, ask, &handler);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ibv_async_event fatal{};
    fatal.event_type = IBV_EVENT_DEVICE_FATAL;
    rdma.raise(fatal);
    wait_for(handler.called);
    handler.closing = true;
    close();
    EXPECT_TRUE(handler.answered);
}

/// EAL cannot unregister the handler of an interrupt while it runs: the application is told
/// elsewhere.
TEST_F(PortTest, IsClosedOrResetByWhoeverIsTold) {
    struct Handler {
        bool resets;
        std::atomic<bool> done = false;
        int status = 0;
    };
    for (const bool resets : {true, false}) {
        Handler handler{.resets = resets};
        bring_up();
        const auto act = [](uint16_t port, rte_eth_event_type, void* opaque, void*) {
            auto& of = *static_cast<Handler*>(opaque);
            of.status = rte_eth_dev_stop(port);
            if (of.status == 0)
                of.status = of.resets ? rte_eth_dev_reset(port) : rte_eth_dev_close(port);
            of.done = true;
            return 0;
        };
        const EventHandler on_removal(RTE_ETH_EVENT_INTR_RMV, act, &handler);
        ibv_async_event fatal{};
        fatal.event_type = IBV_EVENT_DEVICE_FATAL;
        rdma.raise(fatal);
        wait_for(handler.done);
        EXPECT_EQ(handler.status, 0);
        if (resets) {
            EXPECT_EQ(configure(1, 1), 0);
            EXPECT_EQ(rte_eth_dev_start(id()), 0);
            close();
        }
        dev = nullptr;
    }
}

/// ethdev lets any thread create flow rules, which share hash QPs with the port's own rules.
TEST_F(PortTest, FlowRulesComeAndGoBesideThePortsOwn) {
    bring_up();
    std::atomic<bool> over = false;
    std::thread other([&] {
        const Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).rss({0, 1}, RTE_ETH_RSS_IPV4);
        rte_flow_error error{};
        while (!over) {
            rte_flow* const flow =
                rte_flow_create(id(), &rule.attr, rule.pattern(), rule.actions(), &error);
            ASSERT_NE(flow, nullptr) << error.message;
            ASSERT_EQ(rte_flow_destroy(id(), flow, &error), 0);
        }
    });
    rte_eth_rss_conf hash{};
    for (int i = 0; i < 3000; ++i) {
        hash.rss_hf = i % 2 == 0 ? RTE_ETH_RSS_IP : RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP;
        EXPECT_EQ(rte_eth_dev_rss_hash_update(id(), &hash), 0);
        EXPECT_EQ(i % 2 == 0 ? rte_eth_promiscuous_enable(id()) : rte_eth_promiscuous_disable(id()),
                  0);
    }
    over = true;
    other.join();
}

} // namespace
} // namespace rawqp::test
