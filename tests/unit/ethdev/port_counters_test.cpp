// SPDX-License-Identifier: BSD-3-Clause
// Statistics with hardware counters, which come from sysfs.
#include "tests/unit/ethdev/port_fixture.hpp"

#include "common/net/endian.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <unistd.h>

namespace rawqp::test {
namespace {

class PortCounters : public PortTest {
  protected:
    PortCounters() {
        std::filesystem::create_directories(folder());
        std::filesystem::create_directories(folder() / "../../../device");
        sysfs = root_;
    }
    ~PortCounters() override { std::filesystem::remove_all(root_); }

    void set(const std::string& counter, uint64_t value) const {
        std::ofstream(folder() / counter) << value;
    }
    void remove(const std::string& counter) const { std::filesystem::remove(folder() / counter); }
    [[nodiscard]] uint64_t missed() const {
        rte_eth_stats stats{};
        EXPECT_EQ(rte_eth_stats_get(id(), &stats), 0);
        return stats.imissed;
    }
    /// All extended statistics, from a single call.
    [[nodiscard]] std::map<std::string, uint64_t> all() const {
        const int count = rte_eth_xstats_get_names(id(), nullptr, 0);
        std::vector<rte_eth_xstat_name> names(static_cast<size_t>(count));
        std::vector<rte_eth_xstat> values(names.size());
        const auto size = static_cast<unsigned>(count);
        EXPECT_EQ(rte_eth_xstats_get_names(id(), names.data(), size), count);
        EXPECT_EQ(rte_eth_xstats_get(id(), values.data(), size), count);
        std::map<std::string, uint64_t> named;
        for (size_t i = 0; i < values.size(); ++i) {
            EXPECT_EQ(values[i].id, i);
            EXPECT_TRUE(named.emplace(names[i].name, values[i].value).second) << names[i].name;
        }
        return named;
    }

