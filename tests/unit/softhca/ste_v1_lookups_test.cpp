// SPDX-License-Identifier: BSD-3-Clause
// Software steering, format 1: what each lookup sees of a packet, and what traces say of it. The
// positions of fields are taken again from mlx5_ifc.h, byte by byte.
#include "tests/unit/softhca/ste_frames.hpp"
#include "tests/unit/softhca/ste_v1.hpp"

#include <cctype>
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace {

using namespace testbed;
using namespace softhca::core::ste;
using frames::Spec;

/// Bytes that a lookup sees of one packet, and another packet for which they differ.
struct Seen {
    const char* what;
    uint16_t lookup;
    size_t at;
    Bytes bytes;
    Bytes frame, other;
};

/// The outer lookup sees of a packet what the inner one sees of the same packet in a tunnel.
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

using SteV1Traces = SteV1Bed;

TEST_F(SteV1Traces, TracesShowEachEntryByItsAddress) {
    receives();
    Spec spec;
    constexpr uint16_t kL2Source = 0x005;
    const Bytes source(spec.src.begin(), spec.src.end());
    MaskSte first = mask_ste(to_tir(tir));
    want(first, kL2Source, 4, source);
    miss(first.head, entry_at(1));
    put_ste(0, first);
    MaskSte last = mask_ste(to_drop());
    put_ste(1, last);
    const auto in_trace = [&](const std::string& text) { return testing::HasSubstr(text); };

    post_buffers(rq, 1);
    std::string way = traced(frames::build(spec));
    EXPECT_THAT(way, in_trace(fmt::format("STE: {:#x}: hit\nSTE: to TIR {}\n", entry_at(0), tir)));
    EXPECT_THAT(way, testing::EndsWith(fmt::format("delivered to RQ {} (WQE 0)", rq.number)));

    spec.src[5] ^= 1;
    way = traced(frames::build(spec));
    EXPECT_THAT(way, in_trace(fmt::format("STE: {:#x}: miss, lookup 0x05 sees ", entry_at(0))));
    EXPECT_THAT(way,
                in_trace(fmt::format("STE: {:#x}: hit\nSTE: to the drop address\n", entry_at(1))));
    EXPECT_THAT(way, testing::EndsWith("drop_rule (a rule says so)"));

    last.head.definer = 0xee; // no lookup has that number
    put_ste(1, last);
    way = traced(frames::build(spec));
    EXPECT_THAT(way, in_trace(fmt::format("STE: {:#x} is no entry: dropped\n", entry_at(1))));
    EXPECT_THAT(way, testing::EndsWith("drop_rule (a rule says so)"));
}

} // namespace
