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
    uint64_t packets = 0; ///< given to the device; what an error CQE undoes is taken back
    uint64_t bytes = 0;
    uint64_t errors = 0; ///< packets accepted but not sent: error CQE, no lkey (oerrors)
    uint64_t recoveries = 0;
    uint64_t past_times = 0;   ///< packets to be sent at a time that was past, …
    uint64_t future_times = 0; ///< … or so far ahead that they were sent at once
};
[[nodiscard]] inline uint64_t load_counter(const uint64_t& counter) {
    return __atomic_load_n(&counter, __ATOMIC_RELAXED);
}
/// One store, which others see whole and at any time: no order is needed, nor a locked instruction.
inline void count_up(uint64_t& counter, uint64_t more = 1) {
    __atomic_store_n(&counter, counter + more, __ATOMIC_RELAXED);
}
/// Takes back what was counted.
inline void count_down(uint64_t& counter, uint64_t less = 1) {
    __atomic_store_n(&counter, counter - less, __ATOMIC_RELAXED);
}

/// Common head of every format's ring. The address of the ring is the ethdev queue pointer. Rings
/// are in DPDK memory and hold no pointer that only one process can follow (but for those of the
/// verbs format, whose rings are the provider's); what else they need is the RingHost's.
struct RxRing {
    RxCounters counters;
    uint16_t port_id = 0;
    uint16_t queue_id = 0;
    /// Something is in use that the burst function was not chosen for: rte_flow marks, stripped
    /// VLAN tags. Bursts then tell all that they can. The control path turns it on at any time,
    /// before the first such packet.
    bool tell_all = false;
    /// PTP messages are told apart and their stamps kept; tell_all is set then, too.
    bool tell_ptp = false;
    /// Of metadata that rules set: the mbuf's dynamic field, and its flag in ol_flags; 0: none do,
    /// or the application has no place for it.
    uint8_t metadata_offset = 0;
    uint64_t metadata_flag = 0;
    /// RTE_PTYPE_TUNNEL_* of all tunnelled packets that come to the queue; 0: of several kinds.
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

/// CQ entries that a queue needs so that its CQ never overruns: each WQE ends in one CQE at most,
/// also when an error flushes all of them.
[[nodiscard]] constexpr uint32_t tx_cq_depth(uint16_t descriptors) { return descriptors; }

/// Fewest descriptors of a queue, either direction.
inline constexpr uint16_t kMinDescriptors = 64;
/// Most; the doorbell counters are 16 bits wide.
inline constexpr uint16_t kMaxDescriptors = 32768;
/// Bytes that the headers of a packet take, at most, which LRO completes: they are in the first
/// mbuf.
inline constexpr uint32_t kLroHeaderBytes = 128;
/// SGEs of one WQE, at most.
inline constexpr uint8_t kMaxRxSegments = 32;
static_assert(kMinDescriptors >= 2 * kMaxRxSegments, "the smallest ring takes some packets");
inline constexpr uint16_t kMaxTxSegments = 32;
/// Bytes that TxSpec::inline_bytes may be, at most.
inline constexpr uint16_t kMaxInlineBytes = 512;

/// Multi-packet WQEs: each holds a number of strides, a packet takes one or more.
struct StridingSpec {
    uint8_t log_strides = 0;      ///< strides of a WQE; 0: what is usual
    uint8_t log_stride_bytes = 0; ///< 0: such that a frame fits in one
    uint16_t copy_bytes = 0;      ///< packets of up to so many bytes are copied out
};

/// A segment of a packet: which mbufs it takes and how much of it lies where.
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
    uint16_t descriptors = 0; ///< power of two: mbufs in the ring (of striding queues: strides)
    uint8_t segments = 1;     ///< mbufs per packet, power of two: more than 1 is scattered Rx
    uint32_t max_frame = 0;   ///< longest packet in bytes without FCS: a frame, or what LRO makes
    uint64_t offloads = 0;    ///< RTE_ETH_RX_OFFLOAD_*
    bool compressed = false;  ///< the CQ was created with CQE compression
    bool real_time = false;   ///< time stamps in nanoseconds of real time rather than ticks
    StridingSpec striding;    ///< of the formats of striding queues
    int socket = 0;
    rte_mempool* pool = nullptr;
    /// RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT: all `segments` of a packet; `pool` is that of the first.
    std::vector<RxSegment> split;
    std::vector<rte_eth_rxseg_split> split_wanted; ///< as the application gave it
    MrTable* mrs = nullptr;
    unsigned active_simd_bits = 128;
};
/// Receive WQEs where each takes one packet: the descriptors are their SGEs.
[[nodiscard]] inline uint32_t rx_wqes(const RxSpec& spec) {
    return uint32_t{spec.descriptors} / spec.segments;
}

