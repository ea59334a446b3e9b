// SPDX-License-Identifier: BSD-3-Clause
// Meter profiles and policies: values in the device's format, and what is refused.
#include "drivers/net/rawqp/ethdev/meter/meters.hpp"

#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rawqp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

double rate_of(Scaled scaled) { return std::ldexp(1e9 * scaled.mantissa, -scaled.exponent); }
double size_of(Scaled scaled) { return std::ldexp(scaled.mantissa, scaled.exponent); }

TEST(MeterProfileTest, RatesAreTheNearest) {
    EXPECT_EQ(rate_of(scaled_rate(0)), 0);
    EXPECT_NEAR(rate_of(scaled_rate(1)), 1, 0.25);
    EXPECT_EQ(rate_of(scaled_rate(127'500'000'000)), 127.5e9) << "the largest mantissa";
    for (uint64_t rate = 128; rate <= kMostRate; rate = rate * 7 / 5 + 1)
        EXPECT_NEAR(rate_of(scaled_rate(rate)) / static_cast<double>(rate), 1, 0.004) << rate;
    EXPECT_EQ(rate_of(scaled_rate(kMostRate)), static_cast<double>(kMostRate));
}

TEST(MeterProfileTest, SizesAreNotLess) {
    for (uint64_t size = 0; size <= 255; ++size)
        EXPECT_EQ(size_of(scaled_size(size)), static_cast<double>(size));
    for (uint64_t size = 256; size < kMostSize; size = size * 7 / 5 + 1) {
        const double over = size_of(scaled_size(size)) / static_cast<double>(size);
        EXPECT_TRUE(over >= 1 && over < 1.008) << size << ": " << over;
    }
    EXPECT_EQ(size_of(scaled_size(kMostSize)), static_cast<double>(kMostSize + 1));
}

rte_mtr_meter_profile single_rate(uint64_t cir, uint64_t cbs, uint64_t ebs) {
    rte_mtr_meter_profile profile{};
    profile.alg = RTE_MTR_SRTCM_RFC2697;
    profile.srtcm_rfc2697 = {cir, cbs, ebs};
    return profile;
}

// Bit 31: valid, 30: overflow of the first bucket goes to the second, 29:28: initial color (2:
// green), 27: green packets take from both, 25:24: unit (0: bytes of the IP packet, 3: packets).
TEST(MeterProfileTest, EachAlgorithmInTheDevicesWords) {
    auto parameters = meter_parameters(single_rate(1'000'000'000, 255, 0));
    ASSERT_TRUE(parameters);
    EXPECT_EQ(parameters->flags, 0xa0000000u);
    // 10^9 is 128 × 10^9 / 2^7; sizes have their exponent in bits 28:24.
    EXPECT_EQ(parameters->cbs_cir, 0x00ff0780u);
    EXPECT_EQ(parameters->ebs_eir, 0u);

    parameters = meter_parameters(single_rate(1'000'000'000, 255, 512));
    ASSERT_TRUE(parameters);
    EXPECT_EQ(parameters->flags, 0xe0000000u);
    EXPECT_EQ(parameters->ebs_eir, 0x02800000u); // 128 × 2^2

    rte_mtr_meter_profile two_rates{};
    two_rates.alg = RTE_MTR_TRTCM_RFC2698;
    two_rates.trtcm_rfc2698 = {.cir = 1'000'000, .pir = 2'000'000, .cbs = 1, .pbs = 2};
    two_rates.packet_mode = 1;
    parameters = meter_parameters(two_rates);
    ASSERT_TRUE(parameters);
    EXPECT_EQ(parameters->flags, 0xab000000u);
    // A packet takes 128 tokens: 128 × 10^6 are 131 × 10^9 / 2^10.
    EXPECT_EQ(parameters->cbs_cir, 0x00800a83u);
    EXPECT_EQ(parameters->ebs_eir, 0x01800983u);

    two_rates.alg = RTE_MTR_TRTCM_RFC4115;
    two_rates.trtcm_rfc4115 = {.cir = 2'000'000'000, .eir = 1'000'000'000, .cbs = 1, .ebs = 2};
    two_rates.packet_mode = 0;
    parameters = meter_parameters(two_rates);
    ASSERT_TRUE(parameters);
    EXPECT_EQ(parameters->flags, 0xe0000000u);
    EXPECT_EQ(parameters->cbs_cir, 0x00010680u);
    EXPECT_EQ(parameters->ebs_eir, 0x00020780u);
}

TEST(MeterProfileTest, AnOpenMeterHasTheLargestNumbers) {
    EXPECT_EQ(open_meter().flags, 0xa3000000u);
    EXPECT_EQ(open_meter().cbs_cir, 0x188000ffu);
}

TEST(MeterProfileTest, WhatNoDeviceCanDoIsRefused) {
    const auto refused = [](const rte_mtr_meter_profile& profile) {
        const auto parameters = meter_parameters(profile);
        return parameters ? "accepted" : parameters.error().what;
    };
    EXPECT_THAT(refused(single_rate(0, 10, 0)), HasSubstr("neither can be 0"));
    EXPECT_THAT(refused(single_rate(10, 0, 0)), HasSubstr("neither can be 0"));
    EXPECT_THAT(refused(single_rate(kMostRate + 1, 10, 0)),
                HasSubstr("the largest is 255000000000"));
    EXPECT_THAT(refused(single_rate(10, kMostSize + 1, 0)), HasSubstr("burst size"));
    EXPECT_THAT(refused(single_rate(10, 10, kMostSize + 1)), HasSubstr("burst size"));
    rte_mtr_meter_profile peak{};
    peak.alg = RTE_MTR_TRTCM_RFC2698;
    peak.trtcm_rfc2698 = {.cir = 10, .pir = 20, .cbs = 10, .pbs = 0};
    EXPECT_THAT(refused(peak), HasSubstr("the peak size cannot be 0"));
    peak.trtcm_rfc2698.pbs = 5; // no burst is longer than this, which RFC 2698 allows
    EXPECT_EQ(refused(peak), "accepted");
    rte_mtr_meter_profile other = single_rate(10, 10, 0);
    const unsigned unknown = 77;
    std::memcpy(&other.alg, &unknown, sizeof unknown);
    EXPECT_THAT(refused(other), HasSubstr("algorithm 77 is unknown"));
}

TEST(MeterProfileTest, WithoutAnAlgorithmAllPacketsAreGreen) {
    rte_mtr_meter_profile none{};
    none.alg = RTE_MTR_NONE;
    const auto parameters = meter_parameters(none);
    ASSERT_TRUE(parameters) << parameters.error().what;
    const mlx5::MeterParams open = open_meter();
    EXPECT_EQ(std::memcmp(&*parameters, &open, sizeof open), 0);
}

TEST(MeterPolicyTest, ColorsAreDroppedOrGoOn) {
    const rte_flow_action nothing[] = {{RTE_FLOW_ACTION_TYPE_VOID, nullptr},
                                       {RTE_FLOW_ACTION_TYPE_END, nullptr}};
    const rte_flow_action drop[] = {{RTE_FLOW_ACTION_TYPE_DROP, nullptr},
                                    {RTE_FLOW_ACTION_TYPE_END, nullptr}};
    const rte_flow_action_meter_color yellow{RTE_COLOR_YELLOW};
    const rte_flow_action to_yellow[] = {{RTE_FLOW_ACTION_TYPE_METER_COLOR, &yellow},
                                         {RTE_FLOW_ACTION_TYPE_END, nullptr}};
    const auto drops = Meters::read({{nothing, to_yellow, drop}});
    ASSERT_TRUE(drops);
    EXPECT_THAT(*drops, ElementsAre(false, false, true));
    EXPECT_THAT(*Meters::read({{nullptr, drop, nullptr}}), ElementsAre(false, true, false));

    const auto recolored = Meters::read({{to_yellow, nullptr, drop}});
    ASSERT_FALSE(recolored);
    EXPECT_EQ(recolored.error().type, RTE_MTR_ERROR_TYPE_POLICER_ACTION_GREEN);
    EXPECT_THAT(recolored.error().what, HasSubstr("of green packets is not supported"));
}

} // namespace
} // namespace rawqp
