// SPDX-License-Identifier: BSD-3-Clause
// What the data path reports while it is observed (see no_watch.hpp).
#pragma once

#include "app/softhca/core/recorder.hpp"

namespace softhca::core {

/// Forwards everything to a recorder; passed by value.
class Watch {
  public:
    explicit Watch(Recorder& recorder) : recorder_(&recorder) {}

    void begin_received(std::span<const iovec> pieces, uint32_t bytes, bool looped) const {
        recorder_->begin_received(pieces, bytes, looped);
    }
    void end_received(bool done) const { recorder_->end_received(done); }
    void begin_sent(const Sq& sq, const SendRequest& request, std::span<const iovec> pieces,
                    uint32_t bytes) const {
        recorder_->begin_sent(sq, request, pieces, bytes);
    }
    void begin_sent_by_kernel(std::span<const iovec> pieces, uint32_t bytes) const {
        recorder_->begin_sent_by_kernel(pieces, bytes);
    }
    void begin_hairpin(const Sq& sq, std::span<const iovec> pieces, uint32_t bytes) const {
        recorder_->begin_hairpin(sq, pieces, bytes);
    }
    void end_hairpin() const { recorder_->end_hairpin(); }
    void cancel_sent() const { recorder_->cancel_sent(); }
    void end_sent() const { recorder_->end_sent(); }
    void completed(const Sq& sq, uint16_t index, bool reports, bool written) const {
        recorder_->completed(sq, index, reports, written);
    }
    void failed(const Sq& sq, SendFault fault, CompletionError error) const {
        recorder_->failed(sq, fault, error);
    }
    void leaves(const Sq& sq) const { recorder_->leaves(sq); }
    void used(const Sq& sq) const { recorder_->used(sq); }
    void routed(bool to_wire, bool looped) const { recorder_->routed(to_wire, looped); }
    void abandoned() const { recorder_->abandoned(); }

    void asked(FlowDomain domain, const RuleTable& table, const FlowKey& key,
               const Rule* rule) const {
        recorder_->asked(domain, table, key, rule);
    }
    void asked(const FlowTable& table, const FlowGroup& group, const FlowKey& key,
               const Rule* rule) const {
        recorder_->asked(table, group, key, rule);
    }
    void missed(const FlowTable& table) const { recorder_->missed(table); }
    void walks(const FlowTable& table) const { recorder_->walks(table); }
    void no_entry(uint64_t address) const { recorder_->no_entry(address); }
    void compared(uint64_t address, const ste::Entry& entry, std::span<const std::byte> seen,
                  bool hit) const {
        recorder_->compared(address, entry, seen, hit);
    }
    void arrived(const ste::Destination& to) const { recorder_->arrived(to); }
    void follows(const FlowActions& actions) const { recorder_->follows(actions); }
    void changed(const Packet& packet) const { recorder_->changed(packet); }
    void sampled(const Sampler& sampler, bool copies) const { recorder_->sampled(sampler, copies); }
    void metered(const Metering& metering, Color color) const {
        recorder_->metered(metering, color);
    }
    void visited_too_many() const { recorder_->say("table", "too many tables visited"); }
    void for_kernel() const { recorder_->say("kernel", "no rule takes it: goes to the netdev"); }
    void sniffed() const { recorder_->say("sniffers", "copies of it are made"); }

    void deaf(const Tir& tir) const { recorder_->deaf(tir); }
    void targeted(const Tir& tir, const Target& target) const { recorder_->targeted(tir, target); }
    void not_ready(const Rq& rq) const { recorder_->not_ready(rq); }
    void no_room(const Rq& rq) const { recorder_->no_room(rq); }
    void failed(const Rq& rq, ReceiveFault fault) const { recorder_->failed(rq, fault); }
    void overrun(const Rq& rq) const { recorder_->overrun(rq); }
    void placed(const Rq& rq, uint32_t bytes, uint32_t strides) const {
        recorder_->placed(rq, bytes, strides);
    }
    void passed_on(const Rq& rq, uint32_t bytes) const { recorder_->passed_on(rq, bytes); }
    void chained(const Rq& rq, uint32_t bytes) const { recorder_->chained(rq, bytes); }
    void misplaced(const Rq& rq) const { recorder_->misplaced(rq); }
    void coalesced(const Rq& rq) const { recorder_->coalesced(rq); }
    void session_ends(const Rq& rq) const { recorder_->session_ends(rq); }

  private:
    Recorder* recorder_;
};

} // namespace softhca::core
