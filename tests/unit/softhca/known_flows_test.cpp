// SPDX-License-Identifier: BSD-3-Clause
// Packets of known flows take a short path, in batches, into buffers that were looked up in
// advance. None of this must show.
#include "app/softhca/core/packet.hpp"
#include "common/net/copy.hpp"
#include "common/net/parse.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>
#include <random>

namespace testbed {
namespace {

using frames::Spec;
using mlx5::CqeSyndrome;
using softhca::core::ChecksumVerdict;
using softhca::core::Frame;
using softhca::core::verify_plain;

constexpr size_t kPage = 4096;

/// A frame from that port; the number determines its `payload` bytes.
Bytes frame_of(uint16_t src_port, uint8_t number, size_t payload = 32) {
    Spec spec;
    spec.src_port = src_port;
    spec.payload = Bytes(payload, number);
    return frames::padded(frames::build(spec)); // as wires deliver it
}

class KnownFlows : public Testbed {
  protected:
    KnownFlows() : flow(steer_all(rq)) {}
    /// Makes the device know the flow.
    void learn(uint16_t src_port) {
        post_buffer(rq);
        wire->incoming.push_back(frame_of(src_port, 0));
        run();
        (void)expect_packet(rx_cq);
        rx_cq.release();
    }
    /// That many frames of one flow, with different payloads.
    void arrive(uint8_t count) {
        for (uint8_t i = 0; i < count; i++)
            wire->incoming.push_back(frame_of(1, i));
    }
    void expect_fault(CqeSyndrome syndrome) {
        const mlx5::ErrorCqe* const cqe = rx_cq.poll_error(mlx5::CqeOpcode::resp_error);
        ASSERT_NE(cqe, nullptr);
        EXPECT_EQ(cqe->syndrome, static_cast<uint8_t>(syndrome));
    }

