// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/verbs/rx.hpp"

#include "common/net/endian.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"
#include "drivers/net/rawqp/log.hpp"
#include "drivers/net/rawqp/rings/ahead.hpp"
#include "drivers/net/rawqp/rings/burst_name.hpp"
#include "drivers/net/rawqp/rings/rx_checksum.hpp"
#include "drivers/net/rawqp/rings/rx_fill.hpp"

#include <algorithm>
#include <utility>

namespace rawqp::verbsrings {
namespace {

VerbsRxRing& verbs_ring(RxRing& ring) { return static_cast<VerbsRxRing&>(ring); }

/// Posts the slots [first, producer) as one chain. What the provider refuses stays filled and is
/// posted by a later refill.
void post(VerbsRxRing& ring, uint16_t first) {
    const auto count = static_cast<uint16_t>(ring.producer - first);
    if (count == 0) return;
    ibv_recv_wr* begin = &ring.requests[first & ring.mask];
    ibv_recv_wr& last = ring.requests[(ring.producer - 1) & ring.mask];
    ibv_recv_wr* const link = std::exchange(last.next, nullptr);
    ibv_recv_wr* refused = nullptr;
    const int error = ibv_post_wq_recv(ring.wq, begin, &refused);
    last.next = link;
    if (error == 0) [[likely]]
        return;
    ring.unposted_empty = false;
    const auto accepted =
        static_cast<uint16_t>(refused != nullptr ? (refused - begin) & ring.mask : 0);
    ring.producer = static_cast<uint16_t>(first + accepted);
}

/// The refill's short path: buffers go from the pool into the ring, and only their addresses
/// differ. False: the pool's buffers do not all lie in one memory region at a known distance from
/// their mbufs, or it has run short.
bool fill_uniform(VerbsRxRing& ring) {
    if (ring.data_offset == 0 || !ring.unposted_empty ||
        ring.pool->populated_size != ring.pool_size)
        return false;
    const uint32_t lkey = net::to_be(ring.pools.find(ring.pool, ring.mrs));
    if (lkey == 0) return false;
    while (ring.missing() > 0) {
        const uint32_t slot = ring.producer & ring.mask;
        const uint32_t count = std::min<uint32_t>(ring.missing(), ring.mask + 1u - slot);
        rte_mbuf** const fresh = &ring.mbufs[slot];
        if (!take_mbufs(ring.pool, fresh, count)) {
            std::fill_n(fresh, count, nullptr); // the pool may have put some there all the same
            return false;
        }
        for (uint32_t i = 0; i < count; ++i) {
            ibv_sge& sge = ring.sges[slot + i];
            sge.addr = reinterpret_cast<uintptr_t>(fresh[i]) + ring.data_offset;
            sge.lkey = lkey;
        }
        ring.producer = static_cast<uint16_t>(ring.producer + count);
    }
    return true;
}

/// Fills every slot that can get its buffers; posts none. False: buffers are still missing.
bool fill(VerbsRxRing& ring) {
    return fill_ring(ring, ring.split ? fill_split_slots<VerbsRxRing> : fill_slots<VerbsRxRing>);
}

void refill(VerbsRxRing& ring) {
    if (ring.mrs.sync()) ring.pools.clear();
    const uint16_t first = ring.producer;
    const bool complete = fill_uniform(ring) || (ring.unposted_empty = fill(ring));
    // Before the provider refuses some: those slots keep their buffers.
    count_nombuf(ring.counters, ring.nombuf_due, complete ? 0 : lacking_buffers(ring));
    post(ring, first);
}

void rewind(VerbsRxRing& ring) {
    ring.consumer = ring.producer = 0;
    ring.faulty = false;
    ring.unposted_empty = false;
}

/// Takes and discards completions from before the queue's reset. Returns how many were good.
uint32_t drain(VerbsRxRing& ring) {
    uint32_t good = 0;
    ibv_poll_cq_attr attributes{};
    if (ibv_start_poll(ring.cq, &attributes) != 0) return good;
    do
        good += ring.cq->status == IBV_WC_SUCCESS;
    while (ibv_next_poll(ring.cq) == 0);
    ibv_end_poll(ring.cq);
    return good;
}

/// Cold: an error completion was taken. Has the WQ reset and posts the buffers that the ring still
/// holds, with lkeys looked up again: a stale one may be what broke the queue.
[[gnu::noinline, gnu::cold]] void recover(VerbsRxRing& ring) {
    if (!ring.retry.try_pass() || ring_host(ring.port_id).reset(ring) != 0) return;
    log_recovery(ring, ring.error_status, ring.error_vendor);
    drain(ring);
    (void)gather_buffers(ring);
    rewind(ring);
    ring.mrs.clear();
    ring.pools.clear();
    for (uint32_t i = 0; i < ring.descriptors(); ++i) {
        if (ring.mbufs[i] == nullptr || ring.write_segment(i, *ring.mbufs[i])) continue;
        rte_mbuf_raw_free(ring.mbufs[i]);
        ring.mbufs[i] = nullptr;
    }
    refill(ring);
}

/// Cold: takes note of the error completion at the CQ's cursor.
[[gnu::noinline, gnu::cold]] void note_error(VerbsRxRing& ring) {
    ring.faulty = true;
    ring.error_status = ring.cq->status;
    ring.error_vendor = ibv_wc_read_vendor_err(ring.cq);
    // A flushed request held no packet: the queue went to error by other means.
    count_up(ring.counters.errors, ring.cq->status != IBV_WC_WR_FLUSH_ERR);
    // The failed request's buffers are still the ring's; it counts as posted until the reset.
}

constexpr uint64_t kVerbsExtras = kRxExtras | RTE_ETH_RX_OFFLOAD_VLAN_STRIP;

struct RxOptions {
    bool scattered; ///< packets over several mbufs
    bool checksum;  ///< verdicts wanted
    bool extras;    ///< kVerbsExtras
    bool mark;      ///< rte_flow marks in use
};

inline uint64_t read_mark(const VerbsRxRing& ring, rte_mbuf& mbuf) {
    const uint32_t tag = ring.has_tags ? ibv_wc_read_flow_tag(ring.cq) : kFlowTagNone;
    if (tag == kFlowTagNone) return 0;
    if (tag == kFlowTagFlag) return RTE_MBUF_F_RX_FDIR;
    mbuf.hash.fdir.hi = mark_of_tag(tag);
    return RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
}

constexpr uint32_t kTaggedHeader = sizeof(rte_ether_hdr) + sizeof(rte_vlan_hdr);

/// Strips an 802.1Q tag from the packet, as devices do. They could do it here, too, but completions
/// tell only the tag and not whether there was one: a tag of zero would get lost.
inline uint64_t strip_tag(rte_mbuf& packet) {
    auto* const ether = rte_pktmbuf_mtod(&packet, rte_ether_hdr*);
    if (packet.data_len < kTaggedHeader || ether->ether_type != RTE_BE16(RTE_ETHER_TYPE_VLAN))
        return 0;
    const auto* const tag = reinterpret_cast<const rte_vlan_hdr*>(ether + 1);
    packet.vlan_tci = net::to_be(tag->vlan_tci);
    memmove(reinterpret_cast<char*>(ether) + sizeof *tag, ether, 2 * sizeof(rte_ether_addr));
    packet.data_off += sizeof *tag;
    packet.data_len -= sizeof *tag;
    packet.pkt_len -= sizeof *tag;
    return RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
}

/// The provider's verdict where it gives one (good, for both layers); else the driver checks
/// itself: libmlx5, for one, reports checksums of QPs but not of WQs.
inline uint64_t checksum_flags(ibv_cq_ex* cq, const rte_mbuf& packet) {
    const uint32_t l4 = packet.packet_type & RTE_PTYPE_L4_MASK;
    const bool both = l4 == RTE_PTYPE_L4_TCP || l4 == RTE_PTYPE_L4_UDP;
    if (both && (ibv_wc_read_wc_flags(cq) & IBV_WC_IP_CSUM_OK))
        return RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    return verify_checksums(packet);
}

/// rte_net_get_ptype, with a shortcut for most traffic: TCP or UDP over IPv4 or IPv6 without
/// options, tags and fragments.
inline uint32_t parse(const rte_mbuf& packet) {
    constexpr uint32_t kTcp = 20; // the parser wants to see all of it
    constexpr uint32_t kIpv4 = sizeof(rte_ether_hdr) + sizeof(rte_ipv4_hdr);
    constexpr uint32_t kIpv6 = sizeof(rte_ether_hdr) + sizeof(rte_ipv6_hdr);
    const auto* const ether = rte_pktmbuf_mtod(&packet, const rte_ether_hdr*);
    uint8_t protocol = 0;
    uint32_t type = 0;
    if (packet.data_len >= kIpv4 + kTcp && ether->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4)) {
        const auto* const ip = reinterpret_cast<const rte_ipv4_hdr*>(ether + 1);
        constexpr uint16_t kFragment = RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK | RTE_IPV4_HDR_MF_FLAG);
        if (ip->version_ihl == RTE_IPV4_VHL_DEF && (ip->fragment_offset & kFragment) == 0)
            protocol = ip->next_proto_id;
        type = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4;
    } else if (packet.data_len >= kIpv6 + kTcp &&
               ether->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV6)) {
        protocol = reinterpret_cast<const rte_ipv6_hdr*>(ether + 1)->proto;
        type = RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV6;
    }
    if (protocol == IPPROTO_UDP) return type | RTE_PTYPE_L4_UDP;
    if (protocol == IPPROTO_TCP) return type | RTE_PTYPE_L4_TCP;
    constexpr uint32_t kLayers = RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK;
    return rte_net_get_ptype(&packet, nullptr, kLayers);
}

