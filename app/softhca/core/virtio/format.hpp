// SPDX-License-Identifier: BSD-3-Clause
// What virtio drivers and devices share in memory, as on a CPU of theirs: little-endian. Source:
// Virtual I/O Device (VIRTIO) 1.1, 2.6 (split virtqueues) and 5.1.6 (network device).
#pragma once

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

/// In front of the elements of both rings: heads of chains that the driver makes available, 16 bits
/// each, and those that the device has used.
struct RingHead {
    uint16_t flags;
    uint16_t index; ///< so many elements since the start
};
static_assert(sizeof(RingHead) == 4 && offsetof(RingHead, index) == 2);
/// In the available ring: the driver wants no events.
inline constexpr uint16_t kNoInterrupt = 1;

struct UsedElement {
    uint32_t head;  ///< of the chain
    uint32_t bytes; ///< that were written
};
static_assert(sizeof(UsedElement) == 8);

/// In front of each frame.
struct NetHeader {
    uint8_t flags = 0;
    uint8_t gso_type = 0;
    uint16_t header_bytes = 0;    ///< a hint, with segmentation
    uint16_t segment_bytes = 0;   ///< of payload, with segmentation
    uint16_t checksum_start = 0;  ///< from there to its end the frame is summed …
    uint16_t checksum_offset = 0; ///< … and from there on, that is where the checksum goes
    uint16_t buffers = 0;         ///< 1; not in headers of the time before VIRTIO 1
};
static_assert(sizeof(NetHeader) == 12 && offsetof(NetHeader, checksum_start) == 6 &&
              offsetof(NetHeader, buffers) == 10);
inline constexpr uint32_t kLegacyNetHeaderBytes = offsetof(NetHeader, buffers);
inline constexpr uint8_t kNeedsChecksum = 1, kDataValid = 2;
inline constexpr uint8_t kGsoNone = 0, kGsoTcp4 = 1, kGsoTcp6 = 4;

} // namespace softhca::core::virtio
