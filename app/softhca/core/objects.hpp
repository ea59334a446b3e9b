// SPDX-License-Identifier: BSD-3-Clause
// The device's objects, as plain state. Device (control) and the data path work on them, always
// with the device locked. `users` counts the objects that refer to one and so keep it alive.
#pragma once

#include "app/softhca/core/cq.hpp"
#include "app/softhca/core/hairpin.hpp"
#include "app/softhca/core/lro.hpp"
#include "app/softhca/core/meter.hpp"
#include "app/softhca/core/posted_buffers.hpp"
#include "app/softhca/core/request_pace.hpp"
#include "app/softhca/core/types.hpp"
#include "common/net/toeplitz.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace softhca::core {

class Virtq;
struct RungTogether;

struct Pd {
    uint32_t users = 0;
};

/// Counts the drops of the RQs that are bound to it.
struct QCounter {
    uint64_t out_of_buffer = 0;
};

/// What SQs and RQs have in common. Ring positions are 16-bit counters; the low bits are the place
/// in the ring.
struct Queue {
    DmaArea ring;
    uint16_t consumer = 0; ///< next entry to execute
    uint16_t producer = 0; ///< as the doorbell last said
    uint16_t mask = 0;     ///< entries - 1
    QueueState state = QueueState::reset;
    bool broken = false; ///< its ring or doorbell record is gone: left alone until it is reset
    Doorbell doorbell;
    Cq* cq = nullptr; ///< null: a hairpin queue, which has no PD either, or a virtio queue
    Number pd = 0;
    Number number = 0;
    uint32_t user_index = 0;
    QueueCounters counters;
    Listener* listener = nullptr;
    uint64_t cookie = 0;
    uint32_t users = 0;
    /// On request, the next WQE or packet ends in this error.
    std::optional<CompletionError> injected;

    /// Entries posted and not executed. After a wild doorbell, more than the ring holds.
    [[nodiscard]] uint16_t pending() const { return static_cast<uint16_t>(producer - consumer); }
    [[nodiscard]] uint64_t entries() const { return uint64_t{mask} + 1; }
    [[nodiscard]] bool works_on(const void* address) const {
        return ring.contains(address) || doorbell.lies_at(address);
    }
    /// The place in the ring of the next entry to execute, or of one `ahead` entries after it.
    [[nodiscard]] uint64_t slot(uint32_t ahead = 0) const {
        return static_cast<uint16_t>((consumer + ahead) & mask);
    }
};

struct Rq;

/// How far a packet has got for which the wire had no room.
struct SendProgress {
    bool looped = false;       ///< it has had its loopback
    uint32_t copies = 0;       ///< number of copies, of those that rules make of it, that have left
    uint64_t serial = 0;       ///< see FlowPath; 0: it was not tried yet
    std::vector<Color> colors; ///< as determined by the meters on its way, see FlowPath

    /// Part of the packet has left or been received: its path is fixed.
    [[nodiscard]] bool begun() const { return looped || copies != 0; }
    void clear() {
        looped = false;
        copies = 0;
        serial = 0;
        colors.clear();
    }
};

/// Ring positions are in units of the ring format (mlx5: WQEBBs). In both kinds of queue, fail() is
/// for a queue that cannot go on when no CQE can report it.
struct Sq : Queue {
    uint32_t sent = 0;      ///< packets of the WQE at `consumer` that left before the wire got busy
    SendProgress progress;  ///< of the packet after those, which waits for the wire
    uint32_t rate_kbps = 0; ///< packet pacing; 0: as fast as the wire goes
    std::vector<Rq*> partners; ///< whose partner it is
    Number transport_domain = kKernelDomain;
    bool rc = false;                                                            ///< see SqAttr
    bool managed = false, repeats = false, any_index = false, off_wire = false; ///< likewise
    bool changes_keys = false;                                                  ///< likewise
    uint16_t enabled = 0;     ///< managed: it may go on up to here
    RequestPace pace;         ///< of its requests
    uint64_t paced_until = 0; ///< device clock at which what was sent has had its time
    std::shared_ptr<SendRegisters> registers; ///< see SqAttr
    // For SendSchedule, or ChainSchedule:
    RungTogether* rung_with = nullptr;
    uint16_t idle_rounds = 0;
    enum class Rest : uint8_t { none, until_rung, in_turn };
    Rest rest = Rest::none; ///< how it is found to have something to do; none: by visits
    std::optional<HairpinSize> hairpin;
    std::shared_ptr<HairpinBuffer> source; ///< hairpin: what it sends, if the RQ names it, too
    uint64_t tried = 0;                    ///< serial of the packet that `progress` is about
    std::shared_ptr<Virtq> virtq;          ///< whose chains it sends; null: not a virtio queue