/// Prefetches the mbuf and the headers of the packet some slots after `slot`.
template <RxOptions O> inline void prefetch(const VerbsRxRing& ring, uint16_t slot) {
    const uint32_t next = (slot + ahead::kVerbsPackets) & ring.mask;
    const uint32_t index = O.scattered ? next << ring.log_segments : next;
    rte_prefetch0(ring.mbufs[index]);
    rte_prefetch0(reinterpret_cast<const void*>(ring.sges[index].addr));
}

/// Takes the packet of the completion at the CQ's cursor out of slot `slot`.
template <RxOptions O> inline rte_mbuf* take(VerbsRxRing& ring, uint16_t slot, uint32_t bytes) {
    rte_mbuf** mbufs = &ring.mbufs[O.scattered ? uint32_t{slot} << ring.log_segments : slot];
    rte_mbuf* packet = mbufs[0];
    rearm_mbuf(*packet, ring.rearm);
    packet->pkt_len = bytes;
    packet->data_len = static_cast<uint16_t>(bytes);
    uint64_t flags = ring.base_flags;
    if constexpr (O.mark) flags |= read_mark(ring, *packet);
    if constexpr (O.scattered)
        take_chain(ring, mbufs, bytes);
    else
        mbufs[0] = nullptr;
    if constexpr (O.extras)
        if (__atomic_load_n(&ring.strips_vlan, __ATOMIC_RELAXED)) flags |= strip_tag(*packet);

    // Verbs completions say nothing about the packet's headers: the driver parses them.
    packet->packet_type = parse(*packet);
    if constexpr (O.checksum) flags |= checksum_flags(ring.cq, *packet) & ring.flags_mask;
    packet->ol_flags = flags;
    if constexpr (O.extras)
        if (ring.extras.timestamp_flag != 0) stamp(*packet, ring.extras, ring.read_stamp(ring.cq));
    return packet;
}

