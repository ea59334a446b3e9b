// SPDX-License-Identifier: BSD-3-Clause
// What the device executes and how it completes, whatever the rings look like. A ring format reads
// requests and writes completions; the data path (send.hpp, place.hpp, receive.hpp) is a template
// over it, so that neither costs a call.
#pragma once

#include "app/softhca/core/edit_arguments.hpp"
#include "app/softhca/core/meter.hpp"
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/offload.hpp"
#include "app/softhca/core/packet.hpp"
#include "app/softhca/core/rss.hpp"

#include <concepts>
#include <span>

namespace softhca::core {

/// Why a send request failed: reported beside the cause, for people who debug a driver. What is bad
/// and how, the ring format says.
enum class SendFault : uint8_t {
    none = 0,
    bad_opcode = 0x01,
    bad_ds = 0x02,    ///< of no size, or of more than the doorbell announced
    bad_index = 0x03, ///< it says another place in the ring than its own
    bad_qpn = 0x04,
    bad_eth_segment = 0x05, ///< cut off, or inline header beyond the request
    bad_inline_data = 0x06, ///< beyond the request
    no_data = 0x07,         ///< nothing to send
    bad_tso = 0x08,         ///< header is no TCP packet, or MSS 0
    doorbell_jump = 0x09,   ///< the doorbell moved by more than the ring holds
    protection = 0x10,      ///< lkey unknown, of another PD, or range not covered
    too_long = 0x11,        ///< more bytes than a message may have
    bad_remote = 0x12,      ///< RDMA: no room for where it goes
    remote_access = 0x13, ///< rkey unknown, of another PD, does not allow it, or range not covered
    no_meters = 0x14,     ///< no such pair, or of another PD
    bad_meter_write = 0x15, ///< in a way, or on a condition, that this device does not know
    bad_condition = 0x16,   ///< waits for something that this device does not know
    no_queue = 0x17, ///< waits for a CQ that does not exist, or enables an SQ that does not, is of
                     ///< another PD, or not managed
    off_wire = 0x18, ///< a packet in a queue that may not send any
    no_argument = 0x19, ///< no such argument of header edits, or of another PD
    injected = 0x20,    ///< on request (Device::inject_error)
};

/// Likewise a receive request.
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

/// A part of a packet: in the request itself, or in memory that a key leads to.
struct Segment {
    const std::byte* inlined = nullptr;
    uint32_t bytes = 0;
    uint32_t lkey = 0;
    uint64_t address = 0;
};

/// What to send: packets that the data segments make up.
struct SendRequest {
    enum class Kind : uint8_t {
        nop,
        packet,     ///< one, of all segments
        tso,        ///< one for each `mss` bytes of all segments, after `header`
        packets,    ///< one of each segment
        rdma_write, ///< no packet: memory of the segments goes to `remote` …
        rdma_read,  ///< … or comes from there
        meters,     ///< no packet: a pair of meters is read, written, or both
        argument,   ///< no packet: the argument `other` of header edits is written
        // None either: the queue waits …
        wait_time,        ///< … until the clock has come to a time
        wait_completions, ///< … until the CQ `other` has had as many as `position` says
        enable,           ///< the managed SQ `other` may go on up to `position`
    };
    Kind kind = Kind::nop;
    bool reports = false;       ///< wants a completion when it is done …
    bool reports_flush = false; ///< … and when it is not executed
    uint16_t steps = 1;         ///< ring positions that it takes, at least 1
    uint16_t mss = 0;
    uint32_t metadata = 0; ///< for rules about what is sent
    SendOffloads offloads;
    std::span<const std::byte> header; ///< inlined beginning of the packet
    uint32_t rkey = 0;
    uint64_t remote = 0;
    Number meters = 0;
    Segment read_to;       ///< where what the meters were goes; of no bytes: nowhere
    Number other = 0;      ///< object that it is about
    uint32_t position = 0; ///< in units of the format

