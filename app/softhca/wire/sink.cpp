// SPDX-License-Identifier: BSD-3-Clause
// sink: takes every frame, delivers none.
#include "app/softhca/wire/wires.hpp"

namespace softhca::wire {
namespace {

class SinkWire final : public Wire {
  public:
    std::span<const std::byte> peek() override { return {}; }
    void pop() override {}
    SendResult send(const OutFrame&) override { return SendResult::sent; }
};

} // namespace

OpenedWire open_sink() { return std::make_unique<SinkWire>(); }

} // namespace softhca::wire
