// SPDX-License-Identifier: BSD-3-Clause
// Executes send queues: fetches WQEs, validates them, sends their packets, completes them.
#pragma once

#include "app/softhca/core/mkey.hpp"
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/offload.hpp"
#include "app/softhca/core/port.hpp"
#include "app/softhca/core/receive.hpp"

#include <array>

namespace softhca::core {

/// Why a WQE failed: reported in the error CQE's vendor_syndrome, for people who debug a driver.
enum class SendFault : uint8_t {
    none = 0,
    bad_opcode = 0x01,
    bad_ds = 0x02,    ///< zero, or more WQEBBs than the doorbell announced
    bad_index = 0x03, ///< the index in the control segment is not the WQE's
    bad_qpn = 0x04,
    bad_eth_segment = 0x05, ///< cut off, or inline header beyond the WQE
    bad_inline_data = 0x06, ///< inline segment beyond the WQE
    no_data = 0x07,         ///< nothing to send
    bad_tso = 0x08,         ///< header is no TCP packet, or MSS 0
    doorbell_jump = 0x09,   ///< the doorbell record moved by more than the ring holds
    protection = 0x10,      ///< lkey unknown, of another PD, or range not covered
    too_long = 0x11,        ///< more bytes than a message may have
    injected = 0x20,        ///< on request (Device::inject_error)
};

/// One device's send side. Used by the device thread with the device locked.
class Sender {
  public:
    Sender(const MkeyTable& mkeys, Port& port, Receiver& receiver)
        : mkeys_(mkeys), port_(port), receiver_(receiver) {}

    /// Executes WQEs of a ready queue until it is empty, `budget` packets are out or the wire is
    /// busy; flushes a queue in error. Returns units of work done.
    size_t run(Sq& sq, size_t budget);
    /// Sends what the kernel netdev has. Returns how many frames.
    size_t run_kernel(size_t budget);
    /// An SQ goes.
    void forget(const Sq& sq) {
        if (current_ == &sq) current_ = nullptr;
    }
    /// The WQE whose execution was left by a fault ends in a protection error.
    void fail_for_memory();

  private:
    /// What executing (a part of) a WQE led to.
    struct Step {
        SendFault fault = SendFault::none;
        bool complete = false; ///< otherwise: the wire is busy or the budget spent
        size_t packets = 0;
    };

    [[nodiscard]] bool read_doorbell(Sq& sq);
    [[nodiscard]] SendFault fetch(const Sq& sq);
    [[nodiscard]] SendFault decode_eth();
    [[nodiscard]] Step execute(Sq& sq, size_t budget);
    [[nodiscard]] Step execute_send(Sq& sq);
    [[nodiscard]] Step execute_tso(Sq& sq, size_t budget);
    [[nodiscard]] Step execute_mpw(Sq& sq, size_t budget);
    [[nodiscard]] SendFault gather_segment(const Sq& sq, uint32_t& at, Gather& into);
    [[nodiscard]] SendFault gather_segments(const Sq& sq, Gather& into);
    [[nodiscard]] bool send_frame(Sq& sq, Gather& frame);
    /// Whose a frame is, for rules.
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

    void complete(Sq& sq);
    void fail(Sq& sq, SendFault fault);
    [[nodiscard]] size_t flush(Sq& sq);
    void write_error(Sq& sq, mlx5::CqeSyndrome syndrome, SendFault fault);

    /// A WQE is fetched whole, as hardware does: what is checked is what is executed, whatever the
    /// program writes meanwhile.
    struct Fetched {
        alignas(64) std::array<std::byte, mlx5::kMaxWqeSegments * mlx5::kSegment> bytes;
        uint32_t size = 0;   ///< bytes
        uint16_t wqebbs = 1; ///< that it takes in the ring, at least 1
        uint8_t opcode = 0;
        uint8_t ce = 0; ///< completion mode: kCqUpdate, …
        SendOffloads offloads;
        uint16_t mss = 0;
        uint32_t metadata = 0;
        uint32_t header_bytes = 0; ///< inline header in the Ethernet segment
        uint32_t data_at = 0;      ///< first segment after the Ethernet segment
    };

    const MkeyTable& mkeys_;
    Port& port_;
    Receiver& receiver_; ///< of the loopback, and of those who sniff
    Fetched wqe_;
    Sq* current_ = nullptr; ///< whose WQE is in wqe_
    Gather frame_;
    Gather payload_;
    HeaderBuffer header_;
    std::array<std::byte, HeaderBuffer::kCapacity> tso_header_;
    SendProgress kernel_progress_; ///< of the kernel's next frame
    FlowPath path_;                ///< of the present packet, if rules decide about it
};

} // namespace softhca::core
