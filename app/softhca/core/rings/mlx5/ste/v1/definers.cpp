// SPDX-License-Identifier: BSD-3-Clause
// Layouts of definers: tags of 32 bytes with fields of several lookups. Source: rdma-core,
// providers/mlx5/mlx5_ifc.h, ste_def0_v1 and so on; dr_matcher.c for which of them libmlx5 uses.
#include "app/softhca/core/rings/mlx5/ste/format.hpp"
#include "app/softhca/core/rings/mlx5/ste/tags.hpp"
#include "app/softhca/core/rings/mlx5/ste/v1/layout.hpp"

namespace softhca::core::mlx5_rings::v1 {
namespace {

using ste::Tag;

constexpr Bits at(unsigned bit, unsigned width) {
    return {static_cast<uint8_t>(bit), static_cast<uint8_t>(width)};
}

/// Writes those of a packet's fields that the definer's mask includes.
class MaskedWriter : public TagWriter {
  public:
    explicit MaskedWriter(const Tag& mask) : mask_(mask) {}
    /// Whether the mask includes any of these bits, so that they are worth computing. Within one
    /// word.
    [[nodiscard]] bool wants(Bits bits) const {
        return (net::load_be<uint32_t>(&mask_[bits.at / 32 * sizeof(uint32_t)]) & ones(bits)) != 0;
    }
    [[nodiscard]] Tag masked() const { return ste::masked(tag(), mask_); }