    void fail() {
        state = QueueState::error;
        if (listener) listener->on_async(AsyncEvent::sq_fatal, number, cookie);
    }
};

/// Ring positions are WQEs.
struct Rq : Queue {
    /// The SQ of the same RAW_PACKET QP: they share their doorbell record. Null: a separate RQ.
    Sq* partner = nullptr;
    uint8_t log_wqe_bytes = 0;
    bool vlan_strip = false;
    bool scatter_fcs = false;
    bool hold_when_empty = false; ///< delay drop
    bool gave_up = false;         ///< held the wire for too long: drops until WQEs are posted
    bool striding = false;
    bool coalescing = false; ///< the WQE at `consumer` has segments in it: `lro`
    StridingAttr strides;
    uint32_t next_stride = 0;      ///< in the WQE at `consumer`
    PostedBuffers posted;          ///< by the number of WQEs that were executed
    uint64_t held_since = 0;       ///< device clock when it began to hold the wire; 0: it does not
    QCounter* q_counter = nullptr; ///< never null in a device
    std::shared_ptr<LroSession> lro; ///< made with the first one; shared with copies of the queue
    std::shared_ptr<HairpinBuffer> hairpin; ///< for its peer to send; null: not a hairpin queue
    std::shared_ptr<Virtq> virtq;           ///< whose chains it fills; null: not a virtio queue
    std::vector<Rq*>* failed = nullptr;     ///< those in error of its device; null: it has none

    /// An RQ takes the whole QP into error, whereas an SQ fails alone (state SQE). mlx5_ib warns
    /// about a QP of which only the RQ is in error.
    void enter_error() {
        if (failed && state != QueueState::error) failed->push_back(this);
        state = QueueState::error;
        if (partner) partner->state = QueueState::error;
    }
    void fail() {
        enter_error();
        if (listener) listener->on_async(AsyncEvent::rq_fatal, number, cookie);
    }
};

/// The queue that a hairpin queue names; none: it names none, or the peer is gone.
[[nodiscard]] inline HairpinEnd peer_of(const Sq& sq) {
    return sq.source ? sq.source->rq() : HairpinEnd{};
}
[[nodiscard]] inline HairpinEnd peer_of(const Rq& rq) { return rq.hairpin->named(); }

/// See Device::set_delay_drop.
struct DelayDrop {
    uint32_t rqs = 0;        ///< that may hold the wire without the port's pause option
    uint64_t timeout_ns = 0; ///< 0: off
    uint64_t rearm_ns = 0;   ///< 0: a timeout switches it off for good
    uint64_t off_until = 0;  ///< device clock
};

/// Indirection table; the size is a power of two.
struct Rqt {
    Number number = 0;
    std::vector<Rq*> entries;
    uint32_t users = 0;
};

/// The destination of packets that steering has matched: one RQ, or a hash over several.
struct Tir {
    Number number = 0;
    Rq* rq = nullptr;
    Rqt* rqt = nullptr;
    HashFields fields;
    bool tunnels = false; ///< see TirAttr
    bool hash_inner = false;
    bool symmetric = false;
    bool xor8 = false;
    Number transport_domain = kKernelDomain;
    Loopback self_loopback;
    LroAttr lro;
    std::shared_ptr<const net::Toeplitz> toeplitz; ///< null when nothing is hashed
    uint32_t users = 0;
};

} // namespace softhca::core
