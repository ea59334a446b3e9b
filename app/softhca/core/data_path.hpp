// SPDX-License-Identifier: BSD-3-Clause
// The data path over one family's rings, watched or not (no_watch.hpp). Included by that family's
// format only.
#pragma once

#include "app/softhca/core/coalesce_impl.hpp"
#include "app/softhca/core/place_impl.hpp"
#include "app/softhca/core/receive_impl.hpp"
#include "app/softhca/core/ring_format.hpp"
#include "app/softhca/core/send_packets_impl.hpp"
#include "app/softhca/core/virtio/place_impl.hpp"
#include "app/softhca/core/virtio/send_impl.hpp"

namespace softhca::core {

template <Rings R, class W> class DataPathOver final : public DataPath {
  public:
    DataPathOver(const DataPathParts& parts, W watch)
        : port_(parts.port), entry_writes_(parts.entry_writes), watch_(watch),
          placer_(parts, watch), receiver_(parts, placer_, watch),
          sender_(parts, receiver_, watch) {}

    size_t send(Sq& sq, size_t budget) override { return sender_.run(sq, budget); }
    size_t send_hairpin(Sq& sq, size_t budget) override { return sender_.run_hairpin(sq, budget); }
    size_t send_chains(Sq& sq, size_t budget) override { return sender_.run_chains(sq, budget); }
    void end_chain(Sq& sq) override { sender_.end_chain(sq); }
    size_t send_kernel(size_t budget) override { return sender_.run_kernel(budget); }
    size_t receive(size_t budget) override;
    void take(std::span<const iovec> frames) override;
    void lose_frame() override;
    [[nodiscard]] size_t taken() const override { return taken_; }
    size_t flush(Rq& rq) override { return placer_.flush(rq); }
    [[nodiscard]] bool receive_message(Rq& rq) override { return placer_.take_message(rq); }
    [[nodiscard]] bool is_expected(std::span<const iovec> pieces, uint32_t bytes) override {
        return receiver_.is_expected(pieces, bytes);
    }
    void forget(const Sq& sq) override { sender_.forget(sq); }
    void lose_memory(bool broken, Work work) override;

  private:
    Port& port_;
    EntryWrites& entry_writes_;
    [[no_unique_address]] W watch_;
    Placer<R, W> placer_;
    Receiver<R, W> receiver_;
    Sender<R, W> sender_;
    std::array<iovec, Receiver<R, W>::kMaxBatch> frames_; ///< from the wire, at once
    size_t taken_ = 0;                                    ///< see taken()
};

template <Rings R, class W> size_t DataPathOver<R, W>::receive(size_t budget) {
    wire::Wire& wire = port_.wire();
    placer_.begin_round();
    size_t done = 0;
    for (bool holds = false; done < budget && placer_.chains() < kChainsOfRound && !holds;) {
        const size_t most = std::min(frames_.size(), budget - done);
        const size_t count = wire.peek_batch({frames_.data(), most});
        if (count == 0) break;
        entry_writes_.execute_entry_writes();
        const size_t taken = receiver_.receive_batch({frames_.data(), count});
        wire.pop_batch(taken);
        done += taken;
        holds = taken != count;
    }
    return done + placer_.end_due_sessions();
}

template <Rings R, class W> void DataPathOver<R, W>::take(std::span<const iovec> frames) {
    taken_ = 0;
    entry_writes_.execute_entry_writes();
    while (taken_ < frames.size()) {
        const size_t most = std::min(frames_.size(), frames.size() - taken_);
        const size_t taken = receiver_.receive_batch(frames.subspan(taken_, most));
        taken_ += taken;
        if (taken != most) break;
    }
}

template <Rings R, class W> void DataPathOver<R, W>::lose_frame() {
    taken_ += receiver_.abandon();
    placer_.abandon();
    watch_.abandoned();
}

template <Rings R, class W> void DataPathOver<R, W>::lose_memory(bool broken, Work work) {
    const bool placing = placer_.is_placing();
    // The packet in progress has been counted; offering it again would count it twice.
    const size_t done = receiver_.abandon() + (placing ? 1 : 0);
    sender_.abandon();
    if (work == Work::receiving) port_.wire().pop_batch(done);
    if (work == Work::taking) taken_ += done;
    if (broken)
        placer_.abandon();
    else if (placing)
        placer_.fail_for_memory();
    else if (work == Work::sending)
        sender_.fail_for_memory();
    watch_.abandoned();
}

} // namespace softhca::core
