// SPDX-License-Identifier: BSD-3-Clause
// Queue life cycle: verbs objects and ring of each Rx and Tx queue, from set-up to release.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/queues/queue.hpp"

#include <memory>
#include <vector>

namespace rawqp {

/// Limits of the device and of the ring formats together: powers of two.
[[nodiscard]] uint16_t max_rx_descriptors(const Port& port);
[[nodiscard]] uint16_t max_tx_descriptors(const Port& port);
/// Longest mbuf chain that one send WQE takes.
[[nodiscard]] uint16_t max_tx_segments(const Port& port);
/// SGEs that one receive WQE may have.
[[nodiscard]] uint16_t max_rx_segments(const Port& port);

/// Gives the spec the segments that a frame of this many bytes without FCS needs: mbufs of its
/// pool, a power of two, or the split that the application asked for. EINVAL when that is more than
/// the device takes, or more than one mbuf without RTE_ETH_RX_OFFLOAD_SCATTER.
[[nodiscard]] Result<void> fit_segments(const Port& port, RxSpec& spec, uint32_t frame);

/// Creates a queue that is set up and stopped. `wanted` holds what the application chose; the rest
/// of the spec is filled in.
[[nodiscard]] Result<std::unique_ptr<RxQueue>> create_rx_queue(Port& port, const RxSpec& wanted);

/// Sets up anew, for the port's present MTU, each stopped Rx queue that was made for another one.
[[nodiscard]] Result<void> refit_rx_queues(Port& port);

/// `spec` with the demands of all queues of the port: what its one burst function must serve.
[[nodiscard]] RxSpec combined_rx_spec(const Port& port, RxSpec spec);
[[nodiscard]] TxSpec combined_tx_spec(const Port& port, TxSpec spec);

/// Makes every Rx queue report the marks of rte_flow rules, from its next burst on.
void use_marks(Port& port);
/// Likewise the metadata that they set.
void use_metadata(Port& port);
/// Makes a ring that nobody polls yet report what the port's rules attach to packets, as the other
/// rings do.
void report_as_others(const Port& port, RxRing& ring);

/// RingHost::reset, after an error CQE: takes the WQ or QP to reset and back to ready. Bursts try
/// again every millisecond, so of failures in a row only some are logged, and none once the device
/// is gone.
[[nodiscard]] int recover(RxQueue& queue);
[[nodiscard]] int recover(TxQueue& queue);

/// Start takes a queue from set-up to running, stop takes it back; both do nothing if that is
/// already done. The stop of Tx queues waits up to 200 ms, for all of them together, for packets
/// handed to the device to leave.
[[nodiscard]] Result<void> start_rx_queue(RxQueue& queue);
void stop_rx_queue(RxQueue& queue);
[[nodiscard]] Result<void> start_tx_queue(TxQueue& queue);
void stop_tx_queues(const std::vector<TxQueue*>& queues);

} // namespace rawqp
