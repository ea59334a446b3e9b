// SPDX-License-Identifier: BSD-3-Clause
// What rules do to headers: each field is set, added to and copied, tunnels and tags come and go.
// The results are compared with packets built that way, including checksums.
#include "common/net/parse.hpp"
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/testbed.hpp"

namespace {

using namespace testbed;
using frames::Spec;
using Kind = HeaderEdit::Kind;

Bytes operator+(Bytes front, const Bytes& back) {
    for (const uint8_t byte : back)
        front.push_back(byte);
    return front;
}
Bytes without_front(const Bytes& bytes, size_t count) {
    return {bytes.begin() + static_cast<ptrdiff_t>(count), bytes.end()};
}

HeaderEdit set(EditField field, uint32_t value, uint8_t offset = 0, uint8_t length = 32) {
    return {.kind = Kind::set, .to = {field, offset, length}, .from = {}, .value = value};
}
HeaderEdit add(EditField field, uint32_t value) {
    return {.kind = Kind::add, .to = {field}, .from = {}, .value = value};
}
HeaderEdit copy(FieldPart from, FieldPart to) {
    return {.kind = Kind::copy, .to = to, .from = from, .value = 0};
}
EditField part(EditField first, int index) {
    return static_cast<EditField>(static_cast<int>(first) + index);
}

Spec tcp() {
    Spec spec;
    spec.tags = {{0x8100, 0x6064}};
    spec.proto = frames::kTcp;
    spec.ttl = 64;
    spec.payload = frames::pattern(33);
    return spec;
}
Spec udp6() {
    Spec spec = frames::ipv6_spec();
    spec.payload = frames::pattern(33);
    return spec;
}

class RewriteTest : public Testbed {
  protected:
    RewriteTest() : tir(direct_tir(rq)) {}

    Number edits(std::vector<HeaderEdit> list) {
        return device->create_header_edits(std::move(list)).value();
    }
    Number reformat(ReformatKind kind, const Bytes& headers) {
        return device->create_reformat(kind, frames::view(headers)).value();
    }
    /// The frame as received, with a rule that makes these changes.
    Bytes received(const Bytes& frame, const RewriteAttr& rewrite) {
        const Number flow = rule(FlowDomain::bypass, rewrite);
        post_buffer(rq);
        wire->incoming.push_back(frame);
        run();
        const mlx5::Cqe* const cqe = rx_cq.poll();
        EXPECT_TRUE(device->destroy_flow(flow));
        if (!cqe) return {};
        rx_cq.release();
        return packet_of(*cqe);
    }
    /// The frame as it leaves, with such a rule.
    Bytes sent(const Bytes& frame, const RewriteAttr& rewrite) {
        const Number flow = rule(FlowDomain::egress, rewrite);
        send(frame);
        EXPECT_TRUE(device->destroy_flow(flow));
        if (wire->sent.empty()) return {};
        Bytes out = wire->sent.back();
        wire->sent.clear();
        return out;
    }
    Number rule(FlowDomain domain, const RewriteAttr& rewrite) {
        FlowAttr attr;
        attr.domain = domain;
        if (domain == FlowDomain::bypass) attr.tirs = {tir};
        attr.rewrite = rewrite;
        const auto made = device->create_flow(attr);
        EXPECT_TRUE(made);
        return made.value_or(0);
    }
    void send(const Bytes& frame) {
        post_packet(frame);
        run();
    }

