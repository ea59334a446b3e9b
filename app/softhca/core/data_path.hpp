// SPDX-License-Identifier: BSD-3-Clause
// The data path over one family's rings. Included by that family's format only.
#pragma once

#include "app/softhca/core/place_impl.hpp"
#include "app/softhca/core/receive_impl.hpp"
#include "app/softhca/core/ring_format.hpp"
#include "app/softhca/core/send_impl.hpp"

namespace softhca::core {

template <Rings R> class DataPathOver final : public DataPath {
  public:
    explicit DataPathOver(const DataPathParts& parts)
        : port_(parts.port), placer_(parts.mkeys, parts.port),
          receiver_(parts.steering, parts.tables, placer_, parts.port, parts.delay_drop,
                    parts.pause),
          sender_(parts.mkeys, parts.port, receiver_) {}

    size_t send(Sq& sq, size_t budget) override { return sender_.run(sq, budget); }
    size_t send_kernel(size_t budget) override { return sender_.run_kernel(budget); }
    size_t receive(size_t budget) override;
    size_t flush(Rq& rq) override { return placer_.flush(rq); }
    [[nodiscard]] bool is_expected(std::span<const iovec> pieces, uint32_t bytes) override {
        return receiver_.is_expected(pieces, bytes);
    }
    void forget(const Sq& sq) override { sender_.forget(sq); }
    void lose_memory(bool broken, bool receiving) override;

  private:
    Port& port_;
    Placer<R> placer_;
    Receiver<R> receiver_;
    Sender<R> sender_;
};

template <Rings R> size_t DataPathOver<R>::receive(size_t budget) {
    wire::Wire& wire = port_.wire();
    size_t done = 0;
    for (; done < budget; done++) {
        const std::span<const std::byte> frame = wire.peek();
        if (frame.empty()) break;
        const iovec piece{const_cast<std::byte*>(frame.data()), frame.size()};
        if (!receiver_.receive({&piece, 1}, static_cast<uint32_t>(frame.size()))) break;
        wire.pop();
    }
    return done;
}

template <Rings R> void DataPathOver<R>::lose_memory(bool broken, bool receiving) {
    const bool placing = placer_.is_placing();
    receiver_.abandon();
    // The packet that was under way from the wire is counted, and would only be counted again.
    if (placing && receiving) port_.wire().pop();
    if (broken)
        placer_.abandon();
    else if (placing)
        placer_.fail_for_memory();
    else if (!receiving)
        sender_.fail_for_memory();
}

} // namespace softhca::core
