// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/recorder.hpp"

#include "app/softhca/core/describe.hpp"
#include "app/softhca/core/error_names.hpp"
#include "app/softhca/core/gather.hpp"
#include "app/softhca/core/virtio/virtq.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace softhca::core {
namespace {

const char* name_of(SendRequest::Kind kind) {
    switch (kind) {
    case SendRequest::Kind::nop: return "nothing";
    case SendRequest::Kind::packet: return "one packet";
    case SendRequest::Kind::tso: return "TCP segments";
    case SendRequest::Kind::packets: return "several packets";
    case SendRequest::Kind::rdma_write: return "an RDMA write";
    case SendRequest::Kind::rdma_read: return "an RDMA read";
    case SendRequest::Kind::meters: return "an access to meters";
    case SendRequest::Kind::argument: return "an argument of header edits";
    case SendRequest::Kind::key: return "a change of a memory key";
    case SendRequest::Kind::wait_time: return "a wait for a time";
    case SendRequest::Kind::wait_completions: return "a wait for completions";
    case SendRequest::Kind::enable: return "leave for another queue";
    }
    return "?";
}

std::string offloads_of(const SendRequest& request) {
    std::string text;
    const SendOffloads& asked = request.offloads;
    if (asked.checksums & (SendOffloads::kL3 | SendOffloads::kL3Inner)) text += ", L3 checksum";
    if (asked.checksums & (SendOffloads::kL4 | SendOffloads::kL4Inner)) text += ", L4 checksum";
    if (asked.insert_vlan)
        text += fmt::format(", inserts {} {:#x}", asked.svlan ? "S-tag" : "VLAN tag", asked.tci);
    if (request.metadata) text += fmt::format(", metadata {:#x}", request.metadata);
    return text;
}

} // namespace

void Recorder::add(Observer& observer) {
    observers_.push_back(&observer);
    steps_ |= observer.wants_steps();
}

bool Recorder::remove(Observer& observer) {
    std::erase(observers_, &observer);
    steps_ = std::ranges::any_of(observers_, [](const auto* one) { return one->wants_steps(); });
    return !observers_.empty();
}

void Recorder::say(const char* where, std::string text) {
    if (steps_ && is_open()) current().passage.steps.push_back({where, std::move(text)});
}

/// Reading the frame may end in a fault (see MemoryGuard), so nothing on the stack owns anything.
void Recorder::open(std::optional<OpenPassage>& open, Passage::Direction direction,
                    std::span<const iovec> pieces, uint32_t bytes) {
    open.emplace();
    open->before = port_.counters;
    Passage& passage = open->passage;
    passage.device = &device_;
    passage.direction = direction;
    passage.time = port_.now();
    passage.frame.resize(bytes);
    copy_front(pieces, passage.frame.data(), bytes);
}

void Recorder::describe_frame(const char* how) {
    if (!steps_) return;
    const auto& frame = current().passage.frame;
    if (frame.size() < net::kEthernetBytes) return say(how, fmt::format("{} bytes", frame.size()));
    const iovec piece{const_cast<std::byte*>(frame.data()), frame.size()};
    const Packet packet({&piece, 1}, static_cast<uint32_t>(frame.size()), {}, port_.vxlan_ports());
    say(how, fmt::format("{} bytes: {}", frame.size(), describe_packet(packet.key())));
    if (std::string wrong = describe_wrong(packet); !wrong.empty()) say("wrong", std::move(wrong));
}

/// The packet has come to its end, or only its completion is left to report.
void Recorder::close(OpenPassage& open) {
    const PortCounters& after = port_.counters;
    for (const CounterName& one : port_counters()) {
        const uint64_t moved = after.*one.counter - open.before.*one.counter;
        if (moved == 0 || !one.loss) continue;
        open.outcomes.push_back(fmt::format("{} ({})", one.name, one.loss));
        if (steps_) open.passage.steps.push_back({"dropped", open.outcomes.back()});
    }
    open.passage.verdict = fmt::format("{}", fmt::join(open.outcomes, "; "));
}

void Recorder::deliver(const Passage& passage) {
    for (Observer* const observer : observers_)
        observer->on_packet(passage);
}

void Recorder::came_to(Number queue) {
    Passage& passage = current().passage;
    if (passage.queue == 0) passage.queue = queue;
}

// ---------------------------------------------------------------- received