    Number tir;
};

struct EditCase {
    const char* name;
    Spec before;
    std::vector<HeaderEdit> edits;
    void (*change)(Spec&); ///< the same for the builder
};

std::vector<EditCase> edit_cases() {
    using enum EditField;
    return {
        {"dst_mac",
         tcp(),
         {set(dst_mac_high, 0x02aabbcc), set(dst_mac_low, 0xddee)},
         [](Spec& s) { s.dst = {2, 0xaa, 0xbb, 0xcc, 0xdd, 0xee}; }},
        {"src_mac",
         tcp(),
         {set(src_mac_high, 0x02aabbcc), set(src_mac_low, 0xddee)},
         [](Spec& s) { s.src = {2, 0xaa, 0xbb, 0xcc, 0xdd, 0xee}; }},
        {"vlan_id", tcp(), {set(vlan_id, 0x123)}, [](Spec& s) { s.tags[0].tci = 0x6123; }},
        {"vlan_id of a frame without", udp6(), {set(vlan_id, 0x123)}, [](Spec&) {}},
        {"dscp", tcp(), {set(ip_dscp, 0x2e)}, [](Spec& s) { s.tos = 0xb8; }},
        {"dscp, IPv6", udp6(), {set(ip_dscp, 0x2e)}, [](Spec& s) { s.tos = 0xb8; }},
        {"ecn", tcp(), {set(ip_ecn, 3)}, [](Spec& s) { s.tos = 3; }},
        {"ecn, IPv6", udp6(), {set(ip_ecn, 3)}, [](Spec& s) { s.tos = 3; }},
        {"ttl", tcp(), {set(ipv4_ttl, 7)}, [](Spec& s) { s.ttl = 7; }},
        {"ttl - 1", tcp(), {add(ipv4_ttl, ~0u)}, [](Spec& s) { s.ttl = 63; }},
        {"hop limit", udp6(), {set(ipv6_hop_limit, 7)}, [](Spec& s) { s.ttl = 7; }},
        {"hop limit - 1", udp6(), {add(ipv6_hop_limit, 0xff)}, [](Spec& s) { s.ttl = 63; }},
        {"the other version's", udp6(), {set(ipv4_ttl, 7), set(src_ipv4, 1)}, [](Spec&) {}},
        {"src_ipv4",
         tcp(),
         {set(src_ipv4, 0x0a010203)},
         [](Spec& s) {
             s.src_ip = {10, 1, 2, 3};
         }},
        {"dst_ipv4",
         tcp(),
         {set(dst_ipv4, 0x0a010203)},
         [](Spec& s) {
             s.dst_ip = {10, 1, 2, 3};
         }},
        {"half of dst_ipv4",
         tcp(),
         {set(dst_ipv4, 0x0a01, 16, 16)},
         [](Spec& s) {
             s.dst_ip = {10, 1, 2, 2};
         }},
        {"src_ipv6",
         udp6(),
         {set(part(src_ipv6, 0), 0xfd000001), set(part(src_ipv6, 3), 9)},
         [](Spec& s) { s.src_ip = {0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}; }},
        {"dst_ipv6",
         udp6(),
         {set(part(dst_ipv6, 1), 0x11223344), set(part(dst_ipv6, 2), 5)},
         [](Spec& s) {
             s.dst_ip = {0x20, 1, 0xd, 0xb8, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 5, 0, 0, 0, 2};
         }},
        {"tcp ports",
         tcp(),
         {set(tcp_src_port, 11), set(tcp_dst_port, 12)},
         [](Spec& s) { s.src_port = 11, s.dst_port = 12; }},
        {"udp ports",
         udp6(),
         {set(udp_src_port, 11), set(udp_dst_port, 12)},
         [](Spec& s) { s.src_port = 11, s.dst_port = 12; }},
        {"ports of the other protocol", udp6(), {set(tcp_dst_port, 12)}, [](Spec&) {}},
        {"tcp flags",
         tcp(),
         {set(tcp_flags, frames::kSyn)},
         [](Spec& s) { s.tcp_flags = frames::kSyn; }},
        {"tcp sequence", tcp(), {add(tcp_sequence, 0x1000)}, [](Spec& s) { s.sequence = 0x1001; }},
        {"copied port",
         udp6(),
         {copy({udp_src_port}, {udp_dst_port})},
         [](Spec& s) { s.dst_port = s.src_port; }},
        {"copied bits",
         tcp(),
         {copy({vlan_id, 4, 8}, {ipv4_ttl, 0, 8})},
         [](Spec& s) { s.ttl = 0x06; }},
        {"by way of a register",
         udp6(),
         {set(part(reg_c, 3), 0x00770000), copy({part(reg_c, 3), 16, 16}, {udp_dst_port, 0, 16})},
         [](Spec& s) { s.dst_port = 0x77; }},
    };
}

TEST_F(RewriteTest, EachFieldInBothDirections) {
    for (const EditCase& one : edit_cases()) {
        Spec after = one.before;
        one.change(after);
        const RewriteAttr rewrite{.edits = edits(one.edits)};
        EXPECT_EQ(received(frames::build(one.before), rewrite), frames::build(after)) << one.name;
        EXPECT_EQ(sent(frames::build(one.before), rewrite), frames::build(after)) << one.name;
    }
}

TEST_F(RewriteTest, AWrongChecksumStaysWrong) {
    Bytes wrong = frames::build(tcp());
    wrong.back() ^= 1;
    Spec after = tcp();
    after.dst_ip = {10, 1, 2, 3};
    Bytes expected = frames::build(after);
    expected.back() ^= 1;
    const RewriteAttr rewrite{.edits = edits({set(EditField::dst_ipv4, 0x0a010203)})};
    EXPECT_EQ(received(wrong, rewrite), expected);
    Spec none; // UDP over IPv4 without a checksum keeps none
    none.udp_checksum = false;
    Spec changed = none;
    changed.dst_ip = {10, 1, 2, 3};
    EXPECT_EQ(received(frames::build(none), rewrite), frames::build(changed));
}

/// In UDP, 0 would mean that there is none.
TEST_F(RewriteTest, AChecksumThatComesToZeroIsAllOnes) {
    constexpr size_t kUdpChecksum = 40;
    Spec before, after;
    while (frames::get16(frames::build(after), kUdpChecksum) != 0xffff)
        after.src_port++;
    const RewriteAttr rewrite{.edits = edits({set(EditField::udp_src_port, after.src_port)})};
    ASSERT_NE(before.src_port, after.src_port);
    EXPECT_EQ(received(frames::build(before), rewrite), frames::build(after));
}

TEST_F(RewriteTest, RegistersReachTheNextTableAndTheCompletion) {
    const Number next = *device->create_flow_table({.level = 1, .log_size = 1});
    FlowKey mask, value;
    mask.meta.reg_c[2] = ~0u;
    value.meta.reg_c[2] = 0xabc;
    const Number group = *device->create_flow_group(next, {.first = 0, .last = 0, .mask = mask});
    const Number mark = edits({set(EditField::reg_b, 0x12345678)});
    ASSERT_TRUE(device->set_flow_entry(
        next, 0, {.group = group, .value = value, .tirs = {tir}, .rewrite = {.edits = mark}}));
    FlowAttr attr;
    attr.tables = {next};
    attr.rewrite.edits = edits({set(part(EditField::reg_c, 2), 0xabc)});
    ASSERT_TRUE(device->create_flow(attr));
    post_buffer(rq);
    wire->incoming.push_back(frames::build(tcp()));
    run();
    const mlx5::Cqe& cqe = expect_packet(rx_cq);
    EXPECT_EQ(cqe.metadata, 0x12345678u);
    EXPECT_EQ(packet_of(cqe), frames::build(tcp()));
    EXPECT_EQ(refusal(device->destroy_header_edits(mark)), Status::busy);
    EXPECT_EQ(refusal(device->destroy_flow_table(next)), Status::busy);
}

TEST_F(RewriteTest, TunnelsComeOff) {
    const Bytes inner = frames::build(tcp());
    EXPECT_EQ(received(frames::vxlan(5, inner), {.decap = true}), inner);
    const Bytes elsewhere = frames::vxlan(5, inner, false, 8472);
    device->set_vxlan_ports({{8472}});
    EXPECT_EQ(received(elsewhere, {.decap = true}), inner);
    Spec geneve;
    geneve.dst_port = 6081;
    geneve.payload = Bytes{0x01, 0, 0x65, 0x58, 0, 0, 5, 0, 0, 0, 0, 0} + inner;
    EXPECT_EQ(received(frames::build(geneve), {.decap = true}), inner);

    Spec bare = tcp();
    bare.tags = {};
    Spec gre;
    gre.proto = 47;
    gre.payload = Bytes{0, 0, 8, 0} + without_front(frames::build(bare), 14);
    const Bytes l2 = {2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0};
    const RewriteAttr to_l2{.reformat = reformat(ReformatKind::l3_tunnel_to_l2, l2)};
    const Bytes expected = l2 + without_front(frames::build(bare), 14);
    EXPECT_EQ(received(frames::build(gre), to_l2), expected);
    // An L2 tunnel also contains an L3 packet.
    EXPECT_EQ(received(elsewhere, to_l2), expected);
}

TEST_F(RewriteTest, TunnelsGoOn) {
    const Bytes inner = frames::build(tcp());
    const Bytes tunnel = frames::vxlan(5, inner);
    Bytes headers(tunnel.begin(), tunnel.end() - static_cast<ptrdiff_t>(inner.size()));
    frames::put16(headers, 16, 0); // the device fills in lengths and checksum
    frames::put16(headers, 24, 0);
    frames::put16(headers, 38, 0);
    EXPECT_EQ(sent(inner, {.reformat = reformat(ReformatKind::l2_to_l2_tunnel, headers)}), tunnel);

    Spec bare = tcp();
    bare.tags = {};
    const Bytes l3 = without_front(frames::build(bare), 14);
    Spec gre6 = frames::ipv6_spec();
    gre6.proto = 47;
    gre6.payload = Bytes{0, 0, 8, 0} + l3;
    const Bytes expected = frames::build(gre6);
    Bytes gre_headers(expected.begin(), expected.end() - static_cast<ptrdiff_t>(l3.size()));
    frames::put16(gre_headers, 18, 0);
    const RewriteAttr to_l3{.reformat = reformat(ReformatKind::l2_to_l3_tunnel, gre_headers)};
    EXPECT_EQ(sent(inner, to_l3), expected) << "without L2 header and tag";
    EXPECT_EQ(sent(frames::build(bare), to_l3), expected);
}

TEST_F(RewriteTest, TagsComeOffAndGoOnAroundEdits) {
    Spec before = tcp(), after = tcp();
    before.tags = {{0x88a8, 5}, {0x8100, 6}};
    after.tags = {{0x88a8, 0x2009}, {0x8100, 7}, {0x8100, 0x123}};
    EXPECT_EQ(received(frames::build(before), {.pop_vlans = 1,
                                               .edits = edits({set(EditField::vlan_id, 0x123)}),
                                               .push_vlans = {{0x8100, 7}, {0x88a8, 0x2009}}}),
              frames::build(after));
    Spec bare = tcp();
    bare.tags = {};
    EXPECT_EQ(received(frames::build(before), {.pop_vlans = 2}), frames::build(bare));
    EXPECT_EQ(sent(frames::build(bare), {.push_vlans = {{0x8100, 0x6064}}}), frames::build(tcp()));
}

TEST_F(RewriteTest, WhatDoesNotFitIsLostAndCounted) {
    const Bytes l2 = {2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0};
    EXPECT_EQ(received(frames::build(tcp()), {.decap = true}), Bytes{});
    EXPECT_EQ(received(frames::build(udp6()), {.pop_vlans = 1}), Bytes{});
    EXPECT_EQ(
        received(frames::build(tcp()), {.reformat = reformat(ReformatKind::l3_tunnel_to_l2, l2)}),
        Bytes{});
    EXPECT_EQ(sent(frames::build(udp6()), {.pop_vlans = 1}), Bytes{});
    Spec cut_off; // Geneve with 252 bytes of options, of which there are ten
    cut_off.dst_port = 6081;
    cut_off.payload = Bytes{63, 0, 8, 0, 0, 0, 5, 0} + Bytes(10);
    EXPECT_EQ(
        received(frames::build(cut_off), {.reformat = reformat(ReformatKind::l3_tunnel_to_l2, l2)}),
        Bytes{});
    EXPECT_EQ(device->counters().drop_rewrite, 5u);
    EXPECT_EQ(device->counters().drop_no_match, 0u);
}

TEST_F(RewriteTest, TunnelsOfTheOtherDirectionAndWhatIsNotThereAreRefused) {
    const Bytes l2(14, 2);
    FlowAttr receive, transmit;
    receive.tirs = {tir};
    transmit.domain = FlowDomain::egress;
    const auto status = [&](FlowAttr attr, const RewriteAttr& rewrite) {
        attr.rewrite = rewrite;
        return refusal(device->create_flow(attr));
    };
    const Number on = reformat(ReformatKind::l2_to_l2_tunnel, l2),
                 off = reformat(ReformatKind::l3_tunnel_to_l2, l2);
    EXPECT_EQ(status(receive, {.reformat = on}), Status::bad_parameter);
    EXPECT_EQ(status(transmit, {.reformat = off}), Status::bad_parameter);
    EXPECT_EQ(status(transmit, {.decap = true}), Status::bad_parameter);
    EXPECT_EQ(status(receive, {.edits = off}), Status::bad_resource);
    EXPECT_EQ(status(receive, {.reformat = 0xfffff}), Status::bad_resource);
    EXPECT_EQ(status(receive, {.pop_vlans = 3}), Status::bad_parameter);
    EXPECT_TRUE(device->destroy_reformat(on));
    EXPECT_EQ(refusal(device->destroy_reformat(on)), Status::bad_resource);
    EXPECT_EQ(refusal(device->create_reformat(ReformatKind::l2_to_l2_tunnel,
                                              frames::view(Bytes(Limits::kMaxReformatBytes + 1)))),
              Status::bad_parameter);
}

// ---------------------------------------------------------------- rules for what is sent

TEST_F(RewriteTest, RulesForWhatIsSentDropCountAndLetPass) {
    FlowAttr drop;
    drop.domain = FlowDomain::egress;
    drop.drop = true;
    drop.mask.outer.ip_proto = 0xff;
    drop.value.outer.ip_proto = frames::kTcp;
    const Number counter = *device->create_flow_counters();
    drop.counters = {counter};
    ASSERT_TRUE(device->create_flow(drop));
    send(frames::build(tcp()));
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_EQ(device->counters().drop_tx_rule, 1u);
    EXPECT_EQ(device->query_flow_counter(counter, false)->packets, 1u);
    EXPECT_NE(tx_cq.poll(), nullptr) << "for the sender it is sent";
    send(frames::build(udp6()));
    ASSERT_EQ(wire->sent.size(), 1u) << "what no rule takes leaves";
    EXPECT_EQ(wire->sent[0], frames::build(udp6()));
}

TEST_F(RewriteTest, TablesForWhatIsSent) {
    const Number root = *device->create_flow_table({.level = 0, .log_size = 2, .sends = true});
    const Number next = *device->create_flow_table({.level = 1, .log_size = 2, .sends = true});
    const Number other = *device->create_flow_table({.level = 2, .log_size = 2});
    EXPECT_EQ(refusal(device->set_flow_table_root(root, FlowRoot::receive)), Status::bad_parameter);
    ASSERT_TRUE(device->set_flow_table_root(root, FlowRoot::transmit));
    FlowKey mask, value;
    mask.meta.source_sqn = 0xffffff;
    mask.meta.reg_a = 0xff;
    value.meta.source_sqn = sq.number;
    value.meta.reg_a = 0x5a;
    const Number mine = *device->create_flow_group(root, {.first = 0, .last = 0, .mask = mask});
    const Number all = *device->create_flow_group(next, {.first = 0, .last = 0});
    EXPECT_EQ(refusal(device->set_flow_entry(root, 0, {.group = mine, .tirs = {tir}})),
              Status::bad_parameter);
    EXPECT_EQ(refusal(device->set_flow_entry(root, 0, {.group = mine, .tables = {other}})),
              Status::bad_parameter);
    ASSERT_TRUE(device->set_flow_entry(
        root, 0, {.group = mine, .value = value, .tables = {next}, .send = true}));
    ASSERT_TRUE(device->set_flow_entry(
        next, 0,
        {.group = all, .rewrite = {.edits = edits({set(EditField::ipv4_ttl, 9)})}, .send = true}));
    const Bytes frame = frames::build(tcp());
    const auto post = [&](uint32_t metadata) {
        Wqe wqe(mlx5::WqeOpcode::send);
        wqe.eth();
        frames::put32(wqe.bytes, 16 + 8, metadata);
        sq.post(wqe.data(lkey, put(0, frame), static_cast<uint32_t>(frame.size())));
        sq.ring_doorbell();
    };
    Spec changed = tcp();
    changed.ttl = 9;
    wire->room = 1; // the second copy waits
    post(0x5a);
    run();
    ASSERT_EQ(wire->sent.size(), 1u);
    wire->room = SIZE_MAX;
    run();
    ASSERT_EQ(wire->sent.size(), 2u) << "and the first one does not leave again";
    EXPECT_EQ(wire->sent[0], frame);
    EXPECT_EQ(wire->sent[1], frames::build(changed));
    post(0x5b);
    run();
    ASSERT_EQ(wire->sent.size(), 3u);
    EXPECT_EQ(wire->sent[2], frame) << "no entry takes it: it leaves as it is";
}

} // namespace