/// Takes up to `count` packets; stops at the first error completion.
template <RxOptions O> uint16_t poll(VerbsRxRing& ring, rte_mbuf** packets, uint16_t count) {
    ibv_poll_cq_attr attributes{};
    if (count == 0 || ibv_start_poll(ring.cq, &attributes) != 0) return 0;
    uint64_t bytes_received = 0;
    uint16_t received = 0;
    do {
        if (ring.cq->status != IBV_WC_SUCCESS) [[unlikely]] {
            note_error(ring);
            break;
        }
        uint32_t bytes = ibv_wc_read_byte_len(ring.cq);
        if constexpr (O.extras) bytes -= ring.extras.crc_bytes;
        const uint16_t slot = ring.consumer & ring.mask;
        prefetch<O>(ring, slot);
        packets[received] = take<O>(ring, slot, bytes);
        ++ring.consumer;
        bytes_received += O.extras ? packets[received]->pkt_len : bytes;
        ++received;
    } while (received < count && ibv_next_poll(ring.cq) == 0);
    ibv_end_poll(ring.cq);
    count_up(ring.counters.packets, received);
    count_up(ring.counters.bytes, bytes_received);
    return received;
}

template <RxOptions O> uint16_t receive(void* queue, rte_mbuf** packets, uint16_t count) {
    auto& ring = *static_cast<VerbsRxRing*>(queue);
    constexpr RxOptions kAll{O.scattered, O.checksum, true, true}; // see RxRing::tell_all
    const bool all = __atomic_load_n(&ring.tell_all, __ATOMIC_RELAXED);
    uint16_t received = 0;
    if (!ring.faulty) [[likely]]
        received = all ? poll<kAll>(ring, packets, count) : poll<O>(ring, packets, count);
    if (ring.faulty) [[unlikely]]
        recover(ring);
    else if (ring.missing() >= ring.refill_batch)
        refill(ring);
    return received;
}