    Number flow;
};

TEST_F(KnownFlows, KnownAndNewOnesKeepTheirOrder) {
    learn(1);
    std::mt19937 random(1);
    uint16_t next = 2;
    for (int round = 0; round < 50; round++) {
        const size_t count = 1 + random() % 40;
        post_buffers(rq, count);
        for (size_t i = 0; i < count; i++) {
            const bool fresh = random() % 4 == 0;
            wire->incoming.push_back(frame_of(fresh ? next++ : static_cast<uint16_t>(1),
                                              static_cast<uint8_t>(i), random() % 100));
        }
        const std::deque<Bytes> expected = wire->incoming;
        run();
        for (const Bytes& frame : expected) {
            EXPECT_EQ(packet_of(expect_packet(rx_cq)), frame);
            rx_cq.release();
        }
    }
}

TEST_F(KnownFlows, SizesPrioritiesAndGroupsAreCounted) {
    Spec spec;
    spec.tags = {{0x8100, 6 << 13 | 1}};
    spec.payload.resize(200);
    const Bytes tagged = frames::build(spec);
    spec.tags.clear();
    spec.dst = {0x33, 0x33, 0, 0, 0, 1};
    const Bytes group = frames::build(spec), small = frame_of(1, 0, 10);
    for (int round = 0; round < 2; round++) { // new flows, then known ones
        for (const Bytes& frame : {tagged, group, small, tagged, small, small}) {
            post_buffer(rq);
            wire->incoming.push_back(frame);
        }
        run();
    }
    const FrameCounters kinds = device->frame_counters();
    EXPECT_EQ(kinds.rx_sizes[0], 6u);
    EXPECT_EQ(kinds.rx_sizes[1], 0u);
    EXPECT_EQ(kinds.rx_sizes[2], 6u);
    EXPECT_EQ(kinds.rx_priorities[6].packets, 4u);
    EXPECT_EQ(kinds.rx_priorities[6].bytes, 4 * tagged.size());
    EXPECT_EQ(kinds.rx_priorities[0].packets, 8u);
    EXPECT_EQ(device->group_counters().rx_multicast.packets, 2u);
    EXPECT_EQ(device->counters().wire_rx_bytes,
              4 * tagged.size() + 2 * group.size() + 6 * small.size());
}

/// Whether a datagram to such a port is a tunnel is up to its bytes, which its flow does not tell.
TEST_F(KnownFlows, PortsOfTunnelsAreLookedAtInEachPacket) {
    constexpr uint16_t kPort = 8472;
    constexpr size_t kVxlanFlags = 42;
    ASSERT_TRUE(device->destroy_flow(flow));
    TirAttr tir;
    tir.rqn = rq.number;
    tir.tunnels = true;
    FlowAttr attr;
    attr.tirs = {*device->create_tir(tir)};
    ASSERT_TRUE(device->create_flow(attr));
    const Bytes tunnel = frames::vxlan(5, frames::build(Spec{}), false, kPort);
    Bytes data = tunnel;
    data[kVxlanFlags] = 0;
    for (const bool known : {false, true}) {
        device->set_vxlan_ports({{static_cast<uint16_t>(known ? kPort : 0)}});
        for (const Bytes& frame : {data, data, tunnel, tunnel, data}) {
            post_buffer(rq);
            wire->incoming.push_back(frame);
            run();
            EXPECT_EQ(expect_packet(rx_cq).packet_info,
                      known && frame == tunnel ? mlx5::kTunnelled : 0);
            rx_cq.release();
        }
    }
}

TEST_F(KnownFlows, EachOfABatchComesToTheQueueOfItsFlow) {
    constexpr uint16_t kFlows = 6;
    TestCq other_cq(*device, 8);
    TestRq other(*device, pd, other_cq.number);
    ASSERT_TRUE(device->destroy_flow(flow));
    for (uint16_t port = 1; port <= kFlows; port++) {
        FlowAttr attr;
        attr.mask.outer.src_port = 0xffff;
        attr.value.outer.src_port = port;
        attr.tirs = {direct_tir(port % 2 ? rq : other)};
        ASSERT_TRUE(device->create_flow(attr));
    }
    std::mt19937 random(1);
    for (int round = 0; round < 20; round++) {
        std::deque<Bytes> expected[2];
        for (uint8_t i = 0; i < 32; i++) {
            const auto port = static_cast<uint16_t>(1 + random() % kFlows);
            wire->incoming.push_back(frame_of(port, i));
            expected[port % 2].push_back(wire->incoming.back());
        }
        post_buffers(rq, expected[1].size());
        for (size_t i = 0; i < expected[0].size(); i++)
            other.post({{lkey, memory_at((64 + i) * kRoom), kRoom}});
        run();
        for (size_t i = 0; i < expected[1].size(); i++, rx_cq.release())
            EXPECT_EQ(packet_of(expect_packet(rx_cq)), expected[1][i]);
        for (size_t i = 0; i < expected[0].size(); i++, other_cq.release()) {
            (void)expect_packet(other_cq);
            EXPECT_EQ(get(memory.data() + (64 + i) * kRoom, expected[0][i].size()), expected[0][i]);
        }
    }
}

TEST_F(KnownFlows, AKeyThatIsGoneIsGoneForBuffersLookedUpBefore) {
    const Pages other(kPage);
    const uint32_t key = make_key(*device, pd, other, true);
    learn(1);
    post_buffer(rq);
    for (int i = 0; i < 4; i++)
        rq.post({{key, other.data(), kRoom}});
    wire->incoming.push_back(frame_of(1, 1));
    run();
    (void)expect_packet(rx_cq);
    rx_cq.release();
    ASSERT_TRUE(device->destroy_mkey(key));
    wire->incoming.push_back(frame_of(1, 2));
    run();
    expect_fault(CqeSyndrome::local_protection);
    EXPECT_TRUE(std::all_of(other.data(), other.data() + kPage,
                            [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_F(KnownFlows, BuffersInTwoPiecesAndListsOfThemAreFilled) {
    TestRq lists(*device, pd, rx_cq.number, {.log_wqe_bytes = 5});
    ASSERT_TRUE(device->destroy_flow(flow));
    steer_all(lists);
    const Bytes frame = frame_of(1, 7, 100);
    const auto half = static_cast<uint32_t>(frame.size() / 2);
    for (int i = 0; i < 3; i++) { // the flow is known from the second one on
        std::memset(memory.data(), 0, 2 * kPage);
        lists.post({{lkey, memory_at(0), half}, {lkey, memory_at(kPage), kRoom}});
        wire->incoming.push_back(frame);
        run();
        (void)expect_packet(rx_cq);
        rx_cq.release();
        Bytes seen = get(memory.data(), half);
        std::ranges::copy(get(memory.data() + kPage, frame.size() - half),
                          std::back_inserter(seen));
        EXPECT_EQ(seen, frame);
    }
    lists.post({{lkey, memory_at(0), half}, {lkey, memory_at(kPage), half - 1}});
    wire->incoming.push_back(frame);
    run();
    expect_fault(CqeSyndrome::local_length);
}

TEST_F(KnownFlows, ABatchIsHeldWhereTheBuffersEnd) {
    device->set_pause(true);
    learn(1);
    post_buffers(rq, 3);
    arrive(5);
    run();
    EXPECT_EQ(wire->incoming.size(), 2u);
    post_buffers(rq, 2);
    run();
    for (uint8_t i = 0; i < 5; i++) {
        EXPECT_EQ(packet_of(expect_packet(rx_cq)), frame_of(1, i));
        rx_cq.release();
    }
    EXPECT_EQ(device->counters().drop_out_of_buffer, 0u);
}

TEST_F(KnownFlows, WithoutPauseTheRestOfABatchIsDropped) {
    learn(1);
    post_buffers(rq, 3);
    arrive(5);
    run();
    EXPECT_TRUE(wire->incoming.empty());
    EXPECT_EQ(device->counters().delivered, 4u);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 2u);
}

TEST_F(KnownFlows, OverrunOfTheCqInABatch) {
    TestCq small(*device, 2);
    TestRq other(*device, pd, small.number);
    ASSERT_TRUE(device->destroy_flow(flow));
    steer_all(other);
    post_buffers(other, 8);
    arrive(7);
    run();
    EXPECT_TRUE(wire->incoming.empty());
    EXPECT_EQ(device->counters().delivered, 4u);
    EXPECT_EQ(device->counters().drop_out_of_buffer, 1u);
    EXPECT_EQ(device->counters().drop_queue_not_ready, 2u);
    EXPECT_EQ(*device->query_rq(other.number), QueueState::error);
}

TEST_F(KnownFlows, TagsAreStrippedFromEachPacket) {
    TestRq stripping(*device, pd, rx_cq.number, {.vlan_strip = true});
    ASSERT_TRUE(device->destroy_flow(flow));
    steer_all(stripping);
    Spec spec;
    spec.tags = {{0x8100, 0x123}};
    const Bytes frame = frames::build(spec);
    for (int i = 0; i < 3; i++) {
        post_buffer(stripping);
        wire->incoming.push_back(frame);
        run();
        const mlx5::Cqe& cqe = expect_packet(rx_cq);
        EXPECT_EQ(cqe.byte_count, frame.size() - 4) << i;
        EXPECT_EQ(cqe.vlan_info, 0x123) << i;
        rx_cq.release();
    }
}

// The independent reference is Frame::verify(), which knows all headers.
TEST(VerifyPlain, SaysWhatTheGeneralWaySays) {
    std::mt19937 random(1);
    for (int i = 0; i < 20000; i++) {
        Spec spec = random() % 2 ? Spec{} : frames::ipv6_spec();
        if (random() % 2) spec.proto = frames::kTcp;
        if (random() % 2) spec.tags = {{0x8100, 5}};
        spec.udp_checksum = random() % 4 != 0;
        spec.payload.resize(random() % (random() % 8 ? 90 : 1400));
        std::ranges::generate(spec.payload, random);
        Bytes frame = frames::padded(frames::build(spec));
        const auto bytes = static_cast<uint32_t>(frame.size());
        const net::Headers before = net::parse(frames::view(frame), bytes);
        if (spec.proto == frames::kUdp && random() % 2) { // its length: also wrong, short or odd
            frame[before.l4 + 4] = static_cast<uint8_t>(random() % 8 == 0);
            frame[before.l4 + 5] = static_cast<uint8_t>(random());
        }
        if (random() % 4 == 0)
            frame[before.l3 + 8 + random() % (bytes - before.l3 - 8)] ^=
                static_cast<uint8_t>(1 << random() % 8);
        const net::Headers headers = net::parse(frames::view(frame), bytes);
        if (headers.l4 != before.l4 || headers.fragment || !headers.length_ok) continue;
        const iovec whole{frame.data(), frame.size()};
        const ChecksumVerdict expected = Frame(whole, headers, nullptr).verify(headers);
        const bool ipv6 = headers.ip_version == 6, tcp = headers.ip_proto == frames::kTcp;
        const auto verify = ipv6  ? tcp ? verify_plain<true, true> : verify_plain<true, false>
                             : tcp ? verify_plain<false, true>
                                  : verify_plain<false, false>;
        const ChecksumVerdict seen =
            verify(reinterpret_cast<const std::byte*>(frame.data()) + headers.l3, headers.ip_bytes);
        ASSERT_EQ(seen.l3_ok, expected.l3_ok) << i;
        ASSERT_EQ(seen.l4_ok, expected.l4_ok) << i;
        ASSERT_EQ(seen.l3_sum, expected.l3_sum) << i;
    }
}

TEST(CopyPacket, EachLength) {
    std::array<std::byte, 300> from, to;
    for (size_t i = 0; i < from.size(); i++)
        from[i] = static_cast<std::byte>(i + 1);
    for (uint32_t bytes = 0; bytes < 256; bytes++) {
        to.fill(std::byte{0});
        net::copy_packet(to.data() + 1, from.data() + 3, bytes);
        ASSERT_EQ(std::memcmp(to.data() + 1, from.data() + 3, bytes), 0) << bytes;
        ASSERT_EQ(to[0], std::byte{0});
        ASSERT_EQ(to[bytes + 1], std::byte{0}) << bytes;
    }
}

} // namespace
} // namespace testbed
