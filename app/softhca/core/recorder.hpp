// SPDX-License-Identifier: BSD-3-Clause
// Turns the data path's reports into text, packet by packet, for observers.
#pragma once

#include "app/softhca/core/flow_tables.hpp"
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/observer.hpp"
#include "app/softhca/core/port.hpp"
#include "app/softhca/core/requests.hpp"

#include <optional>
#include <span>
#include <string>
#include <sys/uio.h>
#include <vector>

namespace softhca::core {

/// A packet in progress.
struct OpenPassage {
    Passage passage{};
    PortCounters before{};
    std::vector<std::string> outcomes{}; ///< besides those that are counted as drops
};

/// Exists while a device is observed. Used by the device thread with the device locked. A packet's
/// outcome is read from the port's counters: each outcome counts as something.
class Recorder {
  public:
    Recorder(const std::string& device, const Port& port) : device_(device), port_(port) {}

    void add(Observer& observer);
    /// False: that was the last observer.
    [[nodiscard]] bool remove(Observer& observer);

    // The way of a received packet. A looped one is received while it is being sent.
    void begin_received(std::span<const iovec> pieces, uint32_t bytes, bool looped);
    /// `done`: otherwise the packet is held, and comes again.
    void end_received(bool done);

    // The way of a sent packet. It ends with its request: with completed(), failed() or, when the
    // request continues later, leaves().
    void begin_sent(const Sq& sq, const SendRequest& request, std::span<const iovec> pieces,
                    uint32_t bytes);
    void begin_sent_by_kernel(std::span<const iovec> pieces, uint32_t bytes);
    /// Sent by a hairpin SQ, without a request. The packet was received before, and recorded then
    /// as another one.
    void begin_hairpin(const Sq& sq, std::span<const iovec> pieces, uint32_t bytes);
    void end_hairpin();
    /// The wire is busy: the packet comes again.
    void cancel_sent() { sent_.reset(); }
    void end_sent();
    void completed(const Sq& sq, uint16_t index, bool reports, bool written);
    void failed(const Sq& sq, SendFault fault, CompletionError error);
    void leaves(const Sq& sq);
    /// A virtio queue returns the chain.
    void used(const Sq& sq);
    void routed(bool to_wire, bool looped);
    /// A fault interrupted the round: whatever was in progress has ended.
    void abandoned();

    // Steering.
    void asked(FlowDomain domain, const RuleTable& table, const FlowKey& key, const Rule* rule);
    void asked(const FlowTable& table, const FlowGroup& group, const FlowKey& key,
               const Rule* rule);
    void missed(const FlowTable& table);
    // Entries in ICM, by their addresses.
    void walks(const FlowTable& table);
    void no_entry(uint64_t address);
    void compared(uint64_t address, const ste::Entry& entry, std::span<const std::byte> seen,
                  bool hit);
    void arrived(const ste::Destination& to);
    void follows(const FlowActions& actions);
    /// The packet as a rule has changed it.
    void changed(const Packet& packet);
    void sampled(const Sampler& sampler, bool copies);
    void metered(const Metering& metering, Color color);

    // Receive queues.
    void deaf(const Tir& tir);
    void targeted(const Tir& tir, const Target& target);
    void not_ready(const Rq& rq);
    void no_room(const Rq& rq);
    void failed(const Rq& rq, ReceiveFault fault);
    void overrun(const Rq& rq);
    void placed(const Rq& rq, uint32_t bytes, uint32_t strides);
    /// A hairpin queue has taken the packet.
    void passed_on(const Rq& rq, uint32_t bytes);
    /// A virtio queue has put the packet into a chain, or could not.
    void chained(const Rq& rq, uint32_t bytes);
    void misplaced(const Rq& rq);
    /// The packet is part of the RQ's LRO session now; session_ends: the packet ends the session.
    void coalesced(const Rq& rq);
    void session_ends(const Rq& rq);

    void say(const char* where, std::string text);

  private:
    void open(std::optional<OpenPassage>& open, Passage::Direction direction,
              std::span<const iovec> pieces, uint32_t bytes);
    [[nodiscard]] OpenPassage& current() { return received_ ? *received_ : *sent_; }
    [[nodiscard]] bool is_open() const { return received_ || sent_; }
    void describe_frame(const char* how);
    void came_to(Number queue);
    void close(OpenPassage& open);
    void deliver(const Passage& passage);
    void deliver_waiting(const char* where, const std::string& text);

    const std::string& device_;
    const Port& port_;
    std::vector<Observer*> observers_;
    bool steps_ = false; ///< somebody wants them
    std::optional<OpenPassage> sent_, received_;
    std::vector<Passage> waiting_; ///< for the end of their request
};

} // namespace softhca::core
