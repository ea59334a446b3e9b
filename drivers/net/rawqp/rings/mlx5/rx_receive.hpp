// SPDX-License-Identifier: BSD-3-Clause
// The receive burst on mapped rings, and its steps for one packet at a time.
//
// A reader has the steps that instruction sets do differently:
//   take<O>(ring, packets, run, bytes)  plain CQEs, until one is something else
//   decompress<O>(ring, minis, mbufs, packets, count, bytes)  mini CQEs of one array
//   refill(ring)  a batch of buffers on the short path; false: the long one is needed
// Each instruction set compiles this header for itself: nothing here may be shared by the linker.
#pragma once

#include "drivers/net/rawqp/flow_tag.hpp"
#include "drivers/net/rawqp/rings/burst_name.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_burst.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_tables.hpp"
#include "drivers/net/rawqp/rings/rx_fill.hpp"

#include <algorithm>
#include <utility>

namespace rawqp::mlx5rings {
namespace {

enum class Stamps : uint8_t { none, ticks, real_time };

struct RxOptions {
    bool scattered = false; ///< packets over several mbufs
    bool offloads = false;  ///< checksum, VLAN or hash wanted
    bool crc = false;       ///< may be kept behind the packet
    Stamps stamps = Stamps::none;
    bool mark = false; ///< rte_flow marks in use
};

/// RTE_MBUF_F_RX_FDIR* and the id of a rule's mark; see flow_tag.hpp.
inline uint64_t read_mark(const Cqe& cqe, rte_mbuf& mbuf) {
    const uint32_t tag = cqe.sop_drop_qpn & mlx5::kFlowTagMask;
    mbuf.hash.fdir.hi = mark_of_tag(tag);
    const uint64_t id = tag == kFlowTagFlag ? 0 : RTE_MBUF_F_RX_FDIR_ID;
    return tag == kFlowTagNone ? 0 : RTE_MBUF_F_RX_FDIR | id;
}

/// The time stamp in the mbuf; its flag is set elsewhere.
template <RxOptions O, class Ring> inline void stamp(Ring& ring, const Cqe& cqe, rte_mbuf& mbuf) {
    uint64_t time = cqe.timestamp;
    if constexpr (O.stamps == Stamps::real_time) time = ring.clock.nanoseconds(time);
    *RTE_MBUF_DYNFIELD(&mbuf, ring.extras.timestamp_offset, rte_mbuf_timestamp_t*) = time;
}

/// Corrects what was said of a tunnelled packet as if it were none. What is wrong there may be the
/// outer header as well as the inner one, which the flags are about: nothing is known.
inline void describe_tunnel(const Cqe& cqe, rte_mbuf& mbuf) {
    mbuf.packet_type = kTunnelTypes[tunnel_index(cqe.packet_info, cqe.l4_l3_type)];
    mbuf.ol_flags &= ~kUnproven;
}

/// Fills the first segment's mbuf from the CQE, as if the packet were one segment of `bytes`.
/// With offloads, returns flags: kUnproven among them is the caller's to settle when the packet is
/// whole.
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
    if (cqe.packet_info & mlx5::kTunnelled) [[unlikely]]
        describe_tunnel(cqe, mbuf);
    if constexpr (O.offloads) return flags;
}

/// Bytes of the packet by what the CQE or mini CQE counts.
template <RxOptions O, class Ring>
inline uint32_t packet_bytes(const Ring& ring, uint32_t byte_count) {
    return O.crc ? byte_count - ring.extras.crc_bytes : byte_count;
}

/// The mbufs of WQE `index` (which counts without end).
template <RxOptions O> inline rte_mbuf** slot_mbufs(const MlxRxRing& ring, uint32_t index) {
    const uint32_t slot = index & ring.mask;
    return &ring.mbufs[O.scattered ? slot << ring.log_segments : slot];
}

/// Up to `run` packets, one by one, none behind the ring's or the CQ's end. Returns how many; the
/// ring has moved on by them.
template <RxOptions O>
inline uint32_t take_single(MlxRxRing& ring, rte_mbuf** packets, uint32_t run, uint64_t& bytes) {
    constexpr uint32_t kPrefetchAhead = 3; // packets
    const uint8_t expected = ring.cq.expected(CqeOpcode::resp_send, ring.cq.consumer);
    const Cqe* const cqes = &ring.cq.at(ring.cq.consumer);
    const uint32_t first = ring.consumer;
    uint64_t sum = 0;
    uint64_t seen = 0; // all flags together
    uint32_t taken = 0;
    for (; taken < run; ++taken) {
        const Cqe& cqe = cqes[taken];
        if ((load_op_own(cqe) & Cq::kAllButSolicited) != expected) break;
        owner_before_content();
        rte_mbuf** mbufs = slot_mbufs<O>(ring, first + taken);
        packets[taken] = mbufs[0];
        rte_prefetch0(*slot_mbufs<O>(ring, first + taken + kPrefetchAhead));
        const uint32_t length = packet_bytes<O>(ring, cqe.byte_count);
        if constexpr (O.offloads)
            seen |= describe<O>(ring, cqe, *mbufs[0], length);
        else
            describe<O>(ring, cqe, *mbufs[0], length);
        if constexpr (O.scattered) take_chain(ring, mbufs, length);
        sum += length;
    }
    if constexpr (O.offloads)
        if (seen & kUnproven) [[unlikely]]
            settle_checksums(packets, taken);
    bytes += sum;
    ring.cq.consumer += taken;
    ring.consumer = static_cast<uint16_t>(first + taken);
    return taken;
}

/// `count` packets of mini CQEs. All but their length and hash is in the block's model.
template <RxOptions O>
inline void decompress_single(MlxRxRing& ring, const mlx5::MiniCqe* minis, rte_mbuf** mbufs,
                              rte_mbuf** packets, uint32_t count, uint64_t& bytes) {
    const rte_mbuf& model = ring.block.model();
    for (uint32_t i = 0; i < count; ++i) {
        rte_mbuf** const first = &mbufs[O.scattered ? i << ring.log_segments : i];
        rte_mbuf* const mbuf = packets[i] = *first;
        const uint32_t length = packet_bytes<O>(ring, minis[i].byte_count);
        rearm_mbuf(*mbuf, ring.rearm);
        mbuf->ol_flags = model.ol_flags;
        mbuf->packet_type = model.packet_type;
        mbuf->pkt_len = length;
        mbuf->data_len = static_cast<uint16_t>(length);
        mbuf->vlan_tci = model.vlan_tci;
        mbuf->hash.rss = ring.block.hashes ? uint32_t{minis[i].result} : 0;
        if constexpr (O.mark) mbuf->hash.fdir.hi = model.hash.fdir.hi;
        if constexpr (O.scattered) take_chain(ring, first, length);
        bytes += length;
    }
}

/// The CQE at the consumer index is a compressed block's title: packets come from there until it is
/// used up. False: no device writes such a block.
template <RxOptions O, class Ring> inline bool open_block(Ring& ring) {
    owner_before_content();
    const Cqe& title = ring.cq.at(ring.cq.consumer);
    const uint32_t count = Cq::completions(title);
    if (count == 0 || count > ring.posted()) return false;
    ring.block.open(ring.cq, count);
    describe<O>(ring, title, ring.block.model(), 0);
    ring.block_left = static_cast<uint8_t>(count);
    return true;
}

template <class Reader, RxOptions O>
inline uint32_t take_from_block(MlxRxRing& ring, rte_mbuf** packets, uint32_t wanted,
                                uint64_t& bytes) {
    const uint32_t next = ring.block.count - ring.block_left;
    const uint32_t in_array = next % mlx5::kMiniCqes;
    const uint32_t count = std::min(
        {wanted, uint32_t{ring.block_left}, mlx5::kMiniCqes - in_array, ring.slots_to_end()});
    const mlx5::MiniCqe* const minis = ring.cq.mini_array(ring.cq.consumer, next) + in_array;
    Reader::template decompress<O>(ring, minis, slot_mbufs<O>(ring, ring.consumer), packets, count,
                                   bytes);
    if constexpr (O.offloads)
        if (ring.block.model().ol_flags & kUnproven) [[unlikely]]
            settle_checksums(packets, count);
    ring.consumer = static_cast<uint16_t>(ring.consumer + count);
    ring.block_left = static_cast<uint8_t>(ring.block_left - count);
    if (ring.block_left == 0) ring.block.leave(ring.cq);
    return count;
}

template <class Reader, RxOptions O>
uint16_t receive(MlxRxRing& ring, rte_mbuf** packets, uint16_t wanted) {
    if constexpr (O.stamps == Stamps::real_time) ring.clock.refresh();
    const uint32_t count = std::min(wanted, ring.posted());
    uint64_t bytes = 0;
    uint32_t received = 0;
    bool error = false;
    while (received < count) {
        rte_mbuf** const next = packets + received;
        if (ring.block_left > 0) {
            received += take_from_block<Reader, O>(ring, next, count - received, bytes);
            continue;
        }
        const uint32_t room = std::min(ring.cq.entries_to_end(), ring.slots_to_end());
        const uint32_t run = std::min(count - received, room);
        const uint32_t taken = Reader::template take<O>(ring, next, run, bytes);
        received += taken;
        if (taken == run) continue;
        const CqeState state = ring.cq.state(ring.cq.consumer);
        if (state == CqeState::compressed && open_block<O>(ring)) continue;
        error = state == CqeState::error || state == CqeState::compressed;
        break;
    }
    if (received > 0) {
        ring.counters.packets += received;
        ring.counters.bytes += bytes;
    }
    if (error) [[unlikely]]
        recover(ring);
    if (ring.missing() >= ring.refill_batch && !Reader::refill(ring)) refill(ring);
    return static_cast<uint16_t>(received);
}

/// See RxRing::tell_all.
constexpr RxOptions telling_all(RxOptions options) {
    options.offloads = true;
    options.mark = true;
    return options;
}

template <class Reader, RxOptions O>
uint16_t receive_burst(void* queue, rte_mbuf** packets, uint16_t wanted) {
    constexpr RxOptions kAll = telling_all(O);
    auto& ring = *static_cast<MlxRxRing*>(queue);
    if (__atomic_load_n(&ring.tell_all, __ATOMIC_RELAXED)) [[unlikely]]
        return receive<Reader, kAll>(ring, packets, wanted);
    return receive<Reader, O>(ring, packets, wanted);
}

/// The reader's name and the options.
template <class Reader, RxOptions O>
constexpr BurstName kReaderName = burst_name(Reader::kName,
                                             {{O.scattered, "scattered"},
                                              {O.offloads, "offloads"},
                                              {O.crc, "CRC"},
                                              {O.stamps == Stamps::ticks, "time stamps"},
                                              {O.stamps == Stamps::real_time, "real-time stamps"}});

template <class Reader, RxOptions O> constexpr Burst<eth_rx_burst_t> make_burst() {
    return {receive_burst<Reader, O>, kReaderName<Reader, O>.data()};
}

/// The options of a variant; scattered is chosen beside it.
constexpr RxOptions rx_options(RxVariant variant, bool scattered) {
    RxOptions options;
    options.scattered = scattered;
    options.offloads = variant >= RxVariant::offloads;
    options.crc = variant >= RxVariant::crc;
    if (variant == RxVariant::ticks) options.stamps = Stamps::ticks;
    if (variant == RxVariant::real_time) options.stamps = Stamps::real_time;
    return options;
}

/// A reader's bursts by RxVariant.
template <class Reader, bool Scattered>
constexpr Burst<eth_rx_burst_t> kVariants[] = {
    make_burst<Reader, rx_options(RxVariant::plain, Scattered)>(),
    make_burst<Reader, rx_options(RxVariant::offloads, Scattered)>(),
    make_burst<Reader, rx_options(RxVariant::crc, Scattered)>(),
    make_burst<Reader, rx_options(RxVariant::ticks, Scattered)>(),
    make_burst<Reader, rx_options(RxVariant::real_time, Scattered)>(),
};

} // namespace
} // namespace rawqp::mlx5rings
