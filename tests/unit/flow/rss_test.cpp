// SPDX-License-Identifier: BSD-3-Clause
// Hash fields of each traffic class, and the cache of hash QPs.
#include "drivers/net/rawqp/ethdev/names.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"
#include "tests/unit/flow/fake_device.hpp"
#include "tests/unit/net/softrss.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rawqp::test {
namespace {

using enum TrafficClass;
constexpr uint64_t kIp4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
constexpr uint64_t kIp6 = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6;
constexpr uint64_t kTcp = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
constexpr uint64_t kUdp = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;

TEST(HashFields, NothingAskedForHashesNothing) {
    for (const TrafficClass traffic : kTrafficClasses)
        EXPECT_EQ(hash_fields_of(traffic, 0), 0u);
}

TEST(HashFields, IpTypesHashPacketsWithPortsOnAddresses) {
    EXPECT_EQ(hash_fields_of(ipv4, RTE_ETH_RSS_IP), kIp4);
    EXPECT_EQ(hash_fields_of(ipv4_tcp, RTE_ETH_RSS_IP), kIp4);
    EXPECT_EQ(hash_fields_of(ipv6_udp, RTE_ETH_RSS_IP), kIp6);
    EXPECT_EQ(hash_fields_of(other, RTE_ETH_RSS_IP), 0u);
}

TEST(HashFields, L4TypesHashTheirOwnPacketsOnly) {
    EXPECT_EQ(hash_fields_of(ipv4_tcp, RTE_ETH_RSS_TCP), kIp4 | kTcp);
    EXPECT_EQ(hash_fields_of(ipv6_tcp, RTE_ETH_RSS_TCP), kIp6 | kTcp);
    EXPECT_EQ(hash_fields_of(ipv4_udp, RTE_ETH_RSS_TCP), 0u);
    EXPECT_EQ(hash_fields_of(ipv4, RTE_ETH_RSS_TCP), 0u);
    EXPECT_EQ(hash_fields_of(ipv6_udp, RTE_ETH_RSS_NONFRAG_IPV6_UDP), kIp6 | kUdp);
    EXPECT_EQ(hash_fields_of(ipv4_udp, RTE_ETH_RSS_NONFRAG_IPV6_UDP), 0u);
}

TEST(HashFields, FragmentTypesLeavePacketsWithPortsAlone) {
    EXPECT_EQ(hash_fields_of(ipv4, RTE_ETH_RSS_FRAG_IPV4), kIp4);
    EXPECT_EQ(hash_fields_of(ipv4_tcp, RTE_ETH_RSS_FRAG_IPV4), 0u);
}

TEST(HashFields, OneDirection) {
    const uint64_t tcp = RTE_ETH_RSS_NONFRAG_IPV4_TCP;
    EXPECT_EQ(hash_fields_of(ipv4_tcp, tcp | RTE_ETH_RSS_L3_SRC_ONLY), IBV_RX_HASH_SRC_IPV4 | kTcp);
    EXPECT_EQ(hash_fields_of(ipv4_tcp, tcp | RTE_ETH_RSS_L4_DST_ONLY),
              kIp4 | IBV_RX_HASH_DST_PORT_TCP);
    EXPECT_EQ(hash_fields_of(ipv4_tcp, tcp | RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L3_DST_ONLY),
              kIp4 | kTcp);
}

constexpr auto kDefault = RTE_ETH_HASH_FUNCTION_DEFAULT, kToeplitz = RTE_ETH_HASH_FUNCTION_TOEPLITZ,
               kSymmetric = RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ;

RssHash chosen(rte_eth_hash_function function, std::span<const uint8_t> key, const RssHash& now,
               uint64_t types = RTE_ETH_RSS_IP) {
    const auto hash = hash_for(function, types, key, now);
    EXPECT_TRUE(hash) << hash.error().what;
    return hash.value_or(RssHash{});
}

std::string refusal(rte_eth_hash_function function, std::span<const uint8_t> key, uint64_t types) {
    const auto hash = hash_for(function, types, key, {});
    return hash ? "" : hash.error().what;
}

/// Computed with rte_softrss, which applications use to find the queue of a packet.
TEST(Hash, SymmetricKeysGiveBothDirectionsOneHash) {
    RssKey other;
    for (size_t i = 0; i < other.size(); ++i)
        other[i] = i % 2 == 0 ? 0x3e : 0x91;
    for (const RssKey& key : {chosen(kSymmetric, {}, {}).key, chosen(kSymmetric, other, {}).key})
        for (uint32_t n = 1; n < 100; ++n) {
            const uint32_t source = n * 2654435761u, destination = ~n * 40503u, ports = n * 65599u;
            uint32_t there[] = {source, destination, ports};
            uint32_t back[] = {destination, source, ports << 16 | ports >> 16};
            EXPECT_EQ(rte_softrss(there, 3, key.data()), rte_softrss(back, 3, key.data()));
            EXPECT_NE(rte_softrss(there, 3, key.data()), 0u);
        }
}

TEST(Hash, WhatIsLeftOpenGoesOnAsItIs) {
    RssKey repeating, plain;
    repeating.fill(0x5a);
    plain.fill(0x5a);
    plain.back() = 0;
    const RssHash now = chosen(kSymmetric, repeating, {});
    EXPECT_TRUE(now.symmetric);
    EXPECT_EQ(chosen(kSymmetric, {}, now).key, repeating) << "symmetric as it is";
    EXPECT_EQ(chosen(kSymmetric, {}, {plain, false}).key, kSymmetricRssKey);
    EXPECT_EQ(chosen(kToeplitz, {}, now).key, repeating);
    EXPECT_FALSE(chosen(kToeplitz, {}, now).symmetric);
    // The default function lets the driver choose: it stays symmetric if key and types permit.
    EXPECT_TRUE(chosen(kDefault, {}, now).symmetric);
    EXPECT_TRUE(chosen(kDefault, kSymmetricRssKey, now).symmetric);
    EXPECT_FALSE(chosen(kDefault, plain, now).symmetric);
    EXPECT_FALSE(chosen(kDefault, {}, now, RTE_ETH_RSS_IP | RTE_ETH_RSS_L3_SRC_ONLY).symmetric);
    EXPECT_FALSE(chosen(kDefault, repeating, {}).symmetric) << "nobody asked for it";
}

TEST(Hash, RefusalsSayWhatWouldWork) {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
    static_assert(kSymmetricSort == RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ_SORT);
#endif
    EXPECT_THAT(refusal(kSymmetricSort, {}, RTE_ETH_RSS_IP),
                testing::AllOf(testing::HasSubstr("symmetric_toeplitz_sort"),
                               testing::HasSubstr("OR and XOR"),
                               testing::HasSubstr("use symmetric_toeplitz")));
    EXPECT_THAT(refusal(RTE_ETH_HASH_FUNCTION_SIMPLE_XOR, {}, RTE_ETH_RSS_IP),
                testing::HasSubstr("simple_xor is not supported: use toeplitz"));
    EXPECT_THAT(refusal(kSymmetric, kDefaultRssKey, RTE_ETH_RSS_IP),
                testing::HasSubstr("give such a key, or none"));
    EXPECT_THAT(refusal(kSymmetric, {}, RTE_ETH_RSS_IP | RTE_ETH_RSS_L4_DST_ONLY),
                testing::HasSubstr("leave out the types"));
}

TEST(HashFields, TypesAreNamedAndOthersNotLeftOut) {
    EXPECT_EQ(rss_type_names(0), "none");
    EXPECT_EQ(rss_type_names(RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_ESP), "ipv4, esp");
    EXPECT_EQ(rss_type_names(RTE_ETH_RSS_IPV4 | uint64_t{3} << 45), "ipv4, others");
}

TEST(HashFields, EveryFieldSetIsOneThatTheKernelTakes) {
    // mlx5_ib: one L3 and one L4 type per QP.
    const uint64_t types = supported_rss_types();
    for (const TrafficClass traffic : kTrafficClasses)
        for (uint64_t bit = 1; bit != 0; bit <<= 1) {
            const uint64_t fields = hash_fields_of(traffic, types & ~bit);
            EXPECT_FALSE(fields & kIp4 && fields & kIp6);
            EXPECT_FALSE(fields & kTcp && fields & kUdp);
        }
}

class RssQpsTest : public testing::Test {
  protected:
    FakeDevice device{4};
    RssQps qps{device.api(), device.context(), device.pd(), device.rx_queues};
};

TEST_F(RssQpsTest, BuildsTheTableTheKeyAndTheFields) {
    RssDestination destination{.queues = {3, 1, 0, 1}, .hash_fields = kIp4 | kUdp};
    destination.key[39] = 0x77;
    const auto qp = qps.acquire(qps.target(destination));
    ASSERT_TRUE(qp) << qp.error().what;
    ASSERT_EQ(device.qps.size(), 1u);
    const auto& made = *device.qps[0];
    EXPECT_EQ(made.queues, (std::vector<uint16_t>{3, 1, 0, 1}));
    EXPECT_EQ(made.key, destination.key);
    EXPECT_EQ(made.hash_fields, kIp4 | kUdp);
}

TEST_F(RssQpsTest, SharesEqualDestinationsAndCountsReferences) {
    const auto acquire = [&](uint16_t queue) {
        return std::move(*qps.acquire(qps.target({.queues = {queue}})));
    };
    HashQp first = acquire(1);
    HashQp again = acquire(1);
    EXPECT_EQ(again.get(), first.get());
    HashQp second = acquire(2);
    EXPECT_NE(second.get(), first.get());
    EXPECT_EQ(qps.size(), 2u);
    first = {};
    EXPECT_EQ(qps.size(), 2u);
    again = {};
    EXPECT_EQ(qps.size(), 1u);
    second = {};
    EXPECT_EQ(qps.size(), 0u);
    EXPECT_TRUE(device.qps.empty());
    EXPECT_TRUE(device.tables.empty());
    EXPECT_TRUE(device.violations.empty());
}

TEST_F(RssQpsTest, RefusesWhatIsNoTable) {
    EXPECT_EQ(qps.acquire(qps.target({.queues = {}})).error().code, EINVAL);
    EXPECT_EQ(qps.acquire(qps.target({.queues = {0, 1, 2}})).error().code, EINVAL);
    const auto missing = qps.acquire(qps.target({.queues = {9}}));
    EXPECT_EQ(missing.error().code, EINVAL);
    EXPECT_NE(missing.error().what.find("Rx queue 9"), std::string::npos);
}

TEST_F(RssQpsTest, ReleasesEverythingWhenACallFails) {
    for (int nth = 1; nth <= 2; ++nth) {
        device.fail_call(nth, ENOMEM);
        const auto qp = qps.acquire(qps.target({.queues = {0, 1}, .hash_fields = kIp4}));
        ASSERT_FALSE(qp);
        EXPECT_EQ(qp.error().code, ENOMEM);
        EXPECT_NE(qp.error().what.find("resources"), std::string::npos) << qp.error().what;
        EXPECT_EQ(qps.size(), 0u);
        EXPECT_TRUE(device.tables.empty());
        EXPECT_TRUE(device.qps.empty());
    }
}

} // namespace
} // namespace rawqp::test
