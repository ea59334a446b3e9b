// SPDX-License-Identifier: BSD-3-Clause
// Meters: what rte_mtr leaves to the caller, and testpmd always asks for.
#include "tests/functional/ethdev/port.hpp"

#include <rte_mtr.h>

namespace test {
namespace {

class Meter : public PortTest {
  protected:
    static constexpr uint32_t kId = 7; // of the profile, the policy and the meter

    void SetUp() override {
        ASSERT_NO_FATAL_FAILURE(PortTest::SetUp());
        rte_mtr_meter_profile profile{};
        profile.alg = RTE_MTR_SRTCM_RFC2697;
        profile.srtcm_rfc2697 = {.cir = 1'000'000, .cbs = 10'000, .ebs = 0};
        ASSERT_EQ(rte_mtr_meter_profile_add(kPort, kId, &profile, &error), 0) << error.message;
        const rte_flow_action drop[] = {{.type = RTE_FLOW_ACTION_TYPE_DROP, .conf = nullptr},
                                        {.type = RTE_FLOW_ACTION_TYPE_END, .conf = nullptr}};
        rte_mtr_meter_policy_params policy{};
        policy.actions[RTE_COLOR_RED] = drop; // the others go on
        ASSERT_EQ(rte_mtr_meter_policy_add(kPort, kId, &policy, &error), 0) << error.message;
        rte_mtr_params params{};
        params.meter_profile_id = params.meter_policy_id = kId;
        params.meter_enable = 1;
        params.stats_mask = RTE_MTR_STATS_N_PKTS_GREEN | RTE_MTR_STATS_N_PKTS_DROPPED;
        ASSERT_EQ(rte_mtr_create(kPort, kId, &params, 0, &error), 0) << error.message;
    }
    void TearDown() override {
        EXPECT_EQ(rte_mtr_destroy(kPort, kId, &error), 0) << error.message;
        EXPECT_EQ(rte_mtr_meter_policy_delete(kPort, kId, &error), 0) << error.message;
        EXPECT_EQ(rte_mtr_meter_profile_delete(kPort, kId, &error), 0) << error.message;
        PortTest::TearDown();
    }
    rte_mtr_error error{};
};

TEST_F(Meter, CountersAndTheirMaskAreAskedForOneByOne) {
    rte_mtr_stats stats{};
    uint64_t mask = 0;
    EXPECT_EQ(rte_mtr_stats_read(kPort, kId, &stats, &mask, 0, &error), 0) << error.message;
    EXPECT_EQ(mask, RTE_MTR_STATS_N_PKTS_GREEN | RTE_MTR_STATS_N_PKTS_DROPPED);
    mask = 0;
    EXPECT_EQ(rte_mtr_stats_read(kPort, kId, nullptr, &mask, 0, &error), 0) << error.message;
    EXPECT_EQ(mask, RTE_MTR_STATS_N_PKTS_GREEN | RTE_MTR_STATS_N_PKTS_DROPPED);
    EXPECT_EQ(rte_mtr_stats_read(kPort, kId, &stats, nullptr, 0, &error), 0) << error.message;
    EXPECT_EQ(rte_mtr_stats_read(kPort, kId, nullptr, nullptr, 1, &error), 0) << error.message;
}

} // namespace
} // namespace test
