// SPDX-License-Identifier: BSD-3-Clause
// Statistics with what the hardware counts, as sysfs tells it.
#include "tests/unit/ethdev/port_fixture.hpp"

#include <filesystem>
#include <fstream>
#include <map>

namespace rawqp::test {
namespace {

class PortCounters : public PortTest {
  protected:
    PortCounters() {
        std::filesystem::create_directories(folder());
        sysfs = root_;
    }
    ~PortCounters() override { std::filesystem::remove_all(root_); }

    void set(const std::string& counter, uint64_t value) const {
        std::ofstream(folder() / counter) << value;
    }
    [[nodiscard]] uint64_t missed() const {
        rte_eth_stats stats{};
        EXPECT_EQ(rte_eth_stats_get(id(), &stats), 0);
        return stats.imissed;
    }
    /// All extended statistics, as one call tells them.
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
    const std::filesystem::path root_ = testing::TempDir() + "rawqp-counters";
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

/// As net_mlx5 calls them, so that what watches it finds them here.
TEST_F(PortCounters, NamesAreDpdks) {
    set("out_of_buffer", 5);
    set("rx_icrc_encapsulated", 6);
    set("lifespan", 10); // how old values may be: no counter
    bring_up();
    const auto named = all();
    EXPECT_EQ(named.at("rx_out_of_buffer"), 5u);
    EXPECT_EQ(named.at("hw_rx_icrc_encapsulated"), 6u);
    EXPECT_FALSE(named.contains("hw_out_of_buffer"));
    EXPECT_FALSE(named.contains("hw_lifespan"));
}

/// NICs with a counter for everything on each of many channels have thousands.
TEST_F(PortCounters, ResetsHoldForAnyNumberOfThem) {
    const auto name = [](int i) { return fmt::format("c{:04}", i); };
    constexpr int kCounters = 700;
    for (int i = 0; i < kCounters; ++i)
        set(name(i), 1000u + static_cast<unsigned>(i));
    bring_up();
    ASSERT_EQ(rte_eth_xstats_reset(id()), 0);
    for (const int i : {0, kCounters - 1})
        set(name(i), 2000u + static_cast<unsigned>(i));
    set("a_new_one", 7); // and all others are a place further
    const auto named = all();
    EXPECT_EQ(named.at("hw_a_new_one"), 7u);
    for (int i = 0; i < kCounters; ++i)
        ASSERT_EQ(named.at("hw_" + name(i)), i == 0 || i == kCounters - 1 ? 1000u : 0u) << i;
    set("a_new_one", 9);
    ASSERT_EQ(rte_eth_xstats_reset(id()), 0);
    EXPECT_EQ(all().at("hw_a_new_one"), 0u);
}

} // namespace
} // namespace rawqp::test
