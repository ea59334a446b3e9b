// SPDX-License-Identifier: BSD-3-Clause
// The helpers that hide differences between DPDK releases, as they work with the installed one.
#include "drivers/net/rawqp/dpdk.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace {

namespace compat = rawqp::compat;

const uint32_t* two_types(rte_eth_dev*) {
    static const uint32_t table[] = {RTE_PTYPE_L2_ETHER, RTE_PTYPE_L4_UDP, RTE_PTYPE_UNKNOWN};
    return table;
}

TEST(Compat, SupportedPtypesFitTheOperation) {
    eth_dev_ops ops{};
    ops.dev_supported_ptypes_get = compat::supported_ptypes<two_types>;
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
    size_t count = 0;
    const uint32_t* table = ops.dev_supported_ptypes_get(nullptr, &count);
    EXPECT_EQ(count, 2u);
#else
    const uint32_t* table = ops.dev_supported_ptypes_get(nullptr);
    EXPECT_EQ(table[2], uint32_t{RTE_PTYPE_UNKNOWN});
#endif
    EXPECT_EQ(table[1], uint32_t{RTE_PTYPE_L4_UDP});
}

TEST(Compat, EthDevargsAreParsed) {
    rte_eth_devargs devargs{};
    ASSERT_GE(compat::parse_eth_devargs("representor=[3,5]", devargs), 0);
    ASSERT_EQ(devargs.nb_representor_ports, 2);
    EXPECT_EQ(devargs.representor_ports[1], 5);
    EXPECT_LT(compat::parse_eth_devargs("representor=[nonsense", devargs), 0);
}

using Seen = std::vector<std::string>;

int collect(const char* key, const char* value, void* seen) {
    static_cast<Seen*>(seen)->push_back(std::string(key) + "=" + (value ? value : "(none)"));
    return 0;
}

int refuse(const char*, const char*, void*) { return -1; }

TEST(Compat, BareKeyReachesTheHandler) {
    rte_kvargs* args = rte_kvargs_parse("device=mlx5_0,mark,device=mlx5_1", nullptr);
    ASSERT_NE(args, nullptr);
    Seen seen;
    EXPECT_EQ(compat::process_kvargs(args, "device", collect, &seen), 0);
    EXPECT_EQ(compat::process_kvargs(args, "mark", collect, &seen), 0);
    EXPECT_EQ(compat::process_kvargs(args, "absent", refuse, nullptr), 0);
    EXPECT_EQ(seen, (Seen{"device=mlx5_0", "device=mlx5_1", "mark=(none)"}));
    EXPECT_LT(compat::process_kvargs(args, "mark", refuse, nullptr), 0);
    rte_kvargs_free(args);
}

TEST(Compat, MbufFieldsLieWhereVectorStoresWriteThem) {
    rte_mbuf mbuf{};
    *compat::mbuf_rearm_word(&mbuf) = 0x0004000300020001;
    EXPECT_EQ(mbuf.data_off, 1);
    EXPECT_EQ(rte_mbuf_refcnt_read(&mbuf), 2);
    EXPECT_EQ(mbuf.nb_segs, 3);
    EXPECT_EQ(mbuf.port, 4);
    EXPECT_EQ(compat::mbuf_rx_fields(&mbuf), static_cast<void*>(&mbuf.packet_type));
}

TEST(Compat, Ipv6BytesAreTheAddress) {
    rte_ipv6_hdr header{};
    auto* raw = reinterpret_cast<uint8_t*>(&header);
    raw[8] = 0xfe;
    raw[8 + 15] = 0x01;
    EXPECT_EQ(compat::ipv6_bytes(header.src_addr)[0], 0xfe);
    EXPECT_EQ(compat::ipv6_bytes(header.src_addr)[15], 0x01);
}

/// rte_flow_template_table_attr as of 23.03.
struct LaterTable {
    uint32_t nb_flows, specialize;
    enum Insertion { pattern, index } insertion_type;
    enum Hash { usual, linear } hash_func;
};

