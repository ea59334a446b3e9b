// SPDX-License-Identifier: BSD-3-Clause
// What the devices say they are: a ConnectX-5 with one Ethernet port.
#pragma once

#include <cstdint>

namespace softhca::uverbs {

inline constexpr uint32_t kVendorId = 0x02c9; ///< IEEE OUI, as ibv_query_device reports it
inline constexpr uint16_t kPciDevice = 0x1017;
inline constexpr uint16_t kPciSubsystem = 0x0008;
inline constexpr unsigned kFirmwareMajor = 16, kFirmwareMinor = 35, kFirmwareSubminor = 1012;

/// Limits of mlx5_ib that are none of the device core.
inline constexpr unsigned kMinLogStrides = 3; ///< strides per striding receive WQE
inline constexpr uint16_t kMaxReceiveWqeBytes = 512;

} // namespace softhca::uverbs