/// Headers that the device wants inlined in WQEs, to steer and tag by them.
enum class InlineMode : uint8_t {
    automatic, ///< what devices of its kind want that nobody has set otherwise
    none,
    l2,  ///< Ethernet with a tag
    ip,  ///< and IPv6
    tcp, ///< and TCP
};

struct TxSpec {
    const verbs::Api* api = nullptr;
    ibv_context* context = nullptr;
    ibv_cq_ex* cq = nullptr;    ///< tx_cq_depth() entries, no wc_flags needed
    ibv_qp_ex* qp_ex = nullptr; ///< of `qp`, for ibv_wr_* with TxQpNeeds::send_ops; null: not there
    ibv_qp* qp = nullptr;       ///< RTS after tx_start; sq_sig_all = 0, max_send_wr = descriptors
    uint16_t port_id = 0, queue_id = 0;
    uint16_t descriptors = 0;    ///< power of two: mbuf segments that fit
    uint16_t max_segments = 1;   ///< SGEs per send WQE, at most descriptors / 2
    uint64_t offloads = 0;       ///< RTE_ETH_TX_OFFLOAD_*
    uint32_t max_tso = 0;        ///< TxRing::max_tso; 0: the device has no TSO
    uint32_t vendor_part_id = 0; ///< ibv_device_attr's; 0: not known
    /// RingFormat::tx_settle has put in what the device decides.
    bool settled = false;
    bool multi_packet = true; ///< several packets may share a WQE, on devices that can
    InlineMode min_inline = InlineMode::automatic;
    bool blue_flame = false;   ///< single WQEs are written to the doorbell register
    bool own_register = false; ///< TxQpNeeds::thread_domain was met
    bool metadata = false;     ///< applications have a field of mbufs for it
    uint64_t time_mask = 0;    ///< bits of the device's clock that it can wait for; 0: it cannot
    uint32_t clock_khz = 0;    ///< of that clock
    uint16_t inline_bytes = 0; ///< packets of up to so many bytes are copied into WQEs
    unsigned active_simd_bits = 128; ///< widest vectors that EAL allows
    int socket = 0;
    MrTable* mrs = nullptr;
};

/// What the QP of a send ring is to be created with.
struct TxQpNeeds {
    ibv_qp_cap cap{};
    uint16_t max_tso_header = 0; ///< bytes of header before each segment; 0: no TSO
    /// IBV_QP_EX_WITH_*: wanted, and done without where the provider has no such calls.
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
    /// CQ entries, as tx_cq_depth: packets that the ring has room for.
    uint32_t (*rx_cq_depth)(const RxSpec& spec);

    /// The same with striding (multi-packet) receive queues, or null.
    const RingFormat* striding = nullptr;

    /// Completes or changes a spec that is about to be used: descriptors, strides. May be null.
    Result<void> (*rx_adjust)(RxSpec& spec);
    /// Creates the WQ, null with errno on failure. May be null itself: ibv_create_wq does.
    ibv_wq* (*rx_wq)(const RxSpec& spec, ibv_wq_init_attr& attributes);

    /// Creates an Rx CQ whose CQEs the device may compress, with room for what compression takes;
    /// null: device or provider cannot. May be null itself.
    ibv_cq_ex* (*rx_compressed_cq)(const RxSpec& spec, ibv_cq_init_attr_ex& attributes);

    /// Packets of this device can be stamped with real time (RxSpec::real_time).
    bool (*stamps_real_time)(const verbs::Api& api, ibv_context* context);

    /// Device clock ticks as nanoseconds of real time; 0 or an errno value. Null: cannot.
    int (*real_time)(const verbs::Api& api, ibv_context* context, uint64_t ticks,
                     uint64_t& nanoseconds);

    /// Creates a hash QP whose completions tell what the format can read of tunnels; null with
    /// errno on failure. May be null itself: ibv_create_qp_ex does.
    ibv_qp* (*rx_hash_qp)(const verbs::Api& api, ibv_context* context,
                          ibv_qp_init_attr_ex& attributes);

