// SPDX-License-Identifier: BSD-3-Clause
// Queue life cycle: verbs objects and ring of each Rx and Tx queue, from set-up to release.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"

namespace rawqp {

/// Limits of the device and of the ring formats together: powers of two.
[[nodiscard]] uint16_t max_rx_descriptors(const Port& port);
[[nodiscard]] uint16_t max_tx_descriptors(const Port& port);
/// Longest mbuf chain that one send WQE takes.
[[nodiscard]] uint16_t max_tx_segments(const Port& port);
/// SGEs that one receive WQE may have.
[[nodiscard]] uint16_t max_rx_segments(const Port& port);

/// mbufs of `pool` that a frame of `frame` bytes needs, as a power of two. EINVAL when that is more
/// than the device takes, or more than one without RTE_ETH_RX_OFFLOAD_SCATTER.
[[nodiscard]] Result<uint8_t> rx_segments(const Port& port, rte_mempool* pool, uint32_t frame,
                                          uint64_t offloads);

/// Whether a creation failed for what was asked rather than for want of something: providers do not
/// agree on the error by which they say that they do not know it.
[[nodiscard]] inline bool is_unsupported(int error) {
    return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

/// A CQ that the caller promises to use from one thread at a time, so that the provider takes no
/// locks; an ordinary one where the provider has no such CQs. Null with errno on failure.
[[nodiscard]] ibv_cq_ex* create_single_threaded_cq(ibv_context* context,
                                                   const ibv_cq_init_attr_ex& attributes);

/// Gives the spec the segments that a frame of so many bytes without FCS needs: as rx_segments, or
/// the split that the application asked for. Errors as rx_segments.
[[nodiscard]] Result<void> fit_segments(const Port& port, RxSpec& spec, uint32_t frame);

/// ethdev operations; see rte_eth_rx_queue_setup and rte_eth_tx_queue_setup.
int rx_queue_setup(rte_eth_dev* dev, uint16_t id, uint16_t descriptors, unsigned socket,
                   const rte_eth_rxconf* conf, rte_mempool* pool) noexcept;
/// While the port runs, steering goes on to refer to the queue's WQ, until it is set up again.
void rx_queue_release(rte_eth_dev* dev, uint16_t id) noexcept;
/// Of a started port. What steering sends to a stopped queue is dropped by the device.
int rx_queue_start(rte_eth_dev* dev, uint16_t id) noexcept;
int rx_queue_stop(rte_eth_dev* dev, uint16_t id) noexcept;
int tx_queue_setup(rte_eth_dev* dev, uint16_t id, uint16_t descriptors, unsigned socket,
                   const rte_eth_txconf* conf) noexcept;
void tx_queue_release(rte_eth_dev* dev, uint16_t id) noexcept;
/// Of a started port.
int tx_queue_start(rte_eth_dev* dev, uint16_t id) noexcept;
int tx_queue_stop(rte_eth_dev* dev, uint16_t id) noexcept;
/// What the queue counted since the statistics were reset. Packets that an error or a stop took
/// back may have been counted before that: then the count goes on from there.
[[nodiscard]] TxCounters since_reset(TxQueue& queue);
/// Packet pacing in Mbit/s, 0: none. See rte_eth_set_queue_rate_limit.
int set_queue_rate_limit(rte_eth_dev* dev, uint16_t id, uint32_t rate) noexcept;

/// Sets up anew, with the port's present MTU, each stopped Rx queue that was made for another one.
[[nodiscard]] Result<void> refit_rx_queues(Port& port);

/// `spec` with the demands of all queues of the port: what its one burst function must serve.
[[nodiscard]] RxSpec combined_rx_spec(const Port& port, RxSpec spec);
[[nodiscard]] TxSpec combined_tx_spec(const Port& port, TxSpec spec);

/// Whether the WQ is to take VLAN tags out: they are to be, and the ring format leaves it to the
/// WQ.
[[nodiscard]] bool wants_wq_strip(const RxQueue& queue);
/// Makes it so, of a WQ in RDY.
[[nodiscard]] Result<void> settle_wq_strip(RxQueue& queue);

/// Has every Rx queue report the marks of rte_flow rules, from its next burst on.
void use_marks(Port& port);

/// RingHost::reset, after an error CQE: the WQ or QP to reset and back to ready.
[[nodiscard]] int recover(RxQueue& queue);
[[nodiscard]] int recover(TxQueue& queue);

/// Start brings a queue from set-up to running, stop brings it back; both do nothing when it is so
/// already. Stop waits up to 200 ms for packets that were handed to the device to leave.
[[nodiscard]] Result<void> start_rx_queue(RxQueue& queue);
void stop_rx_queue(RxQueue& queue);
[[nodiscard]] Result<void> start_tx_queue(TxQueue& queue);
void stop_tx_queue(TxQueue& queue);

} // namespace rawqp
