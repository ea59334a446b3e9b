// SPDX-License-Identifier: BSD-3-Clause
// Which of the kernel's ports a rule takes, and for how long.
#include "drivers/net/rawqp/ethdev/flow/items.hpp"
#include "drivers/net/rawqp/ethdev/flow/port_guard.hpp"
#include "tests/unit/flow/flow_table.hpp"
#include "tests/unit/wire/child.hpp"

#include <sched.h>
#include <sys/socket.h>

namespace rawqp::test {
namespace {

using testing::Each;
using testing::ElementsAreArray;

std::optional<TakenPorts> taken_by(const Rule& rule) {
    return taken_ports(translate_pattern(rule.pattern(), false).value().front());
}

template <class Header> Header to_port(uint16_t port) {
    auto header = zeroed<Header>();
    header.hdr.dst_port = rte_cpu_to_be_16(port);
    return header;
}

TEST(TakenPortsTest, AreOfTheDestination) {
    auto spec = zeroed<rte_flow_item_ipv6>(), mask = zeroed<rte_flow_item_ipv6>();
    auto* const address = reinterpret_cast<uint8_t*>(&spec.hdr.dst_addr);
    auto* const of_prefix = reinterpret_cast<uint8_t*>(&mask.hdr.dst_addr);
    for (size_t i = 0; i < 16; ++i)
        address[i] = static_cast<uint8_t>(0x20 + i);
    std::fill_n(of_prefix, 8, uint8_t{0xff});
    std::fill_n(reinterpret_cast<uint8_t*>(&spec.hdr.src_addr), 16, uint8_t{0x77});
    std::fill_n(reinterpret_cast<uint8_t*>(&mask.hdr.src_addr), 16, uint8_t{0xff});
    const auto port = to_port<rte_flow_item_tcp>(443);
    const auto taken = taken_by(Rule()
                                    .item(RTE_FLOW_ITEM_TYPE_ETH)
                                    .item(RTE_FLOW_ITEM_TYPE_IPV6, &spec, &mask)
                                    .item(RTE_FLOW_ITEM_TYPE_TCP, &port, &port));
    ASSERT_TRUE(taken);
    EXPECT_TRUE(taken->tcp);
    EXPECT_TRUE(taken->address.v6);
    std::fill_n(address + 8, 8, uint8_t{0}); // beyond the prefix
    EXPECT_THAT(taken->address.bytes, ElementsAreArray(address, 16));
    EXPECT_THAT(taken->address_mask.bytes, ElementsAreArray(of_prefix, 16));
    EXPECT_EQ(taken->port, 443);
    EXPECT_EQ(taken->port_mask, 443); // as given
    EXPECT_EQ(taken->item, 2);
}

TEST(TakenPortsTest, AreThoseOfOutermostHeaders) {
    const auto inner = to_port<rte_flow_item_udp>(53);
    const auto taken = taken_by(Rule()
                                    .item(RTE_FLOW_ITEM_TYPE_ETH)
                                    .item(RTE_FLOW_ITEM_TYPE_IPV4)
                                    .item(RTE_FLOW_ITEM_TYPE_UDP)
                                    .item(RTE_FLOW_ITEM_TYPE_VXLAN)
                                    .item(RTE_FLOW_ITEM_TYPE_ETH)
                                    .item(RTE_FLOW_ITEM_TYPE_IPV4)
                                    .item(RTE_FLOW_ITEM_TYPE_UDP, &inner));
    ASSERT_TRUE(taken);
    EXPECT_FALSE(taken->tcp);
    EXPECT_FALSE(taken->address.v6);
    EXPECT_THAT(taken->address_mask.bytes, Each(0));
    EXPECT_EQ(taken->port, 4789);
    EXPECT_EQ(taken->port_mask, 0xffff);
    EXPECT_FALSE(taken_by(Rule()
                              .item(RTE_FLOW_ITEM_TYPE_ETH)
                              .item(RTE_FLOW_ITEM_TYPE_IPV4)
                              .item(RTE_FLOW_ITEM_TYPE_GRE)
                              .item(RTE_FLOW_ITEM_TYPE_IPV4)
                              .item(RTE_FLOW_ITEM_TYPE_UDP, &inner)));
}

TEST(TakenPortsTest, AreNoneWithoutADestinationPort) {
    auto from = zeroed<rte_flow_item_udp>();
    from.hdr.src_port = rte_cpu_to_be_16(53);
    for (const Rule& rule :
         {Rule().item(RTE_FLOW_ITEM_TYPE_ETH),
          Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).item(RTE_FLOW_ITEM_TYPE_UDP),
          Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).item(RTE_FLOW_ITEM_TYPE_UDP, &from, &from)})
        EXPECT_FALSE(taken_by(rule));
}

