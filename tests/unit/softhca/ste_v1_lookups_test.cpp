// SPDX-License-Identifier: BSD-3-Clause
// Software steering, format 1: what each lookup and each layout of definers sees of a packet. Where
// fields stand is written down from mlx5_ifc.h once more, byte by byte.
#include "tests/unit/softhca/ste_v1.hpp"

#include <cctype>
#include <nlohmann/json.hpp>

namespace {

using namespace testbed;
using namespace softhca::core::ste;
using frames::Spec;

/// Bytes that a lookup sees of one packet, and another packet of which it sees others.
struct Seen {
    const char* what;
    uint16_t lookup;
    size_t at;
    Bytes bytes;
    Bytes frame, other;
};

template <class Change> Bytes changed(Spec spec, Change change) {
    change(spec);
    return frames::build(spec);
}

/// With the IPv4 header's protocol and checksum as they should be.
Bytes ipv4_with(uint8_t protocol, const Bytes& payload) {
    Spec spec;
    spec.payload.clear();
    Bytes frame = frames::build(spec);
    frame.resize(14 + 20);
    frame.insert(frame.end(), payload.begin(), payload.end());
    frame[23] = protocol;
    frames::put16(frame, 16, static_cast<uint16_t>(frame.size() - 14));
    frames::put16(frame, 24, 0);
    frames::put16(frame, 24, frames::slow_checksum(Bytes(frame.begin() + 14, frame.begin() + 34)));
    return frame;
}
Bytes ipv6_with(uint8_t next, const Bytes& payload) {
    constexpr ptrdiff_t kNextAt = 20, kPayloadAt = 54;
    Bytes frame = frames::build(frames::ipv6_spec());
    frame[kNextAt] = next;
    std::copy(payload.begin(), payload.end(), frame.begin() + kPayloadAt);
    return frame;
}
Bytes udp_with(uint16_t port, const Bytes& payload) {
    Spec spec;
    spec.dst_port = port;
    spec.payload = payload;
    return frames::build(spec);
}
Bytes mpls_with(uint32_t label) {
    Spec spec;
    spec.ip = 0;
    spec.ether_type = 0x8847;
    spec.payload = Bytes(60, 0);
    frames::put32(spec.payload, 0, label);
    return frames::build(spec);
}
Bytes flipped(Bytes frame, size_t at, uint8_t bits = 1) {
    frame[at] ^= bits;
    return frame;
}
Bytes followed(Bytes first, const Bytes& then) {
    first.insert(first.end(), then.begin(), then.end());
    return first;
}

const Spec kV4{}, kV6 = frames::ipv6_spec();
Spec tcp_spec() {
    Spec spec;
    spec.proto = frames::kTcp;
    spec.sequence = 0x01020304;
    spec.ack = 0x05060708;
    return spec;
}
Spec tagged_spec() {
    Spec spec;
    spec.tags = {{0x88a8, 0x3005}, {0x8100, 0x5006}};
    return spec;
}

/// The outer and the inner lookup see the same of a packet and of what a tunnel carries.
std::vector<Seen> layers() {
    struct Pair {
        const char* what;
        uint16_t outer, inner;
        size_t at;
        Bytes bytes;
        Bytes frame, other;
    };
    const Bytes v4 = frames::build(kV4), v6 = frames::build(kV6), tcp = frames::build(tcp_spec());
    const Bytes tagged = frames::build(tagged_spec());
    const Bytes other_dst = changed(kV4, [](Spec& s) { s.dst[5] ^= 1; });
    const Bytes other_src = changed(kV4, [](Spec& s) { s.src[0] ^= 4; });
    const Bytes other_ports = changed(kV4, [](Spec& s) { s.src_port++, s.dst_port++; });
    const Bytes fragment = changed(kV4, [](Spec& s) { s.fragment = 0x2000; });
    const Bytes dst(kV4.dst.begin(), kV4.dst.end()), src(kV4.src.begin(), kV4.src.end());
    const Bytes src_high(src.begin(), src.begin() + 4), src_low(src.begin() + 4, src.end());
    const Pair pairs[] = {
        {"dst: MAC", 0x003, 0x004, 4, dst, v4, other_dst},
        {"dst: EtherType", 0x003, 0x004, 10, {8, 0}, v4, v6},
        {"dst: first tag", 0x003, 0x004, 2, {0x30, 5}, tagged, v4},
        {"dst: second tag", 0x003, 0x004, 14, {0x50, 6}, tagged, v4},
        {"dst: types, first qualifier",
         0x003,
         0x004,
         1,
         {0x18 | 1}, // IPv4, UDP, service tag
         tagged,
         v4},
        {"dst: second qualifier", 0x003, 0x004, 13, {2}, tagged, v4},
        {"dst: fragment", 0x003, 0x004, 0, {0x10}, fragment, v4},
        {"src: MAC", 0x005, 0x006, 4, src, v4, other_src},
        {"both: dst", 0x00b, 0x00c, 8, Bytes(dst.begin() + 4, dst.end()), v4, other_dst},
        {"both: src, high", 0x00b, 0x00c, 4, src_high, v4, other_src},
        {"both: src, low", 0x00b, 0x00c, 14, src_low, v4,
         changed(kV4, [](Spec& s) { s.src[5] ^= 1; })},
        {"both: tag", 0x00b, 0x00c, 12, {0x30, 5}, tagged, v4},
        {"both: type, qualifier", 0x00b, 0x00c, 11, {0x10 | 1}, tagged, v4},
        {"tuple: addresses", 0x007, 0x008, 0, followed(kV4.src_ip, kV4.dst_ip), v4,
         changed(kV4, [](Spec& s) { s.src_ip[3]++; })},
        {"tuple: ports",
         0x007,
         0x008,
         8,
         {1000 >> 8, 1000 & 0xff, 2000 >> 8, 2000 & 0xff},
         v4,
         other_ports},
        {"tuple: protocol", 0x007, 0x008, 15, {17}, v4, tcp},
        {"tuple: flags", 0x007, 0x008, 13, {frames::kAck}, tcp, v4},
        {"tuple: fragment", 0x007, 0x008, 12, {2}, fragment, v4},
        {"tuple: TOS", 0x007, 0x008, 14, {0x55}, changed(kV4, [](Spec& s) { s.tos = 0x55; }), v4},
        {"misc: version, IHL, TTL",
         0x00d,
         0x00f,
         8,
         {0x45, 64},
         v4,
         changed(kV4, [](Spec& s) { s.ttl = 63; })},
        {"IPv6: dst", 0x107, 0x108, 0, kV6.dst_ip, v6,
         changed(kV6, [](Spec& s) { s.dst_ip[0] ^= 1; })},
        {"IPv6: src", 0x109, 0x10a, 0, kV6.src_ip, v6,
         changed(kV6, [](Spec& s) { s.src_ip[15] ^= 1; })},
        {"L4: version", 0x009, 0x00a, 0, {0x60}, v6, v4},
        {"L4: TOS, hop limit",
         0x009,
         0x00a,
         1,
         {0x55, 9},
         changed(kV6, [](Spec& s) { s.tos = 0x55, s.ttl = 9; }),
         v6},
        {"L4: protocol", 0x009, 0x00a, 3, {17}, v6, tcp},
        {"L4: ports",
         0x009,
         0x00a,
         4,
         {1000 >> 8, 1000 & 0xff, 2000 >> 8, 2000 & 0xff},
         v4,
         other_ports},
        {"L4: flow label",
         0x009,
         0x00a,
         9,
         {1, 2, 3},
         changed(kV6, [](Spec& s) { s.flow_label = 0x10203; }),
         v6},
        {"L4: flags", 0x009, 0x00a, 13, {frames::kAck}, tcp, v4},
        {"TCP: numbers", 0x113, 0x114, 4, {5, 6, 7, 8, 1, 2, 3, 4}, tcp, v4},
    };
    std::vector<Seen> all;
    for (const Pair& one : pairs) {
        all.push_back({one.what, one.outer, one.at, one.bytes, one.frame, one.other});
        all.push_back({one.what, one.inner, one.at, one.bytes, frames::vxlan(1, one.frame),
                       frames::vxlan(1, one.other)});
    }
    return all;
}

std::vector<Seen> tunnels() {
    const Bytes v4 = frames::build(kV4);
    const Bytes dst(kV4.dst.begin(), kV4.dst.end());
    const Bytes icmp = {8, 1, 0, 0, 1, 2, 3, 4};
    const Bytes gre = {0x30, 0, 0x65, 0x58, 1, 2, 3, 4, 0, 0, 0, 0};
    const Bytes gtpu = udp_with(2152, followed({0x30, 0xff, 0, 44, 1, 2, 3, 4}, Bytes(44, 0)));
    return {
        {"VXLAN: VNI, inner MAC", 0x002, 0, followed({1, 2, 3, 0}, dst), frames::vxlan(0x10203, v4),
         frames::vxlan(0x10204, v4)},
        {"ICMP: data", 0x113, 4, {1, 2, 3, 4, 8, 1}, ipv4_with(1, icmp), v4},
        {"ICMPv6: data", 0x113, 4, {1, 2, 3, 4, 8, 1}, ipv6_with(58, icmp), frames::build(kV6)},
        {"MPLS", 0x10b, 4, {1, 2, 3, 4}, mpls_with(0x01020304), mpls_with(0x01020305)},
        {"GRE: flags, protocol",
         0x10d,
         0,
         {0x30, 0, 0x65, 0x58},
         ipv4_with(47, followed(gre, v4)),
         v4},
        {"GRE: key", 0x10d, 8, {1, 2, 3, 4}, ipv4_with(47, followed(gre, v4)), v4},
        {"VXLAN-GPE",
         0x00e,
         0,
         {0x0c, 0, 0, 3, 1, 2, 3},
         udp_with(4790, followed({0x0c, 0, 0, 3, 1, 2, 3, 0}, v4)),
         v4},
        {"Geneve",
         0x00e,
         0,
         {0, 0x80, 0x65, 0x58, 1, 2, 3},
         udp_with(6081, followed({0, 0x80, 0x65, 0x58, 1, 2, 3, 0}, v4)),
         v4},
        {"GTP-U: flags, type", 0x00e, 0, {0x30, 0xff}, gtpu, v4},
        {"GTP-U: TEID", 0x00e, 4, {1, 2, 3, 4}, gtpu, v4},
        {"MPLS over UDP", 0x112, 8, {1, 2, 3, 4}, udp_with(6635, followed({1, 2, 3, 4}, v4)), v4},
        {"ICMP by its flex parser", 0x111, 12, {8, 1}, ipv4_with(1, icmp), v4},
    };
}

class SteV1Lookups : public SteV1Bed, public testing::WithParamInterface<Seen> {};

TEST_P(SteV1Lookups, SeesTheField) {
    receives();
    const Seen& seen = GetParam();
    MaskSte made = mask_ste(to_tir(tir));
    want(made, seen.lookup, seen.at, seen.bytes);
    put_ste(0, made);
    post_buffers(rq, 1);
    receive(seen.frame);
    EXPECT_EQ(device->counters().delivered, 1u) << "does not see it";
    receive(seen.other);
    EXPECT_EQ(device->counters().delivered, 1u) << "sees it where it is not";
    EXPECT_EQ(device->counters().drop_rule, 1u);
}

std::string name_of(const testing::TestParamInfo<Seen>& info) {
    std::string name;
    for (const char* at = info.param.what; *at; at++)
        if (std::isalnum(static_cast<unsigned char>(*at))) name += *at;
    return name + std::to_string(info.index);
}
INSTANTIATE_TEST_SUITE_P(Layers, SteV1Lookups, testing::ValuesIn(layers()), name_of);
INSTANTIATE_TEST_SUITE_P(Tunnels, SteV1Lookups, testing::ValuesIn(tunnels()), name_of);

class SteV1Sends : public SteV1Bed {};

TEST_F(SteV1Sends, ALookupOfTheQueueSeesIt) {
    sends(0);
    MaskSte made = mask_ste(to_send());
    const auto number = static_cast<uint8_t>(sq.number);
    want(made, 0x104, 7, {number});
    put_ste(0, made);
    send(frames::build(kV4));
    EXPECT_EQ(wire->sent.size(), 1u);
    want(made, 0x104, 7, {static_cast<uint8_t>(number + 1)});
    put_ste(0, made);
    send(frames::build(kV4));
    EXPECT_EQ(wire->sent.size(), 1u);
    EXPECT_EQ(device->counters().drop_tx_rule, 1u);
}

TEST_F(SteV1Sends, ALookupOfTheGeneralPurposeRegisterSeesWhatWasSet) {
    receives();
    put_ste(0, mask_ste(entry_at(1), Actions().set(0x7c, 0, 32, 0x01020304)));
    MaskSte second = mask_ste(to_tir(tir));
    want(second, 0x10e, 0, {1, 2, 3, 4});
    put_ste(1, second);
    EXPECT_EQ(passed(frames::build(kV4)), frames::build(kV4));
    want(second, 0x10e, 0, {1, 2, 3, 5});
    put_ste(1, second);
    receive(frames::build(kV4));
    EXPECT_EQ(device->counters().drop_rule, 1u);
}

TEST_F(SteV1Sends, ALookupOfTheLastRegistersSeesWhatWasSet) {
    receives();
    put_ste(0, mask_ste(entry_at(1), Actions().set(0x8d, 0, 32, 0x01020304))); // reg_c_5
    MaskSte second = mask_ste(to_tir(tir));
    want(second, 0x110, 4, {1, 2, 3, 4});
    put_ste(1, second);
    EXPECT_EQ(passed(frames::build(kV4)), frames::build(kV4));
}

// ---------------------------------------------------------------- definers

struct Defined {
    const char* what;
    uint16_t layout;
    size_t at;
    Bytes bytes;
    Bytes frame, other;
};

std::vector<Defined> layouts() {
    const Bytes v4 = frames::build(kV4), v6 = frames::build(kV6), tcp = frames::build(tcp_spec());
    const Bytes tagged = frames::build(tagged_spec());
    const Bytes fragment = changed(kV4, [](Spec& s) { s.fragment = 0x2000; });
    const Bytes dst(kV4.dst.begin(), kV4.dst.end()), src(kV4.src.begin(), kV4.src.end());
    const Bytes addresses = followed(kV4.src_ip, kV4.dst_ip);
    const Bytes ports = {1000 >> 8, 1000 & 0xff, 2000 >> 8, 2000 & 0xff};
    const Bytes other = changed(kV4, [](Spec& s) {
        s.src[0] ^= 4, s.dst[5] ^= 1, s.src_ip[3]++, s.dst_ip[3]++, s.src_port++, s.dst_port++;
    });
    return {
        {"dst MAC, EtherType", 0, 8, followed(dst, {8, 0}), v4, other},
        {"types, first tag", 0, 17, {0x18 | 1, 0x30, 5}, tagged, v4},
        {"second tag", 0, 21, {2, 0x50, 6}, tagged, v4},
        {"src MAC", 0, 24, src, v4, other},
        {"fragment", 0, 16, {0x10}, fragment, v4},
        {"TCP flags", 0, 31, {frames::kAck}, tcp, v4},
        {"IP header", 2, 4, {0x45, 0, 64, 17}, v4, tcp},
        {"flow label", 2, 17, {1, 2, 3}, changed(kV6, [](Spec& s) { s.flow_label = 0x10203; }), v6},
        {"ports", 2, 24, ports, v4, other},
        {"fragment, flags", 2, 28, {2}, fragment, v4},
        {"TCP flags", 2, 29, {frames::kAck}, tcp, v4},
        {"IPv6 dst", 6, 0, kV6.dst_ip, v6, v4},
        {"IPv6 ports", 6, 24, ports, v6, other},
        {"addresses, ports", 22, 0, followed(addresses, ports), v4, other},
        {"types, tag", 22, 13, {0x18 | 1, 0x30, 5}, tagged, v4},
        {"MACs", 22, 20, Bytes(dst.begin(), dst.begin() + 4), v4,
         changed(kV4, [](Spec& s) { s.dst[0] ^= 4; })},
        {"MACs, low", 22, 28, {src[4], src[5], dst[4], dst[5]}, v4, other},
        {"addresses, ports", 24, 16, followed(addresses, ports), v4, other},
        {"outer protocol, types", 24, 30, {17, 0x60}, v4, tcp},
        {"inner protocol, types", 24, 28, {6, 0x50}, frames::vxlan(1, tcp), frames::vxlan(1, v4)},
        {"IPv6 src", 26, 0, kV6.src_ip, v6, v4},
        {"src MAC, protocol", 26, 24, followed(src, {17}), v4, other},
        {"addresses, ports", 33, 0, followed(addresses, ports), v4, other},
        {"version, IHL", 33, 28, {0x45}, v4, v6},
        {"TTL, protocol", 33, 30, {64, 17}, v4, tcp},
        {"IPv4 identification, fragment, length", 2, 8, {0, 7, 0x20, 0, 0, 60}, fragment, v4},
        {"IPv4 checksum", 2, 14, {v4[24], v4[25]}, v4, tcp},
        {"TCP data offset", 2, 28, {0x50}, tcp, v4},
        {"first fragment",
         2,
         30,
         {0x80},
         fragment,
         changed(kV4, [](Spec& s) { s.fragment = 0x2001; })},
    };
}

/// What is sound. Of the eight bits: checksums of the inner and of the outer layer, then lengths.
std::vector<Defined> integrity() {
    constexpr size_t kIpLength = 17, kIpChecksum = 24, kUdpLength = 39;
    const Bytes v4 = frames::build(kV4), v6 = frames::build(kV6);
    const Bytes bad_sum = flipped(v4, kIpChecksum), bad_l4 = flipped(v4, v4.size() - 1);
    // Longer than the frame; the checksum is right, or of UDP, is no matter.
    Bytes bad_length = flipped(flipped(v4, kIpLength - 1, 2), kIpChecksum, 2);
    const Bytes bad_udp = flipped(v4, kUdpLength - 1, 2);
    const Bytes tcp = frames::build(tcp_spec()), no_l4 = ipv4_with(1, {8, 1, 0, 0, 1, 2, 3, 4});
    const Bytes fragment = changed(kV4, [](Spec& s) { s.fragment = 0x2000; });
    const Bytes no_sum = changed(kV4, [](Spec& s) { s.udp_checksum = false; });
    std::vector<Defined> all;
    for (const auto& [layout, at] : {std::pair<uint16_t, size_t>{0, 30}, {2, 31}, {33, 29}}) {
        const std::initializer_list<Defined> these = {
            {"sound", layout, at, {0x33}, v4, bad_l4},
            {"TCP too", layout, at, {0x33}, tcp, flipped(tcp, tcp.size() - 1)},
            {"no UDP checksum", layout, at, {0x33}, no_sum, bad_l4},
            {"bad IPv4 checksum", layout, at, {0x13}, bad_sum, v4},
            {"bad L4 checksum", layout, at, {0x23}, bad_l4, v4},
            {"bad L3 length", layout, at, {0}, bad_length, v4},
            {"bad L4 length", layout, at, {0x22}, bad_udp, v4},
            {"neither TCP nor UDP", layout, at, {0x22}, no_l4, v4},
            {"fragment", layout, at, {0x22}, fragment, v4},
            {"IPv6", layout, at, {0x13}, v6, v4},
            {"both layers", layout, at, {0xff}, frames::vxlan(1, v4), frames::vxlan(1, bad_l4)},
            {"bad inner IPv4", layout, at, {0x7f}, frames::vxlan(1, bad_sum), frames::vxlan(1, v4)},
            {"bad inner L4", layout, at, {0xbf}, frames::vxlan(1, bad_l4), frames::vxlan(1, v4)},
            {"in Geneve",
             layout,
             at,
             {0xff},
             udp_with(6081, followed({0, 0, 0x65, 0x58, 1, 2, 3, 0}, v4)),
             udp_with(6081, followed({0, 0, 0x65, 0x58, 1, 2, 3, 0}, bad_sum))},
        };
        all.insert(all.end(), these);
    }
    const std::initializer_list<Defined> outer = {
        {"L4, L3", 6, 28, {0x0c}, v4, bad_udp},
        {"L3 alone", 6, 28, {0x04}, no_l4, v4},
        {"L2, L3, L4", 26, 21, {0x1c}, v6, flipped(v6, 18, 1)},
        {"L2 alone", 26, 21, {0x10}, flipped(v6, 18, 1), v6},
    };
    all.insert(all.end(), outer);
    return all;
}

std::vector<Defined> tunnel_layouts() {
    const Bytes v4 = frames::build(kV4), tcp = frames::build(tcp_spec());
    const Bytes tagged = frames::build(tagged_spec());
    const Bytes addresses = followed(kV4.src_ip, kV4.dst_ip);
    const Bytes ports = {1000 >> 8, 1000 & 0xff, 2000 >> 8, 2000 & 0xff};
    const Bytes other = changed(kV4, [](Spec& s) { s.src_ip[3]++, s.src_port++; });
    const Bytes vxlan = frames::vxlan(0x10203, v4);
    const Bytes options = {0, 1, 2, 3, 4, 5, 6, 7};
    const auto geneve = [&](uint8_t length, const Bytes& after) {
        return udp_with(6081, followed({length, 0, 0x65, 0x58, 1, 2, 3, 0}, after));
    };
    const auto gtpu = [](uint8_t teid, const Bytes& frame) {
        const Bytes ip(frame.begin() + 14, frame.end());
        return udp_with(
            2152, followed({0x30, 0xff, 0, static_cast<uint8_t>(ip.size()), 1, 2, 3, teid}, ip));
    };
    const Bytes outer_gtpu = {1000 >> 8, 1000 & 0xff, 2152 >> 8, 2152 & 0xff};
    return {
        {"header of VXLAN", 16, 0, {8, 0, 0, 0, 1, 2, 3, 0}, vxlan, frames::vxlan(0x10204, v4)},
        {"a short header", 16, 8, Bytes(8, 0), vxlan, geneve(2, followed(options, v4))},
        {"a long header", 16, 8, options, geneve(2, followed(options, v4)), geneve(0, v4)},
        {"types", 16, 25, {0x60}, v4, tcp},
        {"tag", 16, 25, {0x64}, tagged, v4},
        {"fragment", 16, 28, {0x40}, changed(kV4, [](Spec& s) { s.fragment = 0x2000; }), v4},
        {"inner addresses, ports", 25, 0, followed(addresses, ports), vxlan,
         frames::vxlan(0x10203, other)},
        {"header of VXLAN", 25, 12, {8, 0, 0, 0, 1, 2, 3, 0}, vxlan, frames::vxlan(0x10204, v4)},
        {"types, outer port",
         25,
         24,
         {0x18, 0x18, 4789 >> 8, 4789 & 0xff},
         vxlan,
         frames::vxlan(0x10203, tcp)},
        {"outer port", 25, 26, {4789 >> 8, 4789 & 0xff}, vxlan, v4},
        {"inner tag", 25, 24, {0x19}, frames::vxlan(1, tagged), vxlan},
        {"inner ports, TEID, inner addresses", 28, 0,
         followed(followed(ports, {1, 2, 3, 4}), addresses), gtpu(4, v4), gtpu(5, v4)},
        {"inner addresses", 28, 8, addresses, gtpu(4, v4), gtpu(4, other)},
        {"outer addresses, ports", 28, 16, followed(addresses, outer_gtpu), gtpu(4, v4), v4},
        {"inner protocol, types", 28, 28, {6, 0x50}, gtpu(4, tcp), gtpu(4, v4)},
        {"outer protocol, types", 28, 30, {17, 0x60}, gtpu(4, v4), tcp},
    };
}

class SteV1Definers : public SteV1Bed, public testing::WithParamInterface<Defined> {
  protected:
    /// Both that and an entry with it.
    MatchSte defined(uint16_t layout, size_t at, const Bytes& bytes) {
        Definer definer{.layout = layout};
        std::fill_n(definer.mask.begin() + static_cast<ptrdiff_t>(at), bytes.size(), kAll);
        definer.mask = masked(definer.mask, fields_of(layout)); // beside it are others, or nothing
        number = *device->create_definer(definer);
        MatchSte made = match_ste(to_tir(tir));
        made.head.definer = static_cast<uint8_t>(number);
        std::memcpy(made.tag.data() + at, bytes.data(), bytes.size());
        return made;
    }
    static Tag fields_of(uint16_t layout) {
        return mlx5_rings::ste_format(1).layout_fields(layout).value();
    }
    Number number = 0;
};

TEST_P(SteV1Definers, SeesTheField) {
    receives();
    const Defined& seen = GetParam();
    put_ste(0, defined(seen.layout, seen.at, seen.bytes));
    post_buffers(rq, 1);
    receive(seen.frame);
    EXPECT_EQ(device->counters().delivered, 1u) << "does not see it";
    receive(seen.other);
    EXPECT_EQ(device->counters().delivered, 1u) << "sees it where it is not";
}

std::string name_of_defined(const testing::TestParamInfo<Defined>& info) {
    return "Layout" + std::to_string(info.param.layout) + "_" + std::to_string(info.index);
}
INSTANTIATE_TEST_SUITE_P(Layouts, SteV1Definers, testing::ValuesIn(layouts()), name_of_defined);
INSTANTIATE_TEST_SUITE_P(Integrity, SteV1Definers, testing::ValuesIn(integrity()), name_of_defined);
INSTANTIATE_TEST_SUITE_P(Tunnels, SteV1Definers, testing::ValuesIn(tunnel_layouts()),
                         name_of_defined);

class SteV1Match : public SteV1Definers {};
const Defined kAny{};
INSTANTIATE_TEST_SUITE_P(Any, SteV1Match, testing::Values(kAny));

TEST_P(SteV1Match, TheHashIsThatOfAllBytesUnderTheMask) {
    receives();
    constexpr unsigned kFirst = 64, kEntries = 64;
    for (uint8_t last = 1; last < 20; last++) {
        Spec spec;
        spec.dst_ip[3] = last;
        MatchSte wanted = defined(22, 4, spec.dst_ip);
        MatchSte root = match_ste(0);
        lead(root.head, entry_at(kFirst), kEntries);
        root.head.next_definer = static_cast<uint8_t>(number);
        put_ste(0, root);
        const uint16_t lookup = v1::lookup_of(SteType::match, static_cast<uint8_t>(number));
        const unsigned index =
            mlx5_rings::ste_format(1).hash({.lookup = lookup}, wanted.tag) % kEntries;
        for (unsigned i = 0; i < kEntries; i++)
            put_ste(kFirst + i, match_ste(to_drop()));
        put_ste(kFirst + index, wanted);
        EXPECT_EQ(passed(frames::build(spec)), frames::build(spec)) << int{last};
    }
}

// As libmlx5 would compute it (dr_ste_calc_hash_index).
TEST_P(SteV1Match, TheHashIsCrc32OfTheWholeTag) {
    const Next next{.lookup = v1::lookup_of(SteType::match, 0x20)};
    Tag tag{};
    EXPECT_EQ(mlx5_rings::ste_format(1).hash(next, tag), 0u);
    tag[31] = std::byte{1};
    EXPECT_EQ(mlx5_rings::ste_format(1).hash(next, tag), 0x96300777u);
}

TEST_P(SteV1Match, ADumpHasTheDefiners) {
    EXPECT_TRUE(device->dump()["definers"].empty());
    (void)defined(22, 1, {0, 0});
    const auto definers = device->dump()["definers"];
    ASSERT_EQ(definers.size(), 1u);
    EXPECT_EQ(definers[0]["number"], number);
    EXPECT_EQ(definers[0]["layout"], 22);
    EXPECT_EQ(definers[0]["mask"], "00ffff" + std::string(58, '0'));
}

/// What a layout has no field for, or one of which this device knows nothing.
TEST_P(SteV1Match, WhatIsNotKnownOfPacketsCannotBeAskedFor) {
    const struct {
        uint16_t layout;
        size_t byte;
        uint8_t bits;
        const char* why;
    } unknown[] = {
        {0, 16, 0x60, "sniffer, loopback"},
        {0, 16, 0x0f, "types of queue and encapsulation"},
        {2, 20, 0xff, "length of the frame"},
        {6, 16, 0x01, "reserved"},
        {16, 16, 0xff, "random number"},
        {16, 27, 0x01, "function that sends"},
        {16, 28, 0xa0, "loopback, requester"},
        {22, 13, 0xc0, "port"},
        {25, 24, 0xc0, "port"},
        {28, 31, 0x01, "loopback"},
        {33, 16, 0x01, "reserved"},
    };
    for (const auto& one : unknown) {
        const Tag fields = fields_of(one.layout);
        EXPECT_EQ(fields[one.byte] & std::byte{one.bits}, std::byte{}) << one.why;
        Definer definer{.layout = one.layout, .mask = fields};
        EXPECT_TRUE(device->create_definer(definer));
        for (unsigned bit = 1; bit < 0x100; bit <<= 1) {
            if (!(one.bits & bit)) continue;
            definer.mask = {};
            definer.mask[one.byte] = std::byte(bit);
            const auto made = device->create_definer(definer);
            ASSERT_FALSE(made) << one.why;
            EXPECT_EQ(made.error(), Status::bad_parameter) << one.why;
        }
    }
}

TEST_P(SteV1Match, Layout16SeesWhoSendsAndWithWhat) {
    sends(0);
    const auto sqn = static_cast<uint8_t>(sq.number);
    MatchSte wanted = defined(16, 20, {1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, sqn});
    lead(wanted.head, to_send());
    wanted.tag[25] = std::byte{0x60}; // the types, which the mask has as well
    put_ste(1, wanted);
    put_ste(0, mask_ste(entry_at(1), Actions().set(0x7c, 0, 32, 0x01020304))); // reg_a
    send(frames::build(kV4));
    EXPECT_EQ(wire->sent.size(), 1u);
    wanted.tag[31] ^= std::byte{1};
    put_ste(1, wanted);
    send(frames::build(kV4));
    EXPECT_EQ(wire->sent.size(), 1u);
    wanted.tag[31] ^= std::byte{1}, wanted.tag[20] ^= std::byte{1};
    put_ste(1, wanted);
    send(frames::build(kV4));
    EXPECT_EQ(wire->sent.size(), 1u);
}

TEST_P(SteV1Match, DefinersComeAndGo) {
    EXPECT_FALSE(device->create_definer({.layout = 1}));
    const Number first = *device->create_definer({.layout = 0});
    const Number second = *device->create_definer({.layout = 22});
    EXPECT_NE(first, second);
    EXPECT_LT(second, 0x100u) << "entries have eight bits for it";
    EXPECT_TRUE(device->destroy_definer(first));
    EXPECT_FALSE(device->destroy_definer(first));
    EXPECT_EQ(*device->create_definer({.layout = 0}), first);
    Number made = 2;
    while (device->create_definer({.layout = 0}))
        made++;
    EXPECT_EQ(made, Definers::kEnd - Definers::kFirst);
    // One that is gone while entries name it drops their packets.
    receives();
    MatchSte left = match_ste(to_tir(tir));
    left.head.definer = static_cast<uint8_t>(second);
    miss(left.head, to_tir(tir));
    put_ste(0, left);
    EXPECT_EQ(passed(frames::build(kV4)), frames::build(kV4));
    EXPECT_TRUE(device->destroy_definer(second));
    receive(frames::build(kV4));
    EXPECT_EQ(device->counters().drop_rule, 1u);
}

} // namespace
