// SPDX-License-Identifier: BSD-3-Clause
// Puts what the data path tells of itself into words, packet by packet, for observers.
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

/// A packet that is under way.
struct OpenPassage {
    Passage passage{};
    PortCounters before{};
    std::vector<std::string> outcomes{}; ///< besides those that are counted as drops
};

/// Exists while a device is looked at. Used by the device thread with the device locked. What a
/// packet came to is read from the port's counters: each counts as something.
class Recorder {
  public:
    Recorder(const std::string& device, const Port& port) : device_(device), port_(port) {}

    void add(Observer& observer);
    /// False: that was the last one.
    [[nodiscard]] bool remove(Observer& observer);

    // The way of a packet that arrives. A looped one arrives while it is being sent.
    void begin_received(std::span<const iovec> pieces, uint32_t bytes, bool looped);
    /// `done`: else it is held, and comes again.
    void end_received(bool done);

    // The way of one that is sent. It ends with its request: with completed(), failed() or, when
    // that goes on later, leaves().
    void begin_sent(const Sq& sq, const SendRequest& request, std::span<const iovec> pieces,
                    uint32_t bytes);
    void begin_sent_by_kernel(std::span<const iovec> pieces, uint32_t bytes);
    /// By a hairpin SQ, without a request. A packet that it sends arrived before, as another one.
    void begin_hairpin(const Sq& sq, std::span<const iovec> pieces, uint32_t bytes);
    void end_hairpin();
    /// The wire is busy: it comes again.
    void cancel_sent() { sent_.reset(); }
    void end_sent();
    void completed(const Sq& sq, uint16_t index, bool reports, bool written);
    void failed(const Sq& sq, SendFault fault, CompletionError error);
    void leaves(const Sq& sq);
    /// A virtio queue gives the chain back.
    void used(const Sq& sq);
    void routed(bool to_wire, bool looped);
    /// The round was left by a fault: what is under way has ended.
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
    /// What a rule has made of it.
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
    /// A hairpin queue has taken it.
    void passed_on(const Rq& rq, uint32_t bytes);
    /// A virtio queue has put it into a chain, or could not.
    void chained(const Rq& rq, uint32_t bytes);
    void misplaced(const Rq& rq);
    /// It is part of the RQ's LRO session now; it ends that one.
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
