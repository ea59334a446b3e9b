// SPDX-License-Identifier: BSD-3-Clause
// What observers are told about packets.
#include "tests/unit/softhca/collector.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace {

using namespace testbed;
using testing::HasSubstr;
using testing::StartsWith;

class TraceTest : public Testbed {
  protected:
    TraceTest() { device->add_observer(collector); }
    ~TraceTest() override { device->remove_observer(collector); }

    void receive(const Bytes& frame) {
        wire->incoming.push_back(frame);
        run();
    }
    void send(const Wqe& wqe) {
        sq.post(wqe);
        sq.ring_doorbell();
        run();
    }
    /// The only packet reported since the last call.
    Passage the_packet() {
        EXPECT_EQ(collector.passages.size(), 1u);
        Passage passage = collector.passages.empty() ? Passage{} : collector.passages.front();
        collector.passages.clear();
        return passage;
    }
    static std::string text(const Passage& passage) {
        std::string all;
        for (const auto& [where, what] : passage.steps)
            all += fmt::format("{}: {}\n", where, what);
        return all;
    }
    /// A rule for packets to this UDP port.
    Number steer_port(uint16_t port, Number tir) {
        FlowAttr flow;
        flow.mask.outer.dst_port = 0xffff;
        flow.value.outer.dst_port = port;
        flow.tirs = {tir};
        return *device->create_flow(flow);
    }

    Collector collector{true};
};

TEST_F(TraceTest, APacketThatIsDelivered) {
    const Number rqt = *device->create_rqt(std::vector{rq.number, rq.number});
    TirAttr attr;
    attr.rqt = rqt;
    attr.fields = {.src_ip = true, .dst_ip = true, .ip_version = 4};
    attr.toeplitz_key.fill(0x6d);
    const Number tir = *device->create_tir(attr);
    const Number rule = steer_port(2000, tir);
    post_buffers(rq, 2);
    const Bytes frame = frames::build(frames::Spec{});
    receive(frame);
    const uint32_t hash = expect_packet(rx_cq).rx_hash_result;

    const Passage packet = the_packet();
    EXPECT_EQ(packet.direction, Passage::Direction::received);
    EXPECT_EQ(packet.queue, rq.number);
    EXPECT_TRUE(std::ranges::equal(packet.frame, frames::view(frame)));
    EXPECT_EQ(packet.verdict, fmt::format("delivered to RQ {} (WQE 0)", rq.number));
    const std::string way = text(packet);
    EXPECT_THAT(way,
                StartsWith(fmt::format("wire: {} bytes: dst_mac=02:15:b3:00:00:01", frame.size())));
    EXPECT_THAT(way, HasSubstr("src_ip=192.0.2.1 dst_ip=192.0.2.2 ip_proto=17"));
    EXPECT_THAT(way, HasSubstr(fmt::format(
                         "rules: bypass, priority 0: rule {} matches: dst_port=2000\n", rule)));
    EXPECT_THAT(way, HasSubstr(fmt::format("actions: to TIR {}\n", tir)));
    EXPECT_THAT(way, HasSubstr(fmt::format("TIR: {} hash of source IP, destination IP: {:#x}; "
                                           "entry {} of 2 in RQT {}: RQ {}\n",
                                           tir, hash, hash & 1, rqt, rq.number)));
    EXPECT_THAT(way, HasSubstr(fmt::format("RQ: {}: {} bytes into WQE 0; CQE in CQ {}\n", rq.number,
                                           frame.size(), rx_cq.number)));
}

TEST_F(TraceTest, ADefaultMiss) {
    FlowAttr flow;
    flow.default_miss = true;
    const Number rule = *device->create_flow(flow);
    steer_all(rq, FlowDomain::leftovers);
    post_buffers(rq, 1);
    receive(frames::build(frames::Spec{}));
    const Passage packet = the_packet();
    EXPECT_EQ(packet.verdict, fmt::format("delivered to RQ {} (WQE 0)", rq.number));
    EXPECT_THAT(text(packet),
                HasSubstr(fmt::format("rules: bypass, priority 0: rule {} matches", rule)));
    EXPECT_THAT(text(packet),
                HasSubstr("actions: default miss: on to what comes after the rules\n"));
    EXPECT_EQ(device->dump().at("rules").at(0).at("default_miss"), true);
}

