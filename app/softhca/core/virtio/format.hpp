// SPDX-License-Identifier: BSD-3-Clause
// The memory layout that virtio drivers and devices share: little-endian. Source: Virtual I/O
// Device (VIRTIO) 1.1, 2.6 (split virtqueues).
#pragma once

#include "common/net/virtio.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace softhca::core::virtio {

static_assert(std::endian::native == std::endian::little);

/// An entry of the descriptor table.
struct Descriptor {
    uint64_t address;
    uint32_t bytes;
    uint16_t flags;
    uint16_t next; ///< of its chain, if kNext
};
static_assert(sizeof(Descriptor) == 16 && offsetof(Descriptor, flags) == 12 &&
              offsetof(Descriptor, next) == 14);
inline constexpr uint16_t kNext = 1, kWrite = 2, kIndirect = 4;

/// Precedes the elements of both rings: heads of chains that the driver makes available, 16 bits
/// each, and those that the device has used.
struct RingHead {
    uint16_t flags;
    uint16_t index; ///< number of elements since the start
};
static_assert(sizeof(RingHead) == 4 && offsetof(RingHead, index) == 2);
/// In the available ring: the driver wants no events.
inline constexpr uint16_t kNoInterrupt = 1;

struct UsedElement {
    uint32_t head;  ///< of the chain
    uint32_t bytes; ///< that were written
};
static_assert(sizeof(UsedElement) == 8);

using namespace net::virtio; // the header of each frame

} // namespace softhca::core::virtio
