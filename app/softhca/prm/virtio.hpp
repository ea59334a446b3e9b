// SPDX-License-Identifier: BSD-3-Clause
// Virtio emulation limits that the capabilities report, and that commands and fronts observe.
#pragma once

#include <cstdint>

namespace softhca::prm {

/// Features of a queue, as bits of device_features_bits_mask and of queue_feature_bit_mask_12_3,
/// which begin with these.
inline constexpr unsigned kVirtioFeatureBits = 4;
inline constexpr uint64_t kVirtioTsoIpv4 = 8, kVirtioTsoIpv6 = 4, kVirtioSendChecksum = 2,
                          kVirtioReceiveChecksum = 1;

/// For each of a queue's three umems, whatever its size (umem_*_buffer_param_b; *_a is 0).
inline constexpr uint32_t kVirtqUmemBytes = 4096;

/// Doorbell pages of queues (VARs) are at the end of the BAR: 2^5 pages of 4 KB.
inline constexpr uint8_t kLogVars = 5, kLogVarBytes = 12;
inline constexpr uint64_t kBarBytes = uint64_t{32} << 20;
inline constexpr uint64_t kVarsAt = kBarBytes - (uint64_t{1} << (kLogVars + kLogVarBytes));

} // namespace softhca::prm