constexpr RxOptions rx_options(size_t index) {
    return {(index & 1) != 0, (index & 2) != 0, (index & 4) != 0, false};
}
constexpr size_t kVariants = 8;

template <size_t I>
constexpr BurstName kName = burst_name("verbs", {{rx_options(I).scattered, "scattered"},
                                                 {rx_options(I).checksum, "checksum"},
                                                 {rx_options(I).extras, "extras"}});

constexpr auto kBursts = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{Burst<eth_rx_burst_t>{receive<rx_options(I)>, kName<I>.data()}...};
}
(std::make_index_sequence<kVariants>());

/// Links the requests in a circle and gives each its SGEs.
void lay_out(VerbsRxRing& ring) {
    for (uint32_t slot = 0; slot <= ring.mask; ++slot) {
        ibv_sge* sges = &ring.sges[slot << ring.log_segments];
        for (unsigned i = 0; i < ring.segments; ++i)
            sges[i].length = ring.segment(i).room;
        ring.requests[slot] = {
            .wr_id = slot,
            .next = &ring.requests[(slot + 1) & ring.mask],
            .sg_list = sges,
            .num_sge = ring.segments,
        };
    }
}

} // namespace

uint64_t rx_wc_flags(const RxSpec& spec) {
    uint64_t flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_FLOW_TAG;
    if (spec.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP)
        flags |= spec.real_time ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
                                : IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    return flags;
}

bool stamps_real_time(const verbs::Api& api, ibv_context* context) {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = 1;
    attributes.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    ibv_cq_ex* const cq = ibv_create_cq_ex(context, &attributes);
    if (cq == nullptr) return false;
    api.destroy_cq(ibv_cq_ex_to_cq(cq));
    return true;
}

