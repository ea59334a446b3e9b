// SPDX-License-Identifier: BSD-3-Clause
// RSS by one side of a packet: types like l3-src-only, for the port and for a rule. testpmd's
// commands for the port take a single type. rte_softrss is the reference.
#include "tests/functional/ethdev/flow_rules.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <ostream>
#include <rte_thash.h>
#include <set>

namespace test {
namespace {

using Key = std::array<uint8_t, 40>;
Key key_of(uint8_t first) {
    Key key;
    for (size_t i = 0; i < key.size(); ++i)
        key.at(i) = static_cast<uint8_t>(first + 59 * i);
    return key;
}

/// Which fields are hashed.
struct Fields {
    bool source, destination, source_port, destination_port;
};
struct Case {
    const char* name;
    uint64_t types; ///< of packets, and the sides
    Fields fields;  ///< of packets with ports
};
void PrintTo(const Case& one, std::ostream* to) { *to << one.name; }

constexpr uint64_t kAddresses = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6,
                   kPorts = RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP;
constexpr Case kCases[] = {
    {"l3_both", kAddresses, {true, true, false, false}},
    {"l3_source", kAddresses | RTE_ETH_RSS_L3_SRC_ONLY, {true, false, false, false}},
    {"l3_destination", kAddresses | RTE_ETH_RSS_L3_DST_ONLY, {false, true, false, false}},
    {"l4_source", kPorts | RTE_ETH_RSS_L4_SRC_ONLY, {true, true, true, false}},
    {"l4_destination", kPorts | RTE_ETH_RSS_L4_DST_ONLY, {true, true, false, true}},
    {"l3_source_of_ports", kPorts | RTE_ETH_RSS_L3_SRC_ONLY, {true, false, true, true}},
    {"source",
     kPorts | RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L4_SRC_ONLY,
     {true, false, true, false}},
    {"destination",
     kPorts | RTE_ETH_RSS_L3_DST_ONLY | RTE_ETH_RSS_L4_DST_ONLY,
     {false, true, false, true}},
    {"across",
     kPorts | RTE_ETH_RSS_L3_SRC_ONLY | RTE_ETH_RSS_L4_DST_ONLY,
     {true, false, false, true}},
};

/// The headers' bytes that count, without those that differ from case to case.
struct Packet {
    bool ipv6, tcp;
    std::array<uint8_t, 16> source{}, destination{};
    std::array<uint8_t, 2> source_port{}, destination_port{};

