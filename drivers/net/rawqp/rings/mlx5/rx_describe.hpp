// SPDX-License-Identifier: BSD-3-Clause
// Translates what a CQE says about its packet into mbuf terms: branchless tables, for one packet at
// a time and, cut into pieces, for vectors. Each instruction set compiles this header for itself:
// functions may not be shared by the linker.
#pragma once

#include "drivers/net/rawqp/flow_tag.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_options.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"
#include "drivers/net/rawqp/rings/rx_checksum.hpp"

#include <array>

namespace rawqp::mlx5rings {

/// Fields of Cqe::l4_l3_type.
constexpr mlx5::CqeL3 l3_of(uint8_t l4_l3_type) {
    return static_cast<mlx5::CqeL3>((l4_l3_type >> 2) & 0x3);
}
constexpr mlx5::CqeL4 l4_of(uint8_t l4_l3_type) {
    return static_cast<mlx5::CqeL4>((l4_l3_type >> 4) & 0x7);
}
constexpr bool is_tcp(mlx5::CqeL4 l4) {
    return l4 == mlx5::CqeL4::tcp_no_ack || l4 == mlx5::CqeL4::tcp_ack ||
           l4 == mlx5::CqeL4::tcp_ack_data;
}

constexpr uint32_t packet_type(uint8_t l4_l3_type) {
    uint32_t type = RTE_PTYPE_L2_ETHER;
    switch (l3_of(l4_l3_type)) {
    case mlx5::CqeL3::ipv4: type |= RTE_PTYPE_L3_IPV4_EXT_UNKNOWN; break;
    case mlx5::CqeL3::ipv6: type |= RTE_PTYPE_L3_IPV6_EXT_UNKNOWN; break;
    default: return type;
    }
    if (l4_l3_type & mlx5::kIpFragment) return type | RTE_PTYPE_L4_FRAG;
    const mlx5::CqeL4 l4 = l4_of(l4_l3_type);
    if (is_tcp(l4)) return type | RTE_PTYPE_L4_TCP;
    if (l4 == mlx5::CqeL4::udp) return type | RTE_PTYPE_L4_UDP;
    return type | RTE_PTYPE_L4_NONFRAG;
}

/// Of a packet whose Cqe::packet_info says kTunnelled: `l4_l3_type` is about the inner packet. The
/// device does not tell the kind of tunnel: see RxRing::tunnel_type.
constexpr uint32_t tunnel_type(uint8_t packet_info, uint8_t l4_l3_type) {
    uint32_t type =
        RTE_PTYPE_L2_ETHER | (packet_info & mlx5::kOuterIpv6 ? RTE_PTYPE_L3_IPV6_EXT_UNKNOWN
                                                             : RTE_PTYPE_L3_IPV4_EXT_UNKNOWN);
    switch (l3_of(l4_l3_type)) {
    case mlx5::CqeL3::ipv4: type |= RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN; break;
    case mlx5::CqeL3::ipv6: type |= RTE_PTYPE_INNER_L3_IPV6_EXT_UNKNOWN; break;
    default: return type;
    }
    if (l4_l3_type & mlx5::kIpFragment) return type | RTE_PTYPE_INNER_L4_FRAG;
    const mlx5::CqeL4 l4 = l4_of(l4_l3_type);
    if (is_tcp(l4)) return type | RTE_PTYPE_INNER_L4_TCP;
    if (l4 == mlx5::CqeL4::udp) return type | RTE_PTYPE_INNER_L4_UDP;
    return type | RTE_PTYPE_INNER_L4_NONFRAG;
}

/// Checksum and VLAN flags. The device tells which checksums are right; those of IPv4 headers, TCP
/// and UDP that it does not vouch for are unproven. A fragment's L4 checksum cannot be known.
constexpr uint64_t receive_flags(uint8_t hds_ip_ext, uint8_t l4_l3_type) {
    uint64_t flags = 0;
    if (l4_l3_type & mlx5::kVlanStripped) flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;

    const mlx5::CqeL3 l3 = l3_of(l4_l3_type);
    const mlx5::CqeL4 l4 = l4_of(l4_l3_type);
    const bool l3_ok = (hds_ip_ext & mlx5::kL3Ok) != 0;
    const bool l4_ok = (hds_ip_ext & mlx5::kL4Ok) != 0;
    if (l3 == mlx5::CqeL3::ipv4)
        flags |= l3_ok ? RTE_MBUF_F_RX_IP_CKSUM_GOOD : RTE_MBUF_F_RX_IP_CKSUM_BAD;

    const bool ip = l3 == mlx5::CqeL3::ipv4 || l3 == mlx5::CqeL3::ipv6;
    const bool has_l4 = ip && (is_tcp(l4) || l4 == mlx5::CqeL4::udp);
    if (has_l4 && !(l4_l3_type & mlx5::kIpFragment))
        flags |= l4_ok ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : RTE_MBUF_F_RX_L4_CKSUM_BAD;
    return flags;
}

/// packet_type by l4_l3_type >> 2 (its low two bits do not matter).
inline constexpr auto kPacketTypes = [] {
    std::array<uint32_t, 64> table{};
    for (unsigned i = 0; i < table.size(); ++i)
        table[i] = packet_type(static_cast<uint8_t>(i << 2));
    return table;
}();

constexpr unsigned tunnel_index(uint8_t packet_info, uint8_t l4_l3_type) {
    static_assert(mlx5::kOuterIpv6 == 1u << 1);
    return static_cast<unsigned>(packet_info & mlx5::kOuterIpv6) << 5 | l4_l3_type >> 2;
}

/// tunnel_type by tunnel_index.
inline constexpr auto kTunnelTypes = [] {
    std::array<uint32_t, 128> table{};
    for (unsigned i = 0; i < table.size(); ++i)
        table[i] = tunnel_type(static_cast<uint8_t>(i >> 5 & mlx5::kOuterIpv6),
                               static_cast<uint8_t>(i << 2));
    return table;
}();

constexpr unsigned flags_index(uint8_t hds_ip_ext, uint8_t l4_l3_type) {
    return static_cast<unsigned>(hds_ip_ext & (mlx5::kL3Ok | mlx5::kL4Ok)) << 7 | l4_l3_type;
}
static_assert((mlx5::kL3Ok | mlx5::kL4Ok) == 0x6);

/// receive_flags by flags_index. The flags in question are among the low 16 bits.
inline constexpr auto kReceiveFlags = [] {
    std::array<uint16_t, 1024> table{};
    for (unsigned ok = 0; ok < 4; ++ok) {
        for (unsigned type = 0; type < 256; ++type) {
            const auto hds = static_cast<uint8_t>(ok << 1);
            const auto l4_l3 = static_cast<uint8_t>(type);
            table[flags_index(hds, l4_l3)] = static_cast<uint16_t>(receive_flags(hds, l4_l3));
        }
    }
    return table;
}();

/// A lane of a vector, or a table for byte shuffles within lanes.
using Lane = std::array<uint8_t, 16>;

// The tables above cut into 16-byte pieces, for byte shuffles. Two small indices replace a large
// one; every entry is computed from the functions above.

/// First index: L3 type (Cqe::l4_l3_type bits 3:2), then kL3Ok, then kL4Ok.
constexpr unsigned kLookupL3Ok = 1u << 2;
constexpr unsigned kLookupL4Ok = 1u << 3;
/// Second index: the high nibble of Cqe::l4_l3_type, L4 type and fragment.

/// Bits of a verdict: those of RTE_MBUF_F_RX_* in place, except L4_CKSUM_GOOD, which does not fit
/// into a byte and is moved to bit 0.
constexpr uint8_t kVerdictL4Good = RTE_MBUF_F_RX_L4_CKSUM_GOOD >> 8;
constexpr uint8_t kVerdictL4 = kVerdictL4Good | RTE_MBUF_F_RX_L4_CKSUM_BAD;
constexpr uint8_t kVerdictIp = RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_IP_CKSUM_BAD;
static_assert(RTE_MBUF_F_RX_L4_CKSUM_GOOD == 1u << 8 && (kVerdictL4 & kVerdictIp) == 0);

constexpr uint8_t kSomeUdp = static_cast<uint8_t>(mlx5::CqeL4::udp) << 4;

/// Verdict by the first index, as if L4 were UDP.
inline constexpr Lane kVerdicts = [] {
    Lane table{};
    for (unsigned i = 0; i < table.size(); ++i) {
        const auto ok = static_cast<uint8_t>((i & kLookupL3Ok ? mlx5::kL3Ok : 0) |
                                             (i & kLookupL4Ok ? mlx5::kL4Ok : 0));
        const uint64_t flags = receive_flags(ok, static_cast<uint8_t>((i & 3) << 2 | kSomeUdp));
        table[i] = static_cast<uint8_t>((flags & 0xff) | flags >> 8);
    }
    return table;
}();

/// By the second index: which part of the verdict applies.
inline constexpr Lane kVerdictMasks = [] {
    Lane table{};
    for (unsigned i = 0; i < table.size(); ++i) {
        constexpr uint8_t kAllOk = mlx5::kL3Ok | mlx5::kL4Ok;
        constexpr uint8_t kIpv6 = static_cast<uint8_t>(mlx5::CqeL3::ipv6) << 2;
        const uint64_t flags = receive_flags(kAllOk, static_cast<uint8_t>(i << 4 | kIpv6));
        table[i] = flags != 0 ? kVerdictIp | kVerdictL4 : kVerdictIp;
    }
    return table;
}();

/// Low byte of the packet type (L2, L3) by the first index.
inline constexpr Lane kTypesL3 = [] {
    Lane table{};
    for (unsigned i = 0; i < table.size(); ++i)
        table[i] = static_cast<uint8_t>(packet_type(static_cast<uint8_t>((i & 3) << 2)));
    return table;
}();

/// 0xff by the first index where L3 is IP.
inline constexpr Lane kTypeMasks = [] {
    Lane table{};
    for (unsigned i = 0; i < table.size(); ++i)
        table[i] = kTypesL3[i] != RTE_PTYPE_L2_ETHER ? 0xff : 0;
    return table;
}();

/// Second byte of the packet type (L4) by the second index.
inline constexpr Lane kTypesL4 = [] {
    Lane table{};
    for (unsigned i = 0; i < table.size(); ++i) {
        constexpr uint8_t kIpv4 = static_cast<uint8_t>(mlx5::CqeL3::ipv4) << 2;
        table[i] = static_cast<uint8_t>(packet_type(static_cast<uint8_t>(i << 4 | kIpv4)) >> 8);
    }
    return table;
}();

// The 32 bytes of an mbuf that receive writes: rearm word and flags, then these fields.
static_assert(offsetof(rte_mbuf, ol_flags) == offsetof(rte_mbuf, rearm_data) + 8);
static_assert(offsetof(rte_mbuf, packet_type) == offsetof(rte_mbuf, rearm_data) + 16);
static_assert(offsetof(rte_mbuf, pkt_len) == offsetof(rte_mbuf, packet_type) + 4);
static_assert(offsetof(rte_mbuf, data_len) == offsetof(rte_mbuf, packet_type) + 8);
static_assert(offsetof(rte_mbuf, vlan_tci) == offsetof(rte_mbuf, packet_type) + 10);
static_assert(offsetof(rte_mbuf, hash.rss) == offsetof(rte_mbuf, packet_type) + 12);

namespace {

inline void* first_half(rte_mbuf* mbuf) { return compat::mbuf_rearm_word(mbuf); }
inline void* second_half(rte_mbuf* mbuf) { return compat::mbuf_rx_fields(mbuf); }

/// Bytes of the packet, from the byte count of its CQE or mini CQE.
template <RxOptions O, class Ring>
inline uint32_t packet_bytes(const Ring& ring, uint32_t byte_count) {
    return O.crc ? byte_count - ring.extras.crc_bytes : byte_count;
}

/// RTE_MBUF_F_RX_FDIR* and the id of a rule's mark; see flow_tag.hpp.
inline uint64_t read_mark(const Cqe& cqe, rte_mbuf& mbuf) {
    const uint32_t tag = cqe.sop_drop_qpn & mlx5::kFlowTagMask;
    mbuf.hash.fdir.hi = mark_of_tag(tag);
    const uint64_t id = tag == kFlowTagFlag ? 0 : RTE_MBUF_F_RX_FDIR_ID;
    return tag == kFlowTagNone ? 0 : RTE_MBUF_F_RX_FDIR | id;
}

/// Puts the time stamp into the mbuf; its flag is set elsewhere.
template <RxOptions O, class Ring> inline void stamp(Ring& ring, const Cqe& cqe, rte_mbuf& mbuf) {
    uint64_t time = cqe.timestamp;
    if constexpr (O.stamps == Stamps::real_time) time = ring.clock.nanoseconds(time);
    *RTE_MBUF_DYNFIELD(&mbuf, ring.extras.timestamp_offset, rte_mbuf_timestamp_t*) = time;
}

/// Puts metadata that rules have set into the mbuf; zero is none.
template <class Ring> inline void tell_metadata(const Ring& ring, const Cqe& cqe, rte_mbuf& mbuf) {
    const uint32_t data = cqe.metadata;
    if (data == 0) return;
    *RTE_MBUF_DYNFIELD(&mbuf, ring.metadata_offset, uint32_t*) = data;
    mbuf.ol_flags |= ring.metadata_flag;
}
/// The same for a packet of a compressed block, if its model has some.
template <class Ring>
inline void copy_metadata(const Ring& ring, const rte_mbuf& model, rte_mbuf& mbuf) {
    *RTE_MBUF_DYNFIELD(&mbuf, ring.metadata_offset, uint32_t*) =
        *RTE_MBUF_DYNFIELD(&model, ring.metadata_offset, const uint32_t*);
}

/// Corrects the mbuf of a tunnelled packet that was described as an untunnelled one. What is wrong
/// may be the outer header as well as the inner one, which the flags are about: nothing is known.
template <class Ring>
inline void describe_tunnel(const Ring& ring, const Cqe& cqe, rte_mbuf& mbuf) {
    mbuf.packet_type = kTunnelTypes[tunnel_index(cqe.packet_info, cqe.l4_l3_type)] |
                       __atomic_load_n(&ring.tunnel_type, __ATOMIC_RELAXED);
    mbuf.ol_flags &= ~kUnproven;
}

/// Fills the first segment's mbuf from the CQE, as if the packet were one segment of `bytes`. With
/// offloads, returns the flags: the caller settles any kUnproven ones when the packet is whole.
template <RxOptions O, class Ring>
inline auto describe(Ring& ring, const Cqe& cqe, rte_mbuf& mbuf, uint32_t bytes) {
    rearm_mbuf(mbuf, ring.rearm);
    mbuf.packet_type = kPacketTypes[cqe.l4_l3_type >> 2];
    mbuf.pkt_len = bytes;
    mbuf.data_len = static_cast<uint16_t>(bytes);
    mbuf.vlan_tci = cqe.vlan_info;
    mbuf.hash.rss = cqe.rx_hash_result;
    uint64_t flags = ring.base_flags;
    if constexpr (O.offloads) {
        flags |= kReceiveFlags[flags_index(cqe.hds_ip_ext, cqe.l4_l3_type)] & ring.flags_mask;
        flags |= cqe.rx_hash_type != 0 ? ring.hash_flag : 0;
    }
    if constexpr (O.mark) flags |= read_mark(cqe, mbuf);
    if constexpr (O.stamps != Stamps::none) {
        stamp<O>(ring, cqe, mbuf);
        flags |= ring.extras.timestamp_flag;
    }
    mbuf.ol_flags = flags;
    if constexpr (O.mark)
        if (ring.metadata_flag != 0) [[unlikely]]
            tell_metadata(ring, cqe, mbuf);
    if (cqe.packet_info & mlx5::kTunnelled) [[unlikely]]
        describe_tunnel(ring, cqe, mbuf);
    if constexpr (O.offloads) return flags;
}

/// The same for a packet of a compressed block, from the hash or checksum of its mini CQE; the
/// title told the rest.
template <RxOptions O, class Ring>
inline void describe_from_block(Ring& ring, uint32_t result, rte_mbuf& mbuf, uint32_t bytes) {
    const rte_mbuf& model = ring.block.model();
    rearm_mbuf(mbuf, ring.rearm);
    mbuf.ol_flags = model.ol_flags;
    mbuf.packet_type = model.packet_type;
    mbuf.pkt_len = bytes;
    mbuf.data_len = static_cast<uint16_t>(bytes);
    mbuf.vlan_tci = model.vlan_tci;
    mbuf.hash.rss = ring.block.hashes ? result : 0;
    if constexpr (O.mark) {
        mbuf.hash.fdir.hi = model.hash.fdir.hi;
        if (model.ol_flags & ring.metadata_flag) [[unlikely]]
            copy_metadata(ring, model, mbuf);
    }
}

/// For bursts that report everything: also marks PTP messages among the `count` packets, if wanted.
template <RxOptions O, class Ring>
inline uint16_t with_ptp(Ring& ring, rte_mbuf** packets, uint16_t count) {
    if constexpr (O.stamps != Stamps::none)
        if (__atomic_load_n(&ring.tell_ptp, __ATOMIC_RELAXED))
            note_ptp(ring.queue_id, ring.extras.timestamp_offset, ring.ptp, packets, count);
    return count;
}

/// The CQE at the consumer index is a compressed block's title: packets come from the block until
/// it is used up. False: no device writes such a block.
template <RxOptions O, class Ring> inline bool open_block(Ring& ring) {
    owner_before_content();
    const Cqe& title = ring.cq.at(ring.cq.consumer);
    const uint32_t count = Cq::completions(title);
    if (count == 0 || count > ring.posted()) return false;
    ring.block.open(ring.cq, count);
    describe<O>(ring, title, ring.block.model(), 0);
    ring.cq.block_left = static_cast<uint8_t>(count);
    return true;
}

} // namespace
} // namespace rawqp::mlx5rings
