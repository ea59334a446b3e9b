// SPDX-License-Identifier: BSD-3-Clause
// The receive burst on mapped rings, scalar. One template; the options are chosen once per port.
#include "drivers/net/rawqp/flow_tag.hpp"
#include "drivers/net/rawqp/rings/burst_name.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_tables.hpp"
#include "drivers/net/rawqp/rings/rx_fill.hpp"

#include <utility>

namespace rawqp::mlx5rings {
namespace {

struct RxOptions {
    bool scattered; ///< packets over several mbufs
    bool offloads;  ///< checksum, VLAN or hash wanted
    bool mark;      ///< rte_flow marks wanted
};

/// RTE_MBUF_F_RX_FDIR* and the id of a rule's mark; see flow_tag.hpp.
inline uint64_t read_mark(const Cqe& cqe, rte_mbuf& mbuf) {
    const uint32_t tag = cqe.sop_drop_qpn & mlx5::kFlowTagMask;
    mbuf.hash.fdir.hi = mark_of_tag(tag);
    const uint64_t id = tag == kFlowTagFlag ? 0 : RTE_MBUF_F_RX_FDIR_ID;
    return tag == kFlowTagNone ? 0 : RTE_MBUF_F_RX_FDIR | id;
}

/// Fills the first segment's mbuf from the CQE, as if the packet were one segment of `bytes`.
template <RxOptions O>
inline void describe(const MlxRxRing& ring, const Cqe& cqe, rte_mbuf& mbuf, uint32_t bytes) {
    rearm_mbuf(mbuf, ring.rearm);
    mbuf.packet_type = kPacketTypes[cqe.l4_l3_type >> 2];
    mbuf.pkt_len = bytes;
    mbuf.data_len = static_cast<uint16_t>(bytes);
    uint64_t flags = ring.base_flags;
    if constexpr (O.offloads) {
        flags |= kReceiveFlags[flags_index(cqe.hds_ip_ext, cqe.l4_l3_type)] & ring.flags_mask;
        flags |= cqe.rx_hash_type != 0 ? ring.hash_flag : 0;
        mbuf.vlan_tci = cqe.vlan_info;
        mbuf.hash.rss = cqe.rx_hash_result;
    }
    if constexpr (O.mark) flags |= read_mark(cqe, mbuf);
    mbuf.ol_flags = flags;
}

/// The mbufs of WQE `index` (which counts without end).
template <RxOptions O> inline rte_mbuf** slot_mbufs(const MlxRxRing& ring, uint32_t index) {
    const uint32_t slot = index & ring.mask;
    return &ring.mbufs[O.scattered ? slot << ring.log_segments : slot];
}

constexpr uint32_t kPrefetchAhead = 3; ///< packets

template <RxOptions O> uint16_t receive(void* queue, rte_mbuf** packets, uint16_t count) {
    auto& ring = *static_cast<MlxRxRing*>(queue);
    uint32_t consumer = ring.cq.consumer;
    uint32_t slot = ring.consumer;
    uint64_t bytes_received = 0;
    uint16_t received = 0;
    bool error = false;
    while (received < count) {
        const Cqe& cqe = ring.cq.at(consumer);
        const uint8_t op_own = load_op_own(cqe);
        if ((op_own & Cq::kOpcodeAndOwner) != ring.cq.expected(CqeOpcode::resp_send, consumer)) {
            error = ring.cq.classify(op_own, consumer) != CqeState::empty;
            break;
        }
        owner_before_content();
        rte_mbuf** mbufs = slot_mbufs<O>(ring, slot);
        rte_mbuf* mbuf = mbufs[0];
        rte_prefetch0(*slot_mbufs<O>(ring, slot + kPrefetchAhead));
        rte_prefetch0(&ring.cq.at(consumer + kPrefetchAhead));

        const uint32_t bytes = cqe.byte_count;
        describe<O>(ring, cqe, *mbuf, bytes);
        if constexpr (O.scattered) take_chain(ring, mbufs, bytes);
        ++slot;
        ++consumer;
        bytes_received += bytes;
        packets[received++] = mbuf;
    }
    if (received > 0) {
        ring.consumer = static_cast<uint16_t>(ring.consumer + received);
        ring.cq.consumer = consumer;
        ring.cq.publish_consumer();
        ring.counters.packets += received;
        ring.counters.bytes += bytes_received;
    }
    if (error) [[unlikely]]
        recover(ring);
    if (ring.missing() >= ring.refill_batch) refill(ring);
    return received;
}

constexpr RxOptions rx_options(size_t index) {
    return {(index & 1) != 0, (index & 2) != 0, (index & 4) != 0};
}
constexpr size_t kVariants = 8;

template <size_t I>
constexpr BurstName kName = burst_name("mlx5 scalar", {{rx_options(I).scattered, "scattered"},
                                                       {rx_options(I).offloads, "offloads"},
                                                       {rx_options(I).mark, "mark"}});

constexpr auto kBursts = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{Burst<eth_rx_burst_t>{receive<rx_options(I)>, kName<I>.data()}...};
}
(std::make_index_sequence<kVariants>());

constexpr uint64_t kDescribedOffloads =
    RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_RSS_HASH;

} // namespace

Burst<eth_rx_burst_t> rx_burst(const RxSpec& spec) {
    const bool scattered = spec.segments > 1;
    const bool offloads = (spec.offloads & kDescribedOffloads) != 0;
    return kBursts[size_t{scattered} | size_t{offloads} << 1 | size_t{spec.mark} << 2];
}

} // namespace rawqp::mlx5rings