  private:
    [[nodiscard]] std::filesystem::path folder() const {
        return root_ / "class/infiniband/fake_0/ports/1/hw_counters";
    }
    const std::filesystem::path root_ = // test shards run in parallel
        testing::TempDir() + fmt::format("rawqp-counters-{}", getpid());
};

TEST_F(PortCounters, ResetIsForEveryCounter) {
    set("out_of_buffer", 100);
    bring_up();
    Port::of(dev).totals.unsent = 3;
    Port::of(dev).totals.unread = 4;
    EXPECT_EQ(missed(), 100u);
    EXPECT_EQ(extended_stat("tx_unsent_packets"), 3u);
    EXPECT_EQ(extended_stat("rx_unread_packets"), 4u);
    ASSERT_EQ(rte_eth_stats_reset(id()), 0);
    EXPECT_EQ(missed(), 0u);
    EXPECT_EQ(extended_stat("tx_unsent_packets"), 0u);
    EXPECT_EQ(extended_stat("rx_unread_packets"), 0u);
    set("out_of_buffer", 107);
    EXPECT_EQ(missed(), 7u);
    EXPECT_EQ(extended_stat("rx_missed_errors"), 7u);
}

TEST_F(PortCounters, ThePortIsOnItsDevicesNode) {
    set("../../../device/numa_node", 0);
    bring_up();
    EXPECT_EQ(rte_eth_dev_socket_id(id()), 0);
    close();
    set("../../../device/numa_node", 1);
    ASSERT_TRUE(attach());
    EXPECT_EQ(rte_eth_dev_socket_id(id()), 1);
}

/// Each process resets the counters that it sees, by the names that it knows.
TEST_F(PortCounters, AResetLeavesWhatOnlyAnotherProcessSees) {
    set("out_of_buffer", 100);
    set("rx_read_requests", 50);
    bring_up();
    ASSERT_EQ(rte_eth_xstats_reset(id()), 0);
    EXPECT_EQ(all().at("hw_rx_read_requests"), 0u);
    EXPECT_EQ(all().at("rx_out_of_buffer"), 0u);
    remove("out_of_buffer");
    set("rx_write_requests", 30);
    set("rx_read_requests", 60);
    EXPECT_EQ(all().at("hw_rx_read_requests"), 10u); // names are also read again
    ASSERT_EQ(rte_eth_xstats_reset(id()), 0);
    EXPECT_EQ(all().at("hw_rx_write_requests"), 0u);
    EXPECT_EQ(all().at("hw_rx_read_requests"), 0u);
    set("out_of_buffer", 107);
    EXPECT_EQ(all().at("rx_out_of_buffer"), 7u);
    EXPECT_EQ(all().at("hw_rx_write_requests"), 0u);
}

/// With DevX, each queue has a Q counter.
class QueueCounters : public PortCounters {
  protected:
    QueueCounters() {
        rdma.offer_mlx5_flows();
        rdma.offers_devx = true;
        set("out_of_buffer", 100);
    }
    /// Those that exist, in queue order.
    [[nodiscard]] std::vector<verbs_test::DevxObject*> q_counters() const {
        constexpr uint16_t kAlloc = 0x771;
        std::vector<verbs_test::DevxObject*> found;
        for (const auto& object : rdma.devx_objects)
            if (object->opcode() == kAlloc) found.push_back(object.get());
        return found;
    }
    /// Sets how many packets of a queue the device has dropped so far.
    void count(uint16_t queue, uint32_t drops) const {
        const net::be32 value = drops;
        std::vector<uint8_t>& answer = q_counters().at(queue)->answer;
        answer.resize(248);
        std::memcpy(&answer[40], &value, sizeof value); // query_q_counter_out.out_of_buffer
    }
    [[nodiscard]] bool names_queue(uint16_t queue) const {
        return all().contains(fmt::format("rx_q{}_missed_errors", queue));
    }
    [[nodiscard]] uint64_t missed_by(uint16_t queue) const {
        return all().at(fmt::format("rx_q{}_missed_errors", queue));
    }
};

TEST_F(QueueCounters, EachTellsWhatItsQueueMissed) {
    bring_up();
    ASSERT_EQ(q_counters().size(), kQueues);
    EXPECT_EQ(missed(), 100u);
    count(0, 3);
    count(1, 40);
    EXPECT_EQ(missed(), 143u) << "and what the RDMA port counts";
    EXPECT_EQ(missed_by(0), 3u);
    EXPECT_EQ(missed_by(1), 40u);
    EXPECT_EQ(extended_stat("rx_out_of_buffer"), 143u);

    ASSERT_EQ(rte_eth_xstats_reset(id()), 0);
    EXPECT_EQ(missed(), 0u);
    EXPECT_EQ(missed_by(1), 0u);
    EXPECT_EQ(extended_stat("rx_out_of_buffer"), 0u);
    count(1, 45);
    EXPECT_EQ(missed(), 5u);
    EXPECT_EQ(missed_by(1), 5u);
    count(1, 0xffffffff);
    EXPECT_EQ(missed_by(1), 0xffffffffu - 40);
    count(1, 1); // the counter has 32 bits
    EXPECT_EQ(missed_by(1), 0xffffffffu - 40 + 2);
    EXPECT_EQ(missed(), missed_by(1));
}

/// Whenever the kernel's driver makes a WQ ready, it binds the WQ to a counter of its own.
TEST_F(QueueCounters, TheyAreBoundWheneverAQueueStarts) {
    bring_up();
    ASSERT_EQ(rdma.wq_changes.size(), kQueues);
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(id(), 1), 0);
    ASSERT_EQ(rte_eth_dev_rx_queue_start(id(), 1), 0);
    ASSERT_EQ(rdma.wq_changes.size(), kQueues + 1u);
    Port& port = Port::of(dev);
    ASSERT_EQ(port.reset(*port.rx_queues[0]->ring), 0); // after an error CQE
    ASSERT_EQ(rdma.wq_changes.size(), kQueues + 2u);
    constexpr std::pair<size_t, size_t> kQueueOfChange[] = {{0, 0}, {1, 1}, {2, 1}, {3, 0}};
    for (const auto& [place, queue] : kQueueOfChange) {
        const auto& [wq, command] = rdma.wq_changes.at(place);
        EXPECT_EQ(wq, port.rx_queues[queue]->wq->wq_num);
        const verbs_test::DevxObject in{command};
        EXPECT_EQ(in.opcode(), 0x909);
        EXPECT_EQ(in.word(8), 1u << 28 | wq) << "ready, and its number";
        EXPECT_EQ(in.word(20), 8u) << "the counter is to change";
        EXPECT_EQ(in.word(32), 1u << 20) << "to ready";
        EXPECT_EQ(in.word(44), q_counters().at(queue)->number << 24);
    }
}

/// What a queue has missed stays in the port's sum; a queue that is set up again starts at zero.
TEST_F(QueueCounters, NothingIsLostWithAQueue) {
    bring_up();
    count(1, 7);
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(id(), 1), 0);
    ASSERT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, pool.get()), 0);
    EXPECT_EQ(q_counters().size(), kQueues);
    EXPECT_EQ(missed(), 107u);
    EXPECT_EQ(missed_by(1), 0u);
}

