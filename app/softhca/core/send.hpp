// SPDX-License-Identifier: BSD-3-Clause
// Executes send queues: reads requests, validates them, sends their packets, completes them.
#pragma once

#include "app/softhca/core/edit_arguments.hpp"
#include "app/softhca/core/meters.hpp"
#include "app/softhca/core/mkey.hpp"
#include "app/softhca/core/port.hpp"
#include "app/softhca/core/receive.hpp"
#include "app/softhca/core/requests.hpp"
#include "app/softhca/core/ring_format.hpp"
#include "app/softhca/core/virtio/virtq.hpp"

#include <array>

namespace softhca::core {

/// One device's send side. Used by the device thread with the device locked.
template <Rings R, class W> class Sender {
  public:
    Sender(const DataPathParts& parts, Receiver<R, W>& receiver, W watch)
        : mkeys_(parts.mkeys), meters_(parts.meters), edit_arguments_(parts.edit_arguments),
          key_owner_(parts.key_owner), entry_writes_(parts.entry_writes), cqs_(parts.cqs),
          sqs_(parts.sqs), port_(parts.port), receiver_(receiver), watch_(watch),
          kernel_progress_(parts.kernel_progress) {}

    /// See DataPath.
    size_t run(Sq& sq, size_t budget);
    size_t run_hairpin(Sq& sq, size_t budget);
    size_t run_chains(Sq& sq, size_t budget);
    void end_chain(Sq& sq);
    size_t run_kernel(size_t budget);
    void forget(const Sq& sq) {
        if (current_ == &sq) current_ = nullptr;
    }
    /// After a fault interrupted an execution: counts what was sent before, and takes back what
    /// meters were charged for a packet that did not go.
    void abandon();
    /// The request whose execution a fault interrupted ends in a protection error.
    void fail_for_memory();

  private:
    /// The result of executing (a part of) a request.
    struct Step {
        SendFault fault = SendFault::none;
        bool complete = false; ///< otherwise the wire is busy or the budget spent
        size_t packets = 0;
        uint32_t left = 0; ///< packets of a chain for which the wire was too busy
    };

    [[nodiscard]] bool read_doorbell(Sq& sq);
    [[nodiscard]] Step execute(Sq& sq, size_t budget);
    [[nodiscard]] Step execute_packet(Sq& sq);
    [[nodiscard]] Step execute_tso(Sq& sq, size_t budget);
    [[nodiscard]] Step execute_packets(Sq& sq, size_t budget);
    [[nodiscard]] Step send_batch(Sq& sq, size_t budget);
    size_t end_batch(Sq& sq, size_t sent);
    [[nodiscard]] Step execute_rdma(const Sq& sq, bool reads);
    [[nodiscard]] Step execute_meters(const Sq& sq);
    [[nodiscard]] Step execute_argument(const Sq& sq);
    [[nodiscard]] Step execute_key(const Sq& sq);
    [[nodiscard]] Step execute_wait() const;
    [[nodiscard]] Step execute_enable(const Sq& sq) const;
    using Cursor = typename R::Send::Cursor;
    [[nodiscard, gnu::always_inline]] SendFault
    gather_segment(const Sq& sq, Cursor& at, Gather& into, Access access = Access::read);
    [[nodiscard, gnu::flatten]] SendFault gather_packets(const Sq& sq);
    [[nodiscard, gnu::noinline]] bool find_whole(const Sq& sq, const Segment& segment,
                                                 KeyWindow& window, const std::byte*& whole);
    /// Whether no offload concerns a single packet, nobody observes, and each packet lies in one
    /// piece.
    [[nodiscard]] bool is_batch(const Sq& sq) const;
    [[nodiscard]] SendFault gather_segments(const Sq& sq, Gather& into,
                                            Access access = Access::read);
    [[nodiscard]] bool send_frame(Sq& sq, Gather& frame, const SendRequest& request);
    [[nodiscard]] Step send_segments(Sq& sq, const SendRequest& request,
                                     const net::TsoHeader& header, size_t budget);
    [[nodiscard]] Step execute_chain(Sq& sq, size_t budget);
    void use_chain(Sq& sq);
    [[nodiscard]] Step execute_tso_chain(Sq& sq, const virtio::NetHeader& header, size_t budget);
    [[nodiscard]] bool send_held(Sq& sq, const HairpinBuffer::Packet& packet);
    /// The origin of a frame, for rules.
    struct Origin {
        Number domain = kKernelDomain;
        uint32_t metadata = 0;
        Number sqn = 0;
    };
    [[nodiscard]] bool transmit(std::span<const iovec> pieces, uint32_t bytes, Number domain,
                                bool& looped);
    [[nodiscard]] bool send_steered(std::span<const iovec> pieces, uint32_t bytes,
                                    const Origin& origin, SendProgress& progress);
    [[nodiscard]] bool must_wait(const Sq& sq) const;
    void save_time(Sq& sq, uint64_t most) const;
    void spend_time(Sq& sq, uint32_t bytes) const;
    void pass_repeats(Sq& sq) const;

    void skip(Sq& sq);
    void leave_charged();
    void complete(Sq& sq, uint64_t time);
    void fail(Sq& sq, SendFault fault);
    [[nodiscard]] size_t flush(Sq& sq);
    void write_error(Sq& sq, CompletionError error, SendFault fault);

    const MkeyTable& mkeys_;
    Meters& meters_;
    EditArguments& edit_arguments_;
    KeyOwner& key_owner_;
    EntryWrites& entry_writes_;
    const ObjectTable<Cq>& cqs_;
    const ObjectTable<Sq>& sqs_;
    Port& port_;
    Receiver<R, W>& receiver_; ///< for the loopback, and for sniffers
    [[no_unique_address]] W watch_;
    typename R::Send ring_;
    Sq* current_ = nullptr; ///< whose request is in ring_
    Gather frame_;
    // For a request with a packet in each segment:
    uint32_t packets_ = 0;
    bool all_whole_ = false;
    std::array<iovec, R::Send::kMaxSegments> whole_; ///< null: in several pieces
    std::array<Cursor, R::Send::kMaxSegments> segments_;
    Gather payload_;
    HeaderBuffer header_;
    std::array<std::byte, HeaderBuffer::kCapacity> tso_header_;
    std::array<std::byte, net::kParseBytes> chain_header_; ///< the same, of a virtio queue's
    SendProgress& kernel_progress_;                        ///< of the kernel's next frame
    FlowPath path_;        ///< of the present packet, if there are rules for it
    uint64_t steered_ = 0; ///< packets that went through rules
    /// Of the packet whose path was charged and that is on its way now; null: there is none.
    const SendProgress* charged_ = nullptr;
};

} // namespace softhca::core