void Recorder::begin_received(std::span<const iovec> pieces, uint32_t bytes, bool looped) {
    open(received_, Passage::Direction::received, pieces, bytes);
    describe_frame(looped ? "loopback" : "wire");
}

void Recorder::end_received(bool done) {
    const bool looped = sent_.has_value();
    if (done) {
        if (port_.counters.kernel_rx_packets != received_->before.kernel_rx_packets)
            received_->outcomes.emplace_back("to the kernel netdev");
        close(*received_);
        deliver(received_->passage);
        // Its outcome is separate from that of the packet being sent.
        if (looped)
            for (const CounterName& one : port_counters())
                sent_->before.*one.counter +=
                    port_.counters.*one.counter - received_->before.*one.counter;
    }
    received_.reset();
}

// ---------------------------------------------------------------- sent

void Recorder::begin_sent(const Sq& sq, const SendRequest& request, std::span<const iovec> pieces,
                          uint32_t bytes) {
    open(sent_, Passage::Direction::sent, pieces, bytes);
    came_to(sq.number);
    if (!steps_) return;
    const std::string whose = sq.virtq ? fmt::format("chain {} of virtio queue {}",
                                                     sq.virtq->status().next_available, sq.number)
                                       : fmt::format("WQE {} of SQ {}", sq.consumer, sq.number);
    say("SQ", fmt::format("{} asks for {}{}; this is number {}", whose, name_of(request.kind),
                          offloads_of(request), sq.sent + 1));
    describe_frame("frame");
}

void Recorder::begin_sent_by_kernel(std::span<const iovec> pieces, uint32_t bytes) {
    open(sent_, Passage::Direction::sent, pieces, bytes);
    describe_frame("kernel");
}

void Recorder::begin_hairpin(const Sq& sq, std::span<const iovec> pieces, uint32_t bytes) {
    open(sent_, Passage::Direction::sent, pieces, bytes);
    came_to(sq.number);
    if (!steps_) return;
    say("SQ", fmt::format("{} sends what hairpin RQ {} took", sq.number, peer_of(sq).number));
    describe_frame("frame");
}

void Recorder::end_hairpin() {
    end_sent();
    deliver_waiting(nullptr, {});
}

void Recorder::routed(bool to_wire, bool looped) {
    if (looped) {
        say("loopback", to_wire ? "the port receives it, too" : "the port receives it itself");
        if (!to_wire) sent_->outcomes.emplace_back("looped back");
    }
}

void Recorder::end_sent() {
    if (port_.counters.wire_tx_packets != sent_->before.wire_tx_packets) {
        say("wire", "leaves");
        sent_->outcomes.insert(sent_->outcomes.begin(), "sent");
    }
    close(*sent_);
    const bool of_queue = sent_->passage.queue != 0;
    waiting_.push_back(std::move(sent_->passage));
    sent_.reset();
    if (!of_queue) deliver_waiting(nullptr, {});
}

void Recorder::deliver_waiting(const char* where, const std::string& text) {
    for (Passage& passage : waiting_) {
        if (where && steps_) passage.steps.push_back({where, text});
        deliver(passage);
    }
    waiting_.clear();
}

void Recorder::completed(const Sq& sq, uint16_t index, bool reports, bool written) {
    if (waiting_.empty()) return;
    deliver_waiting("CQ", !reports  ? fmt::format("WQE {} asks for no CQE", index)
                          : written ? fmt::format("CQE for WQE {} in CQ {}", index, sq.cq->number())
                                    : fmt::format("CQ {} is full: it breaks", sq.cq->number()));
}

void Recorder::failed(const Sq& sq, SendFault fault, CompletionError error) {
    const std::string text =
        fmt::format("WQE {} of SQ {} fails ({}): error CQE {} in CQ {}", sq.consumer, sq.number,
                    text_of(fault), text_of(error), sq.cq->number());
    deliver_waiting("CQ", text);
    Passage passage{.device = &device_,
                    .direction = Passage::Direction::sent,
                    .time = port_.now(),
                    .queue = sq.number,
                    .verdict = text};
    if (steps_) passage.steps.push_back({"SQ", text});
    deliver(passage);
}

void Recorder::leaves(const Sq& sq) {
    if (waiting_.empty()) return;
    deliver_waiting(
        "SQ", sq.virtq ? fmt::format("chain {} goes on later", sq.virtq->status().next_available)
                       : fmt::format("WQE {} goes on later", sq.consumer));
}

