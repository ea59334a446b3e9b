// SPDX-License-Identifier: BSD-3-Clause
// The interface between the control path (ethdev/) and a ring format (one folder under rings/).
//
// ethdev/ creates the verbs objects, hands them to a format and from then on only starts, stops and
// destroys the ring; the format owns the ring memory's content and the mbufs in it. A port uses one
// format for all of its queues, chosen once (datapath devarg).
#pragma once

#include "common/result.hpp"
#include "common/verbs/api.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/figure.hpp"
#include "drivers/net/rawqp/rings/mr_table.hpp"
#include "drivers/net/rawqp/rings/ptp.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rawqp {

/// Written by the queue's own lcore only, by count_up() and count_down(); read by others with
/// relaxed loads (see load_counter).
struct RxCounters {
    uint64_t packets = 0;
    uint64_t bytes = 0;
    uint64_t errors = 0;     ///< packets lost to error CQEs (ierrors)
    uint64_t nombuf = 0;     ///< buffers that could not be replaced when due (rx_nombuf)
    uint64_t recoveries = 0; ///< times the queue was reset after an error
};
struct TxCounters {
    uint64_t packets = 0; ///< given to the device, less those that an error CQE undid
    uint64_t bytes = 0;
    uint64_t errors = 0; ///< packets accepted but not sent: error CQE, no lkey (oerrors)
    uint64_t recoveries = 0;
    uint64_t past_times = 0;   ///< packets whose send time had passed, …
    uint64_t future_times = 0; ///< … or lay so far ahead that they were sent at once
};
[[nodiscard]] inline uint64_t load_counter(const uint64_t& counter) {
    return __atomic_load_n(&counter, __ATOMIC_RELAXED);
}
/// A single store, which readers never see torn: neither ordering nor a locked instruction is
/// needed.
inline void count_up(uint64_t& counter, uint64_t more = 1) {
    __atomic_store_n(&counter, counter + more, __ATOMIC_RELAXED);
}
/// Takes back what was counted.
inline void count_down(uint64_t& counter, uint64_t less = 1) {
    __atomic_store_n(&counter, counter - less, __ATOMIC_RELAXED);
}

/// Common head of every format's ring. The address of the ring is the ethdev queue pointer. Rings
/// live in DPDK memory and hold no pointer that is valid in one process only (except those of the
/// verbs format, whose rings belong to the provider); RingHost has what else they need.
struct RxRing {
    RxCounters counters;
    uint16_t port_id = 0;
    uint16_t queue_id = 0;
    /// A feature is in use that the burst function was not chosen for: rte_flow marks, stripped
    /// VLAN tags. Bursts then report everything that they can. The control path may turn it on at
    /// any time, before the first such packet.
    bool tell_all = false;
    /// PTP messages are recognised and their time stamps kept; tell_all is then set, too.
    bool tell_ptp = false;
    /// For metadata that rules set: the offset of the mbuf's dynamic field, and its flag in
    /// ol_flags; 0: no rule sets any, or the application has no field for it.
    uint8_t metadata_offset = 0;
    uint64_t metadata_flag = 0;
    /// RTE_PTYPE_TUNNEL_* of all tunnelled packets that reach the queue; 0: there are several
    /// kinds.
    uint32_t tunnel_type = 0;
};
struct TxRing {
    TxCounters counters;
    uint16_t port_id = 0;
    uint16_t queue_id = 0;
    uint16_t max_segments = 1; ///< longest mbuf chain that one send WQE takes
    bool stamps = false;       ///< RTE_MBUF_F_TX_IEEE1588_TMST is honoured
    uint64_t offloads = 0;     ///< RTE_ETH_TX_OFFLOAD_* of the queue
    uint32_t max_tso = 0;      ///< most TCP payload bytes of a packet to be segmented
};

/// CQ entries to ask for so that a send queue's CQ never overruns: each WQE yields at most one CQE,
/// even when an error flushes all of them. CQs have a power of two of entries, and more than were
/// asked for, so there is room for as many WQEs again, which only ask for a completion. Those that
/// wait for a packet's time come on top.
[[nodiscard]] constexpr uint32_t tx_cq_depth(uint16_t descriptors, uint64_t offloads) {
    return (offloads & RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP) != 0 ? 2u * descriptors : descriptors;
}

