// SPDX-License-Identifier: BSD-3-Clause
// What the device executes and how it completes, independent of the ring layout. A ring format
// reads requests and writes completions; the data path (send.hpp, place.hpp, receive.hpp) is a
// template over it, so that neither costs a call.
#pragma once

#include "app/softhca/core/edit_arguments.hpp"
#include "app/softhca/core/key_change.hpp"
#include "app/softhca/core/meter.hpp"
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/offload.hpp"
#include "app/softhca/core/packet.hpp"
#include "app/softhca/core/rss.hpp"

#include <concepts>
#include <span>

namespace softhca::core {

/// Why a send request failed: reported along with the completion error, for people who debug a
/// driver. The ring format gives the details.
enum class SendFault : uint8_t {
    none = 0,
    bad_opcode = 0x01,
    bad_ds = 0x02,    ///< zero, or larger than the doorbell announced
    bad_index = 0x03, ///< its index is not its place in the ring
    bad_qpn = 0x04,
    bad_eth_segment = 0x05, ///< cut off, or inline header beyond the request
    bad_inline_data = 0x06, ///< beyond the request
    no_data = 0x07,         ///< nothing to send
    bad_tso = 0x08,         ///< the header is not that of a TCP packet, or the MSS is 0
    doorbell_jump = 0x09,   ///< the doorbell moved by more than the ring holds
    protection = 0x10,      ///< lkey unknown, of another PD, or range not covered
    too_long = 0x11,        ///< more bytes than a message may have
    bad_remote = 0x12,      ///< RDMA: no room at the destination
    remote_access = 0x13, ///< rkey unknown, of another PD, does not allow it, or range not covered
    no_meters = 0x14,     ///< no such pair, or of another PD
    bad_meter_write = 0x15, ///< in a way, or on a condition, that this device does not support
    bad_condition = 0x16,   ///< waits for something that this device does not support
    no_queue = 0x17, ///< waits for a CQ that does not exist, or enables an SQ that does not, is of
                     ///< another PD, or not managed
    off_wire = 0x18, ///< a packet in a queue that may not send any
    no_argument = 0x19,    ///< no such argument of header edits, or of another PD
    bad_key_change = 0x1a, ///< of a memory key, in a way that this device does not support
    no_key = 0x1b,         ///< no such key or PD, or the key is not as expected (KeyOwner)
    injected = 0x20,       ///< on request (Device::inject_error)
};

/// Likewise for a receive request.
enum class ReceiveFault : uint8_t {
    none = 0,
    doorbell_jump = 0x09, ///< the doorbell moved by more than the ring holds
    protection = 0x10,    ///< lkey unknown, of another PD, not writable, or range not covered
    too_short = 0x11,     ///< the packet is longer than the scatter list
    injected = 0x20,      ///< on request (Device::inject_error)
};

/// In words.
[[nodiscard]] const char* text_of(SendFault fault);
[[nodiscard]] const char* text_of(ReceiveFault fault);

/// A part of a packet: inline in the request, or in memory that a key refers to.
struct Segment {
    const std::byte* inlined = nullptr;
    uint32_t bytes = 0;
    uint32_t lkey = 0;
    uint64_t address = 0;
};

/// What to send: the packets formed by the data segments.
struct SendRequest {
    enum class Kind : uint8_t {
        nop,
        packet,     ///< one packet, from all segments
        tso,        ///< one packet per `mss` bytes of all segments, after `header`
        packets,    ///< one packet per segment
        rdma_write, ///< no packet: memory of the segments goes to `remote` …
        rdma_read,  ///< … or comes from there
        meters,     ///< no packet: a pair of meters is read, written, or both
        argument,   ///< no packet: the argument `other` of header edits is written
        key,        ///< no packet: a memory key changes
        // None either: the queue waits …
        wait_time,        ///< … until the clock has reached a time
        wait_completions, ///< … until the CQ `other` has had as many completions as `position` says
        enable,           ///< the managed SQ `other` may go on up to `position`
    };
    Kind kind = Kind::nop;
    bool reports = false;       ///< wants a completion when it is done …
    bool reports_flush = false; ///< … and when it is flushed
    uint16_t steps = 1;         ///< ring positions that it takes, at least 1
    uint16_t mss = 0;
    uint32_t metadata = 0; ///< for rules about what is sent
    SendOffloads offloads;
    std::span<const std::byte> header; ///< inlined beginning of the packet
    uint32_t rkey = 0;
    uint64_t remote = 0;
    Number meters = 0;
    Segment read_to;       ///< where the meters' old state goes; of no bytes: nowhere
    Number other = 0;      ///< the object that it refers to
    uint32_t position = 0; ///< in units of the format

