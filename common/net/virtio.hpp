// SPDX-License-Identifier: BSD-3-Clause
// What a virtio network device and its driver, or a kernel and the user of its TAP, tell each other
// about a frame. Source: Virtual I/O Device (VIRTIO) 1.1, 5.1.6, little-endian; for a TAP: Linux,
// Documentation/networking/tuntap.rst, in the machine's byte order. (<linux/virtio_net.h> has names
// that C++ compilers refuse.)
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace net::virtio {

static_assert(std::endian::native == std::endian::little);

/// In front of each frame.
struct NetHeader {
    uint8_t flags = 0;
    uint8_t gso_type = 0;
    uint16_t header_bytes = 0;    ///< a hint, with segmentation
    uint16_t segment_bytes = 0;   ///< of payload, with segmentation
    uint16_t checksum_start = 0;  ///< the frame is summed from there to its end …
    uint16_t checksum_offset = 0; ///< … and the checksum goes this far behind there
    uint16_t buffers = 0;         ///< 1; not in headers before VIRTIO 1
};
static_assert(sizeof(NetHeader) == 12 && offsetof(NetHeader, checksum_start) == 6 &&
              offsetof(NetHeader, buffers) == 10);
/// Before VIRTIO 1, and in front of a TAP's frames.
inline constexpr uint32_t kLegacyNetHeaderBytes = offsetof(NetHeader, buffers);
inline constexpr uint8_t kNeedsChecksum = 1, kDataValid = 2;
inline constexpr uint8_t kGsoNone = 0, kGsoTcp4 = 1, kGsoTcp6 = 4;

} // namespace net::virtio
