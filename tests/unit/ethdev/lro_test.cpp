// SPDX-License-Identifier: BSD-3-Clause
// What a device reports about LRO, and how its TIRs are set up.
#include "drivers/net/rawqp/ethdev/devx/devx.hpp"
#include "drivers/net/rawqp/ethdev/lro.hpp"
#include "tests/unit/verbs/fake_rdma.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rawqp::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::array<uint8_t, 4112> answer; ///< to the query, starting with the status
std::vector<uint8_t> asked;
int refusal;

int tell(ibv_context*, const void* in, size_t in_bytes, void* out, size_t out_bytes) {
    const auto* const from = static_cast<const uint8_t*>(in);
    asked.assign(from, from + in_bytes);
    std::memcpy(out, answer.data(), std::min(out_bytes, answer.size()));
    return refusal;
}

class LroTest : public testing::Test {
  protected:
    LroTest() {
        answer = {};
        refusal = 0;
        // lro_cap, lro_psh_flag, lro_time_stamp; tunnel_stateless_vxlan
        put(16, 0x38000001);
        for (size_t i = 0; i < 4; ++i)
            put(16 + 48 + 4 * i, std::array{8u, 16u, 32u, 1024u}[i]);
        rdma.offer_mlx5_flows();
        rdma.offers_devx = true;
        api = rdma.api();
        api.mlx5_devx_general_cmd = tell;
    }
    static void put(size_t at, uint32_t word) { net::store_be(&answer[at], word); }

    verbs_test::FakeRdma rdma;
    verbs::Api api;
    Devx devx{api, nullptr};
};

TEST_F(LroTest, IsFoundInTheCapabilities) {
    const auto cap = find_lro(devx);
    ASSERT_TRUE(cap);
    EXPECT_FALSE(cap->size_from_l2);
    EXPECT_TRUE(cap->tunnels);
    EXPECT_THAT(cap->periods, ElementsAre(8, 16, 32, 1024));
    EXPECT_THAT(asked, ElementsAre(0x01, 0x00, 0, 0, 0, 0, 0, 0x03, 0, 0, 0, 0, 0, 0, 0, 0));
    put(16, 0x3a000000); // lro_max_msg_sz_mode 1
    ASSERT_TRUE(find_lro(devx));
    EXPECT_TRUE(find_lro(devx)->size_from_l2);
    EXPECT_FALSE(find_lro(devx)->tunnels);
}

TEST_F(LroTest, IsNotOffered) {
    put(16, 0x1fffffff & ~0x06000000); // everything except lro_cap
    EXPECT_FALSE(find_lro(devx));
    put(16, 0x3c000000); // lro_max_msg_sz_mode 2
    EXPECT_FALSE(find_lro(devx));
    put(16, 0x38000000);
    rdma.offers_devx = false;
    EXPECT_FALSE(find_lro(devx));
    rdma.offers_devx = true;
    refusal = EOPNOTSUPP;
    EXPECT_FALSE(find_lro(devx));
    refusal = 0;
    EXPECT_TRUE(find_lro(devx));
    api.mlx5_devx_general_cmd = nullptr;
    EXPECT_FALSE(find_lro(devx));
}

/// A packet that the device merges is never longer than requested.
TEST_F(LroTest, SizesAreRoundedDown) {
    const auto units = [](bool from_l2, uint32_t bytes) {
        return lro_terms({.size_from_l2 = from_l2}, bytes, 0).units;
    };
    constexpr uint32_t kBeforeTcp = 14 + 2 * 4 + 40;
    EXPECT_EQ(units(false, 8192), (8192 - kBeforeTcp) / 256);
    EXPECT_EQ(units(false, 10 * 256 + kBeforeTcp), 10);
    EXPECT_EQ(units(false, 10 * 256 + kBeforeTcp - 1), 9);
    EXPECT_EQ(units(true, 8192), 32);
    EXPECT_EQ(units(true, 8191), 31);
    EXPECT_EQ(units(true, kMaxLroPacket), 255);
    EXPECT_EQ(units(false, kMaxLroPacket), 254);
    EXPECT_EQ(units(false, 64), 1); // the smallest value that a device accepts
    EXPECT_EQ(units(true, UINT32_MAX), 255);
}

TEST_F(LroTest, APeriodIsOneOfTheDevices) {
    const auto period = [](uint32_t wanted) {
        return lro_terms({.periods = {8, 16, 32, 1024}}, 8192, wanted).period;
    };
    EXPECT_EQ(period(0), 8);
    EXPECT_EQ(period(7), 8);
    EXPECT_EQ(period(31), 16);
    EXPECT_EQ(period(32), 32);
    EXPECT_EQ(period(65535), 1024);
}

TEST_F(LroTest, WhatDoesNotGoWithItIsNamed) {
    EXPECT_TRUE(check_lro(RTE_ETH_RX_OFFLOAD_KEEP_CRC | RTE_ETH_RX_OFFLOAD_TIMESTAMP));
    EXPECT_TRUE(check_lro(RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_SCATTER));
    const auto refused = [](uint64_t with) {
        const auto done = check_lro(RTE_ETH_RX_OFFLOAD_TCP_LRO | with);
        return done ? "" : done.error().what;
    };
    EXPECT_THAT(refused(RTE_ETH_RX_OFFLOAD_KEEP_CRC), HasSubstr("KEEP_CRC"));
    EXPECT_THAT(refused(RTE_ETH_RX_OFFLOAD_TIMESTAMP), HasSubstr("TIMESTAMP"));
    EXPECT_THAT(refused(RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT), HasSubstr("BUFFER_SPLIT"));
}

} // namespace
} // namespace rawqp::test