    [[nodiscard]] bool sends_packets() const {
        return kind == Kind::packet || kind == Kind::tso || kind == Kind::packets;
    }
};

/// Describes a packet that was put into an RQ.
struct Received {
    const Target& target;
    const net::Headers& outer;
    const net::Headers& headers; ///< those that are described: target.inner says which
    ChecksumVerdict verdict;     ///< of all levels, except for the sum, which is the outer one's
    uint32_t bytes = 0;          ///< in memory
    uint32_t tag = 0;
    uint32_t metadata = 0; ///< reg_b
    bool vlan_stripped = false;
    uint32_t strides = 0; ///< striding RQ: used up, from rq.next_stride on
    uint64_t time = 0;
};

/// What else is needed about a packet whose completion was prepared.
struct ReceivedPlain {
    ChecksumVerdict verdict;
    uint32_t bytes = 0;
    bool has_payload = false; ///< after the TCP or UDP header
    uint64_t time = 0;
};

/// Reads one send request at a time, and completes it.
template <class S>
concept SendRing = requires(S ring, const S& read, Sq& sq, const Sq& queue,
                            typename S::Cursor cursor, Segment segment,
                            std::array<Meter, 2>& meters) {
    /// The maximum after a request's header.
    { S::kMaxSegments } -> std::convertible_to<size_t>;
    /// The owner's producer position.
    { S::posted(queue) } -> std::same_as<uint16_t>;
    /// Whether a request of an SQ in error may complete as flushed now, or waits for room in its
    /// CQ.
    { S::may_flush(sq) } -> std::same_as<bool>;
    /// Copies the request at the consumer position, so that what is executed is what was checked,
    /// whatever the program writes meanwhile. Even for a faulty one, request() has steps and
    /// reports.
    { ring.fetch(queue) } -> std::same_as<SendFault>;
    /// Decodes the rest of request().
    { ring.decode() } -> std::same_as<SendFault>;
    { read.request() } -> std::same_as<const SendRequest&>;
    /// The segments after request().header, in order.
    { read.first() } -> std::same_as<typename S::Cursor>;
    { read.at_end(cursor) } -> std::same_as<bool>;
    { read.next(cursor, segment) } -> std::same_as<SendFault>;
    /// For a meter request: what it reads of the meters, and what it changes them to.
    { read.read(meters) } -> std::convertible_to<std::span<const std::byte>>;
    read.write(meters, uint64_t{});
    /// For an argument request: its data.
    { read.argument() } -> std::same_as<decltype(EditArgument::data)>;
    /// For a request that changes a key: how.
    { read.key_change() } -> std::same_as<const KeyChange&>;
    /// For a waiting request: whether it has waited long enough, by the clock or by a CQ's
    /// completions.
    { read.has_come(uint64_t{}) } -> std::same_as<bool>;
    { read.has_completed(uint32_t{}) } -> std::same_as<bool>;
    /// The request is done, or failed. False when its CQ overran.
    { read.complete(sq, uint16_t{}, uint64_t{}) } -> std::same_as<bool>;
    { read.complete(sq, CompletionError{}, SendFault{}) } -> std::same_as<bool>;
};

/// Reads receive requests and completes them.
template <class R>
concept ReceiveRing = requires(Rq& rq, const Rq& queue, const Received& received,
                               const LroSummary& summary, Segment segment,
                               const typename R::Row& row) {
    { R::posted(queue) } -> std::same_as<uint16_t>;
    { R::may_flush(rq) } -> std::same_as<bool>;
    /// The buffers of the request at the consumer position; false after the last one.
    { typename R::Buffers(queue).next(segment) } -> std::same_as<bool>;
    /// The first buffer of a later request, which must be posted.
    { R::buffer_ahead(queue, uint32_t{}) } -> std::same_as<Segment>;
    /// Prefetches the lines of this many later requests, which must be posted.
    R::fetch_requests(queue, uint32_t{}, uint32_t{});
    /// Prefetches for writing the line of a completion after the next one.
    R::claim_completion(rq, uint32_t{});
    /// Everything that is the same in all completions of a flow's plain packets, taken from the
    /// first of them.
    { R::prepare(received) } -> std::same_as<typename R::Prepared>;
    /// Room for completions of this many packets in a row, or fewer; the queue learns of them when
    /// the row is ended.
    { typename R::Row(rq, uint32_t{}) } -> std::same_as<typename R::Row>;
    { row.size() } -> std::same_as<uint32_t>;
    row.claim();
    row.complete(uint32_t{}, R::prepare(received), ReceivedPlain{});
    R::Row::end(rq, uint32_t{});
    /// The one buffer of a striding request.
    { R::strided_buffer(queue) } -> std::same_as<Segment>;
    /// The maximum size of a packet in strides.
    { R::kMaxStridedBytes } -> std::convertible_to<uint32_t>;
    /// A packet is complete; several are, as one; the rest of a striding request stays unused; a
    /// request failed. False when the CQ overran.
    { R::complete(rq, received) } -> std::same_as<bool>;
    { R::complete(rq, received, summary) } -> std::same_as<bool>;
    { R::complete_unused(rq, uint32_t{}, uint64_t{}) } -> std::same_as<bool>;
    /// Likewise for an empty message from another QP.
    { R::complete_message(rq, uint64_t{}) } -> std::same_as<bool>;
    { R::complete(rq, CompletionError{}, ReceiveFault{}) } -> std::same_as<bool>;
};

/// Both, for one family.
template <class R>
concept Rings = SendRing<typename R::Send> && ReceiveRing<typename R::Receive>;

} // namespace softhca::core
