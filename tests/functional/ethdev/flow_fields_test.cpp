// SPDX-License-Identifier: BSD-3-Clause
// Fields of rte_flow items that testpmd 22.11 cannot express, bit by bit. test_flow_items.py has
// the others and compares the names here with what it leaves out.
#include "tests/functional/ethdev/flow_rules.hpp"

#include <array>
#include <cstring>
#include <ostream>
#include <rte_dev.h>

namespace test {
namespace {

using Items = std::vector<rte_flow_item_type>;
constexpr auto kEth = RTE_FLOW_ITEM_TYPE_ETH, kIpv4 = RTE_FLOW_ITEM_TYPE_IPV4,
               kIpv6 = RTE_FLOW_ITEM_TYPE_IPV6, kUdp = RTE_FLOW_ITEM_TYPE_UDP,
               kTcp = RTE_FLOW_ITEM_TYPE_TCP, kEsp = RTE_FLOW_ITEM_TYPE_ESP,
               kMpls = RTE_FLOW_ITEM_TYPE_MPLS, kGre = RTE_FLOW_ITEM_TYPE_GRE,
               kNvgre = RTE_FLOW_ITEM_TYPE_NVGRE, kVxlan = RTE_FLOW_ITEM_TYPE_VXLAN,
               kVxlanGpe = RTE_FLOW_ITEM_TYPE_VXLAN_GPE, kGeneve = RTE_FLOW_ITEM_TYPE_GENEVE;

// -- frames, from the inside out

/// Hexadecimal digits, then the rest.
Frame operator+(const std::string& digits, const Frame& rest) {
    Frame bytes;
    for (size_t i = 0; i < digits.size(); i += 2)
        bytes.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    return bytes;
}
std::string word(size_t number) {
    char digits[5];
    std::snprintf(digits, sizeof digits, "%04zx", number);
    return digits;
}
Frame ether(uint16_t type, const Frame& rest) {
    return "020000000002020000000001" + word(type) + rest;
}
Frame ipv4(uint16_t protocol, const Frame& rest) {
    return "4500" + word(20 + rest.size()) + "0000000040" + word(protocol).substr(2) +
           "00000a0000010a000002" + rest;
}
Frame ipv6(uint16_t next, const Frame& rest) {
    const std::string network = "fd000000000000000000000000000000";
    return "60000000" + word(rest.size()) + word(next).substr(2) + "40" + network + network + rest;
}
Frame udp(uint16_t port, const Frame& rest) {
    return "0007" + word(port) + word(8 + rest.size()) + "0000" + rest;
}
Frame over_udp(uint16_t port, const std::string& header, const Frame& inside) {
    return ether(0x0800, ipv4(17, udp(port, header + inside)));
}
Frame over_ip(uint16_t protocol, const std::string& header, const Frame& inside = Frame(40)) {
    return ether(0x0800, ipv4(protocol, header + inside));
}
const std::string kVni = "0800000012345600", kLabel = "12345140",
                  kSegment = "03e807d012345678a5a5c3c3501800ff00000000";
/// Where headers begin.
constexpr size_t kL3 = 14, kL4 = 34, kTunnel = 42, kInside = kTunnel + 8 + 14;

Frame inside() { return ether(0x0800, ipv4(17, udp(53, Frame(20)))); }
Frame routed() { return ipv4(17, udp(53, Frame(20))); }
Frame in_vxlan(const Frame& inside) { return over_udp(4789, kVni, inside); }

// -- the fields

/// How a rule fares.
struct Fate {
    const char* engine;  ///< that serves it; null: none
    const char* refusal; ///< else part of the message
};
constexpr Fate kByVerbs{"verbs", nullptr}, kByMlx5{"mlx5", nullptr};
constexpr Fate kNoPlace{nullptr, "the device's match parameters have no place for it"};
/// The engine has words for it, which mlx5_ib or the device does not accept.
constexpr Fate kNotAccepted{nullptr, "cannot create steering rule"};

struct Field {
    const char* name;
    Items items; ///< the last one has the field
    Frame frame; ///< which they match
    size_t header;
    unsigned bit, bits; ///< of the header
    Fate by_auto = kByMlx5, by_mlx5 = kByMlx5;
    bool implied = false; ///< the item alone asks for the value that the frame has
};
void PrintTo(const Field& field, std::ostream* to) { *to << field.name; }

std::vector<Field> gre_fields() {
    const Items gre{kIpv4, kGre}, nvgre{kIpv4, kNvgre};
    const Frame plain = over_ip(47, "00000800", routed());
    const Frame bridged = over_ip(47, "2000655812345678", inside());
    return {
        {"gre_reserved_bit", gre, plain, kL4, 1, 1, kNotAccepted, kNoPlace},
        {"gre_rsvd0", gre, plain, kL4, 4, 9, kNotAccepted, kNoPlace},
        {"gre_version", gre, plain, kL4, 13, 3, kNotAccepted, kNoPlace},
        {"nvgre_c_bit", nvgre, bridged, kL4, 0, 1, kByMlx5, kByMlx5, true},
        {"nvgre_reserved_bit", nvgre, bridged, kL4, 1, 1, kNotAccepted, kNoPlace},
        {"nvgre_k_bit", nvgre, bridged, kL4, 2, 1, kByMlx5, kByMlx5, true},
        {"nvgre_s_bit", nvgre, bridged, kL4, 3, 1, kByMlx5, kByMlx5, true},
        {"nvgre_rsvd0", nvgre, bridged, kL4, 4, 9, kNotAccepted, kNoPlace},
        {"nvgre_version", nvgre, bridged, kL4, 13, 3, kNotAccepted, kNoPlace},
        {"nvgre_protocol", nvgre, bridged, kL4, 16, 16, kByMlx5, kByMlx5, true},
        {"nvgre_flow_id", nvgre, bridged, kL4, 56, 8},
    };
}

std::vector<Field> fields() {
    const Items vxlan{kIpv4, kUdp, kVxlan};
    const auto in = [&](Items items) {
        items.insert(items.begin(), vxlan.begin(), vxlan.end());
        return items;
    };
    const Frame segment = over_ip(6, kSegment);
    const Frame tcp_inside = in_vxlan(over_ip(6, kSegment));
    const Frame ipv6_inside = in_vxlan(ether(0x86dd, ipv6(17, udp(53, Frame(20)))));
    const Frame gpe = over_udp(4790, "0c00000312345600", inside());
    constexpr size_t kInnerL4 = kInside + 20;
    std::vector<Field> all{
        {"mpls_ttl", {kEth, kMpls}, ether(0x8847, kLabel + routed()), kL3, 24, 8, kByVerbs},
        {"in_udp_mpls_ttl",
         {kIpv4, kUdp, kMpls},
         over_udp(6635, kLabel, routed()),
         kTunnel,
         24,
         8,
         kByVerbs},
        {"in_gre_mpls_ttl",
         {kIpv4, kGre, kMpls},
         over_ip(47, "00008847" + kLabel, routed()),
         kL4 + 4,
         24,
         8,
         kByVerbs},
        {"in_vxlan_mpls_ttl", in({kEth, kMpls}), in_vxlan(ether(0x8847, kLabel + routed())),
         kInside, 24, 8, kByVerbs},
        {"ipv6_version",
         {kIpv6},
         ether(0x86dd, ipv6(17, udp(53, Frame(20)))),
         kL3,
         0,
         4,
         kByVerbs,
         kByMlx5,
         true},
        {"in_vxlan_ipv6_version", in({kIpv6}), ipv6_inside, kInside, 0, 4, kByVerbs, kByMlx5, true},
        {"tcp_sent_seq", {kIpv4, kTcp}, segment, kL4, 32, 32},
        {"tcp_recv_ack", {kIpv4, kTcp}, segment, kL4, 64, 32},
        {"in_vxlan_tcp_sent_seq", in({kIpv4, kTcp}), tcp_inside, kInnerL4, 32, 32},
        {"in_vxlan_tcp_recv_ack", in({kIpv4, kTcp}), tcp_inside, kInnerL4, 64, 32},
        {"esp_seq",
         {kIpv4, kEsp},
         over_ip(50, "1234567811223344"),
         kL4,
         32,
         32,
         kNotAccepted,
         kNoPlace},
        {"vxlan_gpe_flags", {kIpv4, kUdp, kVxlanGpe}, gpe, kTunnel, 0, 8},
        {"vxlan_gpe_protocol", {kIpv4, kUdp, kVxlanGpe}, gpe, kTunnel, 24, 8},
        {"geneve_o_bit",
         {kIpv4, kUdp, kGeneve},
         over_udp(6081, "0080655812345600", inside()),
         kTunnel,
         8,
         1},
    };
    const auto gre = gre_fields();
    all.insert(all.end(), gre.begin(), gre.end());
    return all;
}

// -- the test

class FlowFields : public FlowRules, public testing::WithParamInterface<Field> {
  protected:
    /// An item as bytes.
    using Header = std::array<uint8_t, 64>;