TEST_F(QueueCounters, AQueueThatCannotHaveOneIsNotTold) {
    rdma.fail_next("devx_obj_create", ENOMEM);
    ASSERT_TRUE(attach());
    ASSERT_EQ(configure(kQueues, kQueues), 0);
    rdma.fail_next("devx_wq_modify", EREMOTEIO);
    EXPECT_FALSE(names_queue(0));
    EXPECT_TRUE(names_queue(1));
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_FALSE(names_queue(1)) << "the RDMA port counts it";
    EXPECT_EQ(missed(), 100u);
}

/// Named as in net_mlx5, so that its monitoring tools find them here.
TEST_F(PortCounters, NamesAreDpdks) {
    set("out_of_buffer", 5);
    set("rx_icrc_encapsulated", 6);
    set("lifespan", 10); // the maximum age of values: not a counter
    bring_up();
    const auto named = all();
    EXPECT_EQ(named.at("rx_out_of_buffer"), 5u);
    EXPECT_EQ(named.at("hw_rx_icrc_encapsulated"), 6u);
    EXPECT_FALSE(named.contains("hw_out_of_buffer"));
    EXPECT_FALSE(named.contains("hw_lifespan"));
}

/// NICs that count everything on each of many channels have thousands.
TEST_F(PortCounters, ResetsHoldForAnyNumberOfThem) {
    const auto name = [](int i) { return fmt::format("c{:04}", i); };
    constexpr int kCounters = 700;
    for (int i = 0; i < kCounters; ++i)
        set(name(i), 1000u + static_cast<unsigned>(i));
    bring_up();
    ASSERT_EQ(rte_eth_xstats_reset(id()), 0);
    for (const int i : {0, kCounters - 1})
        set(name(i), 2000u + static_cast<unsigned>(i));
    set("a_new_one", 7); // shifts all others by one
    const auto named = all();
    EXPECT_EQ(named.at("hw_a_new_one"), 7u);
    for (int i = 0; i < kCounters; ++i)
        ASSERT_EQ(named.at("hw_" + name(i)), i == 0 || i == kCounters - 1 ? 1000u : 0u) << i;
    set("a_new_one", 9);
    ASSERT_EQ(rte_eth_xstats_reset(id()), 0);
    EXPECT_EQ(all().at("hw_a_new_one"), 0u);
}

TEST_F(PortCounters, WhatTheyWereAtAResetIsForgottenWithThePort) {
    size_t kept[2] = {};
    for (size_t life = 0; life < std::size(kept); ++life) {
        bring_up();
        for (const char* const name : {"one", "two"}) { // the second one needs a larger table
            const std::string counter = fmt::format("{}_{}", name, life);
            set(counter, 1);
            EXPECT_EQ(all().at("hw_" + counter), 1u);
            ASSERT_EQ(rte_eth_xstats_reset(id()), 0);
        }
        close();
        rte_malloc_socket_stats heap{};
        ASSERT_EQ(rte_malloc_get_socket_stats(0, &heap), 0);
        kept[life] = heap.alloc_count;
    }
    EXPECT_EQ(kept[1], kept[0]);
}

} // namespace
} // namespace rawqp::test
