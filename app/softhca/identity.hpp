// SPDX-License-Identifier: BSD-3-Clause
// How the devices of both fronts identify themselves: a ConnectX-5 with one Ethernet port; or,
// where programs infer features from the PCI ID, a ConnectX-6 Dx.
#pragma once

#include <cstdint>

namespace softhca {

inline constexpr uint32_t kVendorId = 0x02c9; ///< IEEE OUI, as ibv_query_device reports it
inline constexpr uint16_t kPciVendor = 0x15b3;
inline constexpr uint16_t kPciDevice = 0x1017;
/// Depends on the device's format of steering entries (PortConfig::steering_format). DPDK's
/// vdpa_mlx5 assumes that a ConnectX-5 has no virtio queues.
[[nodiscard]] constexpr uint16_t pci_device(uint8_t steering_format) {
    constexpr uint16_t kConnectX6Dx = 0x101d;
    return steering_format == 0 ? kPciDevice : kConnectX6Dx;
}
inline constexpr uint16_t kPciSubsystem = 0x0008;
inline constexpr unsigned kFirmwareMajor = 16, kFirmwareMinor = 35, kFirmwareSubminor = 4000;
inline constexpr char kBoardId[] = "SOFTHCA00000001"; ///< 16 bytes with its zero

/// Limits that are none of the device core.
inline constexpr uint8_t kLogMaxQps = 12; ///< those of type RAW_PACKET are SQs and RQs
inline constexpr uint8_t kLogMaxSrqs = 0; ///< of each type: the kernel's driver has that one
inline constexpr uint8_t kLogMaxSrqEntries = 15;
inline constexpr uint8_t kLocalAckDelay = 16;
inline constexpr unsigned kMinLogStrides = 3; ///< strides per striding receive WQE
inline constexpr uint16_t kMaxReceiveWqeBytes = 512;

} // namespace softhca
