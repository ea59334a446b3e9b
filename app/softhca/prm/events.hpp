// SPDX-License-Identifier: BSD-3-Clause
// What firmware reports other than the answers to commands.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace softhca::prm {

/// Event types of the PRM (Linux: enum mlx5_event in <linux/mlx5/device.h>).
enum class EventType : uint8_t {
    completion = 0x00,
    cq_error = 0x04,
    wq_catastrophic = 0x05,
    device_error = 0x08,
    port_change = 0x09,
    command = 0x0a,
    general = 0x22,
    object_change = 0x27,
};

/// Events that programs may subscribe to, as the device announces them (event_cap), as bits by
/// type: events of their objects, and of no object. Source of the former's types: Linux, enum
/// mlx5_event; types of which no object here has events do not occur.
inline constexpr uint64_t kUserObjectEvents = 0x80'311f00bf;
inline constexpr uint64_t kUserEvents = 1u << static_cast<unsigned>(EventType::port_change);

/// The type-specific part of an EQE.
using EventData = std::array<uint8_t, 28>;

/// An entry of an event queue: mlx5_eqe of <linux/mlx5/eq.h>.
struct Eqe {
    uint8_t reserved0;
    uint8_t type;
    uint8_t reserved1;
    uint8_t subtype;
    uint8_t reserved2[28];
    EventData data;
    uint8_t reserved3[2];
    uint8_t signature;
    uint8_t owner; ///< flips with every round of the ring; written last
};
static_assert(sizeof(Eqe) == 64 && offsetof(Eqe, data) == 32 && offsetof(Eqe, owner) == 63);

/// Destination of events: event queues in a guest's memory, or event files of a process. Called on
/// device threads with the device locked.
class EventSink {
  public:
    virtual ~EventSink() = default;

    /// To the event queue with that number.
    virtual void push(uint32_t eqn, EventType type, uint8_t subtype, const EventData& data) = 0;
    /// To every subscriber of this type.
    virtual void push_all(EventType type, uint8_t subtype, const EventData& data) = 0;
    /// The firmware was reset: there are no subscribers any more.
    virtual void clear() = 0;
};

} // namespace softhca::prm