TEST_F(TraceTest, SegmentsThatAreCoalesced) {
    TirAttr attr;
    attr.rqn = rq.number;
    attr.lro = {.ipv4 = true, .timeout_ns = UINT32_MAX, .max_bytes = 8192};
    FlowAttr flow;
    flow.tirs = {*device->create_tir(attr)};
    (void)*device->create_flow(flow);
    rq.post({{lkey, memory_at(0), 8192}});
    post_buffer(rq);
    frames::Spec segment{.proto = frames::kTcp, .payload = frames::pattern(1400)};
    wire->incoming.push_back(frames::build(segment));
    segment.sequence += 1400;
    wire->incoming.push_back(frames::build(segment));
    wire->incoming.push_back(frames::build({}));
    run();
    ASSERT_EQ(collector.passages.size(), 3u);
    EXPECT_EQ(collector.passages[1].verdict,
              fmt::format("delivered to RQ {} (WQE 0, LRO segment 2)", rq.number));
    EXPECT_THAT(
        text(collector.passages[1]),
        HasSubstr(fmt::format("LRO: segment 2 of a session in WQE 0 of RQ {}, which has 2854 "
                              "bytes with it\n",
                              rq.number)));
    EXPECT_THAT(text(collector.passages[2]),
                HasSubstr(fmt::format("LRO: RQ {} has a session of 2 segments, which this packet "
                                      "ends\n",
                                      rq.number)));
}

TEST_F(TraceTest, WhatIsWrongAboutAPacket) {
    constexpr size_t kIp = 14, kIpSum = kIp + 10, kIpLength = kIp + 2, kUdpSum = kIp + 20 + 6;
    const auto wrong_of = [&](const Bytes& frame) {
        receive(frame);
        for (const auto& [where, what] : the_packet().steps)
            if (where == std::string_view("wrong")) return what;
        return std::string("nothing");
    };
    const Bytes good = frames::build({});
    EXPECT_EQ(wrong_of(good), "nothing");
    Bytes bad = good;
    bad[kIpSum] ^= 1;
    EXPECT_EQ(wrong_of(bad), "IPv4 checksum");
    bad[kUdpSum] ^= 1;
    EXPECT_EQ(wrong_of(bad), "IPv4 checksum, UDP checksum");
    EXPECT_EQ(wrong_of(frames::vxlan(1, bad, true)),
              "IPv4 checksum in the tunnel, UDP checksum in the tunnel");
    bad = good;
    bad[kIpLength] = 0xff;
    EXPECT_EQ(wrong_of(bad), "IP length");
    EXPECT_EQ(wrong_of(frames::build({.udp_checksum = false})), "nothing");
    EXPECT_EQ(wrong_of(frames::build({.fragment = 0x2000})), "nothing") << "nobody can tell";
    EXPECT_EQ(wrong_of(frames::build({.ip = 0})), "nothing");
    bad = frames::build({.proto = frames::kTcp});
    bad.back() ^= 1;
    EXPECT_EQ(wrong_of(bad), "TCP checksum");
}

TEST_F(TraceTest, AMissByOneBitSaysWhichField) {
    const Number near = steer_port(2001, direct_tir(rq));
    steer_port(0x8000, direct_tir(rq));
    receive(frames::build(frames::Spec{}));
    const Passage packet = the_packet();
    EXPECT_THAT(packet.verdict, StartsWith("drop_no_match"));
    EXPECT_THAT(text(packet), HasSubstr(fmt::format("none of 2 matches; nearest is rule {}: "
                                                    "dst_port is 2000, not 2001\n",
                                                    near)));
    EXPECT_EQ(device->counters().drop_no_match, 1u);
}

