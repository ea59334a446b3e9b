// SPDX-License-Identifier: BSD-3-Clause
// A port in a secondary process, before it is connected.
#include "drivers/net/rawqp/ethdev/driver/formats.hpp"
#include "drivers/net/rawqp/ethdev/secondary/secondary.hpp"
#include "tests/unit/eal.hpp"

#include <gmock/gmock.h>

namespace rawqp::test {
namespace {

using SecondaryPortTest = test_eal::EalTest;

/// The primary may be about to create the port, or to recreate it.
TEST_F(SecondaryPortTest, WhatIsSharedIsReadByWhoIsAdmitted) {
    constexpr uint16_t kId = RTE_MAX_ETHPORTS - 1;
    rte_eth_dev_data data{};
    data.port_id = kId;
    rte_strscpy(data.name, "net_rawqp_test", sizeof data.name);
    rte_eth_dev dev{};
    dev.data = &data;
    SharedPort shared;
    rte_strscpy(shared.netdev.data(), "lo", shared.netdev.size());
    SecondaryPort port(&dev, shared, ring_formats());
    const Result<void> done = port.connect();
    ASSERT_FALSE(done) << "there is no primary to ask";
    EXPECT_THAT(done.error().what, testing::HasSubstr("does not let this one in"));
    EXPECT_EQ(port.format, nullptr);
    EXPECT_FALSE(port.netdev.present());
}

} // namespace
} // namespace rawqp::test