/// Fewest descriptors of a queue, either direction.
inline constexpr uint16_t kMinDescriptors = 64;
/// Most; the doorbell counters are 16 bits wide.
inline constexpr uint16_t kMaxDescriptors = 32768;
/// Most bytes that the headers of an LRO packet take: they are completed in the first mbuf.
inline constexpr uint32_t kLroHeaderBytes = 128;
/// SGEs of one WQE, at most.
inline constexpr uint8_t kMaxRxSegments = 32;
static_assert(kMinDescriptors >= 2 * kMaxRxSegments, "the smallest ring takes some packets");
inline constexpr uint16_t kMaxTxSegments = 32;
/// Bytes that TxSpec::inline_bytes may be, at most.
inline constexpr uint16_t kMaxInlineBytes = 512;

/// Multi-packet WQEs: each holds a number of strides, a packet takes one or more.
struct StridingSpec {
    uint8_t log_strides = 0;      ///< strides of a WQE; 0: the default
    uint8_t log_stride_bytes = 0; ///< 0: large enough for a frame
    uint16_t copy_bytes = 0;      ///< packets of up to this many bytes are copied out
};

/// A segment of a packet: where its mbufs come from, and where and how much data they hold.
struct RxSegment {
    rte_mempool* pool = nullptr;
    uint16_t offset = 0; ///< of the data in the mbuf's buffer
    uint16_t room = 0;   ///< bytes, at most
};

struct RxSpec {
    const verbs::Api* api = nullptr;
    ibv_context* context = nullptr;
    ibv_cq_ex* cq = nullptr; ///< created with RingFormat::rx_wc_flags and rx_cq_depth
    ibv_wq* wq = nullptr;    ///< state RESET until rx_start
    uint16_t port_id = 0, queue_id = 0;
    uint16_t descriptors = 0; ///< power of two: mbufs in the ring (striding queues: strides)
    uint8_t segments = 1;     ///< mbufs per packet, power of two: more than 1 is scattered Rx
    uint32_t max_frame = 0; ///< longest packet in bytes without FCS: a frame, or what LRO assembles
    uint64_t offloads = 0;  ///< RTE_ETH_RX_OFFLOAD_*
    bool compressed = false; ///< the CQ was created with CQE compression
    bool real_time = false;  ///< time stamps in nanoseconds of real time rather than ticks
    StridingSpec striding;   ///< for the formats with striding queues
    int socket = 0;
    rte_mempool* pool = nullptr;
    /// RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT: all `segments` of a packet; `pool` is that of the first.
    std::vector<RxSegment> split;
    std::vector<rte_eth_rxseg_split> split_wanted; ///< as the application gave it
    MrTable* mrs = nullptr;
    unsigned active_simd_bits = 128;
};
/// Receive WQEs, where each takes one packet: their SGEs are the descriptors.
[[nodiscard]] inline uint32_t rx_wqes(const RxSpec& spec) {
    return uint32_t{spec.descriptors} / spec.segments;
}

/// Headers that the device wants inlined in WQEs so that it can steer and tag by them.
enum class InlineMode : uint8_t {
    automatic, ///< what devices of its kind want by default
    none,
    l2,  ///< Ethernet with a tag
    ip,  ///< and IPv6
    tcp, ///< and TCP
};

struct TxSpec {
    const verbs::Api* api = nullptr;
    ibv_context* context = nullptr;
    ibv_cq_ex* cq = nullptr;    ///< tx_cq_depth() entries, no wc_flags needed
    ibv_qp_ex* qp_ex = nullptr; ///< of `qp`, for ibv_wr_* with TxQpNeeds::send_ops; null: none
    bool work_requests = false; ///< there is one; also known where QPs are not
    ibv_qp* qp = nullptr;       ///< RTS after tx_start; sq_sig_all = 0, max_send_wr = descriptors
    uint16_t port_id = 0, queue_id = 0;
    uint16_t descriptors = 0;    ///< power of two: mbuf segments that fit
    uint16_t max_segments = 1;   ///< SGEs per send WQE, at most descriptors / 2
    uint64_t offloads = 0;       ///< RTE_ETH_TX_OFFLOAD_*
    uint32_t max_tso = 0;        ///< TxRing::max_tso; 0: the device has no TSO
    uint32_t vendor_part_id = 0; ///< ibv_device_attr's; 0: not known
    /// RingFormat::tx_settle has filled in what the device decides.
    bool settled = false;
    bool multi_packet = true; ///< several packets may share a WQE, on devices that can
    InlineMode min_inline = InlineMode::automatic;
    bool blue_flame = false;   ///< single WQEs are written to the doorbell register
    bool own_register = false; ///< TxQpNeeds::thread_domain was met
    bool metadata = false;     ///< applications have an mbuf field for it
    uint64_t time_mask = 0;    ///< bits of the device's clock that it can wait for; 0: it cannot
    uint32_t clock_khz = 0;    ///< of that clock
    uint16_t inline_bytes = 0; ///< packets of up to this many bytes are copied into WQEs
    unsigned active_simd_bits = 128; ///< widest vectors that EAL allows
    int socket = 0;
    MrTable* mrs = nullptr;
};

