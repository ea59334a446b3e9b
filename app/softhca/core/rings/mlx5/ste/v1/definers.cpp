// SPDX-License-Identifier: BSD-3-Clause
// Layouts of definers: tags of 32 bytes with fields of several lookups. Source: rdma-core,
// providers/mlx5/mlx5_ifc.h, ste_def0_v1 and so on; which of them libmlx5 asks for, dr_matcher.c.
#include "app/softhca/core/rings/mlx5/ste/format.hpp"
#include "app/softhca/core/rings/mlx5/ste/tags.hpp"
#include "app/softhca/core/rings/mlx5/ste/v1/layout.hpp"

namespace softhca::core::mlx5_rings::v1 {
namespace {

using ste::Tag;

constexpr Bits at(unsigned bit, unsigned width) {
    return {static_cast<uint8_t>(bit), static_cast<uint8_t>(width)};
}

/// A word with what many layouts have of a layer in the same way: fragment, types, first tag.
void put_l2_word(TagWriter& to, unsigned bit, const LayerKey& layer) {
    to.put(at(bit + 3, 1), layer.ip_fragment);
    to.put(at(bit + 0x0a, 2), l3_type(layer));
    to.put(at(bit + 0x0c, 2), l4_type(layer));
    put_first_vlan(to, {at(bit + 0x10, 4), at(bit + 0x0e, 2), at(bit + 0x14, 12)}, layer);
}
void put_second_vlan_word(TagWriter& to, unsigned bit, const LayerKey& layer) {
    put_second_vlan(to, {at(bit + 0x10, 4), at(bit + 0x0e, 2), at(bit + 0x14, 12)}, layer);
}
void put_ports(TagWriter& to, unsigned bit, const LayerKey& layer) {
    to.put(at(bit, 16), layer.src_port);
    to.put(at(bit + 16, 16), layer.dst_port);
}
void put_ipv4(TagWriter& to, unsigned source, unsigned destination, const LayerKey& layer) {
    to.put(at(source, 32), ipv4(layer, layer.src_ip));
    to.put(at(destination, 32), ipv4(layer, layer.dst_ip));
}
/// Protocol, types of L3, L4 and of the first tag, fragment.
void put_types(TagWriter& to, unsigned bit, const LayerKey& layer) {
    to.put(at(bit, 8), layer.ip_proto);
    to.put(at(bit + 8, 2), l3_type(layer));
    to.put(at(bit + 10, 2), l4_type(layer));
    to.put(at(bit + 12, 2), qualifier(layer.svlan, layer.cvlan));
    to.put(at(bit + 14, 1), layer.ip_fragment);
}
constexpr uint32_t kEightTcpFlags = 0xff; // without NS

void layout_0(const FlowKey& key, TagWriter& to) {
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
    to.put({0xf8, 8}, layer.tcp_flags & kEightTcpFlags);
}

void layout_2(const FlowKey& key, TagWriter& to) {
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
}

void layout_6(const FlowKey& key, TagWriter& to) {
    const LayerKey& layer = key.outer;
    to.put_bytes(0, layer.dst_ip.data(), layer.dst_ip.size());
    put_ports(to, 0xc0, layer);
    to.put({0xe6, 1}, layer.ip_fragment);
    to.put({0xe7, 9}, layer.tcp_flags);
}

void layout_22(const FlowKey& key, TagWriter& to) {
    const LayerKey& layer = key.outer;
    put_ipv4(to, 0, 0x20, layer);
    put_ports(to, 0x40, layer);
    put_l2_word(to, 0x60, layer);
    to.put({0x80, 32}, key.meta.reg_c[0]);
    to.put({0xa0, 32}, mac_47_16(layer.dst_mac));
    to.put({0xc0, 32}, mac_47_16(layer.src_mac));
    to.put({0xe0, 16}, mac_15_0(layer.src_mac));
    to.put({0xf0, 16}, mac_15_0(layer.dst_mac));
}

void layout_24(const FlowKey& key, TagWriter& to) {
    to.put({0, 32}, key.meta.reg_c[2]);
    to.put({0x20, 32}, key.meta.reg_c[3]);
    to.put({0x40, 32}, key.meta.reg_c[0]);
    to.put({0x60, 32}, key.meta.reg_c[1]);
    put_ipv4(to, 0x80, 0xa0, key.outer);
    put_ports(to, 0xc0, key.outer);
    put_types(to, 0xe0, key.inner);
    put_types(to, 0xf0, key.outer);
}

void layout_26(const FlowKey& key, TagWriter& to) {
    const LayerKey& layer = key.outer;
    if (layer.ip_version == 6) to.put_bytes(0, layer.src_ip.data(), layer.src_ip.size());
    put_l2_word(to, 0x80, layer);
    put_second_vlan_word(to, 0xa0, layer);
    to.put({0xc0, 32}, mac_47_16(layer.src_mac));
    to.put({0xe0, 16}, mac_15_0(layer.src_mac));
    to.put({0xf0, 8}, layer.ip_proto);
    to.put({0xf8, 8}, layer.tcp_flags & kEightTcpFlags);
}

void layout_33(const FlowKey& key, TagWriter& to) {
    const LayerKey& layer = key.outer;
    put_ipv4(to, 0, 0x20, layer);
    put_ports(to, 0x40, layer);
    put_l2_word(to, 0x60, layer);
    to.put({0xe0, 4}, layer.ip_version);
    to.put({0xe4, 4}, layer.ipv4_ihl);
    to.put({0xf0, 8}, layer.ttl);
    to.put({0xf8, 8}, layer.ip_proto);
}

/// Those that have random numbers or raw words of tunnels (16, 25, 28) are left out: libmlx5 takes
/// several entries instead.
struct Layout {
    uint8_t number;
    void (*write)(const FlowKey&, TagWriter&);
};
constexpr Layout kLayouts[] = {{0, layout_0},   {2, layout_2},   {6, layout_6},  {22, layout_22},
                               {24, layout_24}, {26, layout_26}, {33, layout_33}};

const Layout* find(uint16_t number) {
    for (const Layout& layout : kLayouts)
        if (layout.number == number) return &layout;
    return nullptr;
}

} // namespace

bool has_layout(uint16_t layout) { return find(layout) != nullptr; }

bool look_up(const ste::Definer& definer, const Packet& packet, Tag& tag) {
    const Layout* const layout = find(definer.layout);
    if (!layout) return false;
    TagWriter to;
    layout->write(packet.key(), to);
    tag = ste::masked(to.tag(), definer.mask);
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
