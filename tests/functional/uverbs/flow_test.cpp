// SPDX-License-Identifier: BSD-3-Clause
// ibv_create_flow: what rules take, and which ones are refused.
#include "tests/functional/uverbs/verbs.hpp"

#include <functional>

namespace test {
namespace {

/// A catch-all at the lowest priority follows the rule under test: `taken_by_rule` tells which of
/// the two got a frame, without having to wait for something not to happen.
class FlowTest : public VerbsTest {
  protected:
    void SetUp() override {
        VerbsTest::SetUp();
        rule_side = std::make_unique<Endpoint>(context.get(), pd.get());
        rest_side = std::make_unique<Endpoint>(context.get(), pd.get());
        rule_side->start();
        rest_side->start();
        rest = FlowBuilder(IBV_FLOW_ATTR_ALL_DEFAULT).create(rest_side->qp.get());
        ASSERT_TRUE(rest);
    }
    [[nodiscard]] bool taken_by_rule(const UdpFrame& udp) {
        const Frame frame = udp.bytes();
        EXPECT_EQ(rest_side->send(frame), IBV_WC_SUCCESS);
        ibv_wc wc{};
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (std::chrono::steady_clock::now() < deadline) {
            for (auto* side : {rule_side.get(), rest_side.get()}) {
                if (ibv_poll_cq(side->receive_cq.get(), 1, &wc) != 1) continue;
                EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
                EXPECT_EQ(wc.byte_len, frame.size());
                side->post_receive(static_cast<uint32_t>(wc.wr_id));
                return side == rule_side.get();
            }
        }
        ADD_FAILURE() << "the frame went nowhere";
        return false;
    }
    [[nodiscard]] static ibv_flow_spec_gre gre_spec() {
        ibv_flow_spec_gre spec{};
        spec.type = IBV_FLOW_SPEC_GRE;
        spec.size = sizeof spec;
        return spec;
    }
    [[nodiscard]] static ibv_flow_spec_eth inner_eth_spec() {
        ibv_flow_spec_eth spec = eth_spec();
        spec.type = static_cast<ibv_flow_spec_type>(IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER);
        return spec;
    }
    void expect_both_get(const UdpFrame& udp) {
        const Frame frame = udp.bytes();
        ASSERT_EQ(rest_side->send(frame), IBV_WC_SUCCESS);
        EXPECT_EQ(rule_side->receive(), frame);
        EXPECT_EQ(rest_side->receive(), frame);
    }
    /// The errno of a rule that must be refused.
    [[nodiscard]] int refusal(FlowBuilder& flow) {
        const FlowHandle created = flow.create(rule_side->qp.get());
        EXPECT_FALSE(created);
        return errno;
    }