/// How to create the QP of a send ring.
struct TxQpNeeds {
    ibv_qp_cap cap{};
    uint16_t max_tso_header = 0; ///< bytes of header before each segment; 0: no TSO
    /// IBV_QP_EX_WITH_*: wanted, but optional: some providers lack these calls.
    uint64_t send_ops = 0;
    /// Wants a thread domain of its own, where the provider has them: no locks in its calls, and a
    /// doorbell register that no other queue writes to.
    bool thread_domain = false;
};

/// A burst function and what `burst_mode_get` says about it ("mlx5 scalar", …).
template <class Function> struct Burst {
    Function function = nullptr;
    const char* description = "";
};

/// One ring format. All functions run on control threads except the burst functions.
struct RingFormat {
    const char* name; ///< value of the datapath devarg

    /// Why this format cannot drive the device, in a clause ("not an mlx5 device"); empty: it can.
    std::string (*reject)(const verbs::Api& api, ibv_context* context);

    /// Extended CQ fields (ibv_create_cq_wc_flags) that the format's Rx wants; 0: none (mapped
    /// rings read the CQEs themselves).
    uint64_t (*rx_wc_flags)(const RxSpec& spec);
    /// CQ entries, as with tx_cq_depth: the packets that the ring has room for.
    uint32_t (*rx_cq_depth)(const RxSpec& spec);

    /// The same format with striding (multi-packet) receive queues, or null.
    const RingFormat* striding = nullptr;

    /// Completes or adjusts a spec that is about to be used: descriptors, strides. May be null.
    Result<void> (*rx_adjust)(RxSpec& spec);
    /// Creates the WQ; returns null with errno on failure. May itself be null: ibv_create_wq does
    /// it.
    ibv_wq* (*rx_wq)(const RxSpec& spec, ibv_wq_init_attr& attributes);

    /// Creates an Rx CQ whose CQEs the device may compress, with the room that compression takes;
    /// returns null when device or provider cannot. May itself be null.
    ibv_cq_ex* (*rx_compressed_cq)(const RxSpec& spec, ibv_cq_init_attr_ex& attributes);

    /// Packets of this device can be stamped with real time (RxSpec::real_time).
    bool (*stamps_real_time)(const verbs::Api& api, ibv_context* context);

    /// Converts device clock ticks to nanoseconds of real time; returns 0 or an errno value. Null:
    /// the format cannot.
    int (*real_time)(const verbs::Api& api, ibv_context* context, uint64_t ticks,
                     uint64_t& nanoseconds);

    /// Creates a hash QP whose completions describe tunnels in a way that the format can read;
    /// returns null with errno on failure. May itself be null: ibv_create_qp_ex does it.
    ibv_qp* (*rx_hash_qp)(const verbs::Api& api, ibv_context* context,
                          ibv_qp_init_attr_ex& attributes);

    /// Its rings take packets that the device has assembled from TCP segments
    /// (RTE_ETH_RX_OFFLOAD_TCP_LRO). Whether the device can do that is for steering to find out.
    bool rx_lro = false;

    /// Offloads that the format can offer on a device with these capabilities.
    uint64_t (*rx_offloads)(const ibv_device_attr_ex& device);
    uint64_t (*tx_offloads)(const verbs::Api& api, ibv_context* context,
                            const ibv_device_attr_ex& device);

