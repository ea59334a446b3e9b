// SPDX-License-Identifier: BSD-3-Clause
// rte_eth_dev_udp_tunnel_port_add(): devices know tunnels by the registered ports, and by no
// others.
#include "tests/unit/ethdev/port_fixture.hpp"
#include "tests/unit/rings/logged.hpp"

namespace rawqp::test {
namespace {

int add(uint16_t port, uint8_t type, uint16_t udp_port) {
    rte_eth_udp_tunnel tunnel{.udp_port = udp_port, .prot_type = type};
    return rte_eth_dev_udp_tunnel_port_add(port, &tunnel);
}

TEST_F(PortTest, TunnelPortsThatTheDeviceKnows) {
    bring_up();
    for (int times = 0; times < 2; ++times) {
        EXPECT_EQ(add(id(), RTE_ETH_TUNNEL_TYPE_VXLAN, 4789), 0);
        EXPECT_EQ(add(id(), RTE_ETH_TUNNEL_TYPE_VXLAN_GPE, 4790), 0);
        EXPECT_EQ(add(id(), RTE_ETH_TUNNEL_TYPE_GENEVE, 6081), 0);
    }
}

TEST_F(PortTest, OtherTunnelPortsAreRefused) {
    bring_up();
    const std::string text = rings_test::logged(
        [&] { EXPECT_EQ(add(id(), RTE_ETH_TUNNEL_TYPE_VXLAN, 8472), -ENOTSUP); });
    EXPECT_THAT(text, testing::HasSubstr("UDP port 8472 for tunnels of vxlan: the device knows "
                                         "these by port 4789 only"));
    EXPECT_EQ(add(id(), RTE_ETH_TUNNEL_TYPE_VXLAN, 4790), -ENOTSUP);
    EXPECT_EQ(add(id(), RTE_ETH_TUNNEL_TYPE_VXLAN, 0), -ENOTSUP);
    EXPECT_EQ(add(id(), RTE_ETH_TUNNEL_TYPE_GENEVE, 4789), -ENOTSUP);
    EXPECT_EQ(add(id(), RTE_ETH_TUNNEL_TYPE_TEREDO, 3544), -ENOTSUP);
    EXPECT_EQ(add(id(), RTE_ETH_TUNNEL_TYPE_NONE, 4789), -ENOTSUP);
}

} // namespace
} // namespace rawqp::test
