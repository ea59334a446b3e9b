// SPDX-License-Identifier: BSD-3-Clause
// How the variants of the send burst on mapped mlx5 rings differ.
#pragma once

#include "common/mlx5/formats.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp::mlx5rings {

/// How much of a packet is copied into its WQE.
enum class Inlining : uint8_t {
    none,
    header, ///< the Ethernet header, as some devices demand
    packet, ///< short packets as a whole, and of others what the device demands
};

/// Chosen once per port; a template argument of everything that runs per packet.
struct TxOptions {
    bool multi_segment = false; ///< packets in several mbufs
    bool offloads = false;      ///< checksums or tags may be requested
    bool long_headers = false; ///< segmentation or two tags may be requested: the header is inlined
    Inlining inlining = Inlining::none;
    bool multi_packet = false; ///< several packets in one WQE (eMPW)
    bool avx2 = false;         ///< in a source compiled for it: see tx_avx2.cpp
    bool fast_free = false;    ///< every mbuf is of one pool, direct, unshared and a whole packet
    bool metadata = false;     ///< packets may have some, for rules to match
    bool scheduled = false;    ///< packets may have a time to be sent at

    /// Whether a WQE may take more WQEBBs than its packet has segments.
    [[nodiscard]] constexpr bool long_wqes() const {
        return long_headers || inlining == Inlining::packet || scheduled;
    }
};

/// Resolves options that exclude or include each other: sets that then are equal share one burst.
constexpr TxOptions settled(TxOptions options) {
    if (options.long_headers) options.offloads = true;
    if (options.inlining == Inlining::header) options.multi_packet = false;
    if (options.multi_segment) options.fast_free = false;
    return options;
}

/// Offloads that may need more than a descriptor's worth of WQE: TxOptions::long_headers.
inline constexpr uint64_t kLongHeaders =
    RTE_ETH_TX_OFFLOAD_QINQ_INSERT | RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_VXLAN_TNL_TSO;

/// What a burst has posted so far.
struct TxBatch {
    mlx5::WqeCtrlSeg* last = nullptr; ///< control segment of the last WQE; null: none posted
    uint64_t bytes = 0;
    uint32_t packets = 0;
    uint32_t lkey_be = 0;         ///< of all buffers of the pool; 0: to be looked up by address
    rte_mempool* pool = nullptr;  ///< of the first packet
    uint64_t needs_slow_free = 0; ///< not 0: some mbuf must be looked at when it is freed
    rte_mempool* unasked_pool = nullptr; ///< MlxTxRing's, before the burst
    uint32_t room = 0;                   ///< segments that still fit
};

inline constexpr uint64_t kNotDirect = RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;

/// Whether the mbuf can go back to the pool as it is: a whole packet that nobody else holds. It
/// stays so until freed, as nobody else can change it.
inline bool is_plain(const rte_mbuf& mbuf, const rte_mempool* pool) {
    return mbuf.refcnt == 1 && mbuf.nb_segs == 1 && (mbuf.ol_flags & kNotDirect) == 0 &&
           mbuf.pool == pool;
}

} // namespace rawqp::mlx5rings
