// SPDX-License-Identifier: BSD-3-Clause
// A cable: where the frames of a port go to and come from. Also the link to the kernel netdev.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/uio.h>

namespace softhca::wire {

/// A frame to send, without FCS, as pieces that stay valid during the call only. iovec as in
/// writev(2), so that sockets and TAPs take it as it is.
struct OutFrame {
    std::span<const iovec> pieces;
    uint32_t length = 0; ///< sum of the pieces
};

enum class SendResult : uint8_t {
    sent,
    busy, ///< lossless wire, no room now: offer the same frame again later
    lost, ///< the wire dropped it (the caller counts it)
};

/// One end of a cable. Used by one device thread at a time; none of the calls blocks.
class Wire {
  public:
    virtual ~Wire() = default;

    /// The next received frame (without FCS, padded to at least 60 bytes), or empty when there is
    /// none. The span stays valid until pop(); peek() again returns the same frame.
    virtual std::span<const std::byte> peek() = 0;
    /// Drops the frame that peek() returned.
    virtual void pop() = 0;

    /// The port has somewhere to put frames: flow rules that no more were added to for a while, or
    /// a kernel netdev. Wires that make their frames themselves (pcap, gen) begin now, so that none
    /// is spent on a port that nobody uses yet. Later calls do nothing.
    virtual void start() {}

    /// Of such a wire whose frames are all alike: the first one. It need not begin before the port
    /// has somewhere to put that. Empty: nobody can tell, or no frame is left to begin with.
    [[nodiscard]] virtual std::span<const std::byte> preview() const { return {}; }

    virtual SendResult send(const OutFrame& frame) = 0;
    /// Called after a batch of send(): wakes the peer if it sleeps.
    virtual void flush() {}

    /// False while the cable is unplugged (no peer connected).
    [[nodiscard]] virtual bool carrier() const { return true; }
    /// Tells the other side whether the port is up, where the medium can carry that.
    virtual void set_carrier(bool) {}
    /// A descriptor that becomes readable when peek() may find a frame, or -1: poll often.
    [[nodiscard]] virtual int wait_fd() const { return -1; }
};

} // namespace softhca::wire
