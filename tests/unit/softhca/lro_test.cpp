// SPDX-License-Identifier: BSD-3-Clause
// Large receive offload: what is coalesced, and what a session's completion reports.
#include "tests/unit/softhca/lro.hpp"

namespace testbed {
namespace {

INSTANTIATE_TEST_SUITE_P(Rings, Lro, testing::Values(LroKind::cyclic, LroKind::striding),
                         [](const auto& info) {
                             return info.param == LroKind::cyclic ? "Cyclic" : "Striding";
                         });

TEST_P(Lro, SegmentsBecomeOnePacket) {
    steer();
    post(2);
    std::vector<Spec> specs;
    for (uint32_t i = 0; i < 5; i++) {
        specs.push_back(segment(i));
        specs.back().ttl = static_cast<uint8_t>(64 - i % 3);
        specs.back().ip_id = static_cast<uint16_t>(100 + i);
        specs.back().ack = 1000 * i;
        specs.back().window = static_cast<uint16_t>(500 + i);
        arrive(specs.back());
    }
    deliver();
    EXPECT_EQ(rx_cq.poll(), nullptr) << "the session is over before anything ended it";
    EXPECT_EQ(device->counters().delivered, 0u);
    end();
    expect_coalesced(specs);
    expect_alone(udp);
    EXPECT_EQ(device->counters().delivered, 6u);
    EXPECT_EQ(device->rq_counters(queue.number)->cqes, 2u);
}

TEST_P(Lro, OddPayloadsAndIpv6BehindTags) {
    steer();
    post(2);
    Spec first = segment(0, 1401), second = segment(1, 1403);
    for (Spec* spec : {&first, &second}) {
        const Spec ipv6 = frames::ipv6_spec();
        spec->ip = 6;
        spec->src_ip = ipv6.src_ip;
        spec->dst_ip = ipv6.dst_ip;
        spec->flow_label = 0x12345;
        spec->tags = {{0x88a8, 5}, {0x8100, 7}};
    }
    device->set_mtu(1600);
    second.sequence = first.sequence + 1401;
    second.ttl = 3;
    arrive(first);
    arrive(second);
    end();
    expect_coalesced({first, second}, 22);
}

TEST_P(Lro, PushEndsASessionAtOnce) {
    steer();
    post(2);
    Spec last = segment(2);
    last.tcp_flags |= frames::kPsh;
    const std::vector<Spec> specs = {segment(0), segment(1), last};
    for (const Spec& spec : specs)
        arrive(spec);
    deliver();
    expect_coalesced(specs);
}

TEST_P(Lro, OneSegmentIsAPacketLikeAnyOther) {
    steer();
    post(2);
    Spec only = segment(0);
    only.tcp_flags |= frames::kPsh;
    arrive(only);
    deliver();
    const mlx5::Cqe& cqe = expect_segments(0);
    const Bytes frame = frames::build(only);
    EXPECT_EQ(in_memory(cqe), frame);
    EXPECT_EQ(cqe.check_sum,
              static_cast<uint16_t>(~frames::slow_checksum({frame.begin() + 14, frame.end()})));
}

TEST_P(Lro, TimeStampsThatAreTheSame) {
    steer();
    post(3);
    std::vector<Spec> specs = {segment(0), segment(1), segment(2)};
    for (Spec& spec : specs)
        spec.tcp_options = {1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2};
    specs[2].tcp_options[7] = 9;
    for (const Spec& spec : specs)
        arrive(spec);
    end();
    expect_coalesced({specs[0], specs[1]});
    expect_alone(specs[2]);
}

TEST_P(Lro, OtherOptions) {
    steer();
    post(3);
    std::vector<Spec> specs = {segment(0), segment(1)};
    for (Spec& spec : specs) {
        spec.tcp_options = {1, 1, 4, 2};
        arrive(spec);
    }
    deliver();
    expect_alone(specs[0]);
    expect_alone(specs[1]);
}

TEST_P(Lro, FcsIsNotCoalesced) {
    RqOptions options = options_of(GetParam(), &listener);
    options.scatter_fcs = true;
    TestRq with_fcs(*device, pd, rx_cq.number, options);
    (void)device->create_flow(to(direct_tir(with_fcs, kIpv4Lro))).value();
    for (int i = 0; i < 2; i++)
        with_fcs.post({{lkey, memory_at(0), kWqeRoom}});
    arrive(segment(0));
    arrive(segment(1));
    deliver();
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(bytes_of(expect_segments(0)), 54 + kMss + 4);
}

TEST_P(Lro, StrippedTag) {
    ASSERT_TRUE(device->modify_rq_vlan_strip(queue.number, true));
    steer();
    post(2);
    Spec first = segment(0), second = segment(1);
    first.tags = second.tags = {{0x8100, 77}};
    arrive(first);
    arrive(second);
    end();
    const mlx5::Cqe& cqe = expect_segments(2);
    EXPECT_EQ(cqe.vlan_info, 77u);
    EXPECT_NE(cqe.l4_l3_type & mlx5::kVlanStripped, 0);
    Spec whole = segment(0);
    whole.payload.insert(whole.payload.end(), second.payload.begin(), second.payload.end());
    EXPECT_EQ(with_completed_headers(in_memory(cqe), cqe, 14, 4), frames::build(whole));
}

} // namespace
} // namespace testbed