TEST_F(TraceTest, NumbersOfTcpAreFieldsAndReasonsForAMiss) {
    FlowAttr flow;
    flow.mask.outer.tcp_sequence = flow.mask.outer.tcp_ack = ~0u;
    flow.value.outer.tcp_sequence = 0x1234;
    flow.value.outer.tcp_ack = 77;
    flow.tirs = {direct_tir(rq)};
    ASSERT_TRUE(device->create_flow(flow));
    receive(frames::build({.proto = frames::kTcp, .sequence = 0x1235, .ack = 77}));
    const std::string way = text(the_packet());
    EXPECT_THAT(way, HasSubstr(" tcp_sequence=4661 tcp_ack=77"));
    EXPECT_THAT(way, HasSubstr("tcp_sequence is 4661, not 4660\n"));
}

TEST_F(TraceTest, AMissAmongManyRulesSaysHowManyWereLookedAt) {
    FlowAttr flow;
    flow.mask.outer.src_port = 0xffff;
    flow.mask.outer.dst_port = 0xffff;
    flow.tirs = {direct_tir(rq)};
    constexpr uint16_t kMost = 4096;
    for (uint16_t n = 0; n <= kMost; ++n) {
        flow.value.outer.src_port = n;
        ASSERT_TRUE(device->create_flow(flow));
    }
    receive(frames::build(frames::Spec{}));
    EXPECT_THAT(text(the_packet()), HasSubstr("none of 4097 matches; nearest of 4096 of them is "));
}

TEST_F(TraceTest, NoDescriptors) {
    steer_all(rq);
    receive(frames::build(frames::Spec{}));
    const Passage packet = the_packet();
    EXPECT_EQ(packet.queue, rq.number);
    EXPECT_THAT(packet.verdict, StartsWith("drop_out_of_buffer"));
    EXPECT_THAT(text(packet), HasSubstr(fmt::format("RQ: {} has no WQE", rq.number)));
}

TEST_F(TraceTest, WhatDropsBeforeRulesAndAFaultyWqe) {
    receive(Bytes(9));
    EXPECT_THAT(the_packet().verdict, StartsWith("drop_undersize"));
    receive(Bytes(5000));
    EXPECT_THAT(the_packet().verdict, StartsWith("drop_oversize"));
    steer_all(rq);
    rq.post({{lkey ^ 0x100, memory_at(0), kRoom}});
    receive(frames::build(frames::Spec{}));
    const Passage packet = the_packet();
    EXPECT_THAT(packet.verdict, StartsWith("drop_rx_error"));
    EXPECT_THAT(text(packet), HasSubstr("fails (lkey unknown"));
    receive(frames::build(frames::Spec{}));
    EXPECT_THAT(text(the_packet()), HasSubstr("is in state error"));
}

TEST_F(TraceTest, FlowTables) {
    FlowKey udp;
    udp.outer.ip_proto = 0xff;
    const Number root = *device->create_flow_table({.level = 0, .log_size = 2});
    const Number next = *device->create_flow_table({.level = 1, .log_size = 2});
    const Number group = *device->create_flow_group(root, {.first = 0, .last = 1, .mask = udp});
    const Number all = *device->create_flow_group(next, {.first = 0, .last = 0, .mask = {}});
    udp.outer.ip_proto = 6;
    ASSERT_TRUE(device->set_flow_entry(root, 1, {.group = group, .value = udp, .drop = true}));
    ASSERT_TRUE(device->set_flow_table_miss(root, next));
    const Number edits =
        *device->create_header_edits({{HeaderEdit::Kind::set, {EditField::ipv4_ttl, 0, 8}, {}, 9}});
    ASSERT_TRUE(device->set_flow_entry(
        next, 0,
        {.group = all, .tag = 0x77, .tirs = {direct_tir(rq)}, .rewrite = {.edits = edits}}));
    ASSERT_TRUE(device->set_flow_table_root(root));
    post_buffers(rq, 1);
    receive(frames::build(frames::Spec{}));
    const std::string way = text(the_packet());
    EXPECT_THAT(way, HasSubstr(fmt::format("table: {} (level 0), group {}: entry 1 misses: "
                                           "ip_proto is 17, not 6\n",
                                           root, group)));
    EXPECT_THAT(way, HasSubstr(fmt::format("table: {} has no entry for it: goes to table {}\n",
                                           root, next)));
    EXPECT_THAT(way, HasSubstr(fmt::format("table: {} (level 1), group {}: entry 0 matches: "
                                           "any packet\n",
                                           next, all)));
    EXPECT_THAT(way, HasSubstr(fmt::format("actions: tag 0x77, header edits {}, to TIR", edits)));
    EXPECT_THAT(way, HasSubstr("ttl=9 "));
}

