// SPDX-License-Identifier: BSD-3-Clause
// Every field of the match parameters, from the PRM's bytes to the packet's: it matches, and any
// wrong bit misses. Offsets are those of the kernel's mlx5_ifc.h; packets are made by hand.
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/packet.hpp"
#include "app/softhca/core/steering.hpp"
#include "app/softhca/prm/match.hpp"
#include "tests/unit/net/frames.hpp"

#include <gtest/gtest.h>

namespace {

using namespace softhca;
using frames::Bytes;
using frames::Spec;

Bytes operator+(Bytes front, const Bytes& back) {
    for (const uint8_t byte : back)
        front.push_back(byte);
    return front;
}

// ---------------------------------------------------------------- packets

constexpr uint8_t kGre = 47, kEsp = 50, kIcmp = 1, kIcmpv6 = 58;

Spec tagged_v4() {
    Spec spec;
    spec.dst = {2, 0x11, 0x22, 0x33, 0x44, 0x55};
    spec.tags = {{0x88a8, 0xb123}, {0x8100, 0x7456}};
    spec.src_ip = {10, 1, 2, 3};
    spec.dst_ip = {10, 4, 5, 6};
    spec.tos = 0xb9;
    spec.ttl = 33;
    spec.proto = frames::kTcp;
    spec.tcp_flags = frames::kSyn | frames::kPsh;
    spec.src_port = 0x1234;
    spec.dst_port = 0x4321;
    spec.sequence = 0x89abcdef;
    spec.ack = 0x13579bdf;
    return spec;
}
Spec udp_v6() {
    Spec spec = frames::ipv6_spec();
    spec.flow_label = 0xabcde;
    spec.src_port = 0x1234;
    spec.dst_port = 0x4321;
    return spec;
}
Bytes ip_of(const Spec& spec) { // without L2
    Spec untagged = spec;
    untagged.tags = {};
    const Bytes frame = frames::build(untagged);
    return {frame.begin() + 14, frame.end()};
}
Bytes over_udp(uint16_t port, const Bytes& payload) {
    Spec spec;
    spec.dst_port = port;
    spec.payload = payload;
    return frames::build(spec);
}
Bytes over_ip(uint8_t proto, const Bytes& payload, Spec spec = {}) {
    spec.proto = proto;
    spec.payload = payload;
    return frames::build(spec);
}
Bytes ethernet(uint16_t type, const Bytes& payload) {
    Spec spec;
    spec.ip = 0;
    spec.ether_type = type;
    spec.payload = payload;
    return frames::build(spec);
}

const Bytes kLabels = {0x54, 0x32, 0x1a, 0x40, 0x00, 0x01, 0x01, 0x3f}; // the second is the bottom
Bytes gre() {
    return over_ip(kGre, Bytes{0xb0, 0, 0x65, 0x58, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 9} +
                             frames::build(tagged_v4()));
}
Bytes gre_without_options() { return over_ip(kGre, Bytes{0, 0, 0x86, 0xdd} + ip_of(udp_v6())); }
Bytes vxlan() { return frames::vxlan(0xa1b2c3, frames::build(udp_v6())); }
Bytes gpe() { return over_udp(4790, Bytes{0x0c, 0, 0, 2, 0xa1, 0xb2, 0xc3, 0} + ip_of(udp_v6())); }
Bytes geneve() {
    return over_udp(6081,
                    Bytes{0x02, 0x80, 0x65, 0x58, 0xa1, 0xb2, 0xc3, 0, 1, 2, 3, 1, 0, 0, 0, 9} +
                        frames::build(tagged_v4()));
}
Bytes gtpu() { // with the sequence number option and an extension header
    return over_udp(2152,
                    Bytes{0x36, 255, 0, 60, 0xa1, 0xb2, 0xc3, 0xd4, 0, 1, 0, 0x85, 1, 2, 3, 0} +
                        ip_of(udp_v6()));
}
Bytes echo() { return over_ip(kIcmp, {8, 5, 0, 0, 0x12, 0x34, 0x56, 0x78}); }
Bytes echo6() {
    return over_ip(kIcmpv6, {128, 5, 0, 0, 0x12, 0x34, 0x56, 0x78}, frames::ipv6_spec());
}
Bytes esp() { return over_ip(kEsp, {0x11, 0x22, 0x33, 0x44, 0, 0, 0, 1}); }
Bytes mpls() { return ethernet(0x8847, kLabels + ip_of(udp_v6())); }
Bytes mpls_over_udp() { return over_udp(6635, kLabels + ip_of(udp_v6())); }
Bytes mpls_over_gre() {
    return over_ip(kGre, Bytes{0, 0, 0x88, 0x47} + kLabels + ip_of(tagged_v4()));
}
Bytes inner_mpls() { return frames::vxlan(1, mpls()); }
Bytes plain() { return frames::build(tagged_v4()); }
Bytes plain6() { return frames::build(udp_v6()); }
Bytes carried() { return frames::vxlan(1, frames::build(tagged_v4())); }
Bytes carried6() { return frames::vxlan(1, frames::build(udp_v6())); }
Bytes fragment() {
    Spec spec;
    spec.fragment = 0x2000;
    return frames::build(spec);
}

Bytes with_flipped(Bytes frame, size_t at, uint8_t bits) {
    frame[at] ^= bits;
    return frame;
}
Bytes bad_ipv4_checksum() { return with_flipped(frames::build({}), 24, 1); }
Bytes bad_udp_checksum() { return with_flipped(frames::build({}), 40, 1); }
Bytes bad_udp_length() { return with_flipped(frames::build({}), 38, 0x80); }
Bytes carries_bad_checksum() { return frames::vxlan(1, bad_udp_checksum()); }

// ---------------------------------------------------------------- fields

struct PrmField {
    const char* name;
    size_t bit, width; ///< in mlx5_ifc_fte_match_param_bits
    uint64_t value;    ///< in that packet
    Bytes (*frame)();
};
constexpr size_t kMisc = 512, kInner = 1024, kMisc2 = 1536, kMisc3 = 2048;

const PrmField kFields[] = {
    {"smac", 0, 48, 0x0215b3000002, plain},
    {"ethertype", 48, 16, 0x0800, plain},
    {"dmac", 64, 48, 0x021122334455, plain},
    {"first_prio", 112, 3, 5, plain},
    {"first_cfi", 115, 1, 1, plain},
    {"first_vid", 116, 12, 0x123, plain},
    {"ip_protocol", 128, 8, 6, plain},
    {"ip_dscp", 136, 6, 0xb9 >> 2, plain},
    {"ip_ecn", 142, 2, 1, plain},
    {"cvlan_tag", 144, 1, 0, plain},
    {"svlan_tag", 145, 1, 1, plain},
    {"frag", 146, 1, 0, plain},
    {"frag of a fragment", 146, 1, 1, fragment},
    {"ip_version", 147, 4, 4, plain},
    {"ip_version", 147, 4, 6, plain6},
    {"tcp_flags", 151, 9, frames::kSyn | frames::kPsh, plain},
    {"tcp_sport", 160, 16, 0x1234, plain},
    {"tcp_dport", 176, 16, 0x4321, plain},
    {"ipv4_ihl", 208, 4, 5, plain},
    {"l3_ok, l4_ok, ipv4_checksum_ok, l4_checksum_ok", 212, 4, 0b1111, plain},
    {"those of IPv6, which has none of L3", 212, 4, 0b1101, plain6},
    {"those of a fragment", 212, 4, 0b1010, fragment},
    {"those of no L4", 212, 4, 0b1010, echo},
    {"those of no L3", 212, 4, 0, mpls},
    {"a bad checksum of L3", 212, 4, 0b1101, bad_ipv4_checksum},
    {"a bad checksum of L4", 212, 4, 0b1110, bad_udp_checksum},
    {"a bad length of L4", 212, 4, 0b1010, bad_udp_length},
    {"ttl_hoplimit", 216, 8, 33, plain},
    {"udp_sport", 224, 16, 0x1234, plain6},
    {"udp_dport", 240, 16, 0x4321, plain6},
    {"source IPv4", 352, 32, 0x0a010203, plain},
    {"destination IPv4", 480, 32, 0x0a040506, plain},
    {"source IPv6, high", 256, 64, 0x20010db800000000, plain6},
    {"destination IPv6, low", 448, 64, 2, plain6},

    {"inner smac", kInner + 0, 48, 0x0215b3000002, carried},
    {"inner ethertype", kInner + 48, 16, 0x0800, carried},
    {"inner dmac", kInner + 64, 48, 0x021122334455, carried},
    {"inner first_vid", kInner + 116, 12, 0x123, carried},
    {"inner svlan_tag", kInner + 145, 1, 1, carried},
    {"inner ip_protocol", kInner + 128, 8, 6, carried},
    {"inner ip_dscp", kInner + 136, 6, 0xb9 >> 2, carried},
    {"inner ip_version", kInner + 147, 4, 4, carried},
    {"inner tcp_flags", kInner + 151, 9, frames::kSyn | frames::kPsh, carried},
    {"inner tcp_dport", kInner + 176, 16, 0x4321, carried},
    {"inner l3_ok and so on", kInner + 212, 4, 0b1111, carried},
    {"inner l3_ok and so on of IPv6", kInner + 212, 4, 0b1101, carried6},
    {"inner l3_ok and so on of nothing", kInner + 212, 4, 0, plain},
    {"inner checksum", kInner + 212, 4, 0b1110, carries_bad_checksum},
    {"the outer one", 212, 4, 0b1111, carries_bad_checksum},
    {"inner checksum in Geneve", kInner + 212, 4, 0b1111, geneve},
    {"inner ttl_hoplimit", kInner + 216, 8, 33, carried},
    {"inner udp_dport", kInner + 240, 16, 0x4321, carried6},
    {"inner source IPv4", kInner + 352, 32, 0x0a010203, carried},
    {"inner destination IPv6, low", kInner + 448, 64, 2, carried6},
    {"inner IPv4 in GRE", kInner + 480, 32, 0x0a040506, gre},
    {"inner IPv6 in GRE", kInner + 147, 4, 6, gre_without_options},
    {"inner of VXLAN-GPE", kInner + 240, 16, 0x4321, gpe},
    {"inner of Geneve", kInner + 64, 48, 0x021122334455, geneve},
    {"inner of GTP-U", kInner + 240, 16, 0x4321, gtpu},
    {"inner of MPLS over UDP", kInner + 240, 16, 0x4321, mpls_over_udp},
    {"inner of MPLS over GRE", kInner + 352, 32, 0x0a010203, mpls_over_gre},

    {"gre_c_present", kMisc + 0, 1, 1, gre},
    {"gre_c_present", kMisc + 0, 1, 0, gre_without_options},
    {"gre_k_present", kMisc + 2, 1, 1, gre},
    {"gre_k_present", kMisc + 2, 1, 0, gre_without_options},
    {"gre_s_present", kMisc + 3, 1, 1, gre},
    {"outer_second_prio", kMisc + 64, 3, 3, plain},
    {"outer_second_cfi", kMisc + 67, 1, 1, plain},
    {"outer_second_vid", kMisc + 68, 12, 0x456, plain},
    {"inner_second_prio", kMisc + 80, 3, 3, carried},
    {"inner_second_vid", kMisc + 84, 12, 0x456, carried},
    {"outer_second_cvlan_tag", kMisc + 96, 1, 1, plain},
    {"inner_second_cvlan_tag", kMisc + 97, 1, 1, carried},
    {"outer_second_svlan_tag", kMisc + 98, 1, 0, plain},
    {"gre_protocol", kMisc + 112, 16, 0x6558, gre},
    {"gre_key", kMisc + 128, 32, 0x01020304, gre},
    {"vxlan_vni", kMisc + 160, 24, 0xa1b2c3, vxlan},
    {"geneve_vni", kMisc + 192, 24, 0xa1b2c3, geneve},
    {"geneve_oam", kMisc + 223, 1, 1, geneve},
    {"outer_ipv6_flow_label", kMisc + 236, 20, 0xabcde, plain6},
    {"inner_ipv6_flow_label", kMisc + 268, 20, 0xabcde, carried6},
    {"geneve_opt_len", kMisc + 298, 6, 2, geneve},
    {"geneve_protocol_type", kMisc + 304, 16, 0x6558, geneve},
    {"outer_esp_spi", kMisc + 384, 32, 0x11223344, esp},

    {"outer_first_mpls", kMisc2 + 0, 32, 0x54321a40, mpls},
    {"inner_first_mpls", kMisc2 + 32, 32, 0x54321a40, inner_mpls},
    {"outer_first_mpls_over_gre", kMisc2 + 64, 32, 0x54321a40, mpls_over_gre},
    {"outer_first_mpls_over_udp", kMisc2 + 96, 32, 0x54321a40, mpls_over_udp},

    {"inner_tcp_seq_num", kMisc3 + 0, 32, 0x89abcdef, carried},
    {"outer_tcp_seq_num", kMisc3 + 32, 32, 0x89abcdef, plain},
    {"inner_tcp_ack_num", kMisc3 + 64, 32, 0x13579bdf, carried},
    {"outer_tcp_ack_num", kMisc3 + 96, 32, 0x13579bdf, plain},
    {"outer_vxlan_gpe_vni", kMisc3 + 136, 24, 0xa1b2c3, gpe},
    {"outer_vxlan_gpe_next_protocol", kMisc3 + 160, 8, 2, gpe},
    {"outer_vxlan_gpe_flags", kMisc3 + 168, 8, 0x0c, gpe},
    {"icmp_header_data", kMisc3 + 192, 32, 0x12345678, echo},
    {"icmpv6_header_data", kMisc3 + 224, 32, 0x12345678, echo6},
    {"icmp_type", kMisc3 + 256, 8, 8, echo},
    {"icmp_code", kMisc3 + 264, 8, 5, echo},
    {"icmpv6_type", kMisc3 + 272, 8, 128, echo6},
    {"icmpv6_code", kMisc3 + 280, 8, 5, echo6},
    {"gtpu_teid", kMisc3 + 320, 32, 0xa1b2c3d4, gtpu},
    {"gtpu_msg_type", kMisc3 + 352, 8, 255, gtpu},
    {"gtpu_msg_flags", kMisc3 + 360, 8, 0x36, gtpu},
};

std::vector<std::byte> prm(size_t bit, size_t width, uint64_t value) {
    std::vector<std::byte> bytes(512);
    for (size_t i = 0; i < width; i++)
        if (value >> (width - 1 - i) & 1) bytes[(bit + i) / 8] |= std::byte(0x80 >> (bit + i) % 8);
    return bytes;
}

/// Whether a rule for these bits of a field takes the packet.
bool matches(const PrmField& field, uint64_t mask_bits, uint64_t value, const core::FlowKey& key) {
    const auto mask = prm::read_match_mask(prm(field.bit, field.width, mask_bits));
    EXPECT_TRUE(mask) << field.name;
    if (!mask) return false;
    core::Tir tir;
    core::Steering steering;
    core::Flow flow;
    flow.tirs = {&tir};
    flow.mask = mask->mask;
    flow.value = core::KeyMask(mask->mask)
                     .apply(prm::read_match_value(prm(field.bit, field.width, value), *mask));
    EXPECT_TRUE(steering.insert(flow));
    return steering.match(core::FlowDomain::bypass, key) != nullptr;
}

TEST(FlowFields, EachMatchesAndMissesByOneBit) {
    for (const PrmField& field : kFields) {
        const Bytes frame = field.frame();
        const iovec piece{const_cast<uint8_t*>(frame.data()), frame.size()};
        const core::Packet packet({&piece, 1}, static_cast<uint32_t>(frame.size()));
        EXPECT_TRUE(matches(field, ~uint64_t{0}, field.value, packet.verified_key())) << field.name;
        for (size_t bit = 0; bit < field.width; bit++) {
            const uint64_t one = uint64_t{1} << bit;
            EXPECT_FALSE(matches(field, ~uint64_t{0}, field.value ^ one, packet.verified_key()))
                << field.name << " bit " << bit;
            EXPECT_TRUE(matches(field, one, field.value, packet.verified_key()))
                << field.name << " bit " << bit << " alone";
        }
    }
}

/// Whatever a frame contains and wherever it ends, nothing beyond its end is read (the sanitizers
/// check).
TEST(FlowFields, CutOffAndSpoiltFrames) {
    for (const PrmField& field : kFields) {
        const Bytes frame = field.frame();
        for (size_t bytes = net::kEthernetBytes; bytes < frame.size(); bytes++) {
            Bytes cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(bytes));
            const iovec piece{cut.data(), cut.size()};
            const core::Packet packet({&piece, 1}, static_cast<uint32_t>(cut.size()));
            EXPECT_EQ(packet.verified_key().outer.dst_mac[0], 2);
            cut[bytes - 1] = 0xff;
            const core::Packet spoilt({&piece, 1}, static_cast<uint32_t>(cut.size()));
            EXPECT_EQ(spoilt.verified_key().outer.dst_mac[0], 2);
        }
    }
}

} // namespace