    Result<RxRing*> (*rx_create)(const RxSpec& spec);
    /// Fills the ring with mbufs and posts them; the WQ is in RDY. Fails with ENOMEM, holding no
    /// mbuf, when the pool cannot fill it.
    Result<void> (*rx_start)(RxRing& ring);
    /// Frees every mbuf that the ring holds and rewinds it; the WQ is in RESET (or destroyed).
    /// Returns how many packets were received but not polled: they are lost to the application.
    uint32_t (*rx_stop)(RxRing& ring);
    void (*rx_destroy)(RxRing* ring);
    /// Makes the next completion, or one that the queue's lcore has not seen yet, raise an event in
    /// the CQ's channel. Called on any thread, but never while a burst of the queue runs. 0 or an
    /// errno value; EAGAIN: the queue has no buffer and gets none, so nothing would ever complete.
    int (*rx_arm)(RxRing& ring);
    /// An event was taken from the channel.
    void (*rx_event_taken)(RxRing& ring);
    /// Starts or stops stripping VLAN tags from packets, at any time. Null: completions tell what
    /// the WQ stripped (IBV_WQ_FLAGS_CVLAN_STRIPPING).
    Result<void> (*rx_strip_vlan)(RxRing& ring, bool strip);

    /// Replaces what the spec leaves to the device with what the device wants, so that any process
    /// can choose the burst function. May be null: nothing is left to the device.
    void (*tx_settle)(TxSpec& spec);
    TxQpNeeds (*tx_needs)(const TxSpec& spec);
    Result<TxRing*> (*tx_create)(const TxSpec& spec);
    /// Rewinds the ring; the QP is in RESET, with zeroed indices. Packets in it are errors.
    void (*tx_start)(TxRing& ring);
    /// Frees every mbuf; the QP is in RESET. Returns how many packets the device had not completed:
    /// they are deducted from the packets sent and counted as errors.
    uint32_t (*tx_stop)(TxRing& ring);
    void (*tx_destroy)(TxRing* ring);

    /// Rx looks at the spec's offloads, segments, real_time and active_simd_bits; Tx wants a
    /// settled spec.
    Burst<eth_rx_burst_t> (*rx_burst)(const RxSpec& spec);
    Burst<eth_tx_burst_t> (*tx_burst)(const TxSpec& spec);

    // For rte_eth_timesync_*. Null where a format cannot tell when packets were sent.
    /// Turns a port's tx_burst in this process into one that also notes what it sends with
    /// RTE_MBUF_F_TX_IEEE1588_TMST. One process at a time may send such packets on a queue.
    eth_tx_burst_t (*tx_stamping)(uint16_t port_id, eth_tx_burst_t plain);
    /// Returns, once, the device clock ticks at which the last such packet was sent. Nothing when
    /// it has not been sent yet, there was none, or the queue has since had as many completions as
    /// it has descriptors.
    std::optional<uint64_t> (*tx_take_stamp)(TxRing& ring);
    /// RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP, on devices whose send queues wait (TxSpec::time_mask).
    bool tx_waits = false;
    /// The stamps that the queue keeps of PTP messages. Null where packets have no stamps.
    PtpStamps& (*rx_ptp_stamps)(RxRing& ring);

    // Rings that another process created, in memory that this one shares. tx_map is null where
    // rings cannot be shared.
    /// Other processes are about to use the ring or free its packets: from now on it hands out no
    /// packet that only the receiving process can free. May be null.
    void (*rx_share)(RxRing& ring);
    /// Maps into this process what the queue needs of its device, whose descriptor `fd` was sent by
    /// the process that opened it; tx_unmap undoes it.
    Result<void> (*tx_map)(const TxRing& ring, int fd);
    void (*tx_unmap)(uint16_t port_id, uint16_t queue_id);
    /// Refuses (rte_errno) what the queue would drop: too many segments, flags not offered, runts.
    eth_tx_prep_t tx_prepare;
    // Null where a format cannot tell.
    eth_rx_queue_count_t rx_queue_count;
    eth_rx_descriptor_status_t rx_descriptor_status;
    eth_get_monitor_addr_t rx_monitor_addr;
    eth_tx_descriptor_status_t tx_descriptor_status;
    eth_tx_done_cleanup_t tx_done_cleanup;

    // For people to read, in every process. For a queue in use it is only a glimpse, as its lcore
    // goes on.
    Figures (*rx_figures)(const RxRing& ring);
    Figures (*tx_figures)(const TxRing& ring);
    /// Describes, in lines of text, the descriptor `offset` after the next one that a packet will
    /// be taken from (or, on a send queue, put into). There are as many as the queue was set up
    /// with.
    std::string (*rx_descriptor_text)(const RxRing& ring, uint16_t offset);
    std::string (*tx_descriptor_text)(const TxRing& ring, uint16_t offset);

    /// Packet types that Rx reports, ended by RTE_PTYPE_UNKNOWN; null: none.
    const uint32_t* ptypes = nullptr;
};

} // namespace rawqp
