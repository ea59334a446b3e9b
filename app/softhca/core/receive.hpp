// SPDX-License-Identifier: BSD-3-Clause
// The port's receive pipeline: sniffers, bypass rules, kernel netdev, leftovers; or flow tables.
#pragma once

#include "app/softhca/core/flow_cache.hpp"
#include "app/softhca/core/flow_path.hpp"
#include "app/softhca/core/flow_tables.hpp"
#include "app/softhca/core/place.hpp"
#include "app/softhca/core/steering.hpp"

#include <array>
#include <optional>
#include <utility>

namespace softhca::core {

/// One device's receive side. Used by the device thread with the device locked.
template <Rings R, class W> class Receiver {
  public:
    static constexpr size_t kMaxBatch = 32; ///< frames from the wire, at once

    Receiver(const DataPathParts& parts, Placer<R, W>& placer, W watch)
        : steering_(parts.steering), tables_(parts.tables), placer_(placer), port_(parts.port),
          delay_drop_(parts.delay_drop), watch_(watch), flows_(parts.control_calls) {}

    /// Takes a frame from the wire. False: an RQ without requests holds the wire; offer the frame
    /// again.
    [[nodiscard]] bool receive(std::span<const iovec> pieces, uint32_t bytes) {
        watch_.begin_received(pieces, bytes, origin_.has_value());
        const bool done = take(pieces, bytes);
        watch_.end_received(done);
        return done;
    }

    /// Takes frames of one piece each from the wire, from the start of a batch. Returns how many;
    /// if not all, the next one holds the wire.
    [[nodiscard]] size_t receive_batch(std::span<const iovec> frames);

    /// See DataPath.
    [[nodiscard]] bool is_expected(std::span<const iovec> pieces, uint32_t bytes);

    /// Receives a frame that an SQ of transport domain `domain`, or the kernel netdev, sent to this
    /// port itself. Returns as receive() does.
    [[nodiscard]] bool loop(std::span<const iovec> pieces, uint32_t bytes, Number domain);

    /// After a fault interrupted one of these. Returns how many frames of a batch were taken
    /// before.
    size_t abandon() {
        origin_.reset();
        return std::exchange(taken_, 0) + placer_.end_run();
    }

    /// Whether anyone wants copies of sent packets.
    [[nodiscard]] bool sniffs_sent() const {
        return steering_.has(FlowDomain::sniffer) || tables_.active(FlowRoot::sniff_sent);
    }
    /// Whether there are rules for sent packets, and what they say about a packet.
    [[nodiscard]] bool steers_sent() const {
        return steering_.has(FlowDomain::egress) || tables_.active(FlowRoot::transmit);
    }
    void steer_sent(const Packet& packet, SendProgress& progress, FlowPath& path);
    /// Copies a sent frame to the sniffers.
    void sniff_sent(std::span<const iovec> pieces, uint32_t bytes);

  private:
    static constexpr size_t kMaxCopy = 10240; ///< beyond the longest frame that a port passes
    /// The source of the present frame when it did not come from the wire.
    struct Origin {
        Number domain;
        bool group; ///< it goes to a group address
    };
    /// Whether the present frame comes from the TIR's own domain (there is an origin) and the TIR
    /// does not want such frames.
    [[nodiscard]] bool is_deaf(const Tir& tir) const;
    [[nodiscard]] bool take(std::span<const iovec> pieces, uint32_t bytes);
    /// Takes the first of these frames, as long as their flows are known and no queue holds the
    /// wire.
    void take_known(std::span<const iovec> frames);
    [[nodiscard]] bool take_known(const iovec& frame, const typename FlowCache<R>::Found& found);
    [[nodiscard]] size_t run_at(size_t first, size_t known) const;
    /// The next packets of the flow will go where this packet went, if that is one queue and
    /// nothing else is involved.
    void remember(const Packet& packet, bool to_kernel);
    [[nodiscard]] bool may_hold() const { return port_.pause() || delay_drop_.rqs != 0; }
    [[nodiscard]] bool sniffs_received() const {
        return tables_.active(FlowRoot::sniff_received) || steering_.has(FlowDomain::sniffer);
    }
    void count_arrival(std::span<const iovec> pieces, uint32_t bytes);
    /// The frame came from the kernel netdev, which does not hear itself.
    [[nodiscard]] bool by_kernel() const { return origin_ && origin_->domain == kKernelDomain; }
    /// Determines the packet's path, into path_. True: the packet goes to the kernel netdev, too.
    [[nodiscard]] bool steer(const Packet& packet);
    void place(const FlowPath::Stop& stop);
    void deliver(FlowPath& path);
    void count_losses(bool to_kernel);
    [[nodiscard]] bool listens(const FlowPath::Stop& stop);
    /// Whether an RQ that the packet goes to holds the wire.
    [[nodiscard]] bool must_hold();
    [[nodiscard]] bool holds(const Tir& tir, const Packet& packet);
    [[nodiscard]] bool holds(Rq& rq, uint32_t bytes);
    /// Whether an RQ that has held the wire for that long may keep holding it.
    [[nodiscard]] bool goes_on_holding(Rq& rq, uint64_t held_ns);
    void sniff(FlowRoot root, const Packet& packet);

    const Steering& steering_;
    const FlowTables& tables_;
    Placer<R, W>& placer_;
    Port& port_;
    DelayDrop& delay_drop_;
    [[no_unique_address]] W watch_;
    std::vector<const Rule*> copies_; ///< of the present packet, see Steering::match
    FlowPath path_;                   ///< likewise
    FlowPath sniff_path_;
    uint64_t received_ = 0; ///< packets that were steered and taken
    FlowCache<R> flows_;
    std::array<typename FlowCache<R>::Found, kMaxBatch> known_; ///< of the present batch
    size_t taken_ = 0;                                          ///< likewise
    std::optional<Origin> origin_;
    std::array<std::byte, kMaxCopy> copy_; ///< of a frame that was sent
};

} // namespace softhca::core