    [[nodiscard]] bool sends_packets() const {
        return kind == Kind::packet || kind == Kind::tso || kind == Kind::packets;
    }
};

/// What is known of a packet that was put into an RQ.
struct Received {
    const Target& target;
    const net::Headers& outer;
    const net::Headers& headers; ///< those that are described: target.inner says which
    ChecksumVerdict verdict;     ///< of all levels, but for the sum, which is the outer one's
    uint32_t bytes = 0;          ///< in memory
    uint32_t tag = 0;
    uint32_t metadata = 0; ///< reg_b
    bool vlan_stripped = false;
    uint32_t strides = 0; ///< striding RQ: used up, from rq.next_stride on
    uint64_t time = 0;
};

/// What else has to be known of a packet whose completion was prepared.
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
    /// The most that a request has after its header.
    { S::kMaxSegments } -> std::convertible_to<size_t>;
    /// How far the owner has got.
    { S::posted(queue) } -> std::same_as<uint16_t>;
    /// Whether the SQ's completion can be told.
    { S::has_room(sq) } -> std::same_as<bool>;
    /// Copies the request at the consumer position: what is checked is what is executed, whatever
    /// the program writes meanwhile. Also of a faulty one, request() says steps and reports.
    { ring.fetch(queue) } -> std::same_as<SendFault>;
    /// Finds out the rest of request().
    { ring.decode() } -> std::same_as<SendFault>;
    { read.request() } -> std::same_as<const SendRequest&>;
    /// The segments after request().header, one after the other.
    { read.first() } -> std::same_as<typename S::Cursor>;
    { read.at_end(cursor) } -> std::same_as<bool>;
    { read.next(cursor, segment) } -> std::same_as<SendFault>;
    /// Of a request for meters: what it reads of them, and what it makes of them.
    { read.read(meters) } -> std::convertible_to<std::span<const std::byte>>;
    read.write(meters, uint64_t{});
    /// Of one for an argument: its data.
    { read.argument() } -> std::same_as<decltype(EditArgument::data)>;
    /// Of one that waits: whether it has waited long enough, by the clock or by a CQ's completions.
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
    { R::has_room(rq) } -> std::same_as<bool>;
    /// The buffers of the request at the consumer position; false after the last one.
    { typename R::Buffers(queue).next(segment) } -> std::same_as<bool>;
    /// The first buffer of one behind it, which is posted.
    { R::buffer_ahead(queue, uint32_t{}) } -> std::same_as<Segment>;
    /// Fetches the lines of so many requests behind it, which are posted.
    R::fetch_requests(queue, uint32_t{}, uint32_t{});
    /// Claims the line of a completion behind the next one.
    R::claim_completion(rq, uint32_t{});
    /// All that is the same in completions of a flow's plain packets, by the first of them.
    { R::prepare(received) } -> std::same_as<typename R::Prepared>;
    /// Room for completions of so many packets, one after another, or for fewer; which the queue
    /// knows of when they are ended.
    { typename R::Row(rq, uint32_t{}) } -> std::same_as<typename R::Row>;
    { row.size() } -> std::same_as<uint32_t>;
    row.claim();
    row.complete(uint32_t{}, R::prepare(received), ReceivedPlain{});
    R::Row::end(rq, uint32_t{});
    /// The one buffer of a striding request.
    { R::strided_buffer(queue) } -> std::same_as<Segment>;
    /// The most that a packet in strides may have.
    { R::kMaxStridedBytes } -> std::convertible_to<uint32_t>;
    /// A packet is there; several are, as one; the rest of a striding request stays unused; a
    /// request failed. False when the CQ overran.
    { R::complete(rq, received) } -> std::same_as<bool>;
    { R::complete(rq, received, summary) } -> std::same_as<bool>;
    { R::complete_unused(rq, uint32_t{}, uint64_t{}) } -> std::same_as<bool>;
    /// Likewise an empty message of another QP.
    { R::complete_message(rq, uint64_t{}) } -> std::same_as<bool>;
    { R::complete(rq, CompletionError{}, ReceiveFault{}) } -> std::same_as<bool>;
};

/// Both, of one family.
template <class R>
concept Rings = SendRing<typename R::Send> && ReceiveRing<typename R::Receive>;

} // namespace softhca::core
