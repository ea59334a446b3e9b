// SPDX-License-Identifier: BSD-3-Clause
// Every VLAN and many multicast groups at once, in mixed order: all of them in the filter, and
// nothing else. The frames are samples.
#include "tests/functional/ethdev/port.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace test {
namespace {

class FilterScale : public PortTest {
  protected:
    static constexpr uint16_t kVlans = RTE_ETHER_MAX_VLAN_ID + 1;
    static constexpr uint16_t kOfMarkers = 4095; ///< a VLAN that stays listed
    static constexpr size_t kTag = 4;

    void SetUp() override {
        rte_eth_conf conf{};
        conf.rxmode.mtu = RTE_ETHER_MTU;
        conf.rxmode.offloads = RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
        ASSERT_NO_FATAL_FAILURE(start(rx_pool(), conf));
        ASSERT_EQ(rte_eth_promiscuous_disable(kPort), 0);
        ASSERT_EQ(rte_eth_allmulticast_disable(kPort), 0);
    }
    /// As other tests expect the port.
    void TearDown() override {
        list({});
        ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
        for (uint16_t vlan = 0; vlan < kVlans; ++vlan)
            ASSERT_NO_FATAL_FAILURE(listed(vlan, false));
        ASSERT_NO_FATAL_FAILURE(start(rx_pool()));
        ASSERT_EQ(rte_eth_promiscuous_enable(kPort), 0);
        PortTest::TearDown();
    }
    static void list(const std::vector<rte_ether_addr>& groups) {
        auto copy = groups;
        EXPECT_EQ(
            rte_eth_dev_set_mc_addr_list(kPort, copy.data(), static_cast<uint32_t>(copy.size())),
            0);
    }
    static rte_ether_addr group(size_t number) {
        return {{0x01, 0x00, 0x5e, 0x01, static_cast<uint8_t>(number >> 8),
                 static_cast<uint8_t>(number)}};
    }
    static std::vector<rte_ether_addr> groups(size_t count) {
        std::vector<rte_ether_addr> all(count);
        for (size_t i = 0; i < count; ++i)
            all[i] = group(i);
        std::ranges::shuffle(all, std::mt19937(7));
        return all;
    }
    static rte_ether_addr own() {
        rte_ether_addr mac{};
        EXPECT_EQ(rte_eth_macaddr_get(kPort, &mac), 0);
        return mac;
    }
    static void listed(uint16_t vlan, bool on) {
        ASSERT_EQ(rte_eth_dev_vlan_filter(kPort, vlan, on ? 1 : 0), 0) << vlan;
    }
    static Frame to(const rte_ether_addr& mac) {
        Frame made = frame(1, 80);
        std::copy_n(mac.addr_bytes, sizeof mac.addr_bytes, made.begin());
        return made;
    }
    static Frame tagged(const rte_ether_addr& mac, uint16_t vlan) {
        Frame made = to(mac);
        const uint8_t tag[kTag] = {0x81, 0, static_cast<uint8_t>(vlan >> 8),
                                   static_cast<uint8_t>(vlan)};
        made.insert(made.begin() + 12, tag, tag + kTag);
        return made;
    }
    /// Frames between two markers, of which as many arrive as the result says.
    static size_t received(const std::vector<Frame>& frames) {
        size_t count = 0;
        for (const Frame& one : frames) {
            Frame marker = tagged(own(), kOfMarkers);
            marker.push_back(1); // longer than any other frame
            EXPECT_TRUE(send(mbuf_of(rx_pool(), one)));
            EXPECT_TRUE(send(mbuf_of(rx_pool(), marker)));
            for (bool more = true; more;) {
                rte_mbuf* const got = receive();
                if (got == nullptr) {
                    ADD_FAILURE() << "the marker is lost";
                    return count;
                }
                more = got->pkt_len != marker.size();
                count += more;
                rte_pktmbuf_free(got);
            }
        }
        return count;
    }
    static std::vector<Frame> in_vlans(const rte_ether_addr& mac,
                                       std::initializer_list<uint16_t> vlans) {
        std::vector<Frame> frames;
        for (const uint16_t vlan : vlans)
            frames.push_back(tagged(mac, vlan));
        return frames;
    }
};

constexpr std::initializer_list<uint16_t> kSamples{0, 1, 2, 63, 64, 1000, 2047, 2048, 4093, 4094};

TEST_F(FilterScale, EveryVlanWithSomeGroups) {
    constexpr size_t kGroups = 2;
    std::vector<uint16_t> order(kVlans);
    std::iota(order.begin(), order.end(), uint16_t{0});
    std::ranges::shuffle(order, std::mt19937(5));
    for (size_t i = 0; i < order.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(listed(order[i], true));
        if (i == order.size() / 2) list(groups(kGroups));
    }
    const auto all_pass = [&] {
        const size_t samples = kSamples.size();
        EXPECT_EQ(received(in_vlans(own(), kSamples)), samples);
        EXPECT_EQ(received(in_vlans(group(0), kSamples)), samples);
        EXPECT_EQ(received(in_vlans(group(kGroups - 1), kSamples)), samples);
        EXPECT_EQ(received(in_vlans(group(kGroups), kSamples)), 0u);
        EXPECT_EQ(received({to(own()), to(group(0))}), 0u) << "without a tag";
    };
    all_pass();
    ASSERT_NO_FATAL_FAILURE(restart());
    all_pass();

    for (const uint16_t vlan : {64, 1000})
        ASSERT_NO_FATAL_FAILURE(listed(vlan, false));
    list({group(1)});
    EXPECT_EQ(received(in_vlans(own(), {64, 1000})), 0u);
    EXPECT_EQ(received(in_vlans(own(), {63, 65, 999, 1001})), 4u);
    EXPECT_EQ(received(in_vlans(group(1), {63, 64, 65})), 2u);
    EXPECT_EQ(received(in_vlans(group(0), {63, 64, 65})), 0u);
}

TEST_F(FilterScale, ManyGroupsInSomeVlans) {
    constexpr size_t kGroups = 512, kSampled = 32;
    ASSERT_NO_FATAL_FAILURE(listed(kOfMarkers, true));
    list(groups(kGroups));
    ASSERT_NO_FATAL_FAILURE(listed(5, true));
    std::vector<Frame> in, out;
    for (size_t number = 0; number < kGroups; number += kGroups / kSampled) {
        in.push_back(tagged(group(number), 5));
        out.push_back(tagged(group(number), 6));
        out.push_back(tagged(group(number + kGroups), 5));
    }
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(received(in), in.size());
        EXPECT_EQ(received(out), 0u);
        ASSERT_NO_FATAL_FAILURE(restart());
    }
}

} // namespace
} // namespace test