Result<RxRing*> rx_create(const RxSpec& spec) {
    if (auto sound = check_rx_spec(spec); !sound) return tl::unexpected(sound.error());
    SocketPtr<VerbsRxRing> ring(create_on_socket<VerbsRxRing>(spec.socket));
    auto mbufs = socket_array<rte_mbuf*>(spec.descriptors, spec.socket);
    auto requests = socket_array<ibv_recv_wr>(rx_wqes(spec), spec.socket);
    auto sges = socket_array<ibv_sge>(spec.descriptors, spec.socket);
    if (!ring || !mbufs || !requests || !sges)
        return fail(ENOMEM, "port {} Rx queue {}: no DPDK memory for a ring of {}", spec.port_id,
                    spec.queue_id, spec.descriptors);

    const Result<RxExtras> extras = rx_extras(spec);
    if (!extras) return tl::unexpected(extras.error());
    ring->read_stamp =
        spec.real_time ? spec.cq->read_completion_wallclock_ns : spec.cq->read_completion_ts;
    if (extras->timestamp_flag != 0 && ring->read_stamp == nullptr)
        return fail(ENOTSUP, "port {} Rx queue {}: the provider reports no {}time stamps",
                    spec.port_id, spec.queue_id, spec.real_time ? "real-" : "");
    ring->extras = *extras;
    const RxBuffers buffers = rx_buffers(spec);
    ring->port_id = spec.port_id;
    ring->queue_id = spec.queue_id;
    ring->cq = spec.cq;
    ring->wq = spec.wq;
    ring->mask = static_cast<uint16_t>(rx_wqes(spec) - 1);
    ring->refill_batch = kNoRefill;
    ring->rearm = buffers.rearm;
    ring->base_flags = buffers.base_flags;
    std::ranges::copy(rx_layout(spec), ring->layout.begin());
    ring->split = spec.split.size() > 1;
    ring->flags_mask = rx_flags(spec.offloads);
    ring->has_tags = spec.cq->read_flow_tag != nullptr;
    ring->segments = spec.segments;
    ring->log_segments = static_cast<uint8_t>(rte_log2_u32(spec.segments));
    ring->pool = spec.pool;
    ring->mrs = MrCache(spec.mrs);
    ring->mbuf_memory = std::move(mbufs);
    ring->request_memory = std::move(requests);
    ring->sge_memory = std::move(sges);
    ring->mbufs = ring->mbuf_memory.get();
    ring->requests = ring->request_memory.get();
    ring->sges = ring->sge_memory.get();
    lay_out(*ring);
    const bool strip = (spec.offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0;
    if (Result<void> done = rx_strip_vlan(*ring, strip); !done)
        return tl::unexpected(std::move(done.error()));
    return ring.release();
}

Result<void> rx_start(RxRing& base) {
    VerbsRxRing& ring = verbs_ring(base);
    drain(ring);
    rewind(ring);
    ring.mrs.clear();
    ring.pools.clear();
    ring.pool_size = ring.pool->populated_size; // before the look: it may be growing
    ring.data_offset =
        ring.segments == 1 ? common_data_offset(ring.pool, ring.segment(0).offset, ring.mrs) : 0;
    ring.retry.open();
    if (!fill(ring)) {
        rx_stop(ring);
        return not_filled(ring);
    }
    ring.unposted_empty = true;
    post(ring, 0);
    ring.refill_batch = refill_batch(ring.mask + 1u); // from here on bursts replace buffers
    if (ring.missing() > 0)
        RAWQP_LOG(WARNING, "port %u Rx queue %u: the provider took %u of %u receive requests",
                  ring.port_id, ring.queue_id, ring.posted(), ring.mask + 1u);
    return {};
}

uint32_t rx_stop(RxRing& base) {
    VerbsRxRing& ring = verbs_ring(base);
    ring.refill_batch = kNoRefill;
    const uint32_t unread = drain(ring);
    free_buffers(ring);
    rewind(ring);
    ring.nombuf_due = 0;
    return unread;
}

int rx_arm(RxRing& base) {
    VerbsRxRing& ring = verbs_ring(base);
    if (!may_wait(ring, refill)) return EAGAIN; // a faulty one has posted what failed
    return ibv_req_notify_cq(ibv_cq_ex_to_cq(ring.cq), 0);
}

Result<void> rx_strip_vlan(RxRing& base, bool strip) {
    VerbsRxRing& ring = verbs_ring(base);
    if (strip && ring.segment(0).room < kTaggedHeader)
        return fail(ENOTSUP,
                    "port {} Rx queue {}: no VLAN tag can be stripped where the first segment of a "
                    "packet has {} bytes: buffer split must leave it {} or more",
                    ring.port_id, ring.queue_id, ring.segment(0).room, kTaggedHeader);
    __atomic_store_n(&ring.strips_vlan, strip, __ATOMIC_RELAXED);
    return {};
}

void rx_destroy(RxRing* ring) { destroy_on_socket(&verbs_ring(*ring)); }

Burst<eth_rx_burst_t> rx_burst(const RxSpec& spec) {
    const bool scattered = spec.segments > 1;
    const bool checksum = (spec.offloads & RTE_ETH_RX_OFFLOAD_CHECKSUM) != 0;
    const bool extras = (spec.offloads & kVerbsExtras) != 0;
    return kBursts[size_t{scattered} | size_t{checksum} << 1 | size_t{extras} << 2];
}

} // namespace rawqp::verbsrings
