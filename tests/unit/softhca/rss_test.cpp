// SPDX-License-Identifier: BSD-3-Clause
// Spreading over receive queues: which headers are hashed, how, and what the CQEs report of it.
#include "common/net/parse.hpp"
#include "common/net/toeplitz.hpp"
#include "tests/unit/softhca/testbed.hpp"

namespace testbed {
namespace {

using frames::Spec;

constexpr std::array<uint8_t, 40> kKey = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

class Rss : public Testbed {
  protected:
    /// Cqe::rx_hash_type: both addresses, both ports.
    static constexpr uint8_t kIpv4 = 0x05, kIpv6 = 0x0a, kTcp = 0x50, kUdp = 0xa0;

    Rss() {
        std::vector<Number> numbers;
        for (int i = 0; i < 4; i++) {
            queues.push_back(
                std::make_unique<TestRq>(*device, pd, rx_cq.number, RqOptions{.log_wqes = 8}));
            post_buffers(*queues.back(), 200);
            numbers.push_back(queues.back()->number);
        }
        std::vector<Number> entries;
        for (size_t i = 0; i < 128; i++)
            entries.push_back(numbers[i % 4]);
        rqt = device->create_rqt(entries).value();
    }
    Number steer(const HashFields& fields) {
        TirAttr tir;
        tir.rqt = rqt;
        tir.fields = fields;
        tir.toeplitz_key = kKey;
        FlowAttr flow;
        flow.tirs = {device->create_tir(tir).value()};
        return device->create_flow(flow).value();
    }
    const mlx5::Cqe& receive(const Bytes& frame) {
        wire->incoming.push_back(frames::padded(frame));
        run();
        const mlx5::Cqe& cqe = expect_packet(rx_cq);
        rx_cq.release();
        return cqe;
    }
    uint64_t packets(size_t queue) { return device->rq_counters(queues[queue]->number)->packets; }

