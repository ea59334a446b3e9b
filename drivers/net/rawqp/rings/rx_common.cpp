// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/rx_common.hpp"

namespace rawqp {

Result<void> check_rx_spec(const RxSpec& spec) {
    const auto what = [&] {
        return fmt::format("port {} Rx queue {}", spec.port_id, spec.queue_id);
    };
    if (spec.descriptors < kMinDescriptors || spec.descriptors > kMaxDescriptors ||
        !rte_is_power_of_2(spec.descriptors))
        return fail(EINVAL,
                    "{}: {} descriptors asked for, {} to {} and a power of two are possible",
                    what(), spec.descriptors, kMinDescriptors, kMaxDescriptors);
    if (spec.segments == 0 || spec.segments > kMaxRxSegments || !rte_is_power_of_2(spec.segments))
        return fail(EINVAL,
                    "{}: {} segments per packet asked for, 1 to {} and a power of two are "
                    "possible",
                    what(), spec.segments, kMaxRxSegments);
    if (rte_pktmbuf_data_room_size(spec.pool) <= RTE_PKTMBUF_HEADROOM)
        return fail(EINVAL,
                    "{}: the mbufs of mempool {} have {} bytes of room, no more than the "
                    "headroom of {}",
                    what(), spec.pool->name, rte_pktmbuf_data_room_size(spec.pool),
                    RTE_PKTMBUF_HEADROOM);
    if ((spec.offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO) != 0 &&
        rx_layout(spec)[0].room < kLroHeaderBytes)
        return fail(EINVAL,
                    "{}: LRO: the headers of a packet do not fit in the {} bytes that an mbuf of "
                    "mempool {} has behind the headroom: use mbufs with {} or more",
                    what(), rx_layout(spec)[0].room, spec.pool->name, kLroHeaderBytes);
    uint32_t room = 0;
    for (const RxSegment& segment : rx_layout(spec))
        room += segment.room;
    const uint32_t crc = spec.offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC ? RTE_ETHER_CRC_LEN : 0;
    if (room < spec.max_frame + crc)
        return fail(EINVAL,
                    "{}: frames of {} bytes do not fit in {} mbuf(s) of mempool {} ({} bytes); "
                    "use larger mbufs or enable scattered Rx",
                    what(), spec.max_frame, spec.segments, spec.pool->name, room);
    return {};
}

RxBuffers rx_buffers(const RxSpec& spec) {
    rte_mbuf fresh{};
    fresh.data_off = spec.split.empty() ? RTE_PKTMBUF_HEADROOM : spec.split[0].offset;
    rte_mbuf_refcnt_set(&fresh, 1);
    fresh.nb_segs = 1;
    fresh.port = spec.port_id;

    uint64_t rearm;
    memcpy(&rearm, compat::mbuf_rearm_word(&fresh), sizeof rearm);

    const uint16_t data_room = rte_pktmbuf_data_room_size(spec.pool);
    const bool pinned =
        (rte_pktmbuf_priv_flags(spec.pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) != 0;
    return {
        .rearm = rearm,
        .base_flags = pinned ? RTE_MBUF_F_EXTERNAL : 0,
        .headroom = fresh.data_off,
        .first_room = spec.split.empty() ? static_cast<uint16_t>(data_room - RTE_PKTMBUF_HEADROOM)
                                         : spec.split[0].room,
        .next_room = data_room,
    };
}

std::vector<RxSegment> rx_layout(const RxSpec& spec) {
    if (!spec.split.empty()) return spec.split;
    const RxBuffers buffers = rx_buffers(spec);
    std::vector<RxSegment> layout(spec.segments, RxSegment{spec.pool, 0, buffers.next_room});
    layout[0] = {spec.pool, buffers.headroom, buffers.first_room};
    return layout;
}

Result<RxExtras> rx_extras(const RxSpec& spec) {
    RxExtras extras;
    if (spec.offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC) extras.crc_bytes = RTE_ETHER_CRC_LEN;
    if ((spec.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) &&
        rte_mbuf_dyn_rx_timestamp_register(&extras.timestamp_offset, &extras.timestamp_flag) != 0)
        return fail(ENOTSUP, "port {} Rx queue {}: the mbuf has no room left for a time stamp: {}",
                    spec.port_id, spec.queue_id, rte_strerror(rte_errno));
    return extras;
}

uint64_t rx_flags(uint64_t offloads) {
    uint64_t flags = RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
    if (offloads & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) flags |= RTE_MBUF_F_RX_IP_CKSUM_MASK;
    if (offloads & (RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM))
        flags |= RTE_MBUF_F_RX_L4_CKSUM_MASK;
    return flags;
}

tl::unexpected<Error> not_enough_mbufs(const RxRing& ring, const rte_mempool* pool,
                                       uint32_t wanted) {
    return fail(ENOMEM,
                "port {} Rx queue {}: mempool {} cannot fill the ring: {} mbufs needed, {} free "
                "in it (or its memory cannot be registered); give it more mbufs",
                ring.port_id, ring.queue_id, pool->name, wanted, rte_mempool_avail_count(pool));
}

void return_mbufs(rte_mbuf** mbufs, unsigned count) {
    if (count == 0) return;
    rte_mempool_put_bulk(mbufs[0]->pool, reinterpret_cast<void**>(mbufs), count);
}

} // namespace rawqp
