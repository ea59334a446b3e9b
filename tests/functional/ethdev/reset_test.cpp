// SPDX-License-Identifier: BSD-3-Clause
// A port that is reset again and again while other threads ask about it: one here, which calls
// what newer releases of DPDK have telemetry call, and telemetry itself, which the caller queries
// (tests/functional/test_threads.py).
#include "tests/functional/ethdev/port.hpp"

#include <array>
#include <atomic>
#include <thread>

namespace test {
namespace {

constexpr unsigned kRounds = 40;
constexpr size_t kManyStatistics = 1024; // more than there are, as their number changes

class Resets : public PortTest {
  protected:
    void TearDown() override {} // the port is stopped

    /// Whether a call is answered, and not with anything but the refusal of a port that is absent.
    static bool answered(int result) {
        EXPECT_TRUE(result >= 0 || result == -EBUSY) << result;
        return result >= 0;
    }
    /// Returns how many calls were answered.
    static unsigned ask() {
        rte_eth_dev_info info{};
        rte_eth_link link{};
        rte_eth_stats stats{};
        rte_eth_fc_conf flow_control{};
        std::array<rte_eth_xstat, kManyStatistics> values{};
        std::array<rte_eth_xstat_name, kManyStatistics> names{};
        unsigned answers = 0;
        answers += answered(rte_eth_dev_info_get(kPort, &info));
        answers += answered(rte_eth_link_get_nowait(kPort, &link));
        answers += answered(rte_eth_stats_get(kPort, &stats));
        answers += answered(rte_eth_dev_flow_ctrl_get(kPort, &flow_control));
        answers += answered(rte_eth_xstats_get(kPort, values.data(), values.size()));
        answers += answered(rte_eth_xstats_get_names(kPort, names.data(), names.size()));
        // Also refused where there is no such queue, setting, interface or module.
        rte_eth_burst_mode mode{};
        (void)rte_eth_rx_burst_mode_get(kPort, 0, &mode);
        (void)rte_eth_tx_burst_mode_get(kPort, 0, &mode);
        rte_eth_rxq_info queue{};
        (void)rte_eth_rx_queue_info_get(kPort, 0, &queue);
        rte_eth_rss_conf rss{};
        (void)rte_eth_dev_rss_hash_conf_get(kPort, &rss);
        uint32_t fec = 0;
        (void)rte_eth_fec_get(kPort, &fec);
        rte_eth_dev_module_info module{};
        (void)rte_eth_dev_get_module_info(kPort, &module);
        return answers;
    }
};

TEST_F(Resets, BesideQuestions) {
    std::atomic<bool> goes_on = true;
    unsigned answers = 0;
    std::puts("ready for questions");
    std::fflush(stdout);
    EXPECT_EQ(std::getchar(), '\n');
    std::thread asking([&] {
        do
            answers += ask();
        while (goes_on);
    });
    for (unsigned round = 0; round < kRounds; ++round) {
        EXPECT_EQ(rte_eth_dev_reset(kPort), 0); // stops it
        start(rx_pool());
    }
    EXPECT_EQ(rte_eth_dev_stop(kPort), 0);
    goes_on = false;
    asking.join();
    EXPECT_GT(answers, 0u);
    // ethdev demands that nobody asks while it closes a port.
    std::puts("resets are over");
    std::fflush(stdout);
    EXPECT_EQ(std::getchar(), '\n');
}

} // namespace
} // namespace test
