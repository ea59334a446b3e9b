// SPDX-License-Identifier: BSD-3-Clause
// RSS of a port: its table, its hash, and rules that spread.
#include "tests/unit/ethdev/port_fixture.hpp"
#include "tests/unit/flow/rule.hpp"

#include <algorithm>
#include <array>

namespace rawqp::test {
namespace {

TEST_F(PortTest, RetaUpdateIsAllOrNothing) {
    bring_up();
    rte_eth_rss_reta_entry64 reta[2]{};
    reta[0].mask = 0b11;
    reta[0].reta[0] = 1;
    reta[0].reta[1] = kQueues; // no such queue
    EXPECT_NE(rte_eth_dev_rss_reta_update(id(), reta, 128), 0);
    reta[0].reta[1] = 1;
    EXPECT_EQ(rte_eth_dev_rss_reta_update(id(), reta, 128), 0);
    rdma.fail_always("create_rwq_ind_table", ENOMEM);
    reta[0].reta[0] = 0;
    EXPECT_EQ(rte_eth_dev_rss_reta_update(id(), reta, 128), -ENOMEM);
    rte_eth_rss_reta_entry64 now[2]{};
    now[0].mask = 0b111;
    ASSERT_EQ(rte_eth_dev_rss_reta_query(id(), now, 128), 0);
    EXPECT_EQ(now[0].reta[0], 1);
    EXPECT_EQ(now[0].reta[1], 1);
    EXPECT_EQ(now[0].reta[2], 0);
}

TEST_F(PortTest, RssRulesFitTheDevicesTables) {
    rdma.attributes.rss_caps.max_rwq_indirection_table_size = 32;
    const Result<void> done = attach();
    ASSERT_TRUE(done) << done.error().what;
    ASSERT_EQ(configure(3, 1), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    const auto create = [&](std::vector<uint16_t> queues) {
        const Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).rss(std::move(queues));
        rte_flow_error error{};
        rte_flow* const flow =
            rte_flow_create(id(), &rule.attr, rule.pattern(), rule.actions(), &error);
        if (flow == nullptr) return std::string(error.message);
        EXPECT_EQ(rte_flow_destroy(id(), flow, nullptr), 0);
        return std::string();
    };
    EXPECT_EQ(create({0, 1, 2}), ""); // 64 entries would be fairer
    EXPECT_EQ(create(std::vector<uint16_t>(32, 1)), "");
    EXPECT_THAT(create(std::vector<uint16_t>(33, 1)), testing::HasSubstr("at most 32"));
}

TEST_F(PortTest, HashConfiguration) {
    bring_up();
    uint8_t key[40];
    rte_eth_rss_conf conf{};
    conf.rss_key = key;
    conf.rss_key_len = sizeof(key);
    ASSERT_EQ(rte_eth_dev_rss_hash_conf_get(id(), &conf), 0);
    EXPECT_EQ(conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_UDP, RTE_ETH_RSS_NONFRAG_IPV4_UDP);
    EXPECT_TRUE(std::equal(std::begin(key), std::end(key), kDefaultRssKey.begin()));
    std::fill(std::begin(key), std::end(key), uint8_t{0x5a});
    conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_TCP;
    ASSERT_EQ(rte_eth_dev_rss_hash_update(id(), &conf), 0);
    conf.rss_key_len = 39;
    EXPECT_EQ(rte_eth_dev_rss_hash_update(id(), &conf), -EINVAL);
    rte_eth_rss_conf types_only{};
    ASSERT_EQ(rte_eth_dev_rss_hash_conf_get(id(), &types_only), 0);
    EXPECT_EQ(types_only.rss_hf, RTE_ETH_RSS_NONFRAG_IPV4_TCP);
    // A configuration without a key selects the driver's own.
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(configure(kQueues, kQueues), 0);
    conf.rss_key_len = sizeof(key);
    ASSERT_EQ(rte_eth_dev_rss_hash_conf_get(id(), &conf), 0);
    EXPECT_TRUE(std::equal(std::begin(key), std::end(key), kDefaultRssKey.begin()));
}

#if RTE_VERSION < RTE_VERSION_NUM(23, 11, 0, 0)
/// Which was allowed: "Others assume 40 bytes".
TEST_F(PortTest, AHashKeyOfUnsaidLength) {
    bring_up();
    std::array<uint8_t, kRssKeyBytes> key{}, told{};
    key.fill(0x5a);
    rte_eth_rss_conf conf{};
    conf.rss_key = key.data();
    conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_TCP;
    ASSERT_EQ(rte_eth_dev_rss_hash_update(id(), &conf), 0);
    conf.rss_key = told.data();
    conf.rss_key_len = told.size();
    ASSERT_EQ(rte_eth_dev_rss_hash_conf_get(id(), &conf), 0);
    EXPECT_EQ(told, key);
}
#endif

#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
TEST_F(PortTest, HashFunction) {
    bring_up();
    rte_eth_rss_conf conf{};
    conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_TCP;
    const auto after = [&](rte_eth_hash_function function) {
        conf.algorithm = function;
        EXPECT_EQ(rte_eth_dev_rss_hash_update(id(), &conf), 0);
        rte_eth_rss_conf told{};
        EXPECT_EQ(rte_eth_dev_rss_hash_conf_get(id(), &told), 0);
        return told.algorithm;
    };
    EXPECT_EQ(after(RTE_ETH_HASH_FUNCTION_DEFAULT), RTE_ETH_HASH_FUNCTION_TOEPLITZ);
    for (const auto function :
         {RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ, RTE_ETH_HASH_FUNCTION_TOEPLITZ})
        EXPECT_EQ(after(function), function);
    conf.algorithm = RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ_SORT;
    EXPECT_LT(rte_eth_dev_rss_hash_update(id(), &conf), 0);
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(id(), &info), 0);
    EXPECT_EQ(info.rss_algo_capa, RTE_ETH_HASH_ALGO_CAPA_MASK(DEFAULT) |
                                      RTE_ETH_HASH_ALGO_CAPA_MASK(TOEPLITZ) |
                                      RTE_ETH_HASH_ALGO_CAPA_MASK(SYMMETRIC_TOEPLITZ));
}
#endif

} // namespace
} // namespace rawqp::test