TEST_F(TraceTest, APacketThatIsSent) {
    const Bytes frame = frames::build(frames::Spec{});
    send(Wqe(mlx5::WqeOpcode::send)
             .eth(mlx5::kCsL4)
             .data(lkey, put(0, frame), static_cast<uint32_t>(frame.size())));
    const Passage packet = the_packet();
    EXPECT_EQ(packet.direction, Passage::Direction::sent);
    EXPECT_EQ(packet.queue, sq.number);
    EXPECT_EQ(packet.verdict, "sent");
    const std::string way = text(packet);
    EXPECT_THAT(way, StartsWith(fmt::format(
                         "SQ: WQE 0 of SQ {} asks for one packet, L4 checksum; this is number 1\n",
                         sq.number)));
    EXPECT_THAT(way, HasSubstr("wire: leaves\n"));
    EXPECT_THAT(way, HasSubstr(fmt::format("CQ: CQE for WQE 0 in CQ {}\n", tx_cq.number)));
}

TEST_F(TraceTest, AFaultySendWqe) {
    send(Wqe(mlx5::WqeOpcode::send).eth().data(lkey ^ 0x100, memory_at(0), 60));
    const Passage packet = the_packet();
    EXPECT_TRUE(packet.frame.empty());
    EXPECT_EQ(packet.verdict,
              fmt::format("WQE 0 of SQ {} fails (lkey unknown, of another PD, or range not "
                          "covered): error CQE local_protection in CQ {}",
                          sq.number, tx_cq.number));
}

TEST_F(TraceTest, ABusyWireIsNotToldOf) {
    wire->room = 0;
    send(Wqe(mlx5::WqeOpcode::send).eth().data(lkey, put(0, Bytes(60)), 60));
    EXPECT_TRUE(collector.passages.empty());
    wire->room = 1;
    run();
    EXPECT_EQ(the_packet().verdict, "sent");
}

TEST_F(TraceTest, ALoopedPacketIsTwo) {
    device->set_loopback({.unicast = true, .multicast = true});
    steer_all(rq);
    post_buffers(rq, 1);
    frames::Spec spec;
    spec.dst.fill(0xff);
    const Bytes frame = frames::build(spec);
    TestSq other(*device, pd, tx_cq.number, 5, &listener, false, kKernelDomain + 1);
    const auto send_it = [&] {
        other.post(Wqe(mlx5::WqeOpcode::send)
                       .eth()
                       .data(lkey, put(0, frame), static_cast<uint32_t>(frame.size())));
        other.ring_doorbell();
        run();
    };
    send_it();
    ASSERT_EQ(collector.passages.size(), 2u);
    EXPECT_THAT(text(collector.passages[0]), StartsWith("loopback: "));
    EXPECT_THAT(collector.passages[0].verdict, StartsWith("delivered"));
    EXPECT_EQ(collector.passages[1].verdict, "sent");
    EXPECT_THAT(text(collector.passages[1]), HasSubstr("loopback: the port receives it, too\n"));

    send_it();
    ASSERT_EQ(collector.passages.size(), 4u);
    EXPECT_THAT(collector.passages[2].verdict, StartsWith("drop_out_of_buffer"));
    EXPECT_EQ(collector.passages[3].verdict, "sent") << "only what came back was dropped";
}