/// Whether a socket in this network namespace can get the UDP port.
bool is_free(uint16_t port) {
    const int tried = socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = rte_cpu_to_be_16(port);
    const bool bound = bind(tried, reinterpret_cast<sockaddr*>(&any), sizeof any) == 0;
    close(tried);
    return bound;
}

class PortGuardTest : public FlowTableTest {
  protected:
    using FlowTableTest::FlowTableTest;
    PortGuardTest() = default;

    static constexpr uint16_t kPort = 7777;
    /// In a network namespace of its own. `use(table)` returns 0, or how far it got.
    template <class Use> void with_guarded_table(Use use) {
        constexpr int kNoNamespace = 77, kNotStarted = 78;
        wire_test::Child child([&] {
            if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) != 0)
                return kNoNamespace;
            FlowTable guarded(*steering, device.rx_queues, PortGuard::make().value(), nullptr);
            return guarded.start() ? use(guarded) : kNotStarted;
        });
        const int status = child.wait();
        if (status == kNoNamespace)
            GTEST_SKIP() << "needs a network namespace of its own: run as root";
        EXPECT_EQ(status, 0);
    }
};
class PortGuardMlx5Test : public PortGuardTest {
  protected:
    PortGuardMlx5Test() : PortGuardTest(FlowEngine::mlx5) {}
};

TEST_F(PortGuardTest, NumberZeroIsNoPortToReserve) {
    auto spec = to_port<rte_flow_item_udp>(0), mask = to_port<rte_flow_item_udp>(0xffff);
    const Rule rule =
        Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).item(RTE_FLOW_ITEM_TYPE_UDP, &spec, &mask);
    const auto patterns = translate_pattern(rule.pattern(), false).value();
    const auto taken =
        PortGuard::make().value()->reserve({patterns.begin(), patterns.size()}, rule.pattern());
    ASSERT_TRUE(taken) << taken.error().what;
    EXPECT_FALSE(*taken);
}

TEST_F(PortGuardTest, ARuleThatGetsOtherActionsKeepsItsPort) {
    with_guarded_table([&](FlowTable& guarded) {
        const Rule rule = udp_to(kPort, 0);
        rte_flow* const flow = guarded.create(&rule.attr, rule.pattern(), rule.actions(), &error);
        if (flow == nullptr || is_free(kPort) || PortGuard::reserved() != 1) return 1;
        if (guarded.update_actions(flow, Rule().queue(1).actions(), &error) != 0) return 2;
        if (is_free(kPort)) return 3;
        if (guarded.destroy(flow, &error) != 0) return 4;
        return is_free(kPort) && PortGuard::reserved() == 0 ? 0 : 5;
    });
}

TEST_F(PortGuardMlx5Test, APortIsReservedWhileItsPacketsDoNotGoToTheKernel) {
    with_guarded_table([&](FlowTable& guarded) {
        const Rule rule = udp_to(kPort, 0);
        const Rule to_kernel = Rule().action(RTE_FLOW_ACTION_TYPE_SEND_TO_KERNEL);
        rte_flow* const flow =
            guarded.create(&rule.attr, rule.pattern(), to_kernel.actions(), &error);
        if (flow == nullptr || !is_free(kPort)) return 1;
        if (guarded.update_actions(flow, rule.actions(), &error) != 0 || is_free(kPort)) return 2;
        if (guarded.update_actions(flow, to_kernel.actions(), &error) != 0) return 3;
        if (!is_free(kPort) || PortGuard::reserved() != 0) return 4;
        return guarded.destroy(flow, &error) == 0 ? 0 : 5;
    });
}

} // namespace
} // namespace rawqp::test