    Frame packet = GetParam().frame;

    void SetUp() override {
        ASSERT_NO_FATAL_FAILURE(FlowRules::SetUp());
        const Frame own = frame(1);
        std::copy_n(own.begin(), sizeof(rte_ether_addr), packet.begin());
    }
    static Fate fate() {
        rte_eth_dev_info info{};
        EXPECT_EQ(rte_eth_dev_info_get(kPort, &info), 0);
        const std::string given = rte_dev_devargs(info.device)->args;
        return given.find("flow_engine=mlx5") == given.npos ? GetParam().by_auto
                                                            : GetParam().by_mlx5;
    }
    /// A rule for the value of these bits of the field in the packet.
    [[nodiscard]] rte_flow* rule_for(unsigned first, unsigned count, rte_flow_error& error) const {
        const Field& field = GetParam();
        alignas(8) Header spec{}, mask{};
        const size_t left = packet.size() - field.header;
        std::memcpy(spec.data(), &packet[field.header], std::min(left, spec.size()));
        for (unsigned bit = field.bit + first; bit < field.bit + first + count; ++bit)
            mask.at(bit / 8) |= static_cast<uint8_t>(0x80 >> bit % 8);
        std::vector<rte_flow_item> pattern;
        for (const rte_flow_item_type type : field.items)
            pattern.push_back({.type = type, .spec = nullptr, .last = nullptr, .mask = nullptr});
        pattern.back().spec = spec.data();
        pattern.back().mask = mask.data();
        pattern.push_back({.type = RTE_FLOW_ITEM_TYPE_END, .spec = {}, .last = {}, .mask = {}});
        return try_rule(pattern.data(), 1, error);
    }
    /// A packet with these bits of the field inverted.
    [[nodiscard]] static Frame inverted(Frame packet, unsigned first, unsigned count) {
        const Field& field = GetParam();
        for (unsigned bit = field.bit + first; bit < field.bit + first + count; ++bit)
            packet.at(field.header + bit / 8) ^= static_cast<uint8_t>(0x80 >> bit % 8);
        return packet;
    }
    void expect_rule(unsigned first, unsigned count);
    static void expect_engine(const char* name) {
        rte_flow_error error{};
        const std::string dump =
            written([&](FILE* file) { return rte_flow_dev_dump(kPort, nullptr, file, &error); });
        EXPECT_NE(dump.find(std::string("(by ") + name + ")"), dump.npos) << dump;
    }
};

/// The rule for these bits takes no packet that differs in one of them, and the one that differs in
/// all others.
void FlowFields::expect_rule(unsigned first, unsigned count) {
    const Fate expected = fate();
    rte_flow_error error{};
    rte_flow* const rule = rule_for(first, count, error);
    if (expected.engine == nullptr) {
        ASSERT_EQ(rule, nullptr);
        EXPECT_NE(std::string(error.message).find(expected.refusal), std::string::npos)
            << error.message;
        return;
    }
    ASSERT_NE(rule, nullptr) << error.message;
    expect_engine(expected.engine);
    EXPECT_EQ(queue_of(packet), 1);
    for (unsigned bit = first; bit < first + count; ++bit)
        EXPECT_EQ(queue_of(inverted(packet, bit, 1)), 0) << "bit " << bit;
    const Frame others = inverted(inverted(packet, 0, GetParam().bits), first, count);
    EXPECT_EQ(queue_of(others), GetParam().implied && others != packet ? 0 : 1);
    EXPECT_EQ(rte_flow_destroy(kPort, rule, &error), 0) << error.message;
}

TEST_P(FlowFields, AreMatchedWhole) { expect_rule(0, GetParam().bits); }

TEST_P(FlowFields, AreMatchedBitByBit) {
    for (unsigned bit = 0; bit < GetParam().bits; ++bit)
        ASSERT_NO_FATAL_FAILURE(expect_rule(bit, 1)) << "rule for bit " << bit;
}

INSTANTIATE_TEST_SUITE_P(, FlowFields, testing::ValuesIn(fields()),
                         [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace test
