// SPDX-License-Identifier: BSD-3-Clause
// Doorbell records of the mlx5 format as doorbells (null yields none), and registers of UARs.
#pragma once

#include "app/softhca/core/doorbell.hpp"
#include "app/softhca/core/send_registers.hpp"
#include "common/mlx5/formats.hpp"

namespace softhca::core::mlx5_rings {

[[nodiscard]] inline Doorbell send_doorbell(mlx5::QueueDoorbell* record) {
    return record ? Doorbell::in(*record, record->send.raw) : Doorbell();
}
[[nodiscard]] inline Doorbell receive_doorbell(mlx5::QueueDoorbell* record) {
    return record ? Doorbell::in(*record, record->receive.raw) : Doorbell();
}
[[nodiscard]] inline CqDoorbell cq_doorbell(mlx5::CqDoorbell* record) {
    if (!record) return {};
    return {Doorbell::in(*record, record->consumer.raw), Doorbell::in(*record, record->arm.raw)};
}

// A UAR has four pairs of BlueFlame buffers: libmlx5 uses the first two, the kernel's drivers also
// the others. To ring, software writes the first eight bytes of a WQE, or the whole of it, to the
// start of a buffer.
inline constexpr size_t kUarBytes = 4096, kSendRegistersAt = 0x800, kSendRegisterStride = 0x100;

/// The registers of a UAR whose `memory` is at `uar`.
[[nodiscard]] inline std::shared_ptr<SendRegisters> send_registers(std::byte* uar,
                                                                   std::shared_ptr<void> memory) {
    SendRegisters::Words words;
    for (size_t i = 0; i < words.size(); i++)
        words[i] = reinterpret_cast<uint64_t*>(uar + kSendRegistersAt + i * kSendRegisterStride);
    const auto number_of = [](uint64_t value) -> uint32_t {
        return net::to_be(static_cast<uint32_t>(value >> 32)) >> 8; // qpn_ds of the control segment
    };
    return std::make_shared<SendRegisters>(words, number_of, std::move(memory));
}

} // namespace softhca::core::mlx5_rings
