// SPDX-License-Identifier: BSD-3-Clause
// The fixture for tests of ports: a port on a fake device.
#pragma once

#include "drivers/net/rawqp/ethdev/driver/devargs.hpp"
#include "drivers/net/rawqp/ethdev/driver/driver.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/queues/queue.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/verbs/fake_rdma.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rawqp::test {

constexpr uint16_t kQueues = 2;
constexpr uint16_t kDescriptors = 64;

/// Calls `handler` for such events during its lifetime. ethdev keeps handlers when a port is closed
/// and calls them for the next port in its place; for closed ports it drops them only with
/// RTE_ETH_ALL.
class EventHandler {
  public:
    EventHandler(rte_eth_event_type event, rte_eth_dev_cb_fn handler, void* argument)
        : event_(event), handler_(handler), argument_(argument) {
        EXPECT_EQ(rte_eth_dev_callback_register(RTE_ETH_ALL, event_, handler_, argument_), 0);
    }
    ~EventHandler() {
        EXPECT_EQ(rte_eth_dev_callback_unregister(RTE_ETH_ALL, event_, handler_, argument_), 0);
    }
    EventHandler(const EventHandler&) = delete;
    EventHandler& operator=(const EventHandler&) = delete;

  private:
    rte_eth_event_type event_;
    rte_eth_dev_cb_fn handler_;
    void* argument_;
};

class PortTest : public test_eal::EalTest {
  protected:
    void TearDown() override {
        close();
        EXPECT_EQ(mbufs_in_use(), 0u);
        EXPECT_EQ(rdma.alive(), "");
        EXPECT_THAT(rdma.violations, testing::IsEmpty());
    }

    /// What probe does once the library is loaded.
    Result<void> attach(const char* arguments = "device=fake_0,datapath=verbs") {
        Devargs devargs = parse_devargs(arguments).value();
        dev = rte_eth_dev_allocate("net_rawqp_test");
        dev->data->dev_private = rte_zmalloc("test", sizeof(SharedPort), 0);
        driver.name = "net_rawqp";
        device.driver = &driver;
        dev->device = &device;
        Result<void> done = rawqp::attach(dev, rdma.api(), std::move(devargs), sysfs);
        if (!done) {
            rte_eth_dev_release_port(dev);
            dev = nullptr;
            return done;
        }
        rte_eth_dev_probing_finish(dev);
        return done;
    }
    Error refused(const char* arguments = "device=fake_0,datapath=verbs") {
        const Result<void> done = attach(arguments);
        EXPECT_FALSE(done);
        EXPECT_EQ(rdma.alive(), "");
        return done ? Error{} : done.error();
    }
    void close() {
        if (dev == nullptr) return;
        if (dev->data->dev_started != 0) {
            EXPECT_EQ(rte_eth_dev_stop(id()), 0);
        }
        EXPECT_EQ(rte_eth_dev_close(id()), 0);
        dev = nullptr;
    }
    [[nodiscard]] unsigned mbufs_in_use() const { return rte_mempool_in_use_count(pool.get()); }
    [[nodiscard]] uint16_t id() const { return dev->data->port_id; }

    /// Also of queues: rte_eth_stats has none from 25.11 on.
    [[nodiscard]] uint64_t extended_stat(const char* name) const {
        uint64_t at = 0, value = 0;
        EXPECT_EQ(rte_eth_xstats_get_id_by_name(id(), name, &at), 0) << name;
        EXPECT_EQ(rte_eth_xstats_get_by_id(id(), &at, &value, 1), 1);
        return value;
    }

    int configure(uint16_t rx, uint16_t tx) {
        rte_eth_conf conf{};
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rxmode.offloads = rx_offloads;
        conf.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP;
        conf.intr_conf.lsc = 1;
        conf.intr_conf.rmv = 1;
        if (const int error = rte_eth_dev_configure(id(), rx, tx, &conf)) return error;
        for (uint16_t i = 0; i < rx; ++i)
            if (const int error =
                    rte_eth_rx_queue_setup(id(), i, kDescriptors, 0, nullptr, pool.get()))
                return error;
        for (uint16_t i = 0; i < tx; ++i)
            if (const int error = rte_eth_tx_queue_setup(id(), i, kDescriptors, 0, nullptr))
                return error;
        return 0;
    }
    /// Attaches, configures and starts the port; without it, the test cannot continue.
    void bring_up() {
        const Result<void> done = attach();
        ASSERT_TRUE(done) << done.error().what;
        ASSERT_EQ(configure(kQueues, kQueues), 0);
        ASSERT_EQ(rte_eth_dev_start(id()), 0);
    }

    verbs_test::FakeRdma rdma;
    test_eal::Pool pool = test_eal::make_pool(1023);
    rte_eth_dev* dev = nullptr;
    rte_driver driver{};
    rte_device device{};
    uint64_t rx_offloads = 0;
    std::string sysfs = "/nonexistent";
};

} // namespace rawqp::test