    [[nodiscard]] size_t address_bytes() const { return ipv6 ? 16 : 4; }
    [[nodiscard]] uint32_t hash(const Fields& fields, const Key& key) const {
        std::array<uint8_t, 36> input{};
        size_t size = 0;
        const auto add = [&](bool hashed, const uint8_t* bytes, size_t count) {
            if (!hashed) return;
            std::copy_n(bytes, count, input.begin() + static_cast<ptrdiff_t>(size));
            size += count;
        };
        add(fields.source, source.data(), address_bytes());
        add(fields.destination, destination.data(), address_bytes());
        add(fields.source_port, source_port.data(), source_port.size());
        add(fields.destination_port, destination_port.data(), destination_port.size());
        // Zeros at the end do not change a Toeplitz hash, so whole words will do.
        std::array<uint32_t, 9> words{};
        for (size_t i = 0; i < input.size(); ++i)
            words.at(i / 4) |= uint32_t{input.at(i)} << (24 - 8 * (i % 4));
        return rte_softrss(words.data(), static_cast<uint32_t>((size + 3) / 4), key.data());
    }
};

class RssSides : public FlowRules, public testing::WithParamInterface<Case> {
  protected:
    void SetUp() override {
        rte_eth_dev_info info{};
        ASSERT_EQ(rte_eth_dev_info_get(kPort, &info), 0);
        rte_eth_conf conf{};
        conf.rxmode.mtu = RTE_ETHER_MTU;
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH;
        conf.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_IP;
        ASSERT_NO_FATAL_FAILURE(start(rx_pool(), conf));
        entries = info.reta_size;
        has_hash = conf.rxmode.offloads != 0;
    }
    [[nodiscard]] static Frame frame_of(const Packet& packet) {
        constexpr size_t kPayload = 30;
        const size_t l3 = 14, l4 = l3 + (packet.ipv6 ? 40 : 20);
        Frame made =
            frame(1, l4 + 20 + kPayload, packet.ipv6 ? RTE_ETHER_TYPE_IPV6 : RTE_ETHER_TYPE_IPV4);
        std::fill(made.begin() + l3, made.end(), uint8_t{0});
        const size_t bytes = made.size() - l3;
        const uint8_t protocol = packet.tcp ? IPPROTO_TCP : IPPROTO_UDP;
        const auto put = [&](size_t at, const auto& field, size_t count) {
            std::copy_n(field.begin(), count, made.begin() + static_cast<ptrdiff_t>(at));
        };
        if (packet.ipv6) {
            made[l3] = 0x60;
            made[l3 + 5] = static_cast<uint8_t>(bytes - 40);
            made[l3 + 6] = protocol;
        } else {
            made[l3] = RTE_IPV4_VHL_DEF;
            made[l3 + 3] = static_cast<uint8_t>(bytes);
            made[l3 + 9] = protocol;
        }
        const size_t addresses = l3 + (packet.ipv6 ? 8 : 12);
        put(addresses, packet.source, packet.address_bytes());
        put(addresses + packet.address_bytes(), packet.destination, packet.address_bytes());
        put(l4, packet.source_port, 2);
        put(l4 + 2, packet.destination_port, 2);
        if (packet.tcp)
            made[l4 + 12] = 5 << 4;
        else
            made[l4 + 5] = static_cast<uint8_t>(20 + kPayload);
        return made;
    }
    /// Packets of each kind, which differ from a first one in a single field.
    [[nodiscard]] static std::vector<Packet> packets() {
        std::vector<Packet> all;
        for (const bool ipv6 : {false, true})
            for (const bool tcp : {false, true}) {
                Packet first{.ipv6 = ipv6, .tcp = tcp};
                for (size_t i = 0; i < first.address_bytes(); ++i) {
                    first.source.at(i) = static_cast<uint8_t>(0x11 * (i + 1));
                    first.destination.at(i) = static_cast<uint8_t>(0x9d - 7 * i);
                }
                first.source_port = {0x12, 0x34};
                first.destination_port = {0xab, 0xcd}; // of no tunnel
                for (uint8_t change = 1; change < 24; ++change) {
                    Packet next = first;
                    next.source.at(3) ^= change % 4 == 0 ? change : uint8_t{0};
                    next.destination.at(2) ^= change % 4 == 1 ? change : uint8_t{0};
                    next.source_port.at(1) ^= change % 4 == 2 ? change : uint8_t{0};
                    next.destination_port.at(0) ^= change % 4 == 3 ? change : uint8_t{0};
                    all.push_back(next);
                }
            }
        return all;
    }
    /// Each packet goes to `queue(hash)`, by what softrss says of its fields.
    template <class Queue> void expect_spread(const Key& key, Queue&& queue) const {
        std::set<uint16_t> used;
        for (const Packet& packet : packets()) {
            const uint32_t hash = packet.hash(GetParam().fields, key);
            ASSERT_TRUE(send(mbuf_of(rx_pool(), frame_of(packet))));
            rte_mbuf* got = nullptr;
            ASSERT_TRUE(wait(10000, [&] {
                for (uint16_t one = 0; one < kQueues && got == nullptr; ++one)
                    if ((got = receive(one, 0)) != nullptr) {
                        EXPECT_EQ(one, queue(hash));
                        used.insert(one);
                    }
                return got != nullptr;
            }));
            EXPECT_EQ((got->ol_flags & RTE_MBUF_F_RX_RSS_HASH) != 0, has_hash);
            if (has_hash) {
                EXPECT_EQ(got->hash.rss, hash);
            }
            rte_pktmbuf_free(got);
        }
        EXPECT_EQ(used.size(), kQueues) << "or nothing has been seen to be spread";
    }

    uint16_t entries = 0;
    bool has_hash = false;
};

TEST_P(RssSides, OfThePort) {
    Key key = key_of(0x6d);
    rte_eth_rss_conf conf{};
    conf.rss_key = key.data();
    conf.rss_key_len = key.size();
    conf.rss_hf = GetParam().types;
    ASSERT_EQ(rte_eth_dev_rss_hash_update(kPort, &conf), 0);
    rte_eth_rss_conf now{};
    ASSERT_EQ(rte_eth_dev_rss_hash_conf_get(kPort, &now), 0);
    EXPECT_EQ(now.rss_hf, conf.rss_hf);
    expect_spread(key, [&](uint32_t hash) { return hash % entries % kQueues; });
}

TEST_P(RssSides, OfARule) {
    const Key key = key_of(0x35);
    const std::array<uint16_t, 2> queues{1, 0};
    rte_flow_action_rss rss{};
    rss.types = GetParam().types;
    rss.key = key.data();
    rss.key_len = key.size();
    rss.queue = queues.data();
    rss.queue_num = queues.size();
    rte_flow_error error{};
    const rte_flow_item pattern[] = {
        {.type = RTE_FLOW_ITEM_TYPE_ETH, .spec = nullptr, .last = nullptr, .mask = nullptr},
        {.type = RTE_FLOW_ITEM_TYPE_END, .spec = nullptr, .last = nullptr, .mask = nullptr}};
    const rte_flow_action action{.type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &rss};
    ASSERT_NE(try_rule(pattern, action, error), nullptr) << error.message;
    expect_spread(key, [&](uint32_t hash) { return queues.at(hash % queues.size()); });
}

INSTANTIATE_TEST_SUITE_P(, RssSides, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace test
