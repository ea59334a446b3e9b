// SPDX-License-Identifier: BSD-3-Clause
// loop: sent frames come back, in order. Lossless: a full ring is busy.
#include "app/softhca/wire/cable.hpp"
#include "app/softhca/wire/wires.hpp"

namespace softhca::wire {
namespace {

class LoopWire final : public Wire {
  public:
    LoopWire() : cable_(make_local_cable()), writer_(cable_->ring(0)), reader_(cable_->ring(0)) {}

    std::span<const std::byte> peek() override { return reader_.peek(); }
    void pop() override { reader_.pop(); }
    size_t peek_batch(std::span<iovec> frames) override { return reader_.peek_batch(frames); }
    void pop_batch(size_t count) override { reader_.pop_batch(count); }
    SendResult send(const OutFrame& frame) override { return writer_.put(frame); }
    SendResult send_batch(std::span<const iovec> frames, size_t& sent) override {
        return writer_.put_batch(frames, sent);
    }
    void flush() override { writer_.publish(); }

  private:
    std::shared_ptr<Cable> cable_;
    RingWriter writer_;
    RingReader reader_;
};

} // namespace

OpenedWire open_loop() { return std::make_unique<LoopWire>(); }

} // namespace softhca::wire
