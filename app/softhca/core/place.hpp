// SPDX-License-Identifier: BSD-3-Clause
// Puts packets into receive queues: scatter, completion, errors.
#pragma once

#include "app/softhca/core/flow_cache.hpp"
#include "app/softhca/core/gather.hpp"
#include "app/softhca/core/lro.hpp"
#include "app/softhca/core/mkey.hpp"
#include "app/softhca/core/port.hpp"
#include "app/softhca/core/requests.hpp"
#include "app/softhca/core/ring_format.hpp"
#include "app/softhca/core/virtio/virtq.hpp"

#include <optional>
#include <span>
#include <sys/uio.h>

namespace softhca::core {

/// What rules have set on a packet.
struct Labels {
    uint32_t tag = 0;
    uint32_t metadata = 0; ///< reg_b
};

// For how many packets cache lines are prefetched ahead: not many more lines at once than a CPU can
// have in flight.
inline constexpr uint32_t kFewBytes = 256, kAheadOfFew = 16, kAheadOfMany = 2;

/// Used by the device thread with the device locked.
template <Rings R, class W> class Placer {
  public:
    Placer(const DataPathParts& parts, W watch)
        : mkeys_(parts.mkeys), sessions_(parts.lro_sessions), port_(parts.port),
          control_calls_(parts.control_calls), watch_(watch) {}

    /// Whether the queue has a request for a packet of this many bytes. If the rest of a striding
    /// request is too short, this closes it.
    [[nodiscard]] bool has_room(Rq& rq, uint32_t bytes);
    /// Likewise, for a queue that is not striding.
    [[nodiscard]] bool has_request(Rq& rq, uint32_t bytes) {
        if (!rq.posted.knows(rq.counters.wqes + kAheadOfFew, control_calls_)) look_ahead(rq, bytes);
        return rq.pending() != 0;
    }
    /// Likewise, or the queue is a hairpin or virtio queue that has room for it.
    [[nodiscard]] bool takes(Rq& rq, uint32_t bytes) {
        return has_room(rq, bytes) || (rq.hairpin && rq.hairpin->has_room(bytes)) ||
               (rq.virtq && rq.virtq->has_chain());
    }

    /// Delivers the frame, or counts why not.
    void place(const Target& target, const Frame& frame, const Labels& labels) {
        placing_ = target.rq;
        put(target, frame, labels);
        placing_ = nullptr;
    }

    /// Delivers the first of these frames, each of one piece and of the flows `found`, all of which
    /// go to this queue: those that it takes unchanged, in one go. Returns how many; 0: the next
    /// one takes the general path.
    [[nodiscard]] size_t place_plain(Rq& rq, std::span<const iovec> frames,
                                     const typename FlowCache<R>::Found* found);
    /// Counts what place_plain() has delivered, also when a fault interrupted it. Returns the
    /// number of frames.
    size_t end_run();

    /// Like place(), or appends the frame to the session of those before it.
    void coalesce(const LroAttr& lro, const Target& target, const Packet& packet,
                  const Labels& labels) {
        placing_ = target.rq;
        put_or_join(lro, target, packet, labels);
        placing_ = nullptr;
    }
    /// Completes LRO sessions whose time is over. Returns how many there were, due or not: if any,
    /// this must be called again.
    size_t end_due_sessions();

    /// Whether a packet is being put into an RQ, for use after a fault interrupted place() (see
    /// MemoryGuard).
    [[nodiscard]] bool is_placing() const { return placing_ != nullptr; }
    /// The request of that packet ends in a protection error.
    void fail_for_memory();
    /// That packet is lost, and the queue has been notified.
    void abandon();

    /// See DataPath::receive_message().
    [[nodiscard]] bool take_message(Rq& rq);

    /// Completes the requests of a queue in error as flushed. Returns how many.
    size_t flush(Rq& rq);

    /// Descriptors of virtio queues' chains since the last begin_round().
    [[nodiscard]] size_t chains() const { return chains_; }
    void begin_round() { chains_ = 0; }

  private:
    /// How the queue wants a frame. Small, so that it is passed in registers: structs that are
    /// written to memory and read back at once would wait for earlier stores, which go to lines
    /// that the program's CPU owns.
    struct Cut {
        uint32_t bytes = 0;
        bool vlan_stripped = false;
        bool gathered = false; ///< its pieces are cut_, not the frame's own
    };
    using Ring = typename R::Receive;
    void put(const Target& target, const Frame& frame, const Labels& labels);
    void put_or_join(const LroAttr& lro, const Target& target, const Packet& packet,
                     const Labels& labels);
    void begin_session(const LroAttr& lro, const Target& target, const Packet& packet,
                       const Labels& labels, const ChecksumVerdict& verdict);
    void join(Rq& rq, const Packet& packet);
    void end_session(Rq& rq);
    [[nodiscard]] bool has_room_behind_session(Rq& rq, uint32_t bytes);
    [[nodiscard]] uint32_t room_of_request(const Rq& rq) const;
    /// Puts the packet into memory; empty when it is lost.
    [[nodiscard]] std::optional<Cut> store(Rq& rq, const Frame& frame, const Labels& labels);
    /// Looks up where packets of the next requests go.
    [[gnu::noinline]] void look_ahead(Rq& rq, uint32_t bytes);
    [[nodiscard]] PostedBuffer find_buffer(const Rq& rq, uint32_t ahead, KeyWindow& window) const;
    /// Prefetches for writing the lines that a packet of this many bytes goes to. The program's CPU
    /// owns them, stores leave a CPU in order, and without this each would wait for its line in
    /// turn.
    static void claim(const PostedBuffer& buffer, uint32_t bytes);
    /// Prefetches what look_ahead() does not: the lines of one of the next long packets, which
    /// would be too many at once, and of a completion.
    void claim_more(Rq& rq, uint32_t bytes) {
        if (bytes > kFewBytes) claim_long(rq, rq.counters.wqes, bytes);
        Ring::claim_completion(rq, kAheadOfFew);
    }
    void claim_long(const Rq& rq, uint64_t position, uint32_t bytes) const {
        const uint64_t next = position + kAheadOfMany;
        if (rq.posted.knows(next, control_calls_)) claim(rq.posted.at(next), bytes);
    }
    void count_delivered(Rq& rq, uint32_t cqes, uint32_t packets, uint64_t bytes) {
        rq.counters.cqes += cqes;
        rq.counters.packets += packets;
        rq.counters.bytes += bytes;
        port_.counters.delivered += packets;
    }
    /// The packet has been completed, or `packets` of them in one completion.
    void advance(Rq& rq, uint32_t bytes, uint32_t strides, uint32_t packets);
    [[nodiscard]] Cut cut(const Rq& rq, const Frame& frame) {
        return rq.vlan_strip || rq.scatter_fcs ? gather_cut(rq, frame) : Cut{frame.bytes()};
    }
    [[nodiscard]] Cut gather_cut(const Rq& rq, const Frame& frame);
    void read_doorbell(Rq& rq);
    void count_out_of_buffer(Rq& rq);
    void find_no_request(Rq& rq, const Frame& frame, const Labels& labels);
    void put_into_chain(Rq& rq, const Frame& frame);
    void leave_request(Rq& rq, bool written);
    [[nodiscard]] uint32_t strides_for(const Rq& rq, uint32_t bytes) const;
    /// Writes the next `bytes` bytes of a packet into the current request. Bytes: PieceCursor or
    /// FlatCursor.
    template <class Bytes>
    [[nodiscard]] ReceiveFault fill(const Rq& rq, Bytes cursor, uint32_t bytes);
    /// Into `buffers` …
    template <class Buffers, class Bytes>
    [[nodiscard]] ReceiveFault scatter(const Rq& rq, Buffers buffers, Bytes cursor, uint32_t bytes);
    /// … or into strides, all of which are free except for `taken` bytes.
    template <class Bytes>
    [[nodiscard]] ReceiveFault scatter_strides(const Rq& rq, Bytes cursor, uint32_t bytes,
                                               uint32_t taken = 0);
    /// Writes the next bytes of a packet. False: the key does not allow it.
    template <class Bytes>
    [[nodiscard]] bool write(const Rq& rq, uint32_t lkey, uint64_t address, uint32_t bytes,
                             Bytes& from);
    [[nodiscard]] static bool takes_plain(const Rq& rq) {
        return rq.state == QueueState::ready && !rq.coalescing && !rq.vlan_strip &&
               !rq.scatter_fcs && !rq.striding && !rq.injected;
    }
    void complete_run();
    [[nodiscard]] bool complete(const Target& target, const Frame& frame, const Cut& cut,
                                const Labels& labels, uint32_t strides);
    [[nodiscard]] bool leave_rest(Rq& rq);
    void fail(Rq& rq, ReceiveFault fault);
    void write_error(Rq& rq, CompletionError error, ReceiveFault fault);

    const MkeyTable& mkeys_;
    LroSessions& sessions_;
    Port& port_;
    const uint64_t& control_calls_;
    [[no_unique_address]] W watch_;
    /// Plain frames on their way into a queue. Their changes to the queue's state are made once, at
    /// the end.
    struct Run {
        Rq* rq = nullptr; ///< null: there is none
        std::span<const iovec> frames;
        const typename FlowCache<R>::Found* found = nullptr;
        typename Ring::Row row;
        uint32_t copied = 0;     ///< have been written to their buffers …
        uint32_t placed = 0;     ///< … and have their CQEs, too
        bool completing = false; ///< CQEs are being written
    };
    Run run_;
    Rq* placing_ = nullptr;
    Gather cut_;
    std::array<std::byte, 12> macs_;
    std::array<std::byte, 4> fcs_;
    size_t chains_ = 0; ///< see chains()
};

} // namespace softhca::core