void Recorder::used(const Sq& sq) {
    if (waiting_.empty()) return;
    const auto chain = static_cast<uint16_t>(sq.virtq->status().next_available - 1);
    deliver_waiting("SQ", fmt::format("chain {} comes back used", chain));
}

void Recorder::abandoned() {
    for (std::optional<OpenPassage>* const open : {&received_, &sent_}) {
        if (!*open) continue;
        (*open)->outcomes.emplace_back("memory that it needs is gone");
        close(**open);
        deliver((*open)->passage);
        open->reset();
    }
    deliver_waiting("SQ", "the round was left, as memory is gone");
}

// ---------------------------------------------------------------- receive queues

void Recorder::not_ready(const Rq& rq) {
    came_to(rq.number);
    say("RQ", fmt::format("{} is in state {}", rq.number, text_of(rq.state)));
}

void Recorder::no_room(const Rq& rq) {
    came_to(rq.number);
    say("RQ", rq.hairpin ? fmt::format("{} holds {} packets for SQ {}, and no more", rq.number,
                                       rq.hairpin->packets(), peer_of(rq).number)
              : rq.virtq ? fmt::format("{} has no chain of buffers available", rq.number)
                         : fmt::format("{} has no WQE posted", rq.number));
}

void Recorder::failed(const Rq& rq, ReceiveFault fault) {
    came_to(rq.number);
    say("RQ", fmt::format("WQE {} of RQ {} fails ({}): error CQE in CQ {}", rq.consumer, rq.number,
                          text_of(fault), rq.cq->number()));
}

void Recorder::overrun(const Rq& rq) {
    came_to(rq.number);
    say("CQ", fmt::format("{} is full: it breaks, and RQ {} with it", rq.cq->number(), rq.number));
}

void Recorder::placed(const Rq& rq, uint32_t bytes, uint32_t strides) {
    came_to(rq.number);
    const std::string where = strides != 0
                                  ? fmt::format("WQE {}, strides {} to {}", rq.consumer,
                                                rq.next_stride, rq.next_stride + strides - 1)
                                  : fmt::format("WQE {}", rq.consumer);
    current().outcomes.push_back(fmt::format("delivered to RQ {} ({})", rq.number, where));
    say("RQ", fmt::format("{}: {} bytes into {}; CQE in CQ {}", rq.number, bytes, where,
                          rq.cq->number()));
}

void Recorder::passed_on(const Rq& rq, uint32_t bytes) {
    came_to(rq.number);
    const Number sqn = peer_of(rq).number; // 0: it is gone
    current().outcomes.push_back(fmt::format("passed from hairpin RQ {} to SQ {}", rq.number, sqn));
    say("RQ", fmt::format("{}: {} bytes for SQ {}, which has {} packets to send", rq.number, bytes,
                          sqn, rq.hairpin->packets()));
}

void Recorder::chained(const Rq& rq, uint32_t bytes) {
    came_to(rq.number);
    const auto chain = static_cast<uint16_t>(rq.virtq->status().next_available - 1);
    current().outcomes.push_back(
        fmt::format("delivered to virtio queue {} (chain {})", rq.number, chain));
    say("RQ", fmt::format("{}: {} bytes into chain {}", rq.number, bytes, chain));
}

void Recorder::misplaced(const Rq& rq) {
    came_to(rq.number);
    say("RQ", rq.state == QueueState::error
                  ? fmt::format("{} fails: {}", rq.number, text_of(rq.virtq->status().fault))
                  : fmt::format("chain {} of {} is too short for it",
                                rq.virtq->status().next_available, rq.number));
}

void Recorder::coalesced(const Rq& rq) {
    came_to(rq.number);
    const LroSession& session = *rq.lro;
    current().outcomes.push_back(fmt::format("delivered to RQ {} (WQE {}, LRO segment {})",
                                             rq.number, rq.consumer, session.segments()));
    say("LRO",
        fmt::format("segment {} of a session in WQE {} of RQ {}, which has {} bytes with it{}",
                    session.segments(), rq.consumer, rq.number, session.bytes(),
                    session.is_complete() ? " and ends here" : ""));
}

void Recorder::session_ends(const Rq& rq) {
    say("LRO", fmt::format("RQ {} has a session of {} segments, which this packet ends", rq.number,
                           rq.lro->segments()));
}

} // namespace softhca::core
