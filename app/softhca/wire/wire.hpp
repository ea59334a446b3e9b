// SPDX-License-Identifier: BSD-3-Clause
// A cable: the source and destination of a port's frames. Also the link to the kernel netdev.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/uio.h>

namespace softhca::wire {

/// A frame to send, without FCS, as pieces that stay valid only during the call. iovec as in
/// writev(2), so that sockets and TAPs take it unchanged.
struct OutFrame {
    std::span<const iovec> pieces;
    uint32_t length = 0; ///< sum of the pieces
};

enum class SendResult : uint8_t {
    sent,
    busy, ///< lossless wire, no room now: offer the same frame again later
    lost, ///< the wire dropped it (the caller counts it)
};

/// Takes frames from the other end of a cable during the send call, from the sender's memory.
class Recipient {
  public:
    /// Takes some of these frames, in order from the first, and returns how many: 0 if it cannot
    /// now. Each has one piece. Called on the sender's thread, which may not be the receiver's. A
    /// frame whose memory is gone is not taken; reading it raises no fault here.
    [[nodiscard]] virtual size_t take(std::span<const iovec> frames) = 0;

  protected:
    ~Recipient() = default;
};

/// What a wire does to frames without the sender and receiver seeing it.
struct WireReport {
    uint64_t lost = 0, lost_bytes = 0; ///< after send() had reported them as sent
    uint64_t merged = 0;               ///< merged into the frame before them
    uint64_t split = 0;                ///< arrived as a part of the frame before them
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

    /// Likewise for several at once: as many as are available and fit, in order. Returns how many.
    virtual size_t peek_batch(std::span<iovec> frames) {
        const auto frame = frames.empty() ? std::span<const std::byte>{} : peek();
        if (frame.empty()) return 0;
        frames.front() = {const_cast<std::byte*>(frame.data()), frame.size()};
        return 1;
    }
    /// Drops the first `count` frames that peek_batch() returned; the others will be returned
    /// again.
    virtual void pop_batch(size_t count) {
        if (count != 0) pop();
    }

    /// The port now has a destination for frames: flow rules, with no more added for a while, or a
    /// kernel netdev. Wires that generate frames (pcap, gen) begin now, so that none is spent on a
    /// port that nobody uses yet. Later calls do nothing.
    virtual void start() {}

    /// For such a wire with uniform frames: the first one. It need not begin before the port has a
    /// destination for that frame. Empty: not known, or no frames are left.
    [[nodiscard]] virtual std::span<const std::byte> preview() const { return {}; }

    virtual SendResult send(const OutFrame& frame) = 0;
    /// Sends frames of one piece each, in order, until one is not sent, and returns the result for
    /// the last one. `sent` is incremented for each, also when reading the next one raises a fault.
    virtual SendResult send_batch(std::span<const iovec> frames, size_t& sent) {
        for (const iovec& frame : frames) {
            const SendResult result = send({{&frame, 1}, static_cast<uint32_t>(frame.iov_len)});
            if (result != SendResult::sent) return result;
            sent++;
        }
        return SendResult::sent;
    }
    /// Called after a batch of send(): wakes the peer if it sleeps, and sends what was held back.
    virtual void flush() {}
    /// Covers the time since the last call.
    virtual WireReport take_report() { return {}; }

    /// Sets who may receive frames while the other end sends them, before peek_batch() would find
    /// them. Cables that do not support this ignore it. Null: nobody from now on; on return no call
    /// is in progress.
    virtual void set_recipient(Recipient*) {}

    /// False while the cable is unplugged: no peer is connected, or the interface at its other end
    /// is down.
    [[nodiscard]] virtual bool carrier() { return true; }
    /// carrier() may be a little late, unless this was called before.
    virtual void look_at_carrier() {}
    /// Tells the other side whether the port is up, where the medium can carry that.
    virtual void set_carrier(bool) {}
    /// A descriptor that becomes readable when peek() may find a frame, or -1: poll often.
    [[nodiscard]] virtual int wait_fd() const { return -1; }
};

} // namespace softhca::wire