    /// Its rings take packets that the device has put together of TCP segments
    /// (RTE_ETH_RX_OFFLOAD_TCP_LRO), where it can: that is steering's to find out.
    bool rx_lro = false;

    /// Offloads that the format can carry on a device with these capabilities.
    uint64_t (*rx_offloads)(const ibv_device_attr_ex& device);
    uint64_t (*tx_offloads)(const verbs::Api& api, ibv_context* context,
                            const ibv_device_attr_ex& device);

    Result<RxRing*> (*rx_create)(const RxSpec& spec);
    /// Fills the ring with mbufs and posts them; the WQ is in RDY. Fails with ENOMEM and no mbuf
    /// held when the pool cannot fill it.
    Result<void> (*rx_start)(RxRing& ring);
    /// Frees every mbuf that the ring holds and rewinds it; the WQ is in RESET (or destroyed).
    /// Returns how many packets were received and not polled: they are lost to the application.
    uint32_t (*rx_stop)(RxRing& ring);
    void (*rx_destroy)(RxRing* ring);
    /// Has the next completion, or one that the queue's lcore has not seen yet, raise an event in
    /// the CQ's channel. Called on any thread that no burst of the queue runs on meanwhile. 0 or
    /// an errno value.
    int (*rx_arm)(RxRing& ring);
    /// An event was taken out of the channel.
    void (*rx_event_taken)(RxRing& ring);
    /// Begins or ends to take VLAN tags out of packets, at any time. Null: completions tell what
    /// the WQ took out (IBV_WQ_FLAGS_CVLAN_STRIPPING).
    Result<void> (*rx_strip_vlan)(RxRing& ring, bool strip);

    /// Replaces in the spec what is left to the device by what the device wants, so that its burst
    /// function can be chosen by any process. May be null: nothing is left to it.
    void (*tx_settle)(TxSpec& spec);
    TxQpNeeds (*tx_needs)(const TxSpec& spec);
    Result<TxRing*> (*tx_create)(const TxSpec& spec);
    /// Rewinds the ring; the QP is in RESET, with zeroed indices. Packets in it are errors.
    void (*tx_start)(TxRing& ring);
    /// Frees every mbuf; the QP is in RESET. Returns how many packets the device had not completed:
    /// they are taken from the packets sent and counted as errors.
    uint32_t (*tx_stop)(TxRing& ring);
    void (*tx_destroy)(TxRing* ring);

    /// Of the spec: offloads, segments, real_time and active_simd_bits; or as settled.
    Burst<eth_rx_burst_t> (*rx_burst)(const RxSpec& spec);
    Burst<eth_tx_burst_t> (*tx_burst)(const TxSpec& spec);

    // For rte_eth_timesync_*. Null where a format cannot tell when packets were sent.
    /// A port's tx_burst in this process as one that besides notes what it sends with
    /// RTE_MBUF_F_TX_IEEE1588_TMST; one process at a time may send such packets on a queue.
    eth_tx_burst_t (*tx_stamping)(uint16_t port_id, eth_tx_burst_t plain);
    /// Device clock ticks at which the last such packet was sent, once. Nothing: it was not yet, or
    /// there was none, or the queue has had as many completions since as it has descriptors.
    std::optional<uint64_t> (*tx_take_stamp)(TxRing& ring);
    /// RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP, on devices whose send queues wait (TxSpec::time_mask).
    bool tx_waits = false;
    /// The stamps that the queue keeps of PTP messages. Null where packets have no stamps.
    PtpStamps& (*rx_ptp_stamps)(RxRing& ring);

    // Rings that another process created, in memory that this one shares. tx_map is null where
    // rings cannot be shared.
    /// The ring is about to be used, or its packets freed, by other processes, too: from now on it
    /// hands out no packet that only the process which received it can free. May be null.
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

    // For people to read, in every process. Of a queue in use it is a glance, as its lcore goes on.
    Figures (*rx_figures)(const RxRing& ring);
    Figures (*tx_figures)(const TxRing& ring);
    /// The descriptor so many after the next one that a packet will be taken from (or, of a send
    /// queue, put into), in lines of text. They are as many as the queue was set up with.
    std::string (*rx_descriptor_text)(const RxRing& ring, uint16_t offset);
    std::string (*tx_descriptor_text)(const TxRing& ring, uint16_t offset);

    /// Packet types that Rx reports, ended by RTE_PTYPE_UNKNOWN; null: none.
    const uint32_t* ptypes = nullptr;
};

} // namespace rawqp