    std::vector<std::unique_ptr<TestRq>> queues;
    Number rqt = 0;
};

// A vector of the published verification suite, this time as packets.
TEST_F(Rss, PublishedVectorPicksTheQueue) {
    steer({.src_ip = true, .dst_ip = true, .src_port = true, .dst_port = true});
    Spec spec;
    spec.src_ip = {66, 9, 149, 187};
    spec.dst_ip = {161, 142, 100, 80};
    spec.src_port = 2794;
    spec.dst_port = 1766;
    spec.proto = frames::kTcp;
    const mlx5::Cqe& cqe = receive(frames::build(spec));
    EXPECT_EQ(cqe.rx_hash_result, 0x51ccc178u);
    EXPECT_EQ(cqe.rx_hash_type, kIpv4 | kTcp);
    EXPECT_EQ(packets((0x51ccc178 & 127) % 4), 1u);

    spec.tags = {{0x8100, 9}}; // tags change nothing
    EXPECT_EQ(receive(frames::build(spec)).rx_hash_result, 0x51ccc178u);
    spec.proto = 1; // neither TCP nor UDP: addresses only
    const mlx5::Cqe& icmp = receive(frames::build(spec));
    EXPECT_EQ(icmp.rx_hash_result, 0x323e8fc2u);
    EXPECT_EQ(icmp.rx_hash_type, kIpv4);
    spec.proto = frames::kUdp;
    spec.fragment = 0x2000;
    EXPECT_EQ(receive(frames::build(spec)).rx_hash_result, 0x323e8fc2u)
        << "fragments stay together";
    const mlx5::Cqe& other = receive(frames::build({.ip = 0}));
    EXPECT_EQ(other.rx_hash_type, 0);
    EXPECT_EQ(other.rx_hash_result, 0u);
}

TEST_F(Rss, SpreadsOverAllQueuesAndIsSticky) {
    steer({.src_ip = true, .dst_ip = true, .src_port = true, .dst_port = true});
    for (uint16_t flow = 0; flow < 64; flow++) {
        Spec spec;
        spec.src_port = static_cast<uint16_t>(1000 + flow * 7);
        const uint32_t first = receive(frames::build(spec)).rx_hash_result;
        spec.payload = frames::pattern(99);
        EXPECT_EQ(receive(frames::build(spec)).rx_hash_result, first);
    }
    for (size_t queue = 0; queue < 4; queue++) {
        EXPECT_GT(packets(queue), 8u);
        EXPECT_EQ(packets(queue) % 2, 0u) << "both packets of a flow go to one queue";
    }
}

TEST_F(Rss, OnlyTheSelectedTypesAreHashed) {
    steer({.src_ip = true,
           .dst_ip = true,
           .src_port = true,
           .dst_port = true,
           .ip_version = 4,
           .l4 = 17});
    EXPECT_EQ(receive(frames::build(frames::ipv6_spec())).rx_hash_type, 0);
    EXPECT_EQ(receive(frames::build({.proto = frames::kTcp})).rx_hash_type, kIpv4);
    EXPECT_EQ(receive(frames::build({.proto = frames::kUdp})).rx_hash_type, kIpv4 | kUdp);
}

/// Linux tells programs of XDP which packets a hash is of.
TEST_F(Rss, TheTypeOfAHashTellsItsProtocols) {
    constexpr uint8_t kDestinations = 0xcc;
    const Number all = steer({.src_ip = true, .dst_ip = true, .src_port = true, .dst_port = true});
    Spec spec = frames::ipv6_spec();
    for (const auto& [proto, type] :
         {std::pair{frames::kTcp, kTcp}, std::pair{frames::kUdp, kUdp}}) {
        spec.proto = proto;
        EXPECT_EQ(receive(frames::build(spec)).rx_hash_type, kIpv6 | type);
    }
    ASSERT_TRUE(device->destroy_flow(all));
    const Number destinations = steer({.dst_ip = true, .dst_port = true});
    EXPECT_EQ(receive(frames::build(spec)).rx_hash_type, (kIpv6 | kUdp) & kDestinations);
    ASSERT_TRUE(device->destroy_flow(destinations));
    steer({.src_port = true});
    EXPECT_EQ(receive(frames::build(spec)).rx_hash_type, kUdp & ~kDestinations);
}

TEST_F(Rss, TheSpiOfIpsecIsHashed) {
    constexpr uint8_t kEsp = 50, kAh = 51, kSpi = 0xf0;
    steer({.src_ip = true, .dst_ip = true, .spi = true});
    for (Spec spec : {Spec{}, frames::ipv6_spec()}) {
        const uint8_t ip = spec.ip == 4 ? kIpv4 : kIpv6;
        EXPECT_EQ(receive(frames::build(spec)).rx_hash_type, ip) << "UDP has none";
        spec.payload = frames::pattern(32);
        for (const auto& [proto, at] : {std::pair{kEsp, 0}, std::pair{kAh, 4}}) {
            if (spec.ip == 6 && proto == kAh) continue; // an extension header
            spec.proto = proto;
            Bytes hashed = spec.src_ip;
            hashed.insert(hashed.end(), spec.dst_ip.begin(), spec.dst_ip.end());
            const auto spi = spec.payload.begin() + at;
            hashed.insert(hashed.end(), spi, spi + 4);
            const mlx5::Cqe& cqe = receive(frames::build(spec));
            EXPECT_EQ(cqe.rx_hash_result, net::toeplitz_reference(kKey, hashed));
            EXPECT_EQ(cqe.rx_hash_type, ip | kSpi);
        }
    }
    const Spec fragment{.fragment = 0x2000, .proto = kEsp};
    EXPECT_EQ(receive(frames::build(fragment)).rx_hash_type, kIpv4) << "fragments stay together";
}

TEST_F(Rss, TableChangesUnderTraffic) {
    steer({.src_port = true});
    receive(frames::build(Spec{}));
    const std::vector<Number> all_to_one(4, queues[3]->number);
    ASSERT_TRUE(device->modify_rqt(rqt, all_to_one));
    const uint64_t before = packets(3);
    for (uint16_t port = 0; port < 10; port++) {
        Spec spec;
        spec.src_port = port;
        receive(frames::build(spec));
    }
    EXPECT_EQ(packets(3), before + 10);
}

/// As Linux describes the effect of this bit (ethtool's symmetric-or-xor).
TEST_F(Rss, SymmetricHashesAreOfOrAndXor) {
    TirAttr tir;
    tir.rqt = rqt;
    tir.fields = {.src_ip = true, .dst_ip = true};
    tir.toeplitz_key = kKey;
    tir.symmetric = true;
    FlowAttr flow;
    flow.tirs = {device->create_tir(tir).value()};
    ASSERT_TRUE(device->create_flow(flow));
    Spec there, back;
    back.dst_ip = there.src_ip = {66, 9, 149, 187};
    back.src_ip = there.dst_ip = {161, 142, 100, 80};
    back.src_port = there.dst_port = 1766;
    back.dst_port = there.src_port = 2794;
    // Without the bit, a packet with these addresses and ports has the same hash.
    Spec combined;
    combined.src_ip = {66 | 161, 9 | 142, 149 | 100, 187 | 80};
    combined.dst_ip = {66 ^ 161, 9 ^ 142, 149 ^ 100, 187 ^ 80};
    combined.src_port = 2794 | 1766;
    combined.dst_port = 2794 ^ 1766;
    for (const bool ports : {false, true}) {
        tir.fields.src_port = tir.fields.dst_port = ports;
        tir.symmetric = true;
        ASSERT_TRUE(device->modify_tir(flow.tirs[0], tir));
        const uint32_t hash = receive(frames::build(there)).rx_hash_result;
        EXPECT_EQ(receive(frames::build(back)).rx_hash_result, hash);
        tir.symmetric = false;
        ASSERT_TRUE(device->modify_tir(flow.tirs[0], tir));
        EXPECT_EQ(receive(frames::build(combined)).rx_hash_result, hash);
        EXPECT_NE(receive(frames::build(back)).rx_hash_result, hash);
    }
}

/// ethtool's hfunc xor. Linux puts the queue of an XOR into the entry with its bits in reverse
/// order.
TEST_F(Rss, TheOtherHashIsAnXorOfBytes) {
    TirAttr tir;
    tir.rqt = rqt;
    tir.fields = {.src_ip = true, .dst_ip = true, .src_port = true, .dst_port = true};
    tir.xor8 = true;
    FlowAttr flow;
    flow.tirs = {device->create_tir(tir).value()};
    ASSERT_TRUE(device->create_flow(flow));
    Spec spec;
    spec.src_ip = {1, 2, 4, 8};
    spec.dst_ip = {0, 0, 0, 0};
    spec.src_port = 0x1000;
    spec.dst_port = 0x0003; // 0x1f ^ 0x03 = 0b00011100
    EXPECT_EQ(receive(frames::build(spec)).rx_hash_result, 0b00111000u);
    for (uint16_t xored = 0; xored < 4; xored++) { // of four queues
        spec.src_ip = spec.dst_ip;
        spec.src_port = 0;
        spec.dst_port = static_cast<uint16_t>(xored << 6);
        const size_t entry = (xored & 1) << 1 | xored >> 1;
        const uint64_t before = packets(entry);
        receive(frames::build(spec));
        EXPECT_EQ(packets(entry), before + 1) << xored;
    }
    tir.xor8 = false;
    tir.toeplitz_key = kKey;
    ASSERT_TRUE(device->modify_tir(flow.tirs[0], tir));
    EXPECT_GT(receive(frames::build(spec)).rx_hash_result, 0xffu);
}

/// Headers after IP, followed by an Ethernet frame or its IP packet.
Bytes carried(Spec outer, Bytes headers, const Bytes& frame, bool with_l2) {
    headers.insert(headers.end(), frame.begin() + (with_l2 ? 0 : 14), frame.end());
    outer.payload = std::move(headers);
    return frames::build(outer);
}

TEST_F(Rss, InnerHeadersOfATunnel) {
    TirAttr tir;
    tir.rqt = rqt;
    tir.fields = {.src_ip = true, .dst_ip = true};
    tir.toeplitz_key = kKey;
    tir.tunnels = tir.hash_inner = true;
    FlowAttr flow;
    flow.tirs = {device->create_tir(tir).value()};
    ASSERT_TRUE(device->create_flow(flow));
    Spec inner;
    inner.src_ip = {66, 9, 149, 187};
    inner.dst_ip = {161, 142, 100, 80};
    inner.proto = frames::kTcp;
    const Bytes frame = frames::build(inner);
    Bytes wrong = frame;
    wrong.back() ^= 1;
    const struct {
        const char* name;
        Spec outer;
        Bytes headers;
        bool with_l2;
    } tunnels[] = {
        {"VXLAN", {.dst_port = 4789}, {8, 0, 0, 0, 0, 0, 5, 0}, true},
        {"Geneve", {.dst_port = 6081}, {1, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 0}, true},
        {"Geneve with IP", {.dst_port = 6081}, {0, 0, 8, 0, 0, 0, 5, 0}, false},
        {"GTP-U", {.dst_port = 2152}, {0x30, 255, 0, 72, 0, 0, 0, 5}, false},
        {"MPLS over UDP", {.dst_port = 6635}, {0, 0, 0x51, 64}, false},
        {"MPLS over GRE", {.proto = 47}, {0, 0, 0x88, 0x47, 0, 0, 0x51, 64}, false},
        {"GRE", {.proto = 47}, {0, 0, 0x65, 0x58}, true},
    };
    for (const auto& [name, outer, headers, with_l2] : tunnels) {
        const mlx5::Cqe& cqe = receive(carried(outer, headers, frame, with_l2));
        EXPECT_EQ(cqe.rx_hash_result, 0x323e8fc2u) << name;
        EXPECT_EQ(cqe.packet_info, mlx5::kTunnelled) << name;
        EXPECT_EQ(cqe.l4_l3_type >> 4 & 7, static_cast<int>(mlx5::CqeL4::tcp_ack_data)) << name;
        EXPECT_EQ(cqe.hds_ip_ext & (mlx5::kL3Ok | mlx5::kL4Ok), mlx5::kL3Ok | mlx5::kL4Ok) << name;
        const mlx5::Cqe& bad = receive(carried(outer, headers, wrong, with_l2));
        EXPECT_EQ(bad.hds_ip_ext & (mlx5::kL3Ok | mlx5::kL4Ok), mlx5::kL3Ok) << name;
    }
    // VXLAN on another port: before the device knows it, with it, and without it again.
    const Bytes elsewhere = carried({.dst_port = 8472}, {8, 0, 0, 0, 0, 0, 5, 0}, frame, true);
    for (const bool known : {false, true, false}) {
        device->set_vxlan_ports({{4789, static_cast<uint16_t>(known ? 8472 : 0)}});
        EXPECT_EQ(receive(elsewhere).packet_info, known ? mlx5::kTunnelled : 0) << known;
    }
    // Only rules see these: labels without an outer IP header, VXLAN-GPE.
    const Spec labels{.ip = 0, .ether_type = 0x8847}, gpe{.dst_port = 4790};
    const Bytes gpe_header = {0xc, 0, 0, 1, 0, 0, 5, 0};
    EXPECT_EQ(receive(carried(labels, {0, 0, 0x51, 64}, frame, false)).packet_info, 0);
    EXPECT_EQ(receive(carried(gpe, gpe_header, frame, false)).packet_info, 0);
    // Options that end behind the packet have nothing behind them.
    const Spec geneve{.dst_port = 6081};
    const mlx5::Cqe& cut_off =
        receive(carried(geneve, {63, 0, 8, 0, 0, 0, 5, 0, 0, 0}, frame, false));
    EXPECT_EQ(cut_off.packet_info, 0);
    EXPECT_EQ(cut_off.hds_ip_ext & (mlx5::kL3Ok | mlx5::kL4Ok), mlx5::kL3Ok | mlx5::kL4Ok);
}

} // namespace
} // namespace testbed