TEST_F(TraceTest, APacketForTwoQueuesIsOfTheFirst) {
    TestRq second(*device, pd, rx_cq.number, {.listener = &listener});
    FlowAttr flow;
    flow.tirs = {direct_tir(rq), direct_tir(second)};
    (void)*device->create_flow(flow);
    post_buffers(rq, 1);
    second.post({{lkey, memory_at(8192), 2048}});
    receive(frames::build({}));
    const Passage packet = the_packet();
    EXPECT_EQ(packet.queue, rq.number);
    EXPECT_EQ(packet.verdict, fmt::format("delivered to RQ {} (WQE 0); delivered to RQ {} (WQE 0)",
                                          rq.number, second.number));
}

TEST_F(TraceTest, StridesThatAPacketTakes) {
    TestRq striding(*device, pd, rx_cq.number,
                    {.log_wqes = 2,
                     .log_wqe_bytes = 5,
                     .striding = StridingAttr{.log_strides = 4, .log_stride_bytes = 7},
                     .listener = &listener});
    steer_all(striding);
    striding.post({{lkey, memory_at(0), 2048}});
    receive(frames::pattern(257));
    EXPECT_EQ(the_packet().verdict,
              fmt::format("delivered to RQ {} (WQE 0, strides 0 to 2)", striding.number));
}

TEST_F(TraceTest, RulesForWhatIsSent) {
    FlowAttr drop;
    drop.domain = FlowDomain::egress;
    drop.drop = true;
    ASSERT_TRUE(device->create_flow(drop));
    const Bytes frame = frames::build(frames::Spec{});
    send(Wqe(mlx5::WqeOpcode::send)
             .eth()
             .data(lkey, put(0, frame), static_cast<uint32_t>(frame.size())));
    const Passage packet = the_packet();
    EXPECT_THAT(packet.verdict, StartsWith("drop_tx_rule"));
    EXPECT_THAT(text(packet), HasSubstr("rules: egress, priority 0: rule "));
}

class KernelTraceTest : public Testbed {
  protected:
    KernelTraceTest() : Testbed(default_config(), true) {}
};

TEST_F(KernelTraceTest, TheNetdevBesideThePort) {
    Collector collector(true);
    device->add_observer(collector);
    wire->incoming.push_back(frames::build(frames::Spec{}));
    kernel->incoming.push_back(frames::build(frames::Spec{}));
    run();
    device->remove_observer(collector);
    ASSERT_EQ(collector.passages.size(), 2u);
    const Passage& sent = collector.passages[0];
    EXPECT_EQ(sent.steps[0].where, std::string("kernel"));
    EXPECT_EQ(sent.verdict, "sent");
    EXPECT_EQ(sent.queue, 0u);
    EXPECT_EQ(collector.passages[1].verdict, "to the kernel netdev");
}

TEST_F(TraceTest, ObserversComeAndGo) {
    Collector brief(false);
    device->add_observer(brief);
    steer_all(rq);
    post_buffers(rq, 3);
    receive(frames::build(frames::Spec{}));
    device->remove_observer(collector);
    receive(frames::build(frames::Spec{}));
    device->remove_observer(brief);
    receive(frames::build(frames::Spec{}));
    EXPECT_EQ(collector.passages.size(), 1u);
    ASSERT_EQ(brief.passages.size(), 2u);
    EXPECT_THAT(brief.passages[1].verdict, StartsWith("delivered to RQ"));
    EXPECT_TRUE(brief.passages[1].steps.empty()) << "nobody wants them any more";
    EXPECT_EQ(device->counters().delivered, 3u);
    device->add_observer(collector);
}

} // namespace