    std::unique_ptr<Endpoint> rule_side, rest_side;
    FlowHandle rest;
};

TEST_F(FlowTest, EveryFieldDecides) {
    ibv_flow_spec_eth eth = dst_mac_spec(UdpFrame{}.dst_mac);
    ibv_flow_spec_ipv4 ip = ipv4_spec();
    ip.val.src_ip = __builtin_bswap32(0x0a000001);
    ip.mask.src_ip = ~0u;
    ip.val.dst_ip = __builtin_bswap32(0x0a000002);
    ip.mask.dst_ip = ~0u;
    ibv_flow_spec_tcp_udp udp = udp_spec();
    udp.val.dst_port = __builtin_bswap16(2000);
    udp.val.src_port = __builtin_bswap16(1000);
    udp.mask.dst_port = udp.mask.src_port = 0xffff;
    const FlowHandle flow = FlowBuilder().add(eth).add(ip).add(udp).create(rule_side->qp.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    EXPECT_TRUE(taken_by_rule({}));
    EXPECT_FALSE(taken_by_rule({.dst_mac = {0x02, 0, 0, 0, 0, 0}}));
    EXPECT_FALSE(taken_by_rule({.src_ip = 0x0a000000}));
    EXPECT_FALSE(taken_by_rule({.dst_ip = 0x0a000003}));
    EXPECT_FALSE(taken_by_rule({.src_port = 1001}));
    EXPECT_FALSE(taken_by_rule({.dst_port = 2001}));
    EXPECT_FALSE(taken_by_rule({.protocol = 6}));
}

TEST_F(FlowTest, MaskedAddresses) {
    ibv_flow_spec_ipv4 ip = ipv4_spec();
    ip.val.dst_ip = __builtin_bswap32(0x0a000000);
    ip.mask.dst_ip = __builtin_bswap32(0xffffff00);
    const FlowHandle flow = FlowBuilder().add(ip).create(rule_side->qp.get());
    ASSERT_TRUE(flow);
    EXPECT_TRUE(taken_by_rule({.dst_ip = 0x0a0000fe}));
    EXPECT_FALSE(taken_by_rule({.dst_ip = 0x0a0001fe}));
}

TEST_F(FlowTest, LowerPriorityNumberGoesFirst) {
    const FlowHandle behind =
        FlowBuilder(IBV_FLOW_ATTR_NORMAL, 3).add(eth_spec()).create(rule_side->qp.get());
    EXPECT_TRUE(taken_by_rule({}));
    const FlowHandle ahead =
        FlowBuilder(IBV_FLOW_ATTR_NORMAL, 2).add(eth_spec()).create(rest_side->qp.get());
    ASSERT_TRUE(behind && ahead);
    EXPECT_FALSE(taken_by_rule({}));
}

/// mlx5_ib sorts rules for multicast addresses after all others, whatever priority they ask for.
TEST_F(FlowTest, MulticastRulesComeLast) {
    const UdpFrame multicast{.dst_mac = {1, 0, 0x5e, 0, 0, 1}};
    const FlowHandle group = FlowBuilder(IBV_FLOW_ATTR_NORMAL, 0)
                                 .add(dst_mac_spec(multicast.dst_mac))
                                 .create(rule_side->qp.get());
    EXPECT_TRUE(taken_by_rule(multicast));
    const FlowHandle all =
        FlowBuilder(IBV_FLOW_ATTR_NORMAL, 15).add(eth_spec()).create(rest_side->qp.get());
    ASSERT_TRUE(group && all);
    EXPECT_FALSE(taken_by_rule(multicast));
}

TEST_F(FlowTest, MulticastDefaultTakesMulticastOnly) {
    rest.reset();
    const FlowHandle unicast =
        FlowBuilder().add(dst_mac_spec(UdpFrame{}.dst_mac)).create(rest_side->qp.get());
    const FlowHandle groups = FlowBuilder(IBV_FLOW_ATTR_MC_DEFAULT).create(rule_side->qp.get());
    ASSERT_TRUE(unicast && groups);
    EXPECT_TRUE(taken_by_rule({.dst_mac = {0x33, 0x33, 0x12, 0x34, 0x56, 0x78}}));
    EXPECT_FALSE(taken_by_rule({}));
}

TEST_F(FlowTest, EveryReceiverOfAnEqualRuleGetsACopy) {
    const FlowHandle one = FlowBuilder().add(eth_spec()).create(rule_side->qp.get());
    const FlowHandle two = FlowBuilder().add(eth_spec()).create(rest_side->qp.get());
    ASSERT_TRUE(one && two);
    const Frame frame = UdpFrame{}.bytes();
    ASSERT_EQ(rule_side->send(frame), IBV_WC_SUCCESS);
    EXPECT_EQ(rule_side->receive(), frame);
    EXPECT_EQ(rest_side->receive(), frame);
}

TEST_F(FlowTest, SnifferGetsCopies) {
    const FlowHandle sniffer = FlowBuilder(IBV_FLOW_ATTR_SNIFFER).create(rule_side->qp.get());
    ASSERT_TRUE(sniffer) << std::strerror(errno);
    const Frame frame = UdpFrame{}.bytes();
    ASSERT_EQ(rest_side->send(frame), IBV_WC_SUCCESS);
    EXPECT_EQ(rule_side->receive(), frame);
    EXPECT_EQ(rest_side->receive(), frame);
}

/// IBV_FLOW_ATTR_FLAGS_DONT_TRAP: the rule gets a copy and lets the packet continue.
TEST_F(FlowTest, DontTrapGetsACopy) {
    FlowBuilder copies;
    copies.add(eth_spec()).attributes().flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
    const FlowHandle copy = copies.create(rule_side->qp.get());
    ASSERT_TRUE(copy) << std::strerror(errno);
    expect_both_get(UdpFrame{}); // taken by the default rule only
    const FlowHandle taker = FlowBuilder().add(eth_spec()).create(rest_side->qp.get());
    ASSERT_TRUE(taker) << std::strerror(errno);
    expect_both_get(UdpFrame{.seed = 1}); // before other rules of its priority
}

TEST_F(FlowTest, DontTrapComesAfterBetterPriorities) {
    FlowBuilder copies(IBV_FLOW_ATTR_NORMAL, 3);
    copies.add(eth_spec()).attributes().flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
    const FlowHandle copy = copies.create(rest_side->qp.get());
    const FlowHandle behind =
        FlowBuilder(IBV_FLOW_ATTR_NORMAL, 3).add(udp_spec()).create(rule_side->qp.get());
    ASSERT_TRUE(copy && behind);
    expect_both_get(UdpFrame{});
    const FlowHandle ahead =
        FlowBuilder(IBV_FLOW_ATTR_NORMAL, 2).add(udp_spec()).create(rule_side->qp.get());
    ASSERT_TRUE(ahead);
    EXPECT_TRUE(taken_by_rule({.seed = 2}));
    EXPECT_TRUE(rest_side->is_empty());
}

/// Unlike other multicast rules, those that copy are not sorted after all others.
TEST_F(FlowTest, DontTrapOfMulticastKeepsItsPriority) {
    const UdpFrame multicast{.dst_mac = {1, 0, 0x5e, 0, 0, 1}};
    FlowBuilder copies;
    copies.add(dst_mac_spec(multicast.dst_mac)).attributes().flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
    const FlowHandle copy = copies.create(rule_side->qp.get());
    const FlowHandle all =
        FlowBuilder(IBV_FLOW_ATTR_NORMAL, 15).add(eth_spec()).create(rest_side->qp.get());
    ASSERT_TRUE(copy && all);
    expect_both_get(multicast);
}

TEST_F(FlowTest, DontTrapAndDropDrops) {
    FlowBuilder drops;
    drops.add(udp_spec()).add(drop_spec()).attributes().flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
    const FlowHandle drop = drops.create(rule_side->qp.get());
    ASSERT_TRUE(drop) << std::strerror(errno);
    ASSERT_EQ(rest_side->send(UdpFrame{}.bytes()), IBV_WC_SUCCESS);
    EXPECT_FALSE(taken_by_rule({.protocol = 6})) << "the first frame must be gone";
}

TEST_F(FlowTest, EqualRulesMustAgree) {
    const FlowHandle takes = FlowBuilder().add(eth_spec()).create(rest_side->qp.get());
    ASSERT_TRUE(takes);
    FlowBuilder drops, tags;
    EXPECT_EQ(refusal(drops.add(eth_spec()).add(drop_spec())), EEXIST);
    EXPECT_EQ(refusal(tags.add(eth_spec()).add(tag_spec(7))), EEXIST);
    EXPECT_FALSE(taken_by_rule({}));
}

TEST_F(FlowTest, DropRule) {
    ibv_flow_spec_tcp_udp udp = udp_spec();
    udp.val.dst_port = __builtin_bswap16(6666);
    udp.mask.dst_port = 0xffff;
    const FlowHandle drop = FlowBuilder().add(udp).add(drop_spec()).create(rule_side->qp.get());
    ASSERT_TRUE(drop) << std::strerror(errno);
    ASSERT_EQ(rest_side->send(UdpFrame{.dst_port = 6666}.bytes()), IBV_WC_SUCCESS);
    const Frame next = UdpFrame{.seed = 1}.bytes();
    ASSERT_EQ(rest_side->send(next), IBV_WC_SUCCESS);
    EXPECT_EQ(rest_side->receive(), next) << "the first frame must be gone";
    EXPECT_TRUE(rule_side->is_empty());
}

TEST_F(FlowTest, TagArrivesInTheCompletion) {
    ibv_cq_init_attr_ex cq_attributes{};
    cq_attributes.cqe = 64;
    cq_attributes.wc_flags =
        IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    ibv_cq_ex* extended = ibv_create_cq_ex(context.get(), &cq_attributes);
    ASSERT_TRUE(extended) << std::strerror(errno);
    const CqHandle owner(ibv_cq_ex_to_cq(extended));
    const QpHandle qp = make_qp(pd.get(), rule_side->send_cq.get(), owner.get(), 16);
    for (const auto state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        to_state(qp.get(), state);
    std::vector<uint8_t> memory(2048);
    const MrHandle mr(ibv_reg_mr(pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
    ibv_sge sge{reinterpret_cast<uint64_t>(memory.data()), 2048, mr->lkey};
    ibv_recv_wr wr{.wr_id = 5, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp.get(), &wr, &bad), 0);
    const FlowHandle flow = FlowBuilder().add(eth_spec()).add(tag_spec(0xabcdef)).create(qp.get());
    ASSERT_TRUE(flow);
    ASSERT_EQ(rest_side->send(UdpFrame{.size = 77}.bytes()), IBV_WC_SUCCESS);

    ibv_poll_cq_attr poll{};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ibv_start_poll(extended, &poll) != 0)
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no completion";
    EXPECT_EQ(extended->wr_id, 5u);
    EXPECT_EQ(extended->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_byte_len(extended), 77u);
    EXPECT_EQ(ibv_wc_read_flow_tag(extended), 0xabcdefu);
    EXPECT_NE(ibv_wc_read_completion_ts(extended), 0u);
    ibv_end_poll(extended);
}

TEST_F(FlowTest, PrioritiesEndAtFifteen) {
    EXPECT_TRUE(FlowBuilder(IBV_FLOW_ATTR_NORMAL, 15).add(eth_spec()).create(rule_side->qp.get()));
    FlowBuilder beyond(IBV_FLOW_ATTR_NORMAL, 16);
    EXPECT_EQ(refusal(beyond.add(eth_spec())), ENOMEM);
}

TEST_F(FlowTest, ContradictionsAreRefused) {
    ibv_flow_spec_eth ipv6 = eth_spec();
    ipv6.val.ether_type = __builtin_bswap16(0x86dd);
    ipv6.mask.ether_type = 0xffff;
    FlowBuilder type;
    EXPECT_EQ(refusal(type.add(ipv6).add(ipv4_spec())), EINVAL);

    ibv_flow_spec_ipv4_ext tcp{};
    tcp.type = IBV_FLOW_SPEC_IPV4_EXT;
    tcp.size = sizeof tcp;
    tcp.val.proto = 6;
    tcp.mask.proto = 0xff;
    FlowBuilder protocol;
    EXPECT_EQ(refusal(protocol.add(tcp).add(udp_spec())), EINVAL);

    FlowBuilder tag;
    EXPECT_EQ(refusal(tag.add(eth_spec()).add(tag_spec(1u << 24))), EINVAL);

    ibv_flow_spec_eth outside = eth_spec(); // outside of the mask, which is empty
    outside.val.dst_mac[5] = 1;
    FlowBuilder value;
    EXPECT_EQ(refusal(value.add(outside)), EINVAL);
}

TEST_F(FlowTest, SpecsOfDefaultRulesDoNotCount) {
    rest.reset();
    const FlowHandle all = FlowBuilder(IBV_FLOW_ATTR_ALL_DEFAULT)
                               .add(udp_spec())
                               .add(tag_spec(1))
                               .create(rule_side->qp.get());
    ASSERT_TRUE(all) << std::strerror(errno);
    EXPECT_TRUE(taken_by_rule({.dst_mac = {0x33, 0x33, 0x12, 0x34, 0x56, 0x78}, .protocol = 6}));
}

TEST_F(FlowTest, WhatTheDeviceCannotMatchIsRefused) {
    ibv_flow_spec_ipv4_ext ttl{};
    ttl.type = IBV_FLOW_SPEC_IPV4_EXT;
    ttl.size = sizeof ttl;
    ttl.mask.ttl = 0xff;
    FlowBuilder by_ttl;
    EXPECT_EQ(refusal(by_ttl.add(ttl)), EOPNOTSUPP);

    ibv_flow_spec_gre gre = gre_spec();
    gre.mask.c_ks_res0_ver = 0xffff;
    FlowBuilder by_gre_flags;
    EXPECT_EQ(refusal(by_gre_flags.add(gre)), EOPNOTSUPP);

    for (const auto type : {IBV_FLOW_ATTR_ALL_DEFAULT, IBV_FLOW_ATTR_MC_DEFAULT})
        for (const auto flag : {IBV_FLOW_ATTR_FLAGS_EGRESS, IBV_FLOW_ATTR_FLAGS_DONT_TRAP}) {
            FlowBuilder default_rule(type);
            default_rule.attributes().flags = flag;
            EXPECT_EQ(refusal(default_rule), EINVAL) << type << " " << flag;
        }

    FlowBuilder port;
    port.add(eth_spec()).attributes().port = 2;
    EXPECT_EQ(refusal(port), EINVAL);
}

TEST_F(FlowTest, RulesForWhatIsSentDrop) {
    FlowBuilder egress;
    ibv_flow_spec_tcp_udp udp = udp_spec();
    udp.val.dst_port = __builtin_bswap16(2001);
    udp.mask.dst_port = 0xffff;
    ibv_flow_spec_action_drop drop{};
    drop.type = IBV_FLOW_SPEC_ACTION_DROP;
    drop.size = sizeof drop;
    egress.add(udp).add(drop).attributes().flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
    const FlowHandle flow = egress.create(rule_side->qp.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    ASSERT_EQ(rest_side->send(UdpFrame{.dst_port = 2001}.bytes()), IBV_WC_SUCCESS);
    const Frame other = UdpFrame{}.bytes();
    ASSERT_EQ(rest_side->send(other), IBV_WC_SUCCESS);
    EXPECT_EQ(rest_side->receive(), other) << "and none before it";
}

TEST_F(FlowTest, InnerHeadersBehindAGreKey) {
    ibv_flow_spec_gre gre = gre_spec();
    gre.val.key = __builtin_bswap32(0x01020304);
    gre.mask.key = ~0u;
    ibv_flow_spec_eth inner = inner_eth_spec();
    inner.val.dst_mac[5] = 0x56;
    inner.mask.dst_mac[5] = 0xff;
    const FlowHandle flow = FlowBuilder().add(gre).add(inner).create(rule_side->qp.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    Frame frame = UdpFrame{.protocol = 47}.bytes();
    const Frame tunnel = {0x20, 0, 0x65, 0x58, 1, 2, 3, 4},
                carried = UdpFrame{.dst_mac = {2, 0, 0, 0, 0, 0x56}}.bytes();
    frame.resize(14 + 20);
    frame.insert(frame.end(), tunnel.begin(), tunnel.end());
    frame.insert(frame.end(), carried.begin(), carried.end());
    ASSERT_EQ(rest_side->send(frame), IBV_WC_SUCCESS);
    EXPECT_EQ(rule_side->receive(), frame);
    for (const size_t byte : {size_t{14 + 20 + 7}, size_t{14 + 20 + 8 + 5}}) { // key, inner MAC
        Frame other = frame;
        other[byte] ^= 1;
        ASSERT_EQ(rest_side->send(other), IBV_WC_SUCCESS);
        EXPECT_EQ(rest_side->receive(), other) << byte;
    }
}

TEST_F(FlowTest, GreIsAProtocolAndNoMore) {
    const FlowHandle flow =
        FlowBuilder().add(gre_spec()).add(inner_eth_spec()).create(rule_side->qp.get());
    ASSERT_TRUE(flow) << std::strerror(errno);
    EXPECT_TRUE(taken_by_rule({.protocol = 47}));
    EXPECT_FALSE(taken_by_rule({}));
}

TEST_F(FlowTest, VlanRules) {
    ibv_flow_spec_eth vlan = eth_spec();
    vlan.val.vlan_tag = __builtin_bswap16(0x0064);
    vlan.mask.vlan_tag = __builtin_bswap16(0x0fff);
    const FlowHandle flow = FlowBuilder().add(vlan).create(rule_side->qp.get());
    ASSERT_TRUE(flow);
    Frame tagged = UdpFrame{}.bytes();
    const std::array<uint8_t, 4> tag = {0x81, 0x00, 0x60, 0x64}; // priority 3, VLAN 100
    tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
    ASSERT_EQ(rest_side->send(tagged), IBV_WC_SUCCESS);
    EXPECT_EQ(rule_side->receive(), tagged);
    tagged[15] = 0x65;
    ASSERT_EQ(rest_side->send(tagged), IBV_WC_SUCCESS);
    EXPECT_EQ(rest_side->receive(), tagged);
    EXPECT_FALSE(taken_by_rule({})) << "an untagged frame";
}

TEST_F(FlowTest, ThousandsOfRules) {
    constexpr uint16_t kRules = 3000;
    std::vector<FlowHandle> flows;
    for (uint16_t port = 1; port <= kRules; port++) {
        ibv_flow_spec_tcp_udp udp = udp_spec();
        udp.val.dst_port = __builtin_bswap16(port);
        udp.mask.dst_port = 0xffff;
        flows.push_back(FlowBuilder().add(udp).create(rule_side->qp.get()));
        ASSERT_TRUE(flows.back()) << port;
    }
    EXPECT_TRUE(taken_by_rule({.dst_port = kRules}));
    EXPECT_FALSE(taken_by_rule({.dst_port = kRules + 1}));
}

} // namespace
} // namespace test
