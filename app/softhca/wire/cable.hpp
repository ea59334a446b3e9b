// SPDX-License-Identifier: BSD-3-Clause
// A cable in memory: two ends, a ring of frames in each direction. Within one process (`pair`,
// `loop`) or between two (`link`).
#pragma once

#include "app/softhca/wire/ring.hpp"

#include <memory>

namespace softhca::wire {

inline constexpr uint64_t kCableMagic = 0x31656c6261637768; // "hwcable1": layout version 1
/// Fits into a CPU's second-level cache: a fast sender is held back rather than spilling.
inline constexpr uint64_t kRingBytes = 512 * 1024;

/// One end's state, written by that end only.
struct EndState {
    /// Odd while attached; a new value each time an end is plugged in or out.
    alignas(64) std::atomic<uint64_t> generation;
    std::atomic<uint32_t> port_up; ///< 0 while the port at this end is administratively down
};

/// Layout of the shared memory. All zero except `magic` is a new cable.
struct Cable {
    uint64_t magic;
    EndState ends[2];
    RingIndices indices[2]; ///< ring i is written by end i
    alignas(4096) std::byte data[2][kRingBytes];

    [[nodiscard]] RingView ring(unsigned writer) {
        return {&indices[writer], data[writer], kRingBytes};
    }
};
static_assert(sizeof(Cable) == 4096 + 2 * kRingBytes);

/// A cable in memory of this process.
[[nodiscard]] std::shared_ptr<Cable> make_local_cable();

/// One plugged-in end. Frames that the other end sent before are not received: they were for
/// whoever was here then. From now on nothing is lost: a full ring is busy.
class CableEnd : public Wire {
  public:
    /// `cable` must stay mapped, and nobody else may use `end` (0 or 1).
    CableEnd(Cable& cable, unsigned end);
    ~CableEnd() override;
    CableEnd(const CableEnd&) = delete;
    CableEnd& operator=(const CableEnd&) = delete;

    std::span<const std::byte> peek() final;
    void pop() final { reader_.pop(); }
    size_t peek_batch(std::span<iovec> frames) final;
    void pop_batch(size_t count) final { reader_.pop_batch(count); }
    SendResult send(const OutFrame& frame) final;
    SendResult send_batch(std::span<const iovec> frames, size_t& sent) override;
    void flush() final { writer_.publish(); }
    [[nodiscard]] bool carrier() final;
    void set_carrier(bool up) final { own_.port_up.store(up, std::memory_order_release); }

  protected:
    /// False when the attached peer has died without unplugging. Called only while idle or busy.
    virtual bool peer_alive() { return true; }
    /// The other end has taken everything that was sent.
    [[nodiscard]] bool is_drained() const { return writer_.is_drained(); }

  private:
    [[nodiscard]] SendResult busy();
    void look_for_death();
    [[nodiscard]] bool peer_attached() const;

    RingReader reader_;
    RingWriter writer_;
    EndState& own_;
    EndState& peer_;
    uint64_t dead_generation_ = 0; ///< of a peer that died without unplugging
};

} // namespace softhca::wire