TEST(Compat, KindsOfTemplateTablesThatCameLater) {
    EXPECT_EQ(compat::unserved_table_kind(rte_flow_template_table_attr{}), nullptr);
    const auto reason = [](const LaterTable& table) {
        const char* const text = compat::unserved_table_kind(table);
        return std::string(text != nullptr ? text : "");
    };
    const auto usual = LaterTable::usual;
    EXPECT_EQ(reason({8, 0, LaterTable::pattern, usual}), "");
    EXPECT_EQ(reason({8, 3, LaterTable::pattern, usual}), "") << "where packets are from: hints";
    EXPECT_NE(reason({8, 0, LaterTable::index, usual}).find("no index"), std::string::npos);
    EXPECT_NE(reason({8, 0, LaterTable::pattern, LaterTable::linear}).find("hash"),
              std::string::npos);
    EXPECT_NE(reason({8, 4, LaterTable::pattern, usual}).find("resizable"), std::string::npos);
}

TEST(Compat, TheItemForPacketTypes) {
    enum Earlier { RTE_FLOW_ITEM_TYPE_END };
    struct Later {
        enum Type { RTE_FLOW_ITEM_TYPE_END, RTE_FLOW_ITEM_TYPE_PTYPE };
    };
    EXPECT_EQ(compat::item_ptype<Earlier>(), RTE_FLOW_ITEM_TYPE_END);
    EXPECT_EQ(compat::item_ptype<Later::Type>(), Later::RTE_FLOW_ITEM_TYPE_PTYPE);
}

TEST(Compat, NewerInfoAndRssFunction) {
    rte_eth_dev_info info{};
    compat::set_newer_info(info, 9728);
    rte_eth_rss_conf conf{};
    EXPECT_EQ(compat::rss_function(conf), RTE_ETH_HASH_FUNCTION_DEFAULT);
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
    EXPECT_EQ(info.max_rx_bufsize, 9728u);
    EXPECT_NE(info.rss_algo_capa & RTE_ETH_HASH_ALGO_CAPA_MASK(TOEPLITZ), 0u);
    conf.algorithm = RTE_ETH_HASH_FUNCTION_TOEPLITZ;
    EXPECT_EQ(compat::rss_function(conf), RTE_ETH_HASH_FUNCTION_TOEPLITZ);
#endif
}

/// A port as of 24.11, whose function table for flow queues is initially ethdev's.
TEST(Compat, FlowQueuesAreRefusedAgainWhenTheDriverTakesItsOwnBack) {
    struct Table {
        int pull, others;
    };
    struct Dev {
        const Table* flow_fp_ops;
    };
    static constexpr Table kRefusing{-ENOSYS, -ENOSYS};
    constexpr auto kFill = [](Table& table) { table.pull = 0; };
    Dev dev{&kRefusing};
    for (int life = 0; life < 2; ++life) {
        compat::set_async_ops<kFill>(dev);
        compat::set_async_ops<kFill>(dev); // a reset
        EXPECT_EQ(dev.flow_fp_ops->pull, 0);
        EXPECT_EQ(dev.flow_fp_ops->others, -ENOSYS);
        compat::unset_async_ops(dev);
        EXPECT_EQ(dev.flow_fp_ops, &kRefusing);
    }
}

/// ethdev of 23.03 to 23.11 calls these without checking for null.
TEST(Compat, NoLaterOperationOfFlowQueuesIsNull) {
    struct Of2211 {
        int (*async_create)();
    };
    struct Of2303 : Of2211 {
        int (*async_create_by_index)();
    };
    struct Of2311 : Of2303 {
        int (*async_actions_update)();
    };
    constexpr auto kByIndex = [](auto& create) { create = [] { return 1; }; };
    constexpr auto kUpdate = [](auto& update) { update = [] { return 2; }; };
    Of2211 oldest{};
    compat::add_later_async_ops(oldest, kByIndex, kUpdate);
    EXPECT_EQ(oldest.async_create, nullptr);
    Of2303 old{};
    compat::add_later_async_ops(old, kByIndex, kUpdate);
    ASSERT_NE(old.async_create_by_index, nullptr);
    EXPECT_EQ(old.async_create_by_index(), 1);
    Of2311 later{};
    compat::add_later_async_ops(later, kByIndex, kUpdate);
    ASSERT_TRUE(later.async_create_by_index != nullptr && later.async_actions_update != nullptr);
    EXPECT_EQ(later.async_create_by_index(), 1);
    EXPECT_EQ(later.async_actions_update(), 2);
}

} // namespace
