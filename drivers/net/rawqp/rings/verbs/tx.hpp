// SPDX-License-Identifier: BSD-3-Clause
// A send queue over ibv_post_send.
#pragma once

#include "drivers/net/rawqp/rings/recovery.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"
#include "drivers/net/rawqp/rings/tx_common.hpp"

namespace rawqp::verbsrings {

/// Packets posted by one call; the last one is signalled.
inline constexpr uint16_t kTxChunk = 64;

/// Where a packet's header is put together when it is spread over mbufs.
using TsoHeader = std::array<uint8_t, kMaxTsoHeader>;

/// Requests carry in wr_id where their mbufs start and end in TxMbufs.
struct VerbsTxRing : TxRing {
    ibv_cq_ex* cq = nullptr;
    ibv_qp* qp = nullptr;
    TxMbufs mbufs;
    bool fast_free = false;          ///< whole_packets_of_one_pool()
    bool faulty = false;             ///< an error completion was taken, the reset is due
    ibv_send_wr* requests = nullptr; ///< kTxChunk, written anew for each chunk
    ibv_sge* sges = nullptr;         ///< max_segments for each
    MrCache mrs;

    // Control and error path.
    RetryGate retry;
    unsigned error_status = 0; ///< ibv_wc_status
    unsigned error_vendor = 0;
    SocketArray<ibv_send_wr> request_memory;
    SocketArray<ibv_sge> sge_memory;
    SocketArray<TsoHeader> headers; ///< one for each request, on queues with TSO

    [[nodiscard]] uint8_t* header_scratch(const ibv_send_wr& request) {
        return headers[static_cast<size_t>(&request - requests)].data();
    }
};

Result<TxRing*> tx_create(const TxSpec& spec);
Burst<eth_tx_burst_t> tx_burst(const TxSpec& spec);

// What the templates of tx_common.hpp ask for.
bool reap(VerbsTxRing& ring, uint32_t limit);
void rewind(VerbsTxRing& ring);
void drain(VerbsTxRing& ring);
inline void forget_keys(VerbsTxRing& ring) { ring.mrs.clear(); }

} // namespace rawqp::verbsrings
