// SPDX-License-Identifier: BSD-3-Clause
// Software steering, format 1: what each definer layout sees of a packet, and definers as objects.
// The positions of fields are taken again from mlx5_ifc.h, byte by byte.
#include "tests/unit/softhca/refusal.hpp"
#include "tests/unit/softhca/ste_frames.hpp"
#include "tests/unit/softhca/ste_v1.hpp"

#include <nlohmann/json.hpp>

namespace {

using namespace testbed;
using namespace softhca::core::ste;

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

/// Integrity. The eight bits: checksums of the inner and of the outer layer, then lengths.
std::vector<Defined> integrity() {
    constexpr size_t kIpLength = 17, kIpChecksum = 24, kUdpLength = 39;
    const Bytes v4 = frames::build(kV4), v6 = frames::build(kV6);
    const Bytes bad_sum = flipped(v4, kIpChecksum), bad_l4 = flipped(v4, v4.size() - 1);
    // Longer than the frame. The IPv4 checksum is correct, that of UDP does not matter.
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
    /// Creates such a definer, and returns an entry with it.
    MatchSte defined(uint16_t layout, size_t at, const Bytes& bytes) {
        Definer definer{.layout = layout};
        std::fill_n(definer.mask.begin() + static_cast<ptrdiff_t>(at), bytes.size(), kAll);
        definer.mask = masked(definer.mask, fields_of(layout)); // bytes may have more than fields
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

// As libmlx5 computes it (dr_ste_calc_hash_index).
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

/// Bits without a field in the layout, or with a field that this device does not know.
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
            EXPECT_EQ(refusal(made), Status::bad_parameter) << one.why;
        }
    }
}

TEST_P(SteV1Match, Layout16SeesWhoSendsAndWithWhat) {
    sends(0);
    const auto sqn = static_cast<uint8_t>(sq.number);
    MatchSte wanted = defined(16, 20, {1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, sqn});
    lead(wanted.head, to_send());
    wanted.tag[25] = std::byte{0x60}; // the types, which the mask covers as well
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
    // Entries that name a destroyed definer drop their packets.
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
