// SPDX-License-Identifier: BSD-3-Clause
// A receive queue on a mapped striding RQ (multi-packet RQ): each WQE is one buffer of strides, in
// which packets follow each other, each at the beginning of a stride. The device fetches far fewer
// WQEs than it receives packets.
//
// A packet is copied into an mbuf, or attached to a plain mbuf as an external buffer. The headroom
// of an attached packet is the end of the stride before: a packet is only attached if its own last
// stride leaves room for the next one's headroom, and only while there is a spare buffer for the
// WQE's next turn. When the application holds so many packets that no spare is left, all are copied
// and the buffers return to the device at once. So the device never lacks WQEs; only mbufs may be
// lacking (counted in nombuf), in which case packets wait in the ring.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"
#include "drivers/net/rawqp/rings/striding_buffers.hpp"

namespace rawqp::mlx5rings {

/// A WQE of such a queue.
struct StridingWqe {
    mlx5::WqeNextSeg next;
    mlx5::WqeDataSeg data;
};
static_assert(sizeof(StridingWqe) == 2 * mlx5::kSegment);

struct StridingRing : RxRing {
    Cq cq;
    StridingWqe* wqes = nullptr;
    mlx5::be32* doorbell = nullptr;
    StridingBuffer** buffers = nullptr; ///< of each WQE; never null while started
    StridingBuffer* spare = nullptr;    ///< replaces a buffer whose packets are still held
    StridingPool* strides = nullptr;    ///< null while stopped
    uint16_t producer = 0;              ///< WQEs posted; counts without end
    uint16_t mask = 0;                  ///< WQEs - 1
    uint16_t stride_mask = 0;           ///< strides of a WQE - 1
    uint8_t log_strides = 0;
    uint8_t log_stride_bytes = 0;
    uint8_t segments = 1;    ///< mbufs of a copied packet, at most
    uint16_t copy_bytes = 0; ///< packets of up to this many bytes are copied
    uint16_t flags_mask = 0, hash_flag = 0;
    uint64_t rearm = 0;
    uint64_t base_flags = 0;
    uint16_t first_room = 0, next_room = 0; ///< bytes of a copied packet that an mbuf takes
    uint32_t most_bytes = 0; ///< of a packet that the device writes, including its FCS
    rte_mempool* pool = nullptr;
    RxBlock block;
    RxExtras extras;
    DeviceClock clock; ///< with real-time stamps

    /// Mbufs for the next packets.
    static constexpr uint32_t kStash = 2 * kMaxRxSegments;
    std::array<rte_mbuf*, kStash> stash{};
    uint32_t stashed = 0;
    bool nombuf_counted = false; ///< the packet that waits for an mbuf was counted
    bool copied = false;         ///< some of the last step's packets were

    PtpStamps ptp;

    // Control and error path.
    CqArm cq_arm;
    MrCache mrs;
    RetryGate retry;
    bool faulty = false; ///< an error was counted, but WQEs are not reposted yet
    bool may_compress = false;
    int socket = 0;
    SocketArray<StridingBuffer*> buffer_memory;

    [[nodiscard]] uint32_t wqe_count() const { return mask + 1u; }
    [[nodiscard]] uint32_t strides_per_wqe() const { return stride_mask + 1u; }
    /// Strides of the present WQE already taken.
    [[nodiscard]] uint32_t used() const { return cq.rq_consumer & stride_mask; }
    /// The slot of the present WQE.
    [[nodiscard]] uint32_t slot() const { return (cq.rq_consumer >> log_strides) & mask; }
    /// WQEs whose strides were all taken and that were not reposted. The queue's place has only the
    /// lower bits of a WQE's number: enough for up to 32768 strides.
    [[nodiscard]] uint32_t missing() const {
        const uint32_t posted = (cq.rq_consumer >> log_strides) + wqe_count();
        return (posted - producer) & (UINT16_MAX >> log_strides);
    }
    /// Completions that may come without a further doorbell, at most.
    [[nodiscard]] uint32_t posted() const { return (wqe_count() << log_strides) - used(); }
    [[nodiscard]] uint8_t* data_of(StridingBuffer& buffer) const {
        return reinterpret_cast<uint8_t*>(&buffer) + strides->data_offset;
    }
    [[nodiscard]] uint8_t* stride_of(StridingBuffer& buffer, uint32_t stride) const {
        return data_of(buffer) + (stride << log_stride_bytes);
    }
    /// A process was killed in a burst, and what follows its last step was not done; or the queue
    /// has not recovered yet.
    [[nodiscard]] bool is_between_steps() const { return missing() > 0 || cq.is_leaving(); }
    /// The device may then write that many more completions: it knows what was taken from its CQ.
    void ring_doorbell(uint16_t wqes_posted) {
        cq.publish_consumer();
        wqes_before_record();
        store_record(*doorbell, wqes_posted);
    }
};

/// What one completion says. What a mini CQE does not hold is in its block's model.
struct PeekedCqe {
    const Cqe* cqe;      ///< null: from a block
    uint32_t byte_count; ///< as in the CQE
    uint32_t hash;       ///< from a block
    uint32_t used;       ///< strides of the WQE before it

    [[nodiscard]] bool filler() const { return byte_count >> 31 != 0; }
    [[nodiscard]] uint32_t strides() const { return byte_count >> 16 & 0x7fff; }
    [[nodiscard]] uint32_t bytes() const { return byte_count & mlx5::kByteCountMask; }
};

/// RingFormat's functions for such queues.
std::string striding_reject(const verbs::Api& api, ibv_context* context);
Result<void> striding_adjust(RxSpec& spec);
inline uint32_t striding_cq_depth(const RxSpec& spec) { return spec.descriptors; }
ibv_wq* striding_create_wq(const RxSpec& spec, ibv_wq_init_attr& attributes);
Result<RxRing*> striding_create(const RxSpec& spec);
Result<void> striding_start(RxRing& ring);
uint32_t striding_stop(RxRing& ring);
void striding_destroy(RxRing* ring);
/// Copies all packets from now on: an attached one is freed by a function of this process.
void striding_share(RxRing& ring);
Burst<eth_rx_burst_t> striding_burst(const RxSpec& spec);
uint32_t striding_queue_count(void* queue);
int striding_descriptor_status(void* queue, uint16_t offset);

/// Posts what is missing(): each WQE's buffer goes back to the device, or the spare does.
void striding_post(StridingRing& ring);
/// For a ring that is_between_steps(): does what a killed process left undone. False: the queue has
/// not recovered.
bool striding_go_on(StridingRing& ring);
/// Cold: see recover(). Until it succeeds, the ring is_between_steps().
void striding_recover(StridingRing& ring);
/// Takes the waiting completions without their packets. Returns how many packets there were.
uint32_t striding_skip(StridingRing& ring);

} // namespace rawqp::mlx5rings
