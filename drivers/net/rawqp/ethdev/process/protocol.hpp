// SPDX-License-Identifier: BSD-3-Clause
// What the processes of a port say to each other.
//
// A secondary asks the primary through rte_mp, one question at a time, and waits for the answer for
// a bounded time. With the answer to `attach` it gets two descriptors: the RDMA device's, to map
// doorbell registers from, and one end of a channel. Over the channel the primary says that the
// shared state has changed, and waits, also for a bounded time, until the secondary has let go of
// what it must no longer use. The channel also tells each side that the other one has died.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/ring_host.hpp"

namespace rawqp {

inline constexpr char kActionName[] = "net_rawqp";

/// How long a secondary waits for an answer, on whatever thread asks.
inline constexpr unsigned kAnswerMilliseconds = 500;
/// The same when it attaches: a program may take its time to start, and EAL's own requests wait as
/// long.
inline constexpr unsigned kAttachMilliseconds = 5000;
/// How long the primary waits for all secondaries of a port together.
inline constexpr unsigned kLetGoMilliseconds = 1000;
/// How long a control call of a secondary asks again while the primary's control path is busy with
/// the port: that may wait for other secondaries meanwhile.
inline constexpr unsigned kBusyMilliseconds = 2 * kLetGoMilliseconds;

enum class Question : uint32_t {
    attach,
    register_address, ///< RingHost's functions
    reset_rx,
    reset_tx,
    read_clock,
    device_clock, ///< rte_eth_read_clock
    read_link,    ///< into rte_eth_dev_data
    query_flow,   ///< action count
    read_missed,  ///< into SharedPort
};

struct QuestionMessage {
    uint32_t number = 0; ///< of the asking process's questions
    Question what{};
    uint16_t port_id = 0;
    uint16_t queue_id = 0;
    uintptr_t address = 0; ///< to register; of the ring to reset; of the rte_flow
    bool reset_counters = false;
};

struct AnswerMessage {
    uint32_t number = 0; ///< the question's: EAL mistakes a late answer for that to the next one
    int error = 0;       ///< errno value; EAGAIN: the control path is busy with the port at present
    MrEntry entry;
    mlx5dv_clock_info clock{};
    uint64_t time = 0;               ///< of device_clock
    uint64_t packets = 0, bytes = 0; ///< of a flow
};
static_assert(sizeof(QuestionMessage) <= RTE_MP_MAX_PARAM_LEN);
static_assert(sizeof(AnswerMessage) <= RTE_MP_MAX_PARAM_LEN);

enum class Event : uint32_t {
    changed, ///< look at SharedPort again
    closed,  ///< the port is about to vanish
};
/// Sent over the channel, and sent back as the answer. The secondary begins: with a message of
/// number 0 it says that it has the channel, before it looks at the shared state. Until then there
/// is nothing for it to let go of, and nobody waits for it: its answer to `attach` may have got
/// lost.
struct EventMessage {
    Event what{};
    uint32_t number = 0;
    bool operator==(const EventMessage&) const = default;
};

} // namespace rawqp
