// SPDX-License-Identifier: BSD-3-Clause
// Send offloads: checksums, VLAN insertion, segmentation.
#include "common/net/parse.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>

namespace testbed {
namespace {

using frames::get16;
using frames::get32;
using frames::put16;
using frames::Spec;
using mlx5::WqeOpcode;

constexpr uint8_t kL3L4 = mlx5::kCsL3 | mlx5::kCsL4;

class SendOffload : public Testbed {
  protected:
    /// Sends the frame in pieces, some of them odd, and returns what left.
    Bytes send(const Bytes& frame, uint8_t cs_flags, uint32_t cut = 33) {
        std::byte* const at = put(0, frame);
        const auto size = static_cast<uint32_t>(frame.size());
        Wqe wqe(WqeOpcode::send);
        wqe.eth(cs_flags);
        for (uint32_t from = 0; from < size; from += cut)
            wqe.data(lkey, at + from, std::min(cut, size - from));
        return send(wqe);
    }
    Bytes send(const Wqe& wqe) {
        sq.post(wqe);
        sq.ring_doorbell();
        const size_t before = wire->sent.size();
        run();
        EXPECT_EQ(wire->sent.size(), before + 1);
        EXPECT_NE(tx_cq.poll(), nullptr);
        tx_cq.release();
        return wire->sent.empty() ? Bytes{} : wire->sent.back();
    }
    /// The same frame with garbage in its checksum fields.
    static Bytes without_checksums(Bytes frame, size_t l3, size_t l4, uint8_t proto) {
        if (frame[l3] >> 4 == 4) put16(frame, l3 + 10, 0xdead);
        put16(frame, l4 + (proto == frames::kTcp ? 16 : 6), 0xbeef);
        return frame;
    }
};

TEST_F(SendOffload, ChecksumsOfAllKinds) {
    for (const int ip : {4, 6})
        for (const uint8_t proto : {frames::kTcp, frames::kUdp})
            for (const size_t payload : {18u, 19u, 100u, 701u})
                for (const uint32_t cut : {1u << 20, 200u, 33u, 27u}) {
                    Spec spec = ip == 4 ? Spec{} : frames::ipv6_spec();
                    spec.proto = proto;
                    spec.payload = frames::pattern(payload);
                    const Bytes right = frames::build(spec);
                    const Bytes wrong = without_checksums(right, 14, ip == 4 ? 34 : 54, proto);
                    ASSERT_NE(wrong, right);
                    ASSERT_EQ(send(wrong, kL3L4, cut), right)
                        << ip << " " << int{proto} << " " << payload;
                }
}

TEST_F(SendOffload, OnlyWhatIsAskedFor) {
    const Bytes right = frames::build(Spec{});
    const Bytes wrong = without_checksums(right, 14, 34, frames::kUdp);
    EXPECT_EQ(send(wrong, 0), wrong);
    Bytes l3_only = wrong;
    put16(l3_only, 24, get16(right, 24));
    EXPECT_EQ(send(wrong, mlx5::kCsL3), l3_only);
    Bytes l4_only = wrong;
    put16(l4_only, 40, get16(right, 40));
    EXPECT_EQ(send(wrong, mlx5::kCsL4), l4_only);
}

TEST_F(SendOffload, BehindVlanTagsOptionsAndExtensions) {
    Spec v4;
    v4.tags = {{0x88a8, 5}, {0x8100, 6}};
    v4.ip_options = Bytes(12, 1);
    v4.proto = frames::kTcp;
    EXPECT_EQ(send(without_checksums(frames::build(v4), 22, 22 + 32, frames::kTcp), kL3L4),
              frames::build(v4));
    Spec v6 = frames::ipv6_spec();
    v6.extensions = {{0, Bytes(8)}, {60, Bytes(8)}};
    EXPECT_EQ(send(without_checksums(frames::build(v6), 14, 14 + 56, frames::kUdp), kL3L4),
              frames::build(v6));
}

TEST_F(SendOffload, UdpChecksumOfZeroIsSentAsOnes) {
    Spec spec;
    spec.payload = Bytes(32);
    put16(spec.payload, 0, 0);
    // Choose two payload bytes so that the sum comes out as 0xffff.
    Bytes frame = frames::build(spec);
    const uint16_t checksum = get16(frame, 40);
    put16(spec.payload, 0, checksum);
    frame = frames::build(spec);
    ASSERT_EQ(get16(frame, 40), 0xffff);
    Bytes wrong = frame;
    put16(wrong, 40, 0);
    EXPECT_EQ(send(wrong, mlx5::kCsL4), frame);
}

TEST_F(SendOffload, FragmentsAndTruncatedPacketsStayAlone) {
    Spec spec;
    spec.fragment = 0x2000;
    Bytes fragment = frames::build(spec);
    put16(fragment, 40, 0x1234);
    EXPECT_EQ(send(fragment, mlx5::kCsL4), fragment);
    Bytes lying = frames::build(Spec{});
    put16(lying, 16, 1000); // IP length beyond the frame
    EXPECT_EQ(send(lying, mlx5::kCsL4), lying);
}

/// Both have eight bytes between UDP and the inner frame.
const struct Tunnel {
    const char* name;
    uint16_t port;
    Bytes header;

    [[nodiscard]] Bytes around(const Bytes& frame, bool udp_checksum = false) const {
        Spec outer{.dst_port = port, .payload = header, .udp_checksum = udp_checksum};
        outer.payload.insert(outer.payload.end(), frame.begin(), frame.end());
        return frames::build(outer);
    }
} kTunnels[] = {{"VXLAN", 4789, {8, 0, 0, 0, 0, 0, 42, 0}},
                {"VXLAN on another port", 8472, {8, 0, 0, 0, 0, 0, 42, 0}},
                {"Geneve", 6081, {0, 0, 0x65, 0x58, 0, 0, 42, 0}}};

TEST_F(SendOffload, TunnelInnerAndOuter) {
    Spec inner;
    inner.proto = frames::kTcp;
    device->set_vxlan_ports({{4789, 8472}});
    for (const Tunnel& tunnel : kTunnels) {
        const Bytes right = tunnel.around(frames::build(inner));
        Bytes wrong = right;
        put16(wrong, 24, 0xdead);                // outer IPv4
        put16(wrong, 50 + 14 + 10, 0xdead);      // inner IPv4
        put16(wrong, 50 + 14 + 20 + 16, 0xbeef); // inner TCP
        const uint8_t flags = mlx5::kCsL3 | mlx5::kCsL3Inner | mlx5::kCsL4Inner;
        EXPECT_EQ(send(wrong, flags), right) << tunnel.name;
        const Bytes with_outer_udp = tunnel.around(frames::build(inner), true);
        EXPECT_EQ(send(wrong, flags | mlx5::kCsL4), with_outer_udp) << tunnel.name;
    }
}

TEST_F(SendOffload, VlanInsertion) {
    Spec spec;
    const Bytes plain = frames::build(spec);
    std::byte* const at = put(0, plain);
    spec.tags = {{0x8100, 0xb123}}; // with the DEI bit
    const auto size = static_cast<uint32_t>(plain.size());
    EXPECT_EQ(send(Wqe(WqeOpcode::send).eth_vlan(0xb123).data(lkey, at, size)),
              frames::build(spec));
    spec.tags = {{0x88a8, 0x0064}};
    EXPECT_EQ(send(Wqe(WqeOpcode::send).eth_vlan(0x0064, true).data(lkey, at, size)),
              frames::build(spec));
    // with checksums, cut in the middle of the addresses
    const Bytes wrong = without_checksums(plain, 14, 34, frames::kUdp);
    std::byte* const wrong_at = put(1024, wrong);
    EXPECT_EQ(send(Wqe(WqeOpcode::send)
                       .eth_vlan(0x0064, true, kL3L4)
                       .data(lkey, wrong_at, 5)
                       .data(lkey, wrong_at + 5, size - 5)),
              frames::build(spec));
}

class Tso : public SendOffload {
  protected:
    /// Segments `payload` with the headers of `spec` and checks every segment against a frame
    /// built from scratch.
    void check(Spec spec, size_t payload_bytes, uint16_t mss) {
        spec.proto = frames::kTcp;
        spec.payload.clear();
        const Bytes header = frames::build(spec);
        const Bytes payload = frames::pattern(payload_bytes);
        std::byte* const at = put(0, payload);
        Wqe wqe(WqeOpcode::tso);
        wqe.eth(kL3L4, header, mss);
        const auto half = static_cast<uint32_t>(payload_bytes / 2 + 1);
        wqe.data(lkey, at, half);
        if (payload_bytes > half)
            wqe.data(lkey, at + half, static_cast<uint32_t>(payload_bytes) - half);
        wire->sent.clear();
        sq.post(wqe);
        sq.ring_doorbell();
        run();
        ASSERT_NE(tx_cq.poll(), nullptr);
        tx_cq.release();

        const size_t segments = (payload_bytes + mss - 1) / mss;
        ASSERT_EQ(wire->sent.size(), segments);
        for (size_t i = 0; i < segments; i++) {
            Spec segment = spec;
            const size_t from = i * mss, to = std::min(from + mss, payload_bytes);
            segment.payload.assign(payload.begin() + static_cast<ptrdiff_t>(from),
                                   payload.begin() + static_cast<ptrdiff_t>(to));
            segment.sequence = spec.sequence + static_cast<uint32_t>(from);
            segment.ip_id = static_cast<uint16_t>(spec.ip_id + i);
            if (i + 1 != segments)
                segment.tcp_flags &= static_cast<uint8_t>(~(frames::kFin | frames::kPsh));
            if (i != 0) segment.tcp_flags &= static_cast<uint8_t>(~frames::kCwr);
            ASSERT_EQ(wire->sent[i], frames::padded(frames::build(segment))) << "segment " << i;
        }
    }
};

TEST_F(Tso, Ipv4) {
    Spec spec;
    spec.tcp_flags = frames::kAck | frames::kPsh | frames::kFin | frames::kCwr;
    spec.ip_id = 0xfffe; // wraps around
    spec.sequence = 0xffffff00;
    check(spec, 5000, 1448);
    check(spec, 4344, 1448);
    check(spec, 1448, 1448);
    check(spec, 10, 1448);
    check(spec, 40, 1);
}

TEST_F(Tso, Ipv6WithVlan) {
    Spec spec = frames::ipv6_spec();
    spec.tags = {{0x8100, 7}};
    check(spec, 9999, 1000);
}

TEST_F(Tso, InATunnel) {
    const Bytes payload = frames::pattern(2500);
    device->set_vxlan_ports({{4789, 8472}});
    for (const Tunnel& tunnel : kTunnels) {
        SCOPED_TRACE(tunnel.name);
        wire->sent.clear();
        Spec inner;
        inner.proto = frames::kTcp;
        inner.payload.clear();
        const Bytes header = tunnel.around(frames::build(inner));
        sq.post(Wqe(WqeOpcode::tso)
                    .eth(mlx5::kCsL3 | mlx5::kCsL3Inner | mlx5::kCsL4Inner, header, 1000)
                    .data(lkey, put(0, payload), 2500));
        sq.ring_doorbell();
        run();
        ASSERT_EQ(wire->sent.size(), 3u);
        for (size_t i = 0; i < 3; i++) {
            const size_t from = i * 1000, to = std::min<size_t>(from + 1000, 2500);
            inner.payload.assign(payload.begin() + static_cast<ptrdiff_t>(from),
                                 payload.begin() + static_cast<ptrdiff_t>(to));
            inner.sequence = 1 + static_cast<uint32_t>(from);
            inner.ip_id = static_cast<uint16_t>(7 + i);
            Bytes expected = tunnel.around(frames::build(inner));
            put16(expected, 14 + 4,
                  static_cast<uint16_t>(7 + i)); // the outer identification counts too
            put16(expected, 14 + 10, 0);
            put16(expected, 14 + 10,
                  frames::slow_checksum(Bytes(expected.begin() + 14, expected.begin() + 34)));
            EXPECT_EQ(wire->sent[i], expected) << i;
        }
    }
}

TEST_F(Tso, TemplateLengthDoesNotMatter) {
    Spec spec;
    spec.proto = frames::kTcp;
    spec.payload.clear();
    Bytes header = frames::build(spec);
    put16(header, 16, 0); // as some stacks leave it
    const Bytes payload = frames::pattern(100);
    sq.post(Wqe(WqeOpcode::tso).eth(kL3L4, header, 1000).data(lkey, put(0, payload), 100));
    sq.ring_doorbell();
    run();
    spec.payload = payload;
    ASSERT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(wire->sent[0], frames::build(spec));
}

TEST_F(Tso, BusyWireStopsBetweenSegments) {
    Spec spec;
    spec.proto = frames::kTcp;
    spec.payload.clear();
    const Bytes payload = frames::pattern(10000);
    sq.post(Wqe(WqeOpcode::tso)
                .eth(kL3L4, frames::build(spec), 1000)
                .data(lkey, put(0, payload), 10000));
    sq.ring_doorbell();
    for (size_t room = 0; room < 10; room++) {
        wire->room = room;
        run();
        ASSERT_EQ(wire->sent.size(), room);
        ASSERT_EQ(tx_cq.poll(), nullptr);
    }
    wire->room = SIZE_MAX;
    run();
    ASSERT_EQ(wire->sent.size(), 10u);
    EXPECT_NE(tx_cq.poll(), nullptr);
    for (uint32_t i = 0; i < 10; i++)
        EXPECT_EQ(get32(wire->sent[i], 38), 1 + i * 1000);
}

TEST_F(Tso, LargestMessage) {
    Spec spec;
    spec.proto = frames::kTcp;
    spec.payload.clear();
    const uint32_t bytes = Limits::kMaxTsoBytes;
    sq.post(
        Wqe(WqeOpcode::tso).eth(kL3L4, frames::build(spec), 1448).data(lkey, memory_at(0), bytes));
    sq.ring_doorbell();
    run();
    EXPECT_EQ(wire->sent.size(), (bytes + 1447) / 1448);
}

} // namespace
} // namespace testbed