  private:
    const Tag& mask_;
};

/// Writes ones at the positions of fields, whatever their values.
class FieldWriter : public TagWriter {
  public:
    void put(Bits bits, uint32_t) { TagWriter::put(bits, ~0u >> (32u - bits.width)); }
    void put_bytes(uint8_t word, const uint8_t*, size_t count) {
        for (size_t i = 0; i < count; i += sizeof(uint32_t))
            put(at(32u * word + 8 * i, 32), 0);
    }
    [[nodiscard]] static bool wants(Bits) { return true; }
};

// ---------------------------------------------------------------- what layouts have in common

/// A word that many layouts have in the same form for a layer: fragment, types, first tag.
template <class To> void put_l2_word(To& to, unsigned bit, const LayerKey& layer) {
    to.put(at(bit + 3, 1), layer.ip_fragment);
    to.put(at(bit + 0x0a, 2), l3_type(layer));
    to.put(at(bit + 0x0c, 2), l4_type(layer));
    put_first_vlan(to, {at(bit + 0x10, 4), at(bit + 0x0e, 2), at(bit + 0x14, 12)}, layer);
}
template <class To> void put_second_vlan_word(To& to, unsigned bit, const LayerKey& layer) {
    put_second_vlan(to, {at(bit + 0x10, 4), at(bit + 0x0e, 2), at(bit + 0x14, 12)}, layer);
}
template <class To> void put_ports(To& to, unsigned bit, const LayerKey& layer) {
    to.put(at(bit, 16), layer.src_port);
    to.put(at(bit + 16, 16), layer.dst_port);
}
template <class To>
void put_ipv4(To& to, unsigned source, unsigned destination, const LayerKey& layer) {
    to.put(at(source, 32), ipv4(layer, layer.src_ip));
    to.put(at(destination, 32), ipv4(layer, layer.dst_ip));
}
/// Types of L3, L4 and of the first tag.
template <class To> void put_types(To& to, unsigned bit, const LayerKey& layer) {
    to.put(at(bit, 2), l3_type(layer));
    to.put(at(bit + 2, 2), l4_type(layer));
    to.put(at(bit + 4, 2), qualifier(layer.svlan, layer.cvlan));
}
/// Preceded by the protocol and followed by the fragment flag.
template <class To> void put_protocol_and_types(To& to, unsigned bit, const LayerKey& layer) {
    to.put(at(bit, 8), layer.ip_proto);
    put_types(to, bit + 8, layer);
    to.put(at(bit + 14, 1), layer.ip_fragment);
}

constexpr uint32_t kEightTcpFlags = 0xff; // without NS

bool has(const LayerKey& layer, uint8_t integrity) { return (layer.integrity & integrity) != 0; }

/// Eight bits of both layers: whether checksums are right, and whether lengths are.
template <class To> void put_integrity(To& to, unsigned bit, const Packet& packet) {
    if (!to.wants(at(bit, 8))) return;
    const FlowKey& key = packet.verified_key();
    to.put(at(bit, 1), has(key.inner, Integrity::kIpv4Checksum));
    to.put(at(bit + 1, 1), has(key.inner, Integrity::kL4Checksum));
    to.put(at(bit + 2, 1), has(key.outer, Integrity::kIpv4Checksum));
    to.put(at(bit + 3, 1), has(key.outer, Integrity::kL4Checksum));
    to.put(at(bit + 4, 1), has(key.inner, Integrity::kL3));
    to.put(at(bit + 5, 1), has(key.inner, Integrity::kL4));
    to.put(at(bit + 6, 1), has(key.outer, Integrity::kL3));
    to.put(at(bit + 7, 1), has(key.outer, Integrity::kL4));
}
/// One bit of the outer layer.
template <class To>
void put_outer_integrity(To& to, unsigned bit, const Packet& packet, uint8_t integrity) {
    if (to.wants(at(bit, 1))) to.put(at(bit, 1), has(packet.verified_key().outer, integrity));
}

template <class To>
void put_tunnel_header(To& to, unsigned bit, size_t count, const Packet& packet) {
    const TunnelWords words = tunnel_words(packet);
    for (size_t i = 0; i < count; i++)
        to.put(at(bit + 32 * i, 32), words[i]);
}

/// The fields of an IPv4 header, and of TCP's, that keys lack.
template <class To> void put_header_rest(To& to, const Packet& packet) {
    const net::Headers& headers = packet.headers();
    const auto ipv4_word = [&](uint32_t at) -> uint32_t {
        return headers.ip_version == 4 ? net::load_be<uint16_t>(packet.head() + headers.l3 + at)
                                       : 0;
    };
    to.put({0x40, 16}, ipv4_word(4));  // identification
    to.put({0x50, 16}, ipv4_word(6));  // flags, offset of a fragment
    to.put({0x60, 16}, ipv4_word(2));  // length
    to.put({0x70, 16}, ipv4_word(10)); // checksum
    const bool tcp = headers.l4 != 0 && headers.ip_proto == net::kProtoTcp;
    to.put({0xe0, 4}, tcp ? static_cast<uint32_t>(packet.head()[headers.l4 + 12]) >> 4 : 0);
    to.put({0xf0, 1}, headers.fragment && headers.l3_end != 0); // the first fragment
}

// ---------------------------------------------------------------- the layouts

constexpr auto kLayout0 = [](const Packet& packet, auto& to) {
    const FlowKey& key = packet.key();
    const LayerKey& layer = key.outer;
    to.put({0, 32}, key.meta.reg_c[0]);
    to.put({0x20, 32}, key.meta.reg_c[1]);
    to.put({0x40, 32}, mac_47_16(layer.dst_mac));
    to.put({0x60, 16}, mac_15_0(layer.dst_mac));
    to.put({0x70, 16}, layer.ether_type);
    put_l2_word(to, 0x80, layer);
    put_second_vlan_word(to, 0xa0, layer);
    to.put({0xc0, 32}, mac_47_16(layer.src_mac));
    to.put({0xe0, 16}, mac_15_0(layer.src_mac));
    put_integrity(to, 0xf0, packet);
    to.put({0xf8, 8}, layer.tcp_flags & kEightTcpFlags);
};

constexpr auto kLayout2 = [](const Packet& packet, auto& to) {
    const FlowKey& key = packet.key();
    const LayerKey& layer = key.outer;
    to.put({0, 32}, key.meta.reg_a);
    to.put({0x20, 4}, layer.ip_version);
    to.put({0x24, 4}, layer.ipv4_ihl);
    to.put({0x28, 6}, layer.tos >> 2);
    to.put({0x2e, 2}, layer.tos & 3);
    to.put({0x30, 8}, layer.ttl);
    to.put({0x38, 8}, layer.ip_proto);
    to.put({0x8c, 20}, layer.flow_label);
    put_ports(to, 0xc0, layer);
    to.put({0xe6, 1}, layer.ip_fragment);
    to.put({0xe7, 9}, layer.tcp_flags);
    put_header_rest(to, packet);
    put_integrity(to, 0xf8, packet);
};

constexpr auto kLayout6 = [](const Packet& packet, auto& to) {
    const LayerKey& layer = packet.key().outer;
    to.put_bytes(0, layer.dst_ip.data(), layer.dst_ip.size());
    put_ports(to, 0xc0, layer);
    put_outer_integrity(to, 0xe4, packet, Integrity::kL4);
    put_outer_integrity(to, 0xe5, packet, Integrity::kL3);
    to.put({0xe6, 1}, layer.ip_fragment);
    to.put({0xe7, 9}, layer.tcp_flags);
};

constexpr auto kLayout16 = [](const Packet& packet, auto& to) {
    const FlowKey& key = packet.key();
    put_tunnel_header(to, 0, 4, packet);
    to.put({0xa0, 32}, key.meta.reg_a);
    put_types(to, 0xc8, key.outer);
    to.put({0xe1, 1}, key.outer.ip_fragment);
    to.put({0xe8, 24}, key.meta.source_sqn);
};

constexpr auto kLayout22 = [](const Packet& packet, auto& to) {
    const FlowKey& key = packet.key();
    const LayerKey& layer = key.outer;
    put_ipv4(to, 0, 0x20, layer);
    put_ports(to, 0x40, layer);
    put_l2_word(to, 0x60, layer);
    to.put({0x80, 32}, key.meta.reg_c[0]);
    to.put({0xa0, 32}, mac_47_16(layer.dst_mac));
    to.put({0xc0, 32}, mac_47_16(layer.src_mac));
    to.put({0xe0, 16}, mac_15_0(layer.src_mac));
    to.put({0xf0, 16}, mac_15_0(layer.dst_mac));
};

constexpr auto kLayout24 = [](const Packet& packet, auto& to) {
    const FlowKey& key = packet.key();
    to.put({0, 32}, key.meta.reg_c[2]);
    to.put({0x20, 32}, key.meta.reg_c[3]);
    to.put({0x40, 32}, key.meta.reg_c[0]);
    to.put({0x60, 32}, key.meta.reg_c[1]);
    put_ipv4(to, 0x80, 0xa0, key.outer);
    put_ports(to, 0xc0, key.outer);
    put_protocol_and_types(to, 0xe0, key.inner);
    put_protocol_and_types(to, 0xf0, key.outer);
};

constexpr auto kLayout25 = [](const Packet& packet, auto& to) {
    const FlowKey& key = packet.key();
    put_ipv4(to, 0, 0x20, key.inner);
    put_ports(to, 0x40, key.inner);
    put_tunnel_header(to, 0x60, 2, packet);
    put_types(to, 0xc2, key.inner);
    put_types(to, 0xca, key.outer);
    to.put({0xd0, 16}, key.outer.dst_port);
};

constexpr auto kLayout26 = [](const Packet& packet, auto& to) {
    const LayerKey& layer = packet.key().outer;
    constexpr decltype(layer.src_ip) kNone{};
    const auto& source = layer.ip_version == 6 ? layer.src_ip : kNone;
    to.put_bytes(0, source.data(), source.size());
    put_l2_word(to, 0x80, layer);
    to.put({0xab, 1}, 1); // L2 is sound: unsound frames do not get into the device
    put_outer_integrity(to, 0xac, packet, Integrity::kL3);
    put_outer_integrity(to, 0xad, packet, Integrity::kL4);
    put_second_vlan_word(to, 0xa0, layer);
    to.put({0xc0, 32}, mac_47_16(layer.src_mac));
    to.put({0xe0, 16}, mac_15_0(layer.src_mac));
    to.put({0xf0, 8}, layer.ip_proto);
    to.put({0xf8, 8}, layer.tcp_flags & kEightTcpFlags);
};

constexpr auto kLayout28 = [](const Packet& packet, auto& to) {
    const FlowKey& key = packet.key();
    put_ports(to, 0, key.inner);
    to.put({0x20, 32}, key.tunnel.gtpu_teid);
    put_ipv4(to, 0x40, 0x60, key.inner);
    put_ipv4(to, 0x80, 0xa0, key.outer);
    put_ports(to, 0xc0, key.outer);
    put_protocol_and_types(to, 0xe0, key.inner);
    put_protocol_and_types(to, 0xf0, key.outer);
};

constexpr auto kLayout33 = [](const Packet& packet, auto& to) {
    const LayerKey& layer = packet.key().outer;
    put_ipv4(to, 0, 0x20, layer);
    put_ports(to, 0x40, layer);
    put_l2_word(to, 0x60, layer);
    to.put({0xe0, 4}, layer.ip_version);
    to.put({0xe4, 4}, layer.ipv4_ihl);
    put_integrity(to, 0xe8, packet);
    to.put({0xf0, 8}, layer.ttl);
    to.put({0xf8, 8}, layer.ip_proto);
};

struct Layout {
    uint8_t number;
    void (*write)(const Packet&, MaskedWriter&);
    void (*mark)(const Packet&, FieldWriter&);
};
template <class L> constexpr Layout row(uint8_t number, L layout) {
    return {number, layout, layout};
}
constexpr Layout kLayouts[] = {row(0, kLayout0),   row(2, kLayout2),   row(6, kLayout6),
                               row(16, kLayout16), row(22, kLayout22), row(24, kLayout24),
                               row(25, kLayout25), row(26, kLayout26), row(28, kLayout28),
                               row(33, kLayout33)};

const Layout* find(uint16_t number) {
    for (const Layout& layout : kLayouts)
        if (layout.number == number) return &layout;
    return nullptr;
}

} // namespace

std::optional<Tag> layout_fields(uint16_t number) {
    const Layout* const layout = find(number);
    if (!layout) return {};
    std::array<std::byte, net::kEthernetBytes> frame{}; // any would do
    const iovec piece{frame.data(), frame.size()};
    FieldWriter to;
    layout->mark(Packet({&piece, 1}, frame.size()), to);
    return to.tag();
}

bool look_up(const ste::Definer& definer, const Packet& packet, Tag& tag) {
    const Layout* const layout = find(definer.layout);
    if (!layout) return false;
    MaskedWriter to(definer.mask);
    layout->write(packet, to);
    tag = to.masked();
    return true;
}

} // namespace softhca::core::mlx5_rings::v1

namespace softhca::core::mlx5_rings {

uint64_t definer_layouts() {
    uint64_t layouts = 0;
    for (const v1::Layout& layout : v1::kLayouts)
        layouts |= uint64_t{1} << layout.number;
    return layouts;
}

} // namespace softhca::core::mlx5_rings
