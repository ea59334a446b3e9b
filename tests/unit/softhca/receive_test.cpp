// SPDX-License-Identifier: BSD-3-Clause
// Placement in receive queues, and what the CQEs report about the packets.
#include "common/net/checksum.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>

namespace testbed {
namespace {

using frames::Spec;

class Receive : public Testbed {
  protected:
    Receive() : flow_(steer_all(rq)) {}
    [[nodiscard]] Number catch_all_flow() const { return flow_; }
    const mlx5::Cqe& receive(const Bytes& frame) {
        post_buffer(rq);
        wire->incoming.push_back(frame);
        run();
        const mlx5::Cqe& cqe = expect_packet(rx_cq);
        rx_cq.release();
        return cqe;
    }
    static int l3_type(const mlx5::Cqe& cqe) { return cqe.l4_l3_type >> 2 & 3; }
    static int l4_type(const mlx5::Cqe& cqe) { return cqe.l4_l3_type >> 4 & 7; }
    static uint8_t ok_bits(const mlx5::Cqe& cqe) {
        return cqe.hds_ip_ext & (mlx5::kL3Ok | mlx5::kL4Ok);
    }

  private:
    Number flow_;
};

TEST_F(Receive, OnePacket) {
    const Bytes frame = frames::build(Spec{});
    const mlx5::Cqe& cqe = receive(frame);
    EXPECT_EQ(packet_of(cqe), frame);
    EXPECT_EQ(cqe.byte_count, frame.size());
    EXPECT_EQ(cqe.wqe_counter, 0);
    EXPECT_EQ(cqe.srqn_uidx, 0xa5u);
    EXPECT_NE(cqe.timestamp, 0u);
    EXPECT_EQ(cqe.sop_drop_qpn & 0xffffff, 0u);
    EXPECT_EQ(cqe.rx_hash_type, 0);
    const PortCounters counters = device->counters();
    EXPECT_EQ(counters.wire_rx_packets, 1u);
    EXPECT_EQ(counters.wire_rx_bytes, frame.size());
    EXPECT_EQ(counters.delivered, 1u);
    EXPECT_EQ(device->rq_counters(rq.number)->packets, 1u);
}

TEST_F(Receive, TypesAndVerifiedChecksums) {
    using L3 = mlx5::CqeL3;
    using L4 = mlx5::CqeL4;
    const auto check = [&](const Spec& spec, L3 l3, L4 l4, uint8_t ok) {
        const mlx5::Cqe& cqe = receive(frames::padded(frames::build(spec)));
        EXPECT_EQ(l3_type(cqe), static_cast<int>(l3));
        EXPECT_EQ(l4_type(cqe), static_cast<int>(l4));
        EXPECT_EQ(ok_bits(cqe), ok);
        EXPECT_EQ(cqe.hds_ip_ext & mlx5::kL2Ok, mlx5::kL2Ok);
        EXPECT_EQ((cqe.l4_l3_type & mlx5::kIpFragment) != 0,
                  spec.ip == 4 && (spec.fragment & 0x3fff));
    };
    constexpr uint8_t kBoth = mlx5::kL3Ok | mlx5::kL4Ok;
    for (const bool v6 : {false, true}) {
        Spec spec = v6 ? frames::ipv6_spec() : Spec{};
        const L3 l3 = v6 ? L3::ipv6 : L3::ipv4;
        check(spec, l3, L4::udp, kBoth);
        spec.payload = frames::pattern(1); // odd, and padded after the IP packet
        check(spec, l3, L4::udp, kBoth);
        spec.proto = frames::kTcp;
        check(spec, l3, L4::tcp_ack_data, kBoth);
        spec.payload.clear();
        check(spec, l3, L4::tcp_ack, kBoth);
        spec.tcp_flags = frames::kSyn;
        check(spec, l3, L4::tcp_no_ack, kBoth);
        spec.proto = 1; // no L4 that the device knows
        spec.payload = frames::pattern(20);
        check(spec, l3, L4::none, mlx5::kL3Ok);
    }
    check(Spec{.ip = 0}, L3::none, L4::none, 0);
    check(Spec{.udp_checksum = false}, L3::ipv4, L4::udp, kBoth);
    check(Spec{.fragment = 0x2000}, L3::ipv4, L4::none, mlx5::kL3Ok);
    check(Spec{.fragment = 100}, L3::ipv4, L4::none, mlx5::kL3Ok);
    Spec v6_without = frames::ipv6_spec();
    v6_without.udp_checksum = false; // not allowed over IPv6
    check(v6_without, L3::ipv6, L4::udp, mlx5::kL3Ok);
}

TEST_F(Receive, AnyFlippedBitBreaksTheRightChecksum) {
    for (const uint8_t proto : {frames::kTcp, frames::kUdp}) {
        const Bytes frame = frames::build({.proto = proto, .payload = frames::pattern(13)});
        // IPv4 addresses: both checksums; TTL and id: L3 only; ports and payload: L4 only.
        for (const auto& [at, ok] : {std::pair<size_t, uint8_t>{26, 0},
                                     {33, 0},
                                     {22, mlx5::kL4Ok},
                                     {18, mlx5::kL4Ok},
                                     {34, mlx5::kL3Ok},
                                     {37, mlx5::kL3Ok},
                                     {frame.size() - 1, mlx5::kL3Ok}})
            for (int bit = 0; bit < 8; bit++) {
                Bytes broken = frame;
                broken[at] ^= static_cast<uint8_t>(1 << bit);
                ASSERT_EQ(ok_bits(receive(broken)), ok) << at << " " << bit;
            }
    }
}

TEST_F(Receive, LyingIpLengthIsNotOk) {
    Bytes frame = frames::build(Spec{});
    frames::put16(frame, 16, 500);
    EXPECT_EQ(ok_bits(receive(frame)), 0);
}

TEST_F(Receive, BytesBehindUdpDoNoHarm) {
    for (const size_t payload : {20u, 21u}) {
        Bytes frame = frames::build({.payload = frames::pattern(payload)});
        const std::array<uint8_t, 3> surplus = {0xaa, 0x55, 0xaa}; // RFC 9868
        frame.insert(frame.end(), surplus.begin(), surplus.end());
        frames::put16(frame, 16, static_cast<uint16_t>(frame.size() - 14));
        frames::put16(frame, 24, 0);
        frames::put16(frame, 24, frames::slow_checksum({frame.begin() + 14, frame.begin() + 34}));
        const mlx5::Cqe& cqe = receive(frame);
        EXPECT_EQ(ok_bits(cqe), mlx5::kL3Ok | mlx5::kL4Ok);
        const auto sum =
            static_cast<uint16_t>(~frames::slow_checksum({frame.begin() + 14, frame.end()}));
        EXPECT_EQ(cqe.check_sum % 0xffff, sum % 0xffff);
        frame[40] ^= 1; // UDP's checksum
        EXPECT_EQ(ok_bits(receive(frame)), mlx5::kL3Ok);
    }
}

TEST_F(Receive, CheckSumFieldCoversL3WithoutPadding) {
    for (const Spec& spec : {Spec{}, Spec{.tags = {{0x8100, 3}}, .payload = frames::pattern(5)},
                             frames::ipv6_spec(), Spec{.proto = 1, .payload = frames::pattern(31)},
                             Spec{.proto = frames::kTcp, .payload = frames::pattern(3)}}) {
        const Bytes frame = frames::build(spec);
        const Bytes l3(frame.begin() + 14 + 4 * static_cast<ptrdiff_t>(spec.tags.size()),
                       frame.end());
        const auto sum = static_cast<uint16_t>(~frames::slow_checksum(l3));
        EXPECT_EQ(receive(frames::padded(frame, 80)).check_sum % 0xffff, sum % 0xffff);
    }
}

TEST_F(Receive, VlanStripping) {
    Spec spec;
    spec.tags = {{0x8100, 0xf064}}; // with the DEI bit
    const Bytes tagged = frames::build(spec);
    const mlx5::Cqe kept = receive(tagged);
    EXPECT_EQ(packet_of(kept), tagged);
    EXPECT_FALSE(kept.l4_l3_type & mlx5::kVlanStripped);

    ASSERT_TRUE(device->modify_rq_vlan_strip(rq.number, true));
    const mlx5::Cqe stripped = receive(tagged);
    EXPECT_TRUE(stripped.l4_l3_type & mlx5::kVlanStripped);
    EXPECT_EQ(stripped.vlan_info, 0xf064);
    spec.tags.clear();
    EXPECT_EQ(packet_of(stripped), frames::build(spec));
    EXPECT_EQ(ok_bits(stripped), mlx5::kL3Ok | mlx5::kL4Ok);

    EXPECT_FALSE(receive(frames::build(spec)).l4_l3_type & mlx5::kVlanStripped);
    spec.tags = {{0x88a8, 5}, {0x8100, 6}}; // service tags stay
    EXPECT_EQ(packet_of(receive(frames::build(spec))), frames::build(spec));
    spec.tags = {{0x8100, 5}, {0x8100, 6}};
    const mlx5::Cqe outer = receive(frames::build(spec));
    EXPECT_EQ(outer.vlan_info, 5);
    spec.tags = {{0x8100, 6}};
    EXPECT_EQ(packet_of(outer), frames::build(spec));
}

TEST_F(Receive, ScatterWithFcs) {
    TestRq with_fcs(*device, pd, rx_cq.number, {.scatter_fcs = true});
    FlowAttr attr;
    attr.mask.outer.ether_type = 0xffff;
    attr.value.outer.ether_type = 0x88b5;
    attr.tirs = {direct_tir(with_fcs)};
    post_buffer(with_fcs);
    ASSERT_TRUE(device->destroy_flow(catch_all_flow()));
    ASSERT_TRUE(device->create_flow(attr));
    const Bytes frame = frames::padded(frames::build({.ip = 0}));
    wire->incoming.push_back(frame);
    run();
    const mlx5::Cqe& cqe = expect_packet(rx_cq);
    ASSERT_EQ(cqe.byte_count, frame.size() + 4);
    const Bytes all = packet_of(cqe);
    EXPECT_TRUE(std::equal(frame.begin(), frame.end(), all.begin()));
    // A CRC over frame and FCS leaves the well-known residue.
    EXPECT_EQ(net::crc32(0, all.data(), all.size()), 0x2144df1cu);
}

TEST_F(Receive, TheFcsIsThatOfTheWireAlsoWhenTheVlanTagIsStripped) {
    TestRq both(*device, pd, rx_cq.number, {.vlan_strip = true, .scatter_fcs = true});
    ASSERT_TRUE(device->destroy_flow(catch_all_flow()));
    steer_all(both);
    post_buffer(both);
    const Bytes frame = frames::build({.tags = {{0x8100, 5}}, .payload = Bytes(100)});
    wire->incoming.push_back(frame);
    run();
    const mlx5::Cqe& cqe = expect_packet(rx_cq);
    ASSERT_EQ(cqe.byte_count, frame.size()); // four bytes less for the tag, four more for the FCS
    const Bytes got = packet_of(cqe);
    const uint32_t fcs = net::crc32(0, frame.data(), frame.size());
    for (size_t i = 0; i < 4; i++)
        EXPECT_EQ(got[got.size() - 4 + i], uint8_t(fcs >> (8 * i))) << i;
}

TEST_F(Receive, ScatterListOfSeveralSegments) {
    TestRq scattered(*device, pd, rx_cq.number, {.log_wqe_bytes = 6});
    ASSERT_TRUE(device->destroy_flow(catch_all_flow()));
    steer_all(scattered);
    for (const size_t bytes : {60u, 99u, 100u, 101u, 150u, 151u, 650u}) {
        std::fill_n(memory.data(), 2048, std::byte{0xee});
        scattered.post(
            {{lkey, memory_at(0), 100}, {lkey, memory_at(200), 50}, {lkey, memory_at(300), 500}});
        const Bytes frame = frames::pattern(bytes);
        wire->incoming.push_back(frame);
        run();
        const mlx5::Cqe& cqe = expect_packet(rx_cq);
        rx_cq.release();
        EXPECT_EQ(cqe.byte_count, bytes);
        Bytes got = get(memory_at(0), std::min<size_t>(bytes, 100));
        const Bytes second =
            get(memory_at(200), bytes > 100 ? std::min<size_t>(bytes - 100, 50) : 0);
        const Bytes third = get(memory_at(300), bytes > 150 ? bytes - 150 : 0);
        got.insert(got.end(), second.begin(), second.end());
        got.insert(got.end(), third.begin(), third.end());
        EXPECT_EQ(got, frame);
        EXPECT_EQ(get(memory_at(250), 1)[0], 0xee) << "written after a segment";
    }
}

TEST_F(Receive, RingWrapsAndCountersRunOver) {
    for (uint32_t i = 0; i < 70000; i++) {
        post_buffer(rq);
        wire->incoming.push_back(
            frames::padded({static_cast<uint8_t>(i), static_cast<uint8_t>(i >> 8)}));
        if (i % 32 != 31) continue;
        run();
        for (uint32_t packet = i - 31; packet <= i; packet++) {
            const mlx5::Cqe& cqe = expect_packet(rx_cq);
            ASSERT_EQ(cqe.wqe_counter, static_cast<uint16_t>(packet));
            ASSERT_EQ(packet_of(cqe)[0], static_cast<uint8_t>(packet));
        }
        rx_cq.release();
    }
    EXPECT_EQ(device->counters().delivered, 70000u / 32 * 32);
}

TEST_F(Receive, FlowTag) {
    ASSERT_TRUE(device->destroy_flow(catch_all_flow()));
    FlowAttr attr;
    attr.tag = 0xabcdef;
    attr.tirs = {direct_tir(rq)};
    ASSERT_TRUE(device->create_flow(attr));
    EXPECT_EQ(receive(frames::build(Spec{})).sop_drop_qpn & 0xffffff, 0xabcdefu);
}

TEST_F(Receive, LargeCqesHaveTheCqeInTheirSecondHalf) {
    TestCq wide(*device, 4, nullptr, false, 128);
    TestRq queue(*device, pd, wide.number);
    ASSERT_TRUE(device->destroy_flow(catch_all_flow()));
    steer_all(queue);
    for (int i = 0; i < 40; i++) {
        post_buffer(queue);
        wire->incoming.push_back(frames::padded({}));
        run();
        EXPECT_EQ(expect_packet(wide).wqe_counter, i);
        wide.release();
    }
}

} // namespace
} // namespace testbed
