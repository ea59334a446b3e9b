// SPDX-License-Identifier: BSD-3-Clause
// What the send rings of all formats share.
#pragma once

#include "drivers/net/rawqp/rings/pool_layout.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"
#include "drivers/net/rawqp/rings/tx_mbufs.hpp"

#include <array>

namespace rawqp {

/// Shortest packet that is sent: an Ethernet header. (A zero byte count would mean 2 GiB.)
inline constexpr uint32_t kMinTxBytes = RTE_ETHER_HDR_LEN;

/// Whether a queue with `max_segments` can send the packet; the bursts drop and count others.
[[nodiscard]] inline bool sendable(const rte_mbuf& packet, uint16_t max_segments) {
    return packet.nb_segs <= max_segments && packet.pkt_len >= kMinTxBytes;
}

/// Descriptors that the packet took. tx_prepare refuses a packet that claims to have no segments,
/// but bursts do not check; code that steps from packet to packet must get past it.
[[nodiscard]] inline uint16_t segments_of(const rte_mbuf& packet) {
    return RTE_MAX(packet.nb_segs, uint16_t{1});
}

/// Longest header that is repeated before each segment of a packet (TSO), both of a tunnel
/// included.
inline constexpr uint32_t kMaxTsoHeader = 192;
/// Largest payload of such a segment: the device's field has 14 bits.
inline constexpr uint16_t kMaxSegmentSize = 0x3fff;

/// TxSpec::max_tso on this device.
[[nodiscard]] inline uint32_t max_tso(const ibv_device_attr_ex& device) {
    const bool raw = (device.tso_caps.supported_qpts & (1u << IBV_QPT_RAW_PACKET)) != 0;
    return raw ? device.tso_caps.max_tso : 0;
}

/// Header bytes of a packet with RTE_MBUF_F_TX_TCP_SEG, according to its length fields.
[[nodiscard]] inline uint32_t tso_header_bytes(const rte_mbuf& packet) {
    const uint32_t inner = packet.l2_len + packet.l3_len + packet.l4_len;
    const bool tunnel = (packet.ol_flags & RTE_MBUF_F_TX_TUNNEL_MASK) != 0;
    return tunnel ? packet.outer_l2_len + packet.outer_l3_len + inner : inner;
}

/// EINVAL with the offending figure when a format cannot take the spec.
[[nodiscard]] Result<void> check_tx_spec(const TxSpec& spec);

/// Mbuf flag by which applications forbid copying the packet into the WQE; 0: they have none.
[[nodiscard]] uint64_t no_inline_flag();

/// Whether the application promised mbufs that can go back to their pool as they are.
[[nodiscard]] constexpr bool whole_packets_of_one_pool(uint64_t offloads) {
    return (offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) &&
           !(offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
}

/// Packets that are held, of any number of mbufs each.
[[nodiscard]] uint32_t count_packets(const TxMbufs& mbufs);

/// TxMbufs position after the oldest `packets` packets, `end` at most.
[[nodiscard]] uint16_t after_packets(const TxRing& ring, const TxMbufs& mbufs, uint32_t packets,
                                     uint16_t end);

/// Recounts the packets from TxMbufs position `first` on as errors rather than sent. Returns how
/// many.
uint32_t count_lost(TxRing& ring, const TxMbufs& mbufs, uint16_t first);

/// Frees a packet that the queue cannot send and counts an error.
[[gnu::noinline, gnu::cold]] void drop(TxRing& ring, rte_mbuf* packet);

/// eth_tx_prep_t of all formats, which may refuse more; `queue` is a TxRing. Sets rte_errno to
/// EINVAL (malformed packet) or ENOTSUP (offload not enabled on the queue). In tx_prepare.cpp.
uint16_t tx_prepare(void* queue, rte_mbuf** packets, uint16_t count);

// ---- What formats do alike, each with its own ring type. Ring has a TxMbufs `mbufs`, and `done`,
// the TxMbufs position up to which segments are completed, though perhaps not freed. Its namespace
// has `bool take_done(Ring&, uint32_t limit)`, which takes completions until at least `limit`
// segments are completed, may free some of fewer, and returns false while the queue is in error;
// `free_until(Ring&, uint16_t end)`, which frees completed segments; `bool reap(Ring&)`, which does
// both for all that is completed; and `ask(Ring&)`, which makes the device report the completion of
// everything that it was given.

/// Fills in what the ring takes from its spec. False: no DPDK memory.
template <class Ring> [[nodiscard]] bool init_tx_ring(Ring& ring, const TxSpec& spec) {
    ring.port_id = spec.port_id;
    ring.queue_id = spec.queue_id;
    ring.max_segments = spec.max_segments;
    ring.offloads = spec.offloads;
    ring.max_tso = spec.max_tso;
    ring.mrs = MrCache(spec.mrs);
    return ring.mbufs.create(spec.descriptors, spec.socket);
}

/// eth_tx_descriptor_status_t
template <class Ring> int tx_descriptor_status(void* queue, uint16_t offset) {
    auto& ring = *static_cast<Ring*>(queue);
    if (offset >= ring.mbufs.size()) return -EINVAL;
    if (!reap(ring)) return RTE_ETH_TX_DESC_UNAVAIL;
    if (offset < ring.mbufs.room()) return RTE_ETH_TX_DESC_DONE;
    ask(ring); // or the application might poll it for ever
    return RTE_ETH_TX_DESC_FULL;
}

/// eth_tx_done_cleanup_t: returns how many packets were freed. A completion may report more than
/// `limit`: the others are freed by the next call or burst.
template <class Ring> int tx_done_cleanup(void* queue, uint32_t limit) {
    auto& ring = *static_cast<Ring*>(queue);
    const auto held = [&] {
        return ring.max_segments > 1 ? count_packets(ring.mbufs) : uint32_t{ring.mbufs.used()};
    };
    const uint32_t before = held();
    const uint32_t wanted = limit != 0 ? limit : UINT32_MAX;
    if (!take_done(ring, wanted)) return 0;
    const uint32_t left = wanted - RTE_MIN(wanted, before - held());
    free_until(ring, after_packets(ring, ring.mbufs, left, ring.done));
    const uint32_t freed = before - held();
    if (freed < wanted) ask(ring); // the next call frees them
    return static_cast<int>(freed);
}

/// RingFormat::tx_stop. Applications may ask for the status and clean-up of a stopped queue, so
/// completions are discarded, too. The ring's namespace also has: `take_sent(ring)` frees what
/// completions report, up to an error, `drain(ring)` steps over the others, `rewind(ring)` sets all
/// positions to zero, `forget_keys(ring)` empties its lkey caches.
template <class Ring> uint32_t tx_stop(TxRing& base) {
    auto& ring = static_cast<Ring&>(base);
    take_sent(ring);
    const uint32_t unsent = count_lost(ring, ring.mbufs, ring.mbufs.tail());
    ring.mbufs.free_all();
    drain(ring);
    rewind(ring);
    return unsent;
}

/// RingFormat::tx_start
template <class Ring> void tx_start(TxRing& base) {
    auto& ring = static_cast<Ring&>(base);
    (void)tx_stop<Ring>(ring); // frees what was handed to the stopped queue
    forget_keys(ring);
    ring.retry.open();
}

template <class Ring> void tx_destroy(TxRing* ring) { destroy_on_socket(static_cast<Ring*>(ring)); }

} // namespace rawqp
